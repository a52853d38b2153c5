// See tile_width.h.
#include "codecs/quad_huffman/encode/tile_width.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "codecs/quad_huffman/fragment_division.h"

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

// What a multiprocessor does for a product: lane groups that each take so many tiles of so many columns in all.
struct Share {
  double lane_groups = 0, tiles = 0, cols = 0;
};
Share share_of(const FragmentDivision& division, datasets::Shape stored, int tile_cols) {
  return {static_cast<double>(division.lane_groups), static_cast<double>(division.share_tiles * division.rounds),
          static_cast<double>(division.rounds * std::min(division.share_tiles * tile_cols, stored.cols))};
}

// Up to 16 tokens.
std::optional<Share> share_of_few(datasets::Shape stored, int table_bits, int tile_cols, bool sixteen) {
  const auto division = divide_few(row_groups(stored.rows), column_tiles(stored.cols, tile_cols),
                                   {.most_groups = 32,
                                    .multiple = sixteen ? 4 : 1,
                                    .least_groups = sixteen ? 16 : 20,
                                    .least_of_rounds = 24,
                                    .equal_rows = false,
                                    .shared_bytes = kSharedBytes,
                                    .fixed_bytes = sixteen ? 1024 : 0,
                                    .bytes_of_group = kRing,
                                    .bytes_of_tile = int64_t{tile_cols} * 2 * (sixteen ? 32 : 16),
                                    .compute_units = kMultiprocessors},
                                   [&](int64_t bytes) { return table_copies(table_bits, 32, bytes); });
  if (!division) return std::nullopt;
  return share_of(*division, stored, tile_cols);
}

// Up to 64 tokens.
Share share_of_many(datasets::Shape stored, int symbol_cols, int tile_cols) {
  const auto division = divide_many(row_groups(stored.rows), column_tiles(stored.cols, tile_cols),
                                    symbol_cols == 8 ? 16 : 24, kMultiprocessors, [](int) { return true; });
  return share_of(*division, stored, tile_cols);
}

// Microseconds of a product: its beginning, and the longest of what limits a multiprocessor, since they overlap almost
// wholly (a norm of power four: a power of three or five chose worse). Its part of memory's bandwidth moves the bits;
// its units take nanoseconds a column and a tile of a lane group; a lane group takes some a column, however few there
// are.
struct Rates {
  double begin, of_col, of_tile, of_chain_col;
};
double microseconds(const Rates& rates, const Share& of, double bits) {
  constexpr double kBytesAMicrosecond = 4.4e6 / kMultiprocessors;
  const double memory = bits / 8 * kLanes * of.cols * of.lane_groups / kBytesAMicrosecond,
               units = 1e-3 * of.lane_groups * (rates.of_col * of.cols + rates.of_tile * of.tiles),
               chain = 1e-3 * rates.of_chain_col * of.cols;
  return rates.begin + std::pow(std::pow(memory, 4) + std::pow(units, 4) + std::pow(chain, 4), 0.25);
}

// The narrowest tiles that are tried: one segment of symbols of four where a multiprocessor has few of these. A lane
// group's chain then takes half the time. (H200, bf16, us with 1, 16 and 64 tokens, T = 11, and the best wider one, T =
// 12: 4096 x 1024, 7.8 tiles, 6.6, 6.8, 9.9 and 6.6, 8.8, 15.0; 6144 x 1024, 11.6, 7.4, 7.9, 11.4 and 7.9, 9.8, 14.9;
// 2880 x 2880, 16.4, 9.6, 10.3, 15.4 and 9.1, 10.1, 13.4.)
int least_fragment_tile_cols(datasets::Shape stored, datasets::ElementType type, int symbol_cols) {
  constexpr int kMostNarrowTiles = 12 * kMultiprocessors, kUsual = 256;
  const int narrow = segment_cols(symbol_cols);
  const bool few = row_groups(stored.rows) * column_tiles(stored.cols, narrow) <= kMostNarrowTiles;
  return type == datasets::ElementType::bf16 && few ? narrow : std::max(narrow, kUsual);
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

// Rates are fitted to 522 measured products of 29 shapes of bf16 from 1536 x 2048 to 51200 x 5120, T = 12, and to 45 of
// five shapes of f8. Estimates are off by 6 % on average, and the chosen form is within 3 % of the best of its shape
// (notes/choice.md).
double fragments_cost(datasets::Shape stored, int symbol_cols, int table_bits, double bits, int tile_cols) {
  constexpr Rates kFours[] = {{5.1, 0.96, 109, 15.8}, {4.4, 1.10, 144, 18.6}, {7.7, 1.80, 160, 28.9}},
                  kEights[] = {{5.0, 0.43, 308, 14.1}, {4.1, 0.81, 294, 18.9}, {6.8, 1.45, 262, 20.9}},
                  kF8[] = {{4.5, 0.51, 229, 15.4}, {3.8, 0.88, 214, 17.5}, {5.3, 1.56, 215, 18.1}};
  const bool f8 = bits < 8;
  if (tile_cols == 0) {
    const auto type = f8 ? datasets::ElementType::f8_e4m3 : datasets::ElementType::bf16;
    tile_cols = tile_cols_for_fragments(stored, type, symbol_cols, table_bits);
  }
  const Rates* rates = f8 ? kF8 : symbol_cols == 8 ? kEights : kFours;
  const auto one = share_of_few(stored, table_bits, tile_cols, false),
             sixteen = share_of_few(stored, table_bits, tile_cols, true);
  if (!one || !sixteen) return 1e30;
  return microseconds(rates[0], *one, bits) * microseconds(rates[1], *sixteen, bits) *
         microseconds(rates[2], share_of_many(stored, symbol_cols, tile_cols), bits);
}

int tile_cols_for_fragments(datasets::Shape stored, datasets::ElementType type, int symbol_cols, int table_bits) {
  if (type == datasets::ElementType::i8) return std::min(1024, tile_cols_for_rows(stored, datasets::ElementType::bf16));
  const double bits = type == datasets::ElementType::bf16 ? 10.8 : 6.8;
  const int step = segment_cols(symbol_cols);
  const int narrowest = least_fragment_tile_cols(stored, type, symbol_cols);
  int best = narrowest;
  double least = 0;
  for (int tile_cols = narrowest; tile_cols <= kMostFragmentTileCols; tile_cols += step) {
    const double cost = fragments_cost(stored, symbol_cols, table_bits, bits, tile_cols);
    if (least == 0 || cost < least) best = tile_cols, least = cost;
    if (tile_cols >= stored.cols) break;
  }
  return best;
}

}  // namespace ecmv::codecs::quad_huffman
