// raw_int8: the uncompressed baseline that every entropy-coded product has to beat. Its bytes are the matrix itself.
#include "codecs/compressed_matrix.h"
#include "codecs/modelling/plain_elements.h"
#include "codecs/raw_int8/chain_file.h"

namespace ecmv::codecs::raw_int8 {
namespace {

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  return matrix.type == datasets::ElementType::i8 ? "" : "raw_int8 stores int8 elements only.";
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  modelling::load_elements(compressed, out, "raw_int8");
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings&) { return shape.elements(); }

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "uncompressed int8, the baseline",
      .source = "MatVANS white paper (Ludwig, Bamler), section 2",
      .format_version = 1,
      .lossless = true,
      .settings = {},
      .refuses = refuses,
      .encode = modelling::store_elements,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
      .recognises_file = recognises_file,
      .read_file = read_file,
      .write_file = write_file,
  };
  return codec;
}

}  // namespace ecmv::codecs::raw_int8
