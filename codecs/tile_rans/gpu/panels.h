// How 32 lanes (a lane group) bring the symbols of tiles to registers, as operands of matrix units: four quads of each
// panel a lane, handed to a `sink` that multiplies them or stores them in shared memory. A coder walks the panels of a
// tile, or of two side by side, 32 columns a step or 64. Words whose place every lane knows are loaded
// a step ahead, and requested into the L2 cache before. This file has the parts that coders share, and plain packed
// bits.
#pragma once

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "backends/gpu/shared_address.h"
#include "codecs/tile_rans/format.h"

namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE {
namespace gpu = backends::ECMV_GPU_NAMESPACE;

using LaneGroup = gpu::Lanes<kLanes>;

inline constexpr int kMostLaneGroups = 16;              // of a block, but for few tokens
inline constexpr int kPanelBytes = kLanes * 16;         // as an operand
inline constexpr int kLaneGroupPanels = 8;              // that a lane group decodes in a step
inline constexpr int kPanels = kTileRows / kPanelRows;  // of a tile's column of panels

// The place of an element's byte in a panel that is an operand, repeated here for devices from format.h.
ECMV_GPU_DEVICE int place_in_panel(int row, int col) {
  return (row % 8 * 4 + col % 16 / 4) * 16 + (row / 8 + col / 16 * 2) * 4 + col % 4;
}

// A matrix as a kernel sees it.
struct TileStream {
  gpu::Pointer<const std::byte> tables, index, codes, raw;
  int64_t rows, cols;
  int tiles_across, steps;  // steps of 32 columns
  int tile_steps, tile_shift, tile_cols;
  int streams, table_bits;
  int table_bytes, copy_bits;  // of the table in shared memory, which has 2^copy_bits copies
  // In shared memory: each lane group's own part, and levels of the decode kernel; the table comes after them.
  int own_place, own_bytes, levels_place;
  int padded_steps;              // huffman_lanes: of a strip
  int first_lines, piece_lines;  // huffman_lanes: lines of a tile that are fetched early; lines that a piece may use up
  int line_bytes_of_bit;         // bytes of a line for one bit of a lane, which nvcc must not know: it would make three
                                 // instructions of an address
  uint32_t zero;                 // which nvcc does not know
};

// The strip of tiles of a thread block.
struct Strip {
  int64_t down;
  int panels_down;      // that exist
  int64_t first_panel;  // of the matrix
  // The first panel of a step; the others of the tile's column follow.
  ECMV_GPU_DEVICE int64_t panel(int step) const { return first_panel + int64_t{step} * panels_down; }
};

// Steps that are requested into the L2 cache before a lane group loads them.
inline constexpr int kAheadSteps = 3;

// Requests kBytes-byte panels of some steps into the L2 cache.
template <int64_t kBytes>
ECMV_GPU_DEVICE void prefetch_steps(gpu::Pointer<const std::byte> panels, const TileStream& stream, const Strip& strip,
                                    int step, int steps) {
  if (step >= stream.steps || LaneGroup::lane() != 0) return;
  if (steps > stream.steps - step) steps = stream.steps - step;
  gpu::prefetch_l2(panels + strip.panel(step) * kBytes, steps * strip.panels_down * static_cast<int>(kBytes));
}

// A lane's words of a column of panels; undefined for panels that do not exist.
template <typename Words>
ECMV_GPU_DEVICE void load_panels(gpu::Pointer<const Words> words, int panels_down, Words (&out)[kPanels]) {
  if (panels_down == kPanels) {
    ECMV_GPU_UNROLL
    for (int rg = 0; rg < kPanels; ++rg) out[rg] = gpu::load_streaming_here(words + rg * kLanes);
  } else {
    ECMV_GPU_UNROLL
    for (int rg = 0; rg < kPanels; ++rg)
      if (rg < panels_down) out[rg] = gpu::load_streaming_here(words + rg * kLanes);
  }
}

// A lane group's tiles between two beginnings: each one's number, its first step, and the first step of the tile after
// it, which lies beyond the matrix if there is none.
template <int kTiles>
struct Round {
  int across[kTiles], first[kTiles], after[kTiles];
};

struct PackedTiles {
  static constexpr int kTiles = 2, kSteps = 1;   // tiles of a lane group at once, steps that one call decodes
  static constexpr int kSmallOperands = 3;       // up to which 64 registers do
  static constexpr bool kIsForRegisters = true;  // hands out quads as matrix units take them
  static constexpr int kMostLaneGroups = 16;     // of a block for few tokens
  static constexpr int64_t kSharedBytes = 0;     // of a lane group

  ECMV_GPU_DEVICE PackedTiles(const TileStream& stream, const Strip& strip, int, gpu::SharedAddress)
      : stream_(stream), strip_(strip) {}

  // Makes the table that the block shares; a barrier follows.
  static ECMV_GPU_DEVICE void make_table(const TileStream&, gpu::SharedAddress) {}
  // The beginning of a round, in three parts: each requests what the next one needs. `anew`: nothing has been loaded
  // for the round's first step.
  ECMV_GPU_DEVICE void ask(const Round<kTiles>&) {}
  ECMV_GPU_DEVICE void load(const Round<kTiles>& round, bool anew) {
    if (!anew) return;
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      prefetch_steps<kPackedPanelBytes>(stream_.codes, stream_, strip_, round.first[tile],
                                        kAheadSteps < stream_.tile_steps ? kAheadSteps : stream_.tile_steps);
      load_words(tile, round.first[tile], 0);
    }
  }
  ECMV_GPU_DEVICE void start() {}

  // Hands sink(tile, panel, quads) the panels of kSteps steps of the tiles from step number `step` on, down and then to
  // the right. Panels of steps beyond the matrix are undefined.
  template <typename Sink>
  ECMV_GPU_DEVICE void decode(const Round<kTiles>& round, int step, const Sink& sink) {
    // Everything loaded is used before the first new load, whose address depends on it: a wait for one load is a wait
    // for the newest.
    uint32_t newest = stream_.zero;
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      newest &= ahead_[tile][kPanels - 1].y;
      ECMV_GPU_UNROLL
      for (int rg = 0; rg < kPanels; ++rg) {
        const gpu::uint2 words = ahead_[tile][rg];
        sink(tile, rg,
             gpu::uint4{words.x & 0x0F0F0F0Fu, words.x >> 4 & 0x0F0F0F0Fu, words.y & 0x0F0F0F0Fu,
                        words.y >> 4 & 0x0F0F0F0Fu});
      }
    }
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      load_words(tile, step + 1 < stream_.tile_steps ? round.first[tile] + step + 1 : round.after[tile],
                 static_cast<int>(newest));
      if (step + kAheadSteps < stream_.tile_steps)
        prefetch_steps<kPackedPanelBytes>(stream_.codes, stream_, strip_, round.first[tile] + step + kAheadSteps, 1);
    }
  }

 private:
  ECMV_GPU_DEVICE void load_words(int tile, int step, int zero) {
    if (step >= stream_.steps) return;
    load_panels(gpu::cast<const gpu::uint2>(stream_.codes) + (strip_.panel(step) * kLanes + (LaneGroup::lane() | zero)),
                strip_.panels_down, ahead_[tile]);
  }

  const TileStream& stream_;
  const Strip& strip_;
  gpu::uint2 ahead_[kTiles][kPanels] = {};
};

}  // namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE
