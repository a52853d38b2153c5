// How a case, or one step towards its record, ended. An exception becomes a status here and nowhere else.
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

// The exception that is being handled: a lack of memory is out_of_memory, backends::Refused is refused, everything else
// an error.
Outcome outcome_of_exception();

// What `step` returns, ok if that is nothing, or what it throws.
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
