// A whole chain in one launch, in which no lane group that decodes waits for the vector. A layer's tiles are 32 rows of 256
// columns. Each lane group decodes one after the other to 64 registers of each lane: the first one of a layer while its x is still
// travelling between the blocks, so that once x arrives only products of bytes are left. Four more lane groups, the helpers, do
// what comes between layers, so that decoding goes on meanwhile: two hand out results as soon as all tiles are multiplied and
// bring the next x to shared memory (exchange.h), two make the table of the layer after the next one and list tiles of later ones.
//
//   lane groups    decode(k) | await x(k) | multiply(k) | decode(k+1) ...
//   two helpers                             await multiply(k) | results(k) | await x(k+1) ...
//   two others                              await multiply(k) | table(k+2), list(k+4) | ...
//
// They meet at gates: x of a layer is there; all have multiplied; a table is there, of which two take turns; a list is there, of
// which four do. (H200, d = 4096, sigma 4, K = 8, B = 4, T = 8: with results, tables and x by the lane groups themselves, which
// met twice a layer, 5.5 us a layer; NOTES.md has the steps since.) Bulk copies, because copies of lanes pass the unit that also
// looks for x. Eight columns a symbol only: other tiles of 256 columns have several segments.
#pragma once

#include "codecs/quad_huffman/ahead_lanes_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Of the helpers of one kind: number `helper`, and what they have in common.
struct AheadHelper {
  AheadLayers layers;
  int helper;
  AheadPlaces places;
  const Plan& plan;

  ECMV_GPU_DEVICE Threads threads() const { return {helper * kLanes + LaneGroup::lane(), kHelpersOfKind * kLanes}; }
  ECMV_GPU_DEVICE static void arrive_at(const gpu::Gate& gate) {
    LaneGroup::sync();
    if (LaneGroup::lane() == 0) gate.arrive();
  }
};

// Makes tables and lists.
class AheadPreparer : AheadHelper {
 public:
  explicit ECMV_GPU_DEVICE AheadPreparer(const AheadHelper& helper) : AheadHelper(helper) {}

  ECMV_GPU_DEVICE void run() const {
    for (int k = 0; k < kAheadLists && k < layers.count; ++k) {
      make_list(k);
      if (k < 2) make_table(k, load_own_entries<kOwn>(layers[k].matrix, threads()));
    }
    for (int k = 0; k + 2 < layers.count; ++k) {
      const OwnEntries<kOwn> entries = load_own_entries<kOwn>(layers[k + 2].matrix, threads());
      places.multiplied(k).wait(k / 2 % 2);
      make_table(k + 2, entries);
      if (k + kAheadLists < layers.count) make_list(k + kAheadLists);
    }
  }

 private:
  static constexpr int kOwn = 4;  // entries of a table

  ECMV_GPU_DEVICE void make_table(int number, const OwnEntries<kOwn>& entries) const {
    fill_table(layers[number].matrix, plan, entries, threads(), gpu::shared_memory() + number % 2 * (plan.rings / 2));
    arrive_at(places.table_there(number));
  }
  // A thread a tile.
  ECMV_GPU_DEVICE void make_list(int number) const {
    const Matrix& matrix = layers[number].matrix;
    const int lane_groups = plan.lane_groups, of_row = (matrix.column_tiles + lane_groups - 1) / lane_groups,
              groups = static_cast<int>(matrix.row_groups) - gpu::block_index(),
              rounds = groups <= 0 ? 0 : (groups + gpu::grid_size() - 1) / gpu::grid_size(), tiles = rounds * of_row;
    for (int i = threads().own; i < tiles * lane_groups; i += threads().count) {
      const int round = i / lane_groups / of_row, column = i / lane_groups % of_row * lane_groups + i % lane_groups,
                tile = AheadLayers::group_of(round) * matrix.column_tiles + column;
      gpu::uint4 first{}, more{};
      if (column < matrix.column_tiles) {
        const gpu::uint4 index = matrix.streams.tiles[tile], next = matrix.streams.tiles[tile + 1];
        const int stored = static_cast<int>(next.x - index.x) * kUnitBytes,
                  most = kAheadMaskBytes + (plan.table_bits + 1) * kLineBytes;
        first = {index.x, static_cast<uint32_t>(stored < most ? stored : most), static_cast<uint32_t>(tile), index.w};
        more = {index.y, next.y - index.y, static_cast<uint32_t>(round), static_cast<uint32_t>(column)};
      }
      const gpu::Pointer<gpu::uint4> to = gpu::cast<gpu::uint4>(places.list(number) + i * kAheadTileBytes);
      to[0] = first, to[1] = more;
    }
    if (threads().own == 0) *places.tile_count(number) = tiles;
    arrive_at(places.list_there(number));
  }
};

// Hands out results, and brings those of all blocks to shared memory.
class AheadExchanger : AheadHelper {
 public:
  ECMV_GPU_DEVICE AheadExchanger(const AheadHelper& helper, const gpu::Exchange& exchange)
      : AheadHelper(helper), exchange_(exchange) {}

  ECMV_GPU_DEVICE void run(gpu::Pointer<const int8_t> x) const {
    copy_first_x(x);
    for (int k = 0; k < layers.count; ++k) {
      places.multiplied(k).wait(k / 2 % 2);
      hand_out(k);
      if (k + 1 < layers.count) await_x(k);
    }
    if (threads().own == 0) exchange_.end(layers.count);
  }

 private:
  static constexpr int kPairs = 4, kColsOfPair = 2 * kRowsOfWord;

  ECMV_GPU_DEVICE gpu::Pointer<std::byte> inputs() const { return gpu::shared_memory() + plan.inputs; }
  // Of layer `number`; x is in shared memory.
  ECMV_GPU_DEVICE void end_x(int number, int32_t own) const {
    own = LaneGroup::reduce_add(own);
    if (LaneGroup::lane() == 0) places.x_sums(number)[helper] = own;
    arrive_at(places.x_there());
  }
  ECMV_GPU_DEVICE void copy_first_x(gpu::Pointer<const int8_t> x) const {
    const Matrix& matrix = layers[0].matrix;
    int32_t own = 0;
    for (int col = threads().own * 16; col < matrix.streams.row_segments * kAheadCols; col += threads().count * 16) {
      const gpu::uint4 words = col < matrix.cols ? *gpu::cast<const gpu::uint4>(x + col) : gpu::uint4{};
      *gpu::cast<gpu::uint4>(inputs() + col) = words;
      own = sum_of_bytes(words.w, sum_of_bytes(words.z, sum_of_bytes(words.y, sum_of_bytes(words.x, own))));
    }
    end_x(0, own);
  }
  // Layer number's results as the blocks hand them out, then zeros up to the next layer's last tile. A block without rows of
  // the next layer reads nothing (the exchange's first rule).
  ECMV_GPU_DEVICE void await_x(int number) const {
    const Matrix& matrix = layers[number + 1].matrix;
    const int pairs = (matrix.cols + kLanes - 1) / kLanes * kLanes / kColsOfPair,
              stored = matrix.streams.row_segments * kAheadCols / kColsOfPair;
    int32_t own = 0;
    if (gpu::block_index() < matrix.row_groups) {
      for (int first = threads().own; first < pairs; first += kPairs * threads().count) {
        const int count = (pairs - first + threads().count - 1) / threads().count;
        gpu::uint2 values[kPairs];
        while (!exchange_.try_pairs(number, first, threads().count, count, values)) gpu::pause();
        ECMV_GPU_UNROLL
        for (int i = 0; i < kPairs; ++i) {
          if (i >= count) continue;
          gpu::cast<gpu::uint2>(inputs())[first + i * threads().count] = values[i];
          own = sum_of_bytes(values[i].y, sum_of_bytes(values[i].x, own));
        }
      }
      for (int pair = pairs + threads().own; pair < stored; pair += threads().count)
        gpu::cast<gpu::uint2>(inputs())[pair] = gpu::uint2{};
    }
    end_x(number + 1, own);
  }

  // The results of the block's rows, a row a lane and a row group a helper in turn; the sums are zero again.
  ECMV_GPU_DEVICE void hand_out(int number) const {
    const ChainLayer& layer = layers[number];
    const int lane = LaneGroup::lane();
    const bool last = number + 1 == layers.count;
    int32_t x_sum = 0;
    for (int i = 0; i < kHelpersOfKind; ++i) x_sum += places.x_sums(number)[i];
    for (int round = helper; AheadLayers::group_of(round) < layer.matrix.row_groups; round += kHelpersOfKind) {
      const int64_t group = AheadLayers::group_of(round), row = group * kLanes + lane;
      const gpu::Pointer<int32_t> sum = places.sums() + (round * kLanes + lane);
      const int32_t total = *sum + layer.matrix.lowest * x_sum;
      *sum = 0;
      const bool exists = row < layer.matrix.rows;
      uint32_t word = exists ? static_cast<uint8_t>(gpu::requantise_on_device(total, layer.epilogue.scale)) : 0u;
      word |= LaneGroup::shuffle_xor(word, 1) << 8;
      word = (word & 0xFFFFu) | LaneGroup::shuffle_xor(word, 2) << 16;
      if (!last && lane % kRowsOfWord == 0) exchange_.put(number, group * kWordsOfGroup + lane / kRowsOfWord, word);
      if (exists) layer.epilogue.store(row, total);
    }
  }

  const gpu::Exchange& exchange_;
};

// The block has plan.lane_groups that decode, and the helpers after them.
template <int kForm, int kSymbolsOfWindow>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostAheadThreads, 1) void chain_ahead(gpu::Pointer<const std::byte> stored, int count,
                                                                       gpu::Exchange exchange,
                                                                       gpu::Pointer<const int8_t> x, Plan plan,
                                                                       Hidden hidden) {
  const AheadPlaces places{gpu::shared_memory() + plan.sums, plan.list_bytes};
  const gpu::Pointer<std::byte> layer_bytes =
      gpu::shared_memory() + (plan.bytes - count * static_cast<int>(kStoredLayerBytes));
  const AheadLayers layers{layer_bytes, count};

  exchange.begin();
  for (int i = gpu::thread_index(); i < count * static_cast<int>(kStoredLayerBytes) / 4; i += gpu::block_size())
    gpu::cast<uint32_t>(layer_bytes)[i] = gpu::cast<const uint32_t>(stored)[i];
  for (gpu::Pointer<int32_t> sum = places.sums() + gpu::thread_index(); sum < gpu::cast<int32_t>(layer_bytes);
       sum += gpu::block_size())
    *sum = 0;
  if (gpu::thread_index() == 0) {
    places.x_there().init(kHelpersOfKind);
    for (int i = 0; i < 2; ++i) {
      places.multiplied(i).init(static_cast<uint32_t>(plan.lane_groups));
      places.table_there(i).init(kHelpersOfKind);
    }
    for (int i = 0; i < kAheadLists; ++i) places.list_there(i).init(kHelpersOfKind);
  }
  const int lane_group = LaneGroup::uniform(LaneGroup::group());
  AheadLanes<kForm, kSymbolsOfWindow> lanes(layers, places, plan, hidden);
  if (lane_group < plan.lane_groups) lanes.init();
  gpu::sync_block();
  if (lane_group >= plan.lane_groups) {
    const int number = lane_group - plan.lane_groups;
    const AheadHelper helper{layers, number % kHelpersOfKind, places, plan};
    if (number < kHelpersOfKind)
      AheadExchanger(helper, exchange).run(x);
    else
      AheadPreparer(helper).run();
    return;
  }

  for (int k = 0; k < count; ++k) {
    Table table = table_of(layers[k].matrix, plan);
    table.lane |= static_cast<uint32_t>(k % 2 * (plan.rings / 2));
    lanes.begin(k);
    const int tiles = *places.tile_count(k);
    if (tiles > 0) places.table_there(k).wait(k / 2 % 2);
    bool waits = true;
    for (int tile = 0; tile < tiles; ++tile) {
      const bool exists = lanes.decode(k, tile, table);
      if (waits) places.x_there().wait(k % 2);
      waits = false;
      if (exists) lanes.multiply(k, tile);
    }
    if (waits) places.x_there().wait(k % 2);
    LaneGroup::sync();
    if (LaneGroup::lane() == 0) places.multiplied(k).arrive();
  }
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
