// Encoder and bounds-checked reference decoder of `hierarchical`. The tables hold at most 16 sub-tables,
// which plain Huffman lengths can exceed (sigma = 30 needs more): then the rarest symbols are kept together
// below one node of a code of at most 8 bits, for the best size of that group. Lengths of at most 8 bits need
// no sub-table at all, so a code always exists.
#include "codecs/huffman_lut/hierarchical.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "codecs/huffman_lut/format.h"
#include "codecs/modelling/bit_io.h"
#include "codecs/modelling/code_lengths.h"
#include "codecs/modelling/histogram.h"

namespace ecmv::codecs::huffman_lut::hierarchical {
namespace {

constexpr size_t kEndSymbol =
    kMaxSymbols;  // one more code behind the alphabet; its first bits fill the last byte
constexpr int kRow = 256;
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

struct Code {
  std::vector<uint8_t> lengths;  // [241]
  std::vector<uint32_t> codes;
};

// The prefixes of 8, 16 or 24 bits that need a sub-table, as (levels, prefix).
std::set<std::pair<int, uint32_t>> subtables_of(const Code& code) {
  std::set<std::pair<int, uint32_t>> prefixes;
  for (size_t symbol = 0; symbol < code.lengths.size(); ++symbol)
    for (int level = 1; 8 * level < code.lengths[symbol]; ++level)
      prefixes.insert({level, code.codes[symbol] >> (code.lengths[symbol] - 8 * level)});
  return prefixes;
}

// The lengths with the `rare` least frequent symbols as a group below one node of a code of at most 8 bits. A
// node at depth 4 or deeper spans 16 prefixes at most.
std::vector<uint8_t> grouped_lengths(const std::vector<uint64_t>& counts, const std::vector<size_t>& by_count,
                                     size_t rare) {
  std::vector<uint64_t> frequent = counts, group(counts.size(), 0);
  uint64_t weight = 0;
  for (size_t i = 0; i < rare; ++i) {
    const size_t symbol = by_count[i];
    group[symbol] = counts[symbol];
    frequent[symbol] = 0;
    weight += counts[symbol];
  }
  frequent[by_count[0]] = weight;  // stands for the group
  std::vector<uint8_t> lengths = modelling::limited_code_lengths(frequent, 8);
  const int depth = lengths[by_count[0]];
  const std::vector<uint8_t> below = modelling::limited_code_lengths(group, 16 - depth);
  for (size_t i = 0; i < rare; ++i) lengths[by_count[i]] = static_cast<uint8_t>(depth + below[by_count[i]]);
  return lengths;
}

Code best_code(const std::vector<uint64_t>& counts) {
  Code best;
  uint64_t best_bits = UINT64_MAX;
  const auto consider = [&](std::vector<uint8_t> lengths) {
    const uint64_t bits = modelling::coded_bits(counts, lengths);
    if (bits >= best_bits) return;
    Code code{std::move(lengths), {}};
    code.codes = modelling::canonical_codes(code.lengths);
    if (subtables_of(code).size() > size_t{kMaxSubtables}) return;
    best_bits = bits;
    best = std::move(code);
  };
  consider(modelling::limited_code_lengths(counts, kMaxCodeBits));
  if (best_bits < UINT64_MAX) return best;  // the optimum fits the tables
  consider(modelling::limited_code_lengths(counts, 8));
  std::vector<size_t> by_count;
  for (size_t symbol = 0; symbol < counts.size(); ++symbol)
    if (counts[symbol] > 0) by_count.push_back(symbol);
  std::stable_sort(by_count.begin(), by_count.end(),
                   [&](size_t a, size_t b) { return counts[a] < counts[b]; });
  for (size_t rare = 2; rare + 1 < by_count.size(); ++rare) consider(grouped_lengths(counts, by_count, rare));
  return best;
}

std::vector<std::byte> make_luts(const Code& code) {
  const auto prefixes = subtables_of(code);
  std::vector<std::pair<int, uint32_t>> tables{{0, 0}};
  tables.insert(tables.end(), prefixes.begin(), prefixes.end());
  std::vector<std::byte> luts((tables.size() + 1) * kRow, std::byte{0});
  const auto table_of = [&](int level, uint32_t prefix) {
    return static_cast<size_t>(std::find(tables.begin(), tables.end(), std::pair{level, prefix}) -
                               tables.begin());
  };
  for (size_t symbol = 0; symbol < code.lengths.size(); ++symbol) {
    const int length = code.lengths[symbol];
    if (length == 0) continue;
    size_t table = 0;
    int level = 0;
    for (; 8 * (level + 1) < length; ++level) {
      const uint32_t prefix = code.codes[symbol] >> (length - 8 * (level + 1));
      const size_t next = table_of(level + 1, prefix);
      luts[table * kRow + (prefix & 0xff)] = static_cast<std::byte>(256 - next);
      table = next;
    }
    if (symbol == kEndSymbol) continue;  // never decoded: its entries stay 0
    const int bits_here = length - 8 * level;
    const size_t first = (code.codes[symbol] & ((1u << bits_here) - 1)) << (8 - bits_here);
    std::fill_n(luts.begin() + static_cast<ptrdiff_t>(table * kRow + first), size_t{1} << (8 - bits_here),
                static_cast<std::byte>(symbol));
    luts[tables.size() * kRow + symbol] = static_cast<std::byte>(length);
  }
  return luts;
}

void append_u32(std::vector<std::byte>& bytes, uint64_t value) {
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::byte>(value >> shift & 0xff));
}

uint32_t read_u32(std::span<const std::byte> bytes, int64_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i)
    value |= std::to_integer<uint32_t>(bytes[static_cast<size_t>(at) + i]) << (8 * i);
  return value;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One code through the tables; every step is checked.
struct TableDecoder {
  std::span<const std::byte> luts;
  size_t tables;  // without the row of lengths

  uint32_t take(modelling::BitReader& reader) const {
    const uint64_t window = reader.peek(kMaxCodeBits);
    size_t table = 0;
    for (int level = 0; level < kMaxCodeBits / 8; ++level) {
      const size_t index = window >> (kMaxCodeBits - 8 * (level + 1)) & 0xff;
      const uint32_t entry = std::to_integer<uint32_t>(luts[table * kRow + index]);
      if (entry < uint32_t{kMaxSymbols}) {
        const int length = std::to_integer<int>(luts[tables * kRow + entry]);
        if (length == 0) throw MalformedStream("A symbol has a code of length 0.");
        if (length <= 8 * level || length > 8 * (level + 1))
          throw MalformedStream("A symbol's code length does not belong to its table.");
        reader.skip(length);
        return entry;
      }
      table = 256 - entry;
      if (table >= tables) throw MalformedStream("A table entry points outside the tables.");
    }
    throw MalformedStream("A code is longer than four tables.");
  }
};

}  // namespace

std::string refuses(datasets::MatrixView matrix, const Settings&) {
  if (matrix.type != datasets::ElementType::i8) return "huffman_lut stores int8 elements only.";
  if (matrix.shape.elements() > int64_t{UINT32_MAX})
    return "The layout hierarchical stores positions in 32 bits, so a matrix may have 4294967295 elements at "
           "most.";
  const Range range = range_of(modelling::histogram(matrix.i8()));
  if (range.largest - range.smallest >= kMaxSymbols)
    return "The layout hierarchical codes 240 neighbouring values at most, but the elements span " +
           std::to_string(range.largest - range.smallest + 1) + " (" + std::to_string(range.smallest) +
           " to " + std::to_string(range.largest) + "); table entries 240 to 255 are pointers.";
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
  const Code code = best_code(counts);

  modelling::BitWriter bits, gaps;
  std::vector<std::byte> positions;
  int64_t threads = 0;  // whose gap has been written
  const auto enter_threads = [&](int64_t element) {
    for (; threads * kThreadBits <= bits.bit_count(); ++threads) {
      gaps.put(static_cast<uint64_t>(bits.bit_count() - threads * kThreadBits), kGapBits);
      if (threads % kBlockThreads == 0) append_u32(positions, static_cast<uint64_t>(element));
    }
  };
  for (size_t i = 0; i < elements.size(); ++i) {
    enter_threads(static_cast<int64_t>(i));
    const size_t symbol = static_cast<size_t>(elements[i] - range.smallest);
    bits.put(code.codes[symbol], code.lengths[symbol]);
  }
  // A code may end inside a thread's bytes where none starts.
  if (bits.bit_count() % kThreadBits != 0) enter_threads(static_cast<int64_t>(elements.size()));
  const int fill = static_cast<int>(-bits.bit_count() & 7);
  const int end_length = code.lengths[kEndSymbol];
  for (int i = 0; i < fill; ++i) bits.put(code.codes[kEndSymbol] >> (end_length - 1 - i % end_length), 1);
  append_u32(positions, elements.size());

  std::vector<std::byte> offset, encoded = bits.finish(), gap_bytes = gaps.finish();
  append_u32(offset, static_cast<uint32_t>(range.smallest));
  encoded.resize(encoded.size() + kSpareBytes);
  gap_bytes.push_back(std::byte{0});
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections = {{"luts", Role::table, 64, make_luts(code)},
                         {"encoded", Role::payload, 64, std::move(encoded), kSpareBytes},
                         {"output_positions", Role::index, 64, std::move(positions)},
                         {"gaps", Role::index, 64, std::move(gap_bytes), 1},
                         {"offset", Role::table, 64, std::move(offset)}};
  return compressed;
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  if (compressed.sections.size() != kSections)
    throw MalformedStream("A hierarchical stream has five sections.");
  const auto section = [&](int i) { return compressed.sections[static_cast<size_t>(i)].bytes; };
  const size_t rows = section(kLuts).size() / kRow;
  if (section(kLuts).size() % kRow != 0 || rows < 2 || rows > size_t{kMaxSubtables} + 2)
    throw MalformedStream("The look-up tables must be 2 to 18 rows of 256 bytes.");
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
  if (read_u32(section(kOutputPositions), 4 * blocks) != elements)
    throw MalformedStream("The last output position is not the number of elements.");
  const int32_t offset = static_cast<int32_t>(read_u32(section(kOffset), 0));
  if (offset < -128 || offset > 127) throw MalformedStream("The offset does not fit int8.");

  const TableDecoder decoder{section(kLuts), rows - 1};
  modelling::BitReader reader(encoded), gaps(section(kGaps));
  int64_t entered = 0;
  const auto enter_threads = [&](int64_t element) {
    for (; entered < threads && entered * kThreadBits <= reader.position(); ++entered) {
      if (static_cast<int64_t>(gaps.read(kGapBits)) != reader.position() - entered * kThreadBits)
        throw MalformedStream("A gap does not lead to the first code of its 8 bytes.");
      if (entered % kBlockThreads == 0 &&
          read_u32(section(kOutputPositions), entered / kBlockThreads * 4) != element)
        throw MalformedStream("An output position is not the number of elements before its block.");
    }
  };
  for (int64_t i = 0; i < elements; ++i) {
    enter_threads(i);
    const int32_t element = static_cast<int32_t>(decoder.take(reader)) + offset;
    if (element > 127) throw MalformedStream("A decoded element does not fit int8.");
    out[static_cast<size_t>(i)] = static_cast<std::byte>(element);
  }
  enter_threads(elements);
  if (reader.left() >= 8 || entered != threads)
    throw MalformedStream("The bit stream is longer than its codes.");
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings&) {
  const int64_t bytes = shape.elements() + 1;  // no code costs more on average than 8 bits: see best_code()
  return bytes + kSpareBytes + 4 * (ceil_div(bytes, kBlockBytes) + 1) +
         ceil_div(ceil_div(bytes, kThreadBytes) * kGapBits, 8) + 1 + 4 + (kMaxSubtables + 2) * kRow;
}

}  // namespace ecmv::codecs::huffman_lut::hierarchical
