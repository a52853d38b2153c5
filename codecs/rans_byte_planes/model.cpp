// Choice of forms and frequencies. Costs are integers (bits in units of 2^-16) or exactly rounded products, so that
// every platform decides alike.
#include "codecs/rans_byte_planes/model.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace ecmv::codecs::rans_byte_planes {
namespace {

constexpr int64_t kBit = 1 << 16;
// An exception: about 12 bits of its own and the symbol that stands in its place. With 16 the pairs of sigma 4 are 0.02
// % smaller, but have 40 % more exceptions, which cost the product time.
constexpr int64_t kExceptionCost = 17 * kBit;

const std::array<int64_t, kSlots + 1>& log_table() {
  static const std::array<int64_t, kSlots + 1> table = [] {
    std::array<int64_t, kSlots + 1> logs{};
    for (int i = 1; i <= kSlots; ++i) logs[i] = log2_fixed(i);
    return logs;
  }();
  return table;
}

// Bits of 2^-16 that the classes of 2^raw_bits neighbours in `order` take, without the raw bits.
double class_cost(const modelling::Histogram& histogram, const std::array<uint8_t, 256>& order, int raw_bits) {
  double cost = 0;
  for (int first = 0; first < 256; first += 1 << raw_bits) {
    uint64_t count = 0;
    for (int i = 0; i < 1 << raw_bits; ++i) count += histogram[order[first + i]];
    if (count > 0) cost -= static_cast<double>(count) * static_cast<double>(log2_fixed(count));
  }
  return cost;
}

// Values by falling count, or 0, -1, 1, -2, 2.. where that costs no more than 0.0005 bits an element: then the members
// of a class, put in order of value, have the same distances from those of any other class, and exceptions need few
// different deltas. By count alone the chance order of v and -v makes these distances irregular.
std::array<uint8_t, 256> ranking(const modelling::Histogram& histogram, int raw_bits) {
  std::array<uint8_t, 256> order, folded;
  std::iota(order.begin(), order.end(), uint8_t{0});
  const auto distance = [](int bin) { return bin >= 128 ? 2 * (bin - 128) : 2 * (128 - bin) - 1; };
  for (int bin = 0; bin < 256; ++bin) folded[distance(bin)] = static_cast<uint8_t>(bin);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return histogram[a] != histogram[b] ? histogram[a] > histogram[b] : distance(a) < distance(b);
  });
  uint64_t total = 0;
  for (uint64_t count : histogram) total += count;
  if (class_cost(histogram, folded, raw_bits) <=
      class_cost(histogram, order, raw_bits) + static_cast<double>(kBit / 2000) * static_cast<double>(total))
    order = folded;
  for (int first = 0; first < 256; first += 1 << raw_bits)
    std::sort(order.begin() + first, order.begin() + first + (1 << raw_bits));
  return order;
}

// Frequencies with sum `slots` for the first `kept` of the symbols in `order`; the rest 0. Starts near c * slots /
// total and exchanges single slots by greatest gain.
std::array<int, 64> normalise(const std::array<uint64_t, 64>& counts, const std::array<int, 64>& order, int kept,
                              int slots, int cap) {
  const auto& logs = log_table();
  std::array<int, 64> f{};
  uint64_t total = 0;
  for (int i = 0; i < kept; ++i) total += counts[order[i]];
  int sum = 0;
  for (int i = 0; i < kept; ++i) {
    const int start =
        total == 0 ? 1 : static_cast<int>(static_cast<double>(counts[order[i]]) * slots / static_cast<double>(total));
    sum += f[order[i]] = std::clamp(start, 1, cap);
  }
  while (sum < slots) {
    int best = -1;
    uint64_t best_gain = 0;
    for (int i = 0; i < kept; ++i) {
      const int s = order[i];
      const uint64_t gain = f[s] < cap ? counts[s] * static_cast<uint64_t>(logs[f[s] + 1] - logs[f[s]]) : 0;
      if (f[s] < cap && (best < 0 || gain > best_gain)) best = s, best_gain = gain;
    }
    if (best < 0) {  // few symbols, all at the cap: slots that no symbol of the matrix uses
      for (int i = kept; i < 64 && sum < slots; ++i) sum += f[order[i]] = std::min(cap, slots - sum);
      break;
    }
    ++f[best], ++sum;
  }
  while (sum > slots) {
    int best = -1;
    uint64_t best_loss = 0;
    for (int i = 0; i < kept; ++i) {
      const int s = order[i];
      const uint64_t loss = f[s] > 1 ? counts[s] * static_cast<uint64_t>(logs[f[s]] - logs[f[s] - 1]) : 0;
      if (f[s] > 1 && (best < 0 || loss < best_loss)) best = s, best_loss = loss;
    }
    --f[best], --sum;
  }
  return f;
}

struct Frequencies {
  std::array<int, 64> f{};
  double cost = 0;  // 2^-16 bits of all symbols together
};

Frequencies best_frequencies(const std::array<uint64_t, 64>& counts, bool even) {
  const auto& logs = log_table();
  const int slots = even ? kSlots / 2 : kSlots, cap = even ? kMaxFrequency / 2 : kMaxFrequency;
  std::array<int, 64> order;
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return counts[a] != counts[b] ? counts[a] > counts[b] : a < b; });
  int used = 0;
  uint64_t total = 0;
  for (uint64_t count : counts) used += count > 0, total += count;
  Frequencies best;
  for (int kept = std::max(1, used); kept >= 1; --kept) {
    const std::array<int, 64> f = normalise(counts, order, kept, slots, cap);
    double cost = 0;
    for (int i = 0; i < 64; ++i) {
      const int s = order[i];
      cost +=
          static_cast<double>(counts[s]) * static_cast<double>(i < kept ? logs[slots] - logs[f[s]] : kExceptionCost);
    }
    if (kept == std::max(1, used) || cost < best.cost) best = {f, cost};
    // What is left out only grows from here on; once it alone costs more than everything, no shorter list wins.
    if (cost > 2 * best.cost) break;
  }
  if (even)
    for (int& f : best.f) f *= 2;
  return best;
}

// Expected bits an element of a form if elements are independent, and cycles an element vector (Zen 4, NOTES.md).
struct Estimate {
  Form form;
  double bits = 0, cycles = 0;
};

Estimate estimate(const modelling::Histogram& histogram, uint64_t total, Form form, int64_t block_elements) {
  const Classes classes = rank_values(histogram, form);
  const int k = form.values, width = class_bits(k);
  std::array<uint64_t, 64> of_class{};
  uint64_t outside = 0;
  for (int v = 0; v < 256; ++v) (classes.class_of[v] < 0 ? outside : of_class[classes.class_of[v]]) += histogram[v];
  std::array<uint64_t, 64> counts{};
  for (int symbol = 0; symbol < 64; ++symbol) {
    double p = 1;
    for (int i = 0; i < k; ++i)
      p = p * (static_cast<double>(of_class[symbol >> (width * i) & ((1 << width) - 1)]) / static_cast<double>(total));
    counts[symbol] = static_cast<uint64_t>(p * 4294967296.0);
  }
  const Frequencies frequencies = best_frequencies(counts, form.even);
  Estimate out{.form = form};
  // rANS with L = M loses about 0.006 bits a symbol (0.011 where one value is coded); states are 1 KiB a block.
  out.bits =
      frequencies.cost / (65536.0 * 4294967296.0 * k) + form.raw_bits +
      (form.even ? 0.001
       : k == 1  ? 0.010
                 : 0.005) /
          k +
      17.0 * static_cast<double>(outside) / static_cast<double>(total) +
      2.0 * 8.0 * kFormatLanes / static_cast<double>(std::min<uint64_t>(total, static_cast<uint64_t>(block_elements)));
  constexpr double kCycles[4][2] = {{}, {12.7, 11.6}, {8.6, 7.5}, {7.0, 6.4}};
  const int bits = index_bits(form);
  out.cycles = kCycles[k][form.even] + (k == 1 && form.raw_bits > 0 ? 1.5 : 0) +
               (bits == 7   ? 0.5
                : bits == 8 ? 1.5
                            : 0);
  return out;
}

}  // namespace

int64_t log2_fixed(uint64_t value) {
  int64_t out = std::bit_width(value) - 1;
  // The mantissa in [1, 2) with 31 fraction bits; each squaring gives one bit of the logarithm.
  uint64_t m = out > 31 ? value >> (out - 31) : value << (31 - out);
  for (int i = 0; i < 16; ++i) {
    m = (m * m) >> 31;
    const int bit = m >> 32 != 0;
    m >>= bit;
    out = out * 2 + bit;
  }
  return out;
}

Classes rank_values(const modelling::Histogram& histogram, Form form) {
  const std::array<uint8_t, 256> order = ranking(histogram, form.raw_bits);
  Classes classes;
  for (int rank = 0; rank < 256; ++rank) {
    const int number = rank >> form.raw_bits;
    classes.class_of[order[rank]] = static_cast<int16_t>(number < 1 << class_bits(form.values) ? number : -1);
    classes.raw_of[order[rank]] = static_cast<uint8_t>(rank & ((1 << form.raw_bits) - 1));
  }
  return classes;
}

double size_limit(const modelling::Histogram& histogram, int64_t excess_per_mille) {
  uint64_t total = 0;
  double entropy = 0;  // 2^-16 bits
  for (uint64_t count : histogram) total += count;
  for (uint64_t count : histogram)
    if (count > 0) entropy += static_cast<double>(count) * static_cast<double>(log2_fixed(total) - log2_fixed(count));
  if (total == 0) return 0;
  return entropy / (65536.0 * static_cast<double>(total)) * (1.0 + static_cast<double>(excess_per_mille) / 1000.0);
}

Choice choose_forms(const modelling::Histogram& histogram, const Constraints& constraints, double limit) {
  uint64_t total = 0;
  for (uint64_t count : histogram) total += count;
  if (total == 0) return {};
  std::vector<Estimate> estimates;
  for (int values = 1; values <= 3; ++values)
    for (int raw = 0; raw <= max_raw_bits(values); ++raw)
      for (int even = 0; even <= 1; ++even) {
        if (constraints.values != 0 && constraints.values != values) continue;
        if (constraints.raw_bits >= 0 && constraints.raw_bits != raw) continue;
        if (constraints.prob_bits != 0 && (constraints.prob_bits == 7) != (even == 1)) continue;
        estimates.push_back(estimate(
            histogram, total, {static_cast<uint8_t>(values), static_cast<uint8_t>(raw), static_cast<uint8_t>(even), 0},
            constraints.block_elements));
      }
  const auto& smallest = *std::min_element(estimates.begin(), estimates.end(),
                                           [](const Estimate& a, const Estimate& b) { return a.bits < b.bits; });
  if (smallest.bits >= 8) return {};
  if (smallest.bits > limit) return {{smallest.form}, 256, true, smallest.cycles};
  // The fastest form within the limit, or the fastest mixture of a form above it with one below it.
  Choice best{{smallest.form}, 256, true, smallest.cycles};
  for (const Estimate& slow : estimates) {
    if (slow.bits > limit) continue;
    if (slow.cycles < best.cycles) best = {{slow.form}, 256, false, slow.cycles};
    for (const Estimate& fast : estimates) {
      if (fast.bits <= limit || fast.cycles >= slow.cycles) continue;
      const int share = static_cast<int>(256.0 * (limit - slow.bits) / (fast.bits - slow.bits));
      const double cycles = (share * fast.cycles + (256 - share) * slow.cycles) / 256.0;
      if (share > 0 && cycles < best.cycles) best = {{fast.form, slow.form}, share, false, cycles};
    }
  }
  return best;
}

Model make_model(const modelling::Histogram& histogram, Form form, const std::array<uint64_t, 64>& symbol_counts) {
  Model model{};
  model.form = form;
  const Frequencies frequencies = best_frequencies(symbol_counts, form.even);
  std::array<int, 64> order;
  std::iota(order.begin(), order.end(), 0);
  // Frequent symbols first. Any fixed order would do: by simulation orders differ by less than 0.0003 bits a symbol
  // (NOTES.md).
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return frequencies.f[a] > frequencies.f[b]; });
  int slot = 0;
  for (int symbol : order) {
    model.frequency[symbol] = static_cast<uint8_t>(frequencies.f[symbol]);
    model.minus_start[symbol] = static_cast<uint8_t>(-slot);
    for (int i = 0; i < frequencies.f[symbol]; ++i) model.symbol[slot++] = static_cast<uint8_t>(symbol);
  }
  const std::array<uint8_t, 256> ranks = ranking(histogram, form.raw_bits);
  for (int position = 0; position < form.values; ++position)
    for (int index = 0; index < 1 << index_bits(form); ++index) {
      const int number = extract(index, class_mask(form.values, position)),
                raw = extract(index, raw_mask(form.values, form.raw_bits, position));
      const int rank = number << form.raw_bits | raw;
      model.value[position][index] = static_cast<int8_t>(ranks[rank] - 128);
    }
  return model;
}

}  // namespace ecmv::codecs::rans_byte_planes
