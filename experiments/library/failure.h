// Ends a call of the library: a status and a sentence.
#pragma once

#include <stdexcept>
#include <string>

#include "experiments/library/ecmv.h"

namespace ecmv::library {

struct Failure : std::runtime_error {
  Failure(ecmv_status status, const std::string& sentence) : std::runtime_error(sentence), status(status) {}
  ecmv_status status;
};

}  // namespace ecmv::library
