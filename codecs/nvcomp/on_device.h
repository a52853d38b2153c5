// Compresses and decompresses on the first NVIDIA device for the encoder and the reference decoder, because nvCOMP
// works nowhere else. The driver's library is opened at run time, as nvCOMP is. Streams and memory belong to this
// folder and live as long as a call. It makes one call at a time, because a call's memory holds several copies of the
// matrix.
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
// hash_of() must have confirmed `ends` with the payload. Throws MalformedStream if a chunk does not decode as it
// should.
void decompress(Method method, const Options& options, const Cut& cut, std::span<const std::byte> payload,
                std::span<const uint64_t> ends, std::span<std::byte> out);

}  // namespace ecmv::codecs::nvcomp
