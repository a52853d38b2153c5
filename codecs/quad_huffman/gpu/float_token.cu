// Products of bf16 and f8 elements with tokens of float32, one after the other.
#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/takes.h"
#include "codecs/quad_huffman/gpu/tile/floats.h"
#include "codecs/quad_huffman/gpu/tokens/rounding.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

// Brings one token's x to shared memory, with zeros past the last column, where there are codes as well.
ECMV_GPU_DEVICE void load_token(gpu::Pointer<const float> x, int cols, int stored_cols, gpu::Pointer<float> to) {
  // Tokens have zeros past their last column, but not as many as there are columns of a segment.
  for (int col = gpu::thread_index() * 4; col < stored_cols; col += gpu::block_size() * 4)
    *gpu::cast<gpu::uint4>(to + col) = col < cols ? *gpu::cast<const gpu::uint4>(x + col) : gpu::uint4{};
}

// Multiplies this lane's row of the tile with x; changes by patches go to the sums of their rows.
template <typename TileOf>
ECMV_GPU_DEVICE float multiply_floats(TileOf& tile, const Table& table, uint32_t lowest, uint32_t unit, int power,
                                      gpu::Pointer<const float> inputs, gpu::Pointer<float> sums) {
  constexpr float kFactor = TileOf::kF8 && !TileOf::kEights ? 0x1p120f : 1.0f;
  tile.for_each_patch([&](const PatchWord& patch, uint32_t sign) {
    const float input = inputs[tile.first_col() + patch.col];
    const PatchNumbers numbers = patch_numbers<TileOf>(patch, sign, power);
    gpu::atomic_add(sums + patch.row, gpu::float_of(numbers.gains << 16) * kFactor * input +
                                          gpu::float_of(numbers.loses << 16) * kFactor * input);
  });
  const gpu::Pointer<const gpu::uint4> own_inputs = gpu::cast<const gpu::uint4>(inputs + tile.first_col());
  float products[2] = {};
  tile.decode(table, [&](int segment, int quad, uint32_t exponents, uint32_t signs) {
    const gpu::uint4 input = own_inputs[segment * (TileOf::kSegmentCols / 4) + quad];
    const FourFloats four = numbers_of<TileOf>(quad, exponents, signs, lowest, unit);
    products[0] += gpu::float_of(four.first << 16) * gpu::float_of(input.x);
    products[1] += gpu::float_of(four.first & 0xFFFF0000u) * gpu::float_of(input.y);
    products[0] += gpu::float_of(four.second << 16) * gpu::float_of(input.z);
    products[1] += gpu::float_of(four.second & 0xFFFF0000u) * gpu::float_of(input.w);
  });
  return products[0] + products[1];
}

// Multiplies one token of float32. Lane groups share rows as in the products of int8; each has sums of its own, which
// are added in order at the end.
template <int kSymbolCols, int kForm, int kSymbolsOfWindow, int kMostThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void multiply_token(Matrix matrix, BlockPlan plan, Hidden hidden,
                                                                     gpu::TokenView tokens, int token) {
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow>;
  const int lane_group = LaneGroup::uniform(LaneGroup::group()), part = lane_group / plan.lane_groups_of_rows,
            parts = plan.lane_groups / plan.lane_groups_of_rows;
  const int64_t group = gpu::block_index() * parts + part;
  const gpu::Pointer<float> sums = gpu::cast<float>(gpu::shared_memory() + plan.sums),
                            inputs = gpu::cast<float>(gpu::shared_memory() + plan.inputs);
  const gpu::Pointer<float> own_sums = sums + lane_group * kLanes;

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  int column = group < matrix.row_groups ? lane_group % plan.lane_groups_of_rows : matrix.column_tiles;
  gpu::let_next_begin();
  const auto own_entries = load_own_entries(matrix);
  if (column < matrix.column_tiles) tile.begin(matrix.streams, group, column, matrix.column_tiles, matrix.cols);
  fill_table(matrix, plan, own_entries);
  own_sums[LaneGroup::lane()] = 0;
  gpu::sync_block();
  gpu::wait_for_previous();
  const int stored_cols = matrix.streams.row_segments * TileOf::kSegmentCols;
  load_token(tokens.x + token * tokens.x_stride, matrix.cols, stored_cols, inputs);
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  const uint32_t lowest = lowest_of_halves<TileOf>(matrix);
  float product = 0;
  while (column < matrix.column_tiles) {
    product +=
        multiply_floats<TileOf>(tile, table, lowest, exponent_unit<TileOf>(hidden), matrix.power, inputs, own_sums);
    column += plan.lane_groups_of_rows;
    if (column < matrix.column_tiles) tile.begin(matrix.streams, group, column, matrix.column_tiles, matrix.cols);
  }
  LaneGroup::sync();
  own_sums[LaneGroup::lane()] += product;
  gpu::sync_block();
  for (int i = gpu::thread_index(); i < parts * kLanes; i += gpu::block_size()) {
    const int64_t row = gpu::block_index() * parts * kLanes + i;
    if (row >= matrix.rows) continue;
    float sum = 0;
    for (int w = 0; w < plan.lane_groups_of_rows; ++w)
      sum += sums[(i / kLanes * plan.lane_groups_of_rows + w) * kLanes + i % kLanes];
    if constexpr (TileOf::kEights) sum = scaled(sum, power_of_numbers<TileOf>(matrix));
    tokens.store(row, token, sum);
  }
}

// 16 lane groups run at 1.18x to 1.33x the speed at 4096, where all row groups then have a multiprocessor each, and 32
// at 1.07x to 1.28x at 16384 (2026-11-22-h200/containers).
constexpr RingPolicy kPolicies[] = {
    {{"groups32"}, 32, 32, 1},
    {{"groups16"}, 16, 32, 1},
#ifdef ECMV_SEARCH
    {{"groups8_fit2"}, 8, 32, 2},  // symbols of four at 18944 x 3584: 1.05x the speed, slower elsewhere
#endif
};

BlockPlan plan_float(const RingPolicy& policy, const Header& code, datasets::Shape shape,
                     const backends::DeviceInfo& device) {
  return plan_of(policy, code, shape, InputType::float32, device.shared_bytes);
}

std::string_view choose(const backends::CompressedView& view, const backends::DeviceInfo& device, int) {
  const BlockPlan plan = plan_float(kPolicies[1], header_of(view), view.shape, device);
  const int parts = plan.lane_groups == 0 ? 1 : plan.lane_groups / plan.lane_groups_of_rows;
  return kPolicies[(row_groups(view.shape.rows) + parts - 1) / parts <= device.compute_units ? 1 : 0].name;
}

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device,
                    const backends::Policy& named) {
  if (std::string reason = refuses_matrix(view, Layout::rows, Elements::floats); !reason.empty()) return reason;
  if (plan_float(named.as<RingPolicy>(), header_of(view), view.shape, device).lane_groups == 0)
    return kRefusesSharedMemory;
  return refuses_patches(view);
}

using Kernel = void (*)(Matrix, BlockPlan, Hidden, gpu::TokenView, int);

struct MultiplyFloats {
  Matrix matrix;
  BlockPlan plan;
  gpu::LaunchShape launch_shape;
  Kernel kernel;
  int batch;
  void operator()(void* stream, const backends::MatmulArgs& args) const {
    for (int token = 0; token < batch; ++token)
      gpu::launch(kernel, launch_shape, stream, matrix, plan, hidden_of(plan), gpu::tokens_of(args, batch), token);
  }
};

template <int kMostThreads>
Kernel kernel_of(const Header& code) {
  return for_float_code(code, [](auto symbol_cols, auto form, auto symbols) -> Kernel {
    // f8 has only the instance for the most lane groups: its raw words are half of bf16's and fit the fewer registers.
    constexpr int kThreads = is_f8(decltype(form)::value) ? 32 * kLanes : kMostThreads;
    return multiply_token<decltype(symbol_cols)::value, decltype(form)::value, decltype(symbols)::value, kThreads>;
  });
}

backends::BoundKernel bind(const backends::Policy& named, Layers layers, int batch, backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Header code = header_of(view);
  const Matrix matrix = matrix_of(view, code);
  const BlockPlan plan = plan_float(named.as<RingPolicy>(), code, view.shape, place.device());
  const Kernel kernel = plan.lane_groups <= 16 ? kernel_of<16 * kLanes>(code) : kernel_of<32 * kLanes>(code);
  return {MultiplyFloats{matrix, plan, launch_shape_of(matrix, plan, place.device()), kernel, batch},
          {.rounding = rounding_of_floats(view, {}, view.shape.cols)}};
}

}  // namespace

backends::Kernel float_token() {
  return {.op = backends::Op::matmul,
          .variant = "rings",
          .policies = kPolicies,
          .refuses = refuses,
          .bind = bind,
          .choose = choose};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
