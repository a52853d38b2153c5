// See expected_copies.h.
#include "experiments/check/expected_copies.h"

namespace ecmv::experiments {

const backends::Buffer* ExpectedCopies::of(backends::Device& device, std::span<const std::byte> expected) {
  const auto [place, is_new] =
      copies_.try_emplace({std::string(device.memory()), expected.data(), expected.size()}, nullptr);
  if (is_new) {
    try {
      place->second = device.copy_of(expected);
    } catch (const backends::OutOfMemory&) {
      // Without a copy the host compares.
    }
  }
  return place->second.get();
}

}  // namespace ecmv::experiments
