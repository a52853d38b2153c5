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

struct NoEntries {
  template <typename Elements>
  ECMV_GPU_DEVICE NoEntries(const Elements&, const GroupRows&) {}
  ECMV_GPU_DEVICE void load() {}     // once all copies of the first steps are under way
  ECMV_GPU_DEVICE void look_up() {}  // after the last step
  ECMV_GPU_DEVICE void add(const GroupSums&, const Bf16Tokens&) const {}
};

// Adds the products of the entries of lanes 0 to count - 1 with all tokens. Lanes share out the tokens of an entry. (A
// lane that took its own entry through all tokens waited for one x after the other: 4096 x 1024 with 1.6 entries in 16
// rows took 5.5 us with one token, 12 with 16 and 35 with 64 on an H200.)
template <typename LaneGroup>
ECMV_GPU_DEVICE void add_entries(const TokenEntry& own, int count, const GroupSums& to, const Bf16Tokens& tokens) {
  constexpr int kAtOnce = 4, kTokensOfLane = kMaxBatch / 32;  // whose x are under way together
  int width = 1;                                              // lanes of an entry
  while (width < tokens.batch && width < LaneGroup::size()) width *= 2;
  const int entries = LaneGroup::size() / width, slot = LaneGroup::lane() / width,
            first_token = LaneGroup::lane() % width;
  for (int first = 0; first < count; first += kAtOnce * entries) {
    int rows[kAtOnce];
    uint32_t x[kAtOnce][kTokensOfLane];
    ECMV_GPU_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      const int from = first + k * entries + slot, col = LaneGroup::shuffle(own.col, from);
      rows[k] = LaneGroup::shuffle(own.row, from);
      if (from >= count) rows[k] = -1;
      ECMV_GPU_UNROLL
      for (int i = 0; i < kTokensOfLane; ++i) {
        const int token = first_token + i * width;
        x[k][i] = rows[k] < 0 || token >= tokens.batch ? 0u : uint32_t{tokens.x[token * tokens.x_stride + col]} << 16;
      }
    }
    ECMV_GPU_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      const int from = first + k * entries + slot;
      const float number = LaneGroup::shuffle(own.number, from), whole = LaneGroup::shuffle(own.whole, from);
      ECMV_GPU_UNROLL
      for (int i = 0; i < kTokensOfLane; ++i) {
        const int token = first_token + i * width;
        if (rows[k] < 0 || token >= tokens.batch) continue;
        const float product = ((x[k][i] & 0x7FFFFFFFu) == 0x7F800000u ? whole : number) * float_of(x[k][i]);
        const Pointer<float> sum = to.sums + (token * to.token_sums + rows[k]);
        if (entries == 1)
          *sum = *sum + product;
        else
          atomic_add(sum, product);
      }
    }
  }
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
