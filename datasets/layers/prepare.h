// From a file's matrices to the stored ones: the parameters that all sources of weights share.
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

// Applies kRows and kRoundTo to a matrix.
Matrix prepared(Matrix matrix, const Parameters& parameters);

// Adds what the tensor has. Throws DatasetError if it gives no matrix.
void check_tensor(const TensorView& tensor, SourceFacts& facts);

// Adds the tensor's matrices after the same steps, and the scales of its blocks if it has any. Once a tensor of blocks
// is in it, the dataset has scales for every layer, empty ones for the others. Throws DatasetError.
void append_prepared(const TensorView& tensor, const Parameters& parameters, Dataset& dataset);

}  // namespace ecmv::datasets
