// Tiles of rans: interleaved bytes as in the design. Each lane group has a tile of 64 x 64 elements, and a lane a
// stream; with 64 streams it has two, and with fewer than 32 the other lanes are idle. Bytes come from global
// memory as they are needed, through the first-level cache. Symbols go to shared memory one by one, to their places in
// operands.
#pragma once

#include "codecs/tile_rans/gpu/panels.h"

namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE {

// kStates: streams of a lane.
template <int kStates>
struct StreamTiles {
  static constexpr int kTiles = 1, kSteps = kLaneGroupPanels / kPanels, kSmallOperands = 6;
  static constexpr bool kIsForRegisters = false;
  static constexpr int kMostLaneGroups = 16;
  static constexpr int64_t kSharedBytes =
      kTileSlots / 2 + 4 * kLevels;  // symbols of slots, two a byte; frequency | first << 16

  ECMV_GPU_DEVICE StreamTiles(const TileStream& stream, const Strip& strip, int own, gpu::SharedAddress)
      : stream_(stream),
        strip_(strip),
        slots_(gpu::cast<uint8_t>(gpu::shared_memory() + own)),
        symbols_(gpu::cast<uint32_t>(gpu::shared_memory() + (own + static_cast<int>(kTileSlots / 2)))) {}
  static ECMV_GPU_DEVICE void make_table(const TileStream&, gpu::SharedAddress) {}
  ECMV_GPU_DEVICE void ask(const Round<kTiles>&) {}
  ECMV_GPU_DEVICE void load(const Round<kTiles>& round, bool) { across_ = round.across[0]; }

  ECMV_GPU_DEVICE void start() {
    const int64_t number = strip_.down * stream_.tiles_across + across_;
    LaneGroup::sync();
    const uint32_t frequency = LaneGroup::lane() < kLevels
                                   ? uint32_t{gpu::cast<const uint16_t>(
                                         stream_.tables + number * kTileTableBytes)[LaneGroup::lane() & (kLevels - 1)]}
                                   : 0;
    const uint32_t first = LaneGroup::prefix_add(frequency);
    if (LaneGroup::lane() < kLevels) symbols_[LaneGroup::lane()] = frequency | first << 16;
    // Eight slots are a word.
    uint32_t first_of[kLevels];
    ECMV_GPU_UNROLL
    for (int s = 0; s < kLevels; ++s) first_of[s] = LaneGroup::shuffle(first, s);
    for (uint32_t word = static_cast<uint32_t>(LaneGroup::lane()); word < kTileSlots / 8; word += kLanes) {
      uint32_t eight = 0;
      ECMV_GPU_UNROLL
      for (int s = 1; s < kLevels; ++s)  // every slot from `first` on is one symbol further
        eight += first_of[s] <= 8 * word      ? 0x11111111u
                 : first_of[s] < 8 * word + 8 ? 0x11111111u << (4 * (first_of[s] - 8 * word))
                                              : 0;
      gpu::cast<uint32_t>(slots_)[word] = eight;
    }
    const int64_t tile_cols = stream_.cols - int64_t{across_} * stream_.tile_cols;
    cols_ = tile_cols < stream_.tile_cols ? static_cast<int>(tile_cols) : stream_.tile_cols;
    next_ = *gpu::cast<const uint32_t>(stream_.index + number * kTileIndexBytes);
    LaneGroup::sync();
  }

  // The sink must store operands; bytes() is their place.
  template <typename Sink>
  ECMV_GPU_DEVICE void decode(const Round<kTiles>&, int, const Sink& sink) {
    decode_tile(sink.bytes());
    LaneGroup::sync();
  }

 private:
  ECMV_GPU_DEVICE void decode_tile(gpu::Pointer<uint8_t> out) {
    const int lanes = stream_.streams / kStates, lane = LaneGroup::lane();
    uint32_t states[kStates];
    ECMV_GPU_UNROLL
    for (int i = 0; i < kStates; ++i) {
      states[i] = lane < lanes ? 0 : kByteLower;  // idle lanes need no bytes
      ECMV_GPU_UNROLL
      for (int byte = 0; byte < 4 && lane < lanes; ++byte)
        states[i] |= byte_at(next_ + 4 * (i * lanes + lane) + byte) << (8 * byte);
    }
    next_ += 4 * stream_.streams;
    const int64_t strip_rows = stream_.rows - strip_.down * kTileRows;
    const int count = (strip_rows < kTileRows ? static_cast<int>(strip_rows) : int{kTileRows}) * cols_;
    int row = lane / cols_, col = lane % cols_;
    ECMV_GPU_NO_UNROLL
    for (int begin = 0; begin < count; begin += stream_.streams) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < kStates; ++i) {
        const bool exists = lane < lanes && begin + i * lanes + lane < count;
        uint32_t& x = states[i];
        const uint32_t at = x & (kTileSlots - 1), symbol = uint32_t{slots_[at / 2]} >> (at % 2 * 4) & 15,
                       entry = symbols_[symbol];
        if (exists) {
          out[place(row, col)] = static_cast<uint8_t>(symbol);
          x = (entry & 0xFFFF) * (x >> kTileProbBits) + at - (entry >> 16);
        }
        const auto once = LaneGroup::ballot(x < kByteLower), twice = LaneGroup::ballot(x < kByteLower >> 8);
        const int64_t byte = next_ + LaneGroup::count_before(once) + LaneGroup::count_before(twice);
        if (x < kByteLower >> 8)
          x = x << 16 | byte_at(byte) << 8 | byte_at(byte + 1);
        else if (x < kByteLower)
          x = x << 8 | byte_at(byte);
        next_ += gpu::popcount(once) + gpu::popcount(twice);
        for (col += lanes; col >= cols_; col -= cols_) ++row;
      }
    }
  }
  ECMV_GPU_DEVICE uint32_t byte_at(int64_t at) const {
    return gpu::load_shared_by_many(gpu::cast<const uint8_t>(stream_.codes + at));
  }
  // The place of an element's byte among the lane group's operands.
  static ECMV_GPU_DEVICE int place(int row, int col) {
    return (col / kPanelCols * kPanels + row / kPanelRows) * kPanelBytes +
           place_in_panel(row % kPanelRows, col % kPanelCols);
  }

  const TileStream& stream_;
  const Strip& strip_;
  gpu::Pointer<uint8_t> slots_;
  gpu::Pointer<uint32_t> symbols_;
  int across_ = 0, cols_ = 0;
  int64_t next_ = 0;  // byte of `codes`
};

}  // namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE
