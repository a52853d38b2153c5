// Y = W X for tokens of bf16 on matrix units, for rows of int8, f8 or bf16, or of elements that become bf16 in
// registers. A thread block has some tiles of 16 rows, and several lane groups (32 lanes, `parts`) share the columns of
// each, step by step. A lane copies asynchronously what it multiplies to a ring in shared memory and reads it back, so
// no lane waits for another; only where four lane groups multiply together may the lanes of each deal rows out among
// themselves (dealt_lines.h). All lanes of the block copy the tokens of a slice of columns, a slice ahead. At the end
// one addition joins the parts, and another the blocks that share rows.
#pragma once

#include <algorithm>

#include "backends/gpu/products/token_parts.h"
#include "backends/gpu/products/token_shares.h"
#include "backends/gpu/products/token_sums.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Where a lane's tokens begin in a slice. Lanes whose token does not exist multiply the last one again; nobody stores
// the results.
template <int kTokenTiles>
ECMV_GPU_DEVICE void find_tokens(int (&offsets)[kTokenTiles], int first, int batch, int token_bytes, int lane_bytes) {
  ECMV_GPU_UNROLL
  for (int k = 0; k < kTokenTiles; ++k) {
    const int token = 8 * k + first;
    offsets[k] = (token < batch ? token : batch - 1) * token_bytes + lane_bytes;
    if constexpr (kTokenTiles <= 2) keep(offsets[k]);
  }
}

// Waits for this lane's copies of a slice's tokens, which were committed with the first stage, or before as many stages
// as the slice before had steps.
template <int kAhead>
ECMV_GPU_DEVICE void wait_for_slice(int slice, int slice_steps) {
  if (slice == 0)
    wait_copies<kAhead - 1>();
  else if (slice_steps >= kAhead)
    wait_copies<kAhead>();
  else
    wait_copies<1>();
}
// Waits for the stage of a slice's step `i`. The next slice's tokens, committed before step 0, may still be on their
// way while stages from before them are multiplied. (H200, packed_exponents, `warpgroup16_ahead1_shares2`, 64 tokens,
// 4096 x 4096: 15.6 us, 16.4 when every step waited for them, in two calls.)
template <int kAhead>
ECMV_GPU_DEVICE void wait_for_stage(int i) {
  if (i < kAhead)
    wait_copies<kAhead>();
  else
    wait_copies<kAhead - 1>();
}

// A lane group's part, its first row in the block, and whether it has any.
struct GroupPlace {
  int part, row;
  bool works;
};

// Joins the lane groups' sums with what entries add, and stores the results.
template <typename Form, int kRowTiles, int kTokenTiles, typename Entries>
ECMV_GPU_DEVICE void finish_products(const TokenPlan& plan, const GroupPlace& place,
                                     const float (&sums)[kRowTiles][kTokenTiles][4], Entries& entries,
                                     int64_t row_block, int share, const Bf16Tokens& tokens) {
  const int lane = Form::LaneGroup::lane();
  const BlockSums all(plan, Form::kRows, tokens.batch);
  if (place.works) {
    all.put(sums, place.part, place.row + lane / 4, 2 * (lane % 4), tokens.batch);
    Form::LaneGroup::sync();
    entries.add(all.of_group(place.part, place.row), tokens);
  }
  sync_block();
  all.store<Form::kThreads>(plan, row_block, share, tokens);
}

template <typename Elements, int kGroups, int kRowTiles, int kTokenTiles, int kAhead, int kResident, bool kByWarpgroup>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kGroups* kTokenLanes, kResident) void token_matmul(Elements elements,
                                                                                   Pointer<const std::byte> w,
                                                                                   int64_t row_bytes, int cols,
                                                                                   Bf16Tokens tokens, TokenPlan plan) {
  using Form = TokenForm<Elements, kGroups, kRowTiles, kTokenTiles, kAhead, kByWarpgroup>;
  using LaneGroup = typename Form::LaneGroup;
  constexpr int kCols = kStepCols<Elements>;
  const int lane = LaneGroup::lane(), group = LaneGroup::uniform(LaneGroup::group()), part = plan.tiles.quotient(group),
            tile = group - part * plan.tiles.number(), g = lane / 4, t = lane % 4, shares = plan.shares.number(),
            block = static_cast<int>(block_index()), row_block = plan.shares.quotient(block),
            share = block - row_block * shares, first_col = share * plan.share_cols;
  const int64_t first_row = int64_t{row_block} * (plan.tiles.number() * Form::kRows) + tile * Form::kRows;
  const bool works = part < plan.parts;
  let_next_begin();

  typename Form::Entries entries(elements, {first_row, works ? rows_from(first_row, tokens.rows, Form::kRows) : 0, cols,
                                            share * plan.parts + part, shares * plan.parts});
  const int cols_left = cols - first_col, own_cols = cols_left < plan.share_cols ? cols_left : plan.share_cols;
  typename Form::Rows rows(
      elements, {w, row_bytes, first_row, tokens.rows - 1, first_col / kCols + part, own_cols - part * kCols});
  const int slice_cols = plan.slice_steps * plan.parts * kCols, end_col = first_col + own_cols;
  const Pointer<std::byte> buffers = kByWarpgroup ? first_block(shared_memory()) : shared_memory();
  const Pointer<std::byte> ring = buffers + (plan.rings + group * (kAhead * Form::kStageBytes)),
                           own_ring = ring + Form::own_place();

  if (works) rows.copy(own_ring, plan.parts);
  const typename Form::Runs runs(plan.runs);
  // Entries take trips to memory one after the other, so they go ahead of most copies. (H200, packed_exponents, one
  // token: 4.7 us at 1024 x 3072 where they came after all copies, 3.85 in a build with them here; 6144 x 4096 12.3 and
  // 11.9; NOTES.md there.)
  entries.load();
  wait_for_previous();
  Form::copy_tokens(runs, tokens, first_col, end_col, slice_cols, plan.token_bytes, buffers);
  commit_copies();
  ECMV_GPU_UNROLL
  for (int i = 1; i < kAhead; ++i) {
    if (works) rows.copy(own_ring + i * Form::kStageBytes, plan.parts);
    commit_copies();
  }
  entries.look_up(tokens);
  int offsets[kTokenTiles];
  find_tokens(offsets, g, tokens.batch, plan.token_bytes, t * Elements::kCols * 2);
  auto scales = step_scales<Elements, kRowTiles>(elements, first_row + g, tokens.rows - 1, cols);
  scales.load(first_col + part * kCols);
  float sums[kRowTiles][kTokenTiles][4] = {};
  int stage = 0;
  for (int slice = 0, slice_begin = first_col; slice_begin < end_col; ++slice, slice_begin += slice_cols) {
    wait_for_slice<kAhead>(slice, plan.slice_steps);
    Form::tokens_are_there();
    sync_block();
    if (slice_begin + slice_cols < end_col)
      Form::copy_tokens(runs, tokens, slice_begin + slice_cols, end_col, slice_cols, plan.token_bytes,
                        buffers + (slice + 1) % 2 * plan.slice_bytes);
    commit_copies();  // maybe nothing
    const Pointer<const std::byte> of_slice = buffers + slice % 2 * plan.slice_bytes;
    int col = part * kCols;
    ECMV_GPU_NO_UNROLL
    for (int i = 0; i < plan.slice_steps && slice_begin + col < end_col; ++i) {
      wait_for_stage<kAhead>(i);
      const auto step = scales;
      scales.load(slice_begin + col + plan.parts * kCols);
      if (works)
        Form::multiply(elements, ring + stage, of_slice, col, offsets, step, sums, [&] {
          rows.copy(own_ring + stage, plan.parts);
          commit_copies();
        });
      else
        commit_copies();
      col += plan.parts * kCols;
      stage = stage == (kAhead - 1) * Form::kStageBytes ? 0 : stage + Form::kStageBytes;
    }
  }
  wait_copies<0>();
  sync_block();

  finish_products<Form>(plan, {part, tile * Form::kRows, works}, sums, entries, row_block, share, tokens);
}

// Rows of elements as they are stored.
struct TokenRows {
  const std::byte* first;
  int64_t row_bytes;
  datasets::Shape shape;
};

// A bound product. It multiplies a batch that does not fit in halves.
template <typename Elements, int kGroups, int kRowTiles, int kAhead, int kResident, bool kByWarpgroup>
struct TokenProduct {
  Elements elements;
  TokenRows rows;
  TokenParts<SizedPlan> parts;
  int compute_units;
  bool early;

  void operator()(void* stream, const MatmulArgs& args) const {
    parts.each(args, [&](int first, int batch, int planned, const SizedPlan& sized) {
      Bf16Tokens tokens = bf16_tokens_of(args, batch, first);
      const int in_scratch = sized.plan.in_cluster ? 1 : sized.plan.shares.number();
      if (in_scratch > 1) tokens.store_shares(args.scratch);
      tokens.in_fours = stores_in_fours(args, first, in_scratch > 1);
      if constexpr (kByWarpgroup && !Elements::kDealt)
        enqueue_token_blocks<Elements>(stream, tokens, rows.shape.cols, token_blocks(rows.shape.cols),
                                       8 * token_tiles(planned, true, Elements::kFours),
                                       args.scratch + share_scratch_bytes(in_scratch, rows.shape.rows), compute_units,
                                       early);
      switch (token_tiles(planned, kByWarpgroup, Elements::kFours)) {
        case 1:
          if constexpr (!kByWarpgroup) start<1>(stream, tokens, sized);
          break;
        case 2: start<2>(stream, tokens, sized); break;
        case 4:
          if constexpr (Elements::kFours) start<4>(stream, tokens, sized);
          break;
        default: start<8>(stream, tokens, sized);
      }
      enqueue_add_shares(stream, args, first, batch, in_scratch, compute_units, early);
    });
  }

 private:
  template <int kTokenTiles>
  void start(void* stream, const Bf16Tokens& tokens, const SizedPlan& sized) const {
    const int64_t block_rows = int64_t{sized.plan.tiles.number()} * kTileRows * kRowTiles,
                  row_blocks = (rows.shape.rows + block_rows - 1) / block_rows;
    launch(token_matmul<Elements, kGroups, kRowTiles, kTokenTiles, kAhead, kResident, kByWarpgroup>,
           {.grid = row_blocks * sized.plan.shares.number(),
            .block = kGroups * kTokenLanes,
            .shared_bytes = sized.bytes,
            .early = early,
            .cluster = sized.plan.in_cluster ? sized.plan.shares.number() : 1},
           stream, elements, rows.first, rows.row_bytes, static_cast<int>(rows.shape.cols), tokens, sized.plan);
  }
};

// "" if rows are whole steps of four lanes and the device has the shared memory for one token.
template <typename Elements>
std::string why_no_token_product(const TokenPolicy& policy, datasets::Shape shape, const DeviceInfo& device) {
  constexpr int kWhole = Elements::kWholeCols;
  if (shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (shape.cols % kWhole != 0) return "The kernel takes columns in multiples of " + std::to_string(kWhole) + ".";
  if (shape.cols >= int64_t{1} << 28) return "The kernel counts columns in 32 bits: fewer than 2^28 of them.";
  if (token_plan<Elements>(policy, shape, 1, device).bytes == 0)
    return "The steps that are under way and a slice of a token do not fit the " + std::to_string(device.shared_bytes) +
           " bytes of shared memory that a block has here.";
  return "";
}

// The policies of a kernel for some elements; `with_form` of one of them is its product. The numbers are lane groups,
// each one's tiles of 16 rows, steps under way, blocks of a multiprocessor, shares, and whether four lane groups are a
// warpgroup. The comments say where each wins on H100 and H200. The last of a list fit the 64 KiB of shared memory that
// every supported device has.
inline constexpr TokenPolicy kGroups16{{"groups16_ahead4"}, 16, 1, 4, 1, 1, false},
    kGroups16Rows32{{"groups16_rows32_ahead3"}, 16, 2, 3, 1, 1, false},
    kWarpgroup16Rows32{{"warpgroup16_rows32_ahead3"}, 16, 2, 3, 1, 1, true},
    kGroups4{{"groups4_ahead3_fit4"}, 4, 1, 3, 4, 1, false},
    kWarpgroup8Shares4{{"warpgroup8_ahead2_shares4"}, 8, 1, 2, 1, 4, true};
// The first wins with few columns, the warpgroups mostly elsewhere.
inline constexpr TokenPolicy kF8TokenPolicies[] = {kGroups16, kGroups16Rows32, kWarpgroup16Rows32, kGroups4,
                                                   kWarpgroup8Shares4};
// Shared rows win with 64 tokens, the warpgroups mostly elsewhere.
inline constexpr TokenPolicy kInt8TokenPolicies[] = {
    kGroups16, kGroups16Rows32,   kWarpgroup16Rows32, {{"warpgroup16_rows32_ahead3_shares4"}, 16, 2, 3, 1, 4, true},
    kGroups4,  kWarpgroup8Shares4};
// Each of the first four is the fastest at some shape.
inline constexpr TokenPolicy kBf16TokenPolicies[] = {kGroups16,
                                                     kGroups16Rows32,
                                                     {{"groups8_ahead6_fit2"}, 8, 1, 6, 2, 1, false},
                                                     {{"groups16_ahead4_shares2"}, 16, 1, 4, 1, 2, false},
                                                     kWarpgroup16Rows32,
                                                     kGroups4,
                                                     kWarpgroup8Shares4};
// For elements with scales of groups of columns. Each lane group multiplies alone.
inline constexpr TokenPolicy kScaledTokenPolicies[] = {kGroups16, kGroups4};
inline constexpr TokenPolicy kWideScaledTokenPolicies[] = {{{"groups8_ahead3"}, 8, 1, 3, 1, 1, false},
                                                           {{"groups4_ahead2"}, 4, 1, 2, 1, 1, false}};
// For elements with several loads a step. Each but the last is the fastest somewhere.
inline constexpr TokenPolicy kWideTokenPolicies[] = {
    {{"groups16_ahead2"}, 16, 1, 2, 1, 1, false},
    {{"warpgroup16_ahead1_shares2"}, 16, 1, 1, 1, 2, true},
    {{"warpgroup16_ahead2_shares2"}, 16, 1, 2, 1, 2, true},
    {{"groups8_ahead3"}, 8, 1, 3, 1, 1, false},
    {{"groups4_ahead2"}, 4, 1, 2, 1, 1, false},
};

template <const auto& kForms, typename Elements>
BoundKernel bind_token_product(const Policy& policy, const Elements& elements, const TokenRows& rows, int batch,
                               const DeviceInfo& device, const ProductRounding& more = {}) {
  return with_policy<kForms>(policy, [&](auto at) -> BoundKernel {
    constexpr const TokenPolicy& kForm = kForms[decltype(at)::value];
    ProductRounding rounding = Elements::kScaled ? scaled_rounding(rows.shape.cols, kForm.groups + kForm.shares)
                                                 : token_rounding(rows.shape.cols, kForm.groups + kForm.shares);
    rounding.more_roundings += more.more_roundings;
    rounding.offset = more.offset;
    const auto parts =
        halved_token_parts(batch, [&](int tokens) { return token_plan<Elements>(kForm, rows.shape, tokens, device); });
    const TokenPlan plan = divide_tokens<Elements>(kForm, rows.shape, device);
    return {TokenProduct<Elements, kForm.groups, kForm.row_tiles, kForm.ahead, kForm.resident, kForm.warpgroup>{
                elements, rows, parts, device.compute_units, have_early_launches(device)},
            {.scratch_bytes = share_scratch_bytes(plan.in_cluster ? 1 : plan.shares.number(), rows.shape.rows) +
                              (kForm.warpgroup && !Elements::kDealt ? token_blocks_bytes(rows.shape.cols) : 0),
             .rounding = rounding,
             .takes_callers_tokens = true,
             .stores_bf16 = true,
             .takes_fewer_tokens = true}};
  });
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
