// The one door for streams that come from elsewhere than an encoder of this process: files of other programs, frozen
// streams, damaged copies. Kernels check nothing; what they rely on is what an encoder would have written, and all of
// it is demanded here, of every codec: settings that there are, a stream that the reference decoder takes, and a matrix
// that the codec does not refuse.
#pragma once

#include <span>
#include <vector>

#include "codecs/codec.h"

namespace ecmv::codecs {

// The matrix of a stream. Throws MalformedStream.
datasets::Matrix read_stream(const Codec& codec, const CompressedView& stored);

// A chain file, or a file of modules, and its matrices, one a layer.
struct ReadFile {
  ChainFile chain;
  std::vector<datasets::Matrix> matrices;
};
// Reads a file that the codec recognises; layers get their source_hash. Throws MalformedStream.
ReadFile read_chain_file(const Codec& codec, std::span<const std::byte> bytes);

}  // namespace ecmv::codecs
