// Seeds are repetitions: cases that differ in nothing but the seed of their data become one case, so that no table or
// figure shows the luckiest of them, and none is compared with another seed's baseline.
#pragma once

#include <cstddef>
#include <vector>

#include "reports/record.h"

namespace ecmv::reports {

struct PooledSeeds {
  RecordSet records;
  std::vector<std::size_t> place_of;  // of each case before, in `records`
};

// Samples of all seeds are kept together, sizes are their means. Cases that are not ok stay as they are. A codec that
// failed for a seed has no baseline with all of them, and its cells say so.
PooledSeeds pooled_seeds(const RecordSet& records);

}  // namespace ecmv::reports
