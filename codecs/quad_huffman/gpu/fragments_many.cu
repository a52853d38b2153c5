// Products of fragments of bf16, and of f8 in symbols of eight, with many tokens. Four lane groups multiply 64 rows
// together from their registers (backends/gpu/products/warpgroup_units.h). All lane groups of a block have other rows
// and the same columns, and take the segments of their tiles at the same time, so each slice of the tokens is in shared
// memory once for all of them. Blocks, the shares, share rows as in fragments.cu.
//
// With 64 tokens a lane has 32 sums. With symbols of four, a block has up to 24 lane groups of 80 registers; each unit
// is multiplied as soon as it is decoded, because four at a time would take 32 registers. (H200, 64 tokens, us, with 16
// lane groups of 128 registers and now: 8192 x 28672 167.1, 147.2; 8192 x 8192 54.6, 51.6; 16384 x 16384 168.5, 166.6.)
// Symbols of eight hold more raw bits, so they have 16 lane groups of 128 registers and load a whole batch ahead: with
// half of one too few bytes were under way (LaneForm has the times).
//
// Where the shares are even in number, two blocks each are a cluster and hand sums to each other through shared memory.
// So half as much is left for the launch that adds shares, and nothing for two shares. (H100, 64 tokens: 16384 x 16384,
// two shares, gains 4 to 6 %; 8192 x 8192, four shares, nothing. notes/many_tokens.md)
#include <algorithm>

#include "backends/gpu/cluster.h"
#include "backends/gpu/products/token_copies.h"
#include "backends/gpu/products/token_matmul.h"
#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/tokens/fragment_patches.h"
#include "codecs/quad_huffman/gpu/tokens/fragment_plan.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

// Stored columns of a part of a segment. A slice of the tokens is in shared memory for a part.
inline constexpr int kPartCols = segment_cols(4);
// Lane groups of a block, at most. Symbols of eight hold more raw bits; those that do not fit the 80 registers of 24
// lane groups spill and are waited for, so 16 with 128 registers are faster. (H200, 64 tokens, T = 12, T elements/s
// with 24, 20 and 16: 16384 x 16384 1.54, 1.75, 1.79; 8192 x 8192 1.27, 1.52, 1.55.)
ECMV_GPU_BOTH constexpr int most_groups(int symbol_cols) { return symbol_cols == 8 ? 16 : 24; }
// Bytes of a slice: blocks of 64 columns of the matrix.
template <int kTokenTiles>
inline constexpr int kSliceBytes = 2 * kPartCols / gpu::kBlockCols*(8 * kTokenTiles * gpu::kBlockTokenBytes);

inline constexpr int kListedBytes = 2 * kLanes * 8;

// Applies the patches of a tile of bf16, up to kMost at once, in shared memory. Slices of tokens are there for a
// segment's time, and patches of a segment's columns follow each other. (H200, 16384 x 16384, 64 tokens: with their
// tokens' numbers from memory as a tile begins, 8 loads waited for one after the other, a product took 275 us with T =
// 12 and 208 with T = 13, which has fewer patches.)
template <int kTokenTiles>
class ListedPatches {
 public:
  static constexpr int kMost = 2 * kLanes, kBytes = kListedBytes;

  explicit ECMV_GPU_DEVICE ListedPatches(gpu::Pointer<std::byte> list) : list_(list) {}

  // Loads a tile's patches, from number `first` on; all lanes of the lane group call this.
  template <typename TileOf>
  ECMV_GPU_DEVICE void read(const TileOf& tile, int power, uint32_t first) {
    uint32_t cols[2];
    first_ = first;
    next_ = 0;
    LaneGroup::sync();
    tile.read_patches(first, [&](int k, bool has, const PatchWord& patch, uint32_t sign) {
      const int unit = patch.col % kPartCols / kFragmentCols,
                pair = unit % gpu::kUnitsOfBlock * 8 + fragment_pair(patch.row, patch.col);
      const uint32_t place = static_cast<uint32_t>(unit / gpu::kUnitsOfBlock * kBlockBytes + pair % 4 * 4 +
                                                   patch.col % 2 * 2),
                     facts = place << (kUnitRowBits + 3) | static_cast<uint32_t>(pair / 4) << kUnitRowBits |
                             (has ? unit_row(patch.row, patch.col) : kNoUnitRow);
      *gpu::cast<gpu::uint2>(list_ + (k * kLanes + LaneGroup::lane()) * 8) =
          gpu::uint2{facts, patch_numbers<TileOf>(patch, sign, power).both()};
      cols[k] = has ? static_cast<uint32_t>(patch.col) : kNoCol;
    });
    cols_ = cols[0] | cols[1] << 16;
    LaneGroup::sync();
  }

  // Adds the patches of part `part` of the tile, before it is decoded; its tokens are at `slice`.
  template <typename TileOf>
  ECMV_GPU_DEVICE void add(const TileOf& tile, int power, int part, gpu::Pointer<const std::byte> slice,
                           float (&sums)[kTokenTiles][4]) {
    const uint32_t end_col = static_cast<uint32_t>((part + 1) * kPartCols);
    for (;;) {
      const int end = gpu::popcount(LaneGroup::ballot((cols_ & 0xFFFF) < end_col)) +
                      gpu::popcount(LaneGroup::ballot(cols_ >> 16 < end_col));
      ECMV_GPU_NO_UNROLL
      for (; next_ < end; next_ += kAtOnce) add_some(end, slice, sums);
      next_ = end;
      if (end < kMost || first_ + kMost >= tile.patch_count()) return;
      read(tile, power, first_ + kMost);
    }
  }

 private:
  static constexpr int kAtOnce = 8;
  static constexpr int kBlockBytes = 8 * kTokenTiles * gpu::kBlockTokenBytes;
  static constexpr uint32_t kNoCol = 0xFFFF;
  gpu::Pointer<std::byte> list_;  // [kMost] facts and numbers, as of multiply_float_patches()
  uint32_t cols_ = 0;             // columns of patches number `lane` and `lane` + 32
  uint32_t first_ = 0;            // number in the tile
  int next_ = 0;                  // number in the list

  ECMV_GPU_DEVICE void add_some(int end, gpu::Pointer<const std::byte> slice, float (&sums)[kTokenTiles][4]) const {
    const int lane = LaneGroup::lane(), t = lane % 4;
    const gpu::Pointer<const std::byte> own = slice + lane / 4 * gpu::kBlockTokenBytes;
    uint32_t facts[2], words[2];
    int at[2];
    ECMV_GPU_UNROLL
    for (int k = 0; k < 2; ++k) {
      const int number = next_ + 4 * k + t;
      const gpu::uint2 listed = *gpu::cast<const gpu::uint2>(list_ + (number < kMost ? number : 0) * 8);
      facts[k] = number < end ? listed.x : kNoUnitRow;
      words[k] = listed.y;
      const uint32_t part = (facts[k] >> kUnitRowBits & 7) ^ static_cast<uint32_t>(lane / 4);
      at[k] = static_cast<int>((facts[k] >> (kUnitRowBits + 3)) + part * 16);
    }
    const gpu::uint4 a = patch_operand(facts, words);
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTokenTiles; ++j) {
      const auto both = [&](int k) {
        return *gpu::cast<const uint16_t>(own + (at[k] + j * (8 * gpu::kBlockTokenBytes))) * 0x10001u;
      };
      gpu::multiply_tokens(a, gpu::uint2{both(0), both(1)}, sums[j]);
    }
  }
};

// Bytes that a lane group hands to the other block of its cluster.
template <int kTokenTiles>
inline constexpr int kPairBytes = kTokenTiles / 2 * kLanes * 16;
// Adds the sums of a cluster's two blocks; each block gets the sums of half of the tokens: the first half of `sums`,
// for tokens from 4 kTokenTiles cluster_rank() on. All threads call this; `place` has kPairBytes of the lane group.
template <int kTokenTiles>
ECMV_GPU_DEVICE void add_pair(gpu::Pointer<std::byte> place, float (&sums)[kTokenTiles][4]) {
  constexpr int kHalf = kTokenTiles / 2;
  const int rank = gpu::cluster_rank();
  const gpu::Pointer<gpu::uint4> own = gpu::cast<gpu::uint4>(place) + LaneGroup::lane();
  ECMV_GPU_UNROLL
  for (int j = 0; j < kHalf; ++j) {
    uint32_t other[4];
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float first = sums[j][i], second = sums[kHalf + j][i];
      other[i] = gpu::bits_of(rank == 0 ? second : first);
      sums[j][i] = rank == 0 ? first : second;
    }
    own[j * kLanes] = gpu::uint4{other[0], other[1], other[2], other[3]};
  }
  gpu::sync_cluster();
  ECMV_GPU_UNROLL
  for (int j = 0; j < kHalf; ++j) {
    const gpu::uint4 other = gpu::load_of_block(own + j * kLanes, 1 - rank);
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) sums[j][i] += gpu::float_of(gpu::word_of(other, i));
  }
  gpu::sync_cluster();  // before the other one may end
}

template <int kSymbolCols, int kForm, int kTokenTiles>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(most_groups(kSymbolCols) * kLanes,
                                1) void multiply_many(Matrix matrix, BlockPlan plan, FragmentsLayout layout,
                                                      Hidden hidden, int cols, gpu::Bf16Tokens tokens) {
  // The schedule is in shared memory, and raw bits of symbols of four come half a batch at a time, so 80 registers are
  // just enough. A spilled register is waited for with all loads under way.
  constexpr bool kEights = kSymbolCols == 8;
  using TileOf = TileLanes<
      kSymbolCols, kForm, 2,
      LaneForm{
          .lean = true, .prefetches = false, .early = gpu::kMovesLoads, .halves = !kEights, .looks_ahead = kEights}>;
  static_assert(TileOf::kFloats);
  static_assert(TileOf::kSegmentCols <= 2 * kPartCols);
  constexpr int kParts = TileOf::kSegmentCols / kPartCols, kBytes = kSliceBytes<kTokenTiles>,
                kSliceCols = 2 * kPartCols, kBlockBytes = 8 * kTokenTiles * gpu::kBlockTokenBytes,
                kBatch = gpu::kUnitsOfBlock;
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::uniform(LaneGroup::group()),
            share = static_cast<int>(gpu::block_index() % layout.shares), first_tile = share * layout.share_tiles,
            tiles_left = matrix.column_tiles - first_tile,
            own_tiles = tiles_left < layout.share_tiles ? tiles_left : layout.share_tiles,
            steps = matrix.streams.tile_segments * kParts;
  // Row groups that do not exist repeat the last one, and nobody stores their results.
  const int64_t own_group = gpu::block_index() / layout.shares * plan.lane_groups + lane_group,
                group = own_group < matrix.row_groups ? own_group : matrix.row_groups - 1;
  const gpu::Pointer<std::byte> slices = gpu::first_block(gpu::shared_memory() + layout.tokens);

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  using Patches = ListedPatches<kTokenTiles>;
  Patches patches(gpu::shared_memory() + (layout.patches + lane_group * Patches::kBytes));
  const auto begin = [&](int number, uint32_t after) {
    tile.template begin<true>(matrix.streams, group, first_tile + number, matrix.column_tiles, matrix.cols, after);
  };
  const auto copy_tokens = [&](int number) {
    if (number < own_tiles * steps)
      gpu::copy_slice_of_tokens<8 * kTokenTiles, kSliceCols>(
          tokens, (int64_t{first_tile} * steps + number) * kSliceCols, cols, slices + number % 2 * kBytes);
  };
  gpu::let_next_begin();
  const auto own_entries = load_own_entries(matrix);
  begin(0, own_entries.all());
  fill_table(matrix, plan, own_entries);
  gpu::wait_for_previous();
  copy_tokens(0);
  gpu::commit_copies();

  const Table table = table_of(matrix, plan);
  const uint32_t lowest = lowest_of_halves<TileOf>(matrix);
  float sums[kTokenTiles][4] = {};
  for (int number = 0, slice = 0; number < own_tiles; ++number) {
    patches.read(tile, matrix.power, 0);
    tile.begin_raw();
    const int segments = tile.segments();
    for (int s = 0; s < segments; ++s) {
      tile.wait_for_segment();
      ECMV_GPU_NO_UNROLL
      for (int part = 0; part < kParts; ++part, ++slice) {
        // The slice of this part is there, and that of the next one begins to come.
        if (part != 0) gpu::wait_copies<0>();
        gpu::order_before_units();
        gpu::sync_block();
        copy_tokens(slice + 1);
        if (part == 0) tile.fetch(s);
        gpu::commit_copies();
        const gpu::Pointer<const std::byte> own_slice = slices + slice % 2 * kBytes;
        patches.add(tile, matrix.power, s * kParts + part, own_slice, sums);
        // A unit is multiplied while the next one is decoded.
        gpu::uint4 operands[2];
        gpu::uint2 above{};
        uint32_t held = 0;
        tile.template decode_part<kParts>(table, s, part, [&](int, int quad, uint32_t exponents, uint32_t signs) {
          const auto numbers = [&](int of, uint32_t word) {
            return unscaled_numbers_of<TileOf>(of, exponents, word, lowest, exponent_unit<TileOf>(hidden));
          };
          // Symbols of eight have the exponents of both quads.
          if (quad % 2 == 0) {
            held = signs;
            if constexpr (!TileOf::kEights) {
              const FourFloats four = numbers(quad, signs);
              above = {four.first, four.second};
            }
            return;
          }
          const int unit = quad / 2, which = TileOf::kEights ? 0 : unit % 2;
          if (TileOf::kEights && unit > 0) gpu::wait_for_products();
          const FourFloats four = numbers(quad, signs);
          if constexpr (TileOf::kEights) {
            const FourFloats first = numbers(quad - 1, held);
            above = {first.first, first.second};
          }
          operands[which] = gpu::uint4{above.x, four.first, above.y, four.second};
          if (!TileOf::kEights && unit > 0) gpu::wait_for_products();
          gpu::begin_products();
          gpu::multiply_block(operands[which], gpu::SharedBlocks(own_slice), unit / kBatch * kBlockBytes, unit % kBatch,
                              sums);
          gpu::commit_products();
        });
        gpu::wait_for_products();
      }
    }
    if (number + 1 < own_tiles) begin(number + 1, 0);
  }
  gpu::wait_copies<0>();
  int first_token = 0;
  if (layout.pairs) {
    static_assert(kPairBytes<kTokenTiles> <= TileOf::kSharedBytes);
    add_pair(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), sums);
    first_token = gpu::cluster_rank() * (4 * kTokenTiles);
  }
  if (own_group >= matrix.row_groups) return;
  const int stored_share = layout.pairs ? share / 2 : share;
  tokens.store([&](auto put) {
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTokenTiles; ++j) {
      if (layout.pairs && j >= kTokenTiles / 2) continue;
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int token = first_token + 8 * j + lane % 4 * 2 + i % 2;
        const int64_t row = group * kUnitRows + lane / 4 + i / 2 * 8;
        if (token < tokens.batch && row < matrix.rows)
          put((stored_share * tokens.batch + token) * tokens.rows + row,
              TileOf::kEights ? scaled(sums[j][i], matrix.power) : sums[j][i]);
      }
    }
  });
}

// 64 tokens at once run at 2.7x to 3.4x the speed of four times 16 (2026-11-26-h200/batch_8192,
// 2026-11-26-h100/batch_8192).
constexpr RingPolicy kPolicies[] = {{{"warpgroup24"}, 24, 32, 1}};

// Tiles of eight tokens: 2 or 8.
FragmentsKernel kernel_of(const Header& code, int token_tiles) {
  if (!is_float(code.form)) return nullptr;
  return for_float_code(code, [&](auto symbol_cols, auto form, auto) -> FragmentsKernel {
    constexpr int kSymbolCols = decltype(symbol_cols)::value, kForm = decltype(form)::value;
    if constexpr (!is_f8(kForm) || kSymbolCols == 8)
      return token_tiles <= 2 ? multiply_many<kSymbolCols, kForm, 2> : multiply_many<kSymbolCols, kForm, 8>;
    return nullptr;
  });
}

FragmentsPlan plan_tokens(const backends::Policy& named, const backends::CompressedView& view,
                          const backends::DeviceInfo& device, int tokens) {
  const auto& policy = named.as<RingPolicy>();
  const Header code = header_of(view);
  const datasets::Shape stored = stored_shape(view);
  const int token_tiles = gpu::token_tiles(tokens, true);
  const int64_t slices = 2 * (token_tiles == 2 ? kSliceBytes<2> : kSliceBytes<8>)+gpu::kBlockAlignment,
                shared_bytes = shared_bytes_beside_adding(device) - slices;
  FragmentsPlan planned{.kernel = kernel_of(code, token_tiles), .rounds = true};
  BlockPlan& plan = planned.plan;
  const auto fits = [&](int lane_groups) {
    return copies_of_table(code, policy.copies, shared_bytes - lane_groups * int64_t{kLeanRingBytes + kListedBytes}) >=
           1;
  };
  const auto division =
      divide_many(row_groups(stored.rows), column_tiles(stored.cols, tile_cols_of(code)),
                  std::min(policy.lane_groups, most_groups(code.symbol_cols)), device.compute_units, fits);
  if (!division) return planned;
  const int rings = division->lane_groups * kLeanRingBytes, lists = division->lane_groups * kListedBytes;
  place_table(plan, code, policy.copies, shared_bytes - rings - lists);
  plan.lane_groups = division->lane_groups;
  plan.lane_groups_of_rows = 1;
  planned.layout.patches = plan.rings + rings;
  planned.layout.tokens = planned.layout.patches + lists;
  planned.layout.share_tiles = static_cast<int>(division->share_tiles);
  planned.layout.shares = static_cast<int>(division->shares);
  planned.layout.pairs = gpu::have_clusters(device) && division->shares % 2 == 0;
  plan.bytes = planned.layout.tokens + static_cast<int>(slices);
  planned.blocks = division->row_blocks * division->shares;
  return planned;
}

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device,
                    const backends::Policy& named) {
  return refuses_fragments(
      view, device, named, plan_tokens,
      "The kernel is for bf16 elements in symbols of four or eight, and f8 elements in symbols of eight.");
}

// 64 tokens at a time, or 16 where those do not fit.
backends::BoundKernel bind(const backends::Policy& named, Layers layers, int batch, backends::Place& place) {
  const bool fits = plan_tokens(named, *layers[0].matrix, place.device(), 64).blocks != 0;
  return bind_fragments(named, layers, batch, place, plan_tokens, fits ? 64 : 16);
}

}  // namespace

backends::Kernel fragments_many() {
  return {.op = backends::Op::matmul,
          .variant = "fragments",
          .policies = kPolicies,
          .activations = backends::Activations::bf16,
          .refuses = refuses,
          .bind = bind};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
