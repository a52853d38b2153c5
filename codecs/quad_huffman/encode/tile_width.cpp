// See tile_width.h.
#include "codecs/quad_huffman/encode/tile_width.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace ecmv::codecs::quad_huffman {
namespace {

constexpr int kMultiprocessors = 132;
constexpr int64_t kSharedBytes = 226 * 1024, kRing = 4384;  // for a block, of a lane group
constexpr int kMostFragmentTileCols = 1408;                 // 16 tokens of wider ones leave little room for rings

int64_t whole(int64_t count, int64_t of) { return (count + of - 1) / of; }

// Rows of int8. A lane group of a device takes a tile at a time, and an H100 or H200 has 132 x 32 of them, so the time
// is that of as many rounds as these need for all tiles. The beginning of a tile counts as 256 columns, which fits the
// measurements. Tiles of 256 columns are for chain.cu, which takes no other and needs a multiprocessor for each row
// group. (H100, K = 8, sigma 4: at d = 7168 512 columns run at 1.15x the speed of 256, at 9216 768 at 1.14x that of
// 512, at 12288 1280 at 1.02x that of 768. 8192 and 16384 keep 512 and 2048. 1792, for 14336 and 20480, was not
// measured.)
int tile_cols_for_int8_rows(datasets::Shape shape) {
  constexpr int64_t kAtOnce = kMultiprocessors * 32;
  constexpr int kBeginning = 256, kStep = kMostSegmentCols;
  const int64_t groups = row_groups(shape.rows);
  int best = 0;
  int64_t least = 0;
  for (int tile_cols = groups > kMultiprocessors ? 2 * kStep : kStep; tile_cols <= kMostTileCols; tile_cols += kStep) {
    const int64_t rounds = whole(groups * column_tiles(shape.cols, tile_cols), kAtOnce),
                  time = rounds * (tile_cols + kBeginning);
    if (best == 0 || time < least) best = tile_cols, least = time;
  }
  return best;
}

// How blocks divide fragments, as the kernels' plans do (gpu/tokens/fragment_plan.h, gpu/fragments_many.cu).
struct BlockWork {
  int64_t tiles = 0;  // that a lane group begins, one after the other
  double work = 0;    // columns times lane groups that share a multiprocessor, in thousands
};

// Up to 16 tokens: shares of the columns and as many lane groups as give the shortest rounds.
std::optional<BlockWork> divide_few(datasets::Shape stored, int table_bits, int tile_cols, bool sixteen) {
  const int64_t groups = row_groups(stored.rows), columns = column_tiles(stored.cols, tile_cols),
                multiple = sixteen ? 4 : 1, least_at_work = sixteen ? 13 : 20;
  std::optional<BlockWork> best;
  double least = 0;
  for (int64_t share_tiles = columns; share_tiles >= 1; --share_tiles) {
    const int64_t shares = whole(columns, share_tiles);
    if (share_tiles != whole(columns, shares)) continue;
    const int64_t inputs = share_tiles * tile_cols * 2 * (sixteen ? 32 : 16) + (sixteen ? 1024 : 0);
    for (int64_t lane_groups = std::min<int64_t>(32, whole(groups, multiple) * multiple); lane_groups >= multiple;
         lane_groups -= multiple) {
      const int64_t copies = (kSharedBytes - lane_groups * kRing - inputs) / (int64_t{4} << table_bits);
      if (copies < 1) continue;
      const int64_t row_blocks = whole(groups, lane_groups),
                    rounds = whole(row_blocks, std::clamp<int64_t>(kMultiprocessors / shares, 1, row_blocks));
      const double waits = copies >= 8   ? 1
                           : copies >= 2 ? 1.1
                                         : 1.2,
                   time = static_cast<double>(whole(shares, kMultiprocessors) * share_tiles * rounds *
                                              std::max<int64_t>(lane_groups, 24)) *
                          waits * (1 + 0.005 * static_cast<double>(shares));
      if (best && time >= least) continue;
      least = time;
      best = {share_tiles * rounds, 1e-3 * static_cast<double>(rounds * std::min(share_tiles * tile_cols, stored.cols) *
                                                               std::max(lane_groups, least_at_work))};
    }
  }
  return best;
}

// Up to 64 tokens: 24 lane groups at most, 16 with symbols of eight, each with one row group.
BlockWork divide_many(datasets::Shape stored, int symbol_cols, int tile_cols) {
  const int64_t groups = row_groups(stored.rows), columns = column_tiles(stored.cols, tile_cols);
  BlockWork best;
  int64_t least = 0;
  for (int64_t lane_groups = symbol_cols == 8 ? 16 : 24; lane_groups >= 4; lane_groups -= 4) {
    const int64_t row_blocks = whole(groups, lane_groups),
                  wanted = std::clamp<int64_t>(kMultiprocessors / row_blocks, 1, columns),
                  share_tiles = whole(columns, wanted),
                  rounds = whole(row_blocks * whole(columns, share_tiles), kMultiprocessors),
                  time = rounds * share_tiles * (lane_groups + 10);
    if (least != 0 && time >= least) continue;
    least = time;
    best = {share_tiles * rounds,
            1e-3 * static_cast<double>(rounds * std::min(share_tiles * tile_cols, stored.cols) * (lane_groups + 9))};
  }
  return best;
}

// Microseconds of a product: its beginning, the memory's time or the units', and each tile's beginning but the first.
struct Rates {
  double begin, of_work, of_tile;
};
double microseconds(const Rates& rates, const BlockWork& division, double memory) {
  return rates.begin + std::max(memory, rates.of_work * division.work) +
         rates.of_tile * static_cast<double>(division.tiles - 1);
}

}  // namespace

int tile_cols_for_rows(datasets::Shape stored, datasets::ElementType type) {
  if (type == datasets::ElementType::i8) return tile_cols_for_int8_rows(stored);
  // Tiles so wide that some 3500 are left, 27 for each multiprocessor. Every lane of a tile ends in a half-empty word,
  // so wide tiles are smaller. (H200, bf16, us for 14336 x 4096 and 4096 x 14336: 3584 tiles of 512 columns 30.2 and
  // 29.1, 7168 of 256 36.1 and 32.3.)
  int tile_cols = kMostTileCols;
  while (tile_cols > kMostSegmentCols && row_groups(stored.rows) * column_tiles(stored.cols, tile_cols) < 3500)
    tile_cols /= 2;
  return tile_cols;
}

// Rates are fitted to 60 forms of five shapes of bf16 from 4096 x 4096 to 18944 x 3584, T = 12. Estimates are within 6
// % on average, and the chosen form within 5 % of the best of its shape (notes/choice.md).
double fragments_cost(datasets::Shape stored, int symbol_cols, int table_bits, double bits, int tile_cols) {
  constexpr double kBitsAMicrosecond = 8 * 4.4e6;
  constexpr Rates kRates[2][3] = {{{8, 0.84, 2.4}, {9.7, 1.04, 3}, {10.2, 1.31, 3.7}},     // symbols of four
                                  {{8, 0.63, 2.6}, {9.7, 0.86, 7.1}, {10.2, 0.91, 5.2}}};  // of eight
  if (tile_cols == 0) {
    const auto type = bits > 8 ? datasets::ElementType::bf16 : datasets::ElementType::f8_e4m3;
    tile_cols = tile_cols_for_fragments(stored, type, symbol_cols, table_bits);
  }
  const double memory = bits * static_cast<double>(stored.elements()) / kBitsAMicrosecond;
  const Rates(&rates)[3] = kRates[symbol_cols == 8];
  const auto one = divide_few(stored, table_bits, tile_cols, false),
             sixteen = divide_few(stored, table_bits, tile_cols, true);
  if (!one || !sixteen) return 1e30;
  return microseconds(rates[0], *one, memory) * microseconds(rates[1], *sixteen, memory) *
         microseconds(rates[2], divide_many(stored, symbol_cols, tile_cols), memory);
}

int tile_cols_for_fragments(datasets::Shape stored, datasets::ElementType type, int symbol_cols, int table_bits) {
  if (type == datasets::ElementType::i8) return std::min(1024, tile_cols_for_rows(stored, datasets::ElementType::bf16));
  const double bits = type == datasets::ElementType::bf16 ? 10.8 : 6.8;
  const int step = segment_cols(symbol_cols);
  int best = kLeastTileCols;
  double least = 0;
  for (int tile_cols = kLeastTileCols; tile_cols <= kMostFragmentTileCols; tile_cols += step) {
    const double cost = fragments_cost(stored, symbol_cols, table_bits, bits, tile_cols);
    if (least == 0 || cost < least) best = tile_cols, least = cost;
    if (tile_cols >= stored.cols) break;
  }
  return best;
}

}  // namespace ecmv::codecs::quad_huffman
