// The fast path: int8 elements times one vector of int8. A lane group of 32 decodes a tile, each lane a row.
//
// Codes pass a ring of lines in shared memory. Asynchronous copies fill it as the tile's schedule says, so the decoder
// keeps nothing but a bit position. A window of 32 bits serves 2 or 3 symbols, and three words of the ring make two
// windows. All words of a lane lie in its own bank, and the table has up to 32 copies, lane l reading copy l, so lanes
// never wait for each other. Raw bits go straight to registers, a segment ahead. All of x is in shared memory. Patches
// are added to the sums there before the codes are multiplied. The lane groups of a block share rows; each takes some
// of their column tiles.
//
// Read tile/vector.h, then tile/lanes.h for decoding, tile/cells.h for bytes from entries and raw bits, prologue.h for
// the table, plan.h for the division of shared memory.
#include "backends/gpu/products/requantise.h"
#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/takes.h"
#include "codecs/quad_huffman/gpu/tile/vector.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

template <int kSymbolCols, int kForm, int kSymbolsOfWindow>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(32 * kLanes, 1) void matvec(Matrix matrix, BlockPlan plan, Hidden hidden,
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
  const auto own_entries = load_own_entries(matrix);
  // Asks for the second segment's codes, too: a block that begins a layer ahead then waits only for the vector. (H200,
  // 8192 x 8192, two blocks a multiprocessor: 1.7 % less time. Strips, whose blocks do not begin ahead, took 1.2 %
  // more.)
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
    multiply_tile(tile, table, inputs, sums + part * kLanes);
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

// Where each policy wins (published records of an H200 and an H100; the shapes of models on an H100):
//   groups32        4096, and 16384 where groups16_fit2 has room for few copies of the table or none: 1.2x the speed
//                   with 2^13 entries (2026-11-27-h200/low_rates), up to 1.19x with symbols of 4 columns
//                   (2026-11-25-h200/beat_int8_wide)
//   groups16_fit2   in between: 1.10x to 1.26x at 5120 and 7168, up to 1.16x at 8192 (2026-11-27-h200/beat_int8_8192)
constexpr RingPolicy kPolicies[] = {{{"groups32"}, 32, 32, 1}, {{"groups16_fit2"}, 16, 8, 2}};
constexpr const RingPolicy &kGroups32 = kPolicies[0], &kGroups16Fit2 = kPolicies[1];

BlockPlan plan_vector(const RingPolicy& policy, const Header& code, datasets::Shape shape,
                      const backends::DeviceInfo& device) {
  return plan_of(policy, code, shape, InputType::int8, device.shared_bytes);
}

std::string_view choose(const backends::CompressedView& view, const backends::DeviceInfo& device, int) {
  const Header code = header_of(view);
  if (row_groups(view.shape.rows) <= device.compute_units || (code.symbol_cols < 8 && view.shape.cols >= 16384))
    return kGroups32.name;
  const bool fits = plan_vector(kGroups16Fit2, code, view.shape, device).lane_groups == kGroups16Fit2.lane_groups;
  return fits ? kGroups16Fit2.name : kGroups32.name;
}

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device,
                    const backends::Policy& named) {
  if (std::string reason = refuses_matrix(view, Layout::rows, Elements::int8); !reason.empty()) return reason;
  if (view.shape.cols > (int64_t{1} << 19))
    return "The kernel's sums are larger than the product's until they are corrected, and need int32: at most 2^19 "
           "columns.";
  const BlockPlan plan = plan_vector(named.as<RingPolicy>(), header_of(view), view.shape, device);
  return plan.lane_groups == 0 ? kRefusesSharedMemory : "";
}

using Kernel = void (*)(Matrix, BlockPlan, Hidden, gpu::Pointer<const int8_t>, gpu::Epilogue);

Kernel kernel_of(const Header& code) {
  return for_code(code, [](auto symbol_cols, auto form, auto symbols) -> Kernel {
    return matvec<decltype(symbol_cols)::value, decltype(form)::value, decltype(symbols)::value>;
  });
}

struct Multiply {
  Matrix matrix;
  BlockPlan plan;
  gpu::LaunchShape launch_shape;
  Kernel kernel;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch(kernel, launch_shape, stream, matrix, plan, hidden_of(plan), args.x, gpu::epilogue_of(args));
  }
};

backends::BoundKernel bind(const backends::Policy& named, Layers layers, int, backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Header code = header_of(view);
  const Matrix matrix = matrix_of(view, code);
  const BlockPlan plan = plan_vector(named.as<RingPolicy>(), code, view.shape, place.device());
  return {Multiply{matrix, plan, launch_shape_of(matrix, plan, place.device()), kernel_of(code)},
          {.requantises = true}};
}

}  // namespace

backends::Kernel vector_int8() {
  return {.op = backends::Op::matvec,
          .variant = "rings",
          .policies = kPolicies,
          .refuses = refuses,
          .bind = bind,
          .choose = choose};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
