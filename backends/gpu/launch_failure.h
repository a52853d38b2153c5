// Keeps the reason for a launch that could not be made where the device cannot know it: a library refused. A launch
// neither throws nor waits, so the reason waits until a stream is next synchronised.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace ecmv::backends {

// Why the last such launch of this thread failed; "" if it did not.
inline std::string& launch_failure() {
  static thread_local std::string failure;
  return failure;
}
inline void fail_launch(std::string sentence) { launch_failure() = std::move(sentence); }
// Stream::synchronize() calls it.
inline void throw_launch_failure() {
  if (!launch_failure().empty()) throw std::runtime_error(std::exchange(launch_failure(), {}));
}

}  // namespace ecmv::backends
