// packed_ternary: five weights of three values in a byte, without an entropy code. Inference engines store ternary
// weights so (llama.cpp's TQ1_0, with other places of the digits), and codes for them have to beat it.
#include "codecs/codec.h"

#include <algorithm>

#include "codecs/packed_ternary/format.h"

namespace ecmv::codecs::packed_ternary {
namespace {

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  if (matrix.type != datasets::ElementType::i8) return "packed_ternary stores int8 elements only.";
  const auto is_other = [](int8_t element) { return element < -1 || element > 1; };
  const std::span<const int8_t> elements = matrix.i8();
  const auto other = std::find_if(elements.begin(), elements.end(), is_other);
  if (other == elements.end()) return "";
  return "packed_ternary stores the values -1, 0 and 1 only, and there is a " + std::to_string(*other) + ".";
}

// Calls f(byte of the section, first column) for all 64 bytes of all groups of a row; rows that fill up a block have
// them too.
template <typename F>
void for_each_byte(datasets::Shape shape, int64_t row, F f) {
  for (int64_t group = 0; group < column_groups(shape.cols); ++group)
    for (int64_t j = 0; j < kStripCols; ++j) f(row_offset(row, group, shape.cols) + j, group * kGroupCols + j);
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  const int64_t rows = matrix.shape.rows, cols = matrix.shape.cols;
  CompressedMatrix compressed = make_compressed(matrix, settings);
  const int64_t bytes = stored_bytes(matrix.shape), used = (matrix.shape.elements() + kDigits - 1) / kDigits;
  std::vector<std::byte> codes(static_cast<size_t>(bytes));
  const int8_t* elements = matrix.i8().data();
  for (int64_t row = 0; row < row_blocks(rows) * kRowsOfBlock; ++row)
    for_each_byte(matrix.shape, row, [&](int64_t at, int64_t first) {
      int digits = 0;
      for (int64_t col = first; col < first + kGroupCols; col += kStripCols)
        digits = 3 * digits + 1 + (row < rows && col < cols ? elements[row * cols + col] : 0);
      codes[static_cast<size_t>(at)] = static_cast<std::byte>(stored_byte(digits));
    });
  compressed.sections.push_back({"codes", Role::payload, 64, std::move(codes), bytes - used});
  return compressed;
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  const int64_t rows = compressed.shape.rows, cols = compressed.shape.cols;
  if (compressed.sections.size() != 1) throw MalformedStream("A packed_ternary stream has one section.");
  const std::span<const std::byte> codes = compressed.sections[kCodes].bytes;
  if (static_cast<int64_t>(codes.size()) != stored_bytes(compressed.shape))
    throw MalformedStream("The codes of a packed_ternary stream do not have the size that the shape asks for.");
  for (int64_t row = 0; row < row_blocks(rows) * kRowsOfBlock; ++row)
    for_each_byte(compressed.shape, row, [&](int64_t at, int64_t first) {
      const int byte = std::to_integer<int>(codes[static_cast<size_t>(at)]), all = leading_digits(byte, kDigits - 1);
      if (stored_byte(all) != byte) throw MalformedStream("A byte of a packed_ternary stream is of no five digits.");
      for (int strip = 0; strip < kDigits; ++strip) {
        const int64_t col = first + strip * kStripCols;
        const int element = leading_digits(byte, strip) % 3 - 1;
        if (row < rows && col < cols)
          out[static_cast<size_t>(row * cols + col)] = static_cast<std::byte>(element);
        else if (element != 0)
          throw MalformedStream("What fills a packed_ternary stream up is not zero.");
      }
    });
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings&) { return stored_bytes(shape); }

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "five weights of three values in a byte, no entropy code",
      .source = "after the type TQ1_0 of llama.cpp",
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
  };
  return codec;
}

}  // namespace ecmv::codecs::packed_ternary
