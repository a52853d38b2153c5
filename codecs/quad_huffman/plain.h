// Elements that are stored as they are, on CPUs, and the sentences with which several kernels refuse a matrix.
#pragma once

#include <cstdint>

#include "backends/kernel.h"
#include "codecs/quad_huffman/format/header.h"

namespace ecmv::codecs::quad_huffman {

// y = W x by kDense(elements, rows, cols, x, y).
template <void (*kDense)(const int8_t*, int64_t, int64_t, const int8_t*, int32_t*)>
struct PlainProduct {
  const int8_t* elements;
  int64_t cols;
  explicit PlainProduct(const CompressedView& view)
      : elements(reinterpret_cast<const int8_t*>(view.sections[kRaw].bytes.data())), cols(view.shape.cols) {}
  void operator()(void*, const backends::MatvecArgs& args) const {
    kDense(elements + args.rows.begin * cols, args.rows.count(), cols, args.x, args.y + args.rows.begin);
  }
};

inline constexpr const char* kRefusesPlain =
    "The elements are stored as they are, for which there is the kernel plain.";
inline constexpr const char* kRefusesCodes = "The elements are stored as codes.";
inline constexpr const char* kRefusesFragments =
    "The kernel takes lanes' rows for rows of the matrix; these are fragments or strips.";
inline constexpr const char* kRefusesRows = "The kernel takes what lanes have for fragments; these are rows.";

}  // namespace ecmv::codecs::quad_huffman
