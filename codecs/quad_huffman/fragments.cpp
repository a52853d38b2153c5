#include "codecs/quad_huffman/fragments.h"

#include <algorithm>
#include <cstring>

namespace ecmv::codecs::quad_huffman {

std::vector<std::byte> to_fragments(datasets::MatrixView matrix) {
  const auto [rows, cols] = matrix.shape;
  const datasets::Shape stored = fragments_shape(matrix.shape);
  const int64_t each = datasets::element_bytes(matrix.type);
  std::vector<std::byte> elements(static_cast<size_t>(stored.elements() * each));
  std::byte* to = elements.data();
  const FragmentRuns runs = runs_of(matrix.type);
  const auto run = static_cast<int64_t>(runs);
  for (int64_t row = 0; row < stored.rows; ++row)
    for (int64_t col = 0; col < stored.cols; col += run) {
      const ElementPlace place = place_of_fragment(row, col, runs);
      const std::byte* from = matrix.elements.data() + std::min(place.row, rows - 1) * cols * each;
      if (place.row < rows && place.col + run <= cols) {
        std::memcpy(to, from + place.col * each, static_cast<size_t>(run * each));
        to += run * each;
        continue;
      }
      for (int64_t i = place.col; i < place.col + run; ++i, to += each) {
        std::memcpy(to, from + std::min(i, cols - 1) * each, static_cast<size_t>(each));
        if (i < cols || matrix.type != datasets::ElementType::bf16) continue;
        uint16_t bits;
        std::memcpy(&bits, to, 2);
        constexpr uint16_t kExponent = 0x7F80, kOne = 0x3F80;
        if ((bits & kExponent) == kExponent) std::memcpy(to, &kOne, 2);
      }
    }
  return elements;
}

}  // namespace ecmv::codecs::quad_huffman
