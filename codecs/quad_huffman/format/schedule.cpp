// Positions follow from the schedule (lanes that lag are moved), the schedule from the positions (the leading lane
// decides which lines must be there). Both only ever grow when one is computed from the other, so repeating ends: in
// the first round for lanes that drift apart by less than the ring, as in all normal data.
#include "codecs/quad_huffman/format/schedule.h"

#include <algorithm>

namespace ecmv::codecs::quad_huffman {

namespace {

int64_t lines_of(std::span<const LaneBits, kLanes> lanes, int segments) {
  int64_t most = 0;
  for (const LaneBits& lane : lanes) most = std::max<int64_t>(most, lane.begin[segments - 1] + lane.bits[segments - 1]);
  return (most + 31) / 32;
}

}  // namespace

int64_t make_schedule(std::span<LaneBits, kLanes> lanes, std::span<uint8_t> blocks) {
  const int segments = static_cast<int>(blocks.size());
  std::array<int64_t, kMostSegments> until{};  // blocks fetched before segment s
  for (bool settled = false; !settled;) {
    settled = true;
    const int64_t old_lines = lines_of(lanes, segments);
    for (LaneBits& lane : lanes) {
      int64_t position = 0;
      for (int s = 0; s < segments; ++s) {
        const int64_t reach = reach_of(until[std::min(s + kAhead, segments - 1)], old_lines);
        position = std::max(position, 32 * (reach - kRingLines));
        if (lane.begin[s] != position) settled = false;
        lane.begin[s] = static_cast<int32_t>(position);
        position += lane.bits[s];
      }
    }
    const int64_t lines = lines_of(lanes, segments);
    int64_t needed = 0;
    for (int s = 0; s < segments; ++s) {
      // A window is two words, and the second one may lie past the segment's last bit. It must not be read while it is
      // fetched.
      for (const LaneBits& lane : lanes)
        needed = std::max<int64_t>(needed, (lane.begin[s] + lane.bits[s] - 1) / 32 + 2);
      const int64_t least = (std::min(needed, lines) + kBlockLines - 1) / kBlockLines;
      if (least > until[s]) until[s] = least, settled = false;
    }
  }
  for (int s = 0; s < segments; ++s) blocks[s] = static_cast<uint8_t>(until[s] - (s > 0 ? until[s - 1] : 0));
  return lines_of(lanes, segments);
}

}  // namespace ecmv::codecs::quad_huffman
