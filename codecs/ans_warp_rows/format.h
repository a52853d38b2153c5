// Stored bytes of ans_warp_rows, version 1: the sections of codecs/modelling/quad_ans/quad_ans.h, one queue a row.
// A drawing is in README.md.
#pragma once

#include "codecs/modelling/quad_ans/quad_ans.h"

namespace ecmv::codecs::ans_warp_rows {

inline constexpr uint32_t kFormatVersion = 1;
inline constexpr int64_t kQueueRows = 1;
inline constexpr int64_t kChunkCols = 4 * modelling::kQuadFormatLanes;  // columns of a chunk: a quad for each lane

inline modelling::QuadLayout layout_of(datasets::Shape shape) {
  return {.codec = "ans_warp_rows",
          .queues = shape.rows,
          .chunks = shape.cols / kChunkCols,
          .queue_stride = shape.cols,
          .chunk_stride = kChunkCols,
          .lane_stride = 4};
}

}  // namespace ecmv::codecs::ans_warp_rows
