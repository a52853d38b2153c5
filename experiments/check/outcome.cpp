// See outcome.h.
#include "experiments/check/outcome.h"

#include <new>
#include <stdexcept>

#include "backends/backend.h"

namespace ecmv::experiments {

Outcome outcome_of_exception() {
  using reports::Status;
  try {
    throw;
  } catch (const backends::OutOfMemory& e) {
    return {Status::out_of_memory, e.what()};
  } catch (const std::length_error&) {  // a vector beyond its largest size
    return {Status::out_of_memory, "The case is too large for the host's memory."};
  } catch (const std::bad_alloc&) {
    return {Status::out_of_memory, "The host has no memory left for this case."};
  } catch (const backends::Refused& e) {
    return {Status::refused, e.what()};
  } catch (const std::exception& e) {
    return {Status::error, e.what()};
  } catch (...) {
    return {Status::error, "Unknown exception."};
  }
}

}  // namespace ecmv::experiments
