// From matrices of a file to those that are stored: the parameters that sources of weights share.
#pragma once

#include "datasets/parameters.h"
#include "datasets/source.h"
#include "datasets/tensor.h"

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

// The matrix after kRows and kRoundTo.
Matrix prepared(Matrix matrix, const Parameters& parameters);

// Throws DatasetError where the tensor gives no matrix; otherwise adds what it has.
void check_tensor(const TensorView& tensor, SourceFacts& facts);

// The matrices of a tensor after the same, and the scales of its blocks where it has some; with a tensor of blocks the
// dataset has scales of every layer, of others empty ones. Throws DatasetError.
void append_prepared(const TensorView& tensor, const Parameters& parameters, Dataset& dataset);

}  // namespace ecmv::datasets
