#include "codecs/quad_huffman/encode/arrange.h"

#include <algorithm>
#include <cstring>

namespace ecmv::codecs::quad_huffman {

datasets::LargeBytes arrange(datasets::MatrixView matrix, Layout layout) {
  if (layout == Layout::rows) return datasets::LargeBytes(0);
  const auto [rows, cols] = matrix.shape;
  const datasets::Shape stored = stored_shape(matrix.shape, layout);
  const int64_t each = datasets::element_bytes(matrix.type);
  const FragmentRuns runs = fragment_runs(matrix.type != datasets::ElementType::i8);
  const int64_t run = layout == Layout::strips ? kLaneCols : static_cast<int64_t>(runs);
  datasets::LargeBytes elements(static_cast<size_t>(stored.elements() * each));
  std::byte* to = elements.data();
  for (int64_t row = 0; row < stored.rows; ++row)
    for (int64_t col = 0; col < stored.cols; col += run) {
      const ElementPlace place =
          layout == Layout::strips ? place_of_strip(row, col) : place_of_fragment(row, col, runs);
      const std::byte* from = matrix.elements.data() + std::min(place.row, rows - 1) * cols * each;
      const int64_t there = std::clamp<int64_t>(cols - place.col, 0, run);
      if (there > 0) std::memcpy(to, from + place.col * each, static_cast<size_t>(there * each));
      to += there * each;
      for (int64_t i = there; i < run; ++i, to += each) {
        std::memcpy(to, from + (cols - 1) * each, static_cast<size_t>(each));
        if (matrix.type != datasets::ElementType::bf16) continue;
        uint16_t bits;
        std::memcpy(&bits, to, 2);
        constexpr uint16_t kExponent = 0x7F80, kOne = 0x3F80;
        if ((bits & kExponent) == kExponent) std::memcpy(to, &kOne, 2);
      }
    }
  return elements;
}

}  // namespace ecmv::codecs::quad_huffman
