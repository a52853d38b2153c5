// A lane group (32 lanes) on its tiles: rings of code lines, the schedule, and the decoding of one segment of 32
// symbols. Operations of a lane (H200: 64 lanes of the ALU, 64 of the multiplier, 32 of shared memory a clock), W
// symbols a window:
//   two windows: 1 and, 1 multiply-add, 3 loads, 3 funnel shifts, 2 additions
//   a symbol: 1 logic operation (W = 2) or 1 multiply and 1 logic operation, 1 load, 1 and (unless lengths are sums),
//   1 dot product (length), 1 - 1 / W shifts
//   four columns: cells.h; product: 1 dot product, 0.25 load of x
#pragma once

#include <type_traits>

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/gpu/tile/cells.h"
#include "codecs/quad_huffman/gpu/tile/code_ring.h"
#include "codecs/quad_huffman/gpu/tile/lane_form.h"
#include "codecs/quad_huffman/gpu/tile/patches.h"
#include "codecs/quad_huffman/gpu/tile/streams.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

template <int kSymbolCols, int kForm, int kSymbolsOfWindow, LaneForm kLanesForm = LaneForm{}>
class TileLanes : public TilePatches<is_float(kForm), cell_bits(kForm), kLanesForm.placed> {
 public:
  static constexpr int kSharedBytes = CodeRing<kLanesForm.lean>::kBytes, kSegmentCols = segment_cols(kSymbolCols),
                       kRawBits = raw_bits_of(kForm),
                       kSignWords = sign_mantissa_bits(kForm);  // floats: among the raw words of 32 columns
  static constexpr bool kFloats = is_float(kForm), kF8 = is_f8(kForm),
                        kEights = has_exponent_eights(kSymbolCols, kForm),
                        kScalesTokens = scales_tokens(kSymbolCols, kForm);
  using Bytes = Cells<kSymbolCols, kForm>;
  // Windows of two symbols have room for Table::at_shifted(): positions lie that many bits before the next code.
  static constexpr bool kExactLengths = has_exact_lengths(kLanesForm.rotates != 0, kForm);
  static constexpr bool kShifted = kSymbolsOfWindow == 2 && kLanesForm.rotates == 0;

  ECMV_GPU_DEVICE TileLanes(gpu::Pointer<std::byte> shared, const Hidden& hidden)
      : hidden_(hidden), ring_(shared), lane_ring_(shared + 4 * LaneGroup::lane()) {}

  // Starts the first loads and copies of a tile, once `after` is there, which would otherwise be waited for with them.
  // Where kRawLater, call begin_raw() before decode(). Where kFetches, call fetch_group(0) before decode<true>().
  template <bool kRawLater = false, bool kFetches = false>
  ECMV_GPU_DEVICE void begin(const Streams& streams, int64_t group, int column, int column_tiles, int cols,
                             uint32_t after = 0) {
    const int lane = LaneGroup::lane();
    const int tile_cols = streams.tile_segments * kSegmentCols;
    first_col_ = column * tile_cols;
    const int cols_of_tile = cols - first_col_ < tile_cols ? cols - first_col_ : tile_cols;
    segments_ = LaneGroup::uniform((cols_of_tile + kSegmentCols - 1) / kSegmentCols);
    const int64_t number = group * column_tiles + column;
    const gpu::uint4 index = streams.tiles[number];
    const uint32_t schedule = lane < segments_ ? streams.schedule[number * streams.tile_segments + lane] : 0;
    Patches::set_patches(streams, index.y, index.z, gpu::cast<const uint32_t>(streams.tiles)[4 * number + 5] - index.y);
    const uint32_t lines = LaneGroup::pick(index.w | (after & hidden_.zero), 0);
    ring_.set_schedule(schedule);
    int blocks[kAhead];  // read before more loads begin, which would be waited for as well
    for (int s = 0; s < kAhead; ++s) blocks[s] = blocks_of(s);
    ring_.begin(lines, streams.codes + static_cast<int64_t>(index.x) * kUnitBytes);
    raw_ = streams.raw +
           (group * streams.raw_row_bytes + static_cast<int64_t>(column) * streams.tile_segments * kSegmentRawBytes);
    position_ = static_cast<uint32_t>(kRingBits - ring_bits());
    Patches::load_first_patches();
    if constexpr (!kRawLater)
      begin_raw();
    else if (kRawBits > 0)
      prefetch_raw(0, 1);
    Patches::prefetch_own_patches(streams);
    // Nothing else hides the raw bits of a tile of one segment.
    if (kRawBits > 0 && segments_ == 1)
      prefetch_raw(1, kBatches - 1);
    else if constexpr (kPrefetched == 1)
      prefetch_raw(1, 1);
    ring_.order();
    LaneGroup::sync();
    ECMV_GPU_UNROLL
    for (int s = 0; s < kAhead; ++s) {
      ring_.fetch(blocks[s], s);  // no position has left the ring yet
      gpu::commit_copies();
    }
    if constexpr (kFetches) fetch_group(0);
  }

  // Loads raw bits to registers, which code between begin() and this may use for itself.
  ECMV_GPU_DEVICE void begin_raw() { load_step(0, 0, kRawBytesOfLane, 0); }

  // Calls visit(segment, quad of the segment, bytes) for all quads in order: byte k is column k of this lane's row, as
  // Cells::join gives it. Floats pass a fourth argument: the bytes of sign and mantissa, f8 the raw word with the
  // quad's.
  template <bool kFetched = false, typename Visit>
  ECMV_GPU_DEVICE void decode(const Table& table, Visit visit) {
    for (int s = 0; s < segments_; ++s) {
      if constexpr (CodeRing<kLanesForm.lean>::kBulk) wait_for_segment();
      if (CodeRing<kLanesForm.lean>::kBulk || !kFetched || s > 0) {
        LaneGroup::sync();
        fetch_group(s);
      }
      if constexpr (!CodeRing<kLanesForm.lean>::kBulk) {
        gpu::wait_copies<kAhead>();
        LaneGroup::sync();
      }
      decode_one(table, s, visit);
    }
  }

  ECMV_GPU_DEVICE int first_col() const { return first_col_; }

  // decode() with the results of Cells::integers.
  template <typename Visit>
  ECMV_GPU_DEVICE void decode_integers(const Table& table, Visit visit) {
    decode(table, Integers<Visit>{visit});
  }

  // The parts of decode(), for lane groups that go through their tiles together: before segment s each waits, then all
  // meet, then each calls fetch() and commits. Copies other than bulk copies count with everything that it has
  // committed.
  ECMV_GPU_DEVICE int segments() const { return segments_; }
  ECMV_GPU_DEVICE void wait_for_segment() {
    gpu::wait_copies<kAhead - 1>();
    ring_.wait();
  }
  ECMV_GPU_DEVICE void fetch(int s) {
    if (kPrefetched == kBatches && s + 1 < segments_) prefetch_raw(kBatches, kBatches);
    if (s + kAhead < segments_) fetch_codes(blocks_of(s + kAhead), kAhead - 1);
  }
  ECMV_GPU_DEVICE void fetch_group(int s) {
    fetch(s);
    gpu::commit_copies();
  }
  template <typename Visit>
  ECMV_GPU_DEVICE void decode_one(const Table& table, int s, Visit visit) {
    decode_part<1>(table, s, 0, visit);
  }
  // One of kParts equal parts of a segment, which come in order; quads count from the part's first.
  template <int kParts, typename Visit>
  ECMV_GPU_DEVICE void decode_part(const Table& table, int s, int part, Visit visit) {
    decode_symbols<kSegmentSymbols / kParts>(table, s, part + 1 < kParts || s + 1 < segments_, visit);
  }

 private:
  using Patches = TilePatches<is_float(kForm), cell_bits(kForm), kLanesForm.placed>;

  // Raw bits of one batch are in use while those of the next one are loaded.
  static constexpr int kSegmentRawBytes = static_cast<int>(raw_bytes_of_segment(kSymbolCols, kForm));
  static constexpr int kBatchCols = batch_cols(kSymbolCols, kForm), kBatches = kSegmentCols / kBatchCols,
                       kBatchQuads = kBatchCols / 4;
  static constexpr int kBatchWords = batch_words(kSymbolCols, kForm), kUnitWords = raw_unit_words(kSymbolCols, kForm);
  static constexpr int kRawBytesOfLane = kUnitWords * 4;  // a unit
  // The columns loaded at once: a batch, or a part of one.
  static constexpr int kLoadsOfBatch = kLanesForm.halves ? 2 : 1, kStepQuads = kBatchQuads / kLoadsOfBatch;
  static_assert(kBatchWords % kLoadsOfBatch == 0);
  static_assert(kBatches % 2 == 0);

  ECMV_GPU_DEVICE int ring_bits() const { return kShifted ? hidden_.ring_bits : kRingBits; }

  template <typename T>
  ECMV_GPU_DEVICE static std::remove_const_t<T> load_raw(gpu::Pointer<T> from) {
    if constexpr (kLanesForm.early) return gpu::load_streaming_before_sync(from);
    return gpu::load_streaming_here(from);
  }
  // Loads the words that step `step` needs and the step before has not loaded, in the segment that lies `further` bytes
  // after the one in work; lanes are `of_lane` bytes apart. Loads begin when the batch in use has come: nvcc counts all
  // of a thread's loads of this kind by one counter, so a wait for one waits for all that have begun.
  ECMV_GPU_DEVICE void load_step(int step, int further, int of_lane, uint32_t in_use) {
    if constexpr (kRawBits == 0) return;
    const int batch = step / kLoadsOfBatch;
    const uint32_t lane = (in_use & hidden_.zero) | static_cast<uint32_t>(LaneGroup::lane() * of_lane);
    const gpu::Pointer<const std::byte> from = raw_ + further;
    uint32_t* words = words_[batch % 2];
    ECMV_GPU_UNROLL
    for (int i = first_word(step % kLoadsOfBatch); i < first_word(step % kLoadsOfBatch + 1); i += kUnitWords) {
      const gpu::Pointer<const std::byte> unit = from + lane + (batch * kBatchWords + i) * kLineBytes;
      if constexpr (kUnitWords == 4) {
        const gpu::uint4 v = load_raw(gpu::cast<const gpu::uint4>(unit));
        words[i] = v.x, words[i + 1] = v.y, words[i + 2] = v.z, words[i + 3] = v.w;
      } else if constexpr (kUnitWords == 2) {
        const gpu::uint2 v = load_raw(gpu::cast<const gpu::uint2>(unit));
        words[i] = v.x, words[i + 1] = v.y;
      } else {
        words[i] = load_raw(gpu::cast<const uint32_t>(unit));
      }
    }
    if constexpr (kLanesForm.early) LaneGroup::sync();
  }
  // The first word of a batch that a step loads: it loads units with a word of the step's columns and none before
  // those.
  ECMV_GPU_DEVICE static constexpr int first_word(int step) {
    return (step * (kBatchWords / kLoadsOfBatch) + kUnitWords - 1) / kUnitWords * kUnitWords;
  }

  // Batches that are brought to the L2 cache at a time, before they are loaded (notes/int8_vector.md has the gain,
  // notes/rows_with_tokens.md the loss with bf16).
  static constexpr int kPrefetched = kSymbolCols != 4 || (kFloats && !kLanesForm.prefetches) ? 0
                                     : kRawBits > 3                                          ? 1
                                     : kRawBits > 0                                          ? kBatches
                                                                                             : 0;
  // Starts to bring batches, counted from the first one of the segment in work.
  ECMV_GPU_DEVICE void prefetch_raw(int batch, int count) const {
    if (LaneGroup::lane() != 0) return;
    gpu::prefetch_l2(raw_ + batch * kBatchWords * kLineBytes, count * kBatchWords * kLineBytes);
  }

  // Blocks of lines that segment s needs; 0 beyond the last one.
  ECMV_GPU_DEVICE int blocks_of(int s) const { return s < segments_ ? ring_.blocks_of(s) : 0; }
  // Starts the copies of the next blocks and moves lagging positions forward.
  ECMV_GPU_DEVICE void fetch_codes(int blocks, int later) {
    // One segment was decoded since the last such call, its bits fit a ring, and before it no position
    // had left the ring.
    if constexpr (kExactLengths) {
      const int behind = 32 * ring_.reach() - ring_bits();
      position_ = static_cast<uint32_t>(behind) + ((position_ - static_cast<uint32_t>(behind)) & kExactLengthMask);
    }
    ring_.fetch(blocks, later);
    const int least = 32 * ring_.reach() - ring_bits();
    if (static_cast<int>(position_) < least) position_ = static_cast<uint32_t>(least);
  }

  // Decodes the next kSymbols symbols, all of segment s.
  template <int kSymbols, typename Visit>
  ECMV_GPU_DEVICE void decode_symbols(const Table& table, int s, bool goes_on, Visit visit) {
    constexpr int kSteps = kSymbols * kSymbolCols / 4 / kStepQuads;
    static_assert(kSteps % (2 * kLoadsOfBatch) == 0);
    Windows windows{};
    uint32_t window = 0, used = 0, used_before = 0, rotation = 0;
    // Without a condition, because nvcc would load to other registers and wait to copy them.
    const int next = goes_on ? kSegmentRawBytes * kSymbols / kSegmentSymbols : 0;  // past the last segment: its own
    const auto look_up = [&](int i) {
      if (i % (2 * kSymbolsOfWindow) == 0) {
        windows = windows_of(lane_ring_, position_, hidden_);
        window = windows.first;
        used = used_before = 0;
      } else if (i % kSymbolsOfWindow == 0) {
        window = gpu::funnel_shift_right(windows.first, windows.second, used);
        used_before = used;
        used = 0;
      }
      const uint32_t left = i % kSymbolsOfWindow == 0 ? window : Bytes::past_used(window, used);
      if constexpr (kLanesForm.rotates != 0) return table.at_rotated<kLanesForm.rotates>(left, hidden_, rotation);
      return kShifted ? table.at_shifted(left) : table[left];
    };
    uint32_t entry = 0, ahead = look_up(0);
    ECMV_GPU_UNROLL
    for (int i = 0; i < kSymbols; ++i) {
      entry = kLanesForm.looks_ahead || i == 0 ? ahead : look_up(i);
      used = Bytes::add_length(entry, used);
      if (i % (2 * kSymbolsOfWindow) == 2 * kSymbolsOfWindow - 1 || i == kSymbols - 1)
        position_ += kExactLengths ? used_before + used : Bytes::bits_of(used_before + used);
      if (kLanesForm.looks_ahead && i + 1 < kSymbols) ahead = look_up(i + 1);
      if constexpr (kLanesForm.rotates != 0) entry = gpu::funnel_shift_right(entry, entry, rotation);
      visit_quad<0, kSteps>(i * (kSymbolCols / 4), s, next, visit, entry);
      if constexpr (kSymbolCols == 8) visit_quad<1, kSteps>(2 * i + 1, s, next, visit, entry);
    }
    raw_ += next;
  }

  // The visit that decode_integers() passes to decode().
  template <typename Visit>
  struct Integers {
    Visit visit;
  };
  // Quad kQuad of the symbol of `entry`.
  template <int kQuad, int kSteps, typename Visit>
  ECMV_GPU_DEVICE void visit_quad(int quad, int s, int next, Visit visit, uint32_t entry) {
    const int batch = quad / kBatchQuads, group = quad % kBatchQuads / 8;
    if (quad % kStepQuads == 0) {
      // Nobody needs the words loaded past the last segment, so all lanes load the same.
      const int step = quad / kStepQuads;
      const bool of_next = step + 1 == kSteps;
      load_step(of_next ? 0 : step + 1, of_next ? next : 0, of_next && next == 0 ? 0 : kRawBytesOfLane,
                words_[batch % 2][first_word(step % kLoadsOfBatch)]);
    }
    if (kPrefetched == 1 && quad % kBatchQuads == 0 && (batch + 2 < kSteps / kLoadsOfBatch || next != 0))
      prefetch_raw(batch + 2, 1);
    const auto word = [&](int j) { return words_[batch % 2][group * kRawBits + j]; };
    if constexpr (kFloats) {
      const auto cell_word = [&](int j) { return word(kSignWords + j); };
      visit(s, quad, Bytes::template join<kQuad>(cell_word, quad % 8, entry), word(quad % 8 / (kF8 ? 2 : 1)));
    } else if constexpr (requires { visit.visit; }) {
      uint32_t first, second;
      Bytes::integers(word, quad % 8, entry, first, second);
      visit.visit(s, quad, first, second);
    } else {
      visit(s, quad, Bytes::template join<kQuad>(word, quad % 8, entry));
    }
  }

  const Hidden& hidden_;
  CodeRing<kLanesForm.lean> ring_;
  gpu::SharedWords lane_ring_;
  gpu::Pointer<const std::byte> raw_;  // the segment in work
  uint32_t words_[2][kBatchWords == 0 ? 1 : kBatchWords];
  uint32_t position_;  // in bits; of shifted windows less the shift
  int first_col_ = 0, segments_ = 0;
};

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
