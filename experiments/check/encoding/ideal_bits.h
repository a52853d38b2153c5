// Whether what a codec calls the ideal size of its symbols can be one.
#pragma once

#include <span>
#include <string>

#include "datasets/matrix.h"

namespace ecmv::experiments {

// "" or why not, as the rest of a sentence. `decoded`: what the stored bytes decode to. `stored_bytes`: all of them.
std::string why_not_ideal(double ideal_bits_per_element, const datasets::MatrixView& decoded, int64_t stored_bytes);

}  // namespace ecmv::experiments
