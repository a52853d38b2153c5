// vector_int8.cu with equal work for all multiprocessors. There a block has whole row groups, and where these fill a
// device one and a bit times most of it waits for the rest. Here a block has a run of tiles, whichever rows they are
// of. A row group that goes on in the next block costs a word a row, which the block hands to that one.
//
// sigma 4, K = 8, B = 4, T = 8, the best width of tiles: at d = 9216 1.29x the speed of vector_int8.cu (H100), at 12288
// 1.22x with 1280 columns (H200), at 14336 the same; 0.87x to 0.97x from 5120 to 8192, where the row groups fill the
// device less than once and a layer of 9 to 15 us takes 0.8 to 1.5 us more (H100). One block a multiprocessor instead
// of two, of 32 lane groups or of 16 beside the next launch's 16, was slower nearly everywhere.
#include "backends/gpu/exchange.h"
#include "backends/gpu/products/requantise.h"
#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/takes.h"
#include "codecs/quad_huffman/gpu/tile/vector.h"
#include "codecs/quad_huffman/gpu/tokens/units.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

// The tiles of all row groups in the blocks' runs.
struct TileRuns {
  int tiles = 0;  // a row group's
  Runs runs;

  // The row groups that a block has tiles of.
  ECMV_GPU_BOTH int first_group(int block) const { return runs.begin(block) / tiles; }
  ECMV_GPU_BOTH int groups(int block) const { return (runs.begin(block + 1) - 1) / tiles + 1 - first_group(block); }
  // The blocks that have tiles of a row group.
  ECMV_GPU_BOTH int first_block(int group) const { return runs.run_of(group * tiles); }
  ECMV_GPU_BOTH int last_block(int group) const { return runs.run_of((group + 1) * tiles - 1); }
};

// plan.sums has the launch's epoch, [row groups of the block, 32] and the sum of x; plan.inputs has x. The exchange has
// 32 words for each block: the sums of its last row group, where that goes on in the next block.
template <int kSymbolCols, int kForm, int kSymbolsOfWindow>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(32 * kLanes, 1) void multiply_units(Matrix matrix, BlockPlan plan, TileRuns units,
                                                                    Hidden hidden, gpu::Pointer<const int8_t> x,
                                                                    gpu::Epilogue epilogue, gpu::Exchange exchange) {
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow, kEarlyForm<kForm>>;
  const int lane_group = LaneGroup::uniform(LaneGroup::group()), block = static_cast<int>(gpu::block_index()),
            first_group = units.first_group(block), groups = units.groups(block),
            begin_of_block = units.runs.begin(block);
  const Runs parts = runs_of(units.runs.begin(block + 1) - begin_of_block, plan.lane_groups);
  const gpu::Pointer<uint32_t> epoch = gpu::cast<uint32_t>(gpu::shared_memory() + plan.sums);
  const gpu::Pointer<int32_t> sums = gpu::cast<int32_t>(gpu::shared_memory() + (plan.sums + kEpochBytes)),
                              x_sum = sums + groups * kLanes;
  const gpu::Pointer<std::byte> inputs = gpu::shared_memory() + plan.inputs;

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  const int first = LaneGroup::uniform(begin_of_block + parts.begin(lane_group));
  int left = parts.begin(lane_group + 1) - parts.begin(lane_group), group = LaneGroup::uniform(first / units.tiles),
      column = first - group * units.tiles;
  const auto begin = [&] {
    if (left > 0) tile.template begin<false, true>(matrix.streams, group, column, units.tiles, matrix.cols);
  };
  gpu::let_next_begin();
  const auto own_entries = load_own_entries(matrix);
  begin();
  fill_table(matrix, plan, own_entries);
  ECMV_GPU_NO_UNROLL
  for (int i = gpu::thread_index(); i <= groups * kLanes; i += gpu::block_size()) sums[i] = 0;
  gpu::sync_block();
  gpu::wait_for_previous();
  note_epoch(exchange, epoch);
  gpu::load_inputs(x, matrix.cols, matrix.streams.row_segments * TileOf::kSegmentCols, inputs, x_sum);
  gpu::sync_block();
  count_block(exchange, epoch);

  const Table table = table_of(matrix, plan);
  while (left > 0) {
    multiply_tile(tile, table, inputs, sums + (group - first_group) * kLanes);
    --left;
    if (++column == units.tiles) column = 0, ++group;
    begin();
  }
  gpu::sync_block();
  exchange.begin(*epoch);
  ECMV_GPU_NO_UNROLL
  for (int i = gpu::thread_index(); i < groups * kLanes; i += gpu::block_size()) {
    const int of_row = first_group + i / kLanes, lane = i % kLanes;
    int32_t sum = sums[i];
    if (block < units.last_block(of_row)) {
      exchange.put(0, int64_t{block} * kLanes + lane, static_cast<uint32_t>(sum));
      continue;
    }
    for (int other = units.first_block(of_row); other < block; ++other)
      sum += static_cast<int32_t>(exchange.get(0, int64_t{other} * kLanes + lane));
    const int64_t row = int64_t{of_row} * kLanes + lane;
    if (row < matrix.rows) epilogue.store(row, sum + matrix.lowest * *x_sum);
  }
}

constexpr RingPolicy kPolicies[] = {{{"groups16_fit2"}, 16, 8, 2}};
constexpr const RingPolicy& kPolicy = kPolicies[0];

struct VectorUnits {
  BlockPlan plan;
  TileRuns units;
  int blocks;
};

// No lane groups where they do not fit.
VectorUnits plan_vector(const Header& code, datasets::Shape shape, const backends::DeviceInfo& device) {
  const int tiles = static_cast<int>(column_tiles(shape.cols, tile_cols_of(code)));
  const int64_t count = row_groups(shape.rows) * tiles, shared_bytes = bytes_of_block(device.shared_bytes, kPolicy),
                inputs = row_segments(shape.cols, code.symbol_cols) * segment_cols(code.symbol_cols),
                rings = int64_t{kPolicy.lane_groups} * kRingBytes;
  VectorUnits planned{.blocks = static_cast<int>(std::min<int64_t>(device.compute_units * kPolicy.blocks, count))};
  planned.units = {tiles, runs_of(static_cast<int>(count), planned.blocks)};
  const int most_groups = (planned.units.runs.begin(1) + tiles - 2) / tiles + 1;
  const int64_t sums = (kEpochBytes + (most_groups * kLanes + 1) * 4 + 15) / 16 * 16;
  BlockPlan& plan = planned.plan;
  if (!place_table(plan, code, kPolicy.copies, shared_bytes - rings - sums - inputs)) return planned;
  plan.lane_groups = kPolicy.lane_groups;
  plan.sums = plan.rings + static_cast<int>(rings);
  plan.inputs = plan.sums + static_cast<int>(sums);
  plan.bytes = plan.inputs + static_cast<int>(inputs);
  return planned;
}

using Kernel = void (*)(Matrix, BlockPlan, TileRuns, Hidden, gpu::Pointer<const int8_t>, gpu::Epilogue, gpu::Exchange);

// nullptr for codes that settings for speed do not choose.
Kernel kernel_of(const Header& code) {
  return for_code(code, [](auto symbol_cols, auto form, auto symbols) -> Kernel {
    if constexpr (is_chosen_code(decltype(symbol_cols)::value, decltype(form)::value))
      return multiply_units<decltype(symbol_cols)::value, decltype(form)::value, decltype(symbols)::value>;
    else
      return nullptr;
  });
}

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device, const backends::Policy&) {
  if (std::string reason = refuses_empty(view); !reason.empty()) return reason;
  if (std::string reason = refuses_matrix(view, Layout::rows, Elements::int8); !reason.empty()) return reason;
  if (view.shape.cols > (int64_t{1} << 19))
    return "The kernel's sums are larger than the product's until they are corrected, and need int32: at most 2^19 "
           "columns.";
  const Header code = header_of(view);
  if (kernel_of(code) == nullptr) return "The kernel is for the codes that settings for speed choose.";
  return plan_vector(code, view.shape, device).plan.lane_groups == 0 ? kRefusesSharedMemory : "";
}

struct Multiply {
  Matrix matrix;
  VectorUnits planned;
  gpu::LaunchShape launch_shape;
  Kernel kernel;
  gpu::Exchange exchange;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch(kernel, launch_shape, stream, matrix, planned.plan, planned.units, hidden_of(planned.plan), args.x,
                gpu::epilogue_of(args), exchange);
  }
};

backends::BoundKernel bind(const backends::Policy&, Layers layers, int, backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Header code = header_of(view);
  const VectorUnits planned = plan_vector(code, view.shape, place.device());
  const int64_t words = int64_t{planned.blocks} * kLanes;
  return {Multiply{matrix_of(view, code),
                   planned,
                   {.grid = planned.blocks,
                    .block = kPolicy.lane_groups * kLanes,
                    .shared_bytes = planned.plan.bytes,
                    .early = gpu::have_early_launches(place.device()),
                    .in_order = true},
                   kernel_of(code),
                   {place.zeroed(gpu::Exchange::bytes(words)), words}},
          {.requantises = true}};
}

}  // namespace

backends::Kernel vector_units() {
  return {.op = backends::Op::matvec, .variant = "units", .policies = kPolicies, .refuses = refuses, .bind = bind};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
