// raw_int8: the uncompressed baseline that every entropy-coded product has to beat. Its bytes are the matrix itself.
#include "codecs/codec.h"

#include <cstring>

#include "codecs/raw_int8/chain_file.h"
#include "codecs/raw_int8/format.h"

namespace ecmv::codecs::raw_int8 {
namespace {

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  return matrix.type == datasets::ElementType::i8 ? "" : "raw_int8 stores int8 elements only.";
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections.push_back({"elements", Role::payload, 64, {matrix.elements.begin(), matrix.elements.end()}});
  return compressed;
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  if (compressed.sections.size() != 1 || compressed.sections[kElements].bytes.size() != out.size())
    throw MalformedStream("A raw_int8 stream must hold exactly rows x cols bytes.");
  if (!out.empty()) std::memcpy(out.data(), compressed.sections[kElements].bytes.data(), out.size());
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
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
      .recognises_file = recognises_file,
      .read_file = read_file,
      .write_file = write_file,
  };
  return codec;
}

}  // namespace ecmv::codecs::raw_int8
