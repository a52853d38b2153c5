// Stored bytes of ans_warp_stripes, version 1: the sections of codecs/modelling/quad_ans/quad_ans.h, one queue a stripe
// of 32 rows. A drawing is in README.md.
#pragma once

#include "codecs/modelling/quad_ans/quad_ans.h"

namespace ecmv::codecs::ans_warp_stripes {

inline constexpr uint32_t kFormatVersion = 1;
inline constexpr int64_t kStripeRows =
    modelling::kQuadFormatLanes;          // rows of a stripe, which is a queue: one for each lane
inline constexpr int64_t kChunkCols = 4;  // columns of a chunk: one quad of each row

inline modelling::QuadLayout layout_of(datasets::Shape shape) {
  return {.codec = "ans_warp_stripes",
          .queues = shape.rows / kStripeRows,
          .chunks = shape.cols / kChunkCols,
          .queue_stride = kStripeRows * shape.cols,
          .chunk_stride = kChunkCols,
          .lane_stride = shape.cols};
}

}  // namespace ecmv::codecs::ans_warp_stripes
