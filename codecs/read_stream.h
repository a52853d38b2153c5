// The one door for streams that no encoder of this process made: files of other programs, frozen streams, damaged
// copies. Kernels check nothing and rely on what an encoder would have written. Everything they rely on is demanded
// here, for every codec: valid settings, a stream that the reference decoder takes, and a matrix that the codec does
// not refuse.
#pragma once

#include <span>
#include <vector>

#include "codecs/codec.h"

namespace ecmv::codecs {

// Decodes the matrix of a stream. Throws MalformedStream.
datasets::Matrix read_stream(const Codec& codec, const CompressedView& stored);
// The same, for its content_hash alone.
uint64_t check_stream(const Codec& codec, const CompressedView& stored);

// A chain file, or a file of modules, with its matrices, one a layer.
struct ReadFile {
  ChainFile chain;
  std::vector<datasets::Matrix> matrices;
};
// Reads a file that the codec recognises and sets source_hash of its layers. Throws MalformedStream.
ReadFile read_chain_file(const Codec& codec, std::span<const std::byte> bytes);

}  // namespace ecmv::codecs
