// How a pipeline (pipeline_gpu.h) divides a product among a device's multiprocessors. Host code.
#pragma once

#include <algorithm>

#include "codecs/packed_exponents/record_chunks_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

struct SizedPipeline {
  PipelinePlan plan;
  int64_t blocks = 0, bytes = 0;  // bytes of shared memory; 0 where nothing fits
  double clocks = 0;              // reckoned
  int64_t sums_bytes = 0;         // of scratch, before the columns of tokens
};

// Steps of fields, and of tokens, that are under way in a block with so much room; none where two do not fit.
struct PipelineStages {
  int64_t field_bytes, token_bytes;  // of a step of 128 columns, and of 64
  int64_t token_tiles, fields = 2, tokens = 2;

  PipelineStages(int warpgroups, int token_tiles_at_once, int64_t room)
      : field_bytes(int64_t{warpgroups} * gpu::kWarpgroup * kBlockFieldBytes),
        token_bytes(int64_t{token_tiles_at_once} * 8 * gpu::kBlockTokenBytes),
        token_tiles(token_tiles_at_once) {
    if (bytes(fields, tokens) > room) fields = tokens = 0;
    while (fields > 0 && (fields < 6 || tokens < 12)) {
      if (2 * fields <= tokens && bytes(fields + 1, tokens) <= room)
        ++fields;
      else if (bytes(fields, tokens + 1) <= room)
        ++tokens;
      else
        break;
    }
  }
  int64_t bytes(int64_t of_fields, int64_t of_tokens) const {
    return of_fields * (field_bytes + Stages::kGateBytes) + of_tokens * (token_bytes + Stages::kGateBytes) +
           RecordChunk::bytes(static_cast<int>(token_tiles)) + RecordChunk::kGatesBytes;
  }
};

// The plan that is done first, by rates that were fitted to 276 products of seven shapes on an H200: bytes a clock of
// its memory, and to a multiprocessor from the L2; clocks of a step's instructions and products, a warpgroup; of a tile
// besides its steps; of the launch that adds shares, and the bytes of sums a clock that it adds. In 28
// comparisons of these products the chosen plan was at most 6 % slower than the best one, and 1 % on average.
inline constexpr double kMemoryBytes = 1850, kCacheBytes = 30, kLeastStep = 740, kOwnTime = 4500, kLaunch = 4500,
                        kAddedBytes = 2200;
// Chunks of records that a block gathers from the tokens as they are; more pay for a launch that transposes tokens.
inline constexpr int64_t kMostGathered = 1;
inline SizedPipeline plan_pipeline(int token_tiles, int batch, datasets::Shape shape, int64_t records,
                                   const backends::DeviceInfo& device) {
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const auto quotient_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t token_blocks = quotient_up(batch, 8 * token_tiles), groups = quotient_up(shape.cols, kGroupColumns),
                units = device.compute_units;
  SizedPipeline best;
  const auto consider = [&](int warpgroups, int64_t shares) {
    const PipelineStages stages(warpgroups, token_tiles, device.shared_bytes - gpu::kBlockAlignment);
    const int64_t share_groups = quotient_up(groups, shares), rows = warpgroups * kWarpgroupRows,
                  tiles = quotient_up(shape.rows, rows) * shares * token_blocks, busy = std::min(tiles, units),
                  rounds = quotient_up(tiles, units),
                  tile_records = records * rows / std::max<int64_t>(shape.rows, 1) / shares;
    if (stages.fields == 0 || quotient_up(groups, share_groups) != shares) return;
    // Clocks of a step: what its bytes take of memory and of the way from the L2, its instructions, or its products.
    const double step =
                     std::max({number(stages.field_bytes * busy) / number(std::min(token_blocks, busy)) / kMemoryBytes,
                               number(stages.field_bytes + 2 * stages.token_bytes) / kCacheBytes,
                               kLeastStep * warpgroups, number(32 * warpgroups * token_tiles)}),
                 clocks = number(rounds) * (number(share_groups) * step + kOwnTime) +
                          (shares > 1 ? kLaunch + number(shares * shape.rows * batch * 8) / kAddedBytes : 0);
    if (best.bytes != 0 && clocks >= best.clocks) return;
    const int token_places = static_cast<int>(stages.fields * stages.field_bytes),
              record_places = token_places + static_cast<int>(stages.tokens * stages.token_bytes);
    best = {{.warpgroups = warpgroups,
             .shares = static_cast<int>(shares),
             .share_groups = static_cast<int>(share_groups),
             .groups = static_cast<int>(groups),
             .token_blocks = static_cast<int>(token_blocks),
             .field_stages = static_cast<int>(stages.fields),
             .token_stages = static_cast<int>(stages.tokens),
             .token_places = token_places,
             .record_places = record_places,
             .gates = record_places + RecordChunk::bytes(token_tiles),
             .tiles = static_cast<int>(tiles),
             .transposes = rounds * quotient_up(tile_records, RecordChunk::kRecords) > kMostGathered},
            busy,
            stages.bytes(stages.fields, stages.tokens) + gpu::kBlockAlignment,
            clocks,
            shares > 1 ? quotient_up(shares * batch * shape.rows * 4, 16) * 16 : 0};
  };
  for (int warpgroups = 1; warpgroups <= kMostWarpgroups; ++warpgroups)
    for (int64_t shares = 1; shares <= std::min<int64_t>(16, groups); ++shares) consider(warpgroups, shares);
  return best;
}

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
