// Scales for kernels that multiply groups of columns by scales of their own (Kernel::group_cols).
#pragma once

#include "backends/kernel.h"
#include "datasets/numbers.h"
#include "tests/test_matrices.h"

namespace ecmv::tests {

// Scales of both signs for groups of kernel.group_cols times `more` columns; none for kernels without groups.
// `for_all_rows`: all rows share a set.
inline datasets::Scales scales_for(const backends::Kernel& kernel, datasets::Shape shape, int64_t more = 1,
                                   bool for_all_rows = false) {
  datasets::Scales scales;
  if (kernel.group_cols == 0) return scales;
  Random random{23};
  scales.rows = for_all_rows ? 1 : shape.rows;
  scales.group_cols = kernel.group_cols * more;
  scales.groups = (shape.cols + scales.group_cols - 1) / scales.group_cols;
  for (int64_t i = 0; i < scales.rows * scales.groups; ++i) {
    const uint16_t bits = datasets::nearest_bf16(0.05 * random.normal());
    for (int byte = 0; byte < 2; ++byte) scales.stored.push_back(static_cast<std::byte>(bits >> (8 * byte)));
  }
  return scales;
}

}  // namespace ecmv::tests
