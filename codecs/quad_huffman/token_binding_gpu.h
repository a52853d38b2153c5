// Host side of the products with tokens of bf16: how a block's shared memory is divided, which kernel a shape has, and
// what batches do not fit and are multiplied in halves.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "codecs/quad_huffman/float_rounding_gpu.h"
#include "codecs/quad_huffman/plain_gpu.h"
#include "codecs/quad_huffman/token_kernels_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

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
inline TokenDivision divide_tokens(const TokenGroupsPolicy& policy, const Code& code, datasets::Shape matrix,
                                   int compute_units) {
  const int64_t groups = row_groups(matrix.rows), tiles = column_tiles(matrix.cols, code.tile_cols),
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
inline TokenPlanned plan_tokens(const TokenGroupsPolicy& policy, const Code& code, datasets::Shape matrix, int batch,
                                int compute_units, int64_t shared_bytes) {
  const TokenDivision division = divide_tokens(policy, code, matrix, compute_units);
  const int of_block = division.row_groups, parts = division.parts;
  TokenPlanned planned{};
  planned.layout.exponents = gpu::kInt8Exponents;
  planned.layout.shares = division.shares;
  planned.layout.share_tiles = division.share_tiles;
  Plan& plan = planned.plan;
  const bool halves = is_float(code.form) && !is_f8(code.form);
  const int segment_bytes = 2 * segment_cols(code.symbol_cols);
  // Tokens of a tile of eight lie in different banks: bf16 elements take 16 bytes of each at once, int8 and f8 every other 16.
  planned.layout.token_bytes = segment_bytes + (halves ? 64 : 16);
  const int64_t part_bytes = policy.together() ? int64_t{segment_cols(code.symbol_cols) / gpu::kBlockCols} * 8 *
                                                     gpu::token_tiles(batch, true) * gpu::kBlockTokenBytes
                                               : int64_t{batch} * planned.layout.token_bytes;
  const int64_t rings = int64_t{of_block} * parts * kRingBytes, pieces = int64_t{of_block} * parts * gpu::kPieceBytes,
                slices = kTokenSlots * parts * part_bytes + (policy.together() ? gpu::kBlockAlignment : 0),
                sums = gpu::piece_sums_bytes(parts, batch, of_block);
  if (!policy.together() && batch > kMostTokensAlone) return {};
  if (sums > shared_bytes || !place_table(plan, code, policy.copies, shared_bytes - rings - pieces - slices)) return {};
  plan.lane_groups = of_block * parts;
  plan.lane_groups_of_rows = parts;
  planned.layout.pieces = plan.rings + static_cast<int>(rings);
  planned.layout.tokens = planned.layout.pieces + static_cast<int>(pieces);
  plan.bytes = static_cast<int>(std::max(planned.layout.tokens + slices, sums));
  return planned;
}

// A batch, `most` tokens at a time: plan_of(tokens) is the plan of a part, launch(plan, tokens) starts its product. What several
// shares sum up goes to the scratch, and is added by a launch behind.
template <typename PlanOf, typename Launch>
void multiply_parts(void* stream, const backends::MatmulArgs& args, int batch, int most, int compute_units, bool early,
                    PlanOf plan_of, Launch launch) {
  for (int first = 0; first < batch; first += most) {
    gpu::Bf16Tokens tokens = gpu::bf16_tokens_of(args, std::min(most, batch - first), first);
    float* const y = args.y + first * args.y_stride;
    const auto planned = plan_of(tokens.batch);
    int shares = planned.layout.shares;
    if constexpr (requires { planned.layout.pairs; }) shares /= planned.layout.pairs ? 2 : 1;  // added by clusters
    tokens.y = shares > 1 ? reinterpret_cast<float*>(args.scratch) : y;
    launch(planned, tokens);
    gpu::enqueue_add_shares(stream, args.scratch, shares, tokens.batch * tokens.rows, y, compute_units, early);
  }
}

// --- up to 16 tokens, by lanes that own rows -------------------------------------------------------------------------

// Products that several blocks, the shares, share the columns of; blocks take row groups in turn.
struct SharesPlanned {
  Plan plan;  // `inputs` behind the rings
  int shares, share_tiles;
  int64_t blocks;
};
// How many lane groups a block has, up to `most`, and how many column tiles: of all ways that fit the shared memory the one
// whose blocks are done first. `matrix` is the stored one; input_bytes(column tiles) is what a block has besides table and
// rings. Where `even`, blocks have the same number of row groups, otherwise as many rounds of all their lane groups. Lane groups of
// a multiprocessor take as long as three quarters of the most at least, seven eighths where `even`. No blocks where nothing fits.
template <typename InputBytes>
SharesPlanned plan_shares(const RingPolicy& policy, const Code& code, datasets::Shape matrix, int64_t ring_bytes,
                          int compute_units, int64_t shared_bytes, InputBytes input_bytes, int multiple = 1,
                          bool even = false) {
  const int64_t groups = row_groups(matrix.rows), columns = column_tiles(matrix.cols, code.tile_cols);
  SharesPlanned best{};
  double least = 0;
  for (int64_t share_tiles = columns; share_tiles >= 1; --share_tiles) {
    const int64_t shares = (columns + share_tiles - 1) / share_tiles, inputs = input_bytes(share_tiles);
    if (share_tiles != (columns + shares - 1) / shares) continue;
    const int64_t most = std::min<int64_t>(policy.lane_groups, (groups + multiple - 1) / multiple * multiple);
    for (int lane_groups = static_cast<int>(most); lane_groups >= multiple; lane_groups -= multiple) {
      const int64_t rings = lane_groups * ring_bytes;
      SharesPlanned planned{};
      Plan& plan = planned.plan;
      if (!place_table(plan, code, policy.copies, shared_bytes - rings - inputs)) continue;
      const int64_t row_blocks = (groups + lane_groups - 1) / lane_groups,
                    at_once = std::clamp<int64_t>(compute_units / shares, 1, row_blocks),
                    rounds = (row_blocks + at_once - 1) / at_once,
                    launches = (shares + compute_units - 1) / compute_units,
                    last = even ? (groups + at_once - 1) / at_once - (rounds - 1) * lane_groups : lane_groups;
      const auto time_of = [&](int64_t at_work) {
        return std::max<int64_t>(at_work, policy.lane_groups * (even ? 7 : 6) / 8);
      };
      // Lanes that share a copy of the table wait for each other.
      const double waits = plan.copies >= 8   ? 1
                           : plan.copies >= 2 ? 1.1
                                              : 1.2,
                   time = static_cast<double>(launches * share_tiles *
                                              ((rounds - 1) * time_of(lane_groups) + time_of(last))) *
                          waits * (1 + 0.005 * static_cast<double>(shares));
      if (best.blocks > 0 && time >= least) continue;
      least = time;
      plan.lane_groups = lane_groups;
      plan.lane_groups_of_rows = 1;
      plan.inputs = plan.rings + static_cast<int>(rings);
      plan.bytes = plan.inputs + static_cast<int>(inputs);
      planned.shares = static_cast<int>(shares);
      planned.share_tiles = static_cast<int>(share_tiles);
      planned.blocks = at_once * shares;
      best = planned;
    }
  }
  return best;
}

struct FewPlanned {
  Plan plan;
  FewLayout layout;
  int64_t blocks;
};
inline int few_tiles(int tokens) { return tokens <= kFewTile ? 1 : kFewTiles; }
inline FewPlanned plan_few(const RingPolicy& policy, const Code& code, datasets::Shape matrix, int tiles,
                           int compute_units, int64_t shared_bytes) {
  const int64_t facts = int64_t{2} * tiles * kFewTile * kLanes * 4;
  const auto pair_bytes = [&](int64_t share_tiles) {
    return share_tiles * code.tile_cols * gpu::kOwnTokenBytes + kPairPadding;
  };
  const SharesPlanned of = plan_shares(
      policy, code, matrix, kRingBytes, compute_units, shared_bytes,
      [&](int64_t share_tiles) { return facts + int64_t{tiles} * (kFewTile / 2) * pair_bytes(share_tiles); });
  return {of.plan,
          {.tokens = of.plan.inputs + static_cast<int>(facts),
           .pair_bytes = static_cast<int>(pair_bytes(of.share_tiles)),
           .facts = of.plan.inputs,
           .shares = of.shares,
           .share_tiles = of.share_tiles},
          of.blocks};
}

inline constexpr RingPolicy kFewPolicies[] = {{{"waves16"}, kMostFewLaneGroups, 32, 1, true}};

struct MultiplyFew {
  Matrix matrix;
  Code code;
  datasets::Shape size;
  const RingPolicy* policy;
  int compute_units;
  int64_t shared_bytes;
  bool early;
  int batch;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    multiply_parts(
        stream, args, batch, kFewTokens, compute_units, early,
        [&](int tokens) { return plan_few(*policy, code, size, few_tiles(tokens), compute_units, shared_bytes); },
        [&](const FewPlanned& planned, const gpu::Bf16Tokens& tokens) {
          gpu::launch(few_kernel(code, few_tiles(tokens.batch)),
                      {planned.blocks, planned.plan.lane_groups * kLanes, planned.plan.bytes, early}, stream, matrix,
                      planned.plan, planned.layout, hidden_of(planned.plan), tokens);
        });
  }
};

// --- up to two tokens, by units of work ------------------------------------------------------------------------------

struct UnitsPolicy : RingPolicy {
  int shares;             // at most
  bool splits;            // row groups are divided among blocks, too
  bool overlaps = false;  // a launch leaves room for half of the blocks that fit: the next one's, which begin beside it
};
struct UnitsPlanned {
  Plan plan;
  Division division;
  gpu::LaunchShape launch_shape;
};

// All multiprocessors have blocks in one round, unless the sums of so many row groups do not fit. sums_bytes(lane groups, row
// groups of a block). All lane groups have room for a lean one's schedule, 1 KiB a block at most. No lane groups where nothing
// fits.
template <typename SumsBytes>
UnitsPlanned plan_units(const UnitsPolicy& policy, const Code& code, datasets::Shape matrix,
                        const backends::DeviceInfo& device, SumsBytes sums_bytes) {
  constexpr int kInputBytes = 4;  // of a column
  const int64_t groups = row_groups(matrix.rows), tiles = column_tiles(matrix.cols, code.tile_cols);
  int shares = std::min(policy.shares, device.compute_units);
  while (tiles % shares != 0) --shares;
  UnitsPlanned planned{};
  Division& division = planned.division;
  division.shares = shares;
  division.share_tiles = static_cast<int>(tiles / shares);
  const int64_t units = groups * division.share_tiles,
                inputs = int64_t{division.share_tiles} * code.tile_cols * kInputBytes,
                shared_bytes = bytes_of_block(device.shared_bytes, policy);
  for (int lane_groups = policy.lane_groups; lane_groups >= 2; lane_groups /= 2) {
    for (int rounds = 1; rounds <= 64; rounds *= 2) {
      const int64_t at_once =
          int64_t{device.compute_units} * policy.blocks / (policy.overlaps ? 2 : 1) * rounds / shares;
      division.step = policy.splits ? 1 : division.share_tiles;
      const int steps = static_cast<int>(units / division.step);
      division.blocks = static_cast<int>(std::min<int64_t>(at_once, steps));
      division.runs = runs_of(steps, division.blocks);
      const int64_t rings = int64_t{lane_groups} * kLeanRingBytes,
                    sums = (kEpochBytes + sums_bytes(lane_groups, division.most_groups()) + 15) / 16 * 16;
      Plan& plan = planned.plan;
      if (!place_table(plan, code, policy.copies, shared_bytes - rings - sums - inputs)) continue;
      plan.lane_groups = lane_groups;
      plan.sums = plan.rings + static_cast<int>(rings);
      plan.inputs = plan.sums + static_cast<int>(sums);
      plan.bytes = plan.inputs + static_cast<int>(inputs);
      planned.launch_shape = {int64_t{shares} * division.blocks, lane_groups * kLanes, plan.bytes,
                              policy.early && gpu::have_early_launches(device)};
      return planned;
    }
  }
  return {};
}
inline gpu::Exchange exchange_of(const UnitsPlanned& planned, datasets::Shape matrix, int group_words,
                                 backends::Place& place) {
  const int64_t words = planned.division.words(row_groups(matrix.rows), group_words);
  return {place.zeroed(gpu::Exchange::bytes(words)), words};
}
// Numbers are added up tile by tile at most, and block by block.
inline int most_parts(const Division& division) { return 2 * division.shares * division.share_tiles; }

inline UnitsPlanned plan_one(const backends::Policy& policy, const Code& code, datasets::Shape matrix,
                             const backends::DeviceInfo& device) {
  return plan_units(policy.as<UnitsPolicy>(), code, matrix, device,
                    [](int, int64_t groups) { return groups * gpu::kDigits * kLanes * 4 + kDigitFactBytes; });
}
inline UnitsPlanned plan_ring_tokens(const backends::Policy& policy, const Code& code, datasets::Shape matrix,
                                     const backends::DeviceInfo& device) {
  return plan_units(policy.as<UnitsPolicy>(), code, matrix, device,
                    [](int lane_groups, int64_t groups) { return (lane_groups + groups - 1) * kRingSums * 4; });
}

inline constexpr UnitsPolicy kOnePolicies[] = {{{{"waves32"}, 32, 32, 1, true}, 1, false},
                                               {{{"waves32_split"}, 32, 32, 1, true}, 1, true},
                                               {{{"waves32_shares4"}, 32, 32, 1, true}, 4, false},
                                               {{{"waves16_fit2"}, 16, 32, 2, true}, 1, false},
                                               {{{"waves16_overlap_split"}, 16, 32, 2, true}, 1, true, true}};
inline constexpr UnitsPolicy kRingTokensPolicies[] = {{{{"waves32"}, 32, 32, 1, true}, 1, false},
                                                      {{{"waves32_split"}, 32, 32, 1, true}, 1, true},
                                                      {{{"waves32_shares4"}, 32, 32, 1, true}, 4, false},
                                                      {{{"waves16"}, 16, 32, 1, true}, 1, false},
                                                      {{{"waves16_fit2"}, 16, 32, 2, true}, 1, false}};

// Token by token: the kernel is for one.
struct MultiplyOne {
  Matrix matrix;
  UnitsPlanned planned;
  OneKernel kernel;
  gpu::Exchange exchange;
  int batch;
  void operator()(void* stream, const backends::MatmulArgs& args) const {
    for (int token = 0; token < batch; ++token)
      gpu::launch(kernel, planned.launch_shape, stream, matrix, planned.plan, planned.division, hidden_of(planned.plan),
                  gpu::Pointer<const uint16_t>(args.x_bf16 + token * args.x_stride),
                  gpu::Pointer<float>(args.y + token * args.y_stride), exchange);
  }
};

// A pair of tokens after the other.
struct MultiplyRingTokens {
  Matrix matrix;
  UnitsPlanned planned;
  RingTokensKernel kernel;
  gpu::Exchange exchange;
  int batch;
  void operator()(void* stream, const backends::MatmulArgs& args) const {
    for (int first = 0; first < batch; first += kRingTokens) {
      const gpu::Bf16Tokens tokens = gpu::bf16_tokens_of(args, std::min(kRingTokens, batch - first), first);
      gpu::launch(kernel, planned.launch_shape, stream, matrix, planned.plan, planned.division, hidden_of(planned.plan),
                  tokens, exchange);
    }
  }
};

// A batch that does not fit is multiplied in halves.
struct MultiplyTokens {
  Matrix matrix;
  Code code;
  datasets::Shape size;
  const TokenGroupsPolicy* policy;
  int compute_units;
  int64_t shared_bytes;
  bool early;
  gpu::ColumnScales scales;
  int batch;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    int most = batch;
    while (plan_tokens(*policy, code, size, most, compute_units, shared_bytes).plan.lane_groups == 0)
      most = (most + 1) / 2;
    multiply_parts(
        stream, args, batch, most, compute_units, early,
        [&](int tokens) { return plan_tokens(*policy, code, size, tokens, compute_units, shared_bytes); },
        [&](const TokenPlanned& planned, gpu::Bf16Tokens tokens) {
          const Plan& plan = planned.plan;
          const int64_t of_block = plan.lane_groups / plan.lane_groups_of_rows;
          TokenLayout layout = planned.layout;
          layout.scales = scales;
          // A lane group alone multiplies two tiles of tokens even of one: few tokens have a kernel of their own.
          const TokenKernel kernel =
              token_kernel(code, policy->multiply, policy->together() ? gpu::token_tiles(tokens.batch, true) : 2);
          if (policy->together()) {
            const auto arrange = is_f8(code.form)      ? gpu::enqueue_token_blocks<gpu::F8Elements>
                                 : is_float(code.form) ? gpu::enqueue_token_blocks<gpu::Bf16Elements>
                                                       : gpu::enqueue_token_blocks<gpu::Int8Elements>;
            arrange(stream, tokens, size.cols, 8 * gpu::token_tiles(tokens.batch, true),
                    args.scratch + gpu::share_scratch_bytes(layout.shares, size.rows), compute_units, early);
          }
          gpu::launch(kernel,
                      {(matrix.row_groups + of_block - 1) / of_block * layout.shares, plan.lane_groups * kLanes,
                       plan.bytes, early},
                      stream, matrix, plan, layout, hidden_of(plan), tokens);
        });
  }
};

inline std::string refuses_tokens(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                                  const backends::Policy& named) {
  if (matrix.shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (is_plain(matrix)) return kRefusesPlain;
  if (is_fragments(matrix) || is_strips(matrix)) return kRefusesFragments;
  const auto& policy = named.as<TokenGroupsPolicy>();
  const bool scaled = policy.multiply == Multiply::scaled;
  if (scaled && has_floats(matrix)) return "The kernel multiplies int8 elements by scales of their groups.";
  if (policy.multiply == Multiply::alone && is_f8(code_of(matrix).form))
    return "Lane groups that multiply alone take no f8 elements: for few tokens of bf16 there is few_tokens.";
  if (token_kernel(code_of(matrix), policy.multiply, 2) == nullptr)
    return "The kernel is for symbols of four or eight columns with 2 to 4 raw bits, and for bf16 and f8 elements in "
           "symbols of four.";
  if (plan_tokens(policy, code_of(matrix), matrix.shape, 1, device.compute_units, device.shared_bytes)
          .plan.lane_groups == 0)
    return "The table, the rings of the lane groups and a slice of a token do not fit the shared memory of a block.";
  return "";
}

inline backends::BoundKernel bind_tokens(const backends::Policy& named, Layers layers, int batch,
                                         backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Code code = code_of(view);
  const backends::DeviceInfo& device = place.device();
  const auto& policy = named.as<TokenGroupsPolicy>();
  const int shares = divide_tokens(policy, code, view.shape, device.compute_units).shares,
            parts = kMostTokenGroups + shares;
  const bool scaled = policy.multiply == Multiply::scaled;
  return {MultiplyTokens{matrix_of(view, code), code, view.shape, &policy, device.compute_units, device.shared_bytes,
                         gpu::have_early_launches(device),
                         scaled ? gpu::column_scales_of(layers[0].scales) : gpu::ColumnScales{}, batch},
          {.scratch_bytes = gpu::share_scratch_bytes(shares, view.shape.rows) +
                            (policy.multiply == Multiply::together ? gpu::token_blocks_bytes(view.shape.cols) : 0),
           .rounding =
               scaled ? gpu::scaled_rounding(view.shape.cols, parts) : gpu::token_rounding(view.shape.cols, parts)}};
}

inline std::string refuses_few(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                               const backends::Policy& policy) {
  if (matrix.shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (is_plain(matrix)) return kRefusesPlain;
  if (is_fragments(matrix) || is_strips(matrix)) return kRefusesFragments;
  const Code code = code_of(matrix);
  if (few_kernel(code, 1) == nullptr)
    return "The kernel is for symbols of four or eight columns with 2 to 5 raw bits, and for bf16 and f8 elements in "
           "symbols of four.";
  if (plan_few(policy.as<RingPolicy>(), code, matrix.shape, kFewTiles, device.compute_units, device.shared_bytes)
          .blocks == 0)
    return "The table, the rings of a lane group and 16 tokens of a tile's columns do not fit the shared memory of a "
           "thread block.";
  return refuses_patches(matrix);
}

// Of sums over so many columns. Substitutes are multiplied too, and subtracted again; of int8 elements the sum of the tokens'
// numbers is, as often as what is coded is off from the element.
inline backends::ProductRounding rounding_of_shares(const backends::CompressedView& view, const Code& code, int cols,
                                                    int shares) {
  backends::ProductRounding rounding = gpu::token_rounding(cols, shares + kMostTokenGroups);
  if (has_floats(view)) return rounding_of_floats(view, rounding, cols);
  rounding.more_roundings += 4 * cols;
  // An element that is patched is coded as another one of as many bits.
  const int most = (most_high(code.symbol_cols, code.form) + 1) << cell_bits(code.form);
  rounding.offset = 2.0 * (std::abs(code.lowest) + most);
  return rounding;
}

inline backends::BoundKernel bind_few(const backends::Policy& named, Layers layers, int batch, backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Code code = code_of(view);
  const backends::DeviceInfo& device = place.device();
  const auto& policy = named.as<RingPolicy>();
  const auto planned = [&](int tiles) {
    return plan_few(policy, code, view.shape, tiles, device.compute_units, device.shared_bytes).layout;
  };
  const FewLayout one = planned(1), all = planned(kFewTiles);
  const int shares = std::max(one.shares, all.shares),
            share_cols = std::max(one.share_tiles, all.share_tiles) * code.tile_cols;
  return {MultiplyFew{matrix_of(view, code), code, view.shape, &policy, device.compute_units, device.shared_bytes,
                      gpu::have_early_launches(device), batch},
          {.scratch_bytes = gpu::share_scratch_bytes(shares, view.shape.rows),
           .rounding = rounding_of_shares(view, code, share_cols, shares)}};
}

inline constexpr const char* kRefusesUnits =
    "The table, the rings of two waves, sums and a token do not fit the shared memory of a thread block.";

inline std::string refuses_one(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                               const backends::Policy& policy) {
  if (matrix.shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (is_plain(matrix)) return kRefusesPlain;
  if (has_floats(matrix)) return "The kernel multiplies int8 elements.";
  if (is_fragments(matrix) || is_strips(matrix)) return kRefusesFragments;
  if (one_kernel(code_of(matrix)) == nullptr) return "The kernel is for symbols of four or eight columns.";
  if (plan_one(policy, code_of(matrix), matrix.shape, device).plan.lane_groups == 0) return kRefusesUnits;
  return "";
}

// Sums are exact. What is cut from the token, 2^-29 of its largest number a column, times elements of at most 128, is below
// n 2^-22 of the sum of its numbers: an offset of 4.
inline backends::BoundKernel bind_one(const backends::Policy& named, Layers layers, int batch, backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Code code = code_of(view);
  const UnitsPlanned planned = plan_one(named, code, view.shape, place.device());
  return {MultiplyOne{matrix_of(view, code), planned, one_kernel(code),
                      exchange_of(planned, view.shape, kLanes * 2, place), batch},
          {.rounding = {.more_roundings = 2, .offset = 4}}};
}

inline std::string refuses_ring_tokens(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                                       const backends::Policy& policy) {
  if (matrix.shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (is_plain(matrix)) return kRefusesPlain;
  if (!has_floats(matrix)) return "The kernel multiplies bf16 and f8 elements.";
  if (is_fragments(matrix) || is_strips(matrix)) return kRefusesFragments;
  if (ring_tokens_kernel(code_of(matrix), 16) == nullptr)
    return "The kernel takes elements in symbols of two or four: of eight it is fragments that are multiplied.";
  if (plan_ring_tokens(policy, code_of(matrix), matrix.shape, device).plan.lane_groups == 0) return kRefusesUnits;
  return refuses_patches(matrix);
}

inline backends::BoundKernel bind_ring_tokens(const backends::Policy& named, Layers layers, int batch,
                                              backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Code code = code_of(view);
  const UnitsPlanned planned = plan_ring_tokens(named, code, view.shape, place.device());
  return {MultiplyRingTokens{matrix_of(view, code), planned,
                             ring_tokens_kernel(code, planned.plan.lane_groups * named.as<UnitsPolicy>().blocks),
                             exchange_of(planned, view.shape, kRingSums, place), batch},
          {.rounding = rounding_of_floats(view, gpu::token_rounding(view.shape.cols, most_parts(planned.division)),
                                          view.shape.cols)}};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
