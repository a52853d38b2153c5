// Host side of every kernel: policies, the type that decodes a setting's tiles, how a block's waves share its shared
// memory, and into how many splits the columns are cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/tile_rans/format.h"
#include "codecs/tile_rans/gpu/huffman.h"
#include "codecs/tile_rans/gpu/products.h"
#include "codecs/tile_rans/gpu/streams.h"

namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE {

inline constexpr int64_t kReservedBytes = 1024;
inline constexpr int kMostSplits = 8;
inline constexpr int kMostHuffmanCopies = 4;  // as a power of two: 16; 32 are no faster, 8 are 2 % slower

template <int kValue>
using Constant = std::integral_constant<int, kValue>;

// Calls f(the identity of a coder's type); the results are of one type.
template <typename F>
auto with_coder(const Layout& layout, F f) {
  if (layout.coder == Coder::packed) return f(std::type_identity<PackedTiles>{});
  if (layout.coder == Coder::rans && layout.streams > kLanes) return f(std::type_identity<StreamTiles<2>>{});
  if (layout.coder == Coder::rans) return f(std::type_identity<StreamTiles<1>>{});
  if (layout.table_bits <= 10 && layout.symbol_cols == 2) return f(std::type_identity<HuffmanTiles<2, 4>>{});
  if (layout.table_bits <= 10) return f(std::type_identity<HuffmanTiles<4, 4>>{});
  if (layout.symbol_cols == 2) return f(std::type_identity<HuffmanTiles<2, 3>>{});
  return f(std::type_identity<HuffmanTiles<4, 3>>{});
}

// The form of a product's block.
struct Form {
  int lane_groups, blocks;  // of a block; on a multiprocessor
  bool registers;           // for few tokens, multiplied where they are decoded
};
struct FormPolicy : backends::Policy {
  Form form;
};
inline constexpr FormPolicy kPolicies[] = {
    {{"panels16"}, {16, 1, false}},       {{"panels16_twice"}, {16, 2, false}},   {{"registers16"}, {16, 1, true}},
    {{"registers8_twice"}, {8, 2, true}}, {{"registers16_twice"}, {16, 2, true}}, {{"registers32"}, {32, 1, true}},
};
inline constexpr Form kPlainForm = kPolicies[0].form;  // of the decode kernel, and where another one has no room
inline constexpr int64_t kSystemBytes = 1024;          // shared memory that every block needs besides its own

// A block's lane groups and shared memory: operands, unless products are made in registers; the lane groups' own parts;
// levels; the table.
struct Plan {
  int lane_groups = 0;  // 0: there is no room
  int tiles = 0;        // of a lane group at once
  int copy_bits = 0, table_bytes = 0, own_place = 0, own_bytes = 0, levels_place = 0;
  int64_t shared_bytes = 0;
};

// Lines of the room for a tile of huffman_lanes: the longest tile's, one before them and, for the last window, two
// after them.
inline int64_t room_lines(const CompressedView& view) {
  uint32_t most = 0;
  std::memcpy(&most, view.sections[kLayer].host.data() + kLayerBytes, 4);
  return most + 3;
}

// A coder's needs for a lane group, for as many tokens as one operand takes.
struct Needs {
  int64_t own_bytes = 0;
  int tiles = 0, most_lane_groups = 0;
};
inline Needs needs_of(const CompressedView& view, const Layout& layout, const Form& form) {
  return with_coder(layout, [&](auto coder) {
    using Type = typename decltype(coder)::type;
    Needs needs;
    needs.tiles = Type::kTiles;
    needs.most_lane_groups = form.registers ? Type::kMostLaneGroups : kMostLaneGroups;
    if constexpr (requires { Type::kSharedBytes; })
      needs.own_bytes = Type::kSharedBytes;
    else
      needs.own_bytes = room_lines(view) * kLineBytes;
    return needs;
  });
}

inline bool has_table(const Layout& layout) { return layout.coder == Coder::huffman_lanes; }
// As many lane groups as fit, then as many copies of the table. Sums take the place of everything in the end.
inline Plan plan_of(const CompressedView& view, const Layout& layout, const Form& form, int64_t block_bytes) {
  const int64_t room = (block_bytes + kSystemBytes) / form.blocks - kSystemBytes;
  const Needs needs = needs_of(view, layout, form);
  const int most_copies = has_table(layout) ? kMostHuffmanCopies : 0;
  for (int lane_groups = std::min(form.lane_groups, needs.most_lane_groups); lane_groups * kPanelRows >= kTileRows;
       lane_groups /= 2)
    for (int bits = most_copies; bits >= 0; --bits) {
      const int64_t table = has_table(layout) ? int64_t{4} << (layout.table_bits + bits) : 0,
                    own_place = form.registers ? 0 : lane_groups * kLaneGroupPanels * kPanelBytes;
      const int64_t levels_place = own_place + lane_groups * needs.own_bytes, before = levels_place + 4 * kLevels;
      // Shared memory begins up to kReservedBytes after a multiple of everything.
      const int64_t needed = has_table(layout) ? (kReservedBytes + before + table - 1) / table * table + table : before;
      const int64_t sums = kTileRows * (kMostOperands * kUnitColumns + 1) * 4, shared = std::max(needed, sums);
      if (shared <= room)
        return {lane_groups,
                needs.tiles,
                bits,
                static_cast<int>(table),
                static_cast<int>(own_place),
                static_cast<int>(needs.own_bytes),
                static_cast<int>(levels_place),
                shared};
    }
  return {};
}

// The stream without the fields that a plan sets.
inline TileStream stream_of(const CompressedView& view, const Layout& layout) {
  TileStream stream{};
  stream.tables = view.sections[kTables].bytes.data();
  stream.index = view.sections[kIndex].bytes.data();
  stream.codes = view.sections[kCodes].bytes.data();
  stream.raw = view.sections[kRaw].bytes.data();
  stream.rows = layout.shape.rows;
  stream.cols = layout.shape.cols;
  stream.tiles_across = static_cast<int>(layout.tiles_across);
  stream.steps = static_cast<int>((layout.shape.cols + kPanelCols - 1) / kPanelCols);
  stream.tile_cols = static_cast<int>(layout.tile_cols);
  stream.tile_steps = static_cast<int>(layout.tile_cols / kPanelCols);
  while (1 << stream.tile_shift < stream.tile_steps) ++stream.tile_shift;
  stream.streams = layout.streams;
  stream.table_bits = layout.table_bits;
  if (layout.coder != Coder::huffman_lanes) return stream;
  stream.padded_steps = static_cast<int>(layout.padded_cols() / kPanelCols);
  stream.first_lines = static_cast<int>(room_lines(view) / 2 / kBlockLines * kBlockLines);
  stream.piece_lines = (kPiecePanels * kPanelQuads * 4 / layout.symbol_cols * layout.table_bits + 31) / 32;
  stream.line_bytes_of_bit = kLineBytes / 32;
  return stream;
}

inline TileStream planned(TileStream stream, const Plan& plan) {
  stream.table_bytes = plan.table_bytes;
  stream.copy_bits = plan.copy_bits;
  stream.own_place = plan.own_place;
  stream.own_bytes = plan.own_bytes;
  stream.levels_place = plan.levels_place;
  return stream;
}

// Splits of the columns, so that the blocks fill the device evenly. A block should have a tile for each of its slots.
inline int most_splits(const Layout& layout) {
  return static_cast<int>(std::clamp<int64_t>(512 / std::max<int64_t>(1, layout.tiles_down), 1, kMostSplits));
}
inline int splits_of(const Layout& layout, const Plan& plan, int blocks, const backends::DeviceInfo& device) {
  if (plan.lane_groups == 0) return 1;
  const int64_t slots = plan.lane_groups * plan.tiles, units = std::max(1, device.compute_units * blocks);
  const auto use = [](int64_t work, int64_t places) {
    return static_cast<double>(work) / static_cast<double>((work + places - 1) / places * places);
  };
  int best = 1;
  double most = 0;
  for (int splits = 1; splits <= most_splits(layout) && splits <= layout.tiles_across; ++splits) {
    const double used =
        use(layout.tiles_down * splits, units) * use((layout.tiles_across + splits - 1) / splits, slots);
    if (used > most * 1.05) {
      best = splits;
      most = used;
    }
  }
  return best;
}

}  // namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE
