// Host side of the products with tokens of bf16: how a block's shared memory is divided, which kernel a shape has, and
// what batches do not fit and are multiplied in halves.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "codecs/quad_huffman/few_tokens_gpu.h"
#include "codecs/quad_huffman/plain_gpu.h"
#include "codecs/quad_huffman/plan_gpu.h"
#include "codecs/quad_huffman/tokens_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Of bf16 elements, 0 of others.
inline int largest_stand_in(const codecs::CompressedView& matrix) {
  if (!has_floats(matrix)) return 0;
  return std::to_integer<int>(matrix.sections[kHeader].host[kHeaderBytes]);
}

using TokenKernel = void (*)(Matrix, Plan, TokenLayout, Hidden, gpu::Bf16Tokens);

struct TokenGroupsPolicy : backends::Policy {
  int lane_groups, copies, shares;
  Multiply multiply;
  bool together() const { return multiply == Multiply::together; }
};
inline constexpr TokenGroupsPolicy kTokenPolicies[] = {
    {{"waves16"}, 16, 16, 1, Multiply::alone},
    {{"waves8"}, 8, 32, 1, Multiply::alone},
    {{"together16"}, 16, 16, 1, Multiply::together},
    {{"together16_shares4"}, 16, 16, 4, Multiply::together},
    {{"together4_shares2"}, 4, 16, 2, Multiply::together},  // fits 64 KiB
};
inline constexpr TokenGroupsPolicy kScaledTokenPolicies[] = {{{"waves16"}, 16, 16, 1, Multiply::scaled},
                                                             {{"waves8"}, 8, 32, 1, Multiply::scaled}};
// At a time, by a kernel where each lane group multiplies by itself.
inline constexpr int kMostTokensAlone = 16;

struct TokenPlanned {
  Plan plan;
  TokenLayout layout;
};

// How many row groups a block has, how many lane groups share one, and the blocks that share rows: as many row groups as
// give each multiprocessor one block. No batch changes that.
struct TokenDivision {
  int row_groups, parts, shares, share_tiles;
};
inline TokenDivision divide_tokens(const TokenGroupsPolicy& policy, const Shape& shape, datasets::Shape matrix,
                                   int compute_units) {
  const int64_t groups = row_groups(matrix.rows), tiles = column_tiles(matrix.cols, shape.tile_cols),
                most = std::min<int64_t>(policy.shares, tiles);
  TokenDivision of{};
  of.row_groups = policy.together() ? gpu::kWarpgroup : 1;
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
inline TokenPlanned plan_tokens(const TokenGroupsPolicy& policy, const Shape& shape, datasets::Shape matrix, int batch,
                                int compute_units, int64_t shared_bytes) {
  const TokenDivision division = divide_tokens(policy, shape, matrix, compute_units);
  const int of_block = division.row_groups, parts = division.parts;
  TokenPlanned planned{};
  planned.layout.exponents = gpu::kInt8Exponents;
  planned.layout.shares = division.shares;
  planned.layout.share_tiles = division.share_tiles;
  Plan& plan = planned.plan;
  const bool floats = is_float(shape.form);
  const int segment_bytes = 2 * segment_cols(shape.symbol_cols);
  // Tokens of a tile of eight lie in different banks: bf16 elements take 16 bytes of each at once, int8 every other 16.
  planned.layout.token_bytes = segment_bytes + (floats ? 64 : 16);
  const int64_t part_bytes = policy.together() ? int64_t{segment_cols(shape.symbol_cols) / gpu::kBlockCols} * 8 *
                                                     gpu::token_tiles(batch, true) * gpu::kBlockTokenBytes
                                               : int64_t{batch} * planned.layout.token_bytes;
  const int64_t rings = int64_t{of_block} * parts * kRingBytes, pieces = int64_t{of_block} * parts * gpu::kPieceBytes,
                slices = kTokenSlots * parts * part_bytes + (policy.together() ? gpu::kBlockAlignment : 0),
                sums = gpu::piece_sums_bytes(parts, batch, of_block);
  if (!policy.together() && batch > kMostTokensAlone) return {};
  if (sums > shared_bytes || !place_table(plan, shape, policy.copies, shared_bytes - rings - pieces - slices))
    return {};
  plan.lane_groups = of_block * parts;
  plan.lane_groups_of_rows = parts;
  planned.layout.pieces = plan.rings + static_cast<int>(rings);
  planned.layout.tokens = planned.layout.pieces + static_cast<int>(pieces);
  plan.bytes = static_cast<int>(std::max(planned.layout.tokens + slices, sums));
  return planned;
}

// The kernel for a shape, null where there is none: symbols of four and eight columns with 2 to 4 raw bits and bf16
// elements, two symbols a window. What is left out would double the compiling.
template <int kTokenTiles, Multiply kMultiply>
TokenKernel token_kernel(const Shape& shape) {
  const auto of_form = [](auto symbol_cols, auto form) -> TokenKernel {
    constexpr int kSymbolCols = decltype(symbol_cols)::value, kForm = decltype(form)::value;
    if constexpr (!is_float(kForm) && (raw_bits_of(kForm) < least_raw_bits(kSymbolCols, is_folded(kForm)) ||
                                       raw_bits_of(kForm) > most_raw_bits(kSymbolCols, is_folded(kForm))))
      return nullptr;
    else
      return token_product<kSymbolCols, kForm, 2, kTokenTiles, kMultiply, 512>;
  };
  const auto of_columns = [&](auto symbol_cols) -> TokenKernel {
    switch (shape.form) {
      case 2: return of_form(symbol_cols, Constant<2>{});
      case 3: return of_form(symbol_cols, Constant<3>{});
      case 4: return of_form(symbol_cols, Constant<4>{});
      case kFolded + 2: return of_form(symbol_cols, Constant<kFolded + 2>{});
      case kFolded + 3: return of_form(symbol_cols, Constant<kFolded + 3>{});
      case kFolded + 4: return of_form(symbol_cols, Constant<kFolded + 4>{});
    }
    return nullptr;
  };
  if (is_float(shape.form)) {
    if constexpr (kMultiply == Multiply::scaled) return nullptr;
    return shape.symbol_cols == 4 ? of_form(Constant<4>{}, Constant<float_raw_bits(4)>{}) : nullptr;
  }
  return shape.symbol_cols == 4   ? of_columns(Constant<4>{})
         : shape.symbol_cols == 8 ? of_columns(Constant<8>{})
                                  : nullptr;
}

// The same for few tokens, with up to four.
struct FewPlanned {
  Plan plan;
  FewLayout layout;
};
inline FewPlanned plan_few(const RingPolicy& policy, const Shape& shape, datasets::Shape matrix, int tokens,
                           int64_t shared_bytes) {
  const int64_t stored = row_segments(matrix.cols, shape.symbol_cols) * segment_cols(shape.symbol_cols),
                tiles = column_tiles(matrix.cols, shape.tile_cols);
  for (int lane_groups = policy.lane_groups; lane_groups >= 2; lane_groups /= 2) {
    const int64_t rings = int64_t{lane_groups} * kRingBytes, sums = int64_t{lane_groups} * tokens * kLanes * 4,
                  facts = int64_t{2} * tokens * kLanes * 4, pair = stored / 4 * kQuadBytes,
                  inputs = int64_t{tokens + 1} / 2 * pair;
    FewPlanned planned{{.lane_groups = lane_groups, .lane_groups_of_rows = lane_groups_of_rows(lane_groups, tiles)},
                       {.pair_bytes = static_cast<int>(pair)}};
    Plan& plan = planned.plan;
    if (!place_table(plan, shape, policy.copies, shared_bytes - rings - sums - facts - inputs)) continue;
    planned.layout.sums = plan.rings + static_cast<int>(rings);
    planned.layout.facts = planned.layout.sums + static_cast<int>(sums);
    planned.layout.tokens = planned.layout.facts + static_cast<int>(facts);
    plan.bytes = planned.layout.tokens + static_cast<int>(inputs);
    return planned;
  }
  return {};
}

inline constexpr RingPolicy kFewPolicies[] = {{{"waves16"}, 16, 32, 1, true}, {{"waves8"}, 8, 32, 1, true}};

using FewKernel = void (*)(Matrix, Plan, FewLayout, Hidden, gpu::Bf16Tokens);
inline FewKernel few_kernel(const Shape& shape) {
  const auto kernel = [](auto symbol_cols, auto form, auto symbols) -> FewKernel {
    return few_tokens<decltype(symbol_cols)::value, decltype(form)::value, decltype(symbols)::value, 512>;
  };
  return is_float(shape.form) ? for_float_shape(shape, kernel) : for_shape(shape, kernel);
}

struct MultiplyFew {
  Matrix matrix;
  Shape shape;
  datasets::Shape size;
  const RingPolicy* policy;
  int compute_units;
  int64_t shared_bytes;
  bool early;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    for (int first = 0; first < args.batch;) {
      int some = std::min(kFewTokens, args.batch - first);
      while (plan_few(*policy, shape, size, some, shared_bytes).plan.lane_groups == 0) some = (some + 1) / 2;
      gpu::Bf16Tokens tokens = gpu::bf16_tokens_of(args);
      tokens.batch = some;
      tokens.x = args.x_bf16 + first * args.x_stride;
      tokens.y = args.y + first * args.y_stride;
      const FewPlanned planned = plan_few(*policy, shape, size, some, shared_bytes);
      const Plan& plan = planned.plan;
      const int64_t of_block = plan.lane_groups / plan.lane_groups_of_rows;
      const int64_t blocks = std::min<int64_t>(compute_units, (matrix.row_groups + of_block - 1) / of_block);
      gpu::launch(few_kernel(shape), {blocks, plan.lane_groups * kLanes, plan.bytes, early}, stream, matrix, plan,
                  planned.layout, Hidden{}, tokens);
      first += some;
    }
  }
};

// A batch that does not fit is multiplied in halves.
struct MultiplyTokens {
  Matrix matrix;
  Shape shape;
  datasets::Shape size;
  const TokenGroupsPolicy* policy;
  int compute_units;
  int64_t shared_bytes;
  bool early;
  gpu::ColumnScales scales;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    int most = args.batch;
    while (plan_tokens(*policy, shape, size, most, compute_units, shared_bytes).plan.lane_groups == 0)
      most = (most + 1) / 2;
    for (int first = 0; first < args.batch; first += most) {
      gpu::Bf16Tokens tokens = gpu::bf16_tokens_of(args);
      tokens.batch = std::min(most, args.batch - first);
      tokens.x = args.x_bf16 + first * args.x_stride;
      const TokenPlanned planned = plan_tokens(*policy, shape, size, tokens.batch, compute_units, shared_bytes);
      const Plan& plan = planned.plan;
      const int64_t of_block = plan.lane_groups / plan.lane_groups_of_rows;
      TokenLayout layout = planned.layout;
      layout.scales = scales;
      const int shares = layout.shares;
      float* const y = args.y + first * args.y_stride;
      tokens.y = shares > 1 ? reinterpret_cast<float*>(args.scratch) : y;
      // A lane group alone multiplies two tiles of tokens even of one: few tokens have a kernel of their own.
      using enum Multiply;
      const bool few = gpu::token_tiles(tokens.batch, true) == 2;
      const TokenKernel kernel = policy->multiply == alone    ? token_kernel<2, alone>(shape)
                                 : policy->multiply == scaled ? token_kernel<2, scaled>(shape)
                                 : few                        ? token_kernel<2, together>(shape)
                                                              : token_kernel<8, together>(shape);
      if (policy->multiply == together) {
        const auto arrange = is_float(shape.form) ? gpu::enqueue_token_blocks<gpu::Bf16Elements>
                                                  : gpu::enqueue_token_blocks<gpu::Int8Elements>;
        arrange(stream, tokens, size.cols, 8 * gpu::token_tiles(tokens.batch, true),
                args.scratch + gpu::share_scratch_bytes(shares, size.rows), compute_units, early);
      }
      gpu::launch(
          kernel,
          {(matrix.row_groups + of_block - 1) / of_block * shares, plan.lane_groups * kLanes, plan.bytes, early},
          stream, matrix, plan, layout, Hidden{}, tokens);
      gpu::enqueue_add_shares(stream, args.scratch, shares, tokens.batch * tokens.rows, y, compute_units, early);
    }
  }
};

inline std::string refuses_tokens(const codecs::CompressedView& matrix, const backends::DeviceInfo& device,
                                  const backends::Policy& named) {
  if (matrix.shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (is_plain(matrix)) return kRefusesPlain;
  const auto& policy = named.as<TokenGroupsPolicy>();
  const bool scaled = policy.multiply == Multiply::scaled;
  if (scaled && has_floats(matrix)) return "The kernel multiplies int8 elements by scales of their groups.";
  if ((scaled ? token_kernel<2, Multiply::scaled> : token_kernel<2, Multiply::alone>)(shape_of(matrix)) == nullptr)
    return "The kernel is for symbols of four or eight columns with 2 to 4 raw bits, and for bf16 elements in symbols "
           "of four.";
  if (plan_tokens(policy, shape_of(matrix), matrix.shape, 1, device.compute_units, device.shared_bytes)
          .plan.lane_groups == 0)
    return "The table, the rings of the lane groups and a slice of a token do not fit the shared memory of a block.";
  return "";
}

inline backends::BoundKernel bind_tokens(const backends::Policy& named, Layers layers, backends::Place& place) {
  const codecs::CompressedView& view = *layers[0].matrix;
  const Shape shape = shape_of(view);
  const backends::DeviceInfo& device = place.device();
  const auto& policy = named.as<TokenGroupsPolicy>();
  const int shares = divide_tokens(policy, shape, view.shape, device.compute_units).shares,
            parts = kMostTokenGroups + shares;
  const bool scaled = policy.multiply == Multiply::scaled;
  return {MultiplyTokens{matrix_of(view, shape), shape, view.shape, &policy, device.compute_units, device.shared_bytes,
                         gpu::have_early_launches(device),
                         scaled ? gpu::column_scales_of(layers[0].scales) : gpu::ColumnScales{}},
          {.scratch_bytes = gpu::share_scratch_bytes(shares, view.shape.rows) +
                            (policy.multiply == Multiply::together ? gpu::token_blocks_bytes(view.shape.cols) : 0),
           .rounding =
               scaled ? gpu::scaled_rounding(view.shape.cols, parts) : gpu::token_rounding(view.shape.cols, parts)}};
}

inline std::string refuses_few(const codecs::CompressedView& matrix, const backends::DeviceInfo& device,
                               const backends::Policy& policy) {
  if (matrix.shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (is_plain(matrix)) return kRefusesPlain;
  if (plan_few(policy.as<RingPolicy>(), shape_of(matrix), matrix.shape, 1, device.shared_bytes).plan.lane_groups == 0)
    return "The table, the rings of two waves and a token do not fit the shared memory of a thread block.";
  if (largest_stand_in(matrix) == 255)
    return "What stands in for an exponent of this matrix is infinite, and would have to be taken away again.";
  return "";
}

// Substitutes are multiplied too, and subtracted again; of int8 elements the sum of the tokens' numbers is, as often as
// what is coded is off from the element.
inline backends::BoundKernel bind_few(const backends::Policy& named, Layers layers, backends::Place& place) {
  const codecs::CompressedView& view = *layers[0].matrix;
  const Shape shape = shape_of(view);
  const backends::DeviceInfo& device = place.device();
  backends::ProductRounding rounding =
      gpu::token_rounding(shape.tile_cols, column_tiles(view.shape.cols, shape.tile_cols) + kMostTokenGroups);
  rounding.more_roundings += 4 * shape.tile_cols;  // patches of a row of a tile
  if (const int largest = largest_stand_in(view); largest != 0) rounding.offset = std::ldexp(2.0, largest + 1 - 127);
  if (!has_floats(view)) {
    // An element that is patched is coded as another one of as many bits.
    const int most = (most_high(shape.symbol_cols, shape.form) + 1) << cell_bits(shape.form);
    rounding.offset = 2.0 * (std::abs(shape.lowest) + most);
  }
  return {MultiplyFew{matrix_of(view, shape), shape, view.shape, &named.as<RingPolicy>(), device.compute_units,
                      device.shared_bytes, gpu::have_early_launches(device)},
          {.rounding = rounding}};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
