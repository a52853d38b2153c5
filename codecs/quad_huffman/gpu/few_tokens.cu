// Products of bf16 and f8 elements in rows with up to 16 tokens of bf16 on matrix units, without a detour through
// shared memory: what a lane decodes of its row, eight columns at a time, is its part of an operand as it is
// (gpu/row_units.h). Several blocks, the shares, take some of the columns each, so that their tokens are in shared
// memory as a whole; what they sum up is added by a launch after the product (gpu/token_shares.h). f8 elements want
// scaled tokens (tile/floats.h). Symbols of four columns, windows of two. Fragments are 1.25 to 1.42 times as fast
// with 16 tokens (2026-11-25-h200/batch_16384, 2026-11-25-h200/batch_llm): this kernel is for matrices whose rows
// lanes own for other products' sake.
#include <algorithm>

#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/takes.h"
#include "codecs/quad_huffman/gpu/tokens/plan.h"
#include "codecs/quad_huffman/gpu/tokens/row_tokens.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

// Tokens of a tile, and tiles at most. More lane groups would not have the registers.
constexpr int kFewTile = 4, kFewTiles = 4, kFewTokens = kFewTile * kFewTiles, kMostLaneGroups = 16;

// After each pair, so that what lanes read of two pairs at once lies in different banks.
constexpr int kPairPadding = 32;

// Where things lie in shared memory beside table and rings: pairs of tokens [pairs, pair_bytes], and of each token
// and lane group the largest number's bits and the sum [2, tokens, 32].
struct FewLayout {
  int tokens = 0, pair_bytes = 0, facts = 0;
  int shares = 0, share_tiles = 0;  // blocks with the same rows, and column tiles of each
};

template <int kForm, int kTiles>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostLaneGroups* kLanes, 1) void multiply_few(Matrix matrix, BlockPlan plan,
                                                                              FewLayout layout, Hidden hidden,
                                                                              gpu::Bf16Tokens tokens) {
  using TileOf = TileLanes<4, kForm, 2, kEarlyForm<kForm>>;
  static_assert(TileOf::kFloats && !TileOf::kEights);
  constexpr bool kScales = TileOf::kF8;
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::uniform(LaneGroup::group()),
            share = static_cast<int>(gpu::block_index() % layout.shares), first_tile = share * layout.share_tiles,
            tiles_left = matrix.column_tiles - first_tile,
            own_tiles = tiles_left < layout.share_tiles ? tiles_left : layout.share_tiles,
            tile_cols = matrix.streams.tile_segments * TileOf::kSegmentCols;
  const TileCols cols = cols_of_tiles(matrix, first_tile, own_tiles, TileOf::kSegmentCols);
  // A block takes several row groups in turn: table and tokens are there once.
  const int64_t step = gpu::grid_size() / layout.shares * plan.lane_groups;
  int64_t group = gpu::block_index() / layout.shares * plan.lane_groups + lane_group;
  const gpu::Pointer<std::byte> inputs = gpu::shared_memory() + layout.tokens;
  const gpu::Pointer<uint32_t> largest = gpu::cast<uint32_t>(gpu::shared_memory() + layout.facts);
  const gpu::Pointer<float> totals = gpu::cast<float>(largest + kTiles * kFewTile * kLanes);

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  const auto begin = [&](int number) {
    tile.begin(matrix.streams, group, first_tile + number, matrix.column_tiles, matrix.cols);
  };
  gpu::let_next_begin();
  const auto own_entries = load_own_entries<4>(matrix);
  if (group < matrix.row_groups) begin(0);
  fill_table(matrix, plan, own_entries);
  gpu::wait_for_previous();
  if constexpr (kScales) {
    look_at_tokens(tokens, cols, plan.lane_groups, largest, totals);
    gpu::sync_block();
  }
  const auto shift_of = [&](int token) { return token_shift(largest[token * kLanes]); };
  load_few_tokens<kScales>(tokens, cols, kTiles * kFewTile / 2, layout.pair_bytes, inputs, shift_of);
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  const uint32_t lowest = in_both_halves(matrix.lowest);
  const bool reads = gpu::reads_tokens();
  const gpu::Pointer<const std::byte> own_pair = inputs + lane / 16 * layout.pair_bytes,
                                      own_inputs = own_pair + gpu::own_pair_half() * 16;
  gpu::uint4 operands[4] = {};  // stay zero in lanes that read no tokens
  float products[kTiles][4];

  for (; group < matrix.row_groups;) {
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTiles; ++j) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) products[j][i] = 0;
    }
    for (int number = 0; number < own_tiles;) {
      const int tile_col = number * tile_cols;
      add_float_patches(tile, own_pair + tile_col * gpu::kOwnTokenBytes, 2 * layout.pair_bytes, products);
      const gpu::Pointer<const std::byte> tile_inputs = own_inputs + tile_col * gpu::kOwnTokenBytes;
      gpu::uint2 held{};
      const auto multiply = [&](int segment, int quad, gpu::uint2 four) {
        if (quad % 2 == 0) {
          held = four;
          return;
        }
        const gpu::Pointer<const std::byte> at =
            tile_inputs + (segment * (TileOf::kSegmentCols * gpu::kOwnTokenBytes) + quad / 2 * 32);
        ECMV_GPU_UNROLL
        for (int j = 0; j < kTiles; ++j) {
          gpu::uint4& operand = operands[(quad / 2 * kTiles + j) % 4];
          if (reads) operand = *gpu::cast<const gpu::uint4>(at + 2 * j * layout.pair_bytes);
          gpu::multiply_own_rows(operand, held, four, products[j]);
        }
      };
      tile.decode(table, [&](int segment, int quad, uint32_t exponents, uint32_t signs) {
        const FourFloats four =
            unscaled_numbers_of<TileOf>(quad, exponents, signs, lowest, exponent_unit<TileOf>(hidden));
        multiply(segment, quad, gpu::uint2{four.first, four.second});
      });
      if (++number < own_tiles) begin(number);
    }
    const int64_t first_row = group * kLanes;
    group += step;
    if (group < matrix.row_groups) begin(0);
    ECMV_GPU_UNROLL
    for (int j = 0; j < kTiles; ++j) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int token = j * kFewTile + gpu::own_sum_number(i);
        const int64_t row = first_row + gpu::own_sum_row(i);
        if (token >= tokens.batch || row >= matrix.rows) continue;
        float product = products[j][i];
        if constexpr (TileOf::kF8) product = scaled(product, kF8Shift - shift_of(token));
        tokens.y[(share * tokens.batch + token) * tokens.rows + row] = product;
      }
    }
  }
}

constexpr RingPolicy kPolicies[] = {{{"groups16"}, kMostLaneGroups, 32, 1}};

using Kernel = void (*)(Matrix, BlockPlan, FewLayout, Hidden, gpu::Bf16Tokens);

Kernel kernel_of(const Code& code, int tiles) {
  if (code.symbol_cols != 4) return nullptr;
  if (is_f8(code.form)) return tiles == 1 ? multiply_few<f8_form(4), 1> : multiply_few<f8_form(4), kFewTiles>;
  return tiles == 1 ? multiply_few<float_raw_bits(4), 1> : multiply_few<float_raw_bits(4), kFewTiles>;
}

struct FewPlan {
  BlockPlan plan;
  FewLayout layout;
  int64_t blocks;
  Kernel kernel;
};
FewPlan plan_few(const RingPolicy& policy, const Code& code, datasets::Shape matrix, int batch,
                 const backends::DeviceInfo& device) {
  const int tiles = batch <= kFewTile ? 1 : kFewTiles;
  const int64_t facts = int64_t{2} * tiles * kFewTile * kLanes * 4;
  const auto pair_bytes = [&](int64_t share_tiles) {
    return share_tiles * code.tile_cols * gpu::kOwnTokenBytes + kPairPadding;
  };
  const SharesPlan of = plan_shares(policy, code, matrix, kRingBytes, device, [&](int64_t share_tiles) {
    return facts + int64_t{tiles} * (kFewTile / 2) * pair_bytes(share_tiles);
  });
  return {of.plan,
          {.tokens = of.plan.inputs + static_cast<int>(facts),
           .pair_bytes = static_cast<int>(pair_bytes(of.share_tiles)),
           .facts = of.plan.inputs,
           .shares = of.shares,
           .share_tiles = of.share_tiles},
          of.blocks,
          kernel_of(code, tiles)};
}

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device,
                    const backends::Policy& named) {
  if (std::string reason = refuses_empty(view); !reason.empty()) return reason;
  if (std::string reason = refuses_matrix(view, Layout::rows, Elements::floats); !reason.empty()) return reason;
  const Code code = code_of(view);
  if (kernel_of(code, 1) == nullptr) return "The kernel is for bf16 and f8 elements in symbols of four.";
  if (plan_few(named.as<RingPolicy>(), code, view.shape, kFewTokens, device).blocks == 0)
    return "The table, the rings of a lane group and 16 tokens of a tile's columns do not fit the shared memory of a "
           "thread block.";
  return refuses_patches(view);
}

struct MultiplyFew {
  Matrix matrix;
  gpu::TokenParts<FewPlan> parts;
  int compute_units;
  bool early;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    multiply_parts(stream, args, parts, compute_units, early, [&](const FewPlan& few, const gpu::Bf16Tokens& tokens) {
      gpu::launch(few.kernel, {few.blocks, few.plan.lane_groups * kLanes, few.plan.bytes, early}, stream, matrix,
                  few.plan, few.layout, hidden_of(few.plan), tokens);
    });
  }
};

backends::BoundKernel bind(const backends::Policy& named, Layers layers, int batch, backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Code code = code_of(view);
  const backends::DeviceInfo& device = place.device();
  const auto parts = gpu::token_parts(batch, kFewTokens, [&](int tokens) {
    return plan_few(named.as<RingPolicy>(), code, view.shape, tokens, device);
  });
  return {MultiplyFew{matrix_of(view, code), parts, device.compute_units, gpu::have_early_launches(device)},
          facts_of_shares(view, code, parts, code.tile_cols)};
}

}  // namespace

backends::Kernel few_tokens() {
  return {.op = backends::Op::matmul,
          .variant = "few_tokens",
          .policies = kPolicies,
          .activations = backends::Activations::bf16,
          .refuses = refuses,
          .bind = bind};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
