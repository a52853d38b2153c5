// The encoder's model is found in four steps.
//   1. raw_bits: every candidate is costed on a sample of rows (steps 2 to 4 on the sample's histogram).
//   2. lowest: the grid of high parts begins where the order-0 cost is least; elements outside the window of 16 <<
//      raw_bits values are clamped into it and patched.
//   3. tuples: tuples rarer than total / 2^(table_bits + k) get no code, for the best of several k.
//   4. substitutes: a tuple without a code is coded as one that differs in one element, which is then patched.
#include "codecs/huffman_lut/tuple_code.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "codecs/huffman_lut/format.h"
#include "codecs/modelling/code_lengths.h"
#include "codecs/modelling/histogram.h"

namespace ecmv::codecs::huffman_lut::single_level {
namespace {

constexpr int64_t kSampleElements = int64_t{1} << 22;
constexpr uint64_t kPatchBits = 8 * kPatchBytes;
constexpr size_t kTuples = 65536;

// log2(n) in 1/65536 bits, rounded down, n > 0: the integer part, then one bit of the fraction a squaring.
uint64_t log2_q16(uint64_t n) {
  const int whole = 63 - std::countl_zero(n);
  uint64_t mantissa = whole >= 31 ? n >> (whole - 31) : n << (31 - whole);  // [2^31, 2^32)
  uint64_t log = static_cast<uint64_t>(whole);
  for (int bit = 0; bit < 16; ++bit) {
    mantissa = mantissa * mantissa >> 31;
    const uint64_t carry = mantissa >> 32;
    mantissa >>= carry;
    log = log << 1 | carry;
  }
  return log;
}

// Order-0 bits (in 1/65536) of the high parts and of the patches, for a grid that begins at `lowest`.
uint64_t grid_cost(const modelling::Histogram& elements, const TupleCode& code) {
  std::vector<uint64_t> parts(257, 0);
  uint64_t total = 0, cost = 0;
  for (int32_t element = -128; element < 128; ++element) {
    const uint64_t count = elements[static_cast<size_t>(element + 128)];
    const uint32_t high = code.high_of(element);
    parts[high] += count;
    total += count;
    const int32_t first = code.lowest + static_cast<int32_t>(high << code.raw_bits);
    if (element < first || element >= first + (1 << code.raw_bits)) cost += count * (kPatchBits << 16);
  }
  for (const uint64_t count : parts)
    if (count > 0) cost += count * (log2_q16(total) - log2_q16(count));
  return cost;
}

int32_t best_lowest(const modelling::Histogram& elements, TupleCode code) {
  int32_t smallest = 127, largest = -128;
  for (int32_t element = -128; element < 128; ++element)
    if (elements[static_cast<size_t>(element + 128)] > 0) {
      smallest = std::min(smallest, element);
      largest = std::max(largest, element);
    }
  if (smallest > largest) return 0;
  // For pairs the window is never too small; for quads it may leave out elements on both sides.
  const int32_t step = 1 << code.raw_bits, window = code.tuple == 2 ? 256 * step : 16 * step;
  const int32_t end = std::max(smallest, largest - window + 1);
  int32_t best = smallest;
  uint64_t best_cost = UINT64_MAX;
  for (int32_t lowest = smallest - step + 1; lowest <= end; ++lowest) {
    code.lowest = lowest;
    const uint64_t cost = grid_cost(elements, code);
    if (cost < best_cost) {
      best = lowest;
      best_cost = cost;
    }
  }
  return best;
}

// Counts the tuples of every `stride`-th row; columns past the row's end count as the first column of their unit.
std::vector<uint64_t> count_tuples(datasets::MatrixView matrix, const TupleCode& code, int64_t stride) {
  std::vector<uint64_t> counts(kTuples, 0);
  uint8_t high[256];
  for (int32_t element = -128; element < 128; ++element)
    high[static_cast<uint8_t>(element)] = static_cast<uint8_t>(code.high_of(element));
  const int64_t cols = matrix.shape.cols, units = units_of(cols, code.tuple);
  for (int64_t row = 0; row < matrix.shape.rows; row += stride) {
    const int8_t* elements = matrix.i8().data() + row * cols;
    for (int64_t unit = 0; unit < units; ++unit) {
      const int64_t column = unit_column(unit, code.tuple);
      uint32_t tuple = 0;
      for (int i = 0; i < code.tuple; ++i) {
        const int64_t at = column + kColumnOfTuple[i];
        tuple |= uint32_t{high[static_cast<uint8_t>(elements[at < cols ? at : column])]} << tuple_shift(i, code.tuple);
      }
      ++counts[tuple];
    }
  }
  return counts;
}

// Code lengths of the tuples worth a code. Returns the expected bits, with patches and table.
uint64_t choose_tuples(const std::vector<uint64_t>& counts, int table_bits, std::vector<uint8_t>& lengths) {
  uint64_t total = 0;
  std::vector<uint64_t> used;
  for (const uint64_t count : counts)
    if (count > 0) {
      total += count;
      used.push_back(count);
    }
  lengths.assign(kTuples, 0);
  if (used.size() < 2) return 16 * used.size();
  std::sort(used.begin(), used.end(), std::greater<>());
  const size_t room = size_t{1} << table_bits;
  uint64_t best_bits = UINT64_MAX;
  for (int k = 1; k <= 6; ++k) {
    uint64_t least = std::max<uint64_t>(1, total >> (table_bits + k));
    if (used.size() > room) least = std::max(least, used[room] + 1);  // as many as there are codes at most
    least = std::min(least, used[1]);                                 // two at least
    std::vector<uint64_t> kept(kTuples, 0);
    uint64_t left_out = 0, codes = 0;
    for (size_t tuple = 0; tuple < kTuples; ++tuple) {
      if (counts[tuple] >= least && codes < room) {
        kept[tuple] = counts[tuple];
        codes += counts[tuple] > 0;
      } else {
        left_out += counts[tuple];
      }
    }
    std::vector<uint8_t> candidate = modelling::limited_code_lengths(kept, table_bits);
    const uint64_t bits = modelling::coded_bits(kept, candidate) +
                          left_out * (kPatchBits + static_cast<uint64_t>(table_bits) - 2) + 16 * codes;
    if (bits < best_bits) {
      best_bits = bits;
      lengths = std::move(candidate);
    }
    if (left_out == 0) break;
  }
  return best_bits;
}

void add_codes(TupleCode& code, const std::vector<uint64_t>& counts) {
  code.codes = modelling::canonical_codes(code.lengths);
  for (size_t tuple = 0; tuple < kTuples; ++tuple) {
    uint32_t reversed = 0;
    for (int bit = 0; bit < code.lengths[tuple]; ++bit)
      reversed |= (code.codes[tuple] >> bit & 1) << (code.lengths[tuple] - 1 - bit);
    code.codes[tuple] = reversed;
  }
  for (const uint32_t tuple : modelling::canonical_order(code.lengths))
    code.order.push_back(static_cast<uint16_t>(tuple));
  if (code.order.empty())  // a single tuple: a code of no bits
    for (size_t tuple = 0; tuple < kTuples; ++tuple)
      if (counts[tuple] > 0) code.order.push_back(static_cast<uint16_t>(tuple));
}

void add_substitutes(TupleCode& code, const std::vector<uint64_t>& counts) {
  code.substitute.assign(kTuples, code.order.empty() ? 0 : code.order[0]);
  for (const uint16_t tuple : code.order) code.substitute[tuple] = tuple;
  if (code.order.size() < 2) return;
  const uint32_t part_mask = code.tuple == 2 ? 0xff : 0xf;
  for (size_t tuple = 0; tuple < kTuples; ++tuple) {
    if (counts[tuple] == 0 || code.lengths[tuple] > 0) continue;
    // The nearest part comes first: its patch is the least likely to need two addends.
    uint32_t best_distance = UINT32_MAX;
    for (int i = 0; i < code.tuple; ++i) {
      const int shift = tuple_shift(i, code.tuple);
      const uint32_t own = static_cast<uint32_t>(tuple) >> shift & part_mask;
      for (uint32_t part = 0; part <= part_mask; ++part) {
        const uint32_t candidate = (static_cast<uint32_t>(tuple) & ~(part_mask << shift)) | part << shift;
        if (code.lengths[candidate] == 0) continue;
        const uint32_t distance = static_cast<uint32_t>(std::abs(static_cast<int>(part) - static_cast<int>(own))) * 16 +
                                  code.lengths[candidate];
        if (distance < best_distance) {
          best_distance = distance;
          code.substitute[tuple] = static_cast<uint16_t>(candidate);
        }
      }
    }
  }
}

}  // namespace

uint32_t TupleCode::high_of(int32_t element) const {
  const int32_t high = (element - lowest) >> raw_bits;
  return static_cast<uint32_t>(std::clamp(high, 0, tuple == 2 ? 255 : 15));
}

TupleCode make_tuple_code(datasets::MatrixView matrix, int tuple, int table_bits, int raw_bits) {
  const modelling::Histogram elements = modelling::histogram(matrix.i8());
  const int64_t stride = std::max<int64_t>(1, matrix.shape.elements() / kSampleElements);
  TupleCode best;
  best.tuple = tuple;
  best.raw_bits = std::max(raw_bits, 0);
  if (raw_bits < 0) {
    uint64_t best_bits = UINT64_MAX;
    const int64_t sampled = (matrix.shape.rows + stride - 1) / stride * matrix.shape.cols;
    for (int candidate = 0; candidate < 8; ++candidate) {
      TupleCode code;
      code.tuple = tuple;
      code.raw_bits = candidate;
      code.lowest = best_lowest(elements, code);
      // Elements outside the window cost a patch each. Their share of the whole matrix stands for the sample's.
      uint64_t outside = 0;
      for (int32_t element = -128; element < 128; ++element) {
        const int32_t first = code.lowest + static_cast<int32_t>(code.high_of(element) << candidate);
        if (element < first || element >= first + (1 << candidate))
          outside += elements[static_cast<size_t>(element + 128)];
      }
      const uint64_t bits = choose_tuples(count_tuples(matrix, code, stride), table_bits, code.lengths) +
                            static_cast<uint64_t>(sampled) * static_cast<uint64_t>(candidate) +
                            outside / static_cast<uint64_t>(stride) * kPatchBits;
      if (bits < best_bits) {
        best_bits = bits;
        best.raw_bits = candidate;
      }
    }
  }
  best.lowest = best_lowest(elements, best);
  const std::vector<uint64_t> counts = count_tuples(matrix, best, 1);
  choose_tuples(counts, table_bits, best.lengths);
  add_codes(best, counts);
  add_substitutes(best, counts);
  return best;
}

}  // namespace ecmv::codecs::huffman_lut::single_level
