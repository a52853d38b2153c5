// Policies of products that read rows from memory: how many at once, and how far ahead of the position in each row to
// prefetch. The best one depends on the machine's prefetchers.
#pragma once

#include "backends/kernel.h"

namespace ecmv::backends::cpu {

struct RowsPolicy : Policy {
  int rows;            // multiplied at once
  int prefetch_bytes;  // how far ahead of the position in every row to prefetch
  int streams = 1;     // parts of the matrix that a thread reads in turn
};

}  // namespace ecmv::backends::cpu
