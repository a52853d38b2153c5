// From matrices of a file to those that are stored: the parameters that sources of weights share.
#pragma once

#include "datasets/parameters.h"
#include "datasets/quantise.h"

namespace ecmv::datasets {

inline constexpr ParameterInfo kRoundTo{
    .name = "type",
    .help = "bf16: float matrices become the nearest bf16, before they are quantised; as they are if left out",
    .is_text = true};

inline constexpr ParameterInfo kRows{.name = "rows",
                                     .help = "of each matrix the first ones at most: a sample; all if left out",
                                     .min = 1,
                                     .is_integer = true};

// Throws DatasetError where kRoundTo names another type.
void expect_known_type(const Parameters& parameters, std::string_view source);

// The matrix after kRows, kRoundTo and kQuantiseBits.
Matrix prepared(Matrix matrix, const Parameters& parameters);

}  // namespace ecmv::datasets
