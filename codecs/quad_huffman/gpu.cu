// GPU kernels of quad_huffman. A group of 32 lanes (a worker) decodes kTiles tiles at once, one below the other, a lane one row of
// each: while one row waits for shared memory the other goes on, and both use the same x. The codes of a tile come through a ring of
// lines in shared memory, filled by asynchronous copies as the tile's schedule says, so that the decoder keeps nothing but a bit
// position; a window of 32 bits of the ring serves 2 or 3 symbols. All words of a lane lie in its own bank, and the table has up to 32
// copies, lane l reading copy l, so that lanes never wait for each other. Raw bits go straight to registers, a segment
// ahead. x is in shared memory as a whole. Patches are added to the sums there before the codes are multiplied.
// The workers of a block share rows: each has some of their column tiles.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "backends/gpu/requantise.h"
#include "codecs/quad_huffman/ahead_gpu.h"
#include "codecs/quad_huffman/floats_gpu.h"
#include "codecs/quad_huffman/format.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

template <int kSymbolCols, int kRawBits, int kSymbolsOfWindow, int kTiles, int kMostThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void matvec(Matrix matrix, Plan plan, Hidden hidden, gpu::Pointer<const int8_t> x, gpu::Epilogue epilogue) {
  using TileOf = TileWorker<kSymbolCols, kRawBits, kSymbolsOfWindow, kTiles>;
  constexpr int kRowsOfSums = kTiles * kLanes;
  const int worker = Worker::uniform(Worker::group()), part = worker / plan.workers_of_rows, parts = plan.workers / plan.workers_of_rows;
  const int64_t stack = gpu::block_index() * parts + part;  // of kTiles row groups
  const gpu::Pointer<int32_t> sums = gpu::cast<int32_t>(gpu::shared_memory() + plan.sums), x_sum = sums + parts * kRowsOfSums;
  const gpu::Pointer<std::byte> inputs = gpu::shared_memory() + plan.inputs;

  TileOf tile(gpu::shared_memory() + (plan.rings + worker * TileOf::kSharedBytes), hidden);
  int column = stack * kTiles < matrix.row_groups ? worker % plan.workers_of_rows : matrix.column_tiles;
  gpu::let_next_begin();
  if (column < matrix.column_tiles) tile.begin(matrix.streams, stack, matrix.row_groups, column, matrix.column_tiles, matrix.cols);
  fill_table<kSymbolCols>(matrix, plan, load_own_entry<kSymbolCols>(matrix));
  for (int i = gpu::thread_index(); i <= parts * kRowsOfSums; i += gpu::block_size()) sums[i] = 0;
  gpu::sync_block();
  gpu::wait_for_previous();
  load_inputs(x, matrix.cols, matrix.streams.row_segments * TileOf::kSegmentCols, inputs, x_sum);
  gpu::sync_block();

  const Table<kSymbolCols> table = table_of<kSymbolCols>(matrix, plan);
  while (column < matrix.column_tiles) {
    multiply_tile<TileOf, kSymbolCols, kTiles>(tile, table, inputs, sums + part * kRowsOfSums);
    column += plan.workers_of_rows;
    if (column < matrix.column_tiles) tile.begin(matrix.streams, stack, matrix.row_groups, column, matrix.column_tiles, matrix.cols);
  }
  gpu::sync_block();
  for (int i = gpu::thread_index(); i < parts * kRowsOfSums; i += gpu::block_size()) {
    const int64_t row = gpu::block_index() * parts * kRowsOfSums + i;
    if (row < matrix.rows) epilogue.store(row, sums[i] + matrix.lowest * *x_sum);
  }
}

// Adds bytes, each modulo 256.
ECMV_GPU_DEVICE uint32_t add_bytes(uint32_t a, uint32_t b) { return ((a & 0x7F7F7F7Fu) + (b & 0x7F7F7F7Fu)) ^ ((a ^ b) & 0x80808080u); }

// A worker decodes one tile after the other. A row's quads are stored four at once where every row begins at a multiple of 16 bytes.
template <int kSymbolCols, int kRawBits, int kSymbolsOfWindow>
ECMV_GPU_KERNEL void decode(Matrix matrix, Plan plan, Hidden hidden, gpu::Pointer<int8_t> decoded) {
  using TileOf = TileWorker<kSymbolCols, kRawBits, kSymbolsOfWindow, 1>;
  TileOf tile(gpu::shared_memory() + (plan.rings + Worker::group() * TileOf::kSharedBytes), hidden);
  fill_table<kSymbolCols>(matrix, plan, load_own_entry<kSymbolCols>(matrix));
  gpu::sync_block();
  const Table<kSymbolCols> table = table_of<kSymbolCols>(matrix, plan);
  const uint32_t lowest = 0x01010101u * (static_cast<uint32_t>(matrix.lowest) & 0xFF);
  const bool whole = matrix.cols % 16 == 0;
  for (int64_t number = gpu::block_index() * plan.workers + Worker::group(); number < matrix.row_groups * matrix.column_tiles; number += gpu::grid_size() * plan.workers) {
    const int64_t group = number / matrix.column_tiles;
    const int column = static_cast<int>(number % matrix.column_tiles);
    const int64_t row = group * kLanes + Worker::lane();
    const bool exists = row < matrix.rows;
    tile.begin(matrix.streams, group, matrix.row_groups, column, matrix.column_tiles, matrix.cols);
    const gpu::Pointer<int8_t> out = decoded + (row * matrix.cols + tile.first_col());
    uint32_t words[4];
    tile.decode(table, [&](int, int segment, int quad, uint32_t bytes) {
      words[quad % 4] = add_bytes(TileOf::kDoubled ? bytes >> 1 & 0x7F7F7F7Fu : bytes, lowest);
      const int col = segment * TileOf::kSegmentCols + quad / 4 * 16;
      if (quad % 4 != 3 || !exists) return;
      if (whole && tile.first_col() + col < matrix.cols) {
        *gpu::cast<gpu::uint4>(out + col) = gpu::uint4{words[0], words[1], words[2], words[3]};
      } else {
        for (int i = 0; i < 16 && tile.first_col() + col + i < matrix.cols; ++i) out[col + i] = static_cast<int8_t>(words[i / 4] >> (i % 4 * 8));
      }
    });
    Worker::sync();
    tile.patch_elements(decoded + (group * kLanes * matrix.cols + tile.first_col()), matrix.cols);
    Worker::sync();
  }
}

struct Shape {
  int symbol_cols, raw_bits, table_bits, tile_cols, lowest;
};

Shape shape_of(const codecs::CompressedView& view) {
  const auto byte = [&](int i) { return std::to_integer<int>(view.sections[kHeader].host[i]); };
  return {1 << byte(5), byte(0), byte(1), 1 << byte(4), static_cast<int16_t>(byte(2) | byte(3) << 8)};
}

Matrix matrix_of(const codecs::CompressedView& view, const Shape& shape) {
  const auto bytes = [&](int section) { return view.sections[section].bytes.data(); };
  return {.table = reinterpret_cast<const uint32_t*>(bytes(kTable)),
          .streams = {.tiles = reinterpret_cast<const gpu::uint4*>(bytes(kTiles)),
                      .schedule = reinterpret_cast<const uint8_t*>(bytes(kSchedule)),
                      .codes = bytes(kCodes),
                      .raw = bytes(kRaw),
                      .patches = reinterpret_cast<const uint16_t*>(bytes(kPatches)),
                      .row_segments = static_cast<int>(row_segments(view.shape.cols, shape.symbol_cols)),
                      .tile_segments = shape.tile_cols / segment_cols(shape.symbol_cols)},
          .entries = 1 << shape.table_bits,
          .lowest = shape.lowest,
          .row_groups = row_groups(view.shape.rows),
          .rows = view.shape.rows,
          .cols = static_cast<int>(view.shape.cols),
          .column_tiles = static_cast<int>(column_tiles(view.shape.cols, shape.tile_cols))};
}

// Whether the elements are bf16; those products are `matmul`.
bool has_floats(const codecs::CompressedView& view) { return view.type == datasets::ElementType::bf16; }

// What a tuning asks for: waves of 32 lanes a block, tiles a worker, copies of the table at most, blocks that shall fit on a
// multiprocessor, early launches.
struct Wish {
  int workers, tiles, copies, blocks;
  bool early;
};
constexpr Wish kWishes[] = {{32, 1, 32, 1, true}, {16, 2, 32, 1, true}, {16, 1, 8, 2, true}, {32, 1, 32, 1, false}, {16, 1, 32, 1, true}};
constexpr Wish kDecodeWish{16, 1, 1, 1, false};

// Of shared memory, that every block needs besides its own.
constexpr int64_t kSystemBytes = 1024;

// What a kernel keeps of x in shared memory, in bytes a column. Sums of floats are each worker's own.
enum class Inputs { none = 0, int8 = 1, float32 = 4 };

// The table gets as many copies as fit beside the rings and x; 0 workers if not even one does.
Plan plan_of(const Wish& wish, const Shape& shape, datasets::Shape matrix, Inputs inputs, int64_t block_bytes) {
  const int64_t shared_bytes = (block_bytes + kSystemBytes) / wish.blocks - kSystemBytes;
  const int64_t tiles = column_tiles(matrix.cols, shape.tile_cols), input_bytes = static_cast<int>(inputs) * row_segments(matrix.cols, shape.symbol_cols) * segment_cols(shape.symbol_cols);
  // Pairs of words are loaded by halves of 32 lanes.
  const int most_copies = shape.symbol_cols == 8 ? std::min(wish.copies, kLanes / 2) : wish.copies;
  Plan plan{};
  for (int workers = wish.workers; workers >= 2; workers /= 2) {
    int of_rows = 1;
    while (of_rows * 2 <= workers && of_rows < tiles && workers % (of_rows * 2) == 0) of_rows *= 2;
    const int64_t rings = int64_t{workers} * wish.tiles * kRingBytes, sums = (int64_t{workers} / (inputs == Inputs::float32 ? 1 : of_rows) * wish.tiles * kLanes * 4 + 16) / 16 * 16;
    for (int copies = most_copies; copies >= 1; copies /= 2) {
      const int64_t table = (int64_t{4} * entry_words(shape.symbol_cols) << shape.table_bits) * copies;
      if (table + rings + sums + input_bytes > shared_bytes) continue;
      plan.copies = copies;
      while (1 << plan.copy_shift < copies) ++plan.copy_shift;
      plan.workers = workers;
      plan.workers_of_rows = of_rows;
      plan.rings = static_cast<int>(table);
      plan.sums = static_cast<int>(table + rings);
      plan.inputs = static_cast<int>(table + rings + sums);
      plan.bytes = static_cast<int>(table + rings + sums + input_bytes);
      return plan;
    }
  }
  return plan;
}

template <int kValue>
using Constant = std::integral_constant<int, kValue>;

// Calls f(columns of a symbol, raw bits, symbols a window), all constants.
template <typename F>
void with_shape(const Shape& shape, F f) {
  const auto with_window = [&](auto symbol_cols, auto raw_bits) {
    if constexpr (raw_bits > most_raw_bits(symbol_cols)) {
      return;
    } else if constexpr (most_table_bits(symbol_cols) <= 10) {
      f(symbol_cols, raw_bits, Constant<3>{});
    } else {
      if (shape.table_bits <= 10) return f(symbol_cols, raw_bits, Constant<3>{});
      f(symbol_cols, raw_bits, Constant<2>{});
    }
  };
  const auto with_raw = [&](auto symbol_cols) {
    switch (shape.raw_bits) {
      case 0: return with_window(symbol_cols, Constant<0>{});
      case 1: return with_window(symbol_cols, Constant<1>{});
      case 2: return with_window(symbol_cols, Constant<2>{});
      case 3: return with_window(symbol_cols, Constant<3>{});
      case 4: return with_window(symbol_cols, Constant<4>{});
      case 5: return with_window(symbol_cols, Constant<5>{});
      case 6: return with_window(symbol_cols, Constant<6>{});
      case 7: return with_window(symbol_cols, Constant<7>{});
    }
  };
  switch (shape.symbol_cols) {
    case 2: return with_raw(Constant<2>{});
    case 4: return with_raw(Constant<4>{});
    case 8: return with_raw(Constant<8>{});
  }
}

// The same of bf16 elements.
template <typename F>
void with_float_shape(const Shape& shape, F f) {
  const auto with_window = [&](auto symbol_cols) {
    constexpr Constant<float_raw_bits(symbol_cols)> kBits;
    if (shape.table_bits <= 10) return f(symbol_cols, kBits, Constant<3>{});
    f(symbol_cols, kBits, Constant<2>{});
  };
  if (shape.symbol_cols == 2) return with_window(Constant<2>{});
  with_window(Constant<4>{});
}

template <int kTiles, int kMostThreads>
void launch_tiles(const backends::KernelCall& call, const Shape& shape, const Plan& plan, bool early) {
  const Matrix matrix = matrix_of(*call.matrix, shape);
  const int64_t rows_of_block = int64_t{plan.workers} / plan.workers_of_rows * kTiles * kLanes;
  const gpu::LaunchShape launch_shape{(matrix.rows + rows_of_block - 1) / rows_of_block, plan.workers * kLanes, plan.bytes, early && gpu::have_early_launches(*call.device)};
  with_shape(shape, [&](auto symbol_cols, auto raw_bits, auto symbols) {
    gpu::launch(matvec<decltype(symbol_cols)::value, decltype(raw_bits)::value, decltype(symbols)::value, kTiles, kMostThreads>, launch_shape, call.stream, matrix, plan, Hidden{}, call.x,
                gpu::epilogue_of(call));
  });
}

void launch_matvec(const backends::KernelCall& call) {
  const Shape shape = shape_of(*call.matrix);
  const Wish& wish = kWishes[call.tuning];
  const Plan plan = plan_of(wish, shape, call.matrix->shape, Inputs::int8, call.device->shared_bytes);
  if (wish.tiles == 2)
    launch_tiles<2, 512>(call, shape, plan, wish.early);
  else if (wish.workers * wish.blocks <= 16)  // with twice the registers
    launch_tiles<1, 512>(call, shape, plan, wish.early);
  else
    launch_tiles<1, 1024>(call, shape, plan, wish.early);
}

// Waves of 32 lanes a block, and copies of the table at most.
constexpr Wish kMatmulWishes[] = {{16, 1, 32, 1, true}, {32, 1, 32, 1, true}, {8, 1, 32, 2, true}, {16, 1, 32, 1, false}};
constexpr backends::Tuning kMatmulTunings[] = {{"waves16"}, {"waves32"}, {"waves8_fit2"}, {"waves16_in_order"}};

// Token by token: one is what the kernel is for.
void launch_matmul(const backends::KernelCall& call) {
  const Shape shape = shape_of(*call.matrix);
  const Wish& wish = kMatmulWishes[call.tuning];
  const Plan plan = plan_of(wish, shape, call.matrix->shape, Inputs::float32, call.device->shared_bytes);
  const Matrix matrix = matrix_of(*call.matrix, shape);
  const int64_t rows_of_block = int64_t{plan.workers} / plan.workers_of_rows * kLanes;
  const gpu::LaunchShape launch_shape{(matrix.rows + rows_of_block - 1) / rows_of_block, plan.workers * kLanes, plan.bytes, wish.early && gpu::have_early_launches(*call.device)};
  with_float_shape(shape, [&](auto symbol_cols, auto raw_bits, auto symbols) {
    const auto launch_with = [&](auto kernel) {
      for (int token = 0; token < call.batch; ++token) gpu::launch(kernel, launch_shape, call.stream, matrix, plan, Hidden{}, gpu::tokens_of(call), token);
    };
    if (plan.workers <= 16)
      launch_with(matmul<decltype(symbol_cols)::value, decltype(raw_bits)::value, decltype(symbols)::value, 512>);
    else
      launch_with(matmul<decltype(symbol_cols)::value, decltype(raw_bits)::value, decltype(symbols)::value, 1024>);
  });
}

void launch_decode(const backends::KernelCall& call) {
  const Shape shape = shape_of(*call.matrix);
  const Matrix matrix = matrix_of(*call.matrix, shape);
  const Plan plan = plan_of(kDecodeWish, shape, call.matrix->shape, Inputs::none, call.device->shared_bytes);
  const int64_t blocks = (matrix.row_groups * matrix.column_tiles + plan.workers - 1) / plan.workers;
  const gpu::LaunchShape launch_shape{std::min<int64_t>(blocks, call.device->compute_units), plan.workers * kLanes, plan.bytes};
  if (has_floats(*call.matrix))
    return with_float_shape(shape, [&](auto symbol_cols, auto raw_bits, auto symbols) {
      gpu::launch(decode_floats<decltype(symbol_cols)::value, decltype(raw_bits)::value, decltype(symbols)::value>, launch_shape, call.stream, matrix, plan, Hidden{},
                  reinterpret_cast<uint16_t*>(call.decoded));
    });
  with_shape(shape, [&](auto symbol_cols, auto raw_bits, auto symbols) {
    gpu::launch(decode<decltype(symbol_cols)::value, decltype(raw_bits)::value, decltype(symbols)::value>, launch_shape, call.stream, matrix, plan, Hidden{}, call.decoded);
  });
}

std::string refuses_wish(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, const Wish& wish, Inputs inputs) {
  if (inputs != Inputs::none && has_floats(matrix) != (inputs == Inputs::float32)) return inputs == Inputs::int8 ? "The kernel multiplies int8 elements." : "The kernel multiplies bf16 elements.";
  if (matrix.shape.cols > (int64_t{1} << 19)) return "The kernel's sums are larger than the product's until they are corrected, and need int32: at most 2^19 columns.";
  if (plan_of(wish, shape_of(matrix), matrix.shape, inputs, device.shared_bytes).workers == 0)
    return "The table, the rings of two waves and the vector do not fit the shared memory of a thread block.";
  return "";
}

// All layers of a chain in one launch, if they are coded alike; their tables may be of different sizes.
using Calls = std::span<const backends::KernelCall>;

constexpr Wish kChainWishes[] = {{32, 1, 32, 1, false}, {16, 1, 32, 1, false}};
constexpr backends::Tuning kChainTunings[] = {{"waves32"}, {"waves16"}, {"waves16_ahead"}};
// The last tuning is the kernel of ahead_gpu.h.
constexpr int kAheadTuning = 2, kAheadWorkers = 16;

std::string refuses_ahead(const Shape& shape, datasets::Shape matrix, const backends::DeviceInfo& device) {
  if (!gpu::have_bulk_copies(device)) return "Decoding ahead of the vector needs bulk copies to shared memory, which NVIDIA devices have since sm_90.";
  if (shape.symbol_cols != 8 || shape.tile_cols != kAheadCols) return "Decoding ahead of the vector takes tiles of one segment: 256 columns, 8 a symbol.";
  if (column_tiles(matrix.cols, kAheadCols) > kAheadWorkers || row_groups(matrix.rows) > device.compute_units)
    return "Decoding ahead of the vector is for layers of at most 4096 columns and 32 rows for each multiprocessor.";
  return "";
}

bool alike(const Shape& a, const Shape& b) { return a.symbol_cols == b.symbol_cols && a.raw_bits == b.raw_bits && (a.table_bits <= 10) == (b.table_bits <= 10); }

// What the launches of a chain have in common. Not possible where layers are coded differently or do not fit together: then they are launched one
// by one.
struct ChainLaunch {
  bool possible = false;
  Shape shape{};     // of the layer with the largest table
  Plan plan{};       // for the largest of everything
  int64_t blocks = 1, words = 0;
  std::vector<ChainLayer> layers;
};

// Alike layers that are all fit for it; as many copies of the table as fit beside them, their tiles and their descriptions.
void plan_ahead(Calls calls, ChainLaunch& launch) {
  int64_t most_cols = 0;
  for (const backends::KernelCall& call : calls) {
    const Shape shape = shape_of(*call.matrix);
    launch.possible = launch.possible && refuses_ahead(shape, call.matrix->shape, *call.device).empty();
    most_cols = std::max(most_cols, call.matrix->shape.cols);
    launch.layers.push_back({.matrix = matrix_of(*call.matrix, shape), .epilogue = gpu::epilogue_of(call), .parts = 1, .workers_of_rows = kAheadWorkers, .rounds = 1});
  }
  const int64_t tiles = column_tiles(most_cols, kAheadCols);
  const int workers = static_cast<int>(tiles + tiles % 2);  // whole waves of 64 lanes
  int64_t table = 0, rings = 0, inputs = 0, bytes = 0;
  int copies = kLanes;
  do {
    copies /= 2;
    table = 2 * (int64_t{4} * entry_words(8) << launch.shape.table_bits) * copies;
    rings = int64_t{workers} * ahead_bytes(launch.shape.raw_bits), inputs = tiles * kAheadCols;
    bytes = table + rings + inputs + kAheadLayers + stored_layers_bytes(calls.size());
  } while (bytes > calls.front().device->shared_bytes && copies > 1);
  launch.possible = launch.possible && bytes <= calls.front().device->shared_bytes;
  Plan& plan = launch.plan;
  plan = {.copies = copies, .copy_shift = 0, .workers = workers, .workers_of_rows = workers, .rings = static_cast<int>(table), .sums = static_cast<int>(table + rings + inputs),
          .inputs = static_cast<int>(table + rings), .bytes = static_cast<int>(bytes)};
  while (1 << plan.copy_shift < copies) ++plan.copy_shift;
}

ChainLaunch plan_chain(Calls calls) {
  const backends::DeviceInfo& device = *calls.front().device;
  ChainLaunch launch{.possible = true, .shape = shape_of(*calls.front().matrix)};
  datasets::Shape largest = calls.front().matrix->shape;
  int64_t most_rows = 0;
  for (const backends::KernelCall& call : calls) {
    const Shape shape = shape_of(*call.matrix);
    launch.possible = launch.possible && alike(shape, launch.shape) && call.matrix->shape.elements() > 0;
    launch.shape.table_bits = std::max(launch.shape.table_bits, shape.table_bits);
    launch.blocks = std::max(launch.blocks, std::min<int64_t>(device.compute_units, row_groups(call.matrix->shape.rows)));
    launch.words = std::max(launch.words, row_groups(call.matrix->shape.rows) * kWordsOfGroup);
    largest.cols = std::max(largest.cols, call.matrix->shape.cols);
  }
  if (calls.front().tuning == kAheadTuning) {
    plan_ahead(calls, launch);
    return launch;
  }
  const Wish& wish = kChainWishes[calls.front().tuning];
  for (int workers = wish.workers; launch.possible; workers /= 2) {
    launch.layers.clear();
    most_rows = 0;
    for (const backends::KernelCall& call : calls) {
      const Shape shape = shape_of(*call.matrix);
      ChainLayer layer{.matrix = matrix_of(*call.matrix, shape), .epilogue = gpu::epilogue_of(call), .parts = 1, .workers_of_rows = 1, .rounds = 1};
      while (layer.workers_of_rows * 2 <= workers && layer.workers_of_rows < layer.matrix.column_tiles) layer.workers_of_rows *= 2;
      const int64_t groups = layer.matrix.row_groups;
      layer.parts = static_cast<int>(std::min<int64_t>(workers / layer.workers_of_rows, (groups + launch.blocks - 1) / launch.blocks));
      layer.rounds = static_cast<int>((groups + launch.blocks * layer.parts - 1) / (launch.blocks * layer.parts));
      most_rows = std::max<int64_t>(most_rows, int64_t{layer.rounds} * layer.parts * kLanes);
      launch.layers.push_back(layer);
    }
    launch.plan = plan_of({workers, 1, wish.copies, 1, false}, launch.shape, largest, Inputs::int8, device.shared_bytes - chain_bytes(most_rows));
    if (launch.plan.workers == workers) break;
    launch.possible = workers > 2;
  }
  // The sums and descriptions of a chain are behind what the plan has.
  launch.plan.sums = launch.plan.bytes;
  launch.plan.bytes += chain_bytes(most_rows);
  return launch;
}

int64_t chain_scratch_bytes(Calls calls) {
  const ChainLaunch launch = plan_chain(calls);
  return gpu::Exchange::bytes(launch.words) + stored_layers_bytes(calls.size());
}

void prepare_chain(Calls calls) {
  const ChainLaunch launch = plan_chain(calls);
  if (!launch.possible) return;
  std::vector<std::byte> stored(static_cast<size_t>(stored_layers_bytes(calls.size())));
  for (size_t i = 0; i < calls.size(); ++i) std::memcpy(stored.data() + i * kStoredLayerBytes, &launch.layers[i], sizeof(ChainLayer));
  const backends::KernelCall& first = calls.front();
  gpu::Exchange::clear(first.scratch, launch.words, first.stream);
  gpu::store_on_stream(first.scratch + gpu::Exchange::bytes(launch.words), stored.data(), static_cast<int64_t>(stored.size()), first.stream);
}

void launch_chain(Calls calls) {
  const ChainLaunch launch = plan_chain(calls);
  if (!launch.possible) {
    for (backends::KernelCall call : calls) {
      call.tuning = 0;
      launch_matvec(call);
    }
    return;
  }
  const backends::KernelCall& first = calls.front();
  with_shape(launch.shape, [&](auto symbol_cols, auto raw_bits, auto symbols) {
    const auto launch_with = [&](auto kernel) {
      gpu::launch(kernel, {.grid = launch.blocks, .block = launch.plan.workers * kLanes, .shared_bytes = launch.plan.bytes, .together = true}, first.stream,
                  gpu::cast<const std::byte>(first.scratch + gpu::Exchange::bytes(launch.words)), static_cast<int>(calls.size()), gpu::Exchange(first.scratch, launch.words),
                  first.x, launch.plan, Hidden{});
    };
    if constexpr (symbol_cols == 8) {
      if (first.tuning == kAheadTuning) return launch_with(chain_ahead<decltype(raw_bits)::value, decltype(symbols)::value>);
    }
    // Half the waves have twice the registers each.
    if (launch.plan.workers <= 16)
      launch_with(chain<decltype(symbol_cols)::value, decltype(raw_bits)::value, decltype(symbols)::value, 512>);
    else
      launch_with(chain<decltype(symbol_cols)::value, decltype(raw_bits)::value, decltype(symbols)::value, 1024>);
  });
}

std::string refuses_decode(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int) { return refuses_wish(matrix, device, kDecodeWish, Inputs::none); }
std::string refuses_matvec(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int tuning) {
  return refuses_wish(matrix, device, kWishes[tuning], Inputs::int8);
}

// Waves a block, tiles a wave where two, blocks that fit on a multiprocessor where several.
constexpr backends::Tuning kTunings[] = {{"waves32"}, {"waves16_tiles2"}, {"waves16_fit2"}, {"waves32_in_order"}, {"waves16"}};

std::string refuses_chain(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int tuning) {
  if (tuning == kAheadTuning) {
    const std::string refused = refuses_ahead(shape_of(matrix), matrix.shape, device);
    return refused.empty() ? refuses_wish(matrix, device, kWishes[0], Inputs::int8) : refused;
  }
  return refuses_wish(matrix, device, kChainWishes[tuning], Inputs::int8);
}

int largest_stand_in(const codecs::CompressedView& matrix) { return std::to_integer<int>(matrix.sections[kHeader].host[kHeaderBytes]); }
std::string refuses_matmul(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int tuning) {
  const std::string refused = refuses_wish(matrix, device, kMatmulWishes[tuning], Inputs::float32);
  if (refused.empty() && largest_stand_in(matrix) == 255) return "What stands in for an exponent of this matrix is infinite, and would have to be taken away again.";
  return refused;
}
// What stands in for an exponent is multiplied too, and taken away again.
backends::ProductRounding rounding(const codecs::CompressedView& matrix, int) {
  const int largest = largest_stand_in(matrix);
  return {.more_roundings = largest == 0 ? 0 : static_cast<int>(2 * matrix.shape.cols), .offset = largest == 0 ? 0.0 : std::ldexp(2.0, largest + 1 - 127)};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "rings", .tunings = backends::kDefaultTuning, .refuses = refuses_decode, .launch = launch_decode},
    {.op = backends::Op::matvec, .variant = "rings", .tunings = kTunings, .refuses = refuses_matvec, .launch = launch_matvec},
    {.op = backends::Op::matvec, .variant = "chain", .tunings = kChainTunings, .refuses = refuses_chain, .chain_scratch_bytes = chain_scratch_bytes, .prepare_chain = prepare_chain,
     .launch_chain = launch_chain},
    {.op = backends::Op::matmul, .variant = "rings", .tunings = kMatmulTunings, .refuses = refuses_matmul, .rounding = rounding, .launch = launch_matmul},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
