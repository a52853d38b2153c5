// Launches that could not be made, where the device itself cannot know: a library refused. A launch neither throws nor
// waits, so the reason is kept until a stream is next waited for.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace ecmv::backends {

// What went wrong in the last such launch of this thread; "" if nothing did.
inline std::string& launch_failure() {
  static thread_local std::string failure;
  return failure;
}
inline void fail_launch(std::string sentence) { launch_failure() = std::move(sentence); }
// What Stream::synchronize() does with it.
inline void throw_launch_failure() {
  if (!launch_failure().empty()) throw std::runtime_error(std::exchange(launch_failure(), {}));
}

}  // namespace ecmv::backends
