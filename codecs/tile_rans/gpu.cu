// GPU kernels of tile_rans. A thread block of 16 workers (32 lanes each; fewer where shared memory is small) has a strip of tile rows and walks its
// columns: the workers decode panels of 32 tiles to shared memory (coders_gpu.h), then multiply them, a worker 16 rows and a part of the
// columns with all tokens at once, and again. Tokens are digits of a fixed point number (digits_gpu.h), made by a launch before, so the products are those
// of bytes on matrix units and their sums exact integers: no order of adding matters, and splits of the columns over thread blocks (where
// there are few strips) are added up by a third launch. All coders run through these loops.
#include <algorithm>
#include <span>
#include <string>
#include <type_traits>

#include "backends/gpu/matrix_units.h"
#include "codecs/tile_rans/coders_gpu.h"
#include "codecs/tile_rans/digits_gpu.h"
#include "codecs/tile_rans/format.h"
#include "codecs/tile_rans/levels.h"

namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE {
namespace {

constexpr int kMostThreads = kMostWorkers * kLanes;
constexpr int kMostOperands = 12;  // of a worker: 32 tokens

// Where results go: to y, or, of splits, to sums [splits][columns][rows].
struct Output {
  gpu::TokenView tokens;
  Dequantise dequantise;
  gpu::Pointer<int32_t> sums;
  int splits;
};

// The columns of tiles that a block walks, `slots` at a time.
struct Walk {
  int first, end;
  int worker, slots, tile_shift, steps;  // a tile has 2^tile_shift steps

  // The worker's tiles of the round from `base`. Behind the end the last tile is there again, and nobody uses its operands.
  template <int kTiles>
  ECMV_GPU_DEVICE Round<kTiles> round(int base) const {
    Round<kTiles> round;
    const int first_tile = base + worker * kTiles;
    ECMV_GPU_UNROLL
    for (int i = 0; i < kTiles; ++i) {
      round.across[i] = first_tile + i < end ? first_tile + i : first_tile;
      round.first[i] = round.across[i] << tile_shift;
      round.after[i] = round.across[i] + slots < end ? (round.across[i] + slots) << tile_shift : steps;
    }
    return round;
  }
};

ECMV_GPU_DEVICE Strip strip_of(const Stream& stream, int64_t down, int panels) {
  const int64_t rows = stream.rows - down * panels * kPanelRows;
  return {down, rows < panels * kPanelRows ? static_cast<int>((rows + kPanelRows - 1) / kPanelRows) : panels, down * panels * int64_t{stream.steps}, gpu::cast<gpu::uint4>(gpu::shared_memory())};
}

// A block's shared memory: operands, what the workers have for themselves, levels of the decode kernel, the table at a multiple of its size.
template <class Coder>
ECMV_GPU_BOTH int levels_place(int workers) {
  return workers * (kWorkerPanels * kPanelBytes + static_cast<int>(Coder::kSharedBytes));
}
template <class Coder>
ECMV_GPU_DEVICE gpu::SharedAddress table_of(const Stream& stream, int workers) {
  const gpu::SharedAddress end(gpu::shared_memory() + (levels_place<Coder>(workers) + 4 * kLevels));
  return stream.table_bytes > 0 ? end.aligned(stream.table_bytes) : end;
}

// Adds the sums of the workers that have operands from `first_operand` on, in shared memory, and stores the results of their tokens.
template <int kOperands>
ECMV_GPU_DEVICE void store_sums(const int32_t (&sums)[kOperands][4], bool has_them, int first_operand, int panels, int rg, int64_t first_row, int split, const Output& output) {
  constexpr int kStride = kOperands * kUnitColumns + 1, kTokens = kOperands * kUnitColumns / kDigits;
  const gpu::Pointer<int32_t> shared = gpu::cast<int32_t>(gpu::shared_memory());
  const int rows = panels * kPanelRows;
  for (int i = gpu::thread_index(); i < rows * kStride; i += gpu::block_size()) shared[i] = 0;
  gpu::sync_block();
  if (has_them) {
    ECMV_GPU_UNROLL
    for (int operand = 0; operand < kOperands; ++operand) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int row = rg * kPanelRows + Worker::lane() / 4 + i / 2 * 8, column = operand * kUnitColumns + Worker::lane() % 4 * 2 + i % 2;
        gpu::atomic_add(shared + (row * kStride + column), sums[operand][i]);
      }
    }
  }
  gpu::sync_block();
  const int first_token = first_operand * kUnitColumns / kDigits, tokens = output.tokens.batch - first_token < kTokens ? output.tokens.batch - first_token : kTokens;
  const int columns = output.tokens.batch * kDigits;
  for (int i = gpu::thread_index(); i < rows * tokens; i += gpu::block_size()) {
    const int row = i % rows, token = i / rows;
    if (first_row + row >= output.tokens.rows) continue;
    const gpu::Pointer<const int32_t> digits = shared + (row * kStride + token * kDigits);
    if (output.splits == 1) {
      output.tokens.store(first_row + row, first_token + token, output.dequantise.value(first_token + token, digits[0], digits[1], digits[2]));
    } else {
      ECMV_GPU_UNROLL
      for (int digit = 0; digit < kDigits; ++digit)
        output.sums[(int64_t{split} * columns + (first_token + token) * kDigits + digit) * output.tokens.rows + first_row + row] = digits[digit];
    }
  }
  gpu::sync_block();
}

// Blocks that shall fit on a multiprocessor: registers are chosen so.
template <class Coder, int kOperands>
constexpr int blocks_of(int threads) {
  return threads < kMostThreads ? 3 : kOperands <= Coder::kSmallOperands ? 2 : 1;
}

// Y = W X, or the sums of a split of the columns.
// `halves`: 2 where operands are too many for the registers of a worker, which then has one half of them and twice the columns.
template <class Coder, int kPanels, int kOperands, int kThreads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kThreads, (blocks_of<Coder, kOperands>(kThreads))) void matmul(Stream stream, int workers, int halves, gpu::Pointer<const gpu::uint2> digits, Output output) {
  // Between two barriers a worker decodes kWorkerPanels panels, and multiplies as many: those of a row of panels in kWorkerPanels columns.
  static_assert(Coder::kTiles * Coder::kSteps * kPanels == kWorkerPanels);
  const int slots = workers * Coder::kTiles;
  const int worker = Worker::uniform(Worker::group()), rg = worker % kPanels, half = worker / kPanels % halves, part = worker / kPanels / halves, split = static_cast<int>(gpu::block_index() % output.splits);
  const Strip strip = strip_of(stream, gpu::block_index() / output.splits, kPanels);
  const Walk walk{stream.tiles_across * split / output.splits, stream.tiles_across * (split + 1) / output.splits, worker, slots, stream.tile_shift, stream.steps};
  const gpu::SharedAddress table = table_of<Coder>(stream, workers);
  Coder coder(stream, strip, workers * kWorkerPanels * kPanelBytes + worker * static_cast<int>(Coder::kSharedBytes), table);
  gpu::let_next_begin();
  Coder::fill_table(stream, table);
  auto round = walk.round<Coder::kTiles>(walk.first);
  if (round.across[0] < walk.end) coder.begin(round, true);
  gpu::sync_block();
  gpu::wait_for_previous();

  int32_t sums[kOperands][4] = {};
  int32_t other_sums[4] = {};  // with one operand, so that not every product waits for the one before
  for (int base = walk.first; base < walk.end; base += slots) {
    if (base != walk.first) {
      round = walk.round<Coder::kTiles>(base);
      if (round.across[0] < walk.end) coder.begin(round, false);
    }
    ECMV_GPU_NO_UNROLL
    for (int step = 0; step < stream.tile_steps; step += Coder::kSteps) {
      if (round.across[0] < walk.end && round.first[0] + step < stream.steps) coder.decode(round, step, worker * Coder::kTiles);
      // The columns of panels of this worker's part: every `distance` steps from the first on, up to the end of the walk or of the matrix.
      const int columns = kOperands == 1 ? kWorkerPanels : kWorkerPanels * halves, column = part * columns, distance = Coder::kSteps == 1 ? stream.tile_steps : 1;
      const int first = (base + column / Coder::kSteps) * stream.tile_steps + step + column % Coder::kSteps;
      const int room = (walk.end * stream.tile_steps < stream.steps ? walk.end * stream.tile_steps : stream.steps) - first;
      const gpu::Pointer<const gpu::uint4> operands = strip.operands + (column * kPanels + rg) * kLanes + Worker::lane();
      // Inputs of a column of panels; zeros for what was not decoded. Those of the next one are on their way while one is multiplied.
      gpu::Pointer<const gpu::uint2> inputs = digits + ((int64_t{first} * halves + half) * (kOperands * kLanes) + Worker::lane());
      const int next_inputs = distance * halves * kOperands * kLanes;
      int left = room;
      const auto load_inputs = [&](gpu::uint2 (&input)[kOperands]) {
        ECMV_GPU_UNROLL
        for (int operand = 0; operand < kOperands; ++operand) {
          input[operand] = gpu::uint2{};
          if (left > 0) input[operand] = inputs[operand * kLanes];
        }
        inputs += next_inputs;
        left -= distance;
      };
      if constexpr (kOperands == 1) {
        gpu::uint2 input[kWorkerPanels][1];
        ECMV_GPU_UNROLL
        for (int i = 0; i < kWorkerPanels; ++i) load_inputs(input[i]);
        gpu::sync_block();
        ECMV_GPU_UNROLL
        for (int i = 0; i < kWorkerPanels; ++i) gpu::multiply_panels(operands[i * kPanels * kLanes], input[i][0], i % 2 == 0 ? sums[0] : other_sums);
      } else {
        gpu::uint2 input[2][kOperands];
        load_inputs(input[0]);
        gpu::sync_block();
        ECMV_GPU_NO_UNROLL
        for (int i = 0; i < columns; i += 2)
          ECMV_GPU_UNROLL
          for (int odd = 0; odd < 2; ++odd) {
            const gpu::uint4 weights = operands[(i + odd) * kPanels * kLanes];
            load_inputs(input[1 - odd]);
            ECMV_GPU_UNROLL
            for (int operand = 0; operand < kOperands; ++operand) gpu::multiply_panels(weights, input[odd][operand], sums[operand]);
          }
      }
      gpu::sync_block();
    }
  }
  ECMV_GPU_UNROLL
  for (int i = 0; i < 4; ++i) sums[0][i] += other_sums[i];
  const int64_t first_row = strip.down * kPanels * kPanelRows;
  for (int i = 0; i < halves; ++i) store_sums(sums, half == i, i * kOperands, kPanels, rg, first_row, split, output);
}

// Adds up the splits' sums.
ECMV_GPU_KERNEL void add_splits(Output output) {
  gpu::let_next_begin();
  gpu::wait_for_previous();
  const int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index(), rows = output.tokens.rows;
  if (i >= rows * output.tokens.batch) return;
  const int token = static_cast<int>(i / rows);
  int64_t digits[kDigits] = {};
  for (int split = 0; split < output.splits; ++split)
    ECMV_GPU_UNROLL
    for (int digit = 0; digit < kDigits; ++digit)
      digits[digit] += output.sums[(int64_t{split} * output.tokens.batch * kDigits + token * kDigits + digit) * rows + i % rows];
  output.tokens.store(i % rows, token, output.dequantise.value(token, digits[0], digits[1], digits[2]));
}

ECMV_GPU_KERNEL void store_zeros(gpu::TokenView tokens) {
  const int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (i < tokens.rows * tokens.batch) tokens.y[i] = 0;
}

struct LevelBits {
  uint32_t bits[kLevels];
};

// The elements: each worker decodes and stores its own tiles.
template <class Coder, int kPanels, typename Element>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void decode(Stream stream, int workers, LevelBits levels, gpu::Pointer<Element> decoded) {
  const int slots = workers * Coder::kTiles;
  const int worker = Worker::uniform(Worker::group());
  const Strip strip = strip_of(stream, gpu::block_index(), kPanels);
  const Walk walk{0, stream.tiles_across, worker, slots, stream.tile_shift, stream.steps};
  const gpu::SharedAddress table = table_of<Coder>(stream, workers);
  const gpu::Pointer<uint32_t> values = gpu::cast<uint32_t>(gpu::shared_memory() + levels_place<Coder>(workers));
  Coder coder(stream, strip, workers * kWorkerPanels * kPanelBytes + worker * static_cast<int>(Coder::kSharedBytes), table);
  Coder::fill_table(stream, table);
  if (gpu::thread_index() == 0)
    ECMV_GPU_UNROLL
    for (int s = 0; s < kLevels; ++s) values[s] = levels.bits[s];
  gpu::sync_block();
  for (int base = 0; base < walk.end; base += slots) {
    const auto round = walk.round<Coder::kTiles>(base);
    if (round.across[0] >= walk.end) break;
    coder.begin(round, base == 0);
    for (int step = 0; step < stream.tile_steps && round.first[0] + step < stream.steps; step += Coder::kSteps) {
      coder.decode(round, step, worker * Coder::kTiles);
      Worker::sync();
      for (int column = 0; column < Coder::kTiles * Coder::kSteps; ++column) {
        const int64_t tile = base + worker * Coder::kTiles + column / Coder::kSteps, first_col = (tile * stream.tile_steps + step + column % Coder::kSteps) * kPanelCols;
        if (tile >= walk.end) continue;
        for (int rg = 0; rg < strip.panels_down; ++rg) {
          const gpu::Pointer<const uint8_t> bytes = gpu::cast<const uint8_t>(strip.operands + (((worker * Coder::kTiles * Coder::kSteps + column) * kPanels + rg) * kLanes));
          for (int row = 0; row < kPanelRows; ++row) {  // a lane a column
            const int64_t at = strip.down * kPanels * kPanelRows + rg * kPanelRows + row, col = first_col + Worker::lane();
            if (at < stream.rows && col < stream.cols)
              decoded[at * stream.cols + col] = static_cast<Element>(values[bytes[place_in_panel(row, Worker::lane())]]);
          }
        }
      }
      Worker::sync();
    }
  }
}

constexpr int64_t kMostCols = int64_t{1} << 19;
constexpr int64_t kReservedBytes = 1024;
constexpr int kMostSplits = 8, kMostTableBits = 14;  // 64 KiB of a table and its copies
constexpr int64_t kDigitSharedBytes = 512;

template <int kValue>
using Constant = std::integral_constant<int, kValue>;

// Calls f(a coder's type, panels of a tile's column).
template <typename F>
void with_coder(const Layout& layout, F f) {
  const auto with_panels = [&](auto panels) {
    if (layout.coder == Coder::packed) return f(std::type_identity<PackedTiles<panels>>{}, panels);
    if (layout.coder == Coder::rans_lanes && layout.symbol_cols == 2) return f(std::type_identity<LaneTiles<panels, 2>>{}, panels);
    if (layout.coder == Coder::rans_lanes) return f(std::type_identity<LaneTiles<panels, 4>>{}, panels);
    switch (layout.streams) {
      case 4: return f(std::type_identity<StreamTiles<panels, 4>>{}, panels);
      case 8: return f(std::type_identity<StreamTiles<panels, 8>>{}, panels);
      case 16: return f(std::type_identity<StreamTiles<panels, 16>>{}, panels);
      case 32: return f(std::type_identity<StreamTiles<panels, 32>>{}, panels);
      default: return f(std::type_identity<StreamTiles<panels, 64>>{}, panels);
    }
  };
  if (layout.tile_rows == 64) return with_panels(Constant<4>{});
  return with_panels(Constant<8>{});
}

// Calls f(operands of a worker).
template <typename F>
void with_operands(int batch, F f) {
  const int operands = operands_of(batch);
  if (operands <= 1) return f(Constant<1>{});
  if (operands <= 3) return f(Constant<3>{});
  if (operands <= 6) return f(Constant<6>{});
  return f(Constant<kMostOperands>{});
}

// What a tuning asks for.
struct Wish {
  int workers, blocks;  // of a block; on a multiprocessor
};
constexpr Wish kWishes[] = {{16, 1}, {8, 2}, {16, 2}, {8, 3}};
constexpr backends::Tuning kTunings[] = {{"waves16"}, {"waves8_twice"}, {"waves16_twice"}, {"waves8_thrice"}};
constexpr int64_t kSystemBytes = 1024;  // of shared memory that every block needs besides its own

// A block's workers and shared memory.
struct Plan {
  int workers = 0;  // 0: there is no room
  int copy_bits = 0, table_bytes = 0;
  int64_t shared_bytes = 0;
};

// As many workers as fit, then as many copies of the table. Sums take the place of everything in the end.
Plan plan_of(const Layout& layout, const Wish& wish, int64_t block_bytes) {
  const int64_t room = (block_bytes + kSystemBytes) / wish.blocks - kSystemBytes;
  int64_t own = 0;
  with_coder(layout, [&](auto coder, auto) { own = decltype(coder)::type::kSharedBytes; });
  const bool has_table = layout.coder == Coder::rans_lanes;
  for (int workers = wish.workers; workers * kPanelRows >= layout.tile_rows; workers /= 2)
    for (int bits = has_table ? kMostTableBits - layout.prob_bits : 0; bits >= 0; --bits) {
      const int64_t table = has_table ? int64_t{4} << (layout.prob_bits + bits) : 0, before = workers * (kWorkerPanels * kPanelBytes + own) + 4 * kLevels;
      // Shared memory begins up to kReservedBytes behind a multiple of everything.
      const int64_t needed = has_table ? (kReservedBytes + before + table - 1) / table * table + table : before;
      const int64_t shared = std::max(needed, layout.tile_rows * (kMostOperands * kUnitColumns + 1) * 4);
      if (shared <= room) return {workers, bits, static_cast<int>(table), shared};
    }
  return {};
}

Stream stream_of(const CompressedView& view, const Layout& layout, const Plan& plan) {
  Stream stream{};
  stream.tables = view.sections[kTables].bytes.data();
  stream.index = view.sections[kIndex].bytes.data();
  stream.codes = view.sections[kCodes].bytes.data();
  stream.raw = view.sections[kRaw].bytes.data();
  stream.last_chunk = static_cast<uint32_t>(view.sections[kCodes].bytes.size() / kCodesAlign - 1);
  stream.rows = layout.shape.rows;
  stream.cols = layout.shape.cols;
  stream.tiles_across = static_cast<int>(layout.tiles_across);
  stream.steps = static_cast<int>((layout.shape.cols + kPanelCols - 1) / kPanelCols);
  stream.tile_cols = static_cast<int>(layout.tile_cols);
  stream.tile_steps = static_cast<int>(layout.tile_cols / kPanelCols);
  while (1 << stream.tile_shift < stream.tile_steps) ++stream.tile_shift;
  stream.prob_bits = layout.prob_bits;
  stream.table_bytes = plan.table_bytes;
  stream.copy_bits = plan.copy_bits;
  return stream;
}

std::string refuses(const CompressedView& view, const backends::DeviceInfo& device, int tuning) {
  const Layout layout = layout_of(view.shape, *view.settings);
  if (layout.coder == Coder::rans && layout.tile_rows * layout.tile_cols != 4096) return "A worker has room for 4096 elements of interleaved streams, not for tiles of " + std::to_string(layout.tile_rows * layout.tile_cols) + ".";
  if (view.shape.cols > kMostCols) return "Sums of more than 2^19 columns may not fit int32.";
  if (kWishes[tuning].blocks == 3 && layout.coder != Coder::rans_lanes) return "Three thread blocks with few registers are for lanes with words of their own, coder=rans_lanes.";
  const Plan plan = plan_of(layout, kWishes[tuning], device.shared_bytes);
  if (plan.workers == 0) return "Operands, table and rings of the least number of waves need more shared memory than a thread block may have: " + std::to_string(device.shared_bytes) + " bytes.";
  if (kWishes[tuning].blocks > 1 && plan.workers < kWishes[tuning].workers && plan_of(layout, kWishes[0], device.shared_bytes).workers > plan.workers)
    return "The shared memory of two thread blocks has not room for as many waves as that of one.";
  return "";
}

// Splits of the columns, so that the blocks fill the device evenly; a block should have a tile for each of its slots.
int most_splits(const Layout& layout) { return static_cast<int>(std::clamp<int64_t>(512 / std::max<int64_t>(1, layout.tiles_down), 1, kMostSplits)); }
int splits_of(const Layout& layout, const Plan& plan, int blocks, const backends::DeviceInfo& device) {
  const int64_t slots = layout.coder == Coder::rans || layout.tile_rows == 128 ? plan.workers : 2 * plan.workers, units = std::max(1, device.compute_units * blocks);
  const auto use = [](int64_t work, int64_t places) { return static_cast<double>(work) / static_cast<double>((work + places - 1) / places * places); };
  int best = 1;
  double most = 0;
  for (int splits = 1; splits <= most_splits(layout) && splits <= layout.tiles_across; ++splits) {
    const double used = use(layout.tiles_down * splits, units) * use((layout.tiles_across + splits - 1) / splits, slots);
    if (used > most * 1.05) {
      best = splits;
      most = used;
    }
  }
  return best;
}

int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

int64_t scratch_bytes(const CompressedView& view, int) {
  const Layout layout = layout_of(view.shape, *view.settings);
  const int64_t sums = most_splits(layout) > 1 ? most_splits(layout) * view.shape.rows * backends::kMaxBatch * kDigits * 4 : 0;
  return aligned(operand_bytes(view.shape.cols, operands_of(backends::kMaxBatch))) + aligned(backends::kMaxBatch * 16) + sums;
}

// Fixed point moves an element of a token by at most 2^-22.98 of its largest, which is what float32 sums could lose (cols 2^-24) with elements
// 2.03 times the largest level beside the others.
backends::ProductRounding rounding(const CompressedView& view, int) {
  if (view.shape.elements() == 0) return {};
  return {.more_roundings = 1, .offset = 2.03 * trusted_levels(view.sections[kLayer].host).largest()};
}

constexpr int kStoreThreads = 256;
gpu::LaunchShape one_thread_each(int64_t count, bool early) { return {(count + kStoreThreads - 1) / kStoreThreads, kStoreThreads, 0, early}; }

// The tokens from `first` on, as many as the workers take at once; returns how many.
int launch_tokens(const backends::KernelCall& call, const Layout& layout, int first) {
  const Wish& wish = kWishes[call.tuning];
  const Plan plan = plan_of(layout, wish, call.device->shared_bytes);
  const bool has_halves = plan.workers * kPanelRows > layout.tile_rows;
  gpu::TokenView tokens = gpu::tokens_of(call);
  tokens.x += first * tokens.x_stride;
  tokens.y += first * tokens.rows;
  tokens.batch = std::min(call.batch - first, has_halves ? backends::kMaxBatch : kMostOperands * kUnitColumns / kDigits);
  const Levels levels = trusted_levels(call.matrix->sections[kLayer].host);
  const bool early = gpu::have_early_launches(*call.device);
  const Stream stream = stream_of(*call.matrix, layout, plan);
  const int64_t operands_at = aligned(operand_bytes(stream.cols, operands_of(backends::kMaxBatch)));
  const Digits digits{reinterpret_cast<gpu::uint2*>(call.scratch), reinterpret_cast<double*>(call.scratch + operands_at), reinterpret_cast<int64_t*>(call.scratch + operands_at + backends::kMaxBatch * 8)};
  const Output output{.tokens = tokens,
                      .dequantise = {static_cast<double>(levels.scale), levels.first, digits.units, digits.sums},
                      .sums = reinterpret_cast<int32_t*>(call.scratch + operands_at + aligned(backends::kMaxBatch * 16)),
                      .splits = splits_of(layout, plan, wish.blocks, *call.device)};
  with_operands(tokens.batch, [&](auto operands) {
    constexpr int kOperands = decltype(operands)::value;
    const int halves = operands_of(tokens.batch) > kOperands ? 2 : 1;
    gpu::launch(make_digits, {int64_t{tokens.batch} * kDigitParts, kDigitThreads, kDigitSharedBytes, early}, call.stream, tokens, stream.cols, kOperands * halves, digits);
    with_coder(layout, [&](auto coder, auto panels) {
      using Type = typename decltype(coder)::type;
      constexpr int kPanels = decltype(panels)::value;
      const gpu::LaunchShape launch_shape{layout.tiles_down * output.splits, plan.workers * kLanes, plan.shared_bytes, early};
      if constexpr (Type::kIsForThreeBlocks && kOperands <= 6) {
        if (wish.blocks == 3) return gpu::launch(matmul<Type, kPanels, kOperands, kMostThreads / 2>, launch_shape, call.stream, stream, plan.workers, halves, digits.operands, output);
      }
      gpu::launch(matmul<Type, kPanels, kOperands, kMostThreads>, launch_shape, call.stream, stream, plan.workers, halves, digits.operands, output);
    });
  });
  if (output.splits > 1) gpu::launch(add_splits, one_thread_each(tokens.rows * tokens.batch, early), call.stream, output);
  return tokens.batch;
}

void launch_matmul(const backends::KernelCall& call) {
  const Layout layout = layout_of(call.matrix->shape, *call.matrix->settings);
  const gpu::TokenView tokens = gpu::tokens_of(call);
  if (layout.tiles() == 0) return gpu::launch(store_zeros, one_thread_each(tokens.rows * tokens.batch, false), call.stream, tokens);
  for (int first = 0; first < call.batch;) first += launch_tokens(call, layout, first);
}

template <typename Element>
void launch_decode_as(const backends::KernelCall& call, const Layout& layout) {
  const Levels levels = trusted_levels(call.matrix->sections[kLayer].host);
  const Plan plan = plan_of(layout, kWishes[call.tuning], call.device->shared_bytes);
  const Stream stream = stream_of(*call.matrix, layout, plan);
  LevelBits bits{};
  for (int s = 0; s < kLevels; ++s) bits.bits[s] = exact_bits(levels.value(s), call.matrix->type);
  with_coder(layout, [&](auto coder, auto panels) {
    gpu::launch(decode<typename decltype(coder)::type, decltype(panels)::value, Element>, {layout.tiles_down, plan.workers * kLanes, plan.shared_bytes}, call.stream, stream, plan.workers, bits, reinterpret_cast<Element*>(call.decoded));
  });
}

void launch_decode(const backends::KernelCall& call) {
  const Layout layout = layout_of(call.matrix->shape, *call.matrix->settings);
  if (layout.tiles() == 0) return;
  switch (datasets::element_bytes(call.matrix->type)) {
    case 1: return launch_decode_as<uint8_t>(call, layout);
    case 2: return launch_decode_as<uint16_t>(call, layout);
    default: return launch_decode_as<uint32_t>(call, layout);
  }
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "panels", .tunings = backends::kDefaultTuning, .refuses = refuses, .launch = launch_decode},
    {.op = backends::Op::matmul, .variant = "panels", .tunings = kTunings, .refuses = refuses, .scratch_bytes = scratch_bytes, .rounding = rounding, .launch = launch_matmul},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE
