// How 32 lanes (a worker) bring the symbols of tiles to shared memory, as operands of matrix units: for each panel a lane stores its four quads, 16
// bytes. PackedTiles and LaneTiles walk the panels of two tiles side by side (one where tiles have 128 rows), 32 columns a step; words that every
// lane knows the place of are loaded a step ahead. In LaneTiles each lane has a ring of its own words, so that no lane asks another: 14
// operations and two for the ring, of four elements; ballot and prefix count would take five more. StreamTiles decode whole tiles of interleaved bytes, a lane a stream.
#pragma once

#include <utility>

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "backends/gpu/shared_address.h"
#include "codecs/tile_rans/format.h"

namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE {
namespace gpu = backends::ECMV_GPU_NAMESPACE;

using Worker = gpu::Lanes<kLanes>;

inline constexpr int kMostWorkers = 16;            // of a block
inline constexpr int kPanelBytes = kLanes * 16;    // as an operand
inline constexpr int kWorkerPanels = 8;            // that a worker decodes between two barriers

// Functions of format.h once more, for devices: where an element's byte is in a panel, and an entry of rans_lanes' table.
ECMV_GPU_DEVICE int place_in_panel(int row, int col) { return (row % 8 * 4 + col % 16 / 4) * 16 + (row / 8 + col / 16 * 2) * 4 + col % 4; }
template <int kSymbolCols>
ECMV_GPU_DEVICE uint32_t entry_of(uint32_t symbol, uint32_t rank, uint32_t frequency) {
  const uint32_t value = kSymbolCols == 2 ? (symbol & 15) | (symbol & 0xF0) << 4 : (symbol & 3) | (symbol & 0xC) << 2 | (symbol & 0x30) << 4 | (symbol & 0xC0) << 6;
  return value | rank << 16 | frequency << 24;
}

// A matrix as a kernel sees it.
struct Stream {
  gpu::Pointer<const std::byte> tables, index, codes, raw;
  uint32_t last_chunk;  // of 16 bytes of codes
  int64_t rows, cols;
  int tiles_across, steps;  // steps of 32 columns
  int tile_steps, tile_shift, tile_cols;
  int prob_bits;
  int table_bytes, copy_bits;  // of the table in shared memory, which has 2^copy_bits copies
  uint32_t zero;               // which nvcc does not know
};

// The strip of tiles that a thread block has, and where it stores operands.
struct Strip {
  int64_t down;
  int panels_down;       // that exist
  int64_t first_panel;   // of the matrix
  gpu::Pointer<gpu::uint4> operands;
  // The first panel of a step; the others of the tile's column follow.
  ECMV_GPU_DEVICE int64_t panel(int step) const { return first_panel + int64_t{step} * panels_down; }
};

// Steps that are on their way to the L2 cache before a worker loads them.
inline constexpr int kAheadSteps = 3;

// Brings panels of kBytes of some steps to the L2 cache.
template <int64_t kBytes>
ECMV_GPU_DEVICE void prefetch_steps(gpu::Pointer<const std::byte> panels, const Stream& stream, const Strip& strip, int step, int steps) {
  if (step >= stream.steps || Worker::lane() != 0) return;
  if (steps > stream.steps - step) steps = stream.steps - step;
  gpu::prefetch_l2(panels + strip.panel(step) * kBytes, steps * strip.panels_down * static_cast<int>(kBytes));
}

// A lane's words of a column of panels; of those that are not there anything.
template <int kPanels, typename Words>
ECMV_GPU_DEVICE void load_panels(gpu::Pointer<const Words> words, int panels_down, Words (&out)[kPanels]) {
  if (panels_down == kPanels) {
    ECMV_GPU_UNROLL
    for (int rg = 0; rg < kPanels; ++rg) out[rg] = gpu::load_streaming_here(words + rg * kLanes);
  } else {
    ECMV_GPU_UNROLL
    for (int rg = 0; rg < kPanels; ++rg)
      if (rg < panels_down) out[rg] = gpu::load_streaming_here(words + rg * kLanes);
  }
}

// The tiles of a worker between two beginnings: each one's number, its first step, and that of the tile after it, beyond the matrix where there is none.
template <int kTiles>
struct Round {
  int across[kTiles], first[kTiles], after[kTiles];
};

// kPanels: panels of a tile's column of panels, 4 or 8.
template <int kPanels>
struct PackedTiles {
  static constexpr int kTiles = 8 / kPanels, kSteps = 1;  // tiles of a worker at once, steps that one call decodes
  static constexpr int kSmallOperands = 3;               // up to which 64 registers do
  static constexpr bool kIsForThreeBlocks = false;       // of 8 waves, with 80 registers
  static constexpr int64_t kSharedBytes = 0;             // of a worker

  ECMV_GPU_DEVICE PackedTiles(const Stream& stream, const Strip& strip, int, gpu::SharedAddress) : stream_(stream), strip_(strip) {}
  static ECMV_GPU_DEVICE void fill_table(const Stream&, gpu::SharedAddress) {}
  // `anew`: nothing has been loaded for the first step.
  ECMV_GPU_DEVICE void begin(const Round<kTiles>& round, bool anew) {
    if (!anew) return;
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      prefetch_steps<kPackedPanelBytes>(stream_.codes, stream_, strip_, round.first[tile], kAheadSteps < stream_.tile_steps ? kAheadSteps : stream_.tile_steps);
      load(tile, round.first[tile], 0);
    }
  }

  // The panels of step number `step` of the tiles, which may be beyond the matrix, into the worker's slots.
  ECMV_GPU_DEVICE void decode(const Round<kTiles>& round, int step, int slot) {
    // Everything that has been loaded is used before the first new load, whose address depends on it: who waits for one load waits for the newest.
    uint32_t newest = stream_.zero;
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      newest &= ahead_[tile][kPanels - 1].y;
      ECMV_GPU_UNROLL
      for (int rg = 0; rg < kPanels; ++rg) {
        const gpu::uint2 words = ahead_[tile][rg];
        strip_.operands[((slot + tile) * kPanels + rg) * kLanes + Worker::lane()] =
            gpu::uint4{words.x & 0x0F0F0F0Fu, words.x >> 4 & 0x0F0F0F0Fu, words.y & 0x0F0F0F0Fu, words.y >> 4 & 0x0F0F0F0Fu};
      }
    }
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      load(tile, step + 1 < stream_.tile_steps ? round.first[tile] + step + 1 : round.after[tile], static_cast<int>(newest));
      if (step + kAheadSteps < stream_.tile_steps) prefetch_steps<kPackedPanelBytes>(stream_.codes, stream_, strip_, round.first[tile] + step + kAheadSteps, 1);
    }
  }

 private:
  ECMV_GPU_DEVICE void load(int tile, int step, int zero) {
    if (step >= stream_.steps) return;
    load_panels<kPanels>(gpu::cast<const gpu::uint2>(stream_.codes) + (strip_.panel(step) * kLanes + (Worker::lane() | zero)), strip_.panels_down, ahead_[tile]);
  }

  const Stream& stream_;
  const Strip& strip_;
  gpu::uint2 ahead_[kTiles][kPanels] = {};
};

// The words of a lane of a tile: a ring of two chunks in shared memory, the first once more behind its end so that places need no wrapping, and the
// chunk after them in registers. (Asynchronous copies to a ring of four chunks take three more operations each and twice the room.)
class LaneWords {
 public:
  static constexpr int kChunkBytes = 16, kRingBytes = 3 * kChunkBytes;
  static constexpr int kStepsOfChunk = 8;  // a step takes a word at most

  explicit ECMV_GPU_DEVICE LaneWords(gpu::SharedAddress ring) : ring_(ring), place_(ring), chunk_end_(ring) {}

  // `first`: the tile's first word of this lane, counted from `codes`. Returns the lane's first two words.
  ECMV_GPU_DEVICE uint32_t begin(const Stream& stream, int64_t first) {
    next_ = static_cast<uint32_t>(2 * first / kChunkBytes);
    place_ = ring_ + static_cast<int>(2 * first % kChunkBytes);
    chunk_end_ = ring_ + kChunkBytes;
    load(stream);
    ring_.store(ahead_);
    (ring_ + 2 * kChunkBytes).store(ahead_);
    load(stream);
    chunk_end_.store(ahead_);
    load(stream);
    const uint32_t low = place_.load16(), high = (place_ + 2).load16();
    place_ += 4;
    word_ = place_.load16();
    advance(stream);
    return low | high << 16;
  }
  // Brings a state below the lower bound back. The word for it was loaded when the one before was taken, so that nobody waits for shared memory.
  ECMV_GPU_DEVICE void refill(uint32_t& state) { place_.refill(state, word_); }
  // After every kStepsOfChunk steps, or earlier: if the chunk in use has been used up, the one in registers takes its place.
  ECMV_GPU_DEVICE void advance(const Stream& stream) {
    if (place_ < chunk_end_) return;
    (chunk_end_ + -kChunkBytes).store(ahead_);
    const bool is_first = chunk_end_ == ring_ + kChunkBytes;
    if (is_first) (ring_ + 2 * kChunkBytes).store(ahead_);
    place_ += is_first ? 0 : -2 * kChunkBytes;
    chunk_end_ += is_first ? kChunkBytes : -kChunkBytes;
    load(stream);
  }

 private:
  // Chunks behind the last one are the last one: nobody takes words of them.
  ECMV_GPU_DEVICE void load(const Stream& stream) {
    ahead_ = gpu::load_streaming_here(gpu::cast<const gpu::uint4>(stream.codes) + (next_ < stream.last_chunk ? next_ : stream.last_chunk));
    ++next_;
  }

  gpu::SharedAddress ring_, place_, chunk_end_;  // the ring, the next word, where the chunk in use ends
  uint32_t word_ = 0;
  gpu::uint4 ahead_{};
  uint32_t next_ = 0;  // chunk of `codes` to load next
};

template <int kPanels, int kSymbolCols>
struct LaneTiles {
  static constexpr int kTiles = 8 / kPanels, kSteps = 1;
  static constexpr int kSmallOperands = 0;
  static constexpr bool kIsForThreeBlocks = true;
  static constexpr int64_t kSharedBytes = int64_t{kTiles} * kLanes * LaneWords::kRingBytes;
  static constexpr int kSymbols = 4 / kSymbolCols;  // of a quad

  ECMV_GPU_DEVICE LaneTiles(const Stream& stream, const Strip& strip, int own, gpu::SharedAddress table)
      : LaneTiles(stream, strip, gpu::SharedAddress(gpu::shared_memory() + (own + Worker::lane() * LaneWords::kRingBytes)), table, std::make_index_sequence<kTiles>()) {}

  // All threads of the block.
  static ECMV_GPU_DEVICE void fill_table(const Stream& stream, gpu::SharedAddress table) {
    const gpu::Pointer<uint32_t> first = gpu::cast<uint32_t>(gpu::shared_memory());  // where operands will be
    const gpu::Pointer<const uint16_t> frequencies = gpu::cast<const uint16_t>(stream.tables);
    if (Worker::group() == 0) {
      uint32_t before = 0;
      for (int symbol = Worker::lane(); symbol < kLaneSymbols; symbol += kLanes) {
        const uint32_t own = frequencies[symbol], prefix = before + Worker::prefix_add(own);
        first[symbol] = prefix;
        before = Worker::shuffle(prefix + own, kLanes - 1);
      }
    }
    gpu::sync_block();
    // A worker stores all copies of a symbol's entries, a word a lane.
    for (int symbol = Worker::group(); symbol < kLaneSymbols; symbol += gpu::block_size() / kLanes) {
      const uint32_t begin = first[symbol], end = symbol + 1 < kLaneSymbols ? first[symbol + 1] : 1u << stream.prob_bits;
      const gpu::SharedAddress place = table + static_cast<int>((begin << stream.copy_bits) * 4);
      for (uint32_t word = static_cast<uint32_t>(Worker::lane()); word < (end - begin) << stream.copy_bits; word += kLanes)
        (place + static_cast<int>(4 * word)).store(entry_of<kSymbolCols>(static_cast<uint32_t>(symbol), word >> stream.copy_bits, end - begin));
    }
  }

  ECMV_GPU_DEVICE void begin(const Round<kTiles>& round, bool anew) {
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      const gpu::Pointer<const std::byte> entry = stream_.index + (strip_.down * stream_.tiles_across + round.across[tile]) * kLaneIndexBytes;
      states_[tile] = words_[tile].begin(stream_, *gpu::cast<const uint32_t>(entry) + int64_t{gpu::cast<const uint16_t>(entry + 4)[Worker::lane()]});
    }
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      if (anew) {
        prefetch_codes(round.first[tile]);
        load_raw(tile, round.first[tile], 0);
      }
      prefetch_raw(round.first[tile], kAheadSteps < stream_.tile_steps ? kAheadSteps : stream_.tile_steps);
      prefetch_codes(round.after[tile]);
    }
  }

  ECMV_GPU_DEVICE void decode(const Round<kTiles>& round, int step, int slot) {
    // Everything that has been loaded is there before the first new load, whose address depends on it: who waits for one load waits for the newest.
    uint32_t raw[kTiles][kPanels];
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile)
      ECMV_GPU_UNROLL
      for (int rg = 0; rg < kPanels; ++rg) raw[tile][rg] = ahead_[tile][rg];
    uint32_t newest = stream_.zero;
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) newest &= raw[tile][kPanels - 1];
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      load_raw(tile, step + 1 < stream_.tile_steps ? round.first[tile] + step + 1 : round.after[tile], static_cast<int>(newest));
      if (step + kAheadSteps < stream_.tile_steps) prefetch_raw(round.first[tile] + step + kAheadSteps, 1);
    }
    ECMV_GPU_UNROLL
    for (int rg = 0; rg < kPanels; ++rg) {
      if (rg >= strip_.panels_down) break;
      uint32_t quads[kTiles][kPanelQuads];
      ECMV_GPU_UNROLL
      for (int quad = 0; quad < kPanelQuads; ++quad) {
        ECMV_GPU_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          if constexpr (kSymbolCols == 4) {
            quads[tile][quad] = gpu::select_bits(0x03030303u, raw[tile][rg] >> (2 * quad), gpu::select_bytes(0x0C080400u, take(tile)));
          } else {
            const uint32_t left = take(tile);
            quads[tile][quad] = gpu::byte_permute(left, take(tile), 0x5410);
          }
        }
      }
      ECMV_GPU_UNROLL
      for (int tile = 0; tile < kTiles; ++tile)
        strip_.operands[((slot + tile) * kPanels + rg) * kLanes + Worker::lane()] = gpu::uint4{quads[tile][0], quads[tile][1], quads[tile][2], quads[tile][3]};
      if ((rg + 1) * kPanelQuads * kSymbols % LaneWords::kStepsOfChunk == 0 || rg + 1 == strip_.panels_down) {
        ECMV_GPU_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) words_[tile].advance(stream_);
      }
    }
  }

 private:
  template <size_t... kTile>
  ECMV_GPU_DEVICE LaneTiles(const Stream& stream, const Strip& strip, gpu::SharedAddress ring, gpu::SharedAddress table, std::index_sequence<kTile...>)
      : stream_(stream), strip_(strip), table_(table + 4 * (Worker::lane() & ((1 << stream.copy_bits) - 1))), stride_(4u << stream.copy_bits),
        mask_(((1u << stream.prob_bits) - 1) << (2 + stream.copy_bits)), words_{LaneWords(ring + static_cast<int>(kTile) * kLanes * LaneWords::kRingBytes)...} {}

  // A step: the entry of the state's slot, the state before it.
  ECMV_GPU_DEVICE uint32_t take(int tile) {
    uint32_t& x = states_[tile];
    const uint32_t entry = table_.load32_with((x * stride_) & mask_);
    x = (entry >> 24) * (x >> stream_.prob_bits) + gpu::byte_permute(entry, 0, 0x4442);
    words_[tile].refill(x);
    return entry;
  }
  ECMV_GPU_DEVICE void load_raw(int tile, int step, int zero) {
    if constexpr (kSymbolCols != 4) return;
    if (step >= stream_.steps) return;
    load_panels<kPanels>(gpu::cast<const uint32_t>(stream_.raw) + (strip_.panel(step) * kLanes + (Worker::lane() | zero)), strip_.panels_down, ahead_[tile]);
  }
  ECMV_GPU_DEVICE void prefetch_raw(int step, int steps) const {
    if constexpr (kSymbolCols == 4) prefetch_steps<kRawPanelBytes>(stream_.raw, stream_, strip_, step, steps);
  }
  // The codes of the tile that begins with this step; every lane reads them in a place of its own.
  ECMV_GPU_DEVICE void prefetch_codes(int step) const {
    if (step >= stream_.steps || Worker::lane() != 0) return;
    const gpu::Pointer<const std::byte> entry = stream_.index + (strip_.down * stream_.tiles_across + (step >> stream_.tile_shift)) * kLaneIndexBytes;
    const int64_t first = int64_t{*gpu::cast<const uint32_t>(entry)} * 2 & -kCodesAlign, end = (int64_t{*gpu::cast<const uint32_t>(entry + kLaneIndexBytes)} * 2 + kCodesAlign - 1) & -kCodesAlign;
    gpu::prefetch_l2(stream_.codes + first, static_cast<int>(end - first));
  }

  const Stream& stream_;
  const Strip& strip_;
  gpu::SharedAddress table_;  // this lane's copy
  uint32_t stride_, mask_;
  uint32_t states_[kTiles] = {};
  LaneWords words_[kTiles];
  uint32_t ahead_[kTiles][kPanels] = {};
};

// Interleaved bytes: a tile for each worker, of 64 x 64 or 128 x 32 elements. A lane has a stream, with 64 streams two; with fewer than 32 the
// other lanes are idle. Bytes come from global memory as they are needed, through the first-level cache.
template <int kPanels, int kStreams>
struct StreamTiles {
  static constexpr int kTiles = 1, kSteps = 8 / kPanels, kSmallOperands = 6;
  static constexpr bool kIsForThreeBlocks = false;
  static constexpr int kLanesUsed = kStreams < kLanes ? kStreams : kLanes, kStates = kStreams / kLanesUsed;
  static constexpr int64_t kSharedBytes = kTileSlots / 2 + 4 * kLevels;  // symbols of slots, two a byte; frequency | first << 16
  using Group = gpu::Lanes<kLanesUsed>;

  ECMV_GPU_DEVICE StreamTiles(const Stream& stream, const Strip& strip, int own, gpu::SharedAddress)
      : stream_(stream), strip_(strip), slots_(gpu::cast<uint8_t>(gpu::shared_memory() + own)), symbols_(gpu::cast<uint32_t>(gpu::shared_memory() + (own + static_cast<int>(kTileSlots / 2)))) {}
  static ECMV_GPU_DEVICE void fill_table(const Stream&, gpu::SharedAddress) {}

  ECMV_GPU_DEVICE void begin(const Round<kTiles>& round, bool) {
    const int across = round.across[0];
    const int64_t number = strip_.down * stream_.tiles_across + across;
    Worker::sync();
    const uint32_t frequency = Worker::lane() < kLevels ? uint32_t{gpu::cast<const uint16_t>(stream_.tables + number * kTileTableBytes)[Worker::lane() & (kLevels - 1)]} : 0;
    const uint32_t first = Worker::prefix_add(frequency);
    if (Worker::lane() < kLevels) symbols_[Worker::lane()] = frequency | first << 16;
    // Eight slots are a word.
    uint32_t first_of[kLevels];
    ECMV_GPU_UNROLL
    for (int s = 0; s < kLevels; ++s) first_of[s] = Worker::shuffle(first, s);
    for (uint32_t word = static_cast<uint32_t>(Worker::lane()); word < kTileSlots / 8; word += kLanes) {
      uint32_t eight = 0;
      ECMV_GPU_UNROLL
      for (int s = 1; s < kLevels; ++s)  // every slot from `first` on is one symbol further
        eight += first_of[s] <= 8 * word ? 0x11111111u : first_of[s] < 8 * word + 8 ? 0x11111111u << (4 * (first_of[s] - 8 * word)) : 0;
      gpu::cast<uint32_t>(slots_)[word] = eight;
    }
    const int64_t tile_cols = stream_.cols - int64_t{across} * stream_.tile_cols;
    cols_ = tile_cols < stream_.tile_cols ? static_cast<int>(tile_cols) : stream_.tile_cols;
    next_ = *gpu::cast<const uint32_t>(stream_.index + number * kTileIndexBytes);
    Worker::sync();
  }

  ECMV_GPU_DEVICE void decode(const Round<kTiles>&, int, int slot) {
    if (Worker::lane() < kLanesUsed) decode_tile(gpu::cast<uint8_t>(strip_.operands + slot * kSteps * kPanels * kLanes));
    Worker::sync();
  }

 private:
  ECMV_GPU_DEVICE void decode_tile(gpu::Pointer<uint8_t> out) {
    uint32_t states[kStates];
    ECMV_GPU_UNROLL
    for (int i = 0; i < kStates; ++i) {
      states[i] = 0;
      ECMV_GPU_UNROLL
      for (int byte = 0; byte < 4; ++byte) states[i] |= byte_at(next_ + 4 * (i * kLanesUsed + Group::lane()) + byte) << (8 * byte);
    }
    next_ += 4 * kStreams;
    const int64_t strip_rows = stream_.rows - strip_.down * (kPanels * kPanelRows);
    const int rows = strip_rows < kPanels * kPanelRows ? static_cast<int>(strip_rows) : kPanels * kPanelRows, count = rows * cols_;
    int row = Group::lane() / cols_, col = Group::lane() % cols_;
    ECMV_GPU_NO_UNROLL
    for (int begin = 0; begin < count; begin += kStreams) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < kStates; ++i) {
        const bool exists = begin + i * kLanesUsed + Group::lane() < count;
        uint32_t& x = states[i];
        const uint32_t at = x & (kTileSlots - 1), symbol = uint32_t{slots_[at / 2]} >> (at % 2 * 4) & 15, entry = symbols_[symbol];
        if (exists) {
          out[place(row, col)] = static_cast<uint8_t>(symbol);
          x = (entry & 0xFFFF) * (x >> kTileProbBits) + at - (entry >> 16);
        }
        const auto once = Group::ballot(x < kByteLower), twice = Group::ballot(x < kByteLower >> 8);
        const int64_t byte = next_ + Group::count_before(once) + Group::count_before(twice);
        if (x < kByteLower >> 8)
          x = x << 16 | byte_at(byte) << 8 | byte_at(byte + 1);
        else if (x < kByteLower)
          x = x << 8 | byte_at(byte);
        next_ += gpu::popcount(once) + gpu::popcount(twice);
        for (col += kLanesUsed; col >= cols_; col -= cols_) ++row;
      }
    }
  }
  ECMV_GPU_DEVICE uint32_t byte_at(int64_t at) const { return gpu::load_shared_by_many(gpu::cast<const uint8_t>(stream_.codes + at)); }
  // Of an element's byte among the worker's operands.
  static ECMV_GPU_DEVICE int place(int row, int col) {
    return (col / kPanelCols * kPanels + row / kPanelRows) * kPanelBytes + place_in_panel(row % kPanelRows, col % kPanelCols);
  }

  const Stream& stream_;
  const Strip& strip_;
  gpu::Pointer<uint8_t> slots_;
  gpu::Pointer<uint32_t> symbols_;
  int cols_ = 0;
  int64_t next_ = 0;  // byte of `codes`
};

}  // namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE
