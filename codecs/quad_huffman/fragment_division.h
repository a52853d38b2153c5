// How thread blocks divide a matrix of fragments among them: shares of its columns, and a number of lane groups each.
// The kernels' plans ask for the device they are on (gpu/tokens/fragment_plan.h, gpu/fragments_many.cu), and the choice
// of open settings for the one that it assumes (encode/tile_width.cpp).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

namespace ecmv::codecs::quad_huffman {

// A block takes the same columns of several rows; blocks with other columns of these rows are its shares.
struct FragmentDivision {
  int64_t shares = 0, share_tiles = 0;  // column tiles of each share, of the last one at most
  int64_t row_blocks = 0;               // that work at once
  int64_t rounds = 0;                   // of all lane groups, that a block takes one after the other
  int lane_groups = 0;                  // of a block
};

// The most copies of a table that fit into `bytes`, a power of two up to `most`; 0: not one. Two codes and the shift to
// a copy fit a window of 32 bits.
constexpr int table_copies(int table_bits, int most, int64_t bytes) {
  for (int copies = most; copies >= 1; copies /= 2)
    if ((int64_t{4} << table_bits) * copies <= bytes &&
        2 * table_bits + 2 + std::countr_zero(static_cast<unsigned>(copies)) <= 32)
      return copies;
  return 0;
}

// What up to 16 tokens take of a block.
struct FewTokens {
  int most_groups, multiple;  // lane groups of a block: a multiple of this
  // Fewer lane groups take as long as so many: in a block that takes one round, and in others.
  int least_groups, least_of_rounds;
  bool equal_rows;  // blocks have the same number of row groups, others the same number of rounds
  int64_t shared_bytes, fixed_bytes, bytes_of_group, bytes_of_tile;
  int compute_units;
};

// The division whose blocks are done first, among all that leave a block room for copies_in(bytes) >= 1 copies of the
// table. Among equally fast ones that with the fewest lane groups a block, from eight on: more multiprocessors have
// work, and fewer lane groups wait for the same units. (H200, 6144 x 1024, 16 tokens, us: 48 blocks of 16 lane
// groups 10.4; the kernel for 64 tokens with 96 blocks of 8, 8.3. notes/fragment_division.md has more.)
template <typename CopiesIn>
std::optional<FragmentDivision> divide_few(int64_t row_groups, int64_t column_tiles, const FewTokens& of,
                                           CopiesIn copies_in) {
  const auto whole = [](int64_t count, int64_t each) { return (count + each - 1) / each; };
  const int64_t most = std::min<int64_t>(of.most_groups, whole(row_groups, of.multiple) * of.multiple),
                fewest = std::clamp<int64_t>(most, of.multiple, 8);
  std::optional<FragmentDivision> best;
  double least = 0;
  const auto consider = [&](int64_t shares, int64_t share_tiles, int64_t groups) {
    const int copies =
        copies_in(of.shared_bytes - of.fixed_bytes - groups * of.bytes_of_group - share_tiles * of.bytes_of_tile);
    if (copies < 1) return;
    const int64_t wanted = whole(row_groups, groups),
                  at_once = std::clamp<int64_t>(of.compute_units / shares, 1, wanted), rounds = whole(wanted, at_once),
                  launches = whole(shares, of.compute_units),
                  last = of.equal_rows ? whole(row_groups, at_once) - (rounds - 1) * groups : groups;
    const auto time_of = [&](int64_t at_work) {
      return std::max<int64_t>(at_work, rounds == 1 ? of.least_groups : of.least_of_rounds);
    };
    // Lanes that share a copy of the table wait for each other.
    const double waits = copies >= 8   ? 1
                         : copies >= 2 ? 1.1
                                       : 1.2,
                 time = static_cast<double>(launches * share_tiles * ((rounds - 1) * time_of(groups) + time_of(last))) *
                        waits * (1 + 0.005 * static_cast<double>(shares));
    if (best && time >= least) return;
    least = time;
    best = {shares, share_tiles, at_once, rounds, static_cast<int>(groups)};
  };
  for (int64_t share_tiles = column_tiles; share_tiles >= 1; --share_tiles) {
    const int64_t shares = whole(column_tiles, share_tiles);
    if (share_tiles != whole(column_tiles, shares)) continue;
    for (int64_t groups = fewest; groups <= most; groups += of.multiple) consider(shares, share_tiles, groups);
    for (int64_t groups = fewest - of.multiple; groups >= of.multiple; groups -= of.multiple)
      consider(shares, share_tiles, groups);
  }
  return best;
}

// A tile's time with up to 64 tokens, beside its part of a multiprocessor's time and in units of such parts. (H200,
// 16384 x 16384, 64 tokens: a tile of 16 lane groups 40.6 us, one of 24 53.2.)
inline constexpr int kOwnTimeOfMany = 10;

// The same for up to 64 tokens, with a block a multiprocessor, each lane group with one row group: among whole
// warpgroups for which fits(lane groups) holds.
template <typename Fits>
std::optional<FragmentDivision> divide_many(int64_t row_groups, int64_t column_tiles, int most_groups,
                                            int compute_units, Fits fits) {
  constexpr int kWarpgroup = 4;
  const auto whole = [](int64_t count, int64_t each) { return (count + each - 1) / each; };
  std::optional<FragmentDivision> best;
  int64_t least = 0;
  for (int groups = most_groups; groups >= kWarpgroup; groups -= kWarpgroup) {
    if (!fits(groups)) continue;
    const int64_t row_blocks = whole(row_groups, groups),
                  share_tiles = whole(column_tiles, std::clamp<int64_t>(compute_units / row_blocks, 1, column_tiles)),
                  shares = whole(column_tiles, share_tiles), rounds = whole(row_blocks * shares, compute_units),
                  time = rounds * share_tiles * (groups + kOwnTimeOfMany);
    if (best && time >= least) continue;
    least = time;
    best = {shares, share_tiles, row_blocks, rounds, groups};
  }
  return best;
}

}  // namespace ecmv::codecs::quad_huffman
