// Chooses forms and frequencies. Costs are integers (bits in units of 2^-16) or exactly rounded products, so that every
// platform decides alike.
#include "codecs/rans_byte_planes/model.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace ecmv::codecs::rans_byte_planes {
namespace {

constexpr int64_t kBit = 1 << 16;
// An exception's cost: about 12 bits of its own, and the symbol that replaces the true one. At 16 the pairs of sigma 4
// are 0.02 % smaller but have 40 % more exceptions, which cost the product time.
constexpr int64_t kExceptionCost = 17 * kBit;

const std::array<int64_t, kSlots + 1>& log_table() {
  static const std::array<int64_t, kSlots + 1> table = [] {
    std::array<int64_t, kSlots + 1> logs{};
    for (int i = 1; i <= kSlots; ++i) logs[i] = log2_fixed(i);
    return logs;
  }();
  return table;
}

// Cost, in 2^-16 of a bit, of the classes of 2^raw_bits neighbours in `order`, without the raw bits.
double class_cost(const modelling::Histogram& histogram, const std::array<uint8_t, 256>& order, int raw_bits) {
  double cost = 0;
  for (int first = 0; first < 256; first += 1 << raw_bits) {
    uint64_t count = 0;
    for (int i = 0; i < 1 << raw_bits; ++i) count += histogram[order[first + i]];
    if (count > 0) cost -= static_cast<double>(count) * static_cast<double>(log2_fixed(count));
  }
  return cost;
}

// Ranks values by falling count, or as 0, -1, 1, -2, 2.. if that costs no more than 0.0005 bits an element: then the
// members of a class, put in order of value, have the same distances from the members of any other class, and
// exceptions need few different deltas. By count alone the chance order of v and -v makes these distances irregular.
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

// Frequencies with the sum `slots` for the first `kept` symbols in `order`; the rest get 0. It starts near c * slots /
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
  double cost = 0;   // 2^-16 bits of all symbols together
  int kept = 0;      // symbols with slots: the first ones by falling count
  int in_fours = 0;  // of these, how many have their slots in fours
};

using Order = std::array<int, 64>;
double cost_of(const std::array<uint64_t, 64>& counts, const Order& order, const Frequencies& of, int slots) {
  const auto& logs = log_table();
  double cost = 0;
  for (int i = 0; i < 64; ++i) {
    const int s = order[i];
    cost += static_cast<double>(counts[s]) *
            static_cast<double>(i < of.kept ? logs[slots] - logs[of.f[s]] : kExceptionCost);
  }
  return cost;
}

// The cheapest of the lists of symbols that get slots.
Frequencies best_list(const std::array<uint64_t, 64>& counts, const Order& order, int used, int slots, int cap) {
  Frequencies best;
  for (int kept = used; kept >= 1; --kept) {
    Frequencies some{.f = normalise(counts, order, kept, slots, cap), .kept = kept};
    some.cost = cost_of(counts, order, some, slots);
    if (kept == used || some.cost < best.cost) best = some;
    // From here on the part left out only grows; once it alone costs more than everything, no shorter list wins.
    if (some.cost > 2 * best.cost) break;
  }
  return best;
}

// The same with the most frequent symbols in the first kFourSlots slots, in steps of four; it searches near `any`, the
// best list without fours. in_fours is 0 if there are too few symbols to fill both parts.
Frequencies best_fours(const std::array<uint64_t, 64>& counts, const Order& order, int used, const Frequencies& any) {
  constexpr int kStepsOfFour = kFourSlots / 4, kOthers = kSlots - kFourSlots, kKeptLess = 4, kKeptMore = 2, kNear = 2;
  uint64_t total = 0, before = 0;
  for (uint64_t count : counts) total += count;
  int share = 0;  // symbols that take kFourSlots of the slots, about
  while (share < used && before < total / kSlots * kFourSlots) before += counts[order[share++]];
  Frequencies best;
  for (int kept = std::min(used, any.kept + kKeptMore); kept >= std::max(2, any.kept - kKeptLess); --kept)
    for (int first = std::max(1, share - kNear); first < kept && first <= share + kNear; ++first) {
      if (first > kStepsOfFour || kept - first > kOthers) continue;  // each symbol has a slot at least
      Order rest = order;
      std::rotate(rest.begin(), rest.begin() + first, rest.end());
      const std::array<int, 64> fours = normalise(counts, order, first, kStepsOfFour, kMaxFrequency / 4),
                                ones = normalise(counts, rest, kept - first, kOthers, kMaxFrequency);
      Frequencies some{.kept = kept, .in_fours = first};
      int of_fours = 0, of_ones = 0;
      for (int i = 0; i < kept; ++i) {
        const int s = order[i];
        if (i < first)
          of_fours += fours[s], some.f[s] = 4 * fours[s];
        else
          of_ones += some.f[s] = ones[s];
      }
      if (of_fours != kStepsOfFour || of_ones != kOthers) continue;
      some.cost = cost_of(counts, order, some, kSlots);
      if (best.in_fours == 0 || some.cost < best.cost) best = some;
    }
  return best;
}

Order by_falling_count(const std::array<uint64_t, 64>& counts) {
  Order order;
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return counts[a] != counts[b] ? counts[a] > counts[b] : a < b; });
  return order;
}

// For kFours, in_fours is 0 if fours are not possible; the frequencies are then for kAnyRuns.
Frequencies best_frequencies(const std::array<uint64_t, 64>& counts, int runs) {
  const Order order = by_falling_count(counts);
  int used = 0;
  for (uint64_t count : counts) used += count > 0;
  used = std::max(1, used);
  if (runs == kTwos) {
    Frequencies twos = best_list(counts, order, used, kSlots / 2, kMaxFrequency / 2);
    for (int& f : twos.f) f *= 2;
    return twos;
  }
  const Frequencies any = best_list(counts, order, used, kSlots, kMaxFrequency);
  if (runs == kAnyRuns) return any;
  const Frequencies fours = best_fours(counts, order, used, any);
  return fours.in_fours > 0 ? fours : any;
}

// A form's expected bits an element if elements are independent, and its cycles for a vector of elements (Zen 4 except
// for fours, NOTES.md).
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
  const Frequencies frequencies = best_frequencies(counts, form.runs);
  if (form.runs == kFours && frequencies.in_fours == 0) form.runs = kAnyRuns;
  Estimate out{.form = form};
  // rANS with L = M loses about 0.006 bits a symbol (0.011 with one value a symbol). The values for runs are fitted to
  // the sizes at sigma 4. States are 1 KiB a block.
  constexpr double kPrecision[kRunsCount][2] = {{0.005, 0.010}, {0.001, 0.001}, {0.002, 0.004}};
  out.bits =
      frequencies.cost / (65536.0 * 4294967296.0 * k) + form.raw_bits + kPrecision[form.runs][k == 1] / k +
      17.0 * static_cast<double>(outside) / static_cast<double>(total) +
      2.0 * 8.0 * kFormatLanes / static_cast<double>(std::min<uint64_t>(total, static_cast<uint64_t>(block_elements)));
  // Fours take as many operations as 8 bits on Zen 4 and fewer elsewhere, so they count as slightly faster and win at
  // equal size.
  constexpr double kCycles[4][kRunsCount] = {{}, {12.7, 11.6, 12.6}, {8.6, 7.5, 8.5}, {7.0, 6.4, 6.9}};
  const int bits = index_bits(form);
  out.cycles = kCycles[k][form.runs] + (k == 1 && form.raw_bits > 0 ? 1.5 : 0) +
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
      for (int runs = 0; runs < kRunsCount; ++runs) {
        if (constraints.values != 0 && constraints.values != values) continue;
        if (constraints.raw_bits >= 0 && constraints.raw_bits != raw) continue;
        if (constraints.runs >= 0 && constraints.runs != runs) continue;
        estimates.push_back(estimate(
            histogram, total, {static_cast<uint8_t>(values), static_cast<uint8_t>(raw), static_cast<uint8_t>(runs), 0},
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
  const Frequencies frequencies = best_frequencies(symbol_counts, form.runs);
  if (form.runs == kFours && frequencies.in_fours == 0) model.form.runs = kAnyRuns;
  // Frequent symbols come first. Any other order within the fours, and within the others, would do: in simulations
  // orders differ by less than 0.0003 bits a symbol (NOTES.md).
  Order order = by_falling_count(symbol_counts);
  const auto more = [&](int a, int b) { return frequencies.f[a] > frequencies.f[b]; };
  const auto ones = order.begin() + frequencies.in_fours;
  std::stable_sort(order.begin(), ones, more);
  std::stable_sort(ones, order.end(), more);
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
