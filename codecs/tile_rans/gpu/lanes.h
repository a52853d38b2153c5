// Tiles of rans_lanes: each lane has a state and words of its own, so no lane asks another. Four elements take 14
// operations and two for the ring; ballot and prefix count would take five more. A state's next word is in a register
// before the state needs it.
#pragma once

#include <utility>

#include "codecs/tile_rans/gpu/panels.h"

namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE {

// An entry of the table, repeated here for devices from format.h.
template <int kSymbolCols>
ECMV_GPU_DEVICE uint32_t entry_of(uint32_t symbol, uint32_t rank, uint32_t frequency) {
  const uint32_t value = kSymbolCols == 2
                             ? (symbol & 15) | (symbol & 0xF0) << 4
                             : (symbol & 3) | (symbol & 0xC) << 2 | (symbol & 0x30) << 4 | (symbol & 0xC0) << 6;
  return value | rank << 16 | frequency << 24;
}

// The words of a lane of a tile: a ring of two chunks in shared memory, the first repeated at the end so that places
// need no wrapping, and the chunk after them in registers. (Asynchronous copies to a ring of four chunks take three
// more operations each and twice the room.)
class LaneWords {
 public:
  static constexpr int kChunkBytes = 16, kRingBytes = 3 * kChunkBytes;
  static constexpr int kStepsOfChunk = 8;  // a step takes a word at most

  explicit ECMV_GPU_DEVICE LaneWords(gpu::SharedAddress ring) : ring_(ring), place_(ring), chunk_end_(ring) {}

  // `first` is the tile's first word of this lane, counted from `codes`.
  ECMV_GPU_DEVICE void load_first(const Stream& stream, int64_t first) {
    next_ = static_cast<uint32_t>(2 * first / kChunkBytes);
    place_ = ring_ + static_cast<int>(2 * first % kChunkBytes);
    chunk_end_ = ring_ + kChunkBytes;
    early_[0] = load(stream);
    early_[1] = load(stream);
    ahead_ = load(stream);
  }
  // Call this after load_first; returns the lane's first two words.
  ECMV_GPU_DEVICE uint32_t start(const Stream& stream) {
    ring_.store(early_[0]);
    (ring_ + 2 * kChunkBytes).store(early_[0]);
    chunk_end_.store(early_[1]);
    const uint32_t low = place_.load16(), high = (place_ + 2).load16();
    place_ += 4;
    word_ = place_.load16();
    advance(stream);
    return low | high << 16;
  }
  // Brings a state below the lower bound back. Its word was loaded when the one before was taken, so nobody waits for
  // shared memory.
  ECMV_GPU_DEVICE void refill(uint32_t& state) { place_.refill(state, word_); }
  // Call this after every kStepsOfChunk steps, or earlier: if the chunk in use is used up, the one in registers
  // replaces it.
  ECMV_GPU_DEVICE void advance(const Stream& stream) {
    if (place_ < chunk_end_) return;
    (chunk_end_ + -kChunkBytes).store(ahead_);
    const bool is_first = chunk_end_ == ring_ + kChunkBytes;
    if (is_first) (ring_ + 2 * kChunkBytes).store(ahead_);
    place_ += is_first ? 0 : -2 * kChunkBytes;
    chunk_end_ += is_first ? kChunkBytes : -kChunkBytes;
    ahead_ = load(stream);
  }

 private:
  // The last chunk stands in for chunks past the end; no lane takes words of them.
  ECMV_GPU_DEVICE gpu::uint4 load(const Stream& stream) {
    const uint32_t chunk = next_++;
    return gpu::load_streaming_here(gpu::cast<const gpu::uint4>(stream.codes) +
                                    (chunk < stream.last_chunk ? chunk : stream.last_chunk));
  }

  gpu::SharedAddress ring_, place_, chunk_end_;  // the ring, the next word, where the chunk in use ends
  uint32_t word_ = 0;
  gpu::uint4 early_[2], ahead_{};
  uint32_t next_ = 0;  // chunk of `codes` to load next
};

template <int kPanels, int kSymbolCols>
struct LaneTiles {
  static constexpr int kTiles = 8 / kPanels, kSteps = 1;
  static constexpr int kSmallOperands = 0;
  static constexpr bool kIsForRegisters = true;
  static constexpr int kMostLaneGroups = 16;
  static constexpr int64_t kSharedBytes = int64_t{kTiles} * kLanes * LaneWords::kRingBytes;
  static constexpr int kSymbols = 4 / kSymbolCols;  // of a quad

  ECMV_GPU_DEVICE LaneTiles(const Stream& stream, const Strip& strip, int own, gpu::SharedAddress table)
      : LaneTiles(stream, strip,
                  gpu::SharedAddress(gpu::shared_memory() + (own + LaneGroup::lane() * LaneWords::kRingBytes)), table,
                  std::make_index_sequence<kTiles>()) {}

  // The beginnings of the symbols' slots go to the beginning of shared memory, which nobody uses yet.
  static ECMV_GPU_DEVICE void begin_table(const Stream& stream, gpu::SharedAddress) {
    if (LaneGroup::group() != 0) return;
    constexpr int kRounds = kLaneSymbols / kLanes;
    uint32_t own[kRounds], before = 0;
    ECMV_GPU_UNROLL
    for (int i = 0; i < kRounds; ++i) own[i] = gpu::cast<const uint16_t>(stream.tables)[i * kLanes + LaneGroup::lane()];
    ECMV_GPU_UNROLL
    for (int i = 0; i < kRounds; ++i) {
      const uint32_t prefix = LaneGroup::prefix_add(own[i]);
      gpu::cast<uint32_t>(gpu::shared_memory())[i * kLanes + LaneGroup::lane()] = before + prefix;
      before += LaneGroup::shuffle(prefix + own[i], kLanes - 1);
    }
  }
  static ECMV_GPU_DEVICE void finish_table(const Stream& stream, gpu::SharedAddress table) {
    const gpu::Pointer<const uint32_t> first = gpu::cast<const uint32_t>(gpu::shared_memory());
    // A lane group stores all copies of a symbol's entries, a word a lane.
    for (int symbol = LaneGroup::group(); symbol < kLaneSymbols; symbol += gpu::block_size() / kLanes) {
      const uint32_t begin = first[symbol],
                     end = symbol + 1 < kLaneSymbols ? first[symbol + 1] : 1u << stream.prob_bits;
      const gpu::SharedAddress place = table + static_cast<int>((begin << stream.copy_bits) * 4);
      for (uint32_t word = static_cast<uint32_t>(LaneGroup::lane()); word < (end - begin) << stream.copy_bits;
           word += kLanes)
        (place + static_cast<int>(4 * word))
            .store(entry_of<kSymbolCols>(static_cast<uint32_t>(symbol), word >> stream.copy_bits, end - begin));
    }
  }

  ECMV_GPU_DEVICE void ask(const Round<kTiles>& round) {
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      const gpu::Pointer<const std::byte> entry =
          stream_.index + (strip_.down * stream_.tiles_across + round.across[tile]) * kLaneIndexBytes;
      first_[tile] =
          *gpu::cast<const uint32_t>(entry) + int64_t{gpu::cast<const uint16_t>(entry + 4)[LaneGroup::lane()]};
    }
  }
  ECMV_GPU_DEVICE void load(const Round<kTiles>& round, bool anew) {
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) words_[tile].load_first(stream_, first_[tile]);
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
  ECMV_GPU_DEVICE void start() {
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) states_[tile] = words_[tile].start(stream_);
  }

  template <typename Sink>
  ECMV_GPU_DEVICE void decode(const Round<kTiles>& round, int step, const Sink& sink) {
    // Everything loaded has arrived before the first new load, whose address depends on it: a wait for one load is a
    // wait for the newest.
    uint32_t raw[kTiles][kPanels];
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) ECMV_GPU_UNROLL
    for (int rg = 0; rg < kPanels; ++rg) raw[tile][rg] = ahead_[tile][rg];
    uint32_t newest = stream_.zero;
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) newest &= raw[tile][kPanels - 1];
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      load_raw(tile, step + 1 < stream_.tile_steps ? round.first[tile] + step + 1 : round.after[tile],
               static_cast<int>(newest));
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
            quads[tile][quad] =
                gpu::select_bits(0x03030303u, raw[tile][rg] >> (2 * quad), gpu::select_bytes(0x0C080400u, take(tile)));
          } else {
            const uint32_t left = take(tile);
            quads[tile][quad] = gpu::byte_permute(left, take(tile), 0x5410);
          }
        }
      }
      ECMV_GPU_UNROLL
      for (int tile = 0; tile < kTiles; ++tile)
        sink(tile, rg, gpu::uint4{quads[tile][0], quads[tile][1], quads[tile][2], quads[tile][3]});
      if ((rg + 1) * kPanelQuads * kSymbols % LaneWords::kStepsOfChunk == 0 || rg + 1 == strip_.panels_down) {
        ECMV_GPU_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) words_[tile].advance(stream_);
      }
    }
  }

 private:
  template <size_t... kTile>
  ECMV_GPU_DEVICE LaneTiles(const Stream& stream, const Strip& strip, gpu::SharedAddress ring, gpu::SharedAddress table,
                            std::index_sequence<kTile...>)
      : stream_(stream),
        strip_(strip),
        table_(table + 4 * (LaneGroup::lane() & ((1 << stream.copy_bits) - 1))),
        stride_(4u << stream.copy_bits),
        mask_(((1u << stream.prob_bits) - 1) << (2 + stream.copy_bits)),
        words_{LaneWords(ring + static_cast<int>(kTile) * kLanes * LaneWords::kRingBytes)...} {}

  // A step: the entry of the state's slot, and the state before it.
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
    load_panels<kPanels>(
        gpu::cast<const uint32_t>(stream_.raw) + (strip_.panel(step) * kLanes + (LaneGroup::lane() | zero)),
        strip_.panels_down, ahead_[tile]);
  }
  ECMV_GPU_DEVICE void prefetch_raw(int step, int steps) const {
    if constexpr (kSymbolCols == 4) prefetch_steps<kRawPanelBytes>(stream_.raw, stream_, strip_, step, steps);
  }
  // The codes of the tile that begins with this step. Every lane reads them at a place of its own.
  ECMV_GPU_DEVICE void prefetch_codes(int step) const {
    if (step >= stream_.steps || LaneGroup::lane() != 0) return;
    const gpu::Pointer<const std::byte> entry =
        stream_.index + (strip_.down * stream_.tiles_across + (step >> stream_.tile_shift)) * kLaneIndexBytes;
    const int64_t first = int64_t{*gpu::cast<const uint32_t>(entry)} * 2 & -kCodesAlign,
                  end = (int64_t{*gpu::cast<const uint32_t>(entry + kLaneIndexBytes)} * 2 + kCodesAlign - 1) &
                        -kCodesAlign;
    gpu::prefetch_l2(stream_.codes + first, static_cast<int>(end - first));
  }

  const Stream& stream_;
  const Strip& strip_;
  gpu::SharedAddress table_;  // this lane's copy
  uint32_t stride_, mask_;
  int64_t first_[kTiles] = {};  // words
  uint32_t states_[kTiles] = {};
  LaneWords words_[kTiles];
  uint32_t ahead_[kTiles][kPanels] = {};
};

}  // namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE
