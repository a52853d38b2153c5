// What lane groups that decode ahead of the vector and their helpers (ahead_gpu.h) have in common: sizes, the tiles that helpers
// list, and where things lie in a block's shared memory.
#pragma once

#include <bit>

#include "backends/gpu/async_copy.h"
#include "backends/gpu/gate.h"
#include "codecs/quad_huffman/chain_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Half of the helpers hand on vectors, half of them make tables and lists.
inline constexpr int kAheadCols = segment_cols(8), kHelpers = 4, kHelpersOfKind = kHelpers / 2,
                     kMostAheadThreads = (16 + kHelpers) * kLanes;
// A segment's codes are at most T lines, and a window reads the line after its first bit's. Masks of partial lines come
// before them.
inline constexpr int kAheadMaskBytes = kMostPartialLines * 4;
inline constexpr int ahead_code_bytes(int table_bits) { return kAheadMaskBytes + (table_bits + 1) * kLineBytes; }
// Of a lane group: two tiles take turns.
inline constexpr int kAheadTiles = 2;
inline constexpr int ahead_bytes(int form, int table_bits) {
  return kAheadTiles *
         (ahead_code_bytes(table_bits) + static_cast<int>(raw_bytes_of_segment(8, form)) + gpu::Arrival::kBytes);
}
// Windows have room for Table::at_shifted() of all their symbols.
inline constexpr int ahead_symbols_of_window(int table_bits) { return table_bits <= 9 ? 3 : 2; }
inline constexpr int ahead_copies(int table_bits) {
  int copies = 16;
  while (ahead_symbols_of_window(table_bits) * table_bits + 2 + std::countr_zero(static_cast<unsigned>(copies)) > 32)
    copies /= 2;
  return copies;
}

// The layers of the chain, and which row groups are a block's: each grid_size() after the one before.
struct AheadLayers {
  gpu::Pointer<const std::byte> layers;
  int count;

  ECMV_GPU_DEVICE const ChainLayer& operator[](int number) const {
    return *gpu::cast<const ChainLayer>(layers + number * static_cast<int>(kStoredLayerBytes));
  }
  ECMV_GPU_DEVICE static int group_of(int round) { return round * gpu::grid_size() + gpu::block_index(); }
};

// Where a tile is, which the helpers say to a lane group. The raw bits are those of tile `number`.
struct AheadTile {
  uint32_t first_unit, code_bytes, number, lines;  // code_bytes: 0 if there is no tile
  uint32_t first_patch, patches, round, column;
};
inline constexpr int kAheadTileBytes = 32, kAheadLists = 4;  // lists of four layers take turns
static_assert(sizeof(AheadTile) == kAheadTileBytes);

// A block's shared memory after the plan's: gates; sums of x, of two layers in turn, a word a helper; how many tiles a lane group
// has of each of four layers; these; sums of the rows; the descriptions of all layers.
struct AheadPlaces {
  gpu::Pointer<std::byte> first;
  int list_bytes;
  static constexpr int kXSumsAt = (6 + kAheadLists) * gpu::kGateBytes, kCountsAt = kXSumsAt + 2 * kHelpersOfKind * 4,
                       kListsAt = kCountsAt + kAheadLists * 4;
  static_assert(kListsAt % 16 == 0);

  ECMV_GPU_DEVICE gpu::Gate gate(int i) const { return gpu::Gate(first + i * gpu::kGateBytes); }
  // Each waiter waits for every phase of a gate. Gates take turns where one phase may end before a waiter has come to the one
  // before it.
  ECMV_GPU_DEVICE gpu::Gate x_there() const { return gate(0); }
  ECMV_GPU_DEVICE gpu::Gate multiplied(int layer) const { return gate(1 + layer % 2); }
  ECMV_GPU_DEVICE gpu::Gate table_there(int layer) const { return gate(3 + layer % 2); }
  ECMV_GPU_DEVICE gpu::Gate list_there(int layer) const { return gate(5 + layer % kAheadLists); }
  ECMV_GPU_DEVICE gpu::Pointer<int32_t> x_sums(int layer) const {
    return gpu::cast<int32_t>(first + kXSumsAt) + layer % 2 * kHelpersOfKind;
  }
  ECMV_GPU_DEVICE gpu::Pointer<int32_t> tile_count(int layer) const {
    return gpu::cast<int32_t>(first + kCountsAt) + layer % kAheadLists;
  }
  // The tiles of all lane groups, then their next ones.
  ECMV_GPU_DEVICE gpu::Pointer<std::byte> list(int layer) const {
    return first + (kListsAt + layer % kAheadLists * list_bytes);
  }
  ECMV_GPU_DEVICE gpu::Pointer<int32_t> sums() const {
    return gpu::cast<int32_t>(first + (kListsAt + kAheadLists * list_bytes));
  }
};
inline int ahead_places_bytes(int rounds, int list_bytes) {
  return AheadPlaces::kListsAt + kAheadLists * list_bytes + rounds * kLanes * 4;
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
