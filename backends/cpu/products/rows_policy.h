// Policies of products that go through rows of memory: how many at once, and how far ahead of the position in every row
// memory is asked for. Which is best depends on a machine's prefetchers.
#pragma once

#include "backends/kernel.h"

namespace ecmv::backends::cpu {

struct RowsPolicy : Policy {
  int rows;            // multiplied at once
  int prefetch_bytes;  // asked for ahead of the position in every row
  int streams = 1;     // parts of the matrix that a thread reads in turn
};

}  // namespace ecmv::backends::cpu
