// Elements that are stored as they are, row-major, as the only section of a matrix: what the uncompressed codecs do.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "codecs/codec.h"

namespace ecmv::codecs::modelling {

inline CompressedMatrix store_elements(datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections.push_back({"elements", Role::payload, 64, {matrix.elements.begin(), matrix.elements.end()}});
  return compressed;
}

// Throws MalformedStream where `out`, rows x cols elements, has another size than what is stored; `codec` is its id.
inline void load_elements(const CompressedView& compressed, std::span<std::byte> out, std::string_view codec) {
  if (compressed.sections.size() != 1 || compressed.sections[0].bytes.size() != out.size())
    throw MalformedStream("A " + std::string(codec) + " stream must hold exactly the bytes of rows x cols elements.");
  if (!out.empty()) std::memcpy(out.data(), compressed.sections[0].bytes.data(), out.size());
}

}  // namespace ecmv::codecs::modelling
