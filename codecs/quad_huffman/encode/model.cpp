// The encoder chooses a model in three steps:
// 1. For every candidate of raw_bits it finds `lowest`, by the order-0 cost of the clamped high parts and the patches
//    of elements outside.
// 2. It counts the symbols of a sample of rows and estimates the stored bits for every candidate of table_bits: ideal
//    code lengths with a limit, the number of codes chosen among 16. It makes no code for that.
// 3. For the choice it counts all symbols and makes the code, twice: the second time symbols without a code count for
//    their substitutes.
#include "codecs/quad_huffman/encode/model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "codecs/modelling/code_lengths.h"
#include "codecs/modelling/histogram.h"
#include "codecs/quad_huffman/encode/tile_width.h"
#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/format/patches.h"

namespace ecmv::codecs::quad_huffman {
namespace {

constexpr int64_t kSampleElements = int64_t{1} << 22;

// log2(n) in 1/65536, rounded down, n > 0: the whole part, then a bit of the fraction for each squaring.
uint64_t log2_q16(uint64_t n) {
  uint64_t log = static_cast<uint64_t>(63 - std::countl_zero(n));
  uint64_t mantissa = log >= 31 ? n >> (log - 31) : n << (31 - log);  // [2^31, 2^32)
  for (int bit = 0; bit < 16; ++bit) {
    mantissa = mantissa * mantissa >> 31;
    const uint64_t carry = mantissa >> 32;
    mantissa >>= carry;
    log = log << 1 | carry;
  }
  return log;
}

// sum * log2(sum) - the sum of count * log2(count), in bits.
double order0_bits(std::span<const uint64_t> counts) {
  uint64_t total = 0, logs = 0;
  for (const uint64_t count : counts)
    if (count > 0) total += count, logs += count * log2_q16(count);
  return total == 0 ? 0.0 : static_cast<double>(total * log2_q16(total) - logs) / 65536.0;
}

// While a model is chosen, the elements w of floats are their exponents less 128. An int8 patch adds or takes a cell; a
// float patch replaces an exponent.
int bits_of_patch(Form form, const Wanted& wanted) {
  return wanted.layout == Layout::strips ? kPlacedPatchBits : 8 * patch_bytes(form);
}
// Patches of the elements outside the cells.
uint64_t outside_patches(const modelling::Histogram& elements, const Cells& cells) {
  uint64_t patches = 0;
  for (int w = -128; w < 128; ++w) {
    const int cells_away = std::abs(cells.clamped_high(w) - cells.high(w));
    const bool replaced = cells_away > 0 || (cells.is_eights() && w == -128);
    patches += elements[w + 128] * static_cast<uint64_t>(cells.form.floats ? replaced : cells_away);
  }
  return patches;
}

// Contiguous cells begin at -128 or above, so w - lowest of elements and substitutes fits 8 bits without sign. Folded
// cells are around their centre. Symbols of eight exponents begin between kLeastEightsLowest (f8: 0) and
// most_eights_lowest().
int best_lowest(const modelling::Histogram& elements, Cells cells, int of_patch) {
  const bool f8 = cells.form.f8, eights = cells.is_eights();
  int smallest = -128, largest = 127;
  while (smallest < 127 && elements[smallest + 128] == 0) ++smallest;
  while (largest > smallest && elements[largest + 128] == 0) --largest;
  const int width = 1 << cell_bits(cells.form);
  int first = std::max(-128, smallest - width + 1),
      last = std::max(first + width - 1, largest - (cells.most_high() + 1) * width + 1);
  if (cells.form.folded) first = smallest, last = largest;
  if (eights) first = -128 + (f8 ? 0 : kLeastEightsLowest), last = -128 + most_eights_lowest(f8);
  int step = 1;  // products must not take such exponents beyond a bf16 with their base
  for (int w = smallest; w <= largest && eights; ++w)
    if (elements[w + 128] > 0 && !has_eights_patch(cells.form, 1, w + 128)) step = 16;
  int best = first;
  double best_bits = 0;
  for (cells.lowest = first; cells.lowest <= std::min(last, 127); cells.lowest += step) {
    std::array<uint64_t, 256> counts{};
    for (int w = smallest; w <= largest; ++w) counts[cells.clamped_high(w)] += elements[w + 128];
    const double bits = order0_bits(counts) + of_patch * static_cast<double>(outside_patches(elements, cells));
    if (cells.lowest == first || bits < best_bits) best = cells.lowest, best_bits = bits;
  }
  return best;
}

// Counts the symbols of every `stride`-th row. Columns past the last count as the symbol's first.
std::vector<uint64_t> count_symbols(datasets::MatrixView matrix, const Cells& cells, int64_t stride) {
  std::array<uint32_t, 256> high;
  for (int w = -128; w < 128; ++w) high[w & 255] = static_cast<uint32_t>(cells.clamped_high(w));
  std::vector<uint64_t> counts(kSymbols, 0);
  const int64_t cols = matrix.shape.cols;
  const int each = cells.symbol_cols, bits = high_bits(each);
  for (int64_t row = 0; row < matrix.shape.rows; row += stride) {
    const uint8_t* w = reinterpret_cast<const uint8_t*>(matrix.elements.data()) + row * cols;
    int64_t col = 0;
    for (; col + each <= cols; col += each) {
      uint32_t symbol = 0;
      for (int k = 0; k < each; ++k) symbol |= high[w[col + k]] << (bits * k);
      ++counts[symbol];
    }
    if (col == cols) continue;
    uint32_t symbol = 0;
    for (int k = 0; k < each; ++k) symbol |= high[w[col + k < cols ? col + k : col]] << (bits * k);
    ++counts[symbol];
  }
  return counts;
}

// The symbols that occur, the most frequent first, with sums over the first n of them.
struct Ranking {
  std::vector<uint32_t> symbols;
  std::vector<uint64_t> counts;
  std::vector<uint64_t> sum, sum_of_logs;  // [n + 1]; counts, and counts * log2 in 1/65536

  explicit Ranking(const std::vector<uint64_t>& histogram) {
    for (uint32_t symbol = 0; symbol < kSymbols; ++symbol)
      if (histogram[symbol] > 0) symbols.push_back(symbol);
    std::sort(symbols.begin(), symbols.end(), [&](uint32_t a, uint32_t b) {
      return histogram[a] != histogram[b] ? histogram[a] > histogram[b] : a < b;
    });
    sum.push_back(0), sum_of_logs.push_back(0);
    for (const uint32_t symbol : symbols) {
      counts.push_back(histogram[symbol]);
      sum.push_back(sum.back() + counts.back());
      sum_of_logs.push_back(sum_of_logs.back() + counts.back() * log2_q16(counts.back()));
    }
  }
};

// Which rotation of a symbol stands for all of them, and the rotation from it to the symbol.
struct Rotations {
  std::vector<uint16_t> least = std::vector<uint16_t>(kSymbols);
  std::vector<uint8_t> rotation = std::vector<uint8_t>(kSymbols);

  Rotations() {
    for (uint32_t symbol = 0; symbol < kSymbols; ++symbol) {
      least[symbol] = static_cast<uint16_t>(symbol);
      for (int by = 1; by < kMostSymbolCols; ++by) {
        uint32_t rotated = 0;
        for (int k = 0; k < kMostSymbolCols; ++k)
          rotated |= static_cast<uint32_t>(high_of_symbol(symbol, kMostSymbolCols, rotated_col(k, by)))
                     << (high_bits(kMostSymbolCols) * k);
        if (rotated >= least[symbol]) continue;
        least[symbol] = static_cast<uint16_t>(rotated);
        rotation[symbol] = static_cast<uint8_t>(kMostSymbolCols - by);
      }
    }
  }
  std::vector<uint64_t> counts(const std::vector<uint64_t>& histogram) const {
    std::vector<uint64_t> counts(kSymbols, 0);
    for (uint32_t symbol = 0; symbol < kSymbols; ++symbol) counts[least[symbol]] += histogram[symbol];
    return counts;
  }
};
const Rotations& rotations() {
  static const Rotations rotations;
  return rotations;
}

struct CodeChoice {
  size_t codes = 0;   // so many of the most frequent symbols get one
  uint64_t bits = 0;  // codes and patches for other symbols, about
  uint64_t left_out = 0;
};

// Bits for `codes` codes of ideal lengths up to table_bits: the rarest symbols get the longest codes, and the others
// share the rest of the code space.
uint64_t ideal_bits(const Ranking& ranking, size_t codes, int table_bits) {
  const uint64_t space = uint64_t{1} << table_bits;
  size_t free = codes;
  while (free > 1 && ranking.counts[free - 1] * (space - (codes - free)) < ranking.sum[free]) --free;
  const uint64_t sum = ranking.sum[free];
  const uint64_t logs =
      sum * (log2_q16(sum) + (static_cast<uint64_t>(table_bits) << 16) - log2_q16(space - (codes - free)));
  const uint64_t bits = (logs - std::min(logs, ranking.sum_of_logs[free])) >> 16;
  return std::max(bits + static_cast<uint64_t>(table_bits) * (ranking.sum[codes] - sum), ranking.sum[codes]);
}

CodeChoice choose_codes(const Ranking& ranking, int table_bits, int patch_bits) {
  const size_t most = std::min(ranking.symbols.size(), size_t{1} << table_bits);
  CodeChoice best;
  for (size_t part = 1; part <= 16 && most > 0; ++part) {
    const size_t codes = std::max<size_t>(std::min<size_t>(most, 2), most * part / 16);
    const uint64_t left_out = ranking.sum.back() - ranking.sum[codes];
    // A substitute has a code of average length or more, and a patch in twenty needs a second record.
    const uint64_t bits =
        ideal_bits(ranking, codes, table_bits) + left_out * static_cast<uint64_t>(table_bits - 1 + patch_bits + 1);
    if (best.codes == 0 || bits < best.bits) best = {codes, bits, left_out};
  }
  return best;
}

// Estimates the picoseconds that an element takes an H200. Memory and units overlap, but neither quite hides the other.
// Each layer adds the making of the table's copies, and patches add their time, more for floats. Operations are counted
// in machine code for sm_90, for a symbol and for four columns. More are counted for planes of three bits, two planes
// and spread signs, for windows that only serve two symbols, and for tables with so few copies that lanes meet in
// banks. Rates, the power and the constants of windows and tables are fitted to measurements (notes/choice.md),
// kOfEights to one of f8 alone.
double picoseconds(double bits, double patches, const Cells& cells, int table_bits, double elements) {
  constexpr double kOfBit = 0.0335, kOfOperation = 0.047, kOfEntry = 700, kOfFloat = 4, kOfEights = 2.2, kOfPatch = 2.5,
                   kOfFloatPatch = 15;
  const bool floats = cells.form.floats, packed = has_packed_entries(cells.symbol_cols, cells.form),
             nibbles = has_nibble_entries(cells.symbol_cols, cells.form);
  const int cell = cell_bits(cells.form);
  double of_element = 0.72;
  if (cells.form.folded)
    of_element += packed ? 0.46 : 0.57;
  else
    of_element += (cell % 4 == 3 ? 0.18 : 0.0) + (cell > 4 ? 0.25 : 0.0) + (nibbles ? 0.2 : 0.0);
  if (floats) of_element += cells.is_eights() ? kOfEights : kOfFloat;
  const double wide_table = table_bits <= 10 ? 0.0
                            : nibbles        ? 0.5 + 1.7 * (table_bits - 11)
                                             : (packed ? 4.5 : 2.7) + 0.65 * (table_bits - 11);
  const double memory = kOfBit * bits, of_patches = floats ? 0.0 : kOfPatch * patches / elements,
               units = kOfOperation * ((9.5 + wide_table) / cells.symbol_cols + of_element) + of_patches;
  const double sum = memory * memory * memory * memory * memory + units * units * units * units * units;
  double root = memory + units;  // the fifth root of the sum is less
  for (int i = 0; i < 20; ++i) root -= (root - sum / (root * root * root * root)) / 5;
  return root + (kOfEntry * static_cast<double>(1 << table_bits) + (floats ? kOfFloatPatch * patches : 0.0)) / elements;
}

struct Candidate {
  Cells cells;
  int table_bits = kLeastTableBits;
  double bits = 0, patches = 0;  // estimates for the whole matrix, with the table, before the padding of tiles
};

bool for_fast_fragments(Form type, const Wanted& wanted) {
  return wanted.for_speed && type.floats && wanted.layout == Layout::fragments;
}

// Fragments of floats whose aim is speed take a table of 2^12 entries: 2^11 were nowhere more than 4 % faster and up to
// 29 % slower (bf16, 4096 x 4096 to 4096 x 14336), and store 0.04 bits more. Small matrices of bf16 take 2^11. (H200,
// us with 1, 16 and 64 tokens, and 2^12: 4096 x 1024, symbols of four, 6.6, 6.8, 9.9 and 7.4, 7.6, 11.0, at 0.02 bits
// more; 9728 x 896, the largest that was measured, symbols of eight, 8.8, 9.9, 16.7 and 10.1, 10.5, 17.1, at 0.06 bits
// more.) Symbols of four exponents of f8 take a fifth more time, and have no product with 64 tokens.
int fragment_table_bits(Form type, double elements) {
  constexpr double kFewElements = 9 << 20;
  return !type.f8 && elements <= kFewElements ? 11 : 12;
}

std::vector<Candidate> all_candidates(datasets::MatrixView matrix, const modelling::Histogram& elements, Form type,
                                      const Wanted& wanted) {
  const int64_t rows = matrix.shape.rows, stride = std::max<int64_t>(1, matrix.shape.elements() / kSampleElements);
  const double of_sample = static_cast<double>(rows) / static_cast<double>((rows + stride - 1) / stride);
  const double elements_in_all = static_cast<double>(matrix.shape.elements());
  std::vector<Candidate> candidates;
  const auto add_candidates = [&](int k, bool folded) {
    double least = -1;  // among these
    for (int b = least_raw_bits(k, folded); b <= most_raw_bits(k, folded); ++b) {
      Cells cells{k, type.floats ? float_form(k, type.f8) : Form(b + (folded ? kFolded : 0))};
      const int of_patch = bits_of_patch(cells.form, wanted);
      const int raw_bits = type.floats ? cell_bits(cells.form) : wanted.raw_bits;
      if (raw_bits >= 0 && b != raw_bits) continue;
      cells.lowest = best_lowest(elements, cells, of_patch);
      const double rest = static_cast<double>(cells.form.raw_bits) * elements_in_all +
                          of_patch * static_cast<double>(outside_patches(elements, cells)) +
                          (wanted.rotated ? kRotationBits * elements_in_all / k : 0.0);
      if (least >= 0 && rest > 1.2 * least) continue;  // not worth it even for speed
      const std::vector<uint64_t> counts = count_symbols(matrix, cells, stride);
      const Ranking ranking(wanted.rotated ? rotations().counts(counts) : counts);
      const bool open = wanted.table_bits == 0, fixed = for_fast_fragments(type, wanted);
      const int of_fragments = fragment_table_bits(type, elements_in_all);
      const int most = !open            ? wanted.table_bits
                       : fixed          ? of_fragments
                       : wanted.rotated ? kMostRotatedTableBits
                                        : kMostTableBits;
      for (int t = !open ? wanted.table_bits : fixed ? of_fragments : kLeastTableBits; t <= most; ++t) {
        const double table = 32 * static_cast<double>(1 << t);
        const CodeChoice choice = choose_codes(ranking, t, of_patch);
        candidates.push_back({cells, t, static_cast<double>(choice.bits) * of_sample + rest + table,
                              static_cast<double>(choice.left_out) * of_sample});
        if (least < 0 || candidates.back().bits < least) least = candidates.back().bits;
      }
    }
  };
  for (const int k : {kLeastSymbolCols, kMostSymbolCols}) {
    if (wanted.symbol_cols != 0 && wanted.symbol_cols != k) continue;
    if (wanted.symbol_cols == 0 && type.floats && wanted.layout == Layout::rows && k == kMostSymbolCols) continue;
    if (wanted.symbol_cols == 0 && type.f8 && for_fast_fragments(type, wanted) && k != kMostSymbolCols) continue;
    if (wanted.contiguous) add_candidates(k, false);
    if (wanted.folded && !type.floats) add_candidates(k, true);
  }
  return candidates;
}

Candidate best_candidate(datasets::MatrixView matrix, Form type, const Wanted& wanted) {
  const double elements = static_cast<double>(matrix.shape.elements());
  const auto cost = [&](const Candidate& of) {
    if (for_fast_fragments(type, wanted))
      return fragments_cost(matrix.shape, of.cells.symbol_cols, of.table_bits, of.bits / elements, wanted.tile_cols);
    return wanted.for_speed ? picoseconds(of.bits / elements, of.patches, of.cells, of.table_bits, elements) : of.bits;
  };
  const auto all = all_candidates(matrix, modelling::histogram(matrix.i8()), type, wanted);
  return *std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
}

// Finds for every symbol the best one with a code: the fewest patches first, then the shortest code. Patches of columns
// add up, so a pass of minima along each column finds it. A state is cost << 16 | symbol. A float patch replaces an
// exponent by any other.
std::vector<uint32_t> best_substitutes(const std::vector<uint8_t>& lengths, int symbol_cols, bool floats) {
  constexpr uint32_t kOfPatch = 32u << 16, kNone = 1u << 30;
  const uint32_t values = 1u << high_bits(symbol_cols);
  static_assert(2 * 255 * kOfPatch + (kMostTableBits << 16 | 0xffff) < kNone);
  std::vector<uint32_t> best(kSymbols), next(kSymbols);
  for (uint32_t symbol = 0; symbol < kSymbols; ++symbol)
    best[symbol] = lengths[symbol] > 0 ? static_cast<uint32_t>(lengths[symbol]) << 16 | symbol : kNone;
  for (uint32_t step = 1; step < kSymbols; step *= values) {
    for (uint32_t first = 0; first < kSymbols; first += step * values) {
      // A patch is one step of h, so going up and coming down finds the minimum over all distances.
      std::copy_n(best.data() + first, step * values, next.data() + first);
      if (floats) {
        for (uint32_t low = first; low < first + step; ++low) {
          uint32_t least = kNone;
          for (uint32_t i = low; i < low + step * values; i += step) least = std::min(least, best[i]);
          for (uint32_t i = low; i < low + step * values; i += step) next[i] = std::min(best[i], least + kOfPatch);
        }
        continue;
      }
      for (uint32_t value = 1; value < values; ++value)
        for (uint32_t i = first + step * value; i < first + step * (value + 1); ++i)
          next[i] = std::min(next[i], next[i - step] + kOfPatch);
      for (uint32_t value = values - 1; value-- > 0;)
        for (uint32_t i = first + step * value; i < first + step * (value + 1); ++i)
          next[i] = std::min(next[i], next[i + step] + kOfPatch);
    }
    best.swap(next);
  }
  return best;
}

uint16_t reversed(uint32_t code, int length) {
  uint32_t out = 0;
  for (int bit = 0; bit < length; ++bit) out |= (code >> bit & 1) << (length - 1 - bit);
  return static_cast<uint16_t>(out);
}

// The table's word for a symbol.
uint32_t entry_of(const Model& model, uint32_t symbol, uint32_t length) {
  const int cols = model.symbol_cols;
  uint32_t entry = 0;
  for (int k = 0; k < cols; ++k)
    entry |= static_cast<uint32_t>(high_of_symbol(symbol, cols, k)) << high_shift(cols, model.form, k);
  if (has_packed_entries(cols, model.form)) return entry | length << 28;
  if (has_summed_lengths(cols, model.form)) {
    const bool exact = has_exact_lengths(model.rotated, model.form);
    return entry | summed_length_bits(cols, length - sum_of_lengths(cols, entry), exact);
  }
  for (int bit = 0; bit < 4; ++bit) entry |= (length >> bit & 1) << (8 * bit);
  return entry;
}

// Makes the symbols' codes and the table for `histogram` of a matrix of that many columns. Where symbols are rotated,
// only one rotation of a symbol has a length of its own.
class CodeMaker {
 public:
  CodeMaker(Model& model, const std::vector<uint64_t>& histogram, int patch_bits)
      : model_(model), ranking_(model.rotated ? rotations().counts(histogram) : histogram) {
    codes_ = choose_codes(ranking_, model.table_bits, patch_bits).codes;
    std::vector<uint64_t> counts(kSymbols, 0);
    for (size_t i = 0; i < codes_; ++i) counts[ranking_.symbols[i]] = ranking_.counts[i];
    set_lengths(counts);
    if (codes_ < ranking_.symbols.size()) {
      for (size_t i = codes_; i < ranking_.symbols.size(); ++i)
        counts[coded_as(substitutes_[ranking_.symbols[i]] & 0xffff)] += ranking_.counts[i];
      set_lengths(counts);
    }
    canonical_ = modelling::canonical_codes(lengths_);
  }

  void make_codes(int64_t cols) {
    model_.codes.resize(kSymbols);
    for (uint32_t symbol = 0; symbol < kSymbols; ++symbol)
      model_.codes[symbol] = code_of(substitutes_[symbol] & 0xffff);
    const auto best_of = [&](uint32_t first, uint32_t step) {
      uint32_t best = substitutes_[first];
      for (uint32_t symbol = first; symbol < kSymbols; symbol += step) best = std::min(best, substitutes_[symbol]);
      return code_of(best & 0xffff);
    };
    model_.shortest = best_of(0, 1);
    const uint32_t partial = 1u << (high_bits(model_.symbol_cols) * (cols % model_.symbol_cols));
    for (uint32_t symbol = 0; symbol < partial; ++symbol) model_.partial.push_back(best_of(symbol, partial));
  }

  void make_table() {
    model_.table.assign(size_t{1} << model_.table_bits, 0);
    for (uint32_t symbol = 0; symbol < kSymbols; ++symbol) {
      const int length = lengths_[symbol];
      if (length == 0) continue;
      const uint32_t entry = entry_of(model_, symbol, static_cast<uint32_t>(length + rotation_bits()));
      // A single code has one bit, and the other value of that bit means the same.
      const uint32_t step = codes_ < 2 ? 1 : 1u << length;
      for (size_t i = reversed(canonical_[symbol], length) & (step - 1); i < model_.table.size(); i += step)
        model_.table[i] = entry;
    }
  }

 private:
  int rotation_bits() const { return model_.rotated ? kRotationBits : 0; }
  uint32_t coded_as(uint32_t symbol) const { return model_.rotated ? rotations().least[symbol] : symbol; }
  void set_lengths(const std::vector<uint64_t>& counts) {
    lengths_ = modelling::limited_code_lengths(counts, model_.table_bits);
    std::vector<uint8_t> all(kSymbols, 0);  // all rotations
    for (uint32_t symbol = 0; symbol < kSymbols; ++symbol)
      if (const uint8_t length = lengths_[coded_as(symbol)]; length > 0)
        all[symbol] = static_cast<uint8_t>(length + rotation_bits());
    substitutes_ = best_substitutes(all, model_.symbol_cols, model_.form.floats);
  }
  SymbolCode code_of(uint32_t symbol) const {
    const uint32_t of_table = coded_as(symbol), code = reversed(canonical_[of_table], lengths_[of_table]),
                   rotation = model_.rotated ? rotations().rotation[symbol] : 0;
    return {static_cast<uint16_t>(code << rotation_bits() | rotation), static_cast<uint16_t>(symbol),
            static_cast<uint8_t>(lengths_[of_table] + rotation_bits())};
  }

  Model& model_;
  Ranking ranking_;
  size_t codes_;
  std::vector<uint8_t> lengths_;
  std::vector<uint32_t> substitutes_;  // as best_substitutes() makes them
  std::vector<uint32_t> canonical_;
};

// The exponents of a matrix of bf16 or f8 as int8, less 128.
std::vector<std::byte> exponents_of(datasets::MatrixView matrix) {
  std::vector<std::byte> out(static_cast<size_t>(matrix.shape.elements()));
  const std::byte* from = matrix.elements.data();
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = std::byte{0x80} ^ (matrix.type == datasets::ElementType::f8_e4m3
                                    ? from[i] >> 3 & std::byte{0x0F}
                                    : (from[2 * i + 1] << 1 & std::byte{0xFE}) | from[2 * i] >> 7);
  return out;
}

}  // namespace

Model make_model(datasets::MatrixView matrix, const Wanted& wanted) {
  const bool f8 = matrix.type == datasets::ElementType::f8_e4m3;
  const Form type = f8 || matrix.type == datasets::ElementType::bf16 ? float_form(kMostSymbolCols, f8) : Form();
  std::vector<std::byte> exponents;
  if (type.floats) {
    exponents = exponents_of(matrix);
    matrix = {matrix.shape, datasets::ElementType::i8, exponents};
  }
  constexpr std::byte kAny{0x80};  // for a matrix without elements
  if (matrix.shape.elements() == 0) matrix = {{1, 1}, datasets::ElementType::i8, {&kAny, 1}};
  const Candidate best = best_candidate(matrix, type, wanted);
  Model model{best.cells, wanted.rotated, best.table_bits};
  if (type.floats) model.lowest += 128;
  CodeMaker maker(model, count_symbols(matrix, best.cells, 1), bits_of_patch(best.cells.form, wanted));
  maker.make_codes(matrix.shape.cols);
  maker.make_table();
  return model;
}

}  // namespace ecmv::codecs::quad_huffman
