// Policies of packed_outliers' product on CPUs.
#pragma once

#include "backends/kernel.h"

namespace ecmv::codecs::packed_outliers {

struct ProductPolicy : backends::Policy {
  int rows;            // multiplied at once
  int prefetch_bytes;  // asked for ahead of the position in every row
};
inline constexpr ProductPolicy kProductPolicies[] = {
    {{"rows1_prefetch16k"}, 1, 16384}, {{"rows1"}, 1, 0}, {{"rows4_prefetch16k"}, 4, 16384}};

}  // namespace ecmv::codecs::packed_outliers
