// Division by a number that the host knows: a multiplication and a shift on the device, where a division of integers
// takes 20 to 30 instructions.
#pragma once

#include <cstdint>

#include "backends/gpu/launch.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(int number)
      : number_(number), inverse_(((uint32_t{1} << 31) - 1) / static_cast<uint32_t>(number) + 1) {}
  ECMV_GPU_BOTH int number() const { return number_; }
  // n / number for n >= 0 with n * number < 2^31: the inverse is too large by less than 1, so the product by less than
  // n.
  ECMV_GPU_BOTH int quotient(int n) const {
    return static_cast<int>((uint64_t{static_cast<uint32_t>(n)} * inverse_) >> 31);
  }

 private:
  int number_ = 1;
  uint32_t inverse_ = uint32_t{1} << 31;
};

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
