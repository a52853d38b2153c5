// Copies of the expected decoded matrices in the memory of the devices that decode. A comparison there takes as long as
// reading the matrix; its way to the host takes many times that. One copy serves all passes that must give the same
// bytes.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>

#include "backends/backend.h"

namespace ecmv::experiments {

class ExpectedCopies {
 public:
  // Copies at the first call. Null where the device's memory is the host's, or has no room. `expected` outlives the
  // copies.
  const backends::Buffer* of(backends::Device& device, std::span<const std::byte> expected);

 private:
  using Key = std::tuple<std::string, const std::byte*, size_t>;  // memory of the device, bytes
  std::map<Key, std::unique_ptr<backends::Buffer>> copies_;
};

}  // namespace ecmv::experiments
