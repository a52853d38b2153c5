// Policies of raw_int8's product on CPUs.
#pragma once

#include "backends/cpu/products/rows_policy.h"

namespace ecmv::codecs::raw_int8 {

inline constexpr backends::cpu::RowsPolicy kProductPolicies[] = {
    {{"rows4"}, 4, 0},
    {{"rows1"}, 1, 0},
    {{"rows1_prefetch8k"}, 1, 8192},
    {{"rows1_prefetch16k"}, 1, 16384},
    {{"rows2_prefetch16k"}, 2, 16384},
    {{"rows4_prefetch16k"}, 4, 16384},
    {{"streams2"}, 1, 0, 2},
};

}  // namespace ecmv::codecs::raw_int8
