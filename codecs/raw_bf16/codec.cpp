// raw_bf16: uncompressed bf16, the baseline that every product of entropy-coded bf16 has to beat. Its bytes are the
// matrix itself.
#include "codecs/compressed_matrix.h"
#include "codecs/modelling/plain_elements.h"

namespace ecmv::codecs::raw_bf16 {
namespace {

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  return matrix.type == datasets::ElementType::bf16 ? "" : "raw_bf16 stores bf16 elements only.";
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  modelling::load_elements(compressed, out, "raw_bf16");
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings&) { return shape.elements(); }

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "uncompressed bf16, the baseline of float products",
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

}  // namespace ecmv::codecs::raw_bf16
