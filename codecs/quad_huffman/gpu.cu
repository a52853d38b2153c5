// GPU kernels of quad_huffman. A lane group of 32 decodes a tile, a lane a row of it. The codes of a tile come through
// a ring of lines in shared memory, filled by asynchronous copies as the tile's schedule says, so that the decoder
// keeps nothing but a bit position; a window of 32 bits of the ring serves 2 or 3 symbols, and three words of it are
// two windows. All words of a lane lie in its own bank, and the table has up to 32 copies, lane l reading copy l, so
// that lanes never wait for each other. Raw bits go straight to registers, a segment ahead. x is in shared memory as a
// whole. Patches are added to the sums there before the codes are multiplied. The lane groups of a block share rows:
// each has some of their column tiles.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "backends/gpu/products/requantise.h"
#include "codecs/quad_huffman/chain_binding_gpu.h"
#include "codecs/quad_huffman/decode_gpu.h"
#include "codecs/quad_huffman/floats_gpu.h"
#include "codecs/quad_huffman/format.h"
#include "codecs/quad_huffman/fragments_binding_gpu.h"
#include "codecs/quad_huffman/plain_gpu.h"
#include "codecs/quad_huffman/plan_gpu.h"
#include "codecs/quad_huffman/strips_gpu.h"
#include "codecs/quad_huffman/token_binding_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

template <int kSymbolCols, int kForm, int kSymbolsOfWindow, int kMostThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void matvec(Matrix matrix, Plan plan, Hidden hidden,
                                                             gpu::Pointer<const int8_t> x, gpu::Epilogue epilogue) {
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow, kEarlyForm<kForm>>;
  const int lane_group = LaneGroup::uniform(LaneGroup::group()), part = lane_group / plan.lane_groups_of_rows,
            parts = plan.lane_groups / plan.lane_groups_of_rows;
  const int64_t group = gpu::block_index() * parts + part;
  const gpu::Pointer<int32_t> sums = gpu::cast<int32_t>(gpu::shared_memory() + plan.sums),
                              x_sum = sums + parts * kLanes;
  const gpu::Pointer<std::byte> inputs = gpu::shared_memory() + plan.inputs;

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  int column = group < matrix.row_groups ? lane_group % plan.lane_groups_of_rows : matrix.column_tiles;
  gpu::let_next_begin();
  const auto own_entries = load_own_entries<4>(matrix);
  // The second segment's codes are asked for, too: a block that begins a layer ahead then waits for the vector. (H200, 8192 x 8192, two blocks a
  // multiprocessor: 1.7 % less time. Strips, whose blocks do not begin ahead, took 1.2 % more.)
  if (column < matrix.column_tiles)
    tile.template begin<false, true>(matrix.streams, group, column, matrix.column_tiles, matrix.cols);
  fill_table(matrix, plan, own_entries);
  ECMV_GPU_NO_UNROLL
  for (int i = gpu::thread_index(); i <= parts * kLanes; i += gpu::block_size()) sums[i] = 0;
  gpu::sync_block();
  gpu::wait_for_previous();
  gpu::load_inputs(x, matrix.cols, matrix.streams.row_segments * TileOf::kSegmentCols, inputs, x_sum);
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  while (column < matrix.column_tiles) {
    multiply_tile<true>(tile, table, inputs, sums + part * kLanes);
    column += plan.lane_groups_of_rows;
    if (column < matrix.column_tiles)
      tile.template begin<false, true>(matrix.streams, group, column, matrix.column_tiles, matrix.cols);
  }
  gpu::sync_block();
  ECMV_GPU_NO_UNROLL
  for (int i = gpu::thread_index(); i < parts * kLanes; i += gpu::block_size()) {
    const int64_t row = gpu::block_index() * parts * kLanes + i;
    if (row < matrix.rows) epilogue.store(row, sums[i] + matrix.lowest * *x_sum);
  }
}

// A name has waves a block, and blocks that fit on a multiprocessor where several.
constexpr RingPolicy kMatvecPolicies[] = {
    {{"waves32"}, 32, 32, 1, true},
    {{"waves16_fit2"}, 16, 8, 2, true},
    {{"waves32_in_order"}, 32, 32, 1, false},
    {{"waves16"}, 16, 32, 1, true},
};
constexpr RingPolicy kMatmulPolicies[] = {{{"waves16"}, 16, 32, 1, true},
                                          {{"waves32"}, 32, 32, 1, true},
                                          {{"waves8_fit2"}, 8, 32, 2, true},
                                          {{"waves16_in_order"}, 16, 32, 1, false}};
constexpr RingPolicy kDecodePolicies[] = {
    {{"waves16"}, 16, 32, 1, false},
    {{"waves8_fit2"}, 8, 16, 2, false},
    {{"waves24"}, 24, 16, 1, false},
};

// --- products of int8 -----------------------------------------------------------------------------------------------

using MatvecKernel = void (*)(Matrix, Plan, Hidden, gpu::Pointer<const int8_t>, gpu::Epilogue);

struct Multiply {
  Matrix matrix;
  Plan plan;
  gpu::LaunchShape launch_shape;
  MatvecKernel kernel;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch(kernel, launch_shape, stream, matrix, plan, hidden_of(plan), args.x, gpu::epilogue_of(args));
  }
};

template <int kMostThreads>
MatvecKernel matvec_kernel(const Code& code) {
  return for_code(code, [](auto symbol_cols, auto form, auto symbols) -> MatvecKernel {
    return matvec<decltype(symbol_cols)::value, decltype(form)::value, decltype(symbols)::value, kMostThreads>;
  });
}

// Blocks of plan.lane_groups_of_rows lane groups for each row group.
gpu::LaunchShape launch_shape_of(const Matrix& matrix, const Plan& plan, const RingPolicy& policy,
                                 const backends::DeviceInfo& device) {
  const int64_t rows_of_block = int64_t{plan.lane_groups} / plan.lane_groups_of_rows * kLanes;
  return {(matrix.rows + rows_of_block - 1) / rows_of_block, plan.lane_groups * kLanes, plan.bytes,
          policy.early && gpu::have_early_launches(device)};
}

backends::BoundKernel bind_matvec(const backends::Policy& named, Layers layers, int, backends::Place& place) {
  const auto& policy = named.as<RingPolicy>();
  const Code code = code_of(*layers[0].matrix);
  const Matrix matrix = matrix_of(*layers[0].matrix, code);
  const Plan plan = plan_of(policy, code, layers[0].matrix->shape, InputType::int8, place.device().shared_bytes);
  // At most 16 lane groups on a multiprocessor have twice the registers.
  const MatvecKernel kernel =
      policy.lane_groups * policy.blocks <= 16 ? matvec_kernel<512>(code) : matvec_kernel<1024>(code);
  return {Multiply{matrix, plan, launch_shape_of(matrix, plan, policy, place.device()), kernel}, {.requantises = true}};
}

// Of strips.
struct MultiplyStrips {
  Matrix matrix;
  StripsPlan plan;
  gpu::LaunchShape launch_shape;
  StripsKernel kernel;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch(kernel, launch_shape, stream, matrix, plan, hidden_of(plan.block), args.x, gpu::epilogue_of(args));
  }
};

backends::BoundKernel bind_strips(const backends::Policy& named, Layers layers, int, backends::Place& place) {
  const auto& policy = named.as<RingPolicy>();
  const backends::CompressedView& view = *layers[0].matrix;
  const Code code = code_of(view);
  const Matrix matrix = matrix_of(view, code);
  const StripsPlan plan = plan_strips(policy, code, view.shape, place.device().shared_bytes);
  return {MultiplyStrips{matrix,
                         plan,
                         {(matrix.column_tiles + plan.parts - 1) / plan.parts, plan.block.lane_groups * kLanes,
                          plan.block.bytes, policy.early && gpu::have_early_launches(place.device())},
                         strips_kernel(code, plan.block.copies)},
          {.requantises = true}};
}

// --- products of floats ---------------------------------------------------------------------------------------------

using MatmulKernel = void (*)(Matrix, Plan, Hidden, gpu::TokenView, int);

// Token by token: the kernel is for one.
struct MultiplyFloats {
  Matrix matrix;
  Plan plan;
  gpu::LaunchShape launch_shape;
  MatmulKernel kernel;
  int batch;
  void operator()(void* stream, const backends::MatmulArgs& args) const {
    for (int token = 0; token < batch; ++token)
      gpu::launch(kernel, launch_shape, stream, matrix, plan, hidden_of(plan), gpu::tokens_of(args, batch), token);
  }
};

template <int kMostThreads>
MatmulKernel matmul_kernel(const Code& code) {
  return for_float_code(code, [](auto symbol_cols, auto form, auto symbols) -> MatmulKernel {
    constexpr int kThreads = most_threads(decltype(form)::value, kMostThreads);
    return matmul<decltype(symbol_cols)::value, decltype(form)::value, decltype(symbols)::value, kThreads>;
  });
}

backends::BoundKernel bind_matmul(const backends::Policy& named, Layers layers, int batch, backends::Place& place) {
  const auto& policy = named.as<RingPolicy>();
  const backends::CompressedView& view = *layers[0].matrix;
  const Code code = code_of(view);
  const Matrix matrix = matrix_of(view, code);
  const Plan plan = plan_of(policy, code, view.shape, InputType::float32, place.device().shared_bytes);
  const MatmulKernel kernel = plan.lane_groups <= 16 ? matmul_kernel<512>(code) : matmul_kernel<1024>(code);
  return {MultiplyFloats{matrix, plan, launch_shape_of(matrix, plan, policy, place.device()), kernel, batch},
          {.rounding = rounding_of_eights(view, rounding_of_patches(view, {}, view.shape.cols))}};
}

// --- decoding -------------------------------------------------------------------------------------------------------

using DecodeKernel = void (*)(Matrix, Plan, Hidden, gpu::Pointer<std::byte>);

struct Decode {
  Matrix matrix;
  Plan plan;
  gpu::LaunchShape launch_shape;
  DecodeKernel kernel;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    gpu::launch(kernel, launch_shape, stream, matrix, plan, hidden_of(plan), args.out);
  }
};

DecodeKernel decode_kernel(const Code& code) {
  constexpr int kMostThreads = 24 * kLanes;
  const auto kernel = [](auto symbol_cols, auto form, auto symbols) -> DecodeKernel {
    return decode<decltype(symbol_cols)::value, decltype(form)::value, decltype(symbols)::value, kMostThreads>;
  };
  return is_float(code.form) ? for_float_code(code, kernel) : for_code(code, kernel);
}

Plan plan_decode(const RingPolicy& policy, const Code& code, datasets::Shape matrix, int64_t shared_bytes) {
  return plan_of(policy, code, matrix, InputType::none, shared_bytes, kStoredPieceBytes);
}

backends::BoundKernel bind_decode(const backends::Policy& named, Layers layers, int, backends::Place& place) {
  const auto& policy = named.as<RingPolicy>();
  const backends::CompressedView& view = *layers[0].matrix;
  const Code code = code_of(view);
  const Matrix matrix = matrix_of(view, code);
  const Plan plan = plan_decode(policy, code, view.shape, place.device().shared_bytes);
  const int64_t blocks = (matrix.row_groups * matrix.column_tiles + plan.lane_groups - 1) / plan.lane_groups;
  const gpu::LaunchShape launch_shape{std::min<int64_t>(blocks, int64_t{place.device().compute_units} * policy.blocks),
                                      plan.lane_groups * kLanes, plan.bytes};
  return Decode{matrix, plan, launch_shape, decode_kernel(code)};
}

// --- the table ------------------------------------------------------------------------------------------------------

template <InputType kInputs>
std::string refuses(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                    const backends::Policy& policy) {
  if (is_plain(matrix)) return kRefusesPlain;
  if (is_fragments(matrix) || is_strips(matrix)) return kRefusesFragments;
  if (kInputs == InputType::int8 && has_floats(matrix)) return "The kernel multiplies int8 elements.";
  constexpr bool kFloats = kInputs == InputType::float32;
  if (kFloats && !has_floats(matrix)) return "The kernel multiplies bf16 and f8 elements.";
  if (matrix.shape.cols > (int64_t{1} << 19))
    return "The kernel's sums are larger than the product's until they are corrected, and need int32: at most 2^19 "
           "columns.";
  const Code code = code_of(matrix);
  const auto& rings = policy.as<RingPolicy>();
  if ((kInputs == InputType::none ? plan_decode(rings, code, matrix.shape, device.shared_bytes)
                                  : plan_of(rings, code, matrix.shape, kInputs, device.shared_bytes))
          .lane_groups == 0)
    return "The table, the rings of two waves and the vector do not fit the shared memory of a thread block.";
  return kFloats ? refuses_patches(matrix) : "";
}

std::string refuses_strips(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  if (is_plain(matrix)) return kRefusesPlain;
  if (!is_strips(matrix)) return "The kernel takes strips.";
  const Code code = code_of(matrix);
  if (matrix.shape.cols > (int64_t{1} << 19)) return "The kernel's sums need int32: at most 2^19 columns.";
  if (plan_strips(policy.as<RingPolicy>(), code, matrix.shape, device.shared_bytes).block.lane_groups == 0)
    return "The table, the rings of two waves and the vector do not fit the shared memory of a thread block.";
  return "";
}

std::string refuses_chain(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                          const backends::Policy& named) {
  const auto& policy = named.as<ChainPolicy>();
  if (matrix.shape.elements() == 0) return "The kernel takes layers of at least one row and one column.";
  if (is_plain(matrix)) return kRefusesPlain;
  if (is_fragments(matrix) || is_strips(matrix)) return kRefusesFragments;
  if (policy.ahead)
    if (std::string refused = refuses_ahead(code_of(matrix), device); !refused.empty()) return refused;
  return refuses<InputType::int8>(matrix, device, policy);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode,
     .variant = "rings",
     .policies = kDecodePolicies,
     .refuses = refuses<InputType::none>,
     .bind = bind_decode},
    {.op = backends::Op::matvec,
     .variant = "rings",
     .policies = kMatvecPolicies,
     .refuses = refuses<InputType::int8>,
     .bind = bind_matvec},
    {.op = backends::Op::matvec,
     .variant = "strips",
     .policies = kMatvecPolicies,
     .refuses = refuses_strips,
     .bind = bind_strips},
    {.op = backends::Op::matvec,
     .variant = "chain",
     .policies = kChainPolicies,
     .whole_chain = true,
     .refuses = refuses_chain,
     .bind = bind_chain},
    {.op = backends::Op::matmul,
     .variant = "rings",
     .policies = kMatmulPolicies,
     .refuses = refuses<InputType::float32>,
     .bind = bind_matmul},
    {.op = backends::Op::matmul,
     .variant = "rings",
     .policies = kRingTokensPolicies,
     .activations = backends::Activations::bf16,
     .refuses = refuses_ring_tokens,
     .bind = bind_ring_tokens},
    {.op = backends::Op::matmul,
     .variant = "one_token",
     .policies = kOnePolicies,
     .activations = backends::Activations::bf16,
     .refuses = refuses_one,
     .bind = bind_one},
    {.op = backends::Op::matmul,
     .variant = "few_tokens",
     .policies = kFewPolicies,
     .activations = backends::Activations::bf16,
     .refuses = refuses_few,
     .bind = bind_few},
    {.op = backends::Op::matmul,
     .variant = "fragments",
     .policies = kFragmentPolicies,
     .activations = backends::Activations::bf16,
     .refuses = refuses_fragments,
     .bind = bind_fragments},
    {.op = backends::Op::matmul,
     .variant = "fragments",
     .policies = kTogetherPolicies,
     .activations = backends::Activations::bf16,
     .refuses = refuses_together,
     .bind = bind_together},
    {.op = backends::Op::matmul,
     .variant = "tokens",
     .policies = kTokenPolicies,
     .activations = backends::Activations::bf16,
     .refuses = refuses_tokens,
     .bind = bind_tokens},
    {.op = backends::Op::matmul,
     .variant = "scaled_tokens",
     .policies = kScaledTokenPolicies,
     .activations = backends::Activations::bf16,
     .group_cols = gpu::kScaleCols,
     .refuses = refuses_tokens,
     .bind = bind_tokens},
    {.op = backends::Op::decode,
     .variant = "plain",
     .refuses = refuses_plain<backends::Op::decode>,
     .bind = bind_plain_decode},
    {.op = backends::Op::matvec,
     .variant = "plain",
     .refuses = refuses_plain<backends::Op::matvec>,
     .bind = bind_plain_matvec},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
