// Products with many tokens of bf16 as a pipeline: lane groups that copy ask for boxes of fields and tokens
// (backends/gpu/tensor_copy.h) some steps ahead, and warpgroups, 64 rows each, make elements of fields in registers and
// multiply them with the tokens in shared memory. A step has 128 columns. No lane that multiplies copies anything.
//
// A block takes tiles or parts of them one after the other (PipelineTile), and the next one's steps are asked for while
// the sums of the one before are stored.
#pragma once

#include <algorithm>

#include "codecs/packed_exponents/last_share_gpu.h"
#include "codecs/packed_exponents/pipeline_plan_gpu.h"
#include "codecs/packed_exponents/tile_product_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

// Stores a lane group's sums of 16 rows from `first_row` on, of `rows` in all, and of `tokens` from `first_token` on.
template <int kTokenTiles>
ECMV_GPU_DEVICE void store_sums(const gpu::Bf16Tokens& all, int first_token, int tokens, int64_t first_row,
                                int64_t rows, const float (&sums)[kTokenTiles][4]) {
  const int64_t row = first_row + 2 * (LaneGroup::lane() / 4);
  const int left = all.batch - first_token, count = tokens < left ? tokens : left;
  const auto each_token = [&](auto store_two) {
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTokenTiles; ++j) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int token = 8 * j + 2 * (LaneGroup::lane() % 4) + i;
        if (token < count) store_two(int64_t{first_token + token} * all.rows + row, sums[j][i], sums[j][2 + i]);
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
ECMV_GPU_DEVICE void multiply_tiles(const FieldsOnGpu& matrix, const RaisedElements& elements, const PipelinePlan& plan,
                                    const Stages& fields, const Stages& tokens, const gpu::Bf16Tokens& all,
                                    const LastShare& last_share, int own) {
  RecordPatches records;
  PipelineTile next;
  const auto find = [&](int part) {
    const bool there = next.find(plan, part);
    if (there) records.load(matrix, next.first_block + own);
    return there;
  };
  bool more = find(0);
  gpu::wait_for_previous();
  TileProduct<kTokenTiles> product(matrix, elements, fields, tokens, own);
  for (int part = 1; more; ++part) {
    const PipelineTile tile = next;
    product.run(tile, records);
    more = find(part);  // the next tile's records come while these sums are stored
    if (tile.shares > 1 &&
        !last_share.add(tile.share, tile.shares, tile.divided * plan.warpgroups * gpu::kWarpgroup + own, product.sums))
      continue;
    store_sums(all, tile.token_block * plan.block_tokens, plan.block_tokens, (tile.first_block + own) * kBlockRows,
               matrix.rows, product.sums);
  }
}

template <int kTokenTiles>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(pipeline_threads(kMostWarpgroups), 1) void multiply_pipelined(
    FieldsOnGpu matrix, RaisedElements elements, ECMV_GPU_GRID_CONSTANT const FieldMaps maps,
    ECMV_GPU_GRID_CONSTANT const gpu::TensorMap x, PipelinePlan plan, gpu::Bf16Tokens tokens, LastShare last_share) {
  constexpr int kTokenBytes = token_place_bytes(kTokenTiles);
  const int consumers = plan.warpgroups * gpu::kWarpgroup, group = LaneGroup::uniform(LaneGroup::group());
  // Tokens come first: their places are constants.
  const gpu::Pointer<std::byte> gates = gpu::first_block(gpu::shared_memory()), first = gates + gpu::kBlockAlignment;
  const Stages token_stages{kTokenBytes, first, gates},
      fields{consumers * kBlockFieldBytes, first + Stages::all_bytes(kTokenBytes), gates + Stages::kAllGateBytes};
  if (gpu::thread_index() == 0) {
    fields.init(static_cast<uint32_t>(consumers));
    token_stages.init(static_cast<uint32_t>(consumers));
  }
  if (LaneGroup::lane() == 0 && group == consumers + 1) gpu::prefetch_map(x);
  gpu::let_next_begin();
  gpu::sync_block();
  if (group >= consumers) {
    gpu::change_registers<kCopierRegisters, false>();
    if (LaneGroup::lane() == 0 && group == consumers) {
      produce_fields(matrix, maps, plan, fields);  // fields do not depend on the launch before
    } else if (LaneGroup::lane() == 0 && group == consumers + 1) {
      gpu::wait_for_previous();
      produce_tokens<kTokenTiles>(x, plan, token_stages);
    }
  } else {
    gpu::change_registers<kMultiplierRegisters, true>();
    multiply_tiles<kTokenTiles>(matrix, elements, plan, fields, token_stages, tokens, last_share, group);
  }
}

// --- host -----------------------------------------------------------------------------------------------------------

struct PipelinePolicy : backends::Policy {
  int tokens;  // at a time
};

struct PipelinedProduct {
  FieldsOnGpu matrix;
  RaisedElements elements;
  const std::byte* fields;
  int64_t field_bytes;
  uint32_t* arrived;
  SizedPipeline sized;
  int batch, token_tiles;
  bool early;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    PipelinePlan plan = sized.plan;
    const int count = args.tokens > 0 ? args.tokens : batch;
    plan.block_tokens = equal_blocks(count, plan.token_blocks.number());
    gpu::Bf16Tokens tokens = gpu::bf16_tokens_of(args, count);
    tokens.in_fours = gpu::stores_in_fours(args, 0, false);
    const LastShare last_share{arrived, reinterpret_cast<gpu::uint4*>(args.scratch), sized.divided_places};
    const auto start = [&](auto tiles) {
      constexpr int kTiles = decltype(tiles)::value;
      if (kTiles != token_tiles) return;
      const gpu::TensorMap x = gpu::tensor_map(
          {reinterpret_cast<const std::byte*>(args.x_bf16), count, matrix.cols, 2 * args.x_stride, plan.block_tokens});
      gpu::launch(multiply_pipelined<kTiles>,
                  {.grid = sized.blocks,
                   .block = pipeline_threads(plan.warpgroups),
                   .shared_bytes = sized.bytes,
                   .early = early},
                  stream, matrix, elements, maps_of(plan), x, plan, tokens, last_share);
    };
    start(std::integral_constant<int, 8>());
    start(std::integral_constant<int, 16>());
    start(std::integral_constant<int, 32>());
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
