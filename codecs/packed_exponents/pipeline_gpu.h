// Products with many tokens of bf16 as a pipeline: lane groups that copy ask for boxes of fields and tokens
// (backends/gpu/tensor_copy.h) some steps ahead, and warpgroups, 64 rows each, make elements of fields in registers and
// multiply them with the tokens in shared memory. A step has 128 columns. No lane that multiplies copies anything.
//
// A tile is a block's rows and a share of the columns. A block takes one tile after the other, and the next tile's
// steps are asked for while the sums of the one before are stored.
#pragma once

#include <algorithm>

#include "backends/gpu/products/token_shares.h"
#include "codecs/packed_exponents/pipeline_plan_gpu.h"
#include "codecs/packed_exponents/transpose_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

// The lines of a lane group's rows, three a row, or two in the last group of columns if it has no more. A box has two
// lines a row of 128 bytes, and rows g and g + 8 of the matrix units are rows 2 g and 2 g + 1 of the matrix: so the
// same piece of eight rows lies in different banks.
struct DealtFields {
  // Where piece `piece` of a line lies.
  static ECMV_GPU_DEVICE int place(int line, int piece) {
    const int row = line / 2;
    return row * gpu::kBlockTokenBytes + ((line % 2 * 4 + piece) ^ (row & 7)) * 16;
  }
  // Lines of rows that begin with line `first` of the box; rows past the last one repeat it.
  static ECMV_GPU_DEVICE void load(gpu::Pointer<const std::byte> box, int lines_of_row, int first, int last_row,
                                   gpu::uint4 (&rows)[2][3]) {
    const int lane = LaneGroup::lane();
    for (int below = 0; below < 2; ++below)
      for (int i = 0; i < 3; ++i) {
        const auto place_of = [&](int row, int piece) {
          const int of_block = 2 * row + below;
          return place(first + (of_block < last_row ? of_block : last_row) * lines_of_row + i, piece);
        };
        rows[below][i] = gpu::load_dealt(box, place_of(lane % 8, lane / 8), place_of);
      }
  }

  // Whole blocks: rows 2 r and 2 r + 1 take lines 6 r to 6 r + 5, and lines 2 n and 2 n + 1 lie 64 bytes from each
  // other.
  int places[3];
  ECMV_GPU_DEVICE DealtFields() {
    const int lane = LaneGroup::lane();
    ECMV_GPU_UNROLL
    for (int i = 0; i < 3; ++i) places[i] = place(6 * (lane % 8) + 2 * i, lane / 8);
  }
  ECMV_GPU_DEVICE void load(gpu::Pointer<const std::byte> box, gpu::uint4 (&rows)[2][3]) const {
    ECMV_GPU_UNROLL
    for (int i = 0; i < 6; ++i)
      rows[i / 3][i % 3] = gpu::load_dealt(box, places[i / 2] ^ (i % 2 * 64),
                                           [&](int row, int piece) { return place(6 * row + i, piece); });
  }
};

// Stores a lane group's sums of 16 rows from `first_row` on, of `rows` in all, and of tokens from `first_token` on.
template <int kTokenTiles>
ECMV_GPU_DEVICE void store_sums(const gpu::Bf16Tokens& all, int share, int first_token, int64_t first_row, int64_t rows,
                                const float (&sums)[kTokenTiles][4]) {
  const int64_t row = first_row + 2 * (LaneGroup::lane() / 4);
  const auto each_token = [&](auto store_two) {
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTokenTiles; ++j) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int token = first_token + 8 * j + 2 * (LaneGroup::lane() % 4) + i;
        if (token < all.batch)
          store_two((int64_t{share} * all.batch + token) * all.rows + row, sums[j][i], sums[j][2 + i]);
      }
    }
  };
  if (all.in_fours) {
    if (row < rows) all.store_pairs(each_token);
  } else {
    all.store([&](auto put) {
      each_token([&](int64_t at, float first, float second) {
        if (row < rows) put(at, first);
        if (row + 1 < rows) put(at + 1, second);
      });
    });
  }
}

// A lane group that multiplies, number `own` of the block.
template <int kTokenTiles>
ECMV_GPU_DEVICE void consume(const FieldsOnGpu& matrix, const PipelinePlan& plan, const Stages& fields,
                             const Stages& tokens, RecordChunk chunk, const gpu::Bf16Tokens& all, int own) {
  const ExponentElements elements(matrix);
  const DealtFields whole;
  constexpr int kChunksKnown = 2;  // the step of a tile
  Stages::Turn field_turn, token_turn;
  gpu::wait_for_previous();
  for (int number = first_tile(); number < plan.tiles; number += next_tile()) {
    const PipelineTile tile(plan, number);
    const int64_t block = tile.first_block + own;
    const int64_t last_block = (matrix.rows - 1) / kBlockRows;
    const int last_row =
        block < last_block ? kBlockRows - 1 : static_cast<int>(matrix.rows - 1 - last_block * kBlockRows);
    float sums[kTokenTiles][4] = {};
    // Chunks of records are multiplied at equal distances. How many there are is known some steps later.
    const uint64_t first_record = record_bound(matrix, tile.first_block),
                   end_of_records = record_bound(matrix, tile.first_block + plan.warpgroups * gpu::kWarpgroup);
    int chunks = 0, distance = 0, next_chunk = kChunksKnown;
    const auto count_chunks = [&] {
      chunks = RecordChunk::count(static_cast<uint32_t>(end_of_records - first_record), tile.share, plan.shares);
      distance = tile.groups / (chunks + 1) + 1;
      next_chunk = kChunksKnown + distance;
    };
    gpu::uint4 lines[2][3];
    const auto load = [&](int group) {
      const int cols_left = matrix.cols - group * kGroupColumns;
      fields.wait_full(field_turn);
      const gpu::Pointer<std::byte> box = fields.place(field_turn) + own * kBlockFieldBytes;
      if (cols_left > kGroupColumns / 2 && last_row == kBlockRows - 1)
        whole.load(box, lines);
      else  // with an odd number of rows, a group's first line may lie in the middle of a box's row
        DealtFields::load(box, cols_left > kGroupColumns / 2 ? 3 : 2, (last_row + 1) & group & 1, last_row, lines);
    };
    load(tile.first_group);
    ECMV_GPU_NO_UNROLL
    for (int i = 1; i <= tile.groups; ++i) {
      if (i == kChunksKnown) count_chunks();
      if (i == next_chunk && chunks > 0) {
        chunk.multiply(own, sums);
        --chunks;
        next_chunk += distance;
      }
      gpu::uint4 a[2][2];
      Stages::Turn first_half = token_turn;
      ECMV_GPU_UNROLL
      for (int strip = 0; strip < 4; ++strip) {
        gpu::uint4 upper, lower;
        elements.chunks(lines[0], lines[1], strip, upper, lower);
        if (strip % 2 == 0) tokens.wait_full(token_turn);
        const gpu::SharedBlocks blocks(tokens.place(token_turn));
        if (strip >= 2) gpu::wait_for_products<1>();
        if (strip == 3) tokens.leave(first_half);
        ExponentElements::operands(upper, lower, 0, a[strip % 2]);
        gpu::begin_products();
        ECMV_GPU_UNROLL
        for (int unit = 0; unit < 2; ++unit)
          gpu::multiply_block(a[strip % 2][unit], blocks, 0, strip % 2 * 2 + unit, sums);
        gpu::commit_products();
        if (strip == 1) token_turn.next(tokens.count);
      }
      // The place of this step's fields is free once elements were made of them: an arrival does not wait for loads
      // (ldmatrix) that were only begun, and right after those some blocks of 16 rows were wrong (NOTES.md). The next
      // step's fields come to registers while the last products are under way.
      fields.leave(field_turn);
      if (i < tile.groups) load(tile.first_group + i);
      gpu::wait_for_products();
      tokens.leave(token_turn);
    }
    if (tile.groups < kChunksKnown) count_chunks();
    for (; chunks > 0; --chunks) chunk.multiply(own, sums);
    store_sums(all, tile.share, tile.token_block * 8 * kTokenTiles, block * kBlockRows, matrix.rows, sums);
  }
}

// A lane's registers with 256 tokens: 168 of three warpgroups at the launch become 224 where they multiply, and 56
// elsewhere. A block has no more than it began with, and waits for ever if it asks for more.
inline constexpr int kMultiplierRegisters = 224, kCopierRegisters = 56;
template <int kTokenTiles>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(pipeline_threads(kMostWarpgroups),
                                1) void multiply_pipelined(FieldsOnGpu matrix,
                                                           ECMV_GPU_GRID_CONSTANT const FieldMaps maps,
                                                           ECMV_GPU_GRID_CONSTANT const gpu::TensorMap x,
                                                           PipelinePlan plan, gpu::Bf16Tokens tokens) {
  constexpr int kTokenBytes = 8 * kTokenTiles * gpu::kBlockTokenBytes;
  const gpu::Pointer<std::byte> first = gpu::first_block(gpu::shared_memory()), gates = first + plan.gates;
  const int consumers = plan.warpgroups * gpu::kWarpgroup, group = LaneGroup::uniform(LaneGroup::group());
  const Stages fields{plan.field_stages, consumers * kBlockFieldBytes, first, gates + RecordChunk::kGatesBytes},
      token_stages{plan.token_stages, kTokenBytes, first + plan.token_places,
                   gates + (RecordChunk::kGatesBytes + plan.field_stages * Stages::kGateBytes)};
  const RecordChunk chunk(first + plan.record_places, first + (plan.record_places + kTokenBytes), gates);
  if (gpu::thread_index() == 0) {
    fields.init(static_cast<uint32_t>(consumers));
    token_stages.init(static_cast<uint32_t>(consumers));
    chunk.init(static_cast<uint32_t>(consumers));
  }
  gpu::let_next_begin();
  gpu::sync_block();
  if (group >= consumers) {
    if constexpr (kTokenTiles > 16) gpu::change_registers<kCopierRegisters, false>();
    if (group >= consumers + 2) {
      gather_records<kTokenTiles>(matrix, plan, chunk, tokens, group - consumers - 2);
    } else if (LaneGroup::lane() == 0) {
      if (group == consumers) {
        produce_fields(matrix, maps, plan, fields);  // fields do not depend on the launch before
      } else {
        gpu::wait_for_previous();
        produce_tokens(x, 8 * kTokenTiles, plan, token_stages);
      }
    }
  } else {
    if constexpr (kTokenTiles > 16) gpu::change_registers<kMultiplierRegisters, true>();
    consume<kTokenTiles>(matrix, plan, fields, token_stages, chunk, tokens, group);
  }
}

// --- host -----------------------------------------------------------------------------------------------------------

struct PipelinePolicy : backends::Policy {
  int tokens;  // at a time
};

struct PipelinedProduct {
  FieldsOnGpu matrix;
  const std::byte* fields;
  int64_t field_bytes;
  SizedPipeline sized;
  int batch, token_tiles, compute_units;
  bool early;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    const PipelinePlan& plan = sized.plan;
    gpu::Bf16Tokens tokens = gpu::bf16_tokens_of(args, batch);
    if (plan.shares > 1) tokens.store_shares(args.scratch);
    tokens.in_fours = gpu::stores_in_fours(args, 0, plan.shares > 1);
    const auto start = [&](auto tiles) {
      constexpr int kTiles = decltype(tiles)::value;
      if (kTiles != token_tiles) return;
      if (plan.transposes) {
        std::byte* const columns = args.scratch + sized.sums_bytes;
        enqueue_transposed_tokens(stream, tokens, plan.token_blocks, 8 * kTiles, matrix.cols, columns, early);
        tokens.blocks = columns;
      }
      const gpu::TensorMap x = gpu::tensor_map(
          {reinterpret_cast<const std::byte*>(args.x_bf16), batch, matrix.cols, 2 * args.x_stride, 8 * kTiles});
      gpu::launch(multiply_pipelined<kTiles>,
                  {.grid = sized.blocks,
                   .block = pipeline_threads(plan.warpgroups),
                   .shared_bytes = sized.bytes,
                   .early = early},
                  stream, matrix, maps_of(plan), x, plan, tokens);
    };
    start(std::integral_constant<int, 8>());
    start(std::integral_constant<int, 16>());
    start(std::integral_constant<int, 32>());
    gpu::enqueue_add_shares(stream, args, 0, batch, plan.shares, compute_units, early);
  }

 private:
  FieldMaps maps_of(const PipelinePlan& plan) const {
    const int64_t block_bytes = kBlockRows * matrix.row_bytes;
    // A matrix of fewer than 16 rows has no whole block, and nobody reads this one.
    const gpu::BoxedMatrix all{.first = fields,
                               .rows = block_bytes / gpu::kBlockTokenBytes,
                               .cols = gpu::kBlockCols,
                               .row_bytes = gpu::kBlockTokenBytes,
                               .box_rows = kBoxRows,
                               .matrices = std::max<int64_t>(1, matrix.rows / kBlockRows),
                               .matrix_bytes = block_bytes,
                               .box_matrices = plan.warpgroups * gpu::kWarpgroup};
    gpu::BoxedMatrix one = all;
    one.rows = field_bytes / gpu::kBlockTokenBytes, one.matrices = one.box_matrices = 1;
    return {gpu::tensor_map(all), gpu::tensor_map(one)};
  }
};

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
