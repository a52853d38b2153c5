// How a case, or one step towards its record, ended. Only here does an exception become a status.
#pragma once

#include <string>
#include <type_traits>

#include "reports/record.h"

namespace ecmv::experiments {

struct Outcome {
  reports::Status status = reports::Status::ok;
  std::string reason = {};  // a sentence unless ok
  bool fine() const { return status == reports::Status::ok; }
};

// The outcome for the exception being handled: lack of memory is out_of_memory, backends::Refused is refused,
// everything else an error.
Outcome outcome_of_exception();

// The outcome that `step` returns (ok if it returns nothing) or throws.
template <typename Step>
Outcome guarded(const Step& step) {
  try {
    if constexpr (!std::is_void_v<decltype(step())>)
      return step();
    else
      step();
  } catch (...) {
    return outcome_of_exception();
  }
  return {};
}

}  // namespace ecmv::experiments
