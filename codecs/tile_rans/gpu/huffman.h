// Tiles of huffman_lanes. A look-up gives two or four columns, and a lane needs no branch for its next bits: it keeps a
// position in its string, whose words lie in a bank of their own, in the lines of the tile in shared memory. A lane
// group has room for one tile. The first lines of the next one come while the last pieces of a tile are decoded, as
// soon as no lane needs the lines that they overwrite; the others come at its end, while the first ones keep the lanes
// busy. Four columns take 8 operations: a quarter of 9 for a window (and, multiply-add, 3 loads, 2 funnel shifts, and,
// addition), 1 logical, 1 load, 1 dot product, 3 / 4 of a shift, 7 / 4 for raw bits, a quarter of a product.
#pragma once

#include "codecs/tile_rans/gpu/panels.h"

namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE {

// kSymbolsOfWindow is chosen so that the last symbol's first bit is among the window's first 32.
template <int kSymbolCols, int kSymbolsOfWindow>
struct HuffmanTiles {
  static constexpr int kTiles = 1, kSteps = kPiecePanels / kPanels;
  static constexpr int kSmallOperands = 0;
  static constexpr bool kIsForRegisters = true;
  static constexpr int kMostLaneGroups = 32;
  static constexpr int kSymbols = 4 / kSymbolCols;  // of a quad

  ECMV_GPU_DEVICE HuffmanTiles(const TileStream& stream, const Strip& strip, int own, gpu::SharedAddress table)
      : stream_(stream),
        strip_(strip),
        table_(table + 4 * (LaneGroup::lane() & ((1 << stream.copy_bits) - 1))),
        mask_(((1u << stream.table_bits) - 1) << (2 + stream.copy_bits)),
        lines_(gpu::shared_memory() + (own + kLineBytes)),
        lane_lines_(lines_ + (4 * LaneGroup::lane() - kLineBytes)) {}

  // A thread loads an entry once and stores all its copies, 16 bytes at a time; neighbours begin with different copies.
  // (A load for each 16 bytes took 7 % of a profile.)
  static ECMV_GPU_DEVICE void make_table(const TileStream& stream, gpu::SharedAddress table) {
    const int copy_bytes = 4 << stream.copy_bits, chunks = copy_bytes / 16;
    for (int entry = gpu::thread_index(); entry < 1 << stream.table_bits; entry += gpu::block_size()) {
      const uint32_t value = gpu::load_shared_by_many(gpu::cast<const uint32_t>(stream.tables) + entry);
      const gpu::SharedAddress to = table + entry * copy_bytes;
      for (int i = 0; i < chunks; ++i)
        (to + ((i + entry) & (chunks - 1)) * 16).store(gpu::uint4{value, value, value, value});
      for (int i = 0; chunks == 0 && i < copy_bytes; i += 4) (to + i).store(value);
    }
  }

  ECMV_GPU_DEVICE void ask(const Round<kTiles>& round) {
    if (asked_) return;
    ask_for(round.first[0]);
    asked_ = true;
  }
  ECMV_GPU_DEVICE void load(const Round<kTiles>& round, bool anew) {
    LaneGroup::sync();
    if (!fetched_first_) fetch_first();
    fetched_first_ = false;
    fetch_rest();
    covered_ = next_covered_;
    ask_for(round.after[0]);
    if (kSymbolCols == 4 && anew) {
      load_raw(round.first[0], 0);
      prefetch_raw(round.first[0] + kSteps);
    }
  }
  ECMV_GPU_DEVICE void start() {
    gpu::wait_copies<1>();
    LaneGroup::sync();
    has_rest_ = false;
    // A window's first code bits must be where the address has the entry's number, so windows begin that many bits
    // earlier: at the end of the line in front.
    position_ = 30 - static_cast<uint32_t>(stream_.copy_bits);
  }

  // A piece: the panels of kSteps steps.
  template <typename Sink>
  ECMV_GPU_DEVICE void decode(const Round<kTiles>& round, int step, const Sink& sink) {
    // Everything loaded has arrived before the first new load, whose address depends on it: a wait for one load is a
    // wait for the newest.
    gpu::uint4 raw[2] = {ahead_[0], ahead_[1]};
    if constexpr (kSymbolCols == 4) {
      const int next = step + kSteps < stream_.tile_steps ? round.first[0] + step + kSteps : round.after[0];
      load_raw(next, static_cast<int>(raw[1].w & stream_.zero));
      prefetch_raw(step + 2 * kSteps < stream_.tile_steps
                       ? next + kSteps
                       : round.after[0] + (step + kSteps < stream_.tile_steps ? 0 : kSteps));
    }
    if (!has_rest_ && (step / kSteps + 1) * stream_.piece_lines + 3 > covered_) {  // a window is three words
      gpu::wait_copies<0>();
      LaneGroup::sync();
      has_rest_ = true;
    }
    Window window{};
    uint32_t used = 0;
    ECMV_GPU_UNROLL
    for (int panel = 0; panel < kPiecePanels; ++panel) {
      uint32_t quads[kPanelQuads];
      ECMV_GPU_UNROLL
      for (int quad = 0; quad < kPanelQuads; ++quad) {
        uint32_t entries[kSymbols];
        ECMV_GPU_UNROLL
        for (int part = 0; part < kSymbols; ++part) {
          const int number = (panel * kPanelQuads + quad) * kSymbols + part;
          if (number % kSymbolsOfWindow == 0) {
            position_ += used & 63;
            window = next_window();
            used = 0;
          }
          entries[part] = table_.load32_with(
              (number % kSymbolsOfWindow == 0 ? window.low : gpu::funnel_shift_right(window.low, window.high, used)) &
              mask_);
          used = add_length(entries[part], used);
        }
        const gpu::uint4& four = raw[panel / 4];
        const uint32_t word = panel % 4 == 0 ? four.x : panel % 4 == 1 ? four.y : panel % 4 == 2 ? four.z : four.w;
        quads[quad] = kSymbolCols == 4 ? gpu::select_bits(0x03030303u, word >> (2 * quad), entries[0])
                                       : gpu::byte_permute(entries[0], entries[kSymbols - 1], 0x5410);
      }
      sink(0, panel, gpu::uint4{quads[0], quads[1], quads[2], quads[3]});
    }
    position_ += used & 63;
    if (!fetched_first_ && 2 * step + 2 * kSteps >= stream_.tile_steps && round.after[0] < stream_.steps &&
        all_beyond_first_lines()) {
      LaneGroup::sync();
      fetch_first();
      fetched_first_ = true;
    }
  }

 private:
  struct Window {
    uint32_t low, high;
  };
  static ECMV_GPU_DEVICE uint32_t add_length(uint32_t entry, uint32_t used) {
    if constexpr (kSymbolCols == 2) return used + (entry >> 16);
    return static_cast<uint32_t>(
        gpu::dot4_unsigned_signed(entry, 0x00100401, static_cast<int32_t>(used)));  // modulo 64
  }
  ECMV_GPU_DEVICE Window next_window() const {
    const int line = static_cast<int>(position_ & ~31u) * stream_.line_bytes_of_bit;
    const uint32_t middle = lane_lines_.template at<kLineBytes>(line);
    return {gpu::funnel_shift_right(lane_lines_.at(line), middle, position_),
            gpu::funnel_shift_right(middle, lane_lines_.template at<2 * kLineBytes>(line), position_)};
  }
  ECMV_GPU_DEVICE bool all_beyond_first_lines() const {
    return -LaneGroup::reduce_max(-static_cast<int32_t>(position_)) >= 32 * (stream_.first_lines + 1);
  }

  // Loads the index entry of the tile that begins with this step.
  ECMV_GPU_DEVICE void ask_for(int step) {
    if (step < stream_.steps)
      next_ =
          gpu::cast<const gpu::uint2>(stream_.index)[strip_.down * stream_.tiles_across + (step >> stream_.tile_shift)];
  }
  // Starts the copies of the first lines of the requested tile, and loads how many words each lane has in the tails.
  ECMV_GPU_DEVICE void fetch_first() {
    const gpu::Pointer<const std::byte> counts = stream_.codes + int64_t{next_.x} * kCodesAlign;
    tail_counts_ = gpu::cast<const uint32_t>(counts)[LaneGroup::lane() / 8];
    next_lines_ = counts + kCountBytes;
    next_full_ = LaneGroup::uniform(static_cast<int32_t>(next_.y));
    next_covered_ = next_full_ < stream_.first_lines ? next_full_ : stream_.first_lines;
    fetch_full_lines(0, next_covered_);
    gpu::commit_copies();
  }
  ECMV_GPU_DEVICE void fetch_rest() {
    fetch_full_lines(next_covered_, next_full_);
    const uint32_t tail_words = tail_counts_ >> (LaneGroup::lane() % 8 * 4) & 15;
    gpu::Pointer<const std::byte> from =
        next_lines_ + (next_full_ * kLineBytes + static_cast<int>(LaneGroup::prefix_add(tail_words)) * 4);
    gpu::Pointer<std::byte> to = lines_ + (next_full_ * kLineBytes + 4 * LaneGroup::lane());
    ECMV_GPU_NO_UNROLL
    for (uint32_t i = 0; i < tail_words; ++i, from += 4, to += kLineBytes) gpu::copy_async<4>(to, from);
    gpu::commit_copies();
  }
  ECMV_GPU_DEVICE void fetch_full_lines(int first, int end) const {
    gpu::Pointer<const std::byte> from = next_lines_ + (first * kLineBytes + LaneGroup::lane() * 16);
    gpu::Pointer<std::byte> to = lines_ + (first * kLineBytes + LaneGroup::lane() * 16);
    ECMV_GPU_NO_UNROLL
    for (int line = first; line < end;
         line += kBlockLines, from += kBlockLines * kLineBytes, to += kBlockLines * kLineBytes)
      gpu::copy_async<16>(to, from);
  }

  // Loads the raw words of the piece that begins with this step, and before that requests them into the L2 cache.
  ECMV_GPU_DEVICE gpu::Pointer<const std::byte> raw_of(int step) const {
    return stream_.raw + (strip_.down * stream_.padded_steps + step) * (kPanels * kRawPanelBytes);
  }
  ECMV_GPU_DEVICE void load_raw(int step, int zero) {
    if (step >= stream_.steps) return;
    const gpu::Pointer<const gpu::uint4> words = gpu::cast<const gpu::uint4>(raw_of(step)) + (LaneGroup::lane() | zero);
    ahead_[0] = gpu::load_streaming_here(words);
    ahead_[1] = gpu::load_streaming_here(words + kLanes);
  }
  ECMV_GPU_DEVICE void prefetch_raw(int step) const {
    if (kSymbolCols == 4 && step < stream_.steps && LaneGroup::lane() == 0)
      gpu::prefetch_l2(raw_of(step), kPiecePanels * static_cast<int>(kRawPanelBytes));
  }

  const TileStream& stream_;
  const Strip& strip_;
  gpu::SharedAddress table_;  // this lane's copy
  uint32_t mask_;
  gpu::Pointer<std::byte> lines_;
  gpu::SharedWords lane_lines_;  // from the line in front of them on
  uint32_t position_ = 0;        // in bits, from there on
  gpu::uint2 next_{};            // of the tile to come
  gpu::Pointer<const std::byte> next_lines_;
  uint32_t tail_counts_ = 0;                            // of eight lanes
  int next_full_ = 0, covered_ = 0, next_covered_ = 0;  // covered: lines that are there from start() on
  bool asked_ = false, fetched_first_ = false, has_rest_ = false;
  gpu::uint4 ahead_[2] = {};
};

}  // namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE
