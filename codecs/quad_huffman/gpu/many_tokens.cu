// Products of int8 elements in rows with tokens of bf16 on matrix units, 1 to 64 tokens. A lane decodes a row, but
// the matrix unit wants a row from four lanes; so a lane group writes what it decoded to a piece of shared memory of
// its own (tile/rows.h), 32 rows x 64 bytes, and reads it back as operands. The lane groups of a block take the same
// segments of their tiles at the same time: those of one row group other tiles than each other, those of other row
// groups the same, so that each slice of the tokens is in shared memory once for all of them.
#include <algorithm>
#include <cmath>
#include <string>

#include "backends/gpu/products/token_matmul.h"
#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/takes.h"
#include "codecs/quad_huffman/gpu/tile/rows.h"
#include "codecs/quad_huffman/gpu/tokens/plan.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

// What a block has in shared memory beside table, rings and pieces: slices of the tokens. Sums come last, in place of
// all that.
struct TokenLayout {
  int pieces, tokens;        // where they begin
  int token_bytes;           // from one token of a slice to the next
  uint32_t exponents;        // gpu::kInt8Exponents
  int shares, share_tiles;   // blocks that share rows (gpu/token_shares.h), and column tiles of each
  gpu::ColumnScales scales;  // of scaled products
};

// Slices of the tokens that there is room for.
constexpr int kTokenSlots = kAhead + 1;

template <typename TileOf>
struct TokenPiece : RowsPiece<TileOf, gpu::kPieceRowBytes> {
  using Elements = gpu::Int8Elements;
  ECMV_GPU_DEVICE gpu::TokenPiece<Elements> operands() const { return {this->bytes}; }
};

// How the lane groups multiply: four of them as one (gpu/warpgroup_units.h), or each by itself with scales of groups
// of columns.
enum class Multiply { warpgroup, scaled };

// Scales of the 64 columns that a piece of int8 elements has.
template <Multiply kMultiply>
using ScalesOf = std::conditional_t<kMultiply == Multiply::scaled, gpu::StripScales<2, 1>, gpu::NoScales>;

template <int kSymbolCols, int kForm, int kTokenTiles, Multiply kMultiply>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(16 * kLanes, 1) void token_product(Matrix matrix, BlockPlan plan, TokenLayout layout,
                                                                   Hidden hidden, gpu::Bf16Tokens tokens) {
  using TileOf = TileLanes<kSymbolCols, kForm, 2>;
  using Piece = TokenPiece<TileOf>;
  constexpr int kSlots = kTokenSlots;
  constexpr bool kWarpgroup = kMultiply == Multiply::warpgroup;
  // `row_groups` of a block, and lane groups of each. Four lane groups that multiply together have the same columns.
  const int lane_group = LaneGroup::uniform(LaneGroup::group()), parts = plan.lane_groups_of_rows,
            row_groups = plan.lane_groups / parts, part = lane_group / row_groups, row_group = lane_group % row_groups,
            lane = LaneGroup::lane(), share = static_cast<int>(gpu::block_index() % layout.shares),
            first_tile = share * layout.share_tiles, tiles_left = matrix.column_tiles - first_tile,
            own_tiles = tiles_left < layout.share_tiles ? tiles_left : layout.share_tiles;
  // Row groups that do not exist are the last one again, for results that nobody stores.
  const int64_t row_block = gpu::block_index() / layout.shares, own_group = row_block * row_groups + row_group,
                group = own_group < matrix.row_groups ? own_group : matrix.row_groups - 1;
  const int steps = matrix.streams.tile_segments, rounds = (own_tiles + parts - 1) / parts,
            tile_cols = steps * TileOf::kSegmentCols;
  const gpu::Pointer<std::byte> all_slices = gpu::shared_memory() + layout.tokens,
                                slices = kWarpgroup ? gpu::first_block(all_slices) : all_slices;
  Piece piece{
      {gpu::shared_memory() + (layout.pieces + lane_group * gpu::kPieceBytes), Piece::in_all_elements(matrix.lowest)}};
  constexpr int kPartBytes = TileOf::kSegmentCols / gpu::kBlockCols * 8 * kTokenTiles * gpu::kBlockTokenBytes;
  const int part_bytes = kWarpgroup ? kPartBytes : tokens.batch * layout.token_bytes, slice_bytes = parts * part_bytes,
            own_tokens_at = part * part_bytes + (kWarpgroup ? 0 : lane % 4 * Piece::Elements::kCols * 2);

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  gpu::let_next_begin();
  const auto own_entries = load_own_entries<4>(matrix);
  // Slice number `step` of all, and the place that it has.
  int place_to_copy = 0, place_to_read = 0;
  const auto copy_tokens = [&](int round, int s) {
    for (; s >= steps; s -= steps) ++round;
    const gpu::Pointer<std::byte> to = slices + place_to_copy * slice_bytes;
    const int64_t first_col = ((int64_t{first_tile} + round * parts) * steps + s) * TileOf::kSegmentCols;
    if (round < rounds) {
      if constexpr (kWarpgroup) {
        for (int p = 0; p < parts; ++p)
          gpu::copy_token_blocks(tokens, first_col + int64_t{p} * tile_cols, tokens.x_stride, TileOf::kSegmentCols,
                                 8 * kTokenTiles, to + p * kPartBytes);
      } else {
        gpu::copy_token_slices(tokens, parts, tile_cols, first_col, TileOf::kSegmentCols, layout.token_bytes, to);
      }
    }
    place_to_copy = place_to_copy == kSlots - 1 ? 0 : place_to_copy + 1;
  };
  fill_table(matrix, plan, own_entries);
  gpu::wait_for_previous();
  ECMV_GPU_UNROLL
  for (int s = 0; s < kAhead; ++s) {
    copy_tokens(s / steps, s % steps);
    gpu::commit_copies();
  }
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  typename Piece::Elements elements;
  static_assert(!TileOf::kFloats);
  elements.exponents = layout.exponents;
  float sums[2][kTokenTiles][4] = {};
  // For a piece's columns, asked for before the piece is decoded.
  [[maybe_unused]] ScalesOf<kMultiply> scales(layout.scales, group * kLanes + lane / 4, matrix.rows - 1, matrix.cols);
  for (int round = 0; round < rounds; ++round) {
    const int number = round * parts + part, column = first_tile + number;
    const bool has = number < own_tiles;
    if (has) tile.begin(matrix.streams, group, column, matrix.column_tiles, matrix.cols);
    PatchWalk patches;
    if (has) patches = tile.patch_walk();
    scales.load(column * tile_cols);
    for (int s = 0; s < steps; ++s) {
      tile.wait_for_segment();
      if constexpr (kWarpgroup) gpu::order_before_units();
      gpu::sync_block();
      const bool decodes = has && s < tile.segments();
      copy_tokens(round, s + kAhead);
      if (decodes) tile.fetch(s);
      gpu::commit_copies();
      const gpu::Pointer<const std::byte> own_tokens = slices + (place_to_read * slice_bytes + own_tokens_at);
      place_to_read = place_to_read == kSlots - 1 ? 0 : place_to_read + 1;
      if (!decodes) continue;
      piece.decode(tile, table, s, patches, [&](int col, int) {
        const int first_col = col - s * TileOf::kSegmentCols;
        const auto operands = piece.operands();
        if constexpr (kWarpgroup) {
          operands.template multiply_together<kTokenTiles>(elements, own_tokens, first_col, sums);
        } else {
          const auto of_piece = scales;
          scales.load(column * tile_cols + col + Piece::kCols);
          float products[2][kTokenTiles][4] = {};
          operands.template multiply<kTokenTiles>(elements, own_tokens + first_col * 2, layout.token_bytes,
                                                  tokens.batch, products);
          ECMV_GPU_UNROLL
          for (int r = 0; r < 2; ++r) gpu::add_scaled(products[r], of_piece.words[r][0], sums[r]);
        }
      });
    }
  }
  gpu::wait_copies<0>();
  gpu::sync_block();

  gpu::store_piece_sums<kTokenTiles>(sums, {part, parts, row_group, row_groups, share, row_block}, tokens);
}

struct TokenPolicy : backends::Policy {
  int lane_groups, copies, shares;
  Multiply multiply;
};
bool is_warpgroup(const TokenPolicy& policy) { return policy.multiply == Multiply::warpgroup; }
// 64 tokens: 2.0 times as fast as fragments, four times 16 tokens, and 3.0 times as fast as with one share
// (2026-11-25-h100/batch). The scaled product is the only one with scales of groups of columns.
constexpr TokenPolicy kPolicies[] = {{{"warpgroup16_shares4"}, 16, 16, 4, Multiply::warpgroup}};
constexpr TokenPolicy kScaledPolicies[] = {{{"groups16"}, 16, 16, 1, Multiply::scaled}};
constexpr int kMostScaledTokens = 16;  // at a time

using Kernel = void (*)(Matrix, BlockPlan, TokenLayout, Hidden, gpu::Bf16Tokens);

// Folded cells with 2 to 4 raw bits, windows of two symbols: what is left out would double the compiling, twice.
template <int kSymbolCols, int kForm>
Kernel kernel_of_form(Multiply multiply, int token_tiles) {
  if (multiply == Multiply::scaled) return token_product<kSymbolCols, kForm, 2, Multiply::scaled>;
  return token_tiles == 2 ? token_product<kSymbolCols, kForm, 2, Multiply::warpgroup>
                          : token_product<kSymbolCols, kForm, 8, Multiply::warpgroup>;
}
template <int kSymbolCols>
Kernel kernel_of_cols(int form, Multiply multiply, int token_tiles) {
  switch (form) {
    case kFolded + 2: return kernel_of_form<kSymbolCols, kFolded + 2>(multiply, token_tiles);
    case kFolded + 3: return kernel_of_form<kSymbolCols, kFolded + 3>(multiply, token_tiles);
    case kFolded + 4: return kernel_of_form<kSymbolCols, kFolded + 4>(multiply, token_tiles);
  }
  return nullptr;
}
Kernel kernel_of(const Code& code, Multiply multiply, int token_tiles) {
  if (code.symbol_cols == 2) return nullptr;
  return code.symbol_cols == 4 ? kernel_of_cols<4>(code.form, multiply, token_tiles)
                               : kernel_of_cols<8>(code.form, multiply, token_tiles);
}

struct ManyTokensPlan {
  BlockPlan plan;
  TokenLayout layout;
  int tiles;
  Kernel kernel;
};

// How many row groups a block has, how many lane groups share one, and the blocks that share rows: as many row groups
// as give each multiprocessor one block. No batch changes that.
struct TokenDivision {
  int row_groups, parts, shares, share_tiles;
};
TokenDivision divide_tokens(const TokenPolicy& policy, const Code& code, datasets::Shape matrix, int compute_units) {
  const int64_t groups = row_groups(matrix.rows), tiles = column_tiles(matrix.cols, code.tile_cols),
                most = std::min<int64_t>(policy.shares, tiles);
  TokenDivision of{};
  of.row_groups = is_warpgroup(policy) ? gpu::kWarpgroup : 1;
  while (of.row_groups < policy.lane_groups && groups * most > int64_t{of.row_groups} * compute_units)
    of.row_groups *= 2;
  const int64_t row_blocks = (groups + of.row_groups - 1) / of.row_groups,
                shares = std::clamp<int64_t>(compute_units / row_blocks, 1, most);
  of.share_tiles = static_cast<int>((tiles + shares - 1) / shares);
  of.shares = static_cast<int>((tiles + of.share_tiles - 1) / of.share_tiles);
  of.parts = std::min(policy.lane_groups / of.row_groups, of.share_tiles);
  return of;
}

// No lane groups where the batch does not fit.
ManyTokensPlan plan_tokens(const TokenPolicy& policy, const Code& code, datasets::Shape matrix, int batch,
                           const backends::DeviceInfo& device) {
  const TokenDivision division = divide_tokens(policy, code, matrix, device.compute_units);
  const int of_block = division.row_groups, parts = division.parts;
  ManyTokensPlan planned{};
  planned.layout.exponents = gpu::kInt8Exponents;
  planned.layout.shares = division.shares;
  planned.layout.share_tiles = division.share_tiles;
  BlockPlan& plan = planned.plan;
  const int segment_bytes = 2 * segment_cols(code.symbol_cols);
  // Tokens of a tile of eight lie in different banks: elements take every other 16 bytes.
  planned.layout.token_bytes = segment_bytes + 16;
  const int64_t part_bytes = is_warpgroup(policy) ? int64_t{segment_cols(code.symbol_cols) / gpu::kBlockCols} * 8 *
                                                        gpu::token_tiles(batch, true) * gpu::kBlockTokenBytes
                                                  : int64_t{batch} * planned.layout.token_bytes;
  const int64_t rings = int64_t{of_block} * parts * kRingBytes, pieces = int64_t{of_block} * parts * gpu::kPieceBytes,
                slices = kTokenSlots * parts * part_bytes + (is_warpgroup(policy) ? gpu::kBlockAlignment : 0),
                sums = gpu::piece_sums_bytes(parts, batch, of_block);
  if (!is_warpgroup(policy) && batch > kMostScaledTokens) return {};
  if (sums > device.shared_bytes ||
      !place_table(plan, code, policy.copies, device.shared_bytes - rings - pieces - slices))
    return {};
  plan.lane_groups = of_block * parts;
  plan.lane_groups_of_rows = parts;
  planned.layout.pieces = plan.rings + static_cast<int>(rings);
  planned.layout.tokens = planned.layout.pieces + static_cast<int>(pieces);
  plan.bytes = static_cast<int>(std::max(planned.layout.tokens + slices, sums));
  planned.tiles = is_warpgroup(policy) ? gpu::token_tiles(batch, true) : 2;
  planned.kernel = kernel_of(code, policy.multiply, planned.tiles);
  return planned;
}

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device,
                    const backends::Policy& named) {
  if (std::string reason = refuses_empty(view); !reason.empty()) return reason;
  if (std::string reason = refuses_matrix(view, Layout::rows, Elements::int8); !reason.empty()) return reason;
  const auto& policy = named.as<TokenPolicy>();
  const Code code = code_of(view);
  if (kernel_of(code, policy.multiply, 2) == nullptr)
    return "The kernel is for symbols of four or eight columns in folded cells with 2 to 4 raw bits.";
  if (plan_tokens(policy, code, view.shape, 1, device).plan.lane_groups == 0)
    return "The table, the rings of the lane groups and a slice of a token do not fit the shared memory of a block.";
  return "";
}

struct MultiplyTokens {
  Matrix matrix;
  gpu::TokenParts<ManyTokensPlan> parts;
  datasets::Shape shape;
  int compute_units;
  bool early, warpgroup;
  gpu::ColumnScales scales;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    multiply_parts(stream, args, parts, compute_units, early, [&](const ManyTokensPlan& many, gpu::Bf16Tokens tokens) {
      const BlockPlan& plan = many.plan;
      const int64_t of_block = plan.lane_groups / plan.lane_groups_of_rows;
      TokenLayout layout = many.layout;
      layout.scales = scales;
      if (warpgroup)
        gpu::enqueue_token_blocks<gpu::Int8Elements>(stream, tokens, shape.cols, 8 * many.tiles,
                                                     args.scratch + gpu::share_scratch_bytes(layout.shares, shape.rows),
                                                     compute_units, early);
      gpu::launch(
          many.kernel,
          {(matrix.row_groups + of_block - 1) / of_block * layout.shares, plan.lane_groups * kLanes, plan.bytes, early},
          stream, matrix, plan, layout, hidden_of(plan), tokens);
    });
  }
};

// A batch that does not fit is multiplied in halves.
backends::BoundKernel bind(const backends::Policy& named, Layers layers, int batch, backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Code code = code_of(view);
  const backends::DeviceInfo& device = place.device();
  const auto& policy = named.as<TokenPolicy>();
  const auto plan = [&](int tokens) { return plan_tokens(policy, code, view.shape, tokens, device); };
  int most = batch;
  while (plan(most).plan.lane_groups == 0) most = (most + 1) / 2;
  const int shares = divide_tokens(policy, code, view.shape, device.compute_units).shares,
            sums = kMostTokenGroups + shares;
  const bool warpgroup = is_warpgroup(policy);
  return {MultiplyTokens{matrix_of(view, code), gpu::token_parts(batch, most, plan), view.shape, device.compute_units,
                         gpu::have_early_launches(device), warpgroup,
                         warpgroup ? gpu::ColumnScales{} : gpu::column_scales_of(layers[0].scales)},
          {.scratch_bytes = gpu::share_scratch_bytes(shares, view.shape.rows) +
                            (warpgroup ? gpu::token_blocks_bytes(view.shape.cols) : 0),
           .rounding =
               warpgroup ? gpu::token_rounding(view.shape.cols, sums) : gpu::scaled_rounding(view.shape.cols, sums)}};
}

}  // namespace

backends::Kernel many_tokens() {
  return {.op = backends::Op::matmul,
          .variant = "tokens",
          .policies = kPolicies,
          .activations = backends::Activations::bf16,
          .refuses = refuses,
          .bind = bind};
}
backends::Kernel scaled_tokens() {
  return {.op = backends::Op::matmul,
          .variant = "scaled_tokens",
          .policies = kScaledPolicies,
          .activations = backends::Activations::bf16,
          .group_cols = gpu::kScaleCols,
          .refuses = refuses,
          .bind = bind};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
