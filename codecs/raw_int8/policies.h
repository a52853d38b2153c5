// Policies of raw_int8's product on CPUs.
#pragma once

#include "backends/kernel.h"

namespace ecmv::codecs::raw_int8 {

struct ProductPolicy : backends::Policy {
  int rows;            // multiplied at once
  int prefetch_bytes;  // asked for ahead of the position in every row
  int streams = 1;     // parts of the matrix that a thread reads in turn
};
inline constexpr ProductPolicy kProductPolicies[] = {
    {{"rows4"}, 4, 0},
    {{"rows1"}, 1, 0},
    {{"rows1_prefetch8k"}, 1, 8192},
    {{"rows1_prefetch16k"}, 1, 16384},
    {{"rows2_prefetch16k"}, 2, 16384},
    {{"rows4_prefetch16k"}, 4, 16384},
    {{"streams2"}, 1, 0, 2},
};

}  // namespace ecmv::codecs::raw_int8
