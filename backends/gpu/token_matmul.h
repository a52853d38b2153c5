// Y = W X for tokens of bf16 on matrix units, of uncompressed rows of int8 or bf16. A thread block has some 16-row tiles,
// each of several lane groups (32 lanes, `parts`) that share its columns step by step. What a lane multiplies it copies
// itself, asynchronously, to a ring of its own in shared memory and reads back, so that no lane waits for another; the
// tokens of a slice of columns are copied by all lanes of the block, a slice ahead. The columns that a lane has of a row
// lie together (16 bytes): which of them is which of the matrix unit's does not matter as long as the tokens' are dealt
// in the same way. What is left at the end is one addition of the parts.
#pragma once

#include <algorithm>

#include "backends/gpu/async_copy.h"
#include "backends/gpu/token_units.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Elements: what a lane loads of a row in a step (kLoads times 16 bytes, 64 bytes by four lanes), how many strips of
// columns that is, and how many columns of a strip a lane has, side by side. chunk() gives a strip's elements, operands()
// 8 of its columns (number `eighth`) in the rows g and g + 8 as two operands of multiply_tokens. finish() is called once
// the sums of a block's rows [batch, block_rows] are in shared memory.
struct Int8Elements {
  static constexpr int kLoads = 1, kStrips = 1, kCols = 16;
  uint32_t exponents = kInt8Exponents;  // nvcc would make a constant once for each use
  ECMV_GPU_DEVICE uint4 chunk(const uint4 (&loads)[kLoads], int) const { return loads[0]; }
  ECMV_GPU_DEVICE void operands(const uint4& upper, const uint4& lower, int eighth, uint4 (&a)[2]) const {
    ECMV_GPU_UNROLL
    for (int k = 0; k < 2; ++k) {
      const uint32_t above = word_of(upper, 2 * eighth + k), below = word_of(lower, 2 * eighth + k);
      a[k] = {int8_numbers<0>(above, exponents), int8_numbers<0>(below, exponents), int8_numbers<1>(above, exponents),
              int8_numbers<1>(below, exponents)};
    }
  }
  ECMV_GPU_DEVICE void finish(Pointer<float>, int, int64_t, int, const Bf16Tokens&) const {}
};
struct Bf16Elements {
  static constexpr int kLoads = 1, kStrips = 1, kCols = 8;
  ECMV_GPU_DEVICE uint4 chunk(const uint4 (&loads)[kLoads], int) const { return loads[0]; }
  static ECMV_GPU_DEVICE void operands(const uint4& upper, const uint4& lower, int, uint4 (&a)[2]) {
    a[0] = {upper.x, lower.x, upper.y, lower.y};
    a[1] = {upper.z, lower.z, upper.w, lower.w};
  }
  ECMV_GPU_DEVICE void finish(Pointer<float>, int, int64_t, int, const Bf16Tokens&) const {}
};
template <typename Elements>
inline constexpr int kStepCols = 4 * Elements::kCols* Elements::kStrips;
// Tokens of a tile of eight lie in different banks: of 16 columns of a lane every other 16 bytes are read at once, of 8
// neighbouring ones.
template <typename Elements>
inline constexpr int kTokenPadding = Elements::kCols == 16 ? 16 : 64;

// How a product is divided.
struct TokenPlan {
  int tiles, parts;        // of a block: row tiles, and lane groups that share one
  int slice_steps;         // steps of a part in a slice
  int token_bytes, rings;  // in shared memory: from a token of a slice to the next; where the rings begin
};

inline constexpr int kTokenLanes = 32, kTileRows = 16, kLaneBytes = 16;

// A form: lane groups of a block, tiles of 16 rows that a lane group has, tiles of 8 tokens, steps that are under way.
template <typename Elements, int kGroups, int kRowTiles, int kTokenTiles, int kAhead>
struct TokenForm {
  using LaneGroup = Lanes<kTokenLanes>;
  static constexpr int kThreads = kGroups * kTokenLanes, kRows = kTileRows * kRowTiles, kLoads = Elements::kLoads,
                       kCopies = 2 * kRowTiles * kLoads, kPlaceBytes = kTokenLanes * kLaneBytes,
                       kStageBytes = kCopies * kPlaceBytes;

  // This lane's bytes of the rows of its lane group, from the next step on.
  struct Rows {
    Pointer<const std::byte>
        next[2 * kRowTiles];  // in rows g, g + 8, ...; those that do not exist are the last one again
    int cols_left;            // from this lane's first one of the step
    // Starts the copies of the next step to this lane's places of a stage.
    ECMV_GPU_DEVICE void copy(Pointer<std::byte> stage, int parts) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < kCopies; ++i) {
        const Pointer<std::byte> to = stage + i * kPlaceBytes;
        if (cols_left > 0)
          copy_async<kLaneBytes>(to, next[i / kLoads] + i % kLoads * (4 * kLaneBytes));
        else
          *cast<uint4>(to) = uint4{};
      }
      ECMV_GPU_UNROLL
      for (int i = 0; i < 2 * kRowTiles; ++i) next[i] = next[i] + parts * (kLoads * 4 * kLaneBytes);
      cols_left -= parts * kStepCols<Elements>;
    }
  };

  // Starts the copies of a slice of the tokens; zeros where columns end.
  static ECMV_GPU_DEVICE void copy_tokens(const Bf16Tokens& tokens, int first_col, int slice_cols, int token_bytes,
                                          Pointer<std::byte> to) {
    constexpr int kEach = kLaneBytes / 2;
    const int chunks = slice_cols / kEach;
    for (int i = thread_index(); i < tokens.batch * chunks; i += kThreads) {
      const int token = i / chunks, col = i % chunks * kEach;
      const Pointer<std::byte> place = to + (token * token_bytes + 2 * col);
      if (first_col + col < tokens.x_stride)
        copy_async<kLaneBytes>(place, cast<const std::byte>(tokens.x + (token * tokens.x_stride + first_col + col)));
      else
        *cast<uint4>(place) = uint4{};
    }
  }

  // `tokens`: this lane's columns in the slice; `offsets`: from there to its token of each tile.
  static ECMV_GPU_DEVICE void multiply(const Elements& elements, Pointer<const std::byte> stage,
                                       Pointer<const std::byte> tokens, const int (&offsets)[kTokenTiles],
                                       float (&sums)[kRowTiles][kTokenTiles][4]) {
    uint4 rows[2 * kRowTiles][kLoads];
    ECMV_GPU_UNROLL
    for (int i = 0; i < kCopies; ++i) rows[i / kLoads][i % kLoads] = *cast<const uint4>(stage + i * kPlaceBytes);
    ECMV_GPU_UNROLL
    for (int strip = 0; strip < Elements::kStrips; ++strip) {
      uint4 chunks[2 * kRowTiles];
      ECMV_GPU_UNROLL
      for (int i = 0; i < 2 * kRowTiles; ++i) chunks[i] = elements.chunk(rows[i], strip);
      ECMV_GPU_UNROLL
      for (int eighth = 0; eighth < Elements::kCols / 8; ++eighth) {
        uint4 a[kRowTiles][2];
        ECMV_GPU_UNROLL
        for (int r = 0; r < kRowTiles; ++r) elements.operands(chunks[2 * r], chunks[2 * r + 1], eighth, a[r]);
        ECMV_GPU_UNROLL
        for (int tile = 0; tile < kTokenTiles; ++tile) {
          const uint4 x =
              *cast<const uint4>(tokens + (offsets[tile] + strip * (8 * Elements::kCols) + eighth * kLaneBytes));
          ECMV_GPU_UNROLL
          for (int r = 0; r < kRowTiles; ++r) {
            multiply_tokens(a[r][0], uint2{x.x, x.y}, sums[r][tile]);
            multiply_tokens(a[r][1], uint2{x.z, x.w}, sums[r][tile]);
          }
        }
      }
    }
  }
};

template <typename Elements, int kGroups, int kRowTiles, int kTokenTiles, int kAhead, int kResident>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kGroups* kTokenLanes, kResident) void token_matmul(Elements elements,
                                                                                   Pointer<const std::byte> w,
                                                                                   int64_t row_bytes, int cols,
                                                                                   Bf16Tokens tokens, TokenPlan plan) {
  using Form = TokenForm<Elements, kGroups, kRowTiles, kTokenTiles, kAhead>;
  using LaneGroup = typename Form::LaneGroup;
  constexpr int kCols = kStepCols<Elements>;
  const int lane = LaneGroup::lane(), group = LaneGroup::uniform(LaneGroup::group()), tile = group % plan.tiles,
            part = group / plan.tiles, g = lane / 4, t = lane % 4;
  const int64_t first_row = (block_index() * plan.tiles + tile) * Form::kRows;
  const bool works = part < plan.parts;
  let_next_begin();

  typename Form::Rows rows;
  const int64_t last = tokens.rows - 1;
  ECMV_GPU_UNROLL
  for (int i = 0; i < 2 * kRowTiles; ++i) {
    const int64_t row = first_row + g + 8 * i;
    rows.next[i] = w + ((row < last ? row : last) * row_bytes + (part * Elements::kLoads * 4 + t) * kLaneBytes);
  }
  rows.cols_left = cols - part * kCols - t * Elements::kCols;

  const int slice_cols = plan.slice_steps * plan.parts * kCols, slices = (cols + slice_cols - 1) / slice_cols,
            slice_bytes = tokens.batch * plan.token_bytes;
  const Pointer<std::byte> ring =
      shared_memory() + (plan.rings + group * (kAhead * Form::kStageBytes) + lane * kLaneBytes);

  if (works) rows.copy(ring, plan.parts);
  wait_for_previous();
  Form::copy_tokens(tokens, 0, slice_cols, plan.token_bytes, shared_memory());
  commit_copies();
  ECMV_GPU_UNROLL
  for (int i = 1; i < kAhead; ++i) {
    if (works) rows.copy(ring + i * Form::kStageBytes, plan.parts);
    commit_copies();
  }
  // Lanes of tokens that do not exist multiply the last one again, for results that nobody stores.
  int offsets[kTokenTiles];
  ECMV_GPU_UNROLL
  for (int tile_of_tokens = 0; tile_of_tokens < kTokenTiles; ++tile_of_tokens) {
    const int token = 8 * tile_of_tokens + g;
    offsets[tile_of_tokens] = (token < tokens.batch ? token : tokens.batch - 1) * plan.token_bytes;
  }
  float sums[kRowTiles][kTokenTiles][4] = {};
  const int own_bytes = (part * kCols + t * Elements::kCols) * 2;
  int stage = 0;
  for (int slice = 0; slice < slices; ++slice) {
    // The tokens of this slice were committed before as many groups as the slice before had steps.
    if (slice == 0 || plan.slice_steps >= kAhead - 1)
      wait_copies<kAhead - 1>();
    else
      wait_copies<1>();
    sync_block();
    if (slice + 1 < slices) {
      Form::copy_tokens(tokens, (slice + 1) * slice_cols, slice_cols, plan.token_bytes,
                        shared_memory() + (slice + 1) % 2 * slice_bytes);
      commit_copies();
    }
    Pointer<const std::byte> own_tokens = shared_memory() + (slice % 2 * slice_bytes + own_bytes);
    ECMV_GPU_NO_UNROLL
    for (int i = 0; i < plan.slice_steps; ++i) {
      wait_copies<kAhead - 1>();
      if (works) {
        Form::multiply(elements, ring + stage, own_tokens, offsets, sums);
        rows.copy(ring + stage, plan.parts);
      }
      commit_copies();
      own_tokens = own_tokens + plan.parts * kCols * 2;
      stage = stage == (kAhead - 1) * Form::kStageBytes ? 0 : stage + Form::kStageBytes;
    }
  }
  wait_copies<0>();
  sync_block();

  // [parts, batch, rows of the block]: added up, then stored row by row.
  const int block_rows = plan.tiles * Form::kRows, block_sums = tokens.batch * block_rows;
  const Pointer<float> all = cast<float>(shared_memory());
  ECMV_GPU_UNROLL
  for (int r = 0; r < kRowTiles; ++r) {
    ECMV_GPU_UNROLL
    for (int k = 0; k < kTokenTiles; ++k) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * k + 2 * t + i % 2;
        if (works && token < tokens.batch)
          all[part * block_sums + token * block_rows + tile * Form::kRows + r * kTileRows + g + i / 2 * 8] =
              sums[r][k][i];
      }
    }
  }
  sync_block();
  for (int i = thread_index(); i < block_sums; i += Form::kThreads) {
    float sum = all[i];
    for (int p = 1; p < plan.parts; ++p) sum += all[p * block_sums + i];
    all[i] = sum;
  }
  sync_block();
  const int64_t block_first = block_index() * block_rows;
  elements.finish(all, block_rows, block_first, cols, tokens);
  sync_block();
  for (int i = thread_index(); i < block_sums; i += Form::kThreads)
    if (const int64_t to = block_first + i % block_rows; to < tokens.rows)
      tokens.y[i / block_rows * tokens.rows + to] = all[i];
}

// A kernel's form: lane groups of a block, tiles of 16 rows that each has, steps that are under way, blocks that fit on a
// multiprocessor.
struct TokenPolicy : Policy {
  int groups, row_tiles, ahead, resident;
  int rows() const { return kTileRows * row_tiles; }
};

struct SizedPlan {
  TokenPlan plan;
  int64_t bytes;  // of shared memory; 0 where the batch does not fit
};

// Slices as long as fit, for where one ends all lane groups wait for each other, but a quarter of the columns at most, for
// nothing is multiplied before the first one is there (H200, 16384 columns, one token: 88 us a layer in one slice, 73 with
// four tokens in two).
template <typename Elements>
SizedPlan token_plan(const TokenPolicy& policy, datasets::Shape shape, int batch, int compute_units,
                     int64_t shared_bytes) {
  constexpr int64_t kSystemBytes = 1024;  // that every block needs besides its own
  const int64_t most = (shared_bytes + kSystemBytes) / policy.resident - kSystemBytes;
  const int64_t row_tiles = (shape.rows + policy.rows() - 1) / policy.rows(),
                blocks = std::max<int64_t>(1, int64_t{compute_units} * policy.resident),
                rings = int64_t{policy.groups} * policy.ahead * 2 * policy.row_tiles * Elements::kLoads * kTokenLanes *
                        kLaneBytes;
  TokenPlan plan{};
  plan.tiles = static_cast<int>(std::clamp<int64_t>((row_tiles + blocks - 1) / blocks, 1, policy.groups));
  plan.parts = policy.groups / plan.tiles;
  const int64_t sums = int64_t{plan.parts} * batch * plan.tiles * policy.rows() * 4;
  const int64_t steps = (shape.cols + kStepCols<Elements> - 1) / kStepCols<Elements>;
  for (int slices = 4;; ++slices) {
    plan.slice_steps = static_cast<int>((steps + int64_t{plan.parts} * slices - 1) / (int64_t{plan.parts} * slices));
    plan.token_bytes = plan.slice_steps * plan.parts * kStepCols<Elements> * 2 + kTokenPadding<Elements>;
    plan.rings = 2 * batch * plan.token_bytes;
    const int64_t bytes = std::max(plan.rings + rings, sums);
    if (bytes <= most) return {plan, bytes};
    if (plan.slice_steps <= 1) return {};
  }
}

// Rows of the elements, as stored.
struct TokenRows {
  const std::byte* first;
  int64_t row_bytes;
  datasets::Shape shape;
};

// A bound product. A batch that does not fit is multiplied in halves.
template <typename Elements, int kGroups, int kRowTiles, int kAhead, int kResident>
struct TokenProduct {
  Elements elements;
  TokenRows rows;
  int compute_units;
  int64_t shared_bytes;
  bool early;

  static constexpr TokenPolicy kForm{{}, kGroups, kRowTiles, kAhead, kResident};

  void operator()(void* stream, const MatmulArgs& args) const {
    int most = args.batch;
    while (token_plan<Elements>(kForm, rows.shape, most, compute_units, shared_bytes).bytes == 0) most = (most + 1) / 2;
    for (int first = 0; first < args.batch; first += most) {
      Bf16Tokens tokens = bf16_tokens_of(args);
      tokens.batch = std::min(most, args.batch - first);
      tokens.x = args.x_bf16 + first * args.x_stride;
      tokens.y = args.y + first * args.y_stride;
      if (tokens.batch <= 8)
        start<1>(stream, tokens);
      else if (tokens.batch <= 16)
        start<2>(stream, tokens);
      else
        start<8>(stream, tokens);
    }
  }

 private:
  template <int kTokenTiles>
  void start(void* stream, const Bf16Tokens& tokens) const {
    const SizedPlan sized = token_plan<Elements>(kForm, rows.shape, tokens.batch, compute_units, shared_bytes);
    const int64_t block_rows = int64_t{sized.plan.tiles} * kForm.rows();
    launch(token_matmul<Elements, kGroups, kRowTiles, kTokenTiles, kAhead, kResident>,
           {(rows.shape.rows + block_rows - 1) / block_rows, kGroups * kTokenLanes, sized.bytes, early}, stream,
           elements, rows.first, rows.row_bytes, static_cast<int>(rows.shape.cols), tokens, sized.plan);
  }
};

// "" for rows that are whole steps of four lanes on a device with the shared memory for one token.
template <typename Elements>
std::string why_no_token_product(const TokenPolicy& policy, datasets::Shape shape, const DeviceInfo& device) {
  constexpr int kWhole = Elements::kStrips == 1 ? Elements::kCols : kStepCols<Elements>;
  if (shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (shape.cols % kWhole != 0) return "The kernel takes columns in multiples of " + std::to_string(kWhole) + ".";
  if (shape.cols >= int64_t{1} << 28) return "The kernel counts columns in 32 bits: fewer than 2^28 of them.";
  if (token_plan<Elements>(policy, shape, 1, device.compute_units, device.shared_bytes).bytes == 0)
    return "The steps that are under way and a slice of a token do not fit the " + std::to_string(device.shared_bytes) +
           " bytes of shared memory that a block has here.";
  return "";
}

// The policies of a kernel for some elements; `with_form` of one of them is its product.
// Lane groups, tiles of 16 rows of each, steps under way, blocks of a multiprocessor.
inline constexpr TokenPolicy kTokenPolicies[] = {
    {{"groups16_ahead4"}, 16, 1, 4, 1},
    {{"groups8_ahead6_fit2"}, 8, 1, 6, 2},
    {{"groups16_rows32_ahead3"}, 16, 2, 3, 1},
    {{"groups4_ahead3_fit4"}, 4, 1, 3, 4},
};
// For elements of several loads a step.
inline constexpr TokenPolicy kWideTokenPolicies[] = {
    {{"groups16_ahead2"}, 16, 1, 2, 1},
    {{"groups8_ahead3"}, 8, 1, 3, 1},
    {{"groups4_ahead2"}, 4, 1, 2, 1},
};

template <const auto& kForms, typename Elements>
BoundKernel bind_token_product(const Policy& policy, const Elements& elements, const TokenRows& rows,
                               const DeviceInfo& device, const ProductRounding& more = {}) {
  return with_policy<kForms>(policy, [&](auto at) -> BoundKernel {
    constexpr const TokenPolicy& kForm = kForms[decltype(at)::value];
    ProductRounding rounding = token_rounding(rows.shape.cols, kForm.groups);
    rounding.more_roundings += more.more_roundings;
    rounding.offset = more.offset;
    return {TokenProduct<Elements, kForm.groups, kForm.row_tiles, kForm.ahead, kForm.resident>{
                elements, rows, device.compute_units, device.shared_bytes, have_early_launches(device)},
            {.rounding = rounding}};
  });
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
