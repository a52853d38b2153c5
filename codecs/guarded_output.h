// Memory for the output of a reference decoder, with guard zones before and after it that show whether it wrote too
// far.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace ecmv::codecs {

class GuardedOutput {
 public:
  // Elements are preset to values that a decoder would hardly write, so gaps show.
  explicit GuardedOutput(size_t bytes) : memory_(bytes + 2 * kGuardBytes, std::byte{0x80}), bytes_(bytes) {
    std::fill_n(memory_.begin(), kGuardBytes, kGuard);
    std::fill_n(memory_.end() - kGuardBytes, kGuardBytes, kGuard);
  }

  std::span<std::byte> elements() { return std::span(memory_).subspan(kGuardBytes, bytes_); }
  bool written_outside() const {
    const auto changed = [](std::byte b) { return b != kGuard; };
    const auto end = memory_.end() - kGuardBytes;
    return std::any_of(memory_.begin(), memory_.begin() + kGuardBytes, changed) ||
           std::any_of(end, memory_.end(), changed);
  }
  // The elements without their zones. Ends the object's use.
  std::vector<std::byte> take() {
    std::copy_n(memory_.begin() + kGuardBytes, bytes_, memory_.begin());
    memory_.resize(bytes_);
    return std::move(memory_);
  }

 private:
  static constexpr ptrdiff_t kGuardBytes = 64;
  static constexpr std::byte kGuard{0xE5};

  std::vector<std::byte> memory_;
  size_t bytes_;
};

}  // namespace ecmv::codecs
