// A lane group that decodes tiles of 256 columns to 64 registers of each lane, and multiplies them when x is there
// (chain.cu). Meanwhile the next tile's codes and raw bits come to shared memory as a whole, and the index of the tile
// after it.
#pragma once

#include <bit>

#include "backends/gpu/products/requantise.h"
#include "codecs/quad_huffman/gpu/plan.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

struct ChainLayer {
  Matrix matrix;
  gpu::Epilogue epilogue;
};

inline constexpr int kRowsOfWord = 4, kWordsOfGroup = kLanes / kRowsOfWord;
inline constexpr int64_t kStoredLayerBytes = (static_cast<int64_t>(sizeof(ChainLayer)) + 15) / 16 * 16;
inline int64_t stored_layers_bytes(size_t count) { return static_cast<int64_t>(count) * kStoredLayerBytes; }

inline constexpr int kAheadCols = segment_cols(8), kHelpers = 4, kMostAheadThreads = (16 + kHelpers) * kLanes;
// A segment's codes are at most T lines, and a window reads the line after its first bit's. Masks of partial lines come
// before them.
inline constexpr int kAheadMaskBytes = kMostPartialLines * 4;
inline constexpr int ahead_code_bytes(int table_bits) { return kAheadMaskBytes + (table_bits + 1) * kLineBytes; }
inline constexpr int ahead_bytes(int form, int table_bits) {
  return ahead_code_bytes(table_bits) + static_cast<int>(raw_bytes_of_segment(8, form)) + 2 * gpu::Arrival::kBytes;
}
// Windows have room for Table::at_shifted() of all their symbols.
inline constexpr int ahead_symbols_of_window(int table_bits) { return table_bits <= 9 ? 3 : 2; }
// As many copies of a table as those bits allow, a power of two, at most `most`.
inline constexpr int ahead_copies(int table_bits, int most) {
  int copies = most;
  while (ahead_symbols_of_window(table_bits) * table_bits + 2 + std::countr_zero(static_cast<unsigned>(copies)) > 32)
    copies /= 2;
  return copies;
}

// The layers of the chain. A block's row groups lie grid_size() apart.
struct AheadLayers {
  gpu::Pointer<const std::byte> layers;
  int count;

  ECMV_GPU_DEVICE const ChainLayer& operator[](int number) const {
    return *gpu::cast<const ChainLayer>(layers + number * static_cast<int>(kStoredLayerBytes));
  }
  ECMV_GPU_DEVICE static int group_of(int round) { return round * gpu::grid_size() + gpu::block_index(); }
};

// One of the lane group's tiles, in the order of layers; layer == count: none is left.
struct AheadTile {
  int layer, round, column;
};

// Moves the words of partial lines, which come without gaps, to their lanes' places: from the last line to the first,
// some at once. Other words are never used. There is room for `most` lines; no code begins in the last one.
ECMV_GPU_DEVICE void spread_partial_lines(gpu::Pointer<const std::byte> masks, gpu::Pointer<std::byte> lines,
                                          int partial, int most) {
  constexpr int kTogether = 4;
  const int lane = LaneGroup::lane(), count = partial < most - 1 ? partial : most - 1;
  if (count <= 0) return;
  int first = (count - 1) / kTogether * kTogether, before = 0;  // first of some lines; words before them
  if (first > 0)
    before = LaneGroup::reduce_add(lane < first ? gpu::popcount(gpu::cast<const uint32_t>(masks)[lane]) : 0);
  ECMV_GPU_NO_UNROLL
  for (;;) {
    const gpu::uint4 four = gpu::cast<const gpu::uint4>(masks)[first / kTogether];
    const uint32_t of_line[kTogether] = {four.x, four.y, four.z, four.w};
    uint32_t words[kTogether];
    int next = before;
    ECMV_GPU_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      const bool has = first + i < count && (of_line[i] >> lane & 1) != 0;
      if (has) words[i] = gpu::cast<const uint32_t>(lines)[next + LaneGroup::count_before(of_line[i])];
      next += gpu::popcount(of_line[i]);
    }
    LaneGroup::sync();
    ECMV_GPU_UNROLL
    for (int i = 0; i < kTogether; ++i)
      if (first + i < count && (of_line[i] >> lane & 1) != 0)
        gpu::cast<uint32_t>(lines)[(first + i) * kLanes + lane] = words[i];
    gpu::order_before_bulk_copies();
    LaneGroup::sync();
    if (first == 0) return;
    first -= kTogether;
    const gpu::uint4 those = gpu::cast<const gpu::uint4>(masks)[first / kTogether];
    before -= gpu::popcount(those.x) + gpu::popcount(those.y) + gpu::popcount(those.z) + gpu::popcount(those.w);
  }
}

// The tiles of a lane group, one after the other, as far as their coding does not matter. A tile has `raw_bytes`.
class AheadTiles {
 public:
  // Says whether the next tile is of layer `layer`.
  ECMV_GPU_DEVICE bool has_tile(int layer) const { return tile_.layer == layer; }

 protected:
  ECMV_GPU_DEVICE AheadTiles(AheadLayers layers, const BlockPlan& plan, const Hidden& hidden)
      : layers_(layers),
        lane_groups_(plan.lane_groups),
        lane_group_(LaneGroup::uniform(LaneGroup::group())),
        room_(plan.table_bits + 1),
        first_position_(-2 - plan.copy_shift),
        hidden_(hidden),
        shared_(gpu::shared_memory() + (plan.rings + lane_group_ * plan.own_bytes)) {}

  ECMV_GPU_DEVICE void init_arrival(int raw_bytes) const {
    if (LaneGroup::lane() == 0) arrival(raw_bytes).init();
  }
  // Starts the copies of the first tile.
  ECMV_GPU_DEVICE void begin_first(int raw_bytes) {
    tile_ = from({0, 0, lane_group_});
    index_ = load_index(tile_, raw_bytes);
    begin_tile(tile_, index_, raw_bytes);
    next_ = after(tile_);
    next_index_ = load_index(next_, raw_bytes);
  }
  // Starts the copies of the next tile; the one before has been decoded.
  ECMV_GPU_DEVICE void begin_next(int raw_bytes) {
    begin_tile(next_, next_index_, raw_bytes);
    round_ = tile_.round, column_ = tile_.column;
    tile_ = next_, index_ = next_index_;
    next_ = after(next_);
    next_index_ = load_index(next_, raw_bytes);
  }

  static constexpr int kOwnPatches = 2;
  struct Patches {
    uint32_t first, count;  // the tile's
    uint16_t own[kOwnPatches];
  };
  ECMV_GPU_DEVICE void load_patches() {
    patches_.first = LaneGroup::pick(index_, 1);
    patches_.count = LaneGroup::pick(index_, 5) - patches_.first;
    const gpu::Pointer<const uint16_t> patches = layers_[tile_.layer].matrix.streams.patches + patches_.first;
    ECMV_GPU_UNROLL
    for (int k = 0; k < kOwnPatches; ++k)
      if (patch_of(k) < patches_.count) patches_.own[k] = patches[patch_of(k)];
  }
  ECMV_GPU_DEVICE static uint32_t patch_of(int k) { return static_cast<uint32_t>(k * kLanes + LaneGroup::lane()); }
  ECMV_GPU_DEVICE static void add_patch(uint32_t patch, gpu::Pointer<const std::byte> inputs,
                                        gpu::Pointer<int32_t> sums, int cell_bits) {
    const int32_t input = gpu::cast<const int8_t>(inputs)[static_cast<int>(patch / kLanes % kPatchCols)];
    gpu::atomic_add(sums + static_cast<int>(patch % kLanes), (patch >> 15 != 0 ? -input : input) << cell_bits);
  }

  // The next 64 bits from a position on. Bits of lines before the first and after the last one are never used.
  ECMV_GPU_DEVICE Windows windows_at(const gpu::SharedWords& words, int position) const {
    const int line = (position & ~31) * hidden_.line_bytes_of_bit;
    const uint32_t middle = words.template arriving_at<kLineBytes>(line);
    return {gpu::funnel_shift_right(words.template arriving_at<0>(line), middle, static_cast<uint32_t>(position)),
            gpu::funnel_shift_right(middle, words.template arriving_at<2 * kLineBytes>(line),
                                    static_cast<uint32_t>(position))};
  }
  ECMV_GPU_DEVICE int code_bytes() const { return kAheadMaskBytes + room_ * kLineBytes; }
  // Raw bits follow the codes.
  ECMV_GPU_DEVICE gpu::Pointer<std::byte> raw() const { return shared_ + code_bytes(); }
  ECMV_GPU_DEVICE gpu::Arrival arrival(int raw_bytes) const { return gpu::Arrival(raw() + raw_bytes); }

  AheadLayers layers_;
  int lane_groups_, lane_group_;  // that decode; this one
  int room_;                      // for codes, in lines
  int first_position_;
  const Hidden& hidden_;
  gpu::Pointer<std::byte> shared_;
  AheadTile tile_, next_;  // to be decoded, and the one after it
  uint32_t index_, next_index_;
  int round_ = 0, column_ = 0;  // the decoded tile's
  Patches patches_{};

 private:
  // Says whether there is such a layer.
  ECMV_GPU_DEVICE bool exists(AheadTile tile) const { return tile.layer < layers_.count; }
  ECMV_GPU_DEVICE AheadTile after(AheadTile tile) const {
    if (!exists(tile)) return tile;
    tile.column += lane_groups_;
    if (tile.column < layers_[tile.layer].matrix.column_tiles) return tile;
    return from({tile.layer, tile.round + 1, lane_group_});
  }
  // Finds the tile if the block has the row group and the layer the column tile, or the first one of a later layer.
  ECMV_GPU_DEVICE AheadTile from(AheadTile tile) const {
    while (exists(tile)) {
      const Matrix& matrix = layers_[tile.layer].matrix;
      if (tile.column < matrix.column_tiles && AheadLayers::group_of(tile.round) < matrix.row_groups) break;
      tile = {tile.layer + 1, 0, lane_group_};
    }
    return tile;
  }
  ECMV_GPU_DEVICE static int number_of(const Matrix& matrix, AheadTile tile) {
    return AheadLayers::group_of(tile.round) * matrix.column_tiles + tile.column;
  }
  // A tile is one segment.
  ECMV_GPU_DEVICE static gpu::Pointer<const std::byte> raw_of(const Matrix& matrix, AheadTile tile, int raw_bytes) {
    return matrix.streams.raw + AheadLayers::group_of(tile.round) * matrix.streams.raw_row_bytes +
           tile.column * static_cast<int64_t>(raw_bytes);
  }

  // Loads the tile's index and the next one, word l to lane l, while the tiles before it are under way. Prefetches its
  // raw bits to the L2: their place needs no index.
  ECMV_GPU_DEVICE uint32_t load_index(AheadTile tile, int raw_bytes) const {
    if (!exists(tile)) return 0;
    const Matrix& matrix = layers_[tile.layer].matrix;
    if (raw_bytes > 0 && LaneGroup::lane() == 0) gpu::prefetch_l2(raw_of(matrix, tile, raw_bytes), raw_bytes);
    const gpu::Pointer<const uint32_t> words =
        gpu::cast<const uint32_t>(matrix.streams.tiles + number_of(matrix, tile));
    return LaneGroup::lane() < 8 ? words[LaneGroup::lane()] : 0;
  }

  ECMV_GPU_DEVICE void begin_tile(AheadTile tile, uint32_t index, int raw_bytes) const {
    if (!exists(tile)) return;
    const Matrix& matrix = layers_[tile.layer].matrix;
    const uint32_t first_unit = LaneGroup::pick(index, 0), end_unit = LaneGroup::pick(index, 4);
    if (LaneGroup::lane() != 0) return;
    const int stored = static_cast<int>(end_unit - first_unit) * kUnitBytes,
              bytes = stored < code_bytes() ? stored : code_bytes();
    const gpu::Arrival arrival = this->arrival(raw_bytes);
    arrival.expect(bytes + raw_bytes);
    arrival.copy(shared_, matrix.streams.codes + static_cast<int64_t>(first_unit) * kUnitBytes, bytes);
    if (raw_bytes > 0) arrival.copy(raw(), raw_of(matrix, tile, raw_bytes), raw_bytes);
  }
};

template <int kForm, int kSymbolsOfWindow>
class AheadLanes : public AheadTiles {
 public:
  static constexpr int kRawBits = raw_bits_of(kForm);
  using Bytes = Cells<8, kForm>;

  ECMV_GPU_DEVICE AheadLanes(AheadLayers layers, const BlockPlan& plan, const Hidden& hidden)
      : AheadTiles(layers, plan, hidden) {}

  // All lanes call this before a barrier of the block.
  ECMV_GPU_DEVICE void init() const { init_arrival(kRawBytes); }

  // Starts the copies of the first tile.
  ECMV_GPU_DEVICE void begin() { begin_first(kRawBytes); }

  // Decodes the next tile to registers, and starts the copies of the one after it.
  ECMV_GPU_DEVICE void decode(const Table& table) {
    load_patches();
    const uint32_t lines = LaneGroup::pick(index_, 3);
    const int full = static_cast<int>(lines & 0xFFFF) * kBlockLines, partial = static_cast<int>(lines >> 16);
    arrival(kRawBytes).wait(parity_);
    parity_ ^= 1;
    LaneGroup::sync();
    const gpu::Pointer<std::byte> masks = shared_, first_line = masks + (partial + 3) / 4 * kUnitBytes;
    spread_partial_lines(masks, first_line + full * kLineBytes, partial, room_ - full);
    decode_codes(table, gpu::SharedWords(first_line + 4 * LaneGroup::lane()), raw());
    LaneGroup::sync();
    begin_next(kRawBytes);
  }

  // Adds the products of the decoded tiles of layer `layer` with x to the sums of the block's rows.
  ECMV_GPU_DEVICE void multiply(int layer, gpu::Pointer<const std::byte> inputs,
                                gpu::Pointer<int32_t> block_sums) const {
    const gpu::Pointer<const std::byte> own_inputs = inputs + column_ * kAheadCols;
    const gpu::Pointer<int32_t> sums = block_sums + round_ * kLanes;
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
      if (patch_of(k) < patches_.count) add_patch(patches_.own[k], own_inputs, sums, Bytes::kCellBits);
    ECMV_GPU_NO_UNROLL
    for (uint32_t i = patch_of(kOwnPatches); i < patches_.count; i += kLanes)
      add_patch(layers_[layer].matrix.streams.patches[patches_.first + i], own_inputs, sums, Bytes::kCellBits);
  }

 private:
  static constexpr int kRawBytes = static_cast<int>(raw_bytes_of_segment(8, kForm));
  static constexpr int kBatchSymbols = batch_cols(8, kForm) / 8, kBatchWords = batch_words(8, kForm),
                       kUnitWords = raw_unit_words(8, kForm);

  ECMV_GPU_DEVICE static void load_raw(gpu::Pointer<const std::byte> raw, int batch, uint32_t* words) {
    ECMV_GPU_UNROLL
    for (int i = 0; i < kBatchWords; i += kUnitWords) {
      const gpu::Pointer<const std::byte> unit =
          raw + ((batch * kBatchWords + i) * kLineBytes + LaneGroup::lane() * kUnitWords * 4);
      if constexpr (kUnitWords == 4) {
        const gpu::uint4 v = *gpu::cast<const gpu::uint4>(unit);
        words[i] = v.x, words[i + 1] = v.y, words[i + 2] = v.z, words[i + 3] = v.w;
      } else {
        const gpu::uint2 v = *gpu::cast<const gpu::uint2>(unit);
        words[i] = v.x, words[i + 1] = v.y;
      }
    }
  }

  ECMV_GPU_DEVICE void decode_codes(const Table& table, const gpu::SharedWords& words,
                                    gpu::Pointer<const std::byte> raw) {
    Windows windows{};
    int position = first_position_;
    uint32_t used = 0, used_before = 0, window = 0, raw_words[kBatchWords == 0 ? 1 : kBatchWords] = {};
    ECMV_GPU_UNROLL
    for (int i = 0; i < kSegmentSymbols; ++i) {
      if (i % kBatchSymbols == 0) load_raw(raw, i / kBatchSymbols, raw_words);
      if (i % (2 * kSymbolsOfWindow) == 0) {
        position += static_cast<int>(Bytes::bits_of(used_before + used));
        windows = windows_at(words, position);
        window = windows.first;
        used = used_before = 0;
      } else if (i % kSymbolsOfWindow == 0) {
        window = gpu::funnel_shift_right(windows.first, windows.second, used);
        used_before = used;
        used = 0;
      }
      const uint32_t entry = table.at_shifted(i % kSymbolsOfWindow == 0 ? window : Bytes::past_used(window, used));
      used = Bytes::add_length(entry, used);
      const auto word = [&](int j) { return raw_words[i % kBatchSymbols / 4 * kRawBits + j]; };
      bytes_[2 * i] = Bytes::template join<0>(word, i % 4 * 2, entry);
      bytes_[2 * i + 1] = Bytes::template join<1>(word, i % 4 * 2 + 1, entry);
    }
  }

  int parity_ = 0;
  uint32_t bytes_[kAheadCols / 4];
};

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
