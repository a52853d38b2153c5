// Encoder and bounds-checked reference decoder of `hierarchical`; codecs/modelling/lut_code.h makes the code and its
// tables.
#include "codecs/compressed_matrix.h"
#include "codecs/huffman_lut/layouts.h"

#include <vector>

#include "codecs/huffman_lut/format.h"
#include "codecs/modelling/bit_io.h"
#include "codecs/modelling/bytes.h"
#include "codecs/modelling/histogram.h"
#include "codecs/modelling/lut_code.h"

namespace ecmv::codecs::huffman_lut::hierarchical {
namespace {

constexpr size_t kEndSymbol = kMaxSymbols;  // one more code past the alphabet; its first bits fill the last byte
constexpr int64_t kThreadBits = 8 * kThreadBytes;

struct Range {
  int32_t smallest = 0, largest = -1;
};

Range range_of(const modelling::Histogram& histogram) {
  Range range;
  for (int32_t element = -128; element < 128; ++element) {
    if (histogram[static_cast<size_t>(element + 128)] == 0) continue;
    if (range.largest < range.smallest) range.smallest = element;
    range.largest = element;
  }
  return range;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  if (matrix.type != datasets::ElementType::i8) return "huffman_lut stores int8 elements only.";
  if (matrix.shape.elements() > int64_t{UINT32_MAX})
    return "The layout hierarchical stores positions in 32 bits, so a matrix may have 4294967295 elements at "
           "most.";
  const Range range = range_of(modelling::histogram(matrix.i8()));
  if (range.largest - range.smallest >= kMaxSymbols)
    return "The layout hierarchical codes 240 neighbouring values at most, but the elements span " +
           std::to_string(range.largest - range.smallest + 1) + " (" + std::to_string(range.smallest) + " to " +
           std::to_string(range.largest) + "); table entries 240 to 255 are pointers.";
  return "";
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  const std::span<const int8_t> elements = matrix.i8();
  const modelling::Histogram histogram = modelling::histogram(elements);
  const Range range = range_of(histogram);
  std::vector<uint64_t> counts(kMaxSymbols + 1, 0);
  for (int32_t element = range.smallest; element <= range.largest; ++element)
    counts[static_cast<size_t>(element - range.smallest)] = histogram[static_cast<size_t>(element + 128)];
  counts[kEndSymbol] = 1;
  const modelling::LutCode code = modelling::best_lut_code(counts, kMaxCodeBits);

  modelling::BitWriter bits, gaps;
  std::vector<std::byte> positions;
  int64_t threads = 0;  // whose gap has been written
  const auto enter_threads = [&](int64_t element) {
    for (; threads * kThreadBits <= bits.bit_count(); ++threads) {
      gaps.put(static_cast<uint64_t>(bits.bit_count() - threads * kThreadBits), kGapBits);
      if (threads % kBlockThreads == 0) modelling::append<uint32_t>(positions, static_cast<uint32_t>(element));
    }
  };
  for (size_t i = 0; i < elements.size(); ++i) {
    enter_threads(static_cast<int64_t>(i));
    const size_t symbol = static_cast<size_t>(elements[i] - range.smallest);
    bits.put(code.codes[symbol], code.lengths[symbol]);
  }
  // A code may end inside a thread's bytes and no other start there.
  if (bits.bit_count() % kThreadBits != 0) enter_threads(static_cast<int64_t>(elements.size()));
  const int fill = static_cast<int>(-bits.bit_count() & 7);
  const int end_length = code.lengths[kEndSymbol];
  for (int i = 0; i < fill; ++i) bits.put(code.codes[kEndSymbol] >> (end_length - 1 - i % end_length), 1);
  modelling::append<uint32_t>(positions, static_cast<uint32_t>(elements.size()));

  std::vector<std::byte> offset, encoded = bits.finish(), gap_bytes = gaps.finish();
  modelling::append<int32_t>(offset, range.smallest);
  encoded.resize(encoded.size() + kSpareBytes);
  gap_bytes.push_back(std::byte{0});
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections = {{"luts", Role::table, 64, modelling::make_luts(code, kEndSymbol)},
                         {"encoded", Role::payload, 64, std::move(encoded), kSpareBytes},
                         {"output_positions", Role::index, 64, std::move(positions)},
                         {"gaps", Role::index, 64, std::move(gap_bytes), 1},
                         {"offset", Role::table, 64, std::move(offset)}};
  return compressed;
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  if (compressed.sections.size() != kSections) throw MalformedStream("A hierarchical stream has five sections.");
  const auto section = [&](int i) { return compressed.sections[static_cast<size_t>(i)].bytes; };
  const modelling::LutReader codes(section(kLuts));
  if (section(kEncoded).size() < kSpareBytes) throw MalformedStream("The bit stream lacks its spare bytes.");
  if (section(kOffset).size() != 4) throw MalformedStream("The offset must be one 32-bit integer.");
  const std::span<const std::byte> encoded = section(kEncoded).first(section(kEncoded).size() - kSpareBytes);
  const int64_t bytes = static_cast<int64_t>(encoded.size()), threads = ceil_div(bytes, kThreadBytes),
                blocks = ceil_div(bytes, kBlockBytes);
  const int64_t elements = compressed.shape.elements();
  if (static_cast<int64_t>(section(kOutputPositions).size()) != 4 * (blocks + 1))
    throw MalformedStream("There must be an output position for each 4096 coded bytes and one at the end.");
  if (static_cast<int64_t>(section(kGaps).size()) != ceil_div(threads * kGapBits, 8) + 1)
    throw MalformedStream("There must be a gap for each 8 coded bytes, and a spare byte.");
  if (modelling::load<uint32_t>(section(kOutputPositions), 4 * blocks) != elements)
    throw MalformedStream("The last output position is not the number of elements.");
  const int32_t offset = modelling::load<int32_t>(section(kOffset), 0);
  if (offset < -128 || offset > 127) throw MalformedStream("The offset does not fit int8.");

  modelling::BitReader reader(encoded), gaps(section(kGaps));
  int64_t thread = 0;
  const auto enter_threads = [&](int64_t element) {
    for (; thread < threads && thread * kThreadBits <= reader.position(); ++thread) {
      if (static_cast<int64_t>(gaps.read(kGapBits)) != reader.position() - thread * kThreadBits)
        throw MalformedStream("A gap does not lead to the first code of its 8 bytes.");
      if (thread % kBlockThreads == 0 &&
          modelling::load<uint32_t>(section(kOutputPositions), thread / kBlockThreads * 4) != element)
        throw MalformedStream("An output position is not the number of elements before its block.");
    }
  };
  for (int64_t i = 0; i < elements; ++i) {
    enter_threads(i);
    const int32_t element = static_cast<int32_t>(codes.take(reader, kMaxCodeBits)) + offset;
    if (element > 127) throw MalformedStream("A decoded element does not fit int8.");
    out[static_cast<size_t>(i)] = static_cast<std::byte>(element);
  }
  enter_threads(elements);
  if (reader.left() >= 8 || thread != threads) throw MalformedStream("The bit stream is longer than its codes.");
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings&) {
  const int64_t bytes = shape.elements() + 1;  // no code costs more on average than 8 bits: see lut_code.h
  return bytes + kSpareBytes + 4 * (ceil_div(bytes, kBlockBytes) + 1) +
         ceil_div(ceil_div(bytes, kThreadBytes) * kGapBits, 8) + 1 + 4 + (kMaxSubtables + 2) * modelling::kLutRow;
}

}  // namespace ecmv::codecs::huffman_lut::hierarchical
