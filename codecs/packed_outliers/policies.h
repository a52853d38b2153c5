// Policies of packed_outliers' product on CPUs.
#pragma once

#include "backends/cpu/products/rows_policy.h"

namespace ecmv::codecs::packed_outliers {

inline constexpr backends::cpu::RowsPolicy kProductPolicies[] = {
    {{"rows1_prefetch16k"}, 1, 16384}, {{"rows1"}, 1, 0}, {{"rows4_prefetch16k"}, 4, 16384}};

}  // namespace ecmv::codecs::packed_outliers
