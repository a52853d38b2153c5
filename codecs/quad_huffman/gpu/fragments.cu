// Products of fragments (format/layout.h) with up to 16 tokens of bf16 on matrix units. The eight columns that a lane
// has decoded are its part of operand A, without padding: one matrix product serves eight tokens, where rows of lanes
// take one for four tokens. Several blocks, the shares, split the columns, so that all their tokens fit shared memory;
// a launch after the product adds their sums (backends/gpu/products/token_shares.h).
//
// Up to 8 tokens, lane groups multiply alone and read operand B from shared memory. Up to 16, four of them multiply
// together (backends/gpu/products/warpgroup_units.h), so that B is read once for all four. (H200, 16384 x 16384 of
// bf16, T = 12, 16 tokens: 113.1 us, alone 114.9; with 1 and 8 tokens 100.9 and 108.1, alone 99.0 and 106.4.) Their
// tokens of bf16 are copied as they are: columns of fragments are in the order of the units (format/layout.h).
#include <type_traits>

#include "backends/gpu/products/token_copies.h"
#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/tokens/fragment_patches.h"
#include "codecs/quad_huffman/gpu/tokens/fragment_plan.h"
#include "codecs/quad_huffman/gpu/tokens/numbers.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

// Brings the share's columns of all tokens to shared memory, with zeros for tokens and columns that do not exist.
// shift_of(token) is the power of two that scales a token; `cols` counts the matrix's columns. Calls put(unit, token,
// numbers of columns 0 to 7, 8 to 15) with a unit's columns in the order of its operands: where kFours, fragments have
// four columns that follow each other (format/layout.h).
template <int kTokens, bool kScaled, bool kFours, typename ShiftOf, typename Put>
ECMV_GPU_DEVICE void load_fragment_tokens(const gpu::Bf16Tokens& x, const TileCols& cols, ShiftOf shift_of, Put put) {
  for (int i = gpu::thread_index(); i < cols.stored / kUnitCols * kTokens; i += gpu::block_size()) {
    const int unit = i / kTokens, token = i % kTokens, col = unit * kUnitCols;
    gpu::uint4 first = eight_numbers(x, token, cols, col), second = eight_numbers(x, token, cols, col + 8);
    if constexpr (kScaled) {
      const TokenFactors factors = factors_of(token < x.batch ? shift_of(token) : 0);
      first = scaled(first, factors), second = scaled(second, factors);
    }
    if constexpr (kFours) {
      const gpu::uint4 low = first, high = second;
      first = {low.x, low.z, high.x, high.z}, second = {low.y, low.w, high.y, high.w};
    }
    put(unit, token, first, second);
  }
}

// Calls visit(segment, unit of the segment, operand A) for all units of the tile.
template <typename TileOf, typename Visit>
ECMV_GPU_DEVICE void decode_fragments(TileOf& tile, const Table& table, uint32_t lowest, const Hidden& hidden,
                                      Visit visit) {
  gpu::uint2 above{};
  const auto visit_quad = [&](int segment, int quad, gpu::uint2 four) {
    if (quad % 2 == 0)
      above = four;
    else
      visit(segment, quad / 2, gpu::uint4{above.x, four.x, above.y, four.y});
  };
  if constexpr (TileOf::kFloats)
    tile.decode(table, [&](int segment, int quad, uint32_t exponents, uint32_t signs) {
      const FourFloats four =
          unscaled_numbers_of<TileOf>(quad, exponents, signs, lowest, exponent_unit<TileOf>(hidden));
      visit_quad(segment, quad, gpu::uint2{four.first, four.second});
    });
  else
    tile.decode_integers(table, [&](int segment, int quad, uint32_t first, uint32_t second) {
      visit_quad(segment, quad, gpu::uint2{first, second});
    });
}

// Tokens in the order in which lanes that multiply alone read operand B. A segment has kUnits units.
template <int kUnits>
class UnitTokens {
 public:
  static constexpr int kTiles = 1;
  using Numbers = UnitNumbers;

  explicit ECMV_GPU_DEVICE UnitTokens(gpu::Pointer<std::byte> at) : inputs_(at) {}
  ECMV_GPU_DEVICE void put(int unit, int token, gpu::uint4 first, gpu::uint4 second) const {
    const gpu::Pointer<gpu::uint2> place =
        gpu::cast<gpu::uint2>(inputs_ + (unit * kUnitTokenBytes + token * kUnitTokenBytes / kFragmentTile));
    place[0] = gpu::uint2{first.x, second.x};
    place[1] = gpu::uint2{first.y, second.y};
    place[2] = gpu::uint2{first.z, second.z};
    place[3] = gpu::uint2{first.w, second.w};
  }
  ECMV_GPU_DEVICE static void order() {}

  // Reads a tile's tokens from its first unit on.
  class Tile {
   public:
    ECMV_GPU_DEVICE Tile(const UnitTokens& all, int unit)
        : inputs_(all.inputs_ + unit * kUnitTokenBytes), own_(inputs_ + LaneGroup::lane() * kLaneTokenBytes) {}
    ECMV_GPU_DEVICE Numbers numbers() const { return Numbers(inputs_); }
    ECMV_GPU_DEVICE void multiply(int segment, int unit, gpu::uint4 a, float (&sums)[kTiles][4]) {
      gpu::multiply_tokens(a, *gpu::cast<const gpu::uint2>(own_ + (segment * kUnits + unit) * kUnitTokenBytes),
                           sums[0]);
    }

   private:
    gpu::Pointer<const std::byte> inputs_, own_;
  };

 private:
  gpu::Pointer<std::byte> inputs_;
};

// The same for four lane groups: blocks of tokens. A product is under way while the next unit is decoded.
template <int kUnits>
class BlockTokens {
 public:
  static constexpr int kTiles = 2;
  using Numbers = BlockNumbers<kTiles>;

  explicit ECMV_GPU_DEVICE BlockTokens(gpu::Pointer<std::byte> at) : blocks_(gpu::first_block(at)) {}
  ECMV_GPU_DEVICE void put(int unit, int token, gpu::uint4 first, gpu::uint4 second) const {
    const gpu::Pointer<std::byte> block = blocks_ + unit / gpu::kUnitsOfBlock * Numbers::kBlockBytes;
    const int pair = unit % gpu::kUnitsOfBlock * 8;
    *gpu::cast<gpu::uint4>(block + gpu::pair_place(token, pair)) = first;
    *gpu::cast<gpu::uint4>(block + gpu::pair_place(token, pair + 4)) = second;
  }
  // Starts the copies of tokens that are not scaled.
  ECMV_GPU_DEVICE void copy(const gpu::Bf16Tokens& tokens, const TileCols& cols) const {
    gpu::copy_blocks_of_tokens<kTiles * kFragmentTile>(tokens, cols.first, cols.end, cols.stored, blocks_);
  }
  ECMV_GPU_DEVICE static void order() { gpu::order_before_units(); }

  class Tile {
   public:
    // Tiles are whole blocks.
    ECMV_GPU_DEVICE Tile(const BlockTokens& all, int unit)
        : inputs_(all.blocks_ + unit / gpu::kUnitsOfBlock * Numbers::kBlockBytes), blocks_(inputs_) {}
    ECMV_GPU_DEVICE Numbers numbers() const { return Numbers(inputs_); }
    ECMV_GPU_DEVICE void multiply(int segment, int unit, gpu::uint4 a, float (&sums)[kTiles][4]) {
      operands_[unit % 2] = a;
      if (unit > 0) gpu::wait_for_products();
      gpu::begin_products();
      gpu::multiply_block(operands_[unit % 2], blocks_,
                          (segment * kUnits + unit) / gpu::kUnitsOfBlock * Numbers::kBlockBytes,
                          unit % gpu::kUnitsOfBlock, sums);
      gpu::commit_products();
      if (unit == kUnits - 1) gpu::wait_for_products();
    }

   private:
    gpu::Pointer<const std::byte> inputs_;
    gpu::SharedBlocks blocks_;
    gpu::uint4 operands_[2] = {};
  };

 private:
  gpu::Pointer<std::byte> blocks_;
};

template <int kSymbolCols, int kForm, bool kWarpgroup>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(32 * kLanes, 1) void fragment_tokens(Matrix matrix, BlockPlan plan,
                                                                     FragmentsLayout layout, Hidden hidden,
                                                                     int all_cols, gpu::Bf16Tokens tokens) {
  using TileOf = TileLanes<kSymbolCols, kForm, 2, kLeanForm<kForm>>;
  constexpr int kUnits = TileOf::kSegmentCols / kFragmentCols;
  using Inputs = std::conditional_t<kWarpgroup, BlockTokens<kUnits>, UnitTokens<kUnits>>;
  constexpr bool kFloats = TileOf::kFloats, kScales = TileOf::kScalesTokens;
  constexpr int kTiles = Inputs::kTiles, kTokens = kTiles * kFragmentTile;
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::uniform(LaneGroup::group()),
            share = static_cast<int>(gpu::block_index() % layout.shares), first_tile = share * layout.share_tiles,
            tiles_left = matrix.column_tiles - first_tile,
            own_tiles = tiles_left < layout.share_tiles ? tiles_left : layout.share_tiles;
  const TileCols cols = matrix_cols(cols_of_tiles(matrix, first_tile, own_tiles, TileOf::kSegmentCols), all_cols);
  // A block takes several row groups in turn, so table and tokens are made once.
  const int64_t step = gpu::grid_size() / layout.shares * plan.lane_groups;
  int64_t group = gpu::block_index() / layout.shares * plan.lane_groups + lane_group;
  const Inputs inputs(gpu::shared_memory() + layout.tokens);
  const gpu::Pointer<uint32_t> largest = gpu::cast<uint32_t>(gpu::shared_memory() + layout.facts);
  const gpu::Pointer<float> totals = gpu::cast<float>(largest + kTokens * kLanes);

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  // Lane groups that multiply together go on together. Row groups that do not exist repeat the last one, and nobody
  // stores their results.
  const auto goes_on = [&] { return (kWarpgroup ? group - lane_group % gpu::kWarpgroup : group) < matrix.row_groups; };
  const auto begin = [&](int number, uint32_t after) {
    const int64_t of = !kWarpgroup || group < matrix.row_groups ? group : matrix.row_groups - 1;
    tile.template begin<true>(matrix.streams, of, first_tile + number, matrix.column_tiles, matrix.cols, after);
  };
  gpu::let_next_begin();
  const auto own_entries = load_own_entries(matrix);
  if (goes_on()) begin(0, own_entries.all());
  fill_table(matrix, plan, own_entries);
  gpu::wait_for_previous();
  if constexpr (kScales) {
    look_at_tokens(tokens, cols, plan.lane_groups, largest, totals);
    gpu::sync_block();
  }
  const auto shift_of = [&](int token) { return token_shift(largest[token * kLanes]); };
  if constexpr (kWarpgroup && !kScales) {
    inputs.copy(tokens, cols);
    gpu::commit_copies();
    gpu::wait_copies<0>();
  } else {
    load_fragment_tokens<kTokens, kScales, !kFloats>(
        tokens, cols, shift_of,
        [&](int unit, int token, gpu::uint4 first, gpu::uint4 second) { inputs.put(unit, token, first, second); });
  }
  Inputs::order();
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  const uint32_t lowest = lowest_of_halves<TileOf>(matrix);
  float sums[kTiles][4] = {};
  int number = 0;
  while (goes_on()) {
    typename Inputs::Tile tile_inputs(inputs, (tile.first_col() - cols.first / 2) / kFragmentCols);
    multiply_patches(tile, matrix.power, tile_inputs.numbers(), sums);
    tile.begin_raw();
    decode_fragments(tile, table, lowest, hidden,
                     [&](int segment, int unit, gpu::uint4 a) { tile_inputs.multiply(segment, unit, a, sums); });
    const int64_t first_row = group * kUnitRows;
    const bool ends = ++number == own_tiles;
    if (ends) number = 0, group += step;
    if (goes_on()) begin(number, 0);
    if (!ends) continue;
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTiles; ++j) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int token = j * kFragmentTile + lane % 4 * 2 + i % 2;
        const int64_t row = first_row + lane / 4 + i / 2 * 8;
        float sum = sums[j][i];
        sums[j][i] = 0;
        if (token >= tokens.batch || row >= matrix.rows) continue;
        if constexpr (TileOf::kF8 || TileOf::kEights)
          sum = scaled(sum, power_of_numbers<TileOf>(matrix) - (kScales ? shift_of(token) : 0));
        if constexpr (!kFloats) {
          sum = scaled(sum, 132 - shift_of(token));
          sum += (static_cast<float>(matrix.lowest) - 0.5f) * totals[token * kLanes];
        }
        tokens.y[(share * tokens.batch + token) * tokens.rows + row] = sum;
      }
    }
  }
}

// Up to 8 tokens groups32 is up to 1.08x as fast, beyond them warpgroup32 up to 2.2x
// (2026-11-26-h200/batch_16384_eights, 2026-11-26-h200/batch_f8, 2026-11-25-h100/batch). notes/fragment_division.md has
// the times of other least_groups.
constexpr FragmentPolicy kPolicies[] = {
    {{{"groups32"}, 32, 32, 1}, kFragmentTile, 2 * kFragmentTile, false, false, 20, 24},
    {{{"warpgroup32"}, 32, 32, 1}, 2 * kFragmentTile, 4 * kFragmentTile, true, false, 16, 24},
};
std::string_view choose(const backends::CompressedView&, const backends::DeviceInfo&, int batch) {
  return kPolicies[batch <= kFragmentTile ? 0 : 1].name;
}

// Symbols of eight of int8 elements are faster as bytes with digits of the tokens.
FragmentsKernel kernel_of(const Header& code, bool warpgroup) {
  const auto kernel = [&](auto symbol_cols, auto form, auto) -> FragmentsKernel {
    constexpr int kSymbolCols = decltype(symbol_cols)::value, kForm = decltype(form)::value;
    if constexpr (is_float(kForm) || (kSymbolCols == 4 && kForm >= kFolded + 2 && kForm <= kFolded + 4))
      return warpgroup ? fragment_tokens<kSymbolCols, kForm, true> : fragment_tokens<kSymbolCols, kForm, false>;
    return nullptr;
  };
  return is_float(code.form) ? for_float_code(code, kernel) : for_code<has_no_short_windows>(code, kernel);
}

FragmentsPlan plan_tokens(const backends::Policy& named, const backends::CompressedView& view,
                          const backends::DeviceInfo& device, int) {
  const auto& policy = named.as<FragmentPolicy>();
  const Header code = header_of(view);
  return plan_fragments(policy, code, stored_shape(view), device, kernel_of(code, policy.warpgroup));
}

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device,
                    const backends::Policy& named) {
  return refuses_fragments(view, device, named, plan_tokens,
                           "The kernel is for bf16 and f8 elements in symbols of four or eight columns, and int8 "
                           "elements in symbols of four and folded cells, with 2 to 4 raw bits.");
}

backends::BoundKernel bind(const backends::Policy& named, Layers layers, int batch, backends::Place& place) {
  return bind_fragments(named, layers, batch, place, plan_tokens, named.as<FragmentPolicy>().tokens);
}

}  // namespace

backends::Kernel fragments() {
  return {.op = backends::Op::matmul,
          .variant = "fragments",
          .policies = kPolicies,
          .activations = backends::Activations::bf16,
          .refuses = refuses,
          .bind = bind,
          .choose = choose};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
