// Damaged streams for the reference decoders: every cut and every flipped byte must end in MalformedStream or in a
// return. Reads out of bounds show under the address sanitizer (`make asan`).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "codecs/registry.h"
#include "datasets/matrix.h"

namespace ecmv::experiments {

struct CorruptionResult {
  std::string refused;      // why the codec did not encode the matrix; then nothing was tried
  std::string not_encoded;  // the error before there was a stream; then nothing was tried either
  int64_t threw = 0;        // MalformedStream
  int64_t returned = 0;     // decoded to something without noticing: allowed, no format has check sums
  int64_t other = 0;        // anything else thrown, or written outside the matrix: a defect
  std::string first_other;  // the first of those messages
  bool fine() const { return other == 0 && not_encoded.empty(); }
};

// Cuts every section at several lengths, removes it, lengthens it, and `flips` times flips one to four of its bytes.
// Half of these are among its first 64 bytes, where headers are. Deterministic.
CorruptionResult decode_damaged_streams(const codecs::CodecEntry& entry, const datasets::Matrix& matrix,
                                        const backends::Settings& settings, int flips,
                                        const std::function<bool()>& interrupted);

}  // namespace ecmv::experiments
