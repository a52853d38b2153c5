#include "codecs/quad_huffman/strips.h"

#include <algorithm>
#include <cstring>

namespace ecmv::codecs::quad_huffman {

int64_t append_packets(std::span<const uint32_t> patches, std::vector<std::byte>& to) {
  constexpr PlacedPatch kMoves{kNoPatchDistance, false};
  std::vector<PlacedPatch> placed;
  int last = 0;
  for (const uint32_t patch : patches) {
    const auto place = static_cast<int>(patch >> 1);
    for (; place - last >= kNoPatchDistance; last += kNoPatchDistance) placed.push_back(kMoves);
    placed.push_back({place - last, (patch & 1) != 0});
    last = place;
  }
  const size_t packets = (placed.size() + kPacketPatches - 1) / kPacketPatches;
  placed.resize(packets * kPacketPatches, kMoves);
  for (size_t i = 0; i < placed.size(); i += 2) {
    const int both = placed[i].bits() | placed[i + 1].bits() << kPlacedPatchBits;
    for (int byte = 0; byte < 3; ++byte) to.push_back(static_cast<std::byte>(both >> (8 * byte) & 0xff));
  }
  return static_cast<int64_t>(packets);
}

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
