// Policies of raw_bf16's product on CPUs.
#pragma once

#include "backends/cpu/products/rows_policy.h"

namespace ecmv::codecs::raw_bf16 {

inline constexpr backends::cpu::RowsPolicy kProductPolicies[] = {
    {{"rows4"}, 4, 0},
    {{"rows1"}, 1, 0},
    {{"rows1_prefetch16k"}, 1, 16384},
    {{"rows4_prefetch16k"}, 4, 16384},
};

}  // namespace ecmv::codecs::raw_bf16
