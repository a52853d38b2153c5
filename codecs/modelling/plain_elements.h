// Elements stored as they are, row-major and without padding, as the only section of a matrix: the stored bytes of the
// uncompressed codecs, version 1.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "codecs/codec.h"
#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::modelling {

inline constexpr int kPlainElements = 0;  // section number

template <class T>
const T* plain_elements(const CompressedView& matrix) {
  return reinterpret_cast<const T*>(matrix.sections[kPlainElements].bytes.data());
}

inline int64_t plain_row_bytes(const CompressedView& matrix) {
  return matrix.shape.cols * datasets::element_bytes(matrix.type);
}

// `stated` has summary and source. `id` is the codec's, for messages; `type` is the one type that it stores.
inline Codec make_plain_codec(Codec stated, const std::string& id, datasets::ElementType type) {
  const std::string name(type == datasets::ElementType::i8 ? "int8" : datasets::element_type_name(type));
  stated.refuses = [=](datasets::MatrixView matrix, const Settings&) {
    return matrix.type == type ? "" : id + " stores " + name + " elements only.";
  };
  stated.encode = [](datasets::MatrixView matrix, const Settings& settings) {
    CompressedMatrix compressed = make_compressed(matrix, settings);
    compressed.sections.push_back({"elements", Role::payload, 64, {matrix.elements.begin(), matrix.elements.end()}});
    return compressed;
  };
  stated.decode = [=](const CompressedView& compressed, std::span<std::byte> out) {
    if (compressed.sections.size() != 1 || compressed.sections[kPlainElements].bytes.size() != out.size())
      throw MalformedStream("A " + id + " stream must hold exactly the bytes of rows x cols elements.");
    if (!out.empty()) std::memcpy(out.data(), compressed.sections[kPlainElements].bytes.data(), out.size());
  };
  stated.max_stored_bytes = [](datasets::Shape shape, const Settings&) { return shape.elements(); };
  return stated;
}

}  // namespace ecmv::codecs::modelling
