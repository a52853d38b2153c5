// 1. For every candidate of raw_bits: `lowest`, by the order-0 cost of the clamped high parts and the patches of what
//    lies outside. 2. The symbols of a sample of rows are counted, and for every candidate of table_bits the stored
//    bits are estimated: ideal code
//    lengths with a limit, the number of codes chosen among 16. No code is made for that.
// 3. For the choice all symbols are counted and the code is made, twice: symbols without a code count for those that
//    stand in.
#include "codecs/quad_huffman/model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "codecs/modelling/code_lengths.h"
#include "codecs/modelling/histogram.h"
#include "codecs/quad_huffman/format.h"
#include "codecs/quad_huffman/strips.h"

namespace ecmv::codecs::quad_huffman {
namespace {

constexpr int64_t kSampleElements = int64_t{1} << 22;

// log2(n) in 1/65536, rounded down, n > 0: the whole part, then a bit of the fraction a squaring.
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

// How many columns a symbol has, how many bits are raw, where the first cell begins; of exponents as bytes w = exponent
// - 128 where elements are floats.
struct Cells {
  int symbol_cols = 4, raw_bits = 0, lowest = 0;
  bool floats = false, folded = false, strips = false;
  // As of int8: of floats raw_bits are those of exponents.
  int form() const { return raw_bits + (folded ? kFolded : 0); }
  int width() const { return 1 << cell_bits(form()); }
  int values() const { return most_high(symbol_cols, form()) + 1; }
  int high(int w) const { return (folded && w < lowest ? lowest - w - 1 : w - lowest) >> cell_bits(form()); }
  int clamped_high(int w) const { return std::clamp(high(w), 0, values() - 1); }
  int patch_bits() const { return strips ? kPlacedPatchBits : 8 * patch_bytes(floats ? kSignMantissaBits : 0, true); }
  // A patch of a float replaces, one of an int8 adds or takes one.
  int patches_of(int w) const {
    return floats ? clamped_high(w) != high(w) || (is_eights() && w == -128) : std::abs(clamped_high(w) - high(w));
  }
  bool is_eights() const { return floats && symbol_cols == 8; }
};

// Bits of patches of the elements outside the cells.
uint64_t outside_bits(const modelling::Histogram& elements, const Cells& cells) {
  uint64_t records = 0;
  for (int w = -128; w < 128; ++w) records += elements[w + 128] * static_cast<uint64_t>(cells.patches_of(w));
  return records * static_cast<uint64_t>(cells.patch_bits());
}

// Of contiguous cells -128 or more: then w - lowest, and all that stands in for it, fits 8 bits without sign. Of folded
// ones the centre. Of symbols of eight exponents any that four bits reach from, up to the largest.
int best_lowest(const modelling::Histogram& elements, Cells cells, bool f8) {
  int smallest = -128, largest = 127;
  while (smallest < 127 && elements[smallest + 128] == 0) ++smallest;
  while (largest > smallest && elements[largest + 128] == 0) --largest;
  const int width = cells.width(), first = cells.is_eights() ? -128 + (f8 ? 0 : kLeastEightsLowest)
                                           : cells.folded    ? smallest
                                                             : std::max(-128, smallest - width + 1);
  const int last = cells.is_eights() ? -128 + most_eights_lowest(f8)
                   : cells.folded    ? largest
                                     : std::max(first + width - 1, largest - cells.values() * width + 1);
  int best = first;
  double best_bits = 0;
  // What products put in place of `lowest` must not take what such exponents are beyond a bf16.
  int step = 1;
  for (int w = smallest; w <= largest && cells.is_eights(); ++w)
    if (elements[w + 128] > 0 && !has_eights_patch(float_form(cells.symbol_cols, f8), 1, w + 128)) step = 16;
  for (cells.lowest = first; cells.lowest <= std::min(last, 127); cells.lowest += step) {
    std::array<uint64_t, 256> counts{};
    for (int w = smallest; w <= largest; ++w) counts[cells.clamped_high(w)] += elements[w + 128];
    const double bits = order0_bits(counts) + static_cast<double>(outside_bits(elements, cells));
    if (cells.lowest == first || bits < best_bits) best = cells.lowest, best_bits = bits;
  }
  return best;
}

// Symbols of every `stride`-th row. Columns past the last count as the symbol's first.
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

// Symbols that occur, the most frequent first, with sums over the first n of them.
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

// Which rotation of a symbol stands for all of them, and by how much that one is rotated to be the symbol.
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
  size_t codes = 0;   // that many of the most frequent symbols get one
  uint64_t bits = 0;  // of codes and of the patches for other symbols, about
  uint64_t left_out = 0;
};

// Bits for `codes` codes of ideal lengths up to table_bits: the longest ones for the rarest, and of what those leave of
// the code space to each of the others its share.
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
    // What stands in has a code of average length or more, and a patch in twenty needs a second record.
    const uint64_t bits =
        ideal_bits(ranking, codes, table_bits) + left_out * static_cast<uint64_t>(table_bits - 1 + patch_bits + 1);
    if (best.codes == 0 || bits < best.bits) best = {codes, bits, left_out};
  }
  return best;
}

// Picoseconds that an element takes an H200, about: what memory delivers and what the units begin, of which neither
// quite hides the other, and the making of the table's copies in each layer; patches, of floats more, as measured when
// kernels read their elements' signs from the raw bits (before version 7). Operations are counted in machine code for
// sm_90: of a symbol, of four columns, more for planes of three bits, two planes, and signs that are spread; more for
// windows that only serve two symbols and for tables with so few copies that lanes meet in banks. Rates, the power and
// those last numbers are fitted to measurements (NOTES.md), that of symbols of eight exponents to one of f8 alone.
double picoseconds(double bits, double patches, const Cells& cells, int table_bits, double elements) {
  constexpr double kOfBit = 0.0335, kOfOperation = 0.047, kOfEntry = 700, kOfFloat = 4, kOfEights = 2.2, kOfPatch = 2.5,
                   kOfFloatPatch = 15;
  const bool packed = has_packed_entries(cells.symbol_cols, cells.form()),
             nibbles = has_nibble_entries(cells.symbol_cols, cells.form());
  double of_element = 0.72;
  if (cells.folded)
    of_element += packed ? 0.46 : 0.57;
  else
    of_element += (cells.raw_bits % 4 == 3 ? 0.18 : 0.0) + (cells.raw_bits > 4 ? 0.25 : 0.0) + (nibbles ? 0.2 : 0.0);
  if (cells.floats) of_element += cells.is_eights() ? kOfEights : kOfFloat;
  const double wide_table = table_bits <= 10 ? 0.0
                            : nibbles        ? 0.5 + 1.7 * (table_bits - 11)
                                             : (packed ? 4.5 : 2.7) + 0.65 * (table_bits - 11);
  const double of_patches = cells.floats ? 0.0 : kOfPatch * patches / elements;
  const double memory = kOfBit * bits,
               units = kOfOperation * ((9.5 + wide_table) / cells.symbol_cols + of_element) + of_patches;
  const double sum = memory * memory * memory * memory * memory + units * units * units * units * units;
  double root = memory + units;  // the fifth root of the sum is below that
  for (int i = 0; i < 20; ++i) root -= (root - sum / (root * root * root * root)) / 5;
  return root +
         (kOfEntry * static_cast<double>(1 << table_bits) + (cells.floats ? kOfFloatPatch * patches : 0.0)) / elements;
}

struct Parameters {
  Cells cells;
  int table_bits = kLeastTableBits;
};

struct Candidate {
  Parameters parameters;
  double bits, patches;
};

// With the estimated bits of the whole matrix, patches and table included, before the padding of tiles.
std::vector<Candidate> all_candidates(datasets::MatrixView matrix, const modelling::Histogram& elements,
                                      const Model& model, const Wanted& wanted) {
  const bool floats = model.floats;
  const int64_t rows = matrix.shape.rows, stride = std::max<int64_t>(1, matrix.shape.elements() / kSampleElements);
  const double of_sample = static_cast<double>(rows) / static_cast<double>((rows + stride - 1) / stride);
  const double elements_in_all = static_cast<double>(matrix.shape.elements());
  std::vector<Candidate> candidates;
  const auto add_candidates = [&](int k, bool folded) {
    const int table_bits = wanted.table_bits, most = most_raw_bits(k, folded);
    const int form = float_form(k, model.f8), raw_bits = floats ? cell_bits(form) : wanted.raw_bits;
    double least = -1;  // of these
    for (int b = least_raw_bits(k, folded); b <= most; ++b) {
      if (raw_bits >= 0 && b != raw_bits) continue;
      Cells cells{k, b, 0, floats, folded, wanted.strips};
      cells.lowest = best_lowest(elements, cells, model.f8);
      const double rest = static_cast<double>(b + (floats ? sign_mantissa_bits(form) : 0)) * elements_in_all +
                          static_cast<double>(outside_bits(elements, cells)) +
                          (wanted.rotated ? kRotationBits * elements_in_all / k : 0.0);
      if (least >= 0 && rest > 1.2 * least) continue;  // not even for speed
      const std::vector<uint64_t> counts = count_symbols(matrix, cells, stride);
      const Ranking ranking(wanted.rotated ? rotations().counts(counts) : counts);
      const int most_table_bits = table_bits != 0  ? table_bits
                                  : wanted.rotated ? kMostRotatedTableBits
                                                   : kMostTableBits;
      for (int t = table_bits == 0 ? kLeastTableBits : table_bits; t <= most_table_bits; ++t) {
        const double table = 32 * static_cast<double>(1 << t);
        const CodeChoice choice = choose_codes(ranking, t, cells.patch_bits());
        candidates.push_back({{cells, t},
                              static_cast<double>(choice.bits) * of_sample + rest + table,
                              static_cast<double>(choice.left_out) * of_sample});
        if (least < 0 || candidates.back().bits < least) least = candidates.back().bits;
      }
    }
  };
  for (int k = model.f8 ? kLeastF8SymbolCols : kLeastSymbolCols; k <= kMostSymbolCols; k *= 2) {
    if (wanted.symbol_cols != 0 && wanted.symbol_cols != k) continue;
    if (wanted.symbol_cols == 0 && floats && k == (wanted.fragments ? 2 : 8)) continue;
    if (wanted.rotated && k != kMostSymbolCols) continue;
    if (wanted.contiguous) add_candidates(k, false);
    if (wanted.folded && !floats && has_folded_cells(k)) add_candidates(k, true);
  }
  return candidates;
}

Parameters choose_parameters(datasets::MatrixView matrix, const modelling::Histogram& elements, const Model& model,
                             const Wanted& wanted, Aim aim) {
  const std::vector<Candidate> candidates = all_candidates(matrix, elements, model, wanted);
  const double elements_in_all = static_cast<double>(matrix.shape.elements());
  const Candidate* best = nullptr;
  double best_cost = 0;
  for (const Candidate& candidate : candidates) {
    const Cells& cells = candidate.parameters.cells;
    const double cost = aim == Aim::size ? candidate.bits
                                         : picoseconds(candidate.bits / elements_in_all, candidate.patches, cells,
                                                       candidate.parameters.table_bits, elements_in_all);
    if (best == nullptr || cost < best_cost) best = &candidate, best_cost = cost;
  }
  return best->parameters;
}

// For every symbol the best of those with a code: patches first, then length. Patches of columns add up, so passes of
// minima along one column each find it. A state is cost << 16 | symbol. A patch of floats replaces an exponent by any
// other.
std::vector<uint32_t> best_substitutes(const std::vector<uint8_t>& lengths, int symbol_cols, bool floats) {
  constexpr uint32_t kOfPatch = 32u << 16, kNone = 1u << 30;
  const uint32_t values = 1u << high_bits(symbol_cols);
  static_assert(2 * 255 * kOfPatch + (kMostTableBits << 16 | 0xffff) < kNone);
  std::vector<uint32_t> best(kSymbols), next(kSymbols);
  for (uint32_t symbol = 0; symbol < kSymbols; ++symbol)
    best[symbol] = lengths[symbol] > 0 ? static_cast<uint32_t>(lengths[symbol]) << 16 | symbol : kNone;
  for (uint32_t step = 1; step < kSymbols; step *= values) {
    for (uint32_t first = 0; first < kSymbols; first += step * values) {
      // One record a step of h, so the minimum over all distances is found by going up and coming down.
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
  const int cols = model.symbol_cols, form = model.form();
  uint32_t entry = 0;
  for (int k = 0; k < cols; ++k)
    entry |= static_cast<uint32_t>(high_of_symbol(symbol, cols, k))
             << (cols == 8 ? eights_shift(form, k) : entry_shift(cols, form) + 8 * k);
  if (cols == 2) return entry | length << 16;
  if (has_packed_entries(cols, form)) return entry | length << 28;
  if (has_summed_lengths(cols, form))
    return entry |
           summed_length_bits(cols, length - sum_of_lengths(cols, entry), has_exact_lengths(model.rotated, form));
  for (int bit = 0; bit < 4; ++bit) entry |= (length >> bit & 1) << (8 * bit);
  return entry;
}

// Of rotated symbols `codes` are those of the rotations that stand for all.
void make_code(Model& model, const std::vector<uint64_t>& histogram, int64_t cols, int patch_bits) {
  const Ranking ranking(model.rotated ? rotations().counts(histogram) : histogram);
  const auto coded_as = [&](uint32_t symbol) -> uint32_t { return model.rotated ? rotations().least[symbol] : symbol; };
  const auto with_rotations = [&](std::vector<uint8_t> lengths) {
    if (!model.rotated) return lengths;
    std::vector<uint8_t> all(kSymbols, 0);
    for (uint32_t symbol = 0; symbol < kSymbols; ++symbol)
      if (const uint8_t length = lengths[coded_as(symbol)]; length > 0)
        all[symbol] = static_cast<uint8_t>(length + kRotationBits);
    return all;
  };
  const size_t codes = choose_codes(ranking, model.table_bits, patch_bits).codes;
  std::vector<uint64_t> counts(kSymbols, 0);
  for (size_t i = 0; i < codes; ++i) counts[ranking.symbols[i]] = ranking.counts[i];
  if (codes == 0) counts[0] = 1;  // no elements
  std::vector<uint8_t> lengths = modelling::limited_code_lengths(counts, model.table_bits);
  std::vector<uint32_t> substitutes = best_substitutes(with_rotations(lengths), model.symbol_cols, model.floats);
  if (codes < ranking.symbols.size()) {
    for (size_t i = codes; i < ranking.symbols.size(); ++i)
      counts[coded_as(substitutes[ranking.symbols[i]] & 0xffff)] += ranking.counts[i];
    lengths = modelling::limited_code_lengths(counts, model.table_bits);
    substitutes = best_substitutes(with_rotations(lengths), model.symbol_cols, model.floats);
  }

  const std::vector<uint32_t> canonical = modelling::canonical_codes(lengths);
  const auto code_of = [&](uint32_t symbol) {
    const uint32_t of_table = coded_as(symbol);
    const uint16_t code = reversed(canonical[of_table], lengths[of_table]);
    if (!model.rotated) return SymbolCode{code, static_cast<uint16_t>(symbol), lengths[symbol]};
    return SymbolCode{static_cast<uint16_t>(code << kRotationBits | rotations().rotation[symbol]),
                      static_cast<uint16_t>(symbol), static_cast<uint8_t>(lengths[of_table] + kRotationBits)};
  };
  model.codes.resize(kSymbols);
  for (uint32_t symbol = 0; symbol < kSymbols; ++symbol) model.codes[symbol] = code_of(substitutes[symbol] & 0xffff);
  const auto best_of = [&](uint32_t first, uint32_t step) {
    uint32_t best = substitutes[first];
    for (uint32_t symbol = first; symbol < kSymbols; symbol += step) best = std::min(best, substitutes[symbol]);
    return code_of(best & 0xffff);
  };
  model.shortest = best_of(0, 1);
  const uint32_t partial = 1u << (high_bits(model.symbol_cols) * (cols % model.symbol_cols));
  for (uint32_t symbol = 0; symbol < partial; ++symbol) model.partial.push_back(best_of(symbol, partial));

  model.table.assign(size_t{1} << model.table_bits, 0);
  for (uint32_t symbol = 0; symbol < kSymbols; ++symbol) {
    const int length = lengths[symbol];
    if (length == 0) continue;
    const uint32_t entry = entry_of(model, symbol, static_cast<uint32_t>(length + (model.rotated ? kRotationBits : 0)));
    // The only code there is has one bit, and the other value of that bit means the same.
    const uint32_t step = codes < 2 ? 1 : 1u << length;
    for (size_t i = reversed(canonical[symbol], length) & (step - 1); i < size_t{1} << model.table_bits; i += step)
      model.table[i] = entry;
  }
}

// The exponents of a matrix of bf16 or f8 as int8, less 128.
std::vector<std::byte> exponents_of(datasets::MatrixView matrix) {
  std::vector<std::byte> out(static_cast<size_t>(matrix.shape.elements()));
  if (matrix.type == datasets::ElementType::f8_e4m3) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = (matrix.elements[i] >> 3 & std::byte{0x0F}) ^ std::byte{0x80};
    return out;
  }
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = ((matrix.elements[2 * i + 1] << 1 & std::byte{0xFE}) | matrix.elements[2 * i] >> 7) ^ std::byte{0x80};
  return out;
}

}  // namespace

Model make_model(datasets::MatrixView matrix, Wanted wanted, Aim aim) {
  Model model;
  model.f8 = matrix.type == datasets::ElementType::f8_e4m3;
  model.floats = model.f8 || matrix.type == datasets::ElementType::bf16;
  std::vector<std::byte> exponents;
  if (model.floats) {
    exponents = exponents_of(matrix);
    matrix = {matrix.shape, datasets::ElementType::i8, exponents};
  }
  // Of a matrix without elements.
  Parameters parameters{{.symbol_cols = wanted.symbol_cols == 0 ? 4 : wanted.symbol_cols,
                         .raw_bits = std::max(wanted.raw_bits, 0),
                         .lowest = model.f8 ? -128 : 0,
                         .floats = model.floats,
                         .strips = wanted.strips},
                        std::max(wanted.table_bits, kLeastTableBits)};
  Cells& cells = parameters.cells;
  if (model.floats) cells.raw_bits = cell_bits(float_form(cells.symbol_cols, model.f8));
  cells.folded = !wanted.contiguous || cells.raw_bits > most_raw_bits(cells.symbol_cols, false);
  if (cells.folded) cells.raw_bits = std::max(cells.raw_bits, least_raw_bits(cells.symbol_cols, true));
  if (matrix.shape.elements() > 0)
    parameters = choose_parameters(matrix, modelling::histogram(matrix.i8()), model, wanted, aim);
  model.symbol_cols = cells.symbol_cols, model.raw_bits = cells.raw_bits, model.lowest = cells.lowest;
  model.folded = cells.folded, model.rotated = wanted.rotated;
  model.table_bits = parameters.table_bits;
  make_code(model, count_symbols(matrix, cells, 1), matrix.shape.cols, cells.patch_bits());
  if (model.floats) model.lowest += 128;
  return model;
}

}  // namespace ecmv::codecs::quad_huffman
