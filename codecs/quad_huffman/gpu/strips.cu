// Products of strips (format/layout.h) with one vector of int8. A lane keeps the 32 elements of x that it needs in
// registers and decodes row after row; one operation adds a row's sums over the lanes. So x costs no time of shared
// memory, where lanes that own rows load 8 bytes of it for each 8 columns.
#include "backends/gpu/products/requantise.h"
#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/takes.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

// Rows of the matrix in a tile of so many stored columns.
ECMV_GPU_BOTH constexpr int strip_rows(int tile_cols) { return tile_cols / kLaneCols; }

// Multiplies the tile that `tile` has begun with x, at `inputs` in shared memory from the strip's first column on, and
// adds to `sums` of its rows, as other lane groups do. One lane stores a row's total to `own_sums` [tile rows], and the
// totals are added at the end. (Added at once, nvcc makes eight instructions a row to add up what lanes of a warp add
// to one number.)
template <typename TileOf>
ECMV_GPU_DEVICE void multiply_strip(TileOf& tile, const Table& table, gpu::Pointer<const std::byte> inputs,
                                    gpu::Pointer<int32_t> sums, gpu::Pointer<int32_t> own_sums) {
  using Bytes = typename TileOf::Bytes;
  constexpr int kRows = TileOf::kSegmentCols / kLaneCols, kQuads = kLaneCols / 4;
  const int lane = LaneGroup::lane();
  const gpu::Pointer<const int8_t> patched = gpu::cast<const int8_t>(inputs);
  tile.for_each_placed_patch([&](uint32_t place, bool takes) {
    const int32_t change = patched[place % kStripCols] * (1 << Bytes::kCellBits);
    gpu::atomic_add(sums + place / kStripCols, takes ? -change : change);
  });
  const gpu::Pointer<const gpu::uint4> own = gpu::cast<const gpu::uint4>(inputs + lane * kLaneCols);
  const gpu::uint4 low = own[0], high = own[1];
  const uint32_t x[kQuads] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  int32_t products[2] = {};
  gpu::Pointer<int32_t> total_of_row = own_sums;
  tile.decode(table, [&](int, int quad, uint32_t bytes) {
    int32_t& sum = products[Bytes::sum_of(quad)];
    sum = Bytes::add_products(bytes, x[quad % kQuads], sum);
    if (quad % kQuads != kQuads - 1) return;
    constexpr int kTimes = Bytes::kNibbles ? 16 : 1;
    const int32_t total = LaneGroup::reduce_add(products[0] * kTimes + products[1]);
    products[0] = products[1] = 0;
    if (lane == 0) total_of_row[quad / kQuads] = total;
    if (quad / kQuads == kRows - 1) total_of_row += kRows;
  });
  LaneGroup::sync();
  constexpr int kShift = (Bytes::kNibbles ? 4 : 0) + (Bytes::kDoubled ? 1 : 0);
  for (int row = lane; row < tile.segments() * kRows; row += kLanes)
    gpu::atomic_add(sums + row, own_sums[row] >> kShift);
  LaneGroup::sync();
}

template <int kRotates>
inline constexpr LaneForm kStripForm{.early = gpu::kMovesLoads, .placed = true, .rotates = kRotates};

// What the host works out for a launch, to spare registers.
struct StripsPlan {
  BlockPlan block;
  int cols;         // the matrix's
  int tile_rows;    // rows of the matrix that a tile has
  int parts;        // tiles of a strip that a block works on at once
  int strips_bits;  // log2 of the lane groups that share rows
  int x_sum;        // in shared memory
};

template <int kForm, int kSymbolsOfWindow, int kRotates>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(32 * kLanes, 1) void multiply_strips(Matrix matrix, StripsPlan plan, Hidden hidden,
                                                                     gpu::Pointer<const int8_t> x,
                                                                     gpu::Epilogue epilogue) {
  using TileOf = TileLanes<kMostSymbolCols, kForm, kSymbolsOfWindow, kStripForm<kRotates>>;
  const int lane_group = LaneGroup::uniform(LaneGroup::group()), part = lane_group >> plan.strips_bits,
            strips = static_cast<int>(matrix.row_groups);
  const int column = static_cast<int>(gpu::block_index()) * plan.parts + part;
  // Sums of the block's rows, then each lane group's for its tile.
  const gpu::Pointer<int32_t> sums = gpu::cast<int32_t>(gpu::shared_memory() + plan.block.sums),
                              x_sum = gpu::cast<int32_t>(gpu::shared_memory() + plan.x_sum);
  const gpu::Pointer<std::byte> inputs = gpu::shared_memory() + plan.block.inputs;

  TileOf tile(gpu::shared_memory() + (plan.block.rings + lane_group * TileOf::kSharedBytes), hidden);
  int strip = column < matrix.column_tiles ? lane_group & ((1 << plan.strips_bits) - 1) : strips;
  const auto begin = [&] {
    if (strip < strips) tile.begin(matrix.streams, strip, column, matrix.column_tiles, matrix.cols);
  };
  const auto place_patches = [&] {
    if (strip < strips) tile.place_patches();
  };
  gpu::let_next_begin();
  const auto own_entries = load_own_entries(matrix);
  begin();
  fill_table(matrix, plan.block, own_entries);
  for (int i = gpu::thread_index(); i < plan.parts * plan.tile_rows; i += gpu::block_size()) sums[i] = 0;
  if (gpu::thread_index() == 0) *x_sum = 0;
  place_patches();
  gpu::sync_block();
  gpu::wait_for_previous();
  gpu::load_inputs(x, plan.cols, strips * kStripCols, inputs, x_sum);
  gpu::sync_block();

  const Table table = table_of(matrix, plan.block);
  while (strip < strips) {
    multiply_strip(tile, table, inputs + strip * kStripCols, sums + part * plan.tile_rows,
                   sums + (plan.parts + lane_group) * plan.tile_rows);
    strip += 1 << plan.strips_bits;
    begin();
    place_patches();
  }
  gpu::sync_block();
  for (int i = gpu::thread_index(); i < plan.parts * plan.tile_rows; i += gpu::block_size()) {
    const int64_t row = gpu::block_index() * plan.parts * plan.tile_rows + i;
    if (row < matrix.rows) epilogue.store(row, sums[i] + matrix.lowest * *x_sum);
  }
}

// `matrix` is the shape of the matrix; 0 lane groups where not even two fit with their rings, table and x.
StripsPlan plan_strips(const RingPolicy& policy, const Header& code, datasets::Shape matrix, int64_t block_bytes) {
  const int64_t shared_bytes = bytes_of_block(block_bytes, policy), strips = row_groups(strips_shape(matrix).rows),
                inputs = strips * kStripCols;
  for (int lane_groups = policy.lane_groups; lane_groups >= 2; lane_groups /= 2) {
    const int of_rows = lane_groups_of_rows(lane_groups, strips), parts = lane_groups / of_rows,
              tile_rows = strip_rows(tile_cols_of(code));
    const int64_t rings = int64_t{lane_groups} * kRingBytes, sums = int64_t{parts + lane_groups} * tile_rows * 4;
    StripsPlan plan{.block = {.lane_groups = lane_groups, .lane_groups_of_rows = of_rows},
                    .cols = static_cast<int>(matrix.cols),
                    .tile_rows = tile_rows,
                    .parts = parts,
                    .strips_bits = std::countr_zero(static_cast<unsigned>(of_rows)),
                    .x_sum = 0};
    if (!place_table(plan.block, code, policy.copies, shared_bytes - rings - sums - 16 - inputs)) continue;
    plan.block.sums = plan.block.rings + static_cast<int>(rings);
    plan.x_sum = plan.block.sums + static_cast<int>(sums);
    plan.block.inputs = plan.x_sum + 16;
    plan.block.bytes = plan.block.inputs + static_cast<int>(inputs);
    return plan;
  }
  return {};
}

// Two blocks on a multiprocessor run at 1.13x to 1.21x the speed at 5120 (H100), and at 0.84x to 1.01x at 16384
// (2026-11-26-h100/low_rates, 2026-11-27-h200/low_rates).
constexpr RingPolicy kPolicies[] = {{{"groups32"}, 32, 32, 1}, {{"groups16_fit2"}, 16, 8, 2}};

std::string_view choose(const backends::CompressedView& view, const backends::DeviceInfo&, int) {
  return kPolicies[view.shape.cols >= 16384 ? 0 : 1].name;
}

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device,
                    const backends::Policy& named) {
  if (std::string reason = refuses_matrix(view, Layout::strips, Elements::int8); !reason.empty()) return reason;
  if (view.shape.cols > (int64_t{1} << 19)) return "The kernel's sums need int32: at most 2^19 columns.";
  const StripsPlan plan = plan_strips(named.as<RingPolicy>(), header_of(view), view.shape, device.shared_bytes);
  return plan.block.lane_groups == 0 ? kRefusesSharedMemory : "";
}

using Kernel = void (*)(Matrix, StripsPlan, Hidden, gpu::Pointer<const int8_t>, gpu::Epilogue);

// Windows have two symbols, because strips are for low rates, which want large tables. Rotated symbols have tables of 8
// copies where they fit, 2 otherwise; beyond one raw bit rotated symbols win nothing.
Kernel kernel_of(const Header& code, int copies) {
  return for_code<has_no_short_windows>(code, [&](auto symbol_cols, auto form, auto) -> Kernel {
    constexpr int kForm = decltype(form)::value;
    if constexpr (decltype(symbol_cols)::value == kMostSymbolCols) {
      if constexpr (!is_folded(kForm))
        if (code.rotated) return copies == 8 ? multiply_strips<kForm, 2, 8> : multiply_strips<kForm, 2, 2>;
      return multiply_strips<kForm, 2, 0>;
    }
    return nullptr;
  });
}

struct MultiplyStrips {
  Matrix matrix;
  StripsPlan plan;
  gpu::LaunchShape launch_shape;
  Kernel kernel;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch(kernel, launch_shape, stream, matrix, plan, hidden_of(plan.block), args.x, gpu::epilogue_of(args));
  }
};

backends::BoundKernel bind(const backends::Policy& named, Layers layers, int, backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Header code = header_of(view);
  const Matrix matrix = matrix_of(view, code);
  const StripsPlan plan = plan_strips(named.as<RingPolicy>(), code, view.shape, place.device().shared_bytes);
  return {MultiplyStrips{matrix,
                         plan,
                         {(matrix.column_tiles + plan.parts - 1) / plan.parts, plan.block.lane_groups * kLanes,
                          plan.block.bytes, gpu::have_early_launches(place.device())},
                         kernel_of(code, plan.block.copies)},
          {.requantises = true}};
}

}  // namespace

backends::Kernel strips() {
  return {.op = backends::Op::matvec,
          .variant = "strips",
          .policies = kPolicies,
          .refuses = refuses,
          .bind = bind,
          .choose = choose};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
