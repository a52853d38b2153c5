// raw_bf16: uncompressed bf16, the baseline that every product of entropy-coded bf16 has to beat. Its bytes are the
// matrix itself.
#include <cstring>

#include "codecs/codec.h"
#include "codecs/raw_bf16/format.h"

namespace ecmv::codecs::raw_bf16 {
namespace {

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  return matrix.type == datasets::ElementType::bf16 ? "" : "raw_bf16 stores bf16 elements only.";
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections.push_back({"elements", Role::payload, 64, {matrix.elements.begin(), matrix.elements.end()}});
  return compressed;
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  if (compressed.sections.size() != 1 || compressed.sections[kElements].bytes.size() != out.size())
    throw MalformedStream("A raw_bf16 stream must hold exactly 2 x rows x cols bytes.");
  if (!out.empty()) std::memcpy(out.data(), compressed.sections[kElements].bytes.data(), out.size());
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
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::raw_bf16
