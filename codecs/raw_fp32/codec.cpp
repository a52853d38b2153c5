// raw_fp32: int8 or bf16 elements as uncompressed float32, which a program without quantised weights multiplies by, and
// for which BLAS libraries have their best-known product. An int8 matrix is taken only if its products are exact in
// float32 in any order, so that this baseline is verified bit by bit like everything else.
#include "codecs/codec.h"

#include <bit>
#include <cstdlib>
#include <cstring>

#include "codecs/raw_fp32/format.h"

namespace ecmv::codecs::raw_fp32 {
namespace {

static_assert(std::endian::native == std::endian::little, "The stored floats are little-endian.");

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  if (matrix.type == datasets::ElementType::bf16) return {};
  if (matrix.type != datasets::ElementType::i8) return "raw_fp32 stores int8 and bf16 elements only, as float32.";
  const std::span<const int8_t> elements = matrix.i8();
  for (int64_t row = 0; row < matrix.shape.rows; ++row) {
    int64_t sum = 0;
    for (int64_t col = 0; col < matrix.shape.cols; ++col) sum += std::abs(int{elements[row * matrix.shape.cols + col]});
    if (sum * 128 >= kExactSums)
      return "The absolute values of row " + std::to_string(row) + " add up to " + std::to_string(sum) + "; from " +
             std::to_string(kExactSums / 128) + " on a product in float32 depends on the order of its additions.";
  }
  return {};
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = make_compressed(matrix, settings);
  std::vector<std::byte> bytes(static_cast<size_t>(matrix.shape.elements()) * sizeof(float));
  if (matrix.type == datasets::ElementType::bf16) {
    for (size_t i = 0; i < matrix.elements.size(); i += 2) std::memcpy(&bytes[2 * i + 2], &matrix.elements[i], 2);
  } else {
    std::byte* out = bytes.data();
    for (const int8_t element : matrix.i8()) {
      const float value = element;
      std::memcpy(out, &value, sizeof(value));
      out += sizeof(value);
    }
  }
  compressed.sections.push_back({"elements", Role::payload, 64, std::move(bytes)});
  return compressed;
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  if (compressed.sections.size() != 1 ||
      compressed.sections[kElements].bytes.size() !=
          out.size() / static_cast<size_t>(datasets::element_bytes(compressed.type)) * sizeof(float))
    throw MalformedStream("A raw_fp32 stream must hold exactly 4 x rows x cols bytes.");
  const std::byte* in = compressed.sections[kElements].bytes.data();
  if (compressed.type == datasets::ElementType::bf16) {
    for (size_t i = 0; i < out.size(); i += 2) {
      if (in[2 * i] != std::byte{0} || in[2 * i + 1] != std::byte{0})
        throw MalformedStream("Element " + std::to_string(i / 2) + " of a raw_fp32 stream is no number of bf16.");
      std::memcpy(&out[i], in + 2 * i + 2, 2);
    }
    return;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    float value = 0;
    std::memcpy(&value, in + i * sizeof(value), sizeof(value));
    if (!(value >= -128 && value <= 127) || value != static_cast<float>(static_cast<int8_t>(value)))
      throw MalformedStream("Element " + std::to_string(i) +
                            " of a raw_fp32 stream is not an integer from -128 to 127.");
    out[i] = static_cast<std::byte>(static_cast<int8_t>(value));
  }
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings&) {
  return shape.elements() * static_cast<int64_t>(sizeof(float));
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "uncompressed float32, the baseline without quantised weights",
      .source = "the float32 matrix-vector product of every BLAS library",
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::raw_fp32
