// How far a matmul kernel may widen the bound that its results are held to. A kernel states its own rounding, so without
// limits a kernel that states enough of it could return anything.
#pragma once

#include <string>

#include "backends/kernel.h"

namespace ecmv::backends {

// "" if a kernel may state this rounding for products of such a matrix, otherwise the reason as a sentence.
std::string why_too_loose(const ProductRounding& rounding, const CompressedView& matrix, Activations activations);

// What a kernel adds to the bound of float32 sums, for records: "narrowing 0.0039, offset 4"; "" for nothing unusual.
std::string widening_of(const ProductRounding& rounding);

}  // namespace ecmv::backends
