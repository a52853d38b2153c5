// Tiles of huffman_lanes: a look-up gives two or four columns, and a lane needs no branch for its next bits: it keeps a position in its string, whose words lie in a
// bank of its own, in the lines of the tile in shared memory. A tile has room there once. Its first lines come while the tile before is decoded, as soon as no lane
// needs what was there, the others at that one's end, when the first ones keep the lanes busy.
// Operations of four columns with kSymbolsOfWindow 3: a third of 6 for a window (and, multiply-add, 2 loads, funnel shift, addition), 1 and, 1 multiply-add, 1 load,
// 1 and and 1 dot product for the length, 2 / 3 shifts, 7 / 4 for raw bits, a quarter of a product.
#pragma once

#include "codecs/tile_rans/panels_gpu.h"

namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE {

// kSymbolsOfWindow: symbols that fit 32 bits whatever they are.
template <int kPanels, int kSymbolCols, int kSymbolsOfWindow, int kTilesOfWorker = 8 / kPanels>
struct HuffmanTiles {
  static constexpr int kTiles = kTilesOfWorker, kSteps = 1;
  static constexpr int kSmallOperands = 0;
  static constexpr bool kIsForRegisters = true;
  static constexpr int kMostWorkers = kTiles * kPanels == 8 ? 16 : 32;
  static constexpr int kSymbols = 4 / kSymbolCols;  // of a quad

  ECMV_GPU_DEVICE HuffmanTiles(const Stream& stream, const Strip& strip, int own, gpu::SharedAddress table)
      : stream_(stream), strip_(strip), table_(table + 4 * (Worker::lane() & ((1 << stream.copy_bits) - 1))), stride_(4u << stream.copy_bits),
        mask_(((1u << stream.table_bits) - 1) << (2 + stream.copy_bits)), ring_(gpu::shared_memory() + own), lane_ring_(ring_ + 4 * Worker::lane()), raw_(stream, strip) {}

  static ECMV_GPU_DEVICE void sum_table(const Stream&) {}
  static ECMV_GPU_DEVICE void fill_table(const Stream& stream, gpu::SharedAddress table) {
    const gpu::Pointer<const uint32_t> entries = gpu::cast<const uint32_t>(stream.tables);
    if (stream.copy_bits < 2) {
      for (int word = gpu::thread_index(); word < 1 << (stream.table_bits + stream.copy_bits); word += gpu::block_size())
        (table + 4 * word).store(gpu::load_shared_by_many(entries + (word >> stream.copy_bits)));
      return;
    }
    for (int chunk = gpu::thread_index(); chunk < 1 << (stream.table_bits + stream.copy_bits - 2); chunk += gpu::block_size()) {
      const uint32_t entry = gpu::load_shared_by_many(entries + (chunk >> (stream.copy_bits - 2)));
      (table + 16 * chunk).store(gpu::uint4{entry, entry, entry, entry});
    }
  }

  ECMV_GPU_DEVICE void ask(const Round<kTiles>& round) {
    if (asked_) return;
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) ask_for(tile, round.first[tile]);
    asked_ = true;
  }
  ECMV_GPU_DEVICE void load(const Round<kTiles>& round, bool anew) {
    Worker::sync();
    if (!fetched_first_) fetch_first();
    fetched_first_ = false;
    fetch_rest();
    covered_ = next_covered_;
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) ask_for(tile, round.after[tile]);
    if constexpr (kSymbolCols == 4) raw_.begin(round, anew);
  }
  ECMV_GPU_DEVICE void start() {
    gpu::wait_copies<1>();
    Worker::sync();
    has_rest_ = false;
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) positions_[tile] = 0;
  }

  template <typename Sink>
  ECMV_GPU_DEVICE void decode(const Round<kTiles>& round, int step, const Sink& sink) {
    uint32_t raw[kTiles][kPanels];
    if constexpr (kSymbolCols == 4) raw_.take(round, step, raw);
    // A window is two words.
    if (!has_rest_ && (step + 1) * stream_.step_lines + 2 > covered_) {
      gpu::wait_copies<0>();
      Worker::sync();
      has_rest_ = true;
    }
    uint32_t windows[kTiles] = {}, used[kTiles] = {};
    ECMV_GPU_UNROLL
    for (int rg = 0; rg < kPanels; ++rg) {
      if (rg >= strip_.panels_down) break;
      uint32_t quads[kTiles][kPanelQuads];
      ECMV_GPU_UNROLL
      for (int quad = 0; quad < kPanelQuads; ++quad) {
        uint32_t entries[kTiles][kSymbols];
        ECMV_GPU_UNROLL
        for (int part = 0; part < kSymbols; ++part) {
          const int number = (rg * kPanelQuads + quad) * kSymbols + part;
          ECMV_GPU_UNROLL
          for (int tile = 0; tile < kTiles; ++tile) {
            if (number % kSymbolsOfWindow == 0) {
              positions_[tile] += used[tile];
              windows[tile] = window(tile);
              used[tile] = 0;
            }
            const uint32_t bits = number % kSymbolsOfWindow == 0 ? windows[tile] : windows[tile] >> used[tile];
            entries[tile][part] = table_.load32_with((bits * stride_) & mask_);
            used[tile] = add_length(entries[tile][part], used[tile]);
          }
        }
        ECMV_GPU_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          if constexpr (kSymbolCols == 4)
            quads[tile][quad] = gpu::select_bits(0x03030303u, raw[tile][rg] >> (2 * quad), entries[tile][0]);
          else
            quads[tile][quad] = gpu::byte_permute(entries[tile][0], entries[tile][1], 0x5410);
        }
      }
      ECMV_GPU_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) sink(tile, rg, gpu::uint4{quads[tile][0], quads[tile][1], quads[tile][2], quads[tile][3]});
    }
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      positions_[tile] += used[tile];
      if (kTiles > 1 && round.first[tile] + step >= stream_.steps) positions_[tile] = 0;  // beyond the matrix there is no string
    }
    if (!fetched_first_ && 2 * step >= stream_.tile_steps - 2 && round.after[0] < stream_.steps && all_beyond_first_lines()) {
      Worker::sync();
      fetch_first();
      fetched_first_ = true;
    }
  }

 private:
  // A tile to come: its masks and lines.
  struct Next {
    gpu::uint2 index;
    gpu::Pointer<const std::byte> lines;
    uint32_t mask;  // of partial line number `lane`
    int full, partial;
  };

  static ECMV_GPU_DEVICE uint32_t add_length(uint32_t entry, uint32_t used) {
    if constexpr (kSymbolCols == 2) return used + (entry >> 16);
    return static_cast<uint32_t>(gpu::dot4_unsigned_signed(entry & 0x01010101u, 0x08040201, static_cast<int32_t>(used)));
  }
  // The lane's next 32 bits.
  ECMV_GPU_DEVICE uint32_t window(int tile) const {
    const int line = static_cast<int>(positions_[tile] & ~31u) * stream_.line_bytes_of_bit + tile * stream_.ring_lines * kLineBytes;
    return gpu::funnel_shift_right(lane_ring_.at(line), lane_ring_.template at<kLineBytes>(line), positions_[tile]);
  }
  ECMV_GPU_DEVICE bool all_beyond_first_lines() const {
    uint32_t least = positions_[0];
    ECMV_GPU_UNROLL
    for (int tile = 1; tile < kTiles; ++tile) least = positions_[tile] < least ? positions_[tile] : least;
    return -Worker::reduce_max(-static_cast<int32_t>(least)) >= 32 * stream_.first_lines;
  }

  // Loads the index entry of the tile that begins with this step.
  ECMV_GPU_DEVICE void ask_for(int tile, int step) {
    if (step < stream_.steps) next_[tile].index = gpu::cast<const gpu::uint2>(stream_.index)[strip_.down * stream_.tiles_across + (step >> stream_.tile_shift)];
  }
  // Starts the copies of the first lines of the tiles that were asked for; where there is none, of the tile before it again.
  ECMV_GPU_DEVICE void fetch_first() {
    next_covered_ = stream_.first_lines;
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      Next& next = next_[tile];
      const int counts = Worker::uniform(static_cast<int32_t>(next.index.y));
      next.full = counts & 0xFFFF;
      next.partial = counts >> 16;
      const gpu::Pointer<const std::byte> masks = stream_.codes + int64_t{next.index.x} * kCodesAlign;
      next.mask = Worker::lane() < next.partial ? gpu::cast<const uint32_t>(masks)[Worker::lane()] : 0;
      next.lines = masks + (next.partial + 3) / 4 * kCodesAlign;
      const int lines = next.full < stream_.first_lines ? next.full : stream_.first_lines;
      next_covered_ = lines < next_covered_ ? lines : next_covered_;
      fetch_full_lines(tile, 0, lines);
    }
    gpu::commit_copies();
  }
  ECMV_GPU_DEVICE void fetch_rest() {
    ECMV_GPU_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      const Next& next = next_[tile];
      fetch_full_lines(tile, stream_.first_lines, next.full);
      gpu::Pointer<const std::byte> words = next.lines + next.full * kLineBytes;
      ECMV_GPU_NO_UNROLL
      for (int i = 0; i < next.partial; ++i) {
        const uint32_t mask = Worker::pick(next.mask, i);
        if ((mask >> Worker::lane() & 1) != 0) gpu::copy_async<4>(line_of(tile, next.full + i) + Worker::lane() * 4, words + 4 * Worker::count_before(mask));
        words += 4 * gpu::popcount(mask);
      }
    }
    gpu::commit_copies();
  }
  ECMV_GPU_DEVICE void fetch_full_lines(int tile, int first, int end) const {
    ECMV_GPU_NO_UNROLL
    for (int line = first; line < end; line += kBlockLines)
      gpu::copy_async<16>(line_of(tile, line) + Worker::lane() * 16, next_[tile].lines + (line * kLineBytes + Worker::lane() * 16));
  }
  ECMV_GPU_DEVICE gpu::Pointer<std::byte> line_of(int tile, int line) const { return ring_ + (tile * stream_.ring_lines + line) * kLineBytes; }

  const Stream& stream_;
  const Strip& strip_;
  gpu::SharedAddress table_;  // this lane's copy
  uint32_t stride_, mask_;
  gpu::Pointer<std::byte> ring_;
  gpu::SharedWords lane_ring_;
  uint32_t positions_[kTiles] = {};  // in bits
  Next next_[kTiles] = {};
  int covered_ = 0, next_covered_ = 0;  // lines that are there behind start()
  bool asked_ = false, fetched_first_ = false, has_rest_ = false;
  RawPanels<kPanels, kTiles> raw_;
};

}  // namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE
