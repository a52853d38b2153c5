#include "codecs/quad_huffman/strips.h"

#include <algorithm>
#include <cstring>

namespace ecmv::codecs::quad_huffman {

std::vector<std::byte> to_strips(datasets::MatrixView matrix) {
  const auto [rows, cols] = matrix.shape;
  const datasets::Shape stored = strips_shape(matrix.shape);
  std::vector<std::byte> elements(static_cast<size_t>(stored.elements()));
  std::byte* to = elements.data();
  for (int64_t lane = 0; lane < stored.rows; ++lane)
    for (int64_t row = 0; row < rows; ++row, to += kLaneCols) {
      const int64_t col = lane * kLaneCols, there = std::clamp<int64_t>(cols - col, 0, kLaneCols);
      const std::byte* from = matrix.elements.data() + row * cols;
      if (there > 0) std::memcpy(to, from + col, static_cast<size_t>(there));
      std::fill(to + there, to + kLaneCols, from[cols - 1]);
    }
  return elements;
}

}  // namespace ecmv::codecs::quad_huffman
