// raw_f8: uncompressed f8 (e4m3), the baseline that every product of entropy-coded f8 has to beat.
#include "codecs/modelling/plain_elements.h"

namespace ecmv::codecs::raw_f8 {

const Codec& codec() {
  static const Codec codec = modelling::make_plain_codec(
      {.summary = "uncompressed f8 (e4m3), the baseline of products of f8", .source = "the elements as they are"},
      "raw_f8", datasets::ElementType::f8_e4m3);
  return codec;
}

}  // namespace ecmv::codecs::raw_f8
