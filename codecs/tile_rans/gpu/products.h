// The products of tiles with tokens, two kernels for all coders. A thread block has a strip of tile rows and walks its
// columns; tokens are digits (digits.h), sums exact integers, so the order of additions does not matter.
//   matmul_panels     lane groups decode panels of many tiles to shared memory, then multiply them, each 16 rows and a
//                     part of the columns with all tokens, and so on: a tile is decoded once for up to 64 tokens, whose
//                     sums are spread over the lane groups.
//   matmul_registers  for few tokens: a lane group multiplies what it has decoded in place, in registers, and adds up
//                     its tiles; nobody waits for others until the end.
#pragma once

#include "backends/gpu/products/matrix_units.h"
#include "codecs/tile_rans/gpu/digits.h"
#include "codecs/tile_rans/gpu/panels.h"

namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE {

inline constexpr int kMostThreads = kMostLaneGroups * kLanes;
inline constexpr int kMostOperands = 12;  // of a lane group: 32 tokens

// The output: y or, for splits, sums [splits][columns][rows].
struct Output {
  gpu::TokenView tokens;
  Dequantise dequantise;
  gpu::Pointer<int32_t> sums;
  int splits;
};

// The columns of tiles that a block walks, `slots` at a time.
struct Walk {
  int first, end;
  int lane_group, slots, tile_shift, steps;  // a tile has 2^tile_shift steps

  // The lane group's tiles of the round from `base` on. Past the end the last tile is repeated, and its operands are
  // not used.
  template <int kTiles>
  ECMV_GPU_DEVICE Round<kTiles> round(int base) const {
    Round<kTiles> round;
    const int first_tile = base + lane_group * kTiles;
    ECMV_GPU_UNROLL
    for (int i = 0; i < kTiles; ++i) {
      round.across[i] = first_tile + i < end ? first_tile + i : first_tile;
      round.first[i] = round.across[i] << tile_shift;
      round.after[i] = round.across[i] + slots < end ? (round.across[i] + slots) << tile_shift : steps;
    }
    return round;
  }
};

// The columns of one of a strip's `splits` parts.
ECMV_GPU_DEVICE Walk walk_of(const TileStream& stream, int splits, int split, int lane_group, int slots) {
  return {stream.tiles_across * split / splits,
          stream.tiles_across * (split + 1) / splits,
          lane_group,
          slots,
          stream.tile_shift,
          stream.steps};
}

ECMV_GPU_DEVICE Strip strip_of(const TileStream& stream, int64_t down) {
  const int64_t rows = stream.rows - down * kTileRows;
  return {down, rows < kTileRows ? static_cast<int>((rows + kPanelRows - 1) / kPanelRows) : kPanels,
          down * kPanels * int64_t{stream.steps}};
}

// The table lies at a multiple of its size.
ECMV_GPU_DEVICE gpu::SharedAddress table_of(const TileStream& stream) {
  const gpu::SharedAddress end(gpu::shared_memory() + (stream.levels_place + 4 * kLevels));
  return stream.table_bytes > 0 ? end.aligned(stream.table_bytes) : end;
}

// Stores a lane group's quads as operands for all.
template <class Coder>
struct ToShared {
  gpu::Pointer<gpu::uint4> own;  // of this lane group's first tile
  ECMV_GPU_DEVICE void operator()(int tile, int panel, gpu::uint4 quads) const {
    own[(tile * Coder::kSteps * kPanels + panel) * kLanes + LaneGroup::lane()] = quads;
  }
  ECMV_GPU_DEVICE gpu::Pointer<uint8_t> bytes() const { return gpu::cast<uint8_t>(own); }
};

template <class Coder>
ECMV_GPU_DEVICE ToShared<Coder> to_shared(int lane_group) {
  return {gpu::cast<gpu::uint4>(gpu::shared_memory()) + lane_group * kLaneGroupPanels * kLanes};
}

// A strip's sums of kOperands operands in shared memory.
template <int kOperands>
struct StripSums {
  static constexpr int kStride = kOperands * kUnitColumns + 1, kTokens = kOperands * kUnitColumns / kDigits;
  static constexpr int kRows = kTileRows;
  gpu::Pointer<int32_t> shared;

  ECMV_GPU_DEVICE StripSums() : shared(gpu::cast<int32_t>(gpu::shared_memory())) {
    gpu::sync_block();
    for (int i = gpu::thread_index(); i < kRows * kStride; i += gpu::block_size()) shared[i] = 0;
    gpu::sync_block();
  }
  // A lane group's sums of a panel's rows.
  ECMV_GPU_DEVICE void add(int rg, const int32_t (&sums)[kOperands][4]) const {
    ECMV_GPU_UNROLL
    for (int operand = 0; operand < kOperands; ++operand) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int row = rg * kPanelRows + LaneGroup::lane() / 4 + i / 2 * 8,
                  column = operand * kUnitColumns + LaneGroup::lane() % 4 * 2 + i % 2;
        gpu::atomic_add(shared + (row * kStride + column), sums[operand][i]);
      }
    }
  }
  // The results of all tokens from `first_token` on whose sums are here.
  ECMV_GPU_DEVICE void store(int first_token, int64_t first_row, int split, const Output& output) const {
    gpu::sync_block();
    const int tokens = output.tokens.batch - first_token < kTokens ? output.tokens.batch - first_token : kTokens,
              columns = output.tokens.batch * kDigits;
    for (int i = gpu::thread_index(); i < kRows * tokens; i += gpu::block_size()) {
      const int row = i % kRows, token = i / kRows;
      if (first_row + row >= output.tokens.rows) continue;
      const gpu::Pointer<const int32_t> digits = shared + (row * kStride + token * kDigits);
      if (output.splits == 1) {
        output.tokens.store(first_row + row, first_token + token,
                            output.dequantise.value(first_token + token, digits[0], digits[1], digits[2]));
      } else {
        ECMV_GPU_UNROLL
        for (int digit = 0; digit < kDigits; ++digit)
          output.sums[(int64_t{split} * columns + (first_token + token) * kDigits + digit) * output.tokens.rows +
                      first_row + row] = digits[digit];
      }
    }
  }
};

// Makes a block's shared parts and begins its first round.
template <class Coder>
ECMV_GPU_DEVICE Round<Coder::kTiles> begin_block(Coder& coder, const TileStream& stream, const Walk& walk) {
  const auto round = walk.round<Coder::kTiles>(walk.first);
  const bool has_tiles = round.across[0] < walk.end;
  if (has_tiles) coder.ask(round);
  Coder::make_table(stream, table_of(stream));
  if (has_tiles) coder.load(round, true);
  if (has_tiles) coder.start();
  gpu::sync_block();
  return round;
}

// Begins the walk's round at `base`, unless it is the first.
template <class Coder>
ECMV_GPU_DEVICE void next_round(Coder& coder, const Walk& walk, int base, Round<Coder::kTiles>& round) {
  if (base == walk.first) return;
  round = walk.round<Coder::kTiles>(base);
  if (round.across[0] >= walk.end) return;
  coder.ask(round);
  coder.load(round, false);
  coder.start();
}

// Blocks that must fit on a multiprocessor; registers are limited accordingly.
template <class Coder, int kOperands>
constexpr int blocks_of() {
  return kOperands <= Coder::kSmallOperands ? 2 : 1;
}

// Lane groups of a block of matmul_registers. With one operand a coder may need so few registers that there are more.
template <class Coder, int kOperands>
constexpr int register_lane_groups() {
  return kOperands == 1 ? Coder::kMostLaneGroups : kMostLaneGroups;
}

// Y = W X, or the sums of a split of the columns. `halves` is 2 if the operands are too many for the registers of a
// lane group, which then has half of them and twice the columns.
template <class Coder, int kOperands>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, (blocks_of<Coder, kOperands>())) void matmul_panels(
    TileStream stream, int lane_groups, int halves, gpu::Pointer<const gpu::uint2> digits, Output output) {
  // Between two barriers a lane group decodes kLaneGroupPanels panels and multiplies as many: a row of panels in
  // kLaneGroupPanels columns.
  static_assert(Coder::kTiles * Coder::kSteps * kPanels == kLaneGroupPanels);
  const int slots = lane_groups * Coder::kTiles;
  const int lane_group = LaneGroup::uniform(LaneGroup::group()), rg = lane_group % kPanels,
            half = lane_group / kPanels % halves, part = lane_group / kPanels / halves;
  const int split = static_cast<int>(gpu::block_index() % output.splits);
  const Strip strip = strip_of(stream, gpu::block_index() / output.splits);
  const Walk walk = walk_of(stream, output.splits, split, lane_group, slots);
  Coder coder(stream, strip, stream.own_place + lane_group * stream.own_bytes, table_of(stream));
  gpu::let_next_begin();
  auto round = begin_block(coder, stream, walk);
  gpu::wait_for_previous();

  int32_t sums[kOperands][4] = {};
  for (int base = walk.first; base < walk.end; base += slots) {
    next_round(coder, walk, base, round);
    ECMV_GPU_NO_UNROLL
    for (int step = 0; step < stream.tile_steps; step += Coder::kSteps) {
      if (round.across[0] < walk.end && round.first[0] + step < stream.steps)
        coder.decode(round, step, to_shared<Coder>(lane_group));
      // The columns of panels of this lane group's part, kSteps of each tile, up to the end of the walk or of the
      // matrix.
      const int columns = kLaneGroupPanels * halves, column = part * columns;
      const int first = (base + column / Coder::kSteps) * stream.tile_steps + step + column % Coder::kSteps;
      const int room =
          (walk.end * stream.tile_steps < stream.steps ? walk.end * stream.tile_steps : stream.steps) - first;
      const gpu::Pointer<const gpu::uint4> operands =
          gpu::cast<const gpu::uint4>(gpu::shared_memory()) + ((column * kPanels + rg) * kLanes + LaneGroup::lane());
      // Inputs of a column of panels, zeros for panels that were not decoded. The next column's inputs are on their way
      // while one is multiplied.
      gpu::Pointer<const gpu::uint2> inputs =
          digits + ((int64_t{first} * halves + half) * (kOperands * kLanes) + LaneGroup::lane());
      const int step_inputs = halves * kOperands * kLanes;
      int left = room;
      const auto load_inputs = [&](gpu::uint2(&input)[kOperands], bool odd) {
        ECMV_GPU_UNROLL
        for (int operand = 0; operand < kOperands; ++operand) {
          input[operand] = gpu::uint2{};
          if (left > 0) input[operand] = inputs[operand * kLanes];
        }
        const int distance = Coder::kSteps == 1 ? stream.tile_steps : odd ? stream.tile_steps - 1 : 1;
        inputs += distance * step_inputs;
        left -= distance;
      };
      gpu::uint2 input[2][kOperands];
      load_inputs(input[0], false);
      gpu::sync_block();
      ECMV_GPU_NO_UNROLL
      for (int i = 0; i < columns; i += 2) ECMV_GPU_UNROLL
      for (int odd = 0; odd < 2; ++odd) {
        const gpu::uint4 weights = operands[(i + odd) * kPanels * kLanes];
        load_inputs(input[1 - odd], odd == 0);
        ECMV_GPU_UNROLL
        for (int operand = 0; operand < kOperands; ++operand)
          gpu::multiply_panels(weights, input[odd][operand], sums[operand]);
      }
      gpu::sync_block();
    }
  }
  for (int i = 0; i < halves; ++i) {
    const StripSums<kOperands> all;
    if (half == i) all.add(rg, sums);
    all.store(i * kOperands * kUnitColumns / kDigits, strip.down * kTileRows, split, output);
  }
}

// The same for few tokens: quads are multiplied in the registers where they were decoded.
template <class Coder, int kOperands>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(
    (register_lane_groups<Coder, kOperands>() * kLanes),
    (blocks_of<Coder, kOperands>())) void matmul_registers(TileStream stream, int lane_groups,
                                                           gpu::Pointer<const gpu::uint2> digits, Output output) {
  const int slots = lane_groups * Coder::kTiles, lane_group = LaneGroup::uniform(LaneGroup::group()),
            split = static_cast<int>(gpu::block_index() % output.splits);
  const Strip strip = strip_of(stream, gpu::block_index() / output.splits);
  const Walk walk = walk_of(stream, output.splits, split, lane_group, slots);
  Coder coder(stream, strip, stream.own_place + lane_group * stream.own_bytes, table_of(stream));
  gpu::let_next_begin();
  auto round = begin_block(coder, stream, walk);
  gpu::wait_for_previous();

  int32_t sums[kPanels][kOperands][4] = {};
  for (int base = walk.first; base < walk.end; base += slots) {
    next_round(coder, walk, base, round);
    if (round.across[0] >= walk.end) break;
    ECMV_GPU_NO_UNROLL
    for (int step = 0; step < stream.tile_steps && round.first[0] + step < stream.steps; step += Coder::kSteps) {
      gpu::uint2 input[Coder::kTiles][Coder::kSteps][kOperands];
      ECMV_GPU_UNROLL
      for (int tile = 0; tile < Coder::kTiles; ++tile) {
        const bool is_tile = base + lane_group * Coder::kTiles + tile < walk.end;
        const gpu::Pointer<const gpu::uint2> inputs =
            digits + (int64_t{round.first[tile] + step} * (kOperands * kLanes) + LaneGroup::lane());
        ECMV_GPU_UNROLL
        for (int i = 0; i < Coder::kSteps; ++i) {
          // Zeros for a tile that does not exist, and for steps beyond the matrix.
          const bool exists = is_tile && round.first[tile] + step + i < stream.steps;
          ECMV_GPU_UNROLL
          for (int operand = 0; operand < kOperands; ++operand) {
            input[tile][i][operand] = gpu::uint2{};
            if (exists) input[tile][i][operand] = inputs[(i * kOperands + operand) * kLanes];
          }
        }
      }
      coder.decode(round, step, [&](int tile, int panel, gpu::uint4 quads) {
        ECMV_GPU_UNROLL
        for (int operand = 0; operand < kOperands; ++operand)
          gpu::multiply_panels(quads, input[tile][panel / kPanels][operand], sums[panel % kPanels][operand]);
      });
    }
  }
  const StripSums<kOperands> all;
  ECMV_GPU_UNROLL
  for (int rg = 0; rg < kPanels; ++rg) all.add(rg, sums[rg]);
  all.store(0, strip.down * kTileRows, split, output);
}

// Adds up the splits' sums.
ECMV_GPU_KERNEL void add_splits(Output output) {
  gpu::let_next_begin();
  gpu::wait_for_previous();
  const int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index(), rows = output.tokens.rows;
  if (i >= rows * output.tokens.batch) return;
  const int token = static_cast<int>(i / rows);
  int64_t digits[kDigits] = {};
  for (int split = 0; split < output.splits; ++split) ECMV_GPU_UNROLL
  for (int digit = 0; digit < kDigits; ++digit)
    digits[digit] +=
        output.sums[(int64_t{split} * output.tokens.batch * kDigits + token * kDigits + digit) * rows + i % rows];
  output.tokens.store(i % rows, token, output.dequantise.value(token, digits[0], digits[1], digits[2]));
}

ECMV_GPU_KERNEL void store_zeros(gpu::TokenView tokens) {
  const int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (i < tokens.rows * tokens.batch) tokens.y[i] = 0;
}

}  // namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE
