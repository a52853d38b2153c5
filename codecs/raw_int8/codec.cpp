// raw_int8: the uncompressed baseline that every entropy-coded product has to beat.
#include "codecs/modelling/plain_elements.h"
#include "codecs/raw_int8/chain_file.h"

namespace ecmv::codecs::raw_int8 {

const Codec& codec() {
  static const Codec codec = modelling::make_plain_codec({.summary = "uncompressed int8, the baseline",
                                                          .source = "MatVANS white paper (Ludwig, Bamler), section 2",
                                                          .recognises_file = recognises_file,
                                                          .read_file = read_file,
                                                          .write_file = write_file},
                                                         "raw_int8", datasets::ElementType::i8);
  return codec;
}

}  // namespace ecmv::codecs::raw_int8
