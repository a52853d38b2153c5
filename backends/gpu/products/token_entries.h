// What a lane group adds to its sums at the end of a product with tokens (token_matmul.h): single elements beside a
// matrix's fields, such as outliers, times every token.
#pragma once

#include "backends/gpu/lanes.h"
#include "backends/gpu/products/token_units.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// A lane group's rows (count 0: it has none), and which of the `workers` lane groups with the same rows it is.
struct GroupRows {
  int64_t first;
  int count, cols, worker, workers;
};

// How many of `count` rows from `first` on a matrix has.
ECMV_GPU_DEVICE int rows_from(int64_t first, int64_t rows, int count) {
  if (first >= rows) return 0;
  return rows - first < count ? static_cast<int>(rows - first) : count;
}

// A lane group's sums in shared memory, [batch, token_sums], from its first row on. No other one uses them.
struct GroupSums {
  Pointer<float> sums;
  int token_sums;
};

// A single element's row of the lane group (-1: there is none) and column, and what is added for each x: number * x, or
// `whole` * x where x is infinite.
struct TokenEntry {
  int row = -1, col = 0;
  float number = 0, whole = 0;
};

template <int kTokenTiles>
struct NoEntries {
  template <typename Elements>
  ECMV_GPU_DEVICE NoEntries(const Elements&, const GroupRows&) {}
  ECMV_GPU_DEVICE void load() {}                      // before the launch ahead has ended
  ECMV_GPU_DEVICE void look_up(const Bf16Tokens&) {}  // once all copies of the first steps are under way
  ECMV_GPU_DEVICE void add(const GroupSums&, const Bf16Tokens&) const {}
};

// How 32 lanes share out up to 8 kTokenTiles tokens of entries: some lanes an entry, each with one or two tokens, and
// the x of some entries under way together. (A lane that took its own entry through all tokens waited for one x after
// the other: 4096 x 1024 with 1.6 entries in 16 rows took 5.5 us with one token, 12 with 16 and 35 with 64 on an H200.)
template <int kTokenTiles>
class EntryTurns {
 public:
  static constexpr int kLanes = 32, kWidth = kTokenTiles < 4 ? 8 * kTokenTiles : kLanes,
                       kTokensOfLane = kTokenTiles > 4 ? 2 : 1, kEntries = kLanes / kWidth,
                       kRounds = kTokenTiles < 4 ? 2 : 4, kAtOnce = kRounds * kEntries;
  static_assert(kLanes % kAtOnce == 0);
  // The x of kAtOnce entries: of two tokens for each, one in the upper half.
  struct Tokens {
    uint32_t x[kRounds];
  };

  // Loads x for the entries of lanes `first` to first + kAtOnce - 1. `own_col` is this lane's; -1: it has none.
  static ECMV_GPU_DEVICE Tokens load(int own_col, int first, const Bf16Tokens& tokens) {
    Tokens to;
    ECMV_GPU_UNROLL
    for (int k = 0; k < kRounds; ++k) {
      const int col = LaneGroup::shuffle(own_col, from(first, k));
      to.x[k] = 0;
      ECMV_GPU_UNROLL
      for (int i = 0; i < kTokensOfLane; ++i)
        if (col >= 0 && token(i) < tokens.batch)
          to.x[k] |= uint32_t{tokens.x[token(i) * tokens.x_stride + col]} << (16 * i);
    }
    return to;
  }
  // Adds their products with the tokens.
  static ECMV_GPU_DEVICE void add(const Tokens& of, const TokenEntry& own, int first, const GroupSums& to, int batch) {
    ECMV_GPU_UNROLL
    for (int k = 0; k < kRounds; ++k) {
      const int row = LaneGroup::shuffle(own.row, from(first, k));
      const float number = LaneGroup::shuffle(own.number, from(first, k)),
                  whole = LaneGroup::shuffle(own.whole, from(first, k));
      ECMV_GPU_UNROLL
      for (int i = 0; i < kTokensOfLane; ++i) {
        if (row < 0 || token(i) >= batch) continue;
        const uint32_t x = i == 0 ? of.x[k] << 16 : of.x[k] & 0xFFFF0000u;
        const float product = ((x & 0x7FFFFFFFu) == 0x7F800000u ? whole : number) * float_of(x);
        const Pointer<float> sum = to.sums + (token(i) * to.token_sums + row);
        if constexpr (kEntries == 1)
          *sum = *sum + product;
        else
          atomic_add(sum, product);
      }
    }
  }
  // Both, for the entries of lanes `first` to count - 1.
  static ECMV_GPU_DEVICE void add_all(const TokenEntry& own, int first, int count, const GroupSums& to,
                                      const Bf16Tokens& tokens) {
    for (; first < count; first += kAtOnce)
      add(load(own.row < 0 ? -1 : own.col, first, tokens), own, first, to, tokens.batch);
  }

 private:
  using LaneGroup = Lanes<kLanes>;
  static ECMV_GPU_DEVICE int from(int first, int k) { return first + k * kEntries + LaneGroup::lane() / kWidth; }
  static ECMV_GPU_DEVICE int token(int i) { return LaneGroup::lane() % kWidth + i * kWidth; }
};

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
