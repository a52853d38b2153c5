// Policies of raw_bf16's product on CPUs.
#pragma once

#include "backends/kernel.h"

namespace ecmv::codecs::raw_bf16 {

struct ProductPolicy : backends::Policy {
  int rows;            // multiplied at once
  int prefetch_bytes;  // asked for ahead of the position in every row
};
inline constexpr ProductPolicy kProductPolicies[] = {
    {{"rows4"}, 4, 0},
    {{"rows1"}, 1, 0},
    {{"rows1_prefetch16k"}, 1, 16384},
    {{"rows4_prefetch16k"}, 4, 16384},
};

}  // namespace ecmv::codecs::raw_bf16
