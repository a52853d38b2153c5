// raw_fp32: bf16 elements as uncompressed float32, for which BLAS libraries have their best-known product.
#include "codecs/codec.h"

#include <bit>
#include <cstring>

#include "codecs/raw_fp32/format.h"

namespace ecmv::codecs::raw_fp32 {
namespace {

static_assert(std::endian::native == std::endian::little, "The stored floats are little-endian.");

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  return matrix.type == datasets::ElementType::bf16 ? "" : "raw_fp32 stores bf16 elements only, as float32.";
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = make_compressed(matrix, settings);
  std::vector<std::byte> bytes(2 * matrix.elements.size());
  for (size_t i = 0; i < matrix.elements.size(); i += 2) std::memcpy(&bytes[2 * i + 2], &matrix.elements[i], 2);
  compressed.sections.push_back({"elements", Role::payload, 64, std::move(bytes)});
  return compressed;
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  if (compressed.sections.size() != 1 || compressed.sections[kElements].bytes.size() != 2 * out.size())
    throw MalformedStream("A raw_fp32 stream must hold exactly 4 x rows x cols bytes.");
  const std::byte* in = compressed.sections[kElements].bytes.data();
  for (size_t i = 0; i < out.size(); i += 2) {
    if (in[2 * i] != std::byte{0} || in[2 * i + 1] != std::byte{0})
      throw MalformedStream("Element " + std::to_string(i / 2) + " of a raw_fp32 stream is no number of bf16.");
    std::memcpy(&out[i], in + 2 * i + 2, 2);
  }
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings&) {
  return shape.elements() * 2;  // of bf16 elements, whose bytes the shape counts
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "bf16 as uncompressed float32, the baseline of BLAS libraries",
      .source = "the float32 product of every BLAS library",
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::raw_fp32
