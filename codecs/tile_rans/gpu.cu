// GPU kernels of tile_rans: what to launch for which matrix, tuning and number of tokens (products_gpu.h has the products, panels_gpu.h, lanes_gpu.h,
// huffman_gpu.h and streams_gpu.h the coders), and the decode kernel. Three launches at most: tokens become digits, products, and, where the columns of a strip
// are split over thread blocks because there are few strips, the splits' sums are added up.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "codecs/tile_rans/digits_gpu.h"
#include "codecs/tile_rans/format.h"
#include "codecs/tile_rans/huffman_gpu.h"
#include "codecs/tile_rans/lanes_gpu.h"
#include "codecs/tile_rans/levels.h"
#include "codecs/tile_rans/products_gpu.h"
#include "codecs/tile_rans/streams_gpu.h"

namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE {
namespace {

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
  const gpu::Pointer<uint32_t> values = gpu::cast<uint32_t>(gpu::shared_memory() + stream.levels_place);
  Coder coder(stream, strip, stream.own_place + worker * stream.own_bytes, table_of(stream));
  if (gpu::thread_index() == 0)
    ECMV_GPU_UNROLL
    for (int s = 0; s < kLevels; ++s) values[s] = levels.bits[s];
  auto round = begin_block(coder, stream, walk);
  for (int base = 0; base < walk.end; base += slots) {
    next_round(coder, walk, base, round);
    if (round.across[0] >= walk.end) break;
    for (int step = 0; step < stream.tile_steps && round.first[0] + step < stream.steps; step += Coder::kSteps) {
      coder.decode(round, step, to_shared<Coder, kPanels>(worker));
      Worker::sync();
      for (int column = 0; column < Coder::kTiles * Coder::kSteps; ++column) {
        const int64_t tile = base + worker * Coder::kTiles + column / Coder::kSteps, first_col = (tile * stream.tile_steps + step + column % Coder::kSteps) * kPanelCols;
        if (tile >= walk.end) continue;
        for (int rg = 0; rg < strip.panels_down; ++rg) {
          const gpu::Pointer<const uint8_t> bytes = gpu::cast<const uint8_t>(gpu::shared_memory()) + ((worker * Coder::kTiles * Coder::kSteps + column) * kPanels + rg) * kPanelBytes;
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
constexpr int kMostSplits = 8, kMostCopiedBits = 14;  // 64 KiB of rans_lanes' table and its copies, twice that without operands
constexpr int kMostHuffmanCopies = 4;                 // as a power of two: 16, which 32 are not faster than and 8 by 2 % slower
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
    if (layout.coder == Coder::huffman_lanes && layout.table_bits <= 10) {
      if (layout.symbol_cols == 2) return f(std::type_identity<HuffmanTiles<panels, 2, 4>>{}, panels);
      return f(std::type_identity<HuffmanTiles<panels, 4, 4>>{}, panels);
    }
    if (layout.coder == Coder::huffman_lanes && layout.symbol_cols == 2) return f(std::type_identity<HuffmanTiles<panels, 2, 3>>{}, panels);
    if (layout.coder == Coder::huffman_lanes) return f(std::type_identity<HuffmanTiles<panels, 4, 3>>{}, panels);
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
  bool registers;       // for few tokens, multiplied where they are decoded
};
constexpr Wish kWishes[] = {{16, 1, false}, {8, 2, false}, {16, 2, false}, {16, 1, true}, {8, 2, true}, {16, 2, true}, {32, 1, true}};
constexpr backends::Tuning kTunings[] = {{"panels16"}, {"panels8_twice"}, {"panels16_twice"}, {"registers16"}, {"registers8_twice"}, {"registers16_twice"}, {"registers32"}};
constexpr int64_t kSystemBytes = 1024;        // of shared memory that every block needs besides its own
constexpr int kMostRegisterTokens = 5;        // two operands, of which every worker has the sums of all panels in registers

// A block's workers and shared memory: operands or, without them, room for making the table; what workers have for themselves; levels; the table.
struct Plan {
  int workers = 0;  // 0: there is no room
  int tiles = 0;    // of a worker at once
  int copy_bits = 0, table_bytes = 0, own_place = 0, own_bytes = 0, levels_place = 0;
  int64_t shared_bytes = 0;
};

// Lines of the room for a tile of huffman_lanes: the longest one's, one before and, for the last window, two behind them.
int64_t room_lines(const CompressedView& view) {
  uint32_t most = 0;
  std::memcpy(&most, view.sections[kLayer].host.data() + kLayerBytes, 4);
  return most + 3;
}

// What a coder needs for a worker, for a number of tokens that takes one operand.
struct Needs {
  int64_t own_bytes = 0;
  int tiles = 0, most_workers = 0;
};
Needs needs_of(const CompressedView& view, const Layout& layout, const Wish& wish) {
  Needs needs;
  with_coder(layout, [&](auto coder, auto) {
    using Type = typename decltype(coder)::type;
    needs.tiles = Type::kTiles;
    needs.most_workers = wish.registers ? Type::kMostWorkers : kMostWorkers;
    if constexpr (requires { Type::kSharedBytes; })
      needs.own_bytes = Type::kSharedBytes;
    else
      needs.own_bytes = room_lines(view) * kLineBytes;
  });
  return needs;
}

bool has_table(const Layout& layout) { return layout.coder == Coder::rans_lanes || layout.coder == Coder::huffman_lanes; }
int entry_bits(const Layout& layout) { return layout.coder == Coder::rans_lanes ? layout.prob_bits : layout.table_bits; }

// The copies of the table that there may be, as a power of two.
int most_copy_bits(const Layout& layout, const Wish& wish) {
  if (layout.coder == Coder::huffman_lanes) return kMostHuffmanCopies;
  if (layout.coder == Coder::rans_lanes) return (wish.registers ? kMostCopiedBits + 1 : kMostCopiedBits) - layout.prob_bits;
  return 0;
}

// As many workers as fit, then as many copies of the table. Sums take the place of everything in the end.
Plan plan_of(const CompressedView& view, const Layout& layout, const Wish& wish, int64_t block_bytes) {
  const int64_t room = (block_bytes + kSystemBytes) / wish.blocks - kSystemBytes;
  const Needs needs = needs_of(view, layout, wish);
  const int most_copies = most_copy_bits(layout, wish);
  for (int workers = std::min(wish.workers, needs.most_workers); workers * kPanelRows >= layout.tile_rows; workers /= 2)
    for (int bits = most_copies; bits >= 0; --bits) {
      const int64_t table = has_table(layout) ? int64_t{4} << (entry_bits(layout) + bits) : 0, own_place = wish.registers ? 4 * kLaneSymbols : workers * kWorkerPanels * kPanelBytes;
      const int64_t levels_place = own_place + workers * needs.own_bytes, before = levels_place + 4 * kLevels;
      // Shared memory begins up to kReservedBytes behind a multiple of everything.
      const int64_t needed = has_table(layout) ? (kReservedBytes + before + table - 1) / table * table + table : before;
      const int64_t sums = layout.tile_rows * (kMostOperands * kUnitColumns + 1) * 4, shared = std::max(needed, sums);
      if (shared <= room)
        return {workers, needs.tiles, bits, static_cast<int>(table), static_cast<int>(own_place), static_cast<int>(needs.own_bytes), static_cast<int>(levels_place), shared};
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
  stream.table_bits = layout.table_bits;
  stream.table_bytes = plan.table_bytes;
  stream.copy_bits = plan.copy_bits;
  stream.own_place = plan.own_place;
  stream.own_bytes = plan.own_bytes;
  stream.levels_place = plan.levels_place;
  if (layout.coder != Coder::huffman_lanes) return stream;
  stream.padded_steps = static_cast<int>(layout.padded_cols() / kPanelCols);
  stream.first_lines = static_cast<int>(room_lines(view) / 2 / kBlockLines * kBlockLines);
  stream.piece_lines = (kPiecePanels * kPanelQuads * 4 / layout.symbol_cols * layout.table_bits + 31) / 32;
  stream.line_bytes_of_bit = kLineBytes / 32;
  return stream;
}

std::string refuses(const CompressedView& view, const backends::DeviceInfo& device, int tuning) {
  const Layout layout = layout_of(view.shape, *view.settings);
  if (layout.coder == Coder::rans && layout.tile_rows * layout.tile_cols != 4096)
    return "A worker has room for 4096 elements of interleaved streams, not for tiles of " + std::to_string(layout.tile_rows * layout.tile_cols) + ".";
  if (view.shape.cols > kMostCols) return "Sums of more than 2^19 columns may not fit int32.";
  if (kWishes[tuning].registers && layout.coder == Coder::rans) return "Interleaved streams are not decoded to where matrix units expect them in registers.";
  if (layout.tiles() == 0) return "";
  if (kWishes[tuning].workers > needs_of(view, layout, kWishes[tuning]).most_workers) return "A thread block has registers for 16 waves that decode in this way, not for 32.";
  const Plan plan = plan_of(view, layout, kWishes[tuning], device.shared_bytes);
  if (plan.workers == 0)
    return "Operands, table and rings of the least number of waves need more shared memory than a thread block may have: " +
           std::to_string(device.shared_bytes) + " bytes.";
  if (kWishes[tuning].blocks > 1 && plan.workers < kWishes[tuning].workers && plan_of(view, layout, kWishes[0], device.shared_bytes).workers > plan.workers)
    return "The shared memory of two thread blocks has not room for as many waves as that of one.";
  return "";
}

// Splits of the columns, so that the blocks fill the device evenly; a block should have a tile for each of its slots.
int most_splits(const Layout& layout) { return static_cast<int>(std::clamp<int64_t>(512 / std::max<int64_t>(1, layout.tiles_down), 1, kMostSplits)); }
int splits_of(const Layout& layout, const Plan& plan, int blocks, const backends::DeviceInfo& device) {
  const int64_t slots = plan.workers * plan.tiles, units = std::max(1, device.compute_units * blocks);
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

constexpr int64_t kTokenBytes = backends::kMaxBatch * 8 * (1 + kDigitParts);  // units and sums
int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

int64_t scratch_bytes(const CompressedView& view, int) {
  const Layout layout = layout_of(view.shape, *view.settings);
  const int64_t sums = most_splits(layout) > 1 ? most_splits(layout) * view.shape.rows * backends::kMaxBatch * kDigits * 4 : 0;
  return aligned(operand_bytes(view.shape.cols, operands_of(backends::kMaxBatch))) + aligned(kTokenBytes) + sums;
}

// Fixed point moves an element of a token by at most 2^-22.98 of its largest, which is what float32 sums could lose (cols 2^-24) with elements
// 2.03 times the largest level beside the others.
backends::ProductRounding rounding(const CompressedView& view, int) {
  if (view.shape.elements() == 0) return {};
  return {.more_roundings = 1, .offset = 2.03 * trusted_levels(view.sections[kLayer].host).largest()};
}

constexpr int kStoreThreads = 256;
gpu::LaunchShape one_thread_each(int64_t count, bool early) { return {(count + kStoreThreads - 1) / kStoreThreads, kStoreThreads, 0, early}; }

// Launches the products; `halves` as matmul_panels has them.
template <int kOperands>
void launch_products(const backends::KernelCall& call, const Layout& layout, const Plan& plan, const Wish& wish, int halves, const Digits& digits, const Output& output) {
  const Stream stream = stream_of(*call.matrix, layout, plan);
  const gpu::LaunchShape shape{layout.tiles_down * output.splits, plan.workers * kLanes, plan.shared_bytes, gpu::have_early_launches(*call.device)};
  with_coder(layout, [&](auto coder, auto panels) {
    using Type = typename decltype(coder)::type;
    constexpr int kPanels = decltype(panels)::value;
    if constexpr (Type::kIsForRegisters && kPanels * kOperands <= 8) {
      if (wish.registers) return gpu::launch(matmul_registers<Type, kPanels, kOperands>, shape, call.stream, stream, plan.workers, digits.operands, output);
    }
    if constexpr (kOperands != 2) gpu::launch(matmul_panels<Type, kPanels, kOperands>, shape, call.stream, stream, plan.workers, halves, digits.operands, output);
  });
}

// The tokens from `first` on, as many as are taken at once; returns how many. The tunings for registers have more tokens multiplied as panels are.
int launch_tokens(const backends::KernelCall& call, const Layout& layout, int first) {
  const int left = call.batch - first, most_in_registers = layout.tile_rows == 64 ? kMostRegisterTokens : kUnitColumns / kDigits;
  Wish wish = kWishes[call.tuning];
  wish.registers = wish.registers && left <= most_in_registers;
  if (left * kDigits > kUnitColumns) wish.workers = std::min(wish.workers, kMostWorkers);
  Plan plan = plan_of(*call.matrix, layout, wish, call.device->shared_bytes);
  if (plan.workers == 0) plan = plan_of(*call.matrix, layout, wish = kWishes[0], call.device->shared_bytes);
  const bool has_halves = plan.workers * kPanelRows > layout.tile_rows;
  gpu::TokenView tokens = gpu::tokens_of(call);
  tokens.x += first * tokens.x_stride;
  tokens.y += first * tokens.rows;
  tokens.batch = std::min(left, has_halves ? backends::kMaxBatch : kMostOperands * kUnitColumns / kDigits);
  const Levels levels = trusted_levels(call.matrix->sections[kLayer].host);
  const bool early = gpu::have_early_launches(*call.device);
  const int64_t operands_at = aligned(operand_bytes(layout.shape.cols, operands_of(backends::kMaxBatch)));
  const Digits digits{reinterpret_cast<gpu::uint2*>(call.scratch), reinterpret_cast<double*>(call.scratch + operands_at),
                      reinterpret_cast<int64_t*>(call.scratch + operands_at + backends::kMaxBatch * 8)};
  const Output output{.tokens = tokens,
                      .dequantise = {static_cast<double>(levels.scale), levels.first, digits.units, digits.sums},
                      .sums = reinterpret_cast<int32_t*>(call.scratch + operands_at + aligned(kTokenBytes)),
                      .splits = splits_of(layout, plan, wish.blocks, *call.device)};
  const auto launch = [&](auto operands) {
    constexpr int kOperands = decltype(operands)::value;
    const int halves = operands_of(tokens.batch) > kOperands ? 2 : 1;
    gpu::launch(make_digits, {int64_t{tokens.batch} * kDigitParts, kDigitThreads, kDigitSharedBytes, early}, call.stream, tokens, layout.shape.cols, kOperands * halves, digits);
    launch_products<kOperands>(call, layout, plan, wish, halves, digits, output);
  };
  if (wish.registers && operands_of(tokens.batch) == 2)
    launch(Constant<2>{});
  else
    with_operands(tokens.batch, launch);
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
  const Plan plan = plan_of(*call.matrix, layout, kWishes[call.tuning], call.device->shared_bytes);
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
    {.op = backends::Op::matmul, .variant = "panels", .tunings = kTunings, .refuses = refuses,
     .scratch_bytes = scratch_bytes, .rounding = rounding, .launch = launch_matmul},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE
