// All layers of a chain in one launch of one thread block a multiprocessor. While results travel between the blocks
// (exchange.h), everything of the next layer that does not depend on them is on its way: its tile's index, codes, raw
// bits and patches, and the table is made. Lane groups of a block meet twice a layer:
//   1. Each lane group multiplies its tiles, adds to the sums, and begins its first tile of the next layer.
//   2. After the first barrier threads hand out the results, four rows a word; all make the next table, and fetch the
//      next x as words arrive.
//   3. After the second barrier the next layer begins.
// The descriptions of the layers come through three slots of shared memory, loaded two layers ahead.
#pragma once

#include "backends/gpu/exchange.h"
#include "backends/gpu/products/requantise.h"
#include "codecs/quad_huffman/gpu/prologue.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

struct ChainLayer {
  Matrix matrix;
  gpu::Epilogue epilogue;
  int parts;  // row groups of a block in a round; lane_groups_of_rows lane groups share one
  int lane_groups_of_rows;
  int rounds;  // row group `part` of a block in a round is (round * grid + block) * parts + part
};

inline constexpr int kRowsOfWord = 4, kWordsOfGroup = kLanes / kRowsOfWord;
inline constexpr int64_t kStoredLayerBytes = (static_cast<int64_t>(sizeof(ChainLayer)) + 15) / 16 * 16;
inline int64_t stored_layers_bytes(size_t count) { return static_cast<int64_t>(count) * kStoredLayerBytes; }
inline constexpr int kSlots = 3;
// Shared memory after the plan's: the slots, the sums of x of two layers in turn, the sums of the rows.
inline constexpr int kXSums = kSlots * static_cast<int>(kStoredLayerBytes), kRowSums = kXSums + 16;
inline int chain_bytes(int64_t rows) { return kRowSums + static_cast<int>(rows) * 4; }

// Which tile is a lane group's turn.
struct Turn {
  int round, column;
};

template <int kSymbolCols, int kForm, int kSymbolsOfWindow>
class ChainLanes {
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow>;

 public:
  ECMV_GPU_DEVICE ChainLanes(const Plan& plan, const Hidden& hidden)
      : plan_(plan),
        lane_group_(LaneGroup::uniform(LaneGroup::group())),
        tile_(gpu::shared_memory() + (plan.rings + lane_group_ * TileOf::kSharedBytes), hidden) {}

  // Begins the lane group's first tile of a layer, if it has one.
  ECMV_GPU_DEVICE void begin_layer(const ChainLayer& layer) {
    turn_ = {0, lane_group_ % layer.lane_groups_of_rows};
    if (lane_group_ / layer.lane_groups_of_rows >= layer.parts) turn_.round = layer.rounds;
    begin_tile(layer);
  }

  ECMV_GPU_DEVICE void multiply_layer(const ChainLayer& layer, gpu::Pointer<int32_t> sums) {
    const Table table = table_of(layer.matrix, plan_);
    const int part = lane_group_ / layer.lane_groups_of_rows;
    while (turn_.round < layer.rounds) {
      multiply_tile(tile_, table, gpu::shared_memory() + plan_.inputs,
                    sums + (turn_.round * layer.parts + part) * kLanes);
      turn_.column += layer.lane_groups_of_rows;
      begin_tile(layer);
    }
  }

 private:
  ECMV_GPU_DEVICE void begin_tile(const ChainLayer& layer) {
    if (turn_.column >= layer.matrix.column_tiles) turn_ = {turn_.round + 1, lane_group_ % layer.lane_groups_of_rows};
    if (turn_.round >= layer.rounds) return;
    const int64_t group =
        (turn_.round * gpu::grid_size() + gpu::block_index()) * layer.parts + lane_group_ / layer.lane_groups_of_rows;
    if (group >= layer.matrix.row_groups || turn_.column >= layer.matrix.column_tiles) {
      turn_.round = layer.rounds;
      return;
    }
    tile_.begin(layer.matrix.streams, group, turn_.column, layer.matrix.column_tiles, layer.matrix.cols);
  }

  const Plan& plan_;
  int lane_group_;
  TileOf tile_;
  Turn turn_{};
};

// The results of a block's rows: y, v and, for the next layer, words; the sums are zero again.
ECMV_GPU_DEVICE void hand_out(const ChainLayer& layer, gpu::Pointer<int32_t> sums, int32_t x_sum,
                              const gpu::Exchange& exchange, int number, bool last) {
  for (int i = gpu::thread_index(); i < layer.rounds * layer.parts * kWordsOfGroup; i += gpu::block_size()) {
    const int slot = i / kWordsOfGroup;
    const int64_t group =
        (slot / layer.parts * gpu::grid_size() + gpu::block_index()) * layer.parts + slot % layer.parts;
    if (group >= layer.matrix.row_groups) continue;
    const int64_t row = group * kLanes + i % kWordsOfGroup * kRowsOfWord;
    int32_t totals[kRowsOfWord];
    uint32_t word = 0;
    ECMV_GPU_UNROLL
    for (int r = 0; r < kRowsOfWord; ++r) {
      totals[r] = sums[kRowsOfWord * i + r] + layer.matrix.lowest * x_sum;
      sums[kRowsOfWord * i + r] = 0;
      if (row + r < layer.matrix.rows)
        word |= static_cast<uint32_t>(static_cast<uint8_t>(gpu::requantise_on_device(totals[r], layer.epilogue.scale)))
                << (8 * r);
    }
    if (!last) exchange.put(number, group * kWordsOfGroup + i % kWordsOfGroup, word);
    for (int r = 0; r < kRowsOfWord && row + r < layer.matrix.rows; ++r) layer.epilogue.store(row + r, totals[r]);
  }
}

// x of `layer` as the blocks hand it out, then zeros, to shared memory; its elements are added to *sum.
ECMV_GPU_DEVICE void await_inputs(const ChainLayer& layer, const gpu::Exchange& exchange, int number, int stored_cols,
                                  gpu::Pointer<std::byte> to, gpu::Pointer<int32_t> sum) {
  constexpr int kPairs = 2, kColsOfPair = 2 * kRowsOfWord;
  const int cols = (layer.matrix.cols + kLanes - 1) / kLanes * kLanes, pairs = cols / kColsOfPair;
  int32_t own = 0;
  for (int first = gpu::thread_index(); first - LaneGroup::lane() < pairs; first += kPairs * gpu::block_size()) {
    const int left = pairs - first, count = left > gpu::block_size() ? 2 : left > 0 ? 1 : 0;
    gpu::uint2 values[kPairs];
    // One lane looks until its words are there, and then the others, so that looking takes little of the L2's time.
    // (raw_int8, d = 4096: with that and a lighter loop 5.5 us a layer instead of 10.5; here no difference was
    // measured.)
    if (LaneGroup::lane() == 0)
      while (!exchange.try_pairs(number, first, gpu::block_size(), count, values)) gpu::pause();
    LaneGroup::sync();
    while (!exchange.try_pairs(number, first, gpu::block_size(), count, values)) gpu::pause();
    ECMV_GPU_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      if (i >= count) continue;
      gpu::cast<gpu::uint2>(to)[first + i * gpu::block_size()] = values[i];
      own = gpu::sum_of_bytes(values[i].y, gpu::sum_of_bytes(values[i].x, own));
    }
  }
  for (int col = cols + gpu::thread_index() * 16; col < stored_cols; col += gpu::block_size() * 16)
    *gpu::cast<gpu::uint4>(to + col) = gpu::uint4{};
  gpu::add_to(sum, own);
}

template <int kSymbolCols, int kForm, int kSymbolsOfWindow>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(32 * kLanes, 1) void chain(gpu::Pointer<const std::byte> layers, int count,
                                                           gpu::Exchange exchange, gpu::Pointer<const int8_t> x,
                                                           Plan plan, Hidden hidden) {
  constexpr int kSegmentCols = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow>::kSegmentCols;
  constexpr int kLayerWords = static_cast<int>(kStoredLayerBytes) / 4;
  const gpu::Pointer<std::byte> shared = gpu::shared_memory() + plan.sums;
  const gpu::Pointer<int32_t> x_sums = gpu::cast<int32_t>(shared + kXSums),
                              sums = gpu::cast<int32_t>(shared + kRowSums);
  const gpu::Pointer<std::byte> inputs = gpu::shared_memory() + plan.inputs;
  const auto slot_of = [&](int number) {
    return gpu::cast<uint32_t>(shared + number % kSlots * static_cast<int>(kStoredLayerBytes));
  };
  const auto layer_of = [&](int number) -> const ChainLayer& { return *gpu::cast<const ChainLayer>(slot_of(number)); };
  const auto description_word = [&](int number) {
    return gpu::cast<const uint32_t>(layers)[static_cast<int64_t>(number) * kLayerWords + gpu::thread_index()];
  };

  exchange.begin();
  for (int number = 0; number < 2 && number < count; ++number)
    for (int i = gpu::thread_index(); i < kLayerWords; i += gpu::block_size())
      slot_of(number)[i] = gpu::cast<const uint32_t>(layers)[number * kLayerWords + i];
  for (int i = gpu::thread_index(); i < 4 + (plan.bytes - plan.sums - kRowSums) / 4; i += gpu::block_size())
    x_sums[i] = 0;
  gpu::sync_block();
  ChainLanes<kSymbolCols, kForm, kSymbolsOfWindow> lanes(plan, hidden);
  lanes.begin_layer(layer_of(0));
  fill_table(layer_of(0).matrix, plan, load_own_entries<1>(layer_of(0).matrix));
  gpu::load_inputs(x, layer_of(0).matrix.cols, layer_of(0).matrix.streams.row_segments * kSegmentCols, inputs, x_sums);
  gpu::sync_block();

  for (int k = 0; k < count; ++k) {
    const bool last = k + 1 == count;
    // 1.
    uint32_t later_word = 0;
    if (k + 2 < count && gpu::thread_index() < kLayerWords) later_word = description_word(k + 2);
    if (gpu::thread_index() == 0) x_sums[(k + 1) % 2] = 0;
    lanes.multiply_layer(layer_of(k), sums);
    OwnEntries<1> entry{};
    if (!last) {
      lanes.begin_layer(layer_of(k + 1));
      entry = load_own_entries<1>(layer_of(k + 1).matrix);
    }
    gpu::sync_block();
    // 2.
    hand_out(layer_of(k), sums, x_sums[k % 2], exchange, k, last);
    if (last) break;
    if (k + 2 < count && gpu::thread_index() < kLayerWords) slot_of(k + 2)[gpu::thread_index()] = later_word;
    const ChainLayer& next = layer_of(k + 1);
    fill_table(next.matrix, plan, entry);
    // A block without rows of the next layer reads nothing (the exchange's first rule).
    if (gpu::block_index() * next.parts < next.matrix.row_groups)
      await_inputs(next, exchange, k, next.matrix.streams.row_segments * kSegmentCols, inputs, x_sums + (k + 1) % 2);
    // 3.
    gpu::sync_block();
  }
  if (gpu::thread_index() == 0) exchange.end(count);
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
