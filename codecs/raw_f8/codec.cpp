// raw_f8: uncompressed f8 (e4m3), the baseline that every product of entropy-coded f8 has to beat. Its bytes are the matrix
// itself.
#include <cstring>

#include "codecs/codec.h"
#include "codecs/raw_f8/format.h"

namespace ecmv::codecs::raw_f8 {
namespace {

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  return matrix.type == datasets::ElementType::f8_e4m3 ? "" : "raw_f8 stores f8_e4m3 elements only.";
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections.push_back({"elements", Role::payload, 64, {matrix.elements.begin(), matrix.elements.end()}});
  return compressed;
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  if (compressed.sections.size() != 1 || compressed.sections[kElements].bytes.size() != out.size())
    throw MalformedStream("A raw_f8 stream must hold exactly rows x cols bytes.");
  if (!out.empty()) std::memcpy(out.data(), compressed.sections[kElements].bytes.data(), out.size());
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
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::raw_f8
