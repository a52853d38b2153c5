// Encoder and bounds-checked reference decoder; codecs/modelling/lut_code.h makes the code and its
// tables. The decoder takes any prefix code that the tables describe, and also what other encoders write at the ends:
// any bits in the last byte, any gap where no code starts, gaps for all threads of the last block, no position for a
// last block without codes.
#include "codecs/huffman_exponents/container.h"
#include "codecs/compressed_matrix.h"

#include <algorithm>
#include <array>
#include <vector>

#include "codecs/huffman_exponents/elements.h"
#include "codecs/huffman_exponents/format.h"
#include "codecs/modelling/bit_io.h"
#include "codecs/modelling/bytes.h"
#include "codecs/modelling/lut_code.h"

namespace ecmv::codecs::huffman_exponents {
namespace {

std::array<uint64_t, kBf16Exponents> count_exponents(const datasets::MatrixView& matrix) {
  std::array<uint64_t, kBf16Exponents> counts{};
  for (int64_t i = 0; i < matrix.shape.elements(); ++i) ++counts[exponent_of(matrix.elements, matrix.type, i)];
  return counts;
}

std::vector<std::byte> signs_and_mantissas(const datasets::MatrixView& matrix) {
  const int64_t elements = matrix.shape.elements();
  std::vector<std::byte> raw(static_cast<size_t>(raw_bytes(elements, matrix.type)));
  for (int64_t i = 0; i < elements; ++i) {
    const uint32_t bits = raw_of(matrix.elements, matrix.type, i);
    if (is_bf16(matrix.type))
      raw[static_cast<size_t>(i)] = static_cast<std::byte>(bits);
    else
      raw[static_cast<size_t>(i / 2)] |= static_cast<std::byte>(i % 2 == 0 ? bits << 4 : bits);
  }
  return raw;
}

// Matrices of one stream begin at increasing elements.
void check_splits(std::span<const std::byte> splits, int64_t elements) {
  if (splits.size() % 8 != 0) throw MalformedStream("The split positions must be whole 64-bit integers.");
  int64_t before = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(splits.size() / 8); ++i) {
    const int64_t split = modelling::load<int64_t>(splits, static_cast<size_t>(8 * i));
    if (split < before || split > elements)
      throw MalformedStream("The split positions must rise and stay within the elements.");
    before = split;
  }
}

}  // namespace

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  if (matrix.type != datasets::ElementType::bf16 && matrix.type != datasets::ElementType::f8_e4m3)
    return "huffman_exponents codes the exponents of bf16 and f8_e4m3 elements, not " +
           std::string(datasets::element_type_name(matrix.type)) + ".";
  if (matrix.shape.elements() > int64_t{UINT32_MAX})
    return "The container stores positions in 32 bits, so a matrix may have 4294967295 elements at most.";
  const auto counts = count_exponents(matrix);
  for (int exponent = kMaxSymbols; exponent < kBf16Exponents; ++exponent)
    if (counts[static_cast<size_t>(exponent)] > 0)
      return "The container codes exponents below 240 only, since table entries 240 to 255 are pointers, but " +
             std::to_string(counts[static_cast<size_t>(exponent)]) + " elements have the exponent " +
             std::to_string(exponent) + " (2^113 and more, infinities, NaN).";
  return "";
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  const int64_t elements = matrix.shape.elements();
  const size_t end_symbol = static_cast<size_t>(
      symbols_of(matrix.type));  // one more code past the alphabet; its first bits fill the last byte
  const auto exponents = count_exponents(matrix);
  std::vector<uint64_t> counts(exponents.begin(), exponents.begin() + static_cast<ptrdiff_t>(end_symbol));
  counts.push_back(1);
  const modelling::LutCode code = modelling::best_lut_code(counts, max_code_bits(matrix.type));

  modelling::BitWriter bits, gaps;
  std::vector<std::byte> positions;
  int64_t threads = 0;  // whose gap has been written
  const auto enter_threads = [&](int64_t element) {
    for (; threads * kThreadBits <= bits.bit_count(); ++threads) {
      gaps.put(static_cast<uint64_t>(bits.bit_count() - threads * kThreadBits), gap_bits(matrix.type));
      if (threads % kBlockThreads == 0) modelling::append<uint32_t>(positions, static_cast<uint32_t>(element));
    }
  };
  for (int64_t i = 0; i < elements; ++i) {
    enter_threads(i);
    const uint32_t symbol = exponent_of(matrix.elements, matrix.type, i);
    bits.put(code.codes[symbol], code.lengths[symbol]);
  }
  // A code may end inside a thread's bytes and no other start there.
  if (bits.bit_count() % kThreadBits != 0) enter_threads(elements);
  const int fill = static_cast<int>(-bits.bit_count() & 7), end_length = code.lengths[end_symbol];
  for (int i = 0; i < fill; ++i) bits.put(code.codes[end_symbol] >> (end_length - 1 - i % end_length), 1);
  modelling::append<uint32_t>(positions, static_cast<uint32_t>(elements));

  std::vector<std::byte> encoded = bits.finish(), gap_bytes = gaps.finish();
  encoded.resize(encoded.size() + kSpareBytes);
  gap_bytes.push_back(std::byte{0});
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections = {{"luts", Role::table, 64, modelling::make_luts(code, end_symbol)},
                         {"encoded_exponent", Role::payload, 64, std::move(encoded), kSpareBytes},
                         {"sign_mantissa", Role::payload, 64, signs_and_mantissas(matrix)},
                         {"output_positions", Role::index, 64, std::move(positions)},
                         {"gaps", Role::index, 64, std::move(gap_bytes), 1},
                         {"split_positions", Role::index, 64, {}}};
  return compressed;
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  if (compressed.sections.size() != kSections) throw MalformedStream("A container stream has six sections.");
  const auto section = [&](int i) { return compressed.sections[static_cast<size_t>(i)].bytes; };
  const datasets::ElementType type = compressed.type;
  const int64_t elements = compressed.shape.elements();
  const modelling::LutReader codes(section(kLuts));
  if (section(kEncoded).size() < kSpareBytes) throw MalformedStream("The bit stream lacks its spare bytes.");
  const std::span<const std::byte> encoded = section(kEncoded).first(section(kEncoded).size() - kSpareBytes);
  const int64_t bytes = static_cast<int64_t>(encoded.size()), threads = ceil_div(bytes, kThreadBytes),
                blocks = ceil_div(bytes, kBlockBytes);
  if (static_cast<int64_t>(section(kSignMantissa).size()) != raw_bytes(elements, type))
    throw MalformedStream("There must be a sign and a mantissa for each element.");
  const int64_t positions = static_cast<int64_t>(section(kOutputPositions).size() / 4);
  if (section(kOutputPositions).size() % 4 != 0 || positions == 0 || positions < blocks || positions > blocks + 1)
    throw MalformedStream("There must be an output position for each 4096 coded bytes and one at the end.");
  if (int64_t{modelling::load_word32(section(kOutputPositions), static_cast<size_t>(positions - 1))} != elements)
    throw MalformedStream("The last output position is not the number of elements.");
  const int64_t gap_bytes = static_cast<int64_t>(section(kGaps).size());
  if (gap_bytes < ceil_div(threads * gap_bits(type), 8) + 1 ||
      gap_bytes > ceil_div(blocks * kBlockThreads * gap_bits(type), 8) + 1)
    throw MalformedStream("There must be a gap for each 8 coded bytes, and a spare byte.");
  check_splits(section(kSplitPositions), elements);

  modelling::BitReader reader(encoded), gaps(section(kGaps));
  int64_t thread = 0;
  const auto enter_threads = [&](int64_t element) {
    for (; thread < threads && thread * kThreadBits <= reader.position(); ++thread) {
      const int64_t gap = static_cast<int64_t>(gaps.read(gap_bits(type)));
      if (element < elements && gap != reader.position() - thread * kThreadBits)
        throw MalformedStream("A gap does not lead to the first code of its 8 bytes.");
      if (thread % kBlockThreads == 0 &&
          int64_t{modelling::load_word32(section(kOutputPositions), static_cast<size_t>(thread / kBlockThreads))} !=
              element)
        throw MalformedStream("An output position is not the number of elements before its block.");
    }
  };
  const auto raw = section(kSignMantissa);
  for (int64_t i = 0; i < elements; ++i) {
    enter_threads(i);
    const uint32_t exponent = codes.take(reader, max_code_bits(type));
    if (!is_bf16(type) && exponent >= kF8Exponents) throw MalformedStream("A decoded exponent does not fit f8_e4m3.");
    const uint32_t byte = std::to_integer<uint32_t>(raw[static_cast<size_t>(is_bf16(type) ? i : i / 2)]);
    store_element(out, type, i, exponent, is_bf16(type) ? byte : i % 2 == 0 ? byte >> 4 : byte & 15);
  }
  enter_threads(elements);
  if (reader.left() >= 8 || thread != threads) throw MalformedStream("The bit stream is longer than its codes.");
}

// Codes cost at most 8 bits an element, for f8 at most 4 1/16: the rarest of 16 exponents shares the first 4 bits of
// its code with the end symbol.
int64_t max_stored_bytes(datasets::Shape shape, const Settings&) {
  const int64_t bytes = shape.elements(), coded = bytes / 2 + bytes / 64 + 2;
  return coded + kSpareBytes + bytes / 2 + 1 + 4 * (ceil_div(coded, kBlockBytes) + 1) +
         ceil_div(ceil_div(coded, kThreadBytes) * 5, 8) + 1 + (kMaxSubtables + 2) * modelling::kLutRow;
}

}  // namespace ecmv::codecs::huffman_exponents
