// huffman_exponents: DFloat11's container. Exponents of floats get Huffman codes, signs and mantissas are stored as
// they are (format.h, README.md).
#include "codecs/codec.h"

#include "codecs/huffman_exponents/container.h"

namespace ecmv::codecs::huffman_exponents {

constexpr std::string_view kRemoved = "Its layout 'segments' was removed: quad_huffman is faster at the same size.";

const Codec& codec() {
  static const Codec codec = {
      .summary = "Huffman codes of bf16 and fp8 exponents: DFloat11's container",
      .source = "DFloat11 (Zhang et al., arXiv 2504.11651)",
      .former_settings = {{"layout", "container", kRemoved},
                          {"segment_cols", "", kRemoved},
                          {"code_bits", "", kRemoved}},
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
      .recognises_file = recognises_file,
      .read_file = read_file,
      .write_file = write_file,
  };
  return codec;
}

}  // namespace ecmv::codecs::huffman_exponents
