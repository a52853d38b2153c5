// huffman_exponents: exponents of floats get Huffman codes, signs and mantissas are stored as they are. There are two
// layouts (format.h, README.md).
#include "codecs/codec.h"

#include "codecs/huffman_exponents/container.h"
#include "codecs/huffman_exponents/segments.h"

namespace ecmv::codecs::huffman_exponents {

const Codec& codec();

namespace {

bool is_container(const Settings& settings) { return settings.text("layout") == "container"; }

std::string refuses(datasets::MatrixView matrix, const Settings& settings) {
  return is_container(settings) ? container::refuses(matrix) : segments::refuses(matrix);
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  return is_container(settings) ? container::encode(matrix, settings) : segments::encode(matrix, settings);
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  is_container(*compressed.settings) ? container::decode(compressed, out) : segments::decode(compressed, out);
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings) {
  return is_container(settings) ? container::max_stored_bytes(shape) : segments::max_stored_bytes(shape, settings);
}

// The default layout is the one that files use.
ChainFile read_file(std::span<const std::byte> bytes) { return container::read_file(bytes, default_settings(codec())); }

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "Huffman codes of bf16 and fp8 exponents: DFloat11's container, or a stream for each segment of a row",
      .source = "DFloat11 (Zhang et al., arXiv 2504.11651) for the container; the segments are our own",
      .settings = {choice_setting("layout", "which of the two stored layouts", "container", {"container", "segments"}),
                   value_setting("segment_cols", "", "segments: columns of a row that one stream codes", 512,
                                 {128, 256, 512, 1024, 4096}),
                   value_setting("code_bits", "bit", "segments: longest code", 12, {8, 12, 16})},
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
      .recognises_file = container::recognises_file,
      .read_file = read_file,
      .write_file = container::write_file,
  };
  return codec;
}

}  // namespace ecmv::codecs::huffman_exponents
