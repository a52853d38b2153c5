// Y = W X for tokens of bf16 on matrix units, for rows of int8, f8 or bf16, or of elements that become bf16 in
// registers. A thread block has some tiles of 16 rows, and several lane groups (32 lanes, `parts`) share the columns of
// each, step by step. A lane copies asynchronously exactly what it multiplies to a ring of its own in shared memory and
// reads it back, so no lane waits for another. All lanes of the block copy the tokens of a slice of columns, a slice
// ahead. At the end one addition joins the parts, and another the blocks that share rows.
#pragma once

#include <algorithm>

#include "backends/gpu/cluster.h"
#include "backends/gpu/products/token_entries.h"
#include "backends/gpu/products/token_form.h"
#include "backends/gpu/products/token_parts.h"
#include "backends/gpu/products/token_shares.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Numbers between one token's sums and the next token's, so that lanes write different banks at once.
inline constexpr int kSumsPadding = 4;

// How a product is divided among blocks and lane groups.
struct TokenPlan {
  int tiles, parts;        // in a block: row tiles, and lane groups that share one
  int shares, share_cols;  // blocks that share its rows, and their columns (token_shares.h)
  bool in_cluster;         // the shares are a cluster, whose blocks read each other's sums
  int slice_steps;         // steps of a part in a slice
  // In shared memory: from one token of a slice to the next, from one slice to the other, and where the rings begin.
  int token_bytes, slice_bytes, rings;
};

// The sums of one token and four rows.
struct FourSums {
  float sums[4] = {};

  ECMV_GPU_DEVICE void add(const uint4& more) {
    ECMV_GPU_UNROLL
    for (int k = 0; k < 4; ++k) sums[k] += float_of(word_of(more, k));
  }
  ECMV_GPU_DEVICE uint4 words() const {
    return {bits_of(sums[0]), bits_of(sums[1]), bits_of(sums[2]), bits_of(sums[3])};
  }
  // In rows `row` to row + 3 of the results, those that exist.
  ECMV_GPU_DEVICE void store(const Bf16Tokens& tokens, int64_t token, int64_t row) const {
    const int64_t to = token * tokens.rows + row;
    if (tokens.in_fours) {
      if (row >= tokens.rows) return;
      if (tokens.rounds)
        *cast<uint2>(tokens.y_bf16 + to) = uint2{bf16_of(sums[0]) | uint32_t{bf16_of(sums[1])} << 16,
                                                 bf16_of(sums[2]) | uint32_t{bf16_of(sums[3])} << 16};
      else
        *cast<uint4>(tokens.y + to) = words();
      return;
    }
    ECMV_GPU_UNROLL
    for (int k = 0; k < 4; ++k) {
      if (row + k >= tokens.rows) break;
      if (tokens.rounds)
        tokens.y_bf16[to + k] = bf16_of(sums[k]);
      else
        tokens.y[to + k] = sums[k];
    }
  }
};

// A block's sums in shared memory: [parts, batch, rows of the block].
struct BlockSums {
  int rows, token_sums, part_sums;
  Pointer<float> sums;

  ECMV_GPU_DEVICE BlockSums(const TokenPlan& plan, int tile_rows, int batch)
      : rows(plan.tiles * tile_rows),
        token_sums(rows + kSumsPadding),
        part_sums(batch * token_sums),
        sums(cast<float>(shared_memory())) {}

  // A lane's sums of a part, from its first row and token on. Lanes write different banks at once.
  template <int kRowTiles, int kTokenTiles>
  ECMV_GPU_DEVICE void put(const float (&own)[kRowTiles][kTokenTiles][4], int part, int row, int first_token,
                           int batch) const {
    ECMV_GPU_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      ECMV_GPU_UNROLL
      for (int k = 0; k < kTokenTiles; ++k) {
        ECMV_GPU_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int token = 8 * k + first_token + i % 2;
          if (token < batch)
            sums[part * part_sums + token * token_sums + row + r * kTileRows + i / 2 * 8] = own[r][k][i];
        }
      }
    }
  }

  // A lane group's own, from its tile's first row on.
  ECMV_GPU_DEVICE GroupSums of_group(int part, int row) const { return {sums + (part * part_sums + row), token_sums}; }

  // Adds up the parts and the shares of a cluster, and stores the results: a thread takes four rows, and the threads
  // take as many tokens at once as they have rows for. (One token after the other, with a thread a row, took half of
  // the time: raw_bf16, 4096 x 1024, 64 tokens on an H200, 15 us instead of 8.3.)
  template <typename Form>
  ECMV_GPU_DEVICE void store(const TokenPlan& plan, int64_t row_block, int share, const Bf16Tokens& tokens) const {
    const int fours = rows / 4, at_once = Form::kThreads / fours, row = thread_index() % fours * 4,
              first = thread_index() / fours < at_once ? thread_index() / fours : tokens.batch;
    const int64_t to_row = row_block * rows + row;
    const auto place = [&](int token, int part) {
      return cast<uint4>(sums + (part * part_sums + token * token_sums + row));
    };
    const auto of_parts = [&](int token) {
      FourSums sum;
      for (int p = 0; p < plan.parts; ++p) sum.add(*place(token, p));
      return sum;
    };
    if (!plan.in_cluster) {
      for (int token = first; token < tokens.batch; token += at_once)
        of_parts(token).store(tokens, share * tokens.batch + token, to_row);
      return;
    }
    for (int token = first; token < tokens.batch; token += at_once) *place(token, 0) = of_parts(token).words();
    sync_cluster();
    // Each share stores every few tokens.
    for (int token = first * plan.shares + share; token < tokens.batch; token += at_once * plan.shares) {
      FourSums sum;
      for (int s = 0; s < plan.shares; ++s) sum.add(load_of_block(place(token, 0), s));
      sum.store(tokens, token, to_row);
    }
    sync_cluster_after_reads();
  }
};

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
  all.template store<Form>(plan, row_block, share, tokens);
}

template <typename Elements, int kGroups, int kRowTiles, int kTokenTiles, int kAhead, int kResident, bool kByWarpgroup>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kGroups* kTokenLanes, kResident) void token_matmul(Elements elements,
                                                                                   Pointer<const std::byte> w,
                                                                                   int64_t row_bytes, int cols,
                                                                                   Bf16Tokens tokens, TokenPlan plan) {
  using Form = TokenForm<Elements, kGroups, kRowTiles, kTokenTiles, kAhead, kByWarpgroup>;
  using LaneGroup = typename Form::LaneGroup;
  constexpr int kCols = kStepCols<Elements>;
  const int lane = LaneGroup::lane(), group = LaneGroup::uniform(LaneGroup::group()), tile = group % plan.tiles,
            part = group / plan.tiles, g = lane / 4, t = lane % 4,
            share = static_cast<int>(block_index() % plan.shares), first_col = share * plan.share_cols;
  const int64_t row_block = block_index() / plan.shares, first_row = (row_block * plan.tiles + tile) * Form::kRows;
  const bool works = part < plan.parts;
  let_next_begin();

  const int cols_left = cols - first_col, own_cols = cols_left < plan.share_cols ? cols_left : plan.share_cols;
  typename Form::Rows rows(
      elements, {w, row_bytes, first_row, tokens.rows - 1, first_col / kCols + part, own_cols - part * kCols});
  const int slice_cols = plan.slice_steps * plan.parts * kCols, slices = (own_cols + slice_cols - 1) / slice_cols,
            end_col = first_col + own_cols;
  const Pointer<std::byte> buffers = kByWarpgroup ? first_block(shared_memory()) : shared_memory();
  const Pointer<std::byte> ring = buffers + (plan.rings + group * (kAhead * Form::kStageBytes) + lane * kLaneBytes);

  if (works) rows.copy(ring, plan.parts);
  typename Elements::Entries entries(elements, {first_row, works ? rows_from(first_row, tokens.rows, Form::kRows) : 0,
                                                cols, share * plan.parts + part, plan.shares * plan.parts});
  const typename Form::Runs runs(slice_cols);
  wait_for_previous();
  Form::copy_tokens(runs, tokens, first_col, end_col, slice_cols, plan.token_bytes, buffers);
  commit_copies();
  ECMV_GPU_UNROLL
  for (int i = 1; i < kAhead; ++i) {
    if (works) rows.copy(ring + i * Form::kStageBytes, plan.parts);
    commit_copies();
  }
  entries.load();
  int offsets[kTokenTiles];
  find_tokens(offsets, g, tokens.batch, plan.token_bytes, t * Elements::kCols * 2);
  auto scales = step_scales<Elements, kRowTiles>(elements, first_row + g, tokens.rows - 1, cols);
  scales.load(first_col + part * kCols);
  float sums[kRowTiles][kTokenTiles][4] = {};
  int stage = 0, slice_begin = first_col;
  for (int slice = 0; slice < slices; ++slice) {
    // This slice's tokens were committed before as many groups as the previous slice had steps.
    if (slice == 0 || plan.slice_steps >= kAhead - 1)
      wait_copies<kAhead - 1>();
    else
      wait_copies<1>();
    Form::tokens_are_there();
    sync_block();
    if (slice + 1 < slices) {
      Form::copy_tokens(runs, tokens, first_col + (slice + 1) * slice_cols, end_col, slice_cols, plan.token_bytes,
                        buffers + (slice + 1) % 2 * plan.slice_bytes);
      commit_copies();
    }
    const Pointer<const std::byte> of_slice = buffers + slice % 2 * plan.slice_bytes;
    int col = part * kCols;
    ECMV_GPU_NO_UNROLL
    for (int i = 0; i < plan.slice_steps; ++i) {
      wait_copies<kAhead - 1>();
      const auto step = scales;
      scales.load(slice_begin + col + plan.parts * kCols);
      if (works)
        Form::multiply(elements, ring + stage, of_slice, col, offsets, step, sums, [&] {
          rows.copy(ring + stage, plan.parts);
          commit_copies();
        });
      else
        commit_copies();
      col += plan.parts * kCols;
      stage = stage == (kAhead - 1) * Form::kStageBytes ? 0 : stage + Form::kStageBytes;
    }
    slice_begin += slice_cols;
  }
  entries.look_up();
  wait_copies<0>();
  sync_block();

  finish_products<Form>(plan, {part, tile * Form::kRows, works}, sums, entries, row_block, share, tokens);
}

// A kernel's form: the lane groups of a block, each one's tiles of 16 rows, the steps under way, the blocks that fit on
// a multiprocessor, the most blocks that share rows, and whether four lane groups multiply as a warpgroup.
struct TokenPolicy : Policy {
  int groups, row_tiles, ahead, resident, shares;
  bool warpgroup;
  int rows() const { return kTileRows * row_tiles; }
};

// Tiles of eight tokens in a kernel for this batch.
inline int token_tiles(int batch, bool warpgroup) { return batch <= 8 && !warpgroup ? 1 : batch <= 16 ? 2 : 8; }

struct SizedPlan {
  TokenPlan plan;
  int64_t bytes;  // of shared memory; 0 where the batch does not fit
};

// A slice is a multiple of this many steps of a part: for warpgroups, whole blocks of 64 columns.
template <typename Elements>
int least_steps(const TokenPolicy& policy, int parts) {
  return policy.warpgroup && parts * kStepCols<Elements> % kBlockCols != 0 ? kBlockCols / kStepCols<Elements> : 1;
}

// The parts of a plan that do not depend on the batch: tiles, parts, shares and their columns. Two shares are a
// cluster. (H200, packed_exponents, warpgroups of 64 tokens: two 1 to 6 % faster than with a launch that adds, in two
// calls. Clusters of four do not all fit at once, and took 1.6 times as long as two at 8192 x 8192.)
template <typename Elements>
TokenPlan divide_tokens(const TokenPolicy& policy, datasets::Shape shape, const DeviceInfo& device) {
  const int64_t row_tiles = (shape.rows + policy.rows() - 1) / policy.rows(),
                blocks = std::max<int64_t>(1, int64_t{device.compute_units} * policy.resident),
                steps = (shape.cols + kStepCols<Elements> - 1) / kStepCols<Elements>;
  TokenPlan plan{};
  plan.tiles =
      static_cast<int>(std::clamp<int64_t>((row_tiles * policy.shares + blocks - 1) / blocks, 1, policy.groups));
  if (policy.warpgroup) plan.tiles = (plan.tiles + kWarpgroup - 1) / kWarpgroup * kWarpgroup;
  plan.parts = policy.groups / plan.tiles;
  const int64_t row_blocks = (row_tiles + plan.tiles - 1) / plan.tiles,
                most = std::clamp<int64_t>(blocks / row_blocks, 1, policy.shares),
                unit = int64_t{plan.parts} * least_steps<Elements>(policy, plan.parts),
                share_steps = (steps + unit * most - 1) / (unit * most) * unit;
  plan.shares = static_cast<int>((steps + share_steps - 1) / share_steps);
  plan.share_cols = static_cast<int>(share_steps * kStepCols<Elements>);
  plan.in_cluster = plan.shares == 2 && have_clusters(device);
  return plan;
}

// Slices are as long as fit, since all lane groups wait for each other where one ends, but at most a quarter of the
// columns, since nothing is multiplied before the first one is there. (H200, 16384 columns: 88 us a layer for one token
// in one slice, 73 for four tokens in two.)
template <typename Elements>
SizedPlan token_plan(const TokenPolicy& policy, datasets::Shape shape, int batch, const DeviceInfo& device) {
  constexpr int64_t kSystemBytes = 1024;  // that every block needs besides its own
  const int64_t most = (device.shared_bytes + kSystemBytes) / policy.resident - kSystemBytes;
  const int64_t rings =
      int64_t{policy.groups} * policy.ahead * 2 * policy.row_tiles * Elements::kLoads * kTokenLanes * kLaneBytes;
  TokenPlan plan = divide_tokens<Elements>(policy, shape, device);
  const int64_t sums = int64_t{plan.parts} * batch * (plan.tiles * policy.rows() + kSumsPadding) * 4;
  const int64_t steps = plan.share_cols / kStepCols<Elements>;
  const int step_cols = plan.parts * kStepCols<Elements>, least = least_steps<Elements>(policy, plan.parts);
  for (int slices = 4;; ++slices) {
    plan.slice_steps = static_cast<int>((steps + int64_t{plan.parts} * slices - 1) / (int64_t{plan.parts} * slices));
    plan.slice_steps = (plan.slice_steps + least - 1) / least * least;
    const int slice_cols = plan.slice_steps * step_cols;
    plan.token_bytes = slice_cols * 2 + kTokenPadding<Elements>;
    plan.slice_bytes = policy.warpgroup ? slice_cols / kBlockCols * 8 * token_tiles(batch, true) * kBlockTokenBytes
                                        : batch * plan.token_bytes;
    plan.rings = 2 * plan.slice_bytes;
    const int64_t bytes = std::max(plan.rings + rings, sums) + (policy.warpgroup ? kBlockAlignment : 0);
    if (bytes <= most) return {plan, bytes};
    if (plan.slice_steps <= least) return {};
  }
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
    parts.each([&](int first, int batch, const SizedPlan& sized) {
      Bf16Tokens tokens = bf16_tokens_of(args, batch, first);
      const int in_scratch = sized.plan.in_cluster ? 1 : sized.plan.shares;
      if (in_scratch > 1) {
        tokens.y = reinterpret_cast<float*>(args.scratch);
        tokens.rounds = false;  // add_shares does
      }
      const auto in_fours = [&](auto* y) {
        return y == nullptr || reinterpret_cast<uintptr_t>(y + first * args.y_stride) % (4 * sizeof *y) == 0;
      };
      tokens.in_fours = tokens.rows % 4 == 0 && (in_scratch > 1 || (in_fours(args.y) && in_fours(args.y_bf16)));
      if constexpr (kByWarpgroup)
        enqueue_token_blocks<Elements>(
            stream, tokens, rows.shape.cols, token_blocks(rows.shape.cols), 8 * token_tiles(tokens.batch, true),
            args.scratch + share_scratch_bytes(in_scratch, rows.shape.rows), compute_units, early);
      switch (token_tiles(tokens.batch, kByWarpgroup)) {
        case 1:
          if constexpr (!kByWarpgroup) start<1>(stream, tokens, sized);
          break;
        case 2: start<2>(stream, tokens, sized); break;
        default: start<8>(stream, tokens, sized);
      }
      enqueue_add_shares(stream, args, first, batch, in_scratch, compute_units, early);
    });
  }

 private:
  template <int kTokenTiles>
  void start(void* stream, const Bf16Tokens& tokens, const SizedPlan& sized) const {
    const int64_t block_rows = int64_t{sized.plan.tiles} * kTileRows * kRowTiles,
                  row_blocks = (rows.shape.rows + block_rows - 1) / block_rows;
    launch(token_matmul<Elements, kGroups, kRowTiles, kTokenTiles, kAhead, kResident, kByWarpgroup>,
           {.grid = row_blocks * sized.plan.shares,
            .block = kGroups * kTokenLanes,
            .shared_bytes = sized.bytes,
            .early = early,
            .cluster = sized.plan.in_cluster ? sized.plan.shares : 1},
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
    {{"groups16_ahead2"}, 16, 1, 2, 1, 1, false},           {{"warpgroup16_ahead1_shares2"}, 16, 1, 1, 1, 2, true},
    {{"warpgroup16_ahead2_shares2"}, 16, 1, 2, 1, 2, true}, {{"groups8_ahead3"}, 8, 1, 3, 1, 1, false},
    {{"groups16_ahead2_shares2"}, 16, 1, 2, 1, 2, false},   {{"groups4_ahead2"}, 4, 1, 2, 1, 1, false},
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
            {.scratch_bytes = share_scratch_bytes(plan.in_cluster ? 1 : plan.shares, rows.shape.rows) +
                              (kForm.warpgroup ? token_blocks_bytes(rows.shape.cols) : 0),
             .rounding = rounding,
             .takes_callers_tokens = true,
             .stores_bf16 = true}};
  });
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
