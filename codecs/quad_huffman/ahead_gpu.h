// A whole chain in one launch, for layers of which every lane group has one tile of 256 columns: while a layer's x is
// still travelling between the blocks, its tile has been decoded to 64 registers of each lane, so that once x arrives
// only products of bytes are left, and the next tile is decoded while this one's results travel. A block a row group, a
// lane group a column tile; a layer is
//   1. decode the tile to registers; start the copies of the next tile, whole, to shared memory; load the index of the
//      one after it; make the next
//      layer's table beside this one's
//   2. await x (exchange.h); barrier
//   3. multiply, add to the sums of the rows; barrier; hand out the results
// Bulk copies, because copies of lanes pass the unit that also looks for x (H200, d = 4096: 1300 clocks to start them
// for a layer). Eight columns a symbol only: other tiles of 256 columns have several segments.
#pragma once

#include "codecs/quad_huffman/chain_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

inline constexpr int kAheadCols = segment_cols(8);
// A segment's codes are at most T lines, and a window reads the line after its first bit's. Masks of partial lines come
// before them.
inline constexpr int kAheadMaskBytes = kMostPartialLines * 4;
inline constexpr int kAheadLines = kMostTableBits + 1;
inline constexpr int kAheadCodeBytes = kAheadMaskBytes + kAheadLines * kLineBytes;
inline constexpr int ahead_bytes(int form) {
  return kAheadCodeBytes + static_cast<int>(raw_bytes_of_segment(8, form)) + 2 * gpu::Arrival::kBytes;
}

template <int kForm, int kSymbolsOfWindow>
class AheadLanes {
 public:
  static constexpr int kRawBits = raw_bits_of(kForm);
  static constexpr int kSharedBytes = ahead_bytes(kForm);
  using Bytes = Cells<8, kForm>;

  ECMV_GPU_DEVICE AheadLanes(gpu::Pointer<std::byte> shared, const Hidden& hidden)
      : hidden_(hidden),
        codes_(shared),
        raw_(shared + kAheadCodeBytes),
        arrival_(shared + (kAheadCodeBytes + kRawBytes)),
        column_(LaneGroup::uniform(LaneGroup::group())) {}

  // By all lanes, before a barrier of the block.
  ECMV_GPU_DEVICE void init() const {
    if (LaneGroup::lane() == 0) arrival_.init();
  }

  // Whether this lane group has a tile of the layer.
  ECMV_GPU_DEVICE bool has_tile(const Matrix& matrix) const {
    return gpu::block_index() < matrix.row_groups && column_ < matrix.column_tiles;
  }

  // Word l of the tile's index and the next one goes to lane l. The raw bits, which are where no index has to say, are
  // brought to the L2.
  ECMV_GPU_DEVICE void load_index(const Matrix& matrix) {
    if (!has_tile(matrix)) return;
    const int64_t number = tile_number(matrix);
    index_ =
        LaneGroup::lane() < 8 ? gpu::cast<const uint32_t>(matrix.streams.tiles)[4 * number + LaneGroup::lane()] : 0;
    if (kRawBits > 0 && LaneGroup::lane() == 0) gpu::prefetch_l2(raw_of_tile(matrix), kRawBytes);
  }

  // Starts the copies of the tile whose index was loaded last, and the loads of its first patches.
  ECMV_GPU_DEVICE void begin(const Matrix& matrix) {
    if (!has_tile(matrix)) return;
    const int lane = LaneGroup::lane();
    const uint32_t first_unit = LaneGroup::pick(index_, 0), lines = LaneGroup::pick(index_, 3);
    const int stored = static_cast<int>(LaneGroup::pick(index_, 4) - first_unit) * kUnitBytes;
    next_patches_ = {LaneGroup::pick(index_, 1), LaneGroup::pick(index_, 5) - LaneGroup::pick(index_, 1), {}};
    full_ = static_cast<int>(lines & 0xFFFF) * kBlockLines;
    partial_ = static_cast<int>(lines >> 16);
    if (lane == 0) {
      const int bytes = stored < kAheadCodeBytes ? stored : kAheadCodeBytes;
      arrival_.expect(bytes + kRawBytes);
      arrival_.copy(codes_, matrix.streams.codes + static_cast<int64_t>(first_unit) * kUnitBytes, bytes);
      if (kRawBits > 0) arrival_.copy(raw_, raw_of_tile(matrix), kRawBytes);
    }
    ECMV_GPU_UNROLL
    for (int k = 0; k < kOwnPatches; ++k)
      if (patch_of(k) < next_patches_.count)
        next_patches_.own[k] = matrix.streams.patches[next_patches_.first + patch_of(k)];
  }

  // Decodes the tile to registers.
  ECMV_GPU_DEVICE void decode(const Matrix& matrix, const Table& table) {
    if (!has_tile(matrix)) return;
    patches_ = next_patches_;
    arrival_.wait(parity_);
    parity_ ^= 1;
    LaneGroup::sync();
    const int mask_bytes = (partial_ + 3) / 4 * kUnitBytes;
    spread_partial_lines(mask_bytes);
    const gpu::SharedWords lines(codes_ + (mask_bytes + 4 * LaneGroup::lane()));
    uint32_t position = 0, used = 0, window = 0, raw[kBatchWords == 0 ? 1 : kBatchWords] = {};
    ECMV_GPU_UNROLL
    for (int i = 0; i < kSegmentSymbols; ++i) {
      if (i % kBatchSymbols == 0) load_raw(i / kBatchSymbols, raw);
      if (i % kSymbolsOfWindow == 0) {
        position += Bytes::bits_of(used);
        used = 0;
        const int line = static_cast<int>(position & ~31u) * hidden_.line_bytes_of_bit;
        window = gpu::funnel_shift_right(lines.at(line), lines.template at<kLineBytes>(line), position);
      }
      const uint32_t entry = table[i % kSymbolsOfWindow == 0 ? window : Bytes::past_used(window, used)];
      used = Bytes::add_length(entry, used);
      const auto word = [&](int j) { return raw[i % kBatchSymbols / 4 * kRawBits + j]; };
      bytes_[2 * i] = Bytes::template join<0>(word, i % 4 * 2, entry);
      bytes_[2 * i + 1] = Bytes::template join<1>(word, i % 4 * 2 + 1, entry);
    }
    gpu::order_before_bulk_copies();
    LaneGroup::sync();
  }

  // Adds the products with x to the sums of the block's rows.
  ECMV_GPU_DEVICE void multiply(const Matrix& matrix, gpu::Pointer<const std::byte> inputs,
                                gpu::Pointer<int32_t> sums) const {
    if (!has_tile(matrix)) return;
    const gpu::Pointer<const std::byte> own_inputs = inputs + column_ * kAheadCols;
    int32_t products[2] = {};
    ECMV_GPU_UNROLL
    for (int i = 0; i < kAheadCols / 16; ++i) {
      const gpu::uint4 input = gpu::cast<const gpu::uint4>(own_inputs)[i];
      products[0] = Bytes::add_products(bytes_[4 * i], input.x, products[0]);
      products[1] = Bytes::add_products(bytes_[4 * i + 1], input.y, products[1]);
      products[0] = Bytes::add_products(bytes_[4 * i + 2], input.z, products[0]);
      products[1] = Bytes::add_products(bytes_[4 * i + 3], input.w, products[1]);
    }
    gpu::atomic_add(sums + LaneGroup::lane(), Bytes::product(products));
    ECMV_GPU_UNROLL
    for (int k = 0; k < kOwnPatches; ++k)
      if (patch_of(k) < patches_.count) add_patch(patches_.own[k], own_inputs, sums);
    ECMV_GPU_NO_UNROLL
    for (uint32_t i = patch_of(kOwnPatches); i < patches_.count; i += kLanes)
      add_patch(matrix.streams.patches[patches_.first + i], own_inputs, sums);
  }

 private:
  static constexpr int kRawBytes = static_cast<int>(raw_bytes_of_segment(8, kForm));
  static constexpr int kBatchSymbols = batch_cols(8, kForm) / 8, kBatchWords = batch_words(8, kForm),
                       kUnitWords = raw_unit_words(8, kForm);

  static constexpr int kOwnPatches = 2;
  struct Patches {
    uint32_t first, count;  // of the tile
    uint16_t own[kOwnPatches];
  };
  ECMV_GPU_DEVICE static uint32_t patch_of(int k) { return static_cast<uint32_t>(k * kLanes + LaneGroup::lane()); }
  ECMV_GPU_DEVICE static void add_patch(uint32_t patch, gpu::Pointer<const std::byte> inputs,
                                        gpu::Pointer<int32_t> sums) {
    const int32_t input = gpu::cast<const int8_t>(inputs)[static_cast<int>(patch / kLanes % kPatchCols)];
    gpu::atomic_add(sums + static_cast<int>(patch % kLanes), (patch >> 15 != 0 ? -input : input) << Bytes::kCellBits);
  }

  ECMV_GPU_DEVICE int64_t tile_number(const Matrix& matrix) const {
    return gpu::block_index() * matrix.column_tiles + column_;
  }
  ECMV_GPU_DEVICE gpu::Pointer<const std::byte> raw_of_tile(const Matrix& matrix) const {
    return matrix.streams.raw +
           (gpu::block_index() * matrix.streams.row_segments + column_) * static_cast<int64_t>(kRawBytes);
  }

  // Partial lines come without gaps; from the last to the first they are moved to where lane l's word is word l. Words
  // that a lane has not are never used.
  ECMV_GPU_DEVICE void spread_partial_lines(int mask_bytes) {
    const int lane = LaneGroup::lane(), most = kAheadLines - 1 - full_, count = partial_ < most ? partial_ : most;
    const uint32_t own = lane < count ? gpu::cast<const uint32_t>(codes_)[lane] : 0;
    int before = LaneGroup::reduce_add(gpu::popcount(own));
    const gpu::Pointer<std::byte> partial = codes_ + (mask_bytes + full_ * kLineBytes);
    ECMV_GPU_NO_UNROLL
    for (int line = count - 1; line > 0; --line) {
      const uint32_t mask = LaneGroup::pick(own, line);
      before -= gpu::popcount(mask);
      uint32_t word = 0;
      if ((mask >> lane & 1) != 0) word = gpu::cast<const uint32_t>(partial)[before + LaneGroup::count_before(mask)];
      LaneGroup::sync();
      gpu::cast<uint32_t>(partial)[line * kLanes + lane] = word;
      LaneGroup::sync();
    }
    if (count <= 0) return;
    const uint32_t mask = LaneGroup::pick(own, 0);
    uint32_t word = 0;
    if ((mask >> lane & 1) != 0) word = gpu::cast<const uint32_t>(partial)[LaneGroup::count_before(mask)];
    LaneGroup::sync();
    gpu::cast<uint32_t>(partial)[lane] = word;
  }

  ECMV_GPU_DEVICE void load_raw(int batch, uint32_t* words) const {
    ECMV_GPU_UNROLL
    for (int i = 0; i < kBatchWords; i += kUnitWords) {
      const gpu::Pointer<const std::byte> unit =
          raw_ + ((batch * kBatchWords + i) * kLineBytes + LaneGroup::lane() * kUnitWords * 4);
      if constexpr (kUnitWords == 4) {
        const gpu::uint4 v = *gpu::cast<const gpu::uint4>(unit);
        words[i] = v.x, words[i + 1] = v.y, words[i + 2] = v.z, words[i + 3] = v.w;
      } else {
        const gpu::uint2 v = *gpu::cast<const gpu::uint2>(unit);
        words[i] = v.x, words[i + 1] = v.y;
      }
    }
  }

  const Hidden& hidden_;
  gpu::Pointer<std::byte> codes_, raw_;
  gpu::Arrival arrival_;  // of codes and raw bits
  int parity_ = 0;
  int column_;
  uint32_t index_ = 0;
  int full_ = 0, partial_ = 0;
  Patches patches_{}, next_patches_{};
  uint32_t bytes_[kAheadCols / 4];
};

// x of a layer, two words a thread, which are looked at before they are needed; zeros past the last column.
class Inputs {
 public:
  ECMV_GPU_DEVICE Inputs(gpu::Pointer<std::byte> shared, const gpu::Exchange& exchange)
      : shared_(shared), exchange_(exchange) {}

  // A block without rows of the layer reads nothing (the exchange's first rule).
  ECMV_GPU_DEVICE void look(const Matrix& matrix, int number) {
    pairs_ = gpu::block_index() < matrix.row_groups ? (matrix.cols + kLanes - 1) / kLanes * kLanes / kColsOfPair : 0;
    if (gpu::thread_index() < pairs_) words_ = exchange_.look(number, gpu::thread_index());
  }
  // Layer number's results, which the layer of `matrix` multiplies; their elements are added to *sum.
  ECMV_GPU_DEVICE void await(const Matrix& matrix, int number, gpu::Pointer<int32_t> sum) {
    if (pairs_ == 0) return;
    uint32_t own = 0;
    gpu::uint2 values{};
    if (gpu::thread_index() < pairs_) {
      while (!exchange_.are_there(number, words_)) {
        gpu::pause();
        words_ = exchange_.look(number, gpu::thread_index());
      }
      values = {words_.x, words_.z};
      own = static_cast<uint32_t>(sum_of_bytes(values.y, sum_of_bytes(values.x, 0)));
    }
    if (gpu::thread_index() * kColsOfPair < matrix.streams.row_segments * kAheadCols)
      gpu::cast<gpu::uint2>(shared_)[gpu::thread_index()] = values;
    LaneGroup::sync();
    add_to(sum, static_cast<int32_t>(own));
  }

 private:
  static constexpr int kColsOfPair = 2 * kRowsOfWord;
  gpu::Pointer<std::byte> shared_;
  const gpu::Exchange& exchange_;
  int pairs_ = 0;
  gpu::uint4 words_{};
};

// A lane group hands out the results of the block's rows, a row a lane; the sums are zero again.
ECMV_GPU_DEVICE void hand_out_rows(const ChainLayer& layer, gpu::Pointer<int32_t> sums, int32_t x_sum,
                                   const gpu::Exchange& exchange, int number, bool last) {
  const int lane = LaneGroup::lane();
  const int64_t row = gpu::block_index() * kLanes + lane;
  if (gpu::block_index() >= layer.matrix.row_groups) return;
  const int32_t total = sums[lane] + layer.matrix.lowest * x_sum;
  sums[lane] = 0;
  const bool exists = row < layer.matrix.rows;
  uint32_t word = exists ? static_cast<uint8_t>(gpu::requantise_on_device(total, layer.epilogue.scale)) : 0u;
  word |= LaneGroup::shuffle_xor(word, 1) << 8;
  word = (word & 0xFFFFu) | LaneGroup::shuffle_xor(word, 2) << 16;
  if (!last && lane % kRowsOfWord == 0)
    exchange.put(number, gpu::block_index() * kWordsOfGroup + lane / kRowsOfWord, word);
  if (exists) layer.epilogue.store(row, total);
}

// Shared memory after the plan's: the sums of x of two layers in turn, the sums of the rows, the descriptions of all
// layers.
inline constexpr int kAheadRowSums = 16, kAheadLayers = kAheadRowSums + kLanes * 4;

template <int kForm, int kSymbolsOfWindow>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(512, 1) void chain_ahead(gpu::Pointer<const std::byte> layers, int count,
                                                         gpu::Exchange exchange, gpu::Pointer<const int8_t> x,
                                                         Plan plan, Hidden hidden) {
  const gpu::Pointer<std::byte> shared = gpu::shared_memory() + plan.sums;
  const gpu::Pointer<int32_t> x_sums = gpu::cast<int32_t>(shared), sums = gpu::cast<int32_t>(shared + kAheadRowSums);
  const gpu::Pointer<std::byte> inputs = gpu::shared_memory() + plan.inputs;
  // Two tables take turns.
  const auto table_at = [&](int number) { return gpu::shared_memory() + number % 2 * (plan.rings / 2); };
  const auto layer_of = [&](int number) -> const ChainLayer& {
    return *gpu::cast<const ChainLayer>(shared + (kAheadLayers + number * static_cast<int>(kStoredLayerBytes)));
  };

  exchange.begin();
  for (int i = gpu::thread_index(); i < count * static_cast<int>(kStoredLayerBytes) / 4; i += gpu::block_size())
    gpu::cast<uint32_t>(shared + kAheadLayers)[i] = gpu::cast<const uint32_t>(layers)[i];
  for (int i = gpu::thread_index(); i < kAheadLayers / 4; i += gpu::block_size()) x_sums[i] = 0;
  gpu::sync_block();
  using Ahead = AheadLanes<kForm, kSymbolsOfWindow>;
  Ahead lanes(gpu::shared_memory() + (plan.rings + LaneGroup::uniform(LaneGroup::group()) * Ahead::kSharedBytes),
              hidden);
  lanes.init();
  lanes.load_index(layer_of(0).matrix);
  gpu::sync_block();
  lanes.begin(layer_of(0).matrix);
  if (count > 1) lanes.load_index(layer_of(1).matrix);
  fill_table(layer_of(0).matrix, plan, load_own_entries<1>(layer_of(0).matrix));
  load_inputs(x, layer_of(0).matrix.cols, layer_of(0).matrix.streams.row_segments * kAheadCols, inputs, x_sums);
  OwnEntries<1> entry = count > 1 ? load_own_entries<1>(layer_of(1).matrix) : OwnEntries<1>{};
  Inputs next_inputs(inputs, exchange);
  gpu::sync_block();

  for (int k = 0; k < count; ++k) {
    const bool last = k + 1 == count;
    const ChainLayer& layer = layer_of(k);
    // 1.
    lanes.decode(layer.matrix, table_of(layer.matrix, plan, table_at(k)));
    if (k > 0) next_inputs.look(layer.matrix, k - 1);
    if (!last) {
      lanes.begin(layer_of(k + 1).matrix);
      fill_table(layer_of(k + 1).matrix, plan, entry, table_at(k + 1));
    }
    if (k + 2 < count) {
      lanes.load_index(layer_of(k + 2).matrix);
      entry = load_own_entries<1>(layer_of(k + 2).matrix);
    }
    // 2.
    if (k > 0) next_inputs.await(layer.matrix, k - 1, x_sums + k % 2);
    gpu::sync_block();
    // 3.
    lanes.multiply(layer.matrix, inputs, sums);
    if (gpu::thread_index() == 0) x_sums[(k + 1) % 2] = 0;
    gpu::sync_block();
    if (LaneGroup::group() == k % plan.lane_groups) hand_out_rows(layer, sums, x_sums[k % 2], exchange, k, last);
  }
  if (gpu::thread_index() == 0) exchange.end(count);
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
