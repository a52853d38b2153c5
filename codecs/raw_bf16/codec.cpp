// raw_bf16: uncompressed bf16, the baseline that every product of entropy-coded bf16 has to beat.
#include "codecs/modelling/plain_elements.h"

namespace ecmv::codecs::raw_bf16 {

const Codec& codec() {
  static const Codec codec = modelling::make_plain_codec(
      {.summary = "uncompressed bf16, the baseline of float products", .source = "the elements as they are"},
      "raw_bf16", datasets::ElementType::bf16);
  return codec;
}

}  // namespace ecmv::codecs::raw_bf16
