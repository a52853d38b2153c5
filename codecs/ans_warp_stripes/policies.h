// Policies of ans_warp_stripes on CPUs with SIMD.
#pragma once

#include "codecs/modelling/quad_ans/quad_ans_matrix.h"

namespace ecmv::codecs::ans_warp_stripes {

inline constexpr modelling::QuadPolicy kPolicies[] = {{{"stripes1"}, 1}, {{"stripes2"}, 2}};

}  // namespace ecmv::codecs::ans_warp_stripes
