// A whole chain in one launch, in which nobody waits for the vector. A layer's tiles are 32 rows of 256 columns. Lane groups
// that decode have a tile each in turn, decoded to 64 registers of each lane: the first one of a layer while its x is still
// travelling between the blocks, so that once x arrives only products of bytes are left. Four more lane groups, the helpers,
// do what comes between layers, so that decoding goes on meanwhile: hand out results as soon as all tiles are multiplied,
// make the table of the layer after the next one, and bring the next x to shared memory (exchange.h).
//
//   lane groups that decode      decode(k), begin the next tile | await x(k) | multiply(k) | decode(k+1) ...
//   helpers                                       await all multiply(k) | results(k) | table(k+2) | await and store x(k+1) ...
//
// They meet at gates: x of a layer is there; all have multiplied; the table is there, of which two take turns. Bulk copies,
// because copies of lanes pass the unit that also looks for x (H200, d = 4096: 1300 clocks to start them for a layer). Eight
// columns a symbol only: other tiles of 256 columns have several segments.
#pragma once

#include <bit>

#include "backends/gpu/gate.h"
#include "codecs/quad_huffman/chain_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

inline constexpr int kAheadCols = segment_cols(8), kHelpers = 4, kMostAheadThreads = (16 + kHelpers) * kLanes;
// A segment's codes are at most T lines, and a window reads the line after its first bit's. Masks of partial lines come
// before them.
inline constexpr int kAheadMaskBytes = kMostPartialLines * 4;
inline constexpr int ahead_code_bytes(int table_bits) { return kAheadMaskBytes + (table_bits + 1) * kLineBytes; }
// Of a lane group: `tiles` take turns.
inline constexpr int ahead_bytes(int form, int table_bits, int tiles) {
  return tiles * (ahead_code_bytes(table_bits) + static_cast<int>(raw_bytes_of_segment(8, form))) + 2 * gpu::Arrival::kBytes;
}
// Windows have room for Table::at_shifted() of all their symbols.
inline constexpr int ahead_symbols_of_window(int table_bits) { return table_bits <= 9 ? 3 : 2; }
inline constexpr int ahead_copies(int table_bits) {
  int copies = 16;
  while (ahead_symbols_of_window(table_bits) * table_bits + 2 + std::countr_zero(static_cast<unsigned>(copies)) > 32) copies /= 2;
  return copies;
}

// The layers of the chain, and which row groups are a block's: each grid_size() after the one before.
struct AheadLayers {
  gpu::Pointer<const std::byte> layers;
  int count;

  ECMV_GPU_DEVICE const ChainLayer& operator[](int number) const {
    return *gpu::cast<const ChainLayer>(layers + number * static_cast<int>(kStoredLayerBytes));
  }
  ECMV_GPU_DEVICE static int group_of(int round) { return round * gpu::grid_size() + gpu::block_index(); }
};

// One of the tiles that a lane group has, in the order of layers; layer == count: none is left.
struct AheadTile {
  int layer, round, column;
};

template <int kForm, int kSymbolsOfWindow, int kTiles>
class AheadLanes {
 public:
  static constexpr int kRawBits = raw_bits_of(kForm);
  using Bytes = Cells<8, kForm>;

  // `shared`: ahead_bytes() of each lane group.
  ECMV_GPU_DEVICE AheadLanes(AheadLayers layers, const Plan& plan, const Hidden& hidden)
      : layers_(layers),
        lane_groups_(plan.lane_groups),
        lane_group_(LaneGroup::uniform(LaneGroup::group())),
        room_(plan.table_bits + 1),
        first_position_(-2 - plan.copy_shift),
        hidden_(hidden),
        shared_(gpu::shared_memory() + (plan.rings + lane_group_ * plan.own_bytes)) {}

  // By all lanes, before a barrier of the block.
  ECMV_GPU_DEVICE void init() const {
    if (LaneGroup::lane() != 0) return;
    for (int turn = 0; turn < kTiles; ++turn) arrival(turn).init();
  }

  // Starts the copies of the first tiles.
  ECMV_GPU_DEVICE void begin() {
    tiles_[0] = from({0, 0, lane_group_});
    index_[0] = load_index(tiles_[0]);
    ECMV_GPU_UNROLL
    for (int i = 0; i < kTiles; ++i) {
      begin_tile(tiles_[i], index_[i], i);
      tiles_[i + 1] = after(tiles_[i]);
      index_[i + 1] = load_index(tiles_[i + 1]);
    }
  }

  // Whether the next tile is of layer `layer`.
  ECMV_GPU_DEVICE bool has_tile(int layer) const { return tiles_[0].layer == layer; }

  // Decodes the next tile to registers, and starts the copies of one more.
  ECMV_GPU_DEVICE void decode(const Table& table) {
    load_patches();
    const uint32_t lines = LaneGroup::pick(index_[0], 3);
    const int full = static_cast<int>(lines & 0xFFFF) * kBlockLines, partial = static_cast<int>(lines >> 16);
    arrival(turn_).wait(parity_);
    LaneGroup::sync();
    const gpu::Pointer<std::byte> masks = codes(turn_), first_line = masks + (partial + 3) / 4 * kUnitBytes;
    spread_partial_lines(masks, first_line + full * kLineBytes, partial, room_ - full);
    decode_codes(table, gpu::SharedWords(first_line + 4 * LaneGroup::lane()), raw(turn_));
    LaneGroup::sync();
    begin_tile(tiles_[kTiles], index_[kTiles], turn_);
    round_ = tiles_[0].round, column_ = tiles_[0].column;
    ECMV_GPU_UNROLL
    for (int i = 0; i < kTiles; ++i) tiles_[i] = tiles_[i + 1], index_[i] = index_[i + 1];
    tiles_[kTiles] = after(tiles_[kTiles]);
    index_[kTiles] = load_index(tiles_[kTiles]);
    turn_ = (turn_ + 1) % kTiles;
    if (turn_ == 0) parity_ ^= 1;
  }

  // Adds the products of what has been decoded, of layer `layer`, with x to the sums of the block's rows.
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
      if (patch_of(k) < patches_.count) add_patch(patches_.own[k], own_inputs, sums);
    ECMV_GPU_NO_UNROLL
    for (uint32_t i = patch_of(kOwnPatches); i < patches_.count; i += kLanes)
      add_patch(layers_[layer].matrix.streams.patches[patches_.first + i], own_inputs, sums);
  }

 private:
  static constexpr int kRawBytes = static_cast<int>(raw_bytes_of_segment(8, kForm));
  static constexpr int kBatchSymbols = batch_cols(8, kForm) / 8, kBatchWords = batch_words(8, kForm),
                       kUnitWords = raw_unit_words(8, kForm);

  // --- tiles ---

  // Of a layer there is.
  ECMV_GPU_DEVICE bool exists(AheadTile tile) const { return tile.layer < layers_.count; }
  ECMV_GPU_DEVICE AheadTile after(AheadTile tile) const {
    if (!exists(tile)) return tile;
    tile.column += lane_groups_;
    if (tile.column < layers_[tile.layer].matrix.column_tiles) return tile;
    return from({tile.layer, tile.round + 1, lane_group_});
  }
  // The tile, if the block has the row group and the layer the column tile, or the first one of a layer after it.
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
  ECMV_GPU_DEVICE static gpu::Pointer<const std::byte> raw_of(const Matrix& matrix, AheadTile tile) {
    return matrix.streams.raw + number_of(matrix, tile) * static_cast<int64_t>(kRawBytes);
  }

  // Word l of the tile's index and the next one goes to lane l, while the tiles before it are under way. Its raw bits, which
  // are where no index has to say, are brought to the L2.
  ECMV_GPU_DEVICE uint32_t load_index(AheadTile tile) const {
    if (!exists(tile)) return 0;
    const Matrix& matrix = layers_[tile.layer].matrix;
    if (kRawBits > 0 && LaneGroup::lane() == 0) gpu::prefetch_l2(raw_of(matrix, tile), kRawBytes);
    const gpu::Pointer<const uint32_t> words =
        gpu::cast<const uint32_t>(matrix.streams.tiles + number_of(matrix, tile));
    return LaneGroup::lane() < 8 ? words[LaneGroup::lane()] : 0;
  }

  ECMV_GPU_DEVICE void begin_tile(AheadTile tile, uint32_t index, int turn) const {
    if (!exists(tile)) return;
    const Matrix& matrix = layers_[tile.layer].matrix;
    const uint32_t first_unit = LaneGroup::pick(index, 0), end_unit = LaneGroup::pick(index, 4);
    if (LaneGroup::lane() != 0) return;
    const int stored = static_cast<int>(end_unit - first_unit) * kUnitBytes,
              bytes = stored < code_bytes() ? stored : code_bytes();
    const gpu::Arrival arrival = this->arrival(turn);
    arrival.expect(bytes + kRawBytes);
    arrival.copy(codes(turn), matrix.streams.codes + static_cast<int64_t>(first_unit) * kUnitBytes, bytes);
    if (kRawBits > 0) arrival.copy(raw(turn), raw_of(matrix, tile), kRawBytes);
  }

  // --- patches ---

  static constexpr int kOwnPatches = 2;
  struct Patches {
    uint32_t first, count;  // of the tile
    uint16_t own[kOwnPatches];
  };
  ECMV_GPU_DEVICE void load_patches() {
    patches_.first = LaneGroup::pick(index_[0], 1);
    patches_.count = LaneGroup::pick(index_[0], 5) - patches_.first;
    const gpu::Pointer<const uint16_t> patches = layers_[tiles_[0].layer].matrix.streams.patches + patches_.first;
    ECMV_GPU_UNROLL
    for (int k = 0; k < kOwnPatches; ++k)
      if (patch_of(k) < patches_.count) patches_.own[k] = patches[patch_of(k)];
  }
  ECMV_GPU_DEVICE static uint32_t patch_of(int k) { return static_cast<uint32_t>(k * kLanes + LaneGroup::lane()); }
  ECMV_GPU_DEVICE static void add_patch(uint32_t patch, gpu::Pointer<const std::byte> inputs,
                                        gpu::Pointer<int32_t> sums) {
    const int32_t input = gpu::cast<const int8_t>(inputs)[static_cast<int>(patch / kLanes % kPatchCols)];
    gpu::atomic_add(sums + static_cast<int>(patch % kLanes), (patch >> 15 != 0 ? -input : input) << Bytes::kCellBits);
  }

  // --- codes ---

  ECMV_GPU_DEVICE int code_bytes() const { return kAheadMaskBytes + room_ * kLineBytes; }
  ECMV_GPU_DEVICE gpu::Pointer<std::byte> codes(int turn) const { return shared_ + turn * (code_bytes() + kRawBytes); }
  ECMV_GPU_DEVICE gpu::Pointer<std::byte> raw(int turn) const { return codes(turn) + code_bytes(); }
  ECMV_GPU_DEVICE gpu::Arrival arrival(int turn) const {
    return gpu::Arrival(shared_ + (kTiles * (code_bytes() + kRawBytes) + turn * gpu::Arrival::kBytes));
  }

  // Partial lines come without gaps; from the last to the first, some at once, they are moved to where lane l's word is word
  // l. Words that a lane has not are never used. There is room for `most` lines, the last of which no code begins in.
  ECMV_GPU_DEVICE static void spread_partial_lines(gpu::Pointer<const std::byte> masks, gpu::Pointer<std::byte> lines,
                                                   int partial, int most) {
    constexpr int kTogether = 4;
    const int lane = LaneGroup::lane(), count = partial < most - 1 ? partial : most - 1;
    if (count <= 0) return;
    int first = (count - 1) / kTogether * kTogether, before = 0;  // of some lines; words before them
    if (first > 0) before = LaneGroup::reduce_add(lane < first ? gpu::popcount(gpu::cast<const uint32_t>(masks)[lane]) : 0);
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

  // The next 64 bits from a position on; of lines before the first one and after the last nothing is used.
  ECMV_GPU_DEVICE Windows windows_at(const gpu::SharedWords& words, int position) const {
    const int line = (position & ~31) * hidden_.line_bytes_of_bit;
    const uint32_t middle = words.template arriving_at<kLineBytes>(line);
    return {gpu::funnel_shift_right(words.template arriving_at<0>(line), middle, static_cast<uint32_t>(position)),
            gpu::funnel_shift_right(middle, words.template arriving_at<2 * kLineBytes>(line),
                                    static_cast<uint32_t>(position))};
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

  AheadLayers layers_;
  int lane_groups_, lane_group_;  // that decode; this one
  int room_;                      // of codes, in lines
  int first_position_;
  const Hidden& hidden_;
  gpu::Pointer<std::byte> shared_;
  AheadTile tiles_[kTiles + 1];  // to be decoded and the next ones
  uint32_t index_[kTiles + 1];
  int turn_ = 0, parity_ = 0;
  int round_ = 0, column_ = 0;  // of what has been decoded, and all below
  Patches patches_{};
  uint32_t bytes_[kAheadCols / 4];
};

// A block's shared memory after the plan's: gates; sums of x, of two layers in turn, a word a helper; sums of the rows; the
// descriptions of all layers.
struct AheadPlaces {
  gpu::Pointer<std::byte> first;
  static constexpr int kGates = 4, kXSumsAt = kGates * gpu::kGateBytes, kSumsAt = kXSumsAt + 2 * kHelpers * 4;

  ECMV_GPU_DEVICE gpu::Gate multiplied() const { return gpu::Gate(first); }
  ECMV_GPU_DEVICE gpu::Gate x_there() const { return gpu::Gate(first + gpu::kGateBytes); }
  ECMV_GPU_DEVICE gpu::Gate table_there(int layer) const { return gpu::Gate(first + (2 + layer % 2) * gpu::kGateBytes); }
  ECMV_GPU_DEVICE gpu::Pointer<int32_t> x_sums(int layer) const {
    return gpu::cast<int32_t>(first + kXSumsAt) + layer % 2 * kHelpers;
  }
  ECMV_GPU_DEVICE gpu::Pointer<int32_t> sums() const { return gpu::cast<int32_t>(first + kSumsAt); }
};
inline int ahead_sums_bytes(int rounds) { return AheadPlaces::kSumsAt + rounds * kLanes * 4; }

// What the helpers do; number `helper` of them.
class AheadHelper {
 public:
  ECMV_GPU_DEVICE AheadHelper(AheadLayers layers, int helper, const AheadPlaces& places, const Plan& plan,
                              const gpu::Exchange& exchange)
      : layers_(layers),
        helper_(helper),
        places_(places),
        plan_(plan),
        exchange_(exchange),
        threads_{helper * kLanes + LaneGroup::lane(), kHelpers * kLanes} {}

  ECMV_GPU_DEVICE void run(gpu::Pointer<const int8_t> x) {
    make_table(0, load_own_entries<kOwn>(layers_[0].matrix, threads_));
    copy_first_x(x);
    OwnEntries<kOwn> entries{};
    if (layers_.count > 1) make_table(1, load_own_entries<kOwn>(layers_[1].matrix, threads_));
    for (int k = 0; k < layers_.count; ++k) {
      if (k + 2 < layers_.count) entries = load_own_entries<kOwn>(layers_[k + 2].matrix, threads_);
      places_.multiplied().wait(k % 2);
      hand_out(k);
      if (k + 2 < layers_.count) make_table(k + 2, entries);
      if (k + 1 < layers_.count) await_x(k);
    }
    if (threads_.own == 0) exchange_.end(layers_.count);
  }

 private:
  static constexpr int kOwn = 4, kPairs = 4, kColsOfPair = 2 * kRowsOfWord;

  ECMV_GPU_DEVICE void arrive_at(const gpu::Gate& gate) const {
    LaneGroup::sync();
    if (LaneGroup::lane() == 0) gate.arrive();
  }
  ECMV_GPU_DEVICE void make_table(int number, const OwnEntries<kOwn>& entries) const {
    fill_table(layers_[number].matrix, plan_, entries, threads_,
               gpu::shared_memory() + number % 2 * (plan_.rings / 2));
    arrive_at(places_.table_there(number));
  }
  ECMV_GPU_DEVICE gpu::Pointer<std::byte> inputs() const { return gpu::shared_memory() + plan_.inputs; }
  // Of layer `number`; x is in shared memory.
  ECMV_GPU_DEVICE void end_x(int number, int32_t own) const {
    own = LaneGroup::reduce_add(own);
    if (LaneGroup::lane() == 0) places_.x_sums(number)[helper_] = own;
    arrive_at(places_.x_there());
  }
  ECMV_GPU_DEVICE void copy_first_x(gpu::Pointer<const int8_t> x) const {
    const Matrix& matrix = layers_[0].matrix;
    int32_t own = 0;
    for (int col = threads_.own * 16; col < matrix.streams.row_segments * kAheadCols; col += threads_.count * 16) {
      const gpu::uint4 words = col < matrix.cols ? *gpu::cast<const gpu::uint4>(x + col) : gpu::uint4{};
      *gpu::cast<gpu::uint4>(inputs() + col) = words;
      own = sum_of_bytes(words.w, sum_of_bytes(words.z, sum_of_bytes(words.y, sum_of_bytes(words.x, own))));
    }
    end_x(0, own);
  }
  // Layer number's results as the blocks hand them out, then zeros up to the next layer's last tile. A block without rows of
  // the next layer reads nothing (the exchange's first rule).
  ECMV_GPU_DEVICE void await_x(int number) const {
    const Matrix& matrix = layers_[number + 1].matrix;
    const int pairs = (matrix.cols + kLanes - 1) / kLanes * kLanes / kColsOfPair,
              stored = matrix.streams.row_segments * kAheadCols / kColsOfPair;
    int32_t own = 0;
    if (gpu::block_index() < matrix.row_groups) {
      for (int first = threads_.own; first < pairs; first += kPairs * threads_.count) {
        const int count = (pairs - first + threads_.count - 1) / threads_.count;
        gpu::uint2 values[kPairs];
        while (!exchange_.try_pairs(number, first, threads_.count, count, values)) gpu::pause();
        ECMV_GPU_UNROLL
        for (int i = 0; i < kPairs; ++i) {
          if (i >= count) continue;
          gpu::cast<gpu::uint2>(inputs())[first + i * threads_.count] = values[i];
          own = sum_of_bytes(values[i].y, sum_of_bytes(values[i].x, own));
        }
      }
      for (int pair = pairs + threads_.own; pair < stored; pair += threads_.count)
        gpu::cast<gpu::uint2>(inputs())[pair] = gpu::uint2{};
    }
    end_x(number + 1, own);
  }

  // The results of the block's rows, a row a lane and a row group a helper in turn; the sums are zero again.
  ECMV_GPU_DEVICE void hand_out(int number) const {
    const ChainLayer& layer = layers_[number];
    const int lane = LaneGroup::lane();
    const bool last = number + 1 == layers_.count;
    int32_t x_sum = 0;
    for (int i = 0; i < kHelpers; ++i) x_sum += places_.x_sums(number)[i];
    for (int round = helper_; AheadLayers::group_of(round) < layer.matrix.row_groups; round += kHelpers) {
      const int64_t group = AheadLayers::group_of(round), row = group * kLanes + lane;
      const gpu::Pointer<int32_t> sum = places_.sums() + (round * kLanes + lane);
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

  AheadLayers layers_;
  int helper_;
  AheadPlaces places_;
  const Plan& plan_;
  const gpu::Exchange& exchange_;
  Threads threads_;  // of the helpers
};

// The block has plan.lane_groups that decode, and the helpers after them.
template <int kForm, int kSymbolsOfWindow, int kTiles>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostAheadThreads, 1) void chain_ahead(gpu::Pointer<const std::byte> stored, int count,
                                                                       gpu::Exchange exchange,
                                                                       gpu::Pointer<const int8_t> x, Plan plan,
                                                                       Hidden hidden) {
  const AheadPlaces places{gpu::shared_memory() + plan.sums};
  const gpu::Pointer<std::byte> layer_bytes = gpu::shared_memory() + (plan.bytes - count * static_cast<int>(kStoredLayerBytes));
  const AheadLayers layers{layer_bytes, count};

  exchange.begin();
  for (int i = gpu::thread_index(); i < count * static_cast<int>(kStoredLayerBytes) / 4; i += gpu::block_size())
    gpu::cast<uint32_t>(layer_bytes)[i] = gpu::cast<const uint32_t>(stored)[i];
  for (gpu::Pointer<int32_t> sum = places.sums() + gpu::thread_index(); sum < gpu::cast<int32_t>(layer_bytes);
       sum += gpu::block_size())
    *sum = 0;
  if (gpu::thread_index() == 0) {
    places.multiplied().init(static_cast<uint32_t>(plan.lane_groups));
    places.x_there().init(kHelpers);
    for (int i = 0; i < 2; ++i) places.table_there(i).init(kHelpers);
  }
  const int lane_group = LaneGroup::uniform(LaneGroup::group());
  AheadLanes<kForm, kSymbolsOfWindow, kTiles> lanes(layers, plan, hidden);
  if (lane_group < plan.lane_groups) lanes.init();
  gpu::sync_block();
  if (lane_group >= plan.lane_groups) {
    AheadHelper(layers, lane_group - plan.lane_groups, places, plan, exchange).run(x);
    return;
  }

  lanes.begin();
  for (int k = 0; k < count; ++k) {
    Table table = table_of(layers[k].matrix, plan);
    table.lane |= static_cast<uint32_t>(k % 2 * (plan.rings / 2));
    bool waits = true;
    if (lanes.has_tile(k)) places.table_there(k).wait(k / 2 % 2);
    while (lanes.has_tile(k)) {
      lanes.decode(table);
      if (waits) places.x_there().wait(k % 2);
      waits = false;
      lanes.multiply(k, gpu::shared_memory() + plan.inputs, places.sums());
    }
    if (waits) places.x_there().wait(k % 2);
    LaneGroup::sync();
    if (LaneGroup::lane() == 0) places.multiplied().arrive();
  }
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
