// Compressing and decompressing on the first NVIDIA device, for the encoder and the reference decoder: nvCOMP has no
// other place to do that. The driver's library is opened at run time, as nvCOMP is; streams and memory are of this
// folder's own, and live as long as a call. One call at a time: its memory is that of several copies of the matrix.
#pragma once

#include <vector>

#include "codecs/nvcomp/options.h"

namespace ecmv::codecs::nvcomp {

// Why there is no device to work on, as a sentence; "" if there is one.
std::string device_missing();

struct Compressed {
  std::vector<std::byte> payload;
  std::vector<uint64_t> ends;  // [chunks]
  int64_t padding_bytes = 0;   // of the payload
};

// `bytes` has at least one byte. Both throw std::runtime_error where the library or the device fails.
Compressed compress(Method method, const Options& options, const Cut& cut, std::span<const std::byte> bytes);
// `ends` are those of a payload that hash_of() knows. Throws MalformedStream where a chunk is not what it should be.
void decompress(Method method, const Options& options, const Cut& cut, std::span<const std::byte> payload,
                std::span<const uint64_t> ends, std::span<std::byte> out);

}  // namespace ecmv::codecs::nvcomp
