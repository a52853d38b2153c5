// Which kernel is the fastest for a product, by measurement. What was found holds for all matrices of a shape, so that
// a model's layers are measured once.
#pragma once

#include <functional>
#include <string>

#include "backends/executor.h"

namespace ecmv::library {

// The names of the fastest kernels that this process has found, by keys that name device, codec, shape and tokens.
// "": nothing is known.
std::string known_fastest(const std::string& key);
void keep_fastest(const std::string& key, const std::string& kernel);

// Seconds of one enqueue, the least of several, with weights that come from memory as in a model. `tokens` and `sums`
// are memory of the device in the kernel's form.
double seconds_of(const backends::BoundKernel& kernel, const backends::MatmulArgs& args, int64_t rows,
                  backends::Executor& executor);

}  // namespace ecmv::library
