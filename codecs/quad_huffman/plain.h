// Matrices that take fewer bytes as they are: their stream is a header of one byte, kPlain, and the elements, row-major,
// in the section of raw bits.
#pragma once

#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format.h"

namespace ecmv::codecs::quad_huffman {

inline bool is_plain(const CompressedView& view) {
  const auto& header = view.sections[kHeader].host;
  return header.size() == 1 && header[0] == std::byte{kPlain};
}

inline constexpr const char* kRefusesPlain =
    "The elements are stored as they are, for which there is the kernel plain.";
inline constexpr const char* kRefusesCodes = "The elements are stored as codes.";
inline constexpr const char* kRefusesFragments =
    "The kernel takes lanes' rows for rows of the matrix; these are fragments or strips.";
inline constexpr const char* kRefusesRows = "The kernel takes what lanes have for fragments; these are rows.";

}  // namespace ecmv::codecs::quad_huffman
