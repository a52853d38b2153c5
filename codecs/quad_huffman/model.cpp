// 1. For every candidate of raw_bits: `lowest`, by the order-0 cost of the clamped high parts and the patches of what lies outside.
// 2. The quads of a sample of rows are counted, and for every candidate of table_bits the stored bits are estimated: ideal code
//    lengths with a limit, the number of codes chosen among 16. No code is made for that.
// 3. For the choice all quads are counted and the code is made, twice: quads without a code count for those that stand in.
#include "codecs/quad_huffman/model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "codecs/modelling/code_lengths.h"
#include "codecs/modelling/histogram.h"
#include "codecs/quad_huffman/format.h"

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

int clamped_high(int w, int raw_bits, int lowest) { return std::clamp((w - lowest) >> raw_bits, 0, kHighValues - 1); }

// Bits of patches of the elements outside the window.
uint64_t outside_bits(const modelling::Histogram& elements, int raw_bits, int lowest) {
  uint64_t records = 0;
  for (int w = -128; w < 128; ++w)
    records += elements[w + 128] * static_cast<uint64_t>(patch_records(clamped_high(w, raw_bits, lowest), (w - lowest) >> raw_bits));
  return records * kPatchBits;
}

// -128 or more: then w - lowest, and all that stands in for it, fits 8 bits without sign.
int best_lowest(const modelling::Histogram& elements, int raw_bits) {
  int smallest = -128, largest = 127;
  while (smallest < 127 && elements[smallest + 128] == 0) ++smallest;
  while (largest > smallest && elements[largest + 128] == 0) --largest;
  const int cell = 1 << raw_bits, first = std::max(-128, smallest - cell + 1);
  const int last = std::max(first + cell - 1, largest - kHighValues * cell + 1);
  int best = first;
  double best_bits = 0;
  for (int lowest = first; lowest <= std::min(last, 127); ++lowest) {
    std::array<uint64_t, kHighValues> counts{};
    for (int w = smallest; w <= largest; ++w) counts[clamped_high(w, raw_bits, lowest)] += elements[w + 128];
    const double bits = order0_bits(counts) + static_cast<double>(outside_bits(elements, raw_bits, lowest));
    if (lowest == first || bits < best_bits) best = lowest, best_bits = bits;
  }
  return best;
}

// Quads of every `stride`-th row. Columns behind the last count as the quad's first.
std::vector<uint64_t> count_quads(datasets::MatrixView matrix, int raw_bits, int lowest, int64_t stride) {
  std::array<uint16_t, 256> high;
  for (int w = -128; w < 128; ++w) high[w & 255] = static_cast<uint16_t>(clamped_high(w, raw_bits, lowest));
  std::vector<uint64_t> counts(kQuads, 0);
  const int64_t cols = matrix.shape.cols;
  for (int64_t row = 0; row < matrix.shape.rows; row += stride) {
    const uint8_t* w = reinterpret_cast<const uint8_t*>(matrix.elements.data()) + row * cols;
    int64_t col = 0;
    for (; col + 4 <= cols; col += 4) ++counts[high[w[col]] | high[w[col + 1]] << 4 | high[w[col + 2]] << 8 | high[w[col + 3]] << 12];
    if (col == cols) continue;
    uint32_t quad = 0;
    for (int k = 0; k < 4; ++k) quad |= static_cast<uint32_t>(high[w[col + k < cols ? col + k : col]]) << (4 * k);
    ++counts[quad];
  }
  return counts;
}

// Quads that occur, the most frequent first, with sums over the first n of them.
struct Ranking {
  std::vector<uint32_t> quads;
  std::vector<uint64_t> counts;
  std::vector<uint64_t> sum, sum_of_logs;  // [n + 1]; counts, and counts * log2 in 1/65536

  explicit Ranking(const std::vector<uint64_t>& histogram) {
    for (uint32_t quad = 0; quad < kQuads; ++quad)
      if (histogram[quad] > 0) quads.push_back(quad);
    std::sort(quads.begin(), quads.end(), [&](uint32_t a, uint32_t b) { return histogram[a] != histogram[b] ? histogram[a] > histogram[b] : a < b; });
    sum.push_back(0), sum_of_logs.push_back(0);
    for (const uint32_t quad : quads) {
      counts.push_back(histogram[quad]);
      sum.push_back(sum.back() + counts.back());
      sum_of_logs.push_back(sum_of_logs.back() + counts.back() * log2_q16(counts.back()));
    }
  }
};

struct CodeChoice {
  size_t codes = 0;   // that many of the most frequent quads get one
  uint64_t bits = 0;  // of codes and of the patches for other quads, about
};

// Bits for `codes` codes of ideal lengths up to table_bits: the longest ones for the rarest, and of what those leave of the code
// space to each of the others its share.
uint64_t ideal_bits(const Ranking& ranking, size_t codes, int table_bits) {
  const uint64_t space = uint64_t{1} << table_bits;
  size_t free = codes;
  while (free > 1 && ranking.counts[free - 1] * (space - (codes - free)) < ranking.sum[free]) --free;
  const uint64_t sum = ranking.sum[free];
  const uint64_t logs = sum * (log2_q16(sum) + (static_cast<uint64_t>(table_bits) << 16) - log2_q16(space - (codes - free)));
  const uint64_t bits = (logs - std::min(logs, ranking.sum_of_logs[free])) >> 16;
  return std::max(bits + static_cast<uint64_t>(table_bits) * (ranking.sum[codes] - sum), ranking.sum[codes]);
}

CodeChoice choose_codes(const Ranking& ranking, int table_bits) {
  const size_t most = std::min(ranking.quads.size(), size_t{1} << table_bits);
  CodeChoice best;
  for (size_t part = 1; part <= 16 && most > 0; ++part) {
    const size_t codes = std::max<size_t>(std::min<size_t>(most, 2), most * part / 16);
    const uint64_t left_out = ranking.sum.back() - ranking.sum[codes];
    // What stands in has a code of average length or more, and a patch in twenty needs a second record.
    const uint64_t bits = ideal_bits(ranking, codes, table_bits) + left_out * static_cast<uint64_t>(table_bits - 1 + kPatchBits + 1);
    if (best.codes == 0 || bits < best.bits) best = {codes, bits};
  }
  return best;
}

struct Parameters {
  int raw_bits = 0, table_bits = kLeastTableBits, lowest = 0;
};

Parameters choose_parameters(datasets::MatrixView matrix, const modelling::Histogram& elements, int raw_bits, int table_bits, Aim aim) {
  const int64_t rows = matrix.shape.rows, stride = std::max<int64_t>(1, matrix.shape.elements() / kSampleElements);
  const double of_sample = static_cast<double>(rows) / static_cast<double>((rows + stride - 1) / stride);
  const double elements_in_all = static_cast<double>(matrix.shape.elements());
  struct Candidate {
    Parameters parameters;
    double bits;
  };
  std::vector<Candidate> candidates;
  for (int b = raw_bits < 0 ? 0 : raw_bits; b <= (raw_bits < 0 ? kMostRawBits : raw_bits); ++b) {
    const int lowest = best_lowest(elements, b);
    const double rest = static_cast<double>(b) * elements_in_all + static_cast<double>(outside_bits(elements, b, lowest));
    if (!candidates.empty() && aim == Aim::size &&
        rest > std::min_element(candidates.begin(), candidates.end(), [](const auto& x, const auto& y) { return x.bits < y.bits; })->bits)
      continue;
    const Ranking ranking(count_quads(matrix, b, lowest, stride));
    for (int t = table_bits == 0 ? kLeastTableBits : table_bits; t <= (table_bits == 0 ? kMostTableBits : table_bits); ++t)
      candidates.push_back({{b, t, lowest}, static_cast<double>(choose_codes(ranking, t).bits) * of_sample + rest + static_cast<double>(32 << t)});
  }
  const auto cheapest = [&](auto admitted) {
    const Candidate* best = nullptr;
    for (const Candidate& candidate : candidates)
      if (admitted(candidate) && (best == nullptr || candidate.bits < best->bits)) best = &candidate;
    return best;
  };
  if (aim == Aim::speed && table_bits == 0) {
    const double acceptable = 1.1 * order0_bits(elements);
    const Candidate* most_raw = nullptr;
    for (const Candidate& candidate : candidates)
      if (candidate.parameters.table_bits == 9 && candidate.bits <= acceptable) most_raw = &candidate;
    return most_raw != nullptr ? most_raw->parameters : cheapest([](const Candidate& c) { return c.parameters.table_bits == 11; })->parameters;
  }
  return cheapest([](const Candidate&) { return true; })->parameters;
}

// For every quad the best of those with a code: patches first, then length. Patches of four columns add up, so four passes of
// minima along one column each find it. A state is cost << 16 | quad.
std::vector<uint32_t> best_substitutes(const std::vector<uint8_t>& lengths) {
  constexpr uint32_t kOfPatch = 32u << 16, kNone = 1u << 30;
  std::vector<uint32_t> best(kQuads), next(kQuads);
  for (uint32_t quad = 0; quad < kQuads; ++quad) best[quad] = lengths[quad] > 0 ? static_cast<uint32_t>(lengths[quad]) << 16 | quad : kNone;
  for (uint32_t step = 1; step < kQuads; step *= kHighValues) {
    for (uint32_t first = 0; first < kQuads; first += step * kHighValues)
      for (int wanted = 0; wanted < kHighValues; ++wanted) {
        uint32_t* to = next.data() + first + step * static_cast<uint32_t>(wanted);
        std::copy_n(best.data() + (to - next.data()), step, to);
        for (int coded = 0; coded < kHighValues; ++coded) {
          const uint32_t* from = best.data() + first + step * static_cast<uint32_t>(coded);
          const uint32_t cost = kOfPatch * static_cast<uint32_t>(patch_records(coded, wanted));
          for (uint32_t i = 0; i < step; ++i) to[i] = std::min(to[i], from[i] + cost);
        }
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

void make_code(Model& model, const std::vector<uint64_t>& histogram, int64_t cols) {
  const Ranking ranking(histogram);
  const size_t codes = choose_codes(ranking, model.table_bits).codes;
  std::vector<uint64_t> counts(kQuads, 0);
  for (size_t i = 0; i < codes; ++i) counts[ranking.quads[i]] = ranking.counts[i];
  if (codes == 0) counts[0] = 1;  // no elements
  std::vector<uint8_t> lengths = modelling::limited_code_lengths(counts, model.table_bits);
  std::vector<uint32_t> substitutes = best_substitutes(lengths);
  if (codes < ranking.quads.size()) {
    for (size_t i = codes; i < ranking.quads.size(); ++i) counts[substitutes[ranking.quads[i]] & 0xffff] += ranking.counts[i];
    lengths = modelling::limited_code_lengths(counts, model.table_bits);
    substitutes = best_substitutes(lengths);
  }

  const std::vector<uint32_t> canonical = modelling::canonical_codes(lengths);
  const auto code_of = [&](uint32_t quad) { return QuadCode{reversed(canonical[quad], lengths[quad]), static_cast<uint16_t>(quad), lengths[quad]}; };
  model.codes.resize(kQuads);
  for (uint32_t quad = 0; quad < kQuads; ++quad) model.codes[quad] = code_of(substitutes[quad] & 0xffff);
  const auto best_of = [&](uint32_t first, uint32_t step) {
    uint32_t best = substitutes[first];
    for (uint32_t quad = first; quad < kQuads; quad += step) best = std::min(best, substitutes[quad]);
    return code_of(best & 0xffff);
  };
  model.shortest = best_of(0, 1);
  for (uint32_t quad = 0; quad < 1u << (4 * (cols % 4)); ++quad) model.partial.push_back(best_of(quad, 1u << (4 * (cols % 4))));

  model.table.assign(size_t{1} << model.table_bits, 0);
  for (uint32_t quad = 0; quad < kQuads; ++quad) {
    const int length = lengths[quad];
    if (length == 0) continue;
    uint32_t entry = 0;
    for (int k = 0; k < 4; ++k)
      entry |= (static_cast<uint32_t>(high_of_quad(quad, k)) << entry_shift(model.raw_bits) | (static_cast<uint32_t>(length) >> k & 1)) << (8 * k);
    // The only code there is has one bit, and the other value of that bit means the same.
    const uint32_t step = codes < 2 ? 1 : 1u << length;
    for (size_t i = reversed(canonical[quad], length) & (step - 1); i < model.table.size(); i += step) model.table[i] = entry;
  }
}

}  // namespace

Model make_model(datasets::MatrixView matrix, int raw_bits, int table_bits, Aim aim) {
  Model model;
  Parameters parameters{std::max(raw_bits, 0), std::max(table_bits, kLeastTableBits), 0};
  if (matrix.shape.elements() > 0) {
    const modelling::Histogram elements = modelling::histogram(matrix.i8());
    parameters = choose_parameters(matrix, elements, raw_bits, table_bits, aim);
  }
  model.raw_bits = parameters.raw_bits, model.table_bits = parameters.table_bits, model.lowest = parameters.lowest;
  make_code(model, count_quads(matrix, model.raw_bits, model.lowest, 1), matrix.shape.cols);
  return model;
}

}  // namespace ecmv::codecs::quad_huffman
