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

inline constexpr ParameterInfo kElements{
    .name = "elements",
    .help =
        "type of the wanted elements, as records name it (i8, bf16, ...), where a file has several; all if left out",
    .is_text = true};

// Whether kElements lets the tensor's matrices in, as they are after kRoundTo.
bool has_wanted_elements(const TensorView& tensor, const Parameters& parameters);

// Throws DatasetError where kRoundTo names another type.
void expect_known_type(const Parameters& parameters, std::string_view source);

// Applies kRows and kRoundTo to a matrix.
Matrix prepared(Matrix matrix, const Parameters& parameters);

// "WHAT: 3 tensors, 40 bytes, such as "x" of F64" about tensors that are left out, with `end`; nothing if there are
// none.
void remark_on(const char* what, const std::vector<const TensorView*>& tensors, const char* end,
               std::vector<std::string>& remarks);

// A sentence about scales and zero points that are counted and not applied.
std::string remark_on_beside(int64_t bytes);

// Adds what the tensor has, after kRoundTo. Throws DatasetError if it gives no matrix.
void check_tensor(const TensorView& tensor, const Parameters& parameters, SourceFacts& facts);

// Adds the tensor's matrices after the same steps, and its scales if it has any. Once a tensor with scales is in it,
// the dataset has scales for every layer, empty ones for the others. Throws DatasetError.
void append_prepared(const TensorView& tensor, const Parameters& parameters, Dataset& dataset);

}  // namespace ecmv::datasets
