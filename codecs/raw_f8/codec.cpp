// raw_f8: uncompressed f8 (e4m3), the baseline that every product of entropy-coded f8 has to beat. Its bytes are the matrix
// itself.
#include "codecs/compressed_matrix.h"
#include "codecs/modelling/plain_elements.h"

namespace ecmv::codecs::raw_f8 {
namespace {

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  return matrix.type == datasets::ElementType::f8_e4m3 ? "" : "raw_f8 stores f8_e4m3 elements only.";
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  modelling::load_elements(compressed, out, "raw_f8");
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings&) { return shape.elements(); }

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "uncompressed f8 (e4m3), the baseline of products of f8",
      .source = "the elements as they are",
      .format_version = 1,
      .lossless = true,
      .settings = {},
      .refuses = refuses,
      .encode = modelling::store_elements,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::raw_f8
