// GPU kernels of quad_huffman. A group of 32 lanes (a worker) decodes kTiles tiles at once, one below the other, a lane one row of
// each: while one row waits for shared memory the other goes on, and both use the same x. The codes of a tile come through a ring of
// lines in shared memory, filled by asynchronous copies as the tile's schedule says, so that the decoder keeps nothing but a bit
// position; a window of 32 bits of the ring serves 2 or 3 quads. All words of a lane lie in its own bank, and the table has up to 32
// copies, lane l reading copy l, so that lanes never wait for each other. Raw bits go straight to registers, half a segment
// ahead. Patches are added to the sums in shared memory before the codes have arrived.
// The workers of a block share rows: each has some of their column tiles.
#include <algorithm>
#include <string>
#include <type_traits>

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "backends/gpu/requantise.h"
#include "codecs/quad_huffman/format.h"
#include "codecs/quad_huffman/segment_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

// What a launch is told about the matrix.
struct Matrix {
  gpu::Pointer<const uint8_t> header;
  gpu::Pointer<const uint32_t> table;
  Streams streams;
  int table_words;      // 2^T
  int64_t row_groups;
  int64_t rows;
  int cols, column_tiles;
};

// Where things lie in a block's shared memory, in bytes from its beginning.
struct Plan {
  int copies, copy_shift;          // of the table
  int workers, workers_of_rows;    // of a block; those that share rows
  int sums, workers_bytes;         // behind the table the workers' rings, behind them the sums
};

// A worker takes 32 entries at a time: one load, then the copies line by line out of its lanes' registers. (With one load a
// word, a layer of d = 16384 with 32 copies took an H200 56.4 us instead of 52.8.)
ECMV_GPU_DEVICE void fill_table(const Matrix& matrix, const Plan& plan) {
  const gpu::Pointer<uint32_t> table = gpu::cast<uint32_t>(gpu::shared_memory());
  for (int first = Worker::group() * kLanes; first < matrix.table_words; first += gpu::block_size()) {
    const uint32_t entry = gpu::load_shared_by_many(matrix.table + (first + Worker::lane()));
    for (int i = Worker::lane(); i < kLanes << plan.copy_shift; i += kLanes)
      table[(first << plan.copy_shift) + i] = Worker::shuffle(entry, i >> plan.copy_shift);
  }
}

ECMV_GPU_DEVICE Table table_of(const Matrix& matrix, const Plan& plan) {
  return {gpu::SharedWords(gpu::shared_memory() + 4 * (Worker::lane() & (plan.copies - 1))), static_cast<uint32_t>(matrix.table_words - 1), 4 * plan.copies};
}

ECMV_GPU_DEVICE int lowest_of(const Matrix& matrix) { return static_cast<int16_t>(matrix.header[2] | matrix.header[3] << 8); }

template <int kRawBits, int kQuadsOfWindow, int kTiles, int kMostThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void matvec(Matrix matrix, Plan plan, gpu::Pointer<const int8_t> x, gpu::Epilogue epilogue) {
  using TileOf = TileWorker<kRawBits, kQuadsOfWindow, kTiles, true>;
  const int worker = Worker::group(), lane = Worker::lane();
  const int rows_of_sums = kTiles * kLanes;
  const int part = worker / plan.workers_of_rows, share = worker % plan.workers_of_rows;
  const int64_t stack = gpu::block_index() * (plan.workers / plan.workers_of_rows) + part;  // of kTiles row groups
  const gpu::Pointer<int32_t> all_sums = gpu::cast<int32_t>(gpu::shared_memory() + plan.sums);
  const gpu::Pointer<int32_t> sums = all_sums + part * rows_of_sums;

  TileOf tile(matrix.streams, gpu::shared_memory() + (plan.sums - plan.workers_bytes) + worker * TileOf::kSharedBytes);
  const bool busy = stack * kTiles < matrix.row_groups;
  int column = share;
  gpu::let_next_begin();
  if (busy && column < matrix.column_tiles) tile.begin(stack, matrix.row_groups, column, matrix.column_tiles, matrix.cols);
  fill_table(matrix, plan);
  for (int i = gpu::thread_index(); i < plan.workers / plan.workers_of_rows * rows_of_sums; i += gpu::block_size()) all_sums[i] = 0;
  gpu::wait_for_previous();
  gpu::sync_block();

  const Table table = table_of(matrix, plan);
  int32_t products[kTiles] = {};
  int32_t x_sum = 0;
  while (busy && column < matrix.column_tiles) {
    tile.begin_inputs(x);
    tile.add_patches(x, sums);
    tile.decode(table, x, [&](int t, int, int, uint32_t bytes, uint32_t inputs) {
      products[t] = gpu::dot4_unsigned_signed(bytes, static_cast<int32_t>(inputs), products[t]);
    }, [&](uint32_t inputs) { x_sum = gpu::dot4(0x01010101, static_cast<int32_t>(inputs), x_sum); });
    column += plan.workers_of_rows;
    if (column < matrix.column_tiles) tile.begin(stack, matrix.row_groups, column, matrix.column_tiles, matrix.cols);
  }
  if (busy) {
    const int32_t offset = lowest_of(matrix) * Worker::reduce_add(x_sum);
    ECMV_GPU_UNROLL
    for (int t = 0; t < kTiles; ++t) gpu::atomic_add(sums + (t * kLanes + lane), (kRawBits == 0 ? products[t] / 2 : products[t]) + offset);
  }
  gpu::sync_block();
  for (int i = gpu::thread_index(); i < plan.workers / plan.workers_of_rows * rows_of_sums; i += gpu::block_size()) {
    const int64_t row = gpu::block_index() * (plan.workers / plan.workers_of_rows) * rows_of_sums + i;
    if (row < matrix.rows) epilogue.store(row, all_sums[i]);
  }
}

// Adds bytes, each modulo 256.
ECMV_GPU_DEVICE uint32_t add_bytes(uint32_t a, uint32_t b) { return ((a & 0x7F7F7F7Fu) + (b & 0x7F7F7F7Fu)) ^ ((a ^ b) & 0x80808080u); }

// A worker decodes one tile after the other. A row's quads are stored four at once where every row begins at a multiple of 16 bytes.
template <int kRawBits, int kQuadsOfWindow>
ECMV_GPU_KERNEL void decode(Matrix matrix, Plan plan, gpu::Pointer<int8_t> decoded) {
  using TileOf = TileWorker<kRawBits, kQuadsOfWindow, 1, false>;
  TileOf tile(matrix.streams, gpu::shared_memory() + (plan.sums - plan.workers_bytes) + Worker::group() * TileOf::kSharedBytes);
  fill_table(matrix, plan);
  gpu::sync_block();
  const Table table = table_of(matrix, plan);
  const uint32_t lowest = 0x01010101u * (static_cast<uint32_t>(lowest_of(matrix)) & 0xFF);
  const bool whole = matrix.cols % 16 == 0;
  for (int64_t number = gpu::block_index() * plan.workers + Worker::group(); number < matrix.row_groups * matrix.column_tiles; number += gpu::grid_size() * plan.workers) {
    const int64_t group = number / matrix.column_tiles;
    const int column = static_cast<int>(number % matrix.column_tiles);
    const int64_t row = group * kLanes + Worker::lane();
    const bool exists = row < matrix.rows;
    const int first_col = column * matrix.streams.tile_segments * kSegmentCols;
    const gpu::Pointer<int8_t> out = decoded + (row * matrix.cols + first_col);
    tile.begin(group, matrix.row_groups, column, matrix.column_tiles, matrix.cols);
    tile.begin_inputs({});
    uint32_t words[4];
    tile.decode(table, {}, [&](int, int segment, int quad, uint32_t bytes, uint32_t) {
      words[quad % 4] = add_bytes(kRawBits == 0 ? bytes >> 1 & 0x7F7F7F7Fu : bytes, lowest);
      const int col = segment * kSegmentCols + quad / 4 * 16;
      if (quad % 4 != 3 || !exists) return;
      if (whole && first_col + col < matrix.cols) {
        *gpu::cast<gpu::uint4>(out + col) = gpu::uint4{words[0], words[1], words[2], words[3]};
      } else {
        for (int i = 0; i < 16 && first_col + col + i < matrix.cols; ++i) out[col + i] = static_cast<int8_t>(words[i / 4] >> (i % 4 * 8));
      }
    }, [](uint32_t) {});
    Worker::sync();
    tile.patch_elements(decoded + (group * kLanes * matrix.cols + first_col), matrix.cols);
  }
}

struct Shape {
  int raw_bits, table_bits, tile_cols;
};

// The header is in device memory; what a launch must know follows from the sizes of the sections and the settings.
Shape shape_of(const codecs::CompressedView& view) {
  const int64_t segments = row_groups(view.shape.rows) * row_segments(view.shape.cols);
  int table_bits = 0;
  while (int64_t{4} << table_bits < static_cast<int64_t>(view.sections[kTable].bytes.size())) ++table_bits;
  const int64_t tiles = static_cast<int64_t>(view.sections[kTiles].bytes.size()) / 8 - 1;
  return {segments == 0 ? 0 : static_cast<int>(static_cast<int64_t>(view.sections[kRaw].bytes.size()) / (segments * raw_bytes_of_segment(1))), table_bits,
          tiles == 0 ? kMostTileCols : static_cast<int>(static_cast<int64_t>(view.sections[kSchedule].bytes.size()) / tiles * kSegmentCols)};
}

Matrix matrix_of(const codecs::CompressedView& view, const Shape& shape) {
  const auto bytes = [&](int section) { return reinterpret_cast<const uint8_t*>(view.sections[section].bytes.data()); };
  const auto words = [&](int section) { return reinterpret_cast<const uint32_t*>(view.sections[section].bytes.data()); };
  return {.header = bytes(kHeader),
          .table = words(kTable),
          .streams = {.tiles = words(kTiles),
                      .schedule = bytes(kSchedule),
                      .codes = view.sections[kCodes].bytes.data(),
                      .raw = reinterpret_cast<const gpu::uint2*>(bytes(kRaw)),
                      .positions = reinterpret_cast<const uint16_t*>(bytes(kPositions)),
                      .deltas = bytes(kDeltas),
                      .row_segments = static_cast<int>(row_segments(view.shape.cols)),
                      .tile_segments = static_cast<int>(tile_segments(shape.tile_cols)),
                      .line_bytes_of_bit = kLineBytes / 32},
          .table_words = 1 << shape.table_bits,
          .row_groups = row_groups(view.shape.rows),
          .rows = view.shape.rows,
          .cols = static_cast<int>(view.shape.cols),
          .column_tiles = static_cast<int>(column_tiles(view.shape.cols, shape.tile_cols))};
}

// What a tuning asks for: waves of 32 lanes a block, tiles a worker, copies of the table at most, blocks that shall fit on a
// multiprocessor, early launches.
struct Wish {
  int workers, tiles, copies, blocks;
  bool early;
};
constexpr Wish kWishes[] = {{32, 1, 32, 1, true}, {16, 2, 32, 1, true}, {16, 1, 8, 2, true}, {32, 1, 32, 1, false}};

int worker_bytes(int tiles) { return tiles * kRingBytes + kInputRingBytes; }

// Of shared memory, that every block needs besides its own.
constexpr int64_t kSystemBytes = 1024;

// The table gets as many copies as fit beside the rings; 0 workers if not even one does.
Plan plan_of(const Wish& wish, const Shape& shape, int column_tiles, int64_t block_bytes) {
  const int64_t shared_bytes = (block_bytes + kSystemBytes) / wish.blocks - kSystemBytes;
  Plan plan{};
  for (int workers = wish.workers; workers >= 2; workers /= 2) {
    int of_rows = 1;
    while (of_rows * 2 <= workers && of_rows < column_tiles && workers % (of_rows * 2) == 0) of_rows *= 2;
    const int rings = workers * worker_bytes(wish.tiles), sums = workers / of_rows * wish.tiles * kLanes * 4;
    for (int copies = wish.copies; copies >= 1; copies /= 2) {
      const int64_t table = (int64_t{4} << shape.table_bits) * copies;
      if (table + rings + sums > shared_bytes) continue;
      plan.copies = copies;
      while (1 << plan.copy_shift < copies) ++plan.copy_shift;
      plan.workers = workers;
      plan.workers_of_rows = of_rows;
      plan.workers_bytes = rings;
      plan.sums = static_cast<int>(table) + rings;
      return plan;
    }
  }
  return plan;
}

// Calls f(constant number of raw bits, constant number of quads a window).
template <typename F>
void with_shape(const Shape& shape, F f) {
  const auto with = [&](auto raw_bits) {
    if (shape.table_bits <= 10)
      f(raw_bits, std::integral_constant<int, 3>{});
    else
      f(raw_bits, std::integral_constant<int, 2>{});
  };
  switch (shape.raw_bits) {
    case 0: return with(std::integral_constant<int, 0>{});
    case 1: return with(std::integral_constant<int, 1>{});
    case 2: return with(std::integral_constant<int, 2>{});
    case 3: return with(std::integral_constant<int, 3>{});
    case 4: return with(std::integral_constant<int, 4>{});
    case 5: return with(std::integral_constant<int, 5>{});
    case 6: return with(std::integral_constant<int, 6>{});
    case 7: return with(std::integral_constant<int, 7>{});
  }
}

template <int kTiles, int kMostThreads>
void launch_tiles(const backends::KernelCall& call, const Shape& shape, const Plan& plan, bool early) {
  const Matrix matrix = matrix_of(*call.matrix, shape);
  const int parts = plan.workers / plan.workers_of_rows;
  const int64_t rows_of_block = int64_t{parts} * kTiles * kLanes;
  const gpu::LaunchShape launch_shape{(matrix.rows + rows_of_block - 1) / rows_of_block, plan.workers * kLanes,
                                      plan.sums + rows_of_block * static_cast<int64_t>(sizeof(int32_t)), early && gpu::have_early_launches(*call.device)};
  with_shape(shape, [&](auto raw_bits, auto quads) {
    gpu::launch(matvec<decltype(raw_bits)::value, decltype(quads)::value, kTiles, kMostThreads>, launch_shape, call.stream, matrix, plan, call.x,
                gpu::epilogue_of(call));
  });
}

void launch_matvec(const backends::KernelCall& call) {
  const Shape shape = shape_of(*call.matrix);
  const Wish& wish = kWishes[call.tuning];
  const Plan plan = plan_of(wish, shape, static_cast<int>(column_tiles(call.matrix->shape.cols, shape.tile_cols)), call.device->shared_bytes);
  if (wish.tiles == 2)
    launch_tiles<2, 512>(call, shape, plan, wish.early);
  else
    launch_tiles<1, 1024>(call, shape, plan, wish.early);
}

constexpr Wish kDecodeWish{16, 1, 1, 1, false};

void launch_decode(const backends::KernelCall& call) {
  const Shape shape = shape_of(*call.matrix);
  const Matrix matrix = matrix_of(*call.matrix, shape);
  const Plan plan = plan_of(kDecodeWish, shape, matrix.column_tiles, call.device->shared_bytes);
  const int64_t blocks = (matrix.row_groups * matrix.column_tiles + plan.workers - 1) / plan.workers;
  const gpu::LaunchShape launch_shape{std::min<int64_t>(blocks, call.device->compute_units), plan.workers * kLanes, plan.sums};
  with_shape(shape, [&](auto raw_bits, auto quads) {
    gpu::launch(decode<decltype(raw_bits)::value, decltype(quads)::value>, launch_shape, call.stream, matrix, plan, call.decoded);
  });
}

std::string refuses_wish(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, const Wish& wish) {
  if (matrix.shape.cols > (int64_t{1} << 19)) return "The kernel's sums are larger than the product's until they are corrected, and need int32: at most 2^19 columns.";
  const Shape shape = shape_of(matrix);
  if (plan_of(wish, shape, static_cast<int>(column_tiles(matrix.shape.cols, shape.tile_cols)), device.shared_bytes).workers == 0)
    return "The table and the rings of two waves do not fit the shared memory of a thread block.";
  return "";
}

std::string refuses_decode(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int) { return refuses_wish(matrix, device, kDecodeWish); }
std::string refuses_matvec(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int tuning) {
  return refuses_wish(matrix, device, kWishes[tuning]);
}

// Waves a block, tiles a wave where two, blocks that fit on a multiprocessor where several.
constexpr backends::Tuning kTunings[] = {{"waves32"}, {"waves16_tiles2"}, {"waves16_fit2"}, {"waves32_in_order"}};

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "rings", .tunings = backends::kDefaultTuning, .refuses = refuses_decode, .launch = launch_decode},
    {.op = backends::Op::matvec, .variant = "rings", .tunings = kTunings, .refuses = refuses_matvec, .launch = launch_matvec},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
