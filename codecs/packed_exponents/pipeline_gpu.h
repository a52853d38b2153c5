// Products with many tokens of bf16 as a pipeline: lane groups that copy ask for boxes of fields and tokens
// (backends/gpu/tensor_copy.h) some steps ahead, and warpgroups, 64 rows each, make elements of fields in registers and
// multiply them with the tokens in shared memory. A step has 128 columns. No lane that multiplies copies anything.
//
// A block takes tiles or parts of them one after the other (PipelineTile), and the next one's steps are asked for while
// the sums of the one before are stored. Blocks with parts of one tile add their sums (ClusterShares, LastShare).
#pragma once

#include <algorithm>

#include "codecs/packed_exponents/cluster_shares_gpu.h"
#include "codecs/packed_exponents/last_share_gpu.h"
#include "codecs/packed_exponents/pipeline_plan_gpu.h"
#include "codecs/packed_exponents/tile_product_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

// Stores a lane group's sums of 16 rows from `first_row` on, of `rows` in all, and of `tokens` from `first_token` on.
template <int kTokenTiles>
ECMV_GPU_DEVICE void store_sums(const gpu::Bf16Tokens& all, int first_token, int tokens, int64_t first_row,
                                int64_t rows, const float (&sums)[kTokenTiles][4]) {
  const int64_t row = first_row + 2 * (LaneGroup::lane() / 4);
  const int left = all.batch - first_token, own = 2 * (LaneGroup::lane() % 4);
  const int count = row < rows ? (tokens < left ? tokens : left) - own : 0;
  const int64_t first = int64_t{first_token + own} * all.rows + row;
  // One addition from an address to the next. (With one multiplication each, 32 pairs took a lane 2500 cycles.)
  const auto store_all = [&](auto put, auto at) {
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTokenTiles; ++j) {
      if (8 * j < count) put(at, sums[j][0], sums[j][2]);
      if (8 * j + 1 < count) put(at + all.rows, sums[j][1], sums[j][3]);
      at = at + 8 * all.rows;
    }
  };
  if (all.in_fours) {
    all.store_pairs(first, store_all);
  } else {
    all.store([&](auto put) {
      store_all(
          [&](int64_t at, float sum, float next) {
            put(at, sum);
            if (row + 1 < rows) put(at + 1, next);
          },
          first);
    });
  }
}

// A lane group that multiplies, number `own` of the block; its first tile, whose records it found.
template <int kTokenTiles>
ECMV_GPU_DEVICE void multiply_tiles(const FieldsOnGpu& matrix, const RaisedElements& elements, const PipelinePlan& plan,
                                    const Stages& fields, const Stages& tokens, const gpu::Bf16Tokens& all,
                                    const LastShare& last_share, const gpu::Delivery& delivery, int own,
                                    PipelineTile next, typename TileProduct<kTokenTiles>::Records records) {
  TileProduct<kTokenTiles> product(matrix, elements, fields, tokens, own);
  while (next.there()) {
    const PipelineTile tile = next;
    records.load(matrix);
    product.run(tile, records);
    next.next(plan);
    if (next.there()) records.find(matrix, next.first_block + own);  // they come while these sums are stored
    if (tile.part == 0) gpu::wait_for_previous();
    const int64_t first_row = (tile.first_block + own) * kBlockRows;
    const int first_token = tile.token_block * plan.block_tokens,
              place = tile.divided * plan.warpgroups * gpu::kWarpgroup + own;
    if (plan.cluster > 1) {
      gpu::ClusterMeeting().wait();
      with_cluster<kTokenTiles>(plan.cluster, [&](auto number) {
        constexpr int kBlocks = decltype(number)::value;
        ClusterShares<kTokenTiles, kBlocks> part(fields, delivery, own, product.sums);
        constexpr int kTokens = 8 * part.kOwn;
        const int left = plan.block_tokens - part.rank * kTokens;
        if (tile.shares == kBlocks ||
            last_share.add(tile.share / kBlocks, tile.shares / kBlocks, kBlocks * place + part.rank, part.sums))
          store_sums(all, first_token + part.rank * kTokens, left < kTokens ? left : kTokens, first_row, matrix.rows,
                     part.sums);
      });
    } else if (tile.shares == 1 || last_share.add(tile.share, tile.shares, place, product.sums)) {
      store_sums(all, first_token, plan.block_tokens, first_row, matrix.rows, product.sums);
    }
  }
}

template <int kTokenTiles>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(pipeline_threads(kMostWarpgroups), 1) void multiply_pipelined(
    FieldsOnGpu matrix, RaisedElements elements, PipelinePlan plan, gpu::Bf16Tokens tokens, LastShare last_share,
    ECMV_GPU_GRID_CONSTANT const FieldMaps maps, ECMV_GPU_GRID_CONSTANT const gpu::TensorMap x) {
  if constexpr (gpu::kWarpgroupUnits) {
    constexpr int kTokenBytes = token_place_bytes(kTokenTiles);
    const int consumers = plan.warpgroups * gpu::kWarpgroup, group = LaneGroup::uniform(LaneGroup::group());
    // Tokens come first: their places are constants.
    const gpu::Pointer<std::byte> gates = gpu::first_block(gpu::shared_memory()), first = gates + gpu::kBlockAlignment;
    const Stages token_stages{kTokenBytes, first, gates},
        fields{consumers * kBlockFieldBytes, first + Stages::all_bytes(kTokenBytes), gates + Stages::kAllGateBytes};
    // Fields take some 2000 cycles to come, and so do records and tokens. So whoever asks for them does so at once: the
    // two lanes that copy wait for nobody, and the others meanwhile look where records are (4096 x 4096, 128 tokens,
    // H200).
    if (LaneGroup::lane() == 0 && group == consumers) {
      gpu::prefetch_map(maps.of_tile);
      fields.init(static_cast<uint32_t>(consumers));
      gpu::order_before_bulk_copies();
    } else if (LaneGroup::lane() == 0 && group == consumers + 1) {
      gpu::prefetch_map(x);
      token_stages.init(static_cast<uint32_t>(consumers));
      gpu::order_before_bulk_copies();
    }
    const gpu::Delivery delivery(gates + (kDeliveries + group * gpu::Delivery::kBytes));
    PipelineTile first_tile;
    typename TileProduct<kTokenTiles>::Records records;
    if (group < consumers) {
      if (plan.cluster > 1 && LaneGroup::lane() == 0) delivery.init(given_bytes(kTokenTiles, plan.cluster));
      first_tile.find(plan);
      if (first_tile.there()) records.find(matrix, first_tile.first_block + group);
    }
    gpu::let_next_begin();
    LaneGroup::sync();
    gpu::meet_block(group < consumers);
    if (group >= consumers) {
      gpu::change_registers<kCopierRegisters, false>();
      if (LaneGroup::lane() == 0 && group == consumers) {
        produce_fields(matrix, maps, plan, fields);  // fields do not depend on the launch before
      } else if (LaneGroup::lane() == 0 && group == consumers + 1) {
        produce_tokens<kTokenTiles>(x, plan, token_stages);
      }
    } else {
      gpu::change_registers<kMultiplierRegisters, true>();
      multiply_tiles<kTokenTiles>(matrix, elements, plan, fields, token_stages, tokens, last_share, delivery, group,
                                  first_tile, records);
    }
    if (plan.cluster > 1 && group >= consumers) gpu::ClusterMeeting().wait();
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
    const LastShare last_share{arrived, reinterpret_cast<gpu::uint4*>(args.scratch), sized.added_places};
    const auto start = [&](auto tiles) {
      constexpr int kTiles = decltype(tiles)::value;
      if (kTiles != token_tiles) return;
      const gpu::TensorMap x = gpu::tensor_map(
          {reinterpret_cast<const std::byte*>(args.x_bf16), count, matrix.cols, 2 * args.x_stride, plan.block_tokens});
      gpu::launch(multiply_pipelined<kTiles>,
                  {.grid = sized.blocks,
                   .block = pipeline_threads(plan.warpgroups),
                   .shared_bytes = sized.bytes,
                   .early = early,
                   .cluster = plan.cluster},
                  stream, matrix, elements, plan, tokens, last_share, maps_of(plan), x);
    };
    start(std::integral_constant<int, 4>());
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
