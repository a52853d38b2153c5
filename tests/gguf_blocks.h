// Tensors of GGUF blocks with their numbers, computed here from the format's description alone.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/weight_files.h"

namespace ecmv::tests {

struct BlocksTensor {
  GgufTensor tensor;
  std::vector<double> numbers;  // in the order of the elements
};

// `dims`: innermost first, the first a multiple of 32. `type`: kQ8_0, kQ4_0 or kQ4_1. Scales are of both signs, one is
// below f16's normal numbers.
inline BlocksTensor blocks_tensor(const std::string& name, const std::vector<uint64_t>& dims, GgufType type) {
  constexpr std::array<std::pair<uint16_t, double>, 5> kScales = {
      {{0x3C00, 1}, {0xB800, -0.5}, {0x2E66, 0.0999755859375}, {0x0203, 515 * 0x1p-24}, {0xA400, -0x1p-6}}};
  constexpr std::array<std::pair<uint16_t, double>, 3> kMinimums = {
      {{0xBC00, -1}, {0x3555, 0.333251953125}, {0x0001, 0x1p-24}}};
  BlocksTensor made{{name, dims, type, ""}, {}};
  uint64_t blocks = 1;
  for (const uint64_t dim : dims) blocks *= dim;
  blocks /= 32;
  uint32_t state = static_cast<uint32_t>(type + 1);
  for (uint64_t block = 0; block < blocks; ++block) {
    const auto [scale_bits, scale] = kScales[block % kScales.size()];
    const auto [minimum_bits, minimum] = kMinimums[block % kMinimums.size()];
    std::vector<int> stored;
    for (int i = 0; i < 32; ++i) {
      state = state * 1664525 + 1013904223;
      const int byte = static_cast<int>(state >> 24);
      stored.push_back(type == kQ8_0 ? byte - 128 : byte % 16);
      const int integer = type == kQ4_0 ? stored.back() - 8 : stored.back();
      made.numbers.push_back(type == kQ4_1 ? double(float(scale * integer + minimum)) : scale * integer);
    }
    made.tensor.data += type == kQ8_0   ? q8_block(scale_bits, stored)
                        : type == kQ4_0 ? q4_block(little(scale_bits, 2), stored)
                                        : q4_block(little(scale_bits, 2) + little(minimum_bits, 2), stored);
  }
  return made;
}

}  // namespace ecmv::tests
