// Tests how raw bits lie in words, and when lines of codes are fetched.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <span>
#include <vector>

#include "codecs/quad_huffman/format/header.h"
#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/format/raw_planes.h"
#include "codecs/quad_huffman/format/schedule.h"

namespace format = ecmv::codecs::quad_huffman;

TEST_CASE("quad_huffman stores raw bits of no more columns than there are, up to a unit", "[quad_huffman]") {
  format::Header header{.form = 4, .table_bits = 8, .lowest = 0, .tile_segments = 1, .symbol_cols = 8};
  const int64_t segment = format::raw_bytes_of_segment(8, header.form);
  CHECK(format::raw_bytes_of_cols(header, 256) == segment);
  CHECK(format::raw_bytes_of_cols(header, 256 + 32) == segment + segment / 8);
  CHECK(format::raw_bytes_of_cols(header, 256 + 33) == segment + segment / 4);
  CHECK(format::raw_bytes_past(header, 256 + 33) == segment - segment / 4);
  CHECK(format::raw_bytes_past(header, 512) == 0);
}

TEST_CASE("quad_huffman packs raw bits into planes of words and finds them again", "[quad_huffman]") {
  std::mt19937 random(4);
  for (const bool folded : {false, true})
    for (int raw_bits = 0; raw_bits <= format::kMostRawBits; ++raw_bits) {
      uint32_t quads[8], words[8], again[8];
      for (uint32_t& quad : quads) quad = static_cast<uint32_t>(random()) & format::low_bits_of_bytes(raw_bits);
      const format::Planes planes = format::planes_of(raw_bits + (folded ? format::kFolded : 0));
      format::pack_raw(planes, false, quads, words);
      format::unpack_raw(planes, false, words, again);
      CHECK(std::equal(quads, quads + 8, again));
    }
  // Quad 6 of three raw bits: its two low bits end word 0, its third one follows in word 1.
  uint32_t quads[8] = {0, 0, 0, 0, 0, 0, 0x07, 0x0100}, words[3];
  format::pack_raw(format::planes_of(3), false, quads, words);
  CHECK(words[0] == 0xc0);
  CHECK(words[1] == 0x8040);
  CHECK(words[2] == 0);

  for (const int bits : {0, 1, 2}) {
    uint32_t again[8];
    for (uint32_t& quad : quads) quad = static_cast<uint32_t>(random()) & format::low_bits_of_bytes(bits);
    format::pack_raw({bits, 0}, true, quads, words);
    format::unpack_raw({bits, 0}, true, words, again);
    CHECK(std::equal(quads, quads + 8, again));
  }
  // Quads 3 and 4 of two raw bits: quad 3 is second in word 0's upper nibbles, quad 4 first in word 1's lower ones.
  const uint32_t two[8] = {0, 0, 0, 0x03, 0x0200};
  format::pack_raw({2, 0}, true, two, words);
  CHECK(words[0] == 0xc0);
  CHECK(words[1] == 0x0200);
}

TEST_CASE("quad_huffman schedules keep every lane inside the ring", "[quad_huffman]") {
  std::mt19937 random(6);
  int moved_lanes = 0;
  for (int round = 0; round < 300; ++round) {
    const int segments = 1 + static_cast<int>(random() % format::kMostSegments);
    std::vector<format::LaneBits> lanes(format::kLanes);
    for (format::LaneBits& lane : lanes) {
      int32_t position = 0;
      for (int s = 0; s < segments; ++s) {
        const int symbols = format::kSegmentSymbols;
        lane.bits[s] =
            random() % 3 == 0 ? symbols * format::kMostTableBits : symbols + static_cast<int32_t>(random() % symbols);
        lane.begin[s] = position;
        position += lane.bits[s];
      }
    }
    const std::vector<format::LaneBits> before = lanes;
    std::vector<uint8_t> blocks(segments);
    const int64_t lines = format::make_schedule(std::span<format::LaneBits, format::kLanes>(lanes), blocks);
    std::vector<int64_t> reach;
    int64_t fetched = 0, longest = 0;
    for (const uint8_t count : blocks) reach.push_back(format::reach_of(fetched += count, lines));
    for (int l = 0; l < format::kLanes; ++l) {
      int64_t position = 0;
      for (int s = 0; s < segments; ++s) {
        position = std::max(position, 32 * (reach[std::min(s + format::kAhead, segments - 1)] - format::kRingLines));
        CHECK(lanes[l].begin[s] == position);
        moved_lanes += lanes[l].begin[s] != before[l].begin[s];
        position += lanes[l].bits[s];
        CHECK(position <= 32 * reach[s]);
      }
      longest = std::max(longest, position);
    }
    CHECK(lines == (longest + 31) / 32);
  }
  CHECK(moved_lanes > 0);
}
