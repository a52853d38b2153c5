// Policies of ans_warp_rows on CPUs with SIMD.
#pragma once

#include "codecs/modelling/quad_ans/quad_ans_matrix.h"

namespace ecmv::codecs::ans_warp_rows {

inline constexpr modelling::QuadPolicy kPolicies[] = {{{"rows1"}, 1}, {{"rows2"}, 2}};

}  // namespace ecmv::codecs::ans_warp_rows
