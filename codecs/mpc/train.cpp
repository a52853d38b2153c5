// Ratio entropy, spanning tree, root, shifts and scan order.
#include "codecs/mpc/train.h"

#include <algorithm>
#include <bit>

namespace ecmv::codecs::mpc {
namespace {

constexpr int kRatios = 2 * kMaxShift + 1;  // logarithms -8..8
using RatioTable = std::array<std::array<int8_t, 256>, 256>;

// ratio[t][b] = round(log2(t / b)) for bytes, zero taken as 1. log2(t / b) >= k - 1/2 is t * t * 2 >= b * b * 4^k.
RatioTable ratio_table() {
  RatioTable ratio = {};
  for (int target = 0; target < 256; ++target)
    for (int base = 0; base < 256; ++base) {
      const int64_t t = std::max(target, 1), b = std::max(base, 1);
      int k = -kMaxShift;
      const auto reaches = [&](int next) {
        return next >= 0 ? 2 * t * t >= (b * b) << (2 * next) : (2 * t * t) << (-2 * next) >= b * b;
      };
      while (k < kMaxShift && reaches(k + 1)) ++k;
      ratio[target][base] = static_cast<int8_t>(k);
    }
  return ratio;
}

// n log2(n) in units of 2^-24, rounded down; exact enough to order entropies and equal everywhere.
int64_t n_log_n(uint64_t n) {
  if (n < 2) return 0;
  constexpr int kFraction = 24;
  const int whole = std::bit_width(n) - 1;
  uint64_t mantissa = n << (31 - whole), fraction = 0;  // in [2^31, 2^32): n is below 2^31
  for (int i = 0; i < kFraction; ++i) {
    const uint64_t square = mantissa * mantissa >> 31;  // in [2^31, 2^33)
    const bool two = square >> 32 != 0;
    fraction = fraction << 1 | (two ? 1 : 0);
    mantissa = two ? square >> 1 : square;
  }
  return static_cast<int64_t>(n) * ((int64_t{whole} << kFraction) + static_cast<int64_t>(fraction));
}

// Grows as the entropy of a histogram falls; comparable between histograms with the same sum.
template <class Counts>
int64_t order_in(const Counts& counts) {
  int64_t sum = 0;
  for (const uint64_t count : counts) sum += n_log_n(count);
  return sum;
}

using RatioCounts = std::array<uint64_t, kRatios>;

RatioCounts count_ratios(std::span<const Block> blocks, const RatioTable& ratio, int target, int base) {
  RatioCounts counts = {};
  for (const Block& block : blocks) ++counts[static_cast<size_t>(ratio[block[target]][block[base]] + kMaxShift)];
  return counts;
}

struct Pair {
  int64_t order = 0;  // of the ratios, see order_in()
  int shift = 0;      // of the base: the most frequent ratio
};
using Pairs = std::array<std::array<Pair, kBytes>, kBytes>;

// Ties go to the ratio nearer to zero, then to the negative one.
int most_frequent(const RatioCounts& counts) {
  int best = 0;
  for (int distance = 1; distance <= kMaxShift; ++distance)
    for (const int k : {-distance, distance})
      if (counts[static_cast<size_t>(k + kMaxShift)] > counts[static_cast<size_t>(best + kMaxShift)]) best = k;
  return best;
}

// pairs[target][base], both ways: a ratio turned round is the same number with the other sign.
Pairs measure_pairs(std::span<const Block> blocks) {
  const RatioTable ratio = ratio_table();
  Pairs pairs;
  for (int target = 0; target < kBytes; ++target)
    for (int base = 0; base < target; ++base) {
      RatioCounts counts = count_ratios(blocks, ratio, target, base);
      pairs[target][base] = {order_in(counts), most_frequent(counts)};
      std::reverse(counts.begin(), counts.end());
      pairs[base][target] = {pairs[target][base].order, most_frequent(counts)};
    }
  return pairs;
}

using Neighbours = std::array<std::vector<int>, kBytes>;

// Prim's algorithm from byte 0. Among equal edges it takes the one to the lower byte, from the lower byte.
Neighbours spanning_tree(const Pairs& pairs) {
  Neighbours tree;
  std::array<bool, kBytes> inside = {};
  inside[0] = true;
  for (int added = 1; added < kBytes; ++added) {
    int best = -1, best_from = -1;
    for (int to = 0; to < kBytes; ++to)
      for (int from = 0; from < kBytes; ++from)
        if (!inside[to] && inside[from] && (best < 0 || pairs[to][from].order > pairs[best][best_from].order))
          best = to, best_from = from;
    inside[best] = true;
    tree[best].push_back(best_from);
    tree[best_from].push_back(best);
  }
  return tree;
}

int height(const Neighbours& tree, int node, int parent) {
  int highest = 0;
  for (const int next : tree[node])
    if (next != parent) highest = std::max(highest, 1 + height(tree, next, node));
  return highest;
}

// Among equally low trees the root is the byte that says most, then the lower byte.
int choose_root(std::span<const Block> blocks, const Neighbours& tree) {
  int root = 0;
  int64_t root_order = 0;
  for (int node = 0; node < kBytes; ++node) {
    std::array<uint64_t, 256> values = {};
    for (const Block& block : blocks) ++values[block[node]];
    const int64_t order = order_in(values);
    const int here = height(tree, node, -1), best = height(tree, root, -1);
    if (node == 0 || here < best || (here == best && order < root_order)) root = node, root_order = order;
  }
  return root;
}

void point_to_root(const Neighbours& tree, const Pairs& pairs, int node, int parent, Model& model) {
  model.base[node] = static_cast<uint8_t>(parent);
  model.shift[node] = static_cast<int8_t>(node == parent ? 0 : pairs[node][parent].shift);
  for (const int next : tree[node])
    if (next != parent) point_to_root(tree, pairs, next, node, model);
}

// Bit b of every block, 64 blocks a word.
using BitColumns = std::array<std::vector<uint64_t>, kBits>;

BitColumns bit_columns(std::span<const Block> blocks, const Model& model) {
  BitColumns columns;
  for (auto& column : columns) column.resize((blocks.size() + 63) / 64);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::array<uint32_t, 8> planes = changed_planes(blocks[i], model);
    for (int bit = 0; bit < kBits; ++bit)
      columns[bit][i / 64] |= uint64_t{planes[bit / 32] >> (31 - bit % 32) & 1} << (i % 64);
  }
  return columns;
}

void order_bits(std::span<const Block> blocks, Model& model) {
  const BitColumns columns = bit_columns(blocks, model);
  // Ones of `bit` in the blocks where `before` is zero; all its ones for before < 0.
  const auto ones = [&](int bit, int before) {
    int64_t count = 0;
    for (size_t w = 0; w < columns[bit].size(); ++w)
      count += std::popcount(columns[bit][w] & (before < 0 ? ~uint64_t{0} : ~columns[before][w]));
    return count;
  };
  std::array<bool, kBits> placed = {};
  int before = -1;
  for (int k = 0; k < kBits; ++k) {
    int best = -1;
    int64_t fewest = 0;
    for (int bit = 0; bit < kBits; ++bit) {
      if (placed[bit]) continue;
      const int64_t count = ones(bit, before);
      if (best < 0 || count < fewest) best = bit, fewest = count;
    }
    placed[best] = true;
    model.scan[k] = static_cast<uint8_t>(best);
    before = best;
  }
}

}  // namespace

bool is_zero(const Block& block) {
  return std::all_of(block.begin(), block.end(), [](uint8_t byte) { return byte == 0; });
}

bool has_same_words(const Block& block) { return std::equal(block.begin() + 4, block.end(), block.begin()); }

Model train(std::span<const Block> all_blocks) {
  std::vector<Block> blocks;
  std::copy_if(all_blocks.begin(), all_blocks.end(), std::back_inserter(blocks),
               [](const Block& block) { return !is_zero(block) && !has_same_words(block); });
  if (blocks.empty()) return hand_model();
  const Pairs pairs = measure_pairs(blocks);
  const Neighbours tree = spanning_tree(pairs);
  Model model;
  model.root = static_cast<uint8_t>(choose_root(blocks, tree));
  point_to_root(tree, pairs, model.root, model.root, model);
  order_bits(blocks, model);
  return model;
}

}  // namespace ecmv::codecs::mpc
