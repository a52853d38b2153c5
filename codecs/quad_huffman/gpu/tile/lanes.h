// A lane group (32 lanes) on its tiles: rings of code lines, the schedule, and the decoding of one segment of 32
// symbols. Operations of a lane (H200: 64 lanes of the ALU, 64 of the multiplier, 32 of shared memory a clock), W
// symbols a window:
//   two windows: 1 and, 1 multiply-add, 3 loads, 3 funnel shifts, 2 additions
//   a symbol: 1 logic operation (W = 2) or 1 multiply and 1 logic operation, 1 load, 1 and (unless lengths are sums), 1 dot product
//   (length), 1 - 1 / W shifts
//   four columns: cells_gpu.h; product: 1 dot product, 0.25 load of x
#pragma once

#include <type_traits>

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "codecs/quad_huffman/gpu/tile/cells.h"
#include "codecs/quad_huffman/gpu/tile/code_ring.h"
#include "codecs/quad_huffman/format.h"
#include "codecs/quad_huffman/gpu/tile/lane_form.h"
#include "codecs/quad_huffman/gpu/tile/placed_patches.h"
#include "codecs/quad_huffman/gpu/tile/streams.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

template <int kSymbolCols, int kForm, int kSymbolsOfWindow, LaneForm kLanesForm = LaneForm{}>
class TileLanes {
 public:
  static constexpr int kSharedBytes = CodeRing<kLanesForm.lean>::kBytes, kSegmentCols = segment_cols(kSymbolCols),
                       kRawBits = raw_bits_of(kForm),
                       kSignWords = sign_mantissa_bits(kForm);  // of floats: of the raw words of 32 columns
  static constexpr bool kFloats = is_float(kForm), kF8 = is_f8(kForm),
                        kEights = has_exponent_eights(kSymbolCols, kForm),
                        kScalesTokens = scales_tokens(kSymbolCols, kForm);
  using Bytes = Cells<kSymbolCols, kForm>;
  // Windows of two symbols have room for Table::at_shifted(): positions are so many bits before the next code.
  static constexpr bool kExactLengths = has_exact_lengths(kLanesForm.rotates != 0, kForm);
  static constexpr bool kShifted = kSymbolsOfWindow == 2 && kLanesForm.rotates == 0;

  ECMV_GPU_DEVICE TileLanes(gpu::Pointer<std::byte> shared, const Hidden& hidden)
      : hidden_(hidden), ring_(shared), lane_ring_(shared + 4 * LaneGroup::lane()) {}

  // Starts the loads and copies of what comes first of a tile, once `after` is there, which would be waited for with them.
  // Where kRawLater, begin_raw() comes before decode(); where kFetches, decode<true>() finds fetch_group(0) done.
  template <bool kRawLater = false, bool kFetches = false>
  ECMV_GPU_DEVICE void begin(const Streams& streams, int64_t group, int column, int column_tiles, int cols,
                             uint32_t after = 0) {
    const int lane = LaneGroup::lane();
    patches_ = streams.patches;
    if constexpr (kFloats) signs_ = streams.signs;
    const int tile_cols = streams.tile_segments * kSegmentCols;
    first_col_ = column * tile_cols;
    const int cols_of_tile = cols - first_col_ < tile_cols ? cols - first_col_ : tile_cols;
    segments_ = LaneGroup::uniform((cols_of_tile + kSegmentCols - 1) / kSegmentCols);
    const int64_t number = group * column_tiles + column;
    const gpu::uint4 index = streams.tiles[number];
    const uint32_t schedule = lane < segments_ ? streams.schedule[number * streams.tile_segments + lane] : 0;
    tile_.first_patch = index.y;
    tile_.left_patches = index.z;
    tile_.patches = gpu::cast<const uint32_t>(streams.tiles)[4 * number + 5] - index.y;
    const uint32_t lines = LaneGroup::pick(index.w | (after & hidden_.zero), 0);
    ring_.set_schedule(schedule);
    int blocks[kAhead];  // known before more loads begin, which would be waited for as well
    for (int s = 0; s < kAhead; ++s) blocks[s] = blocks_of(s);
    ring_.begin(lines, streams.codes + static_cast<int64_t>(index.x) * kUnitBytes);
    tile_.raw = streams.raw + ((group * streams.row_segments + static_cast<int64_t>(column) * streams.tile_segments) *
                               kSegmentRawBytes);
    tile_.position = static_cast<uint32_t>(kRingBits - ring_bits());
    if constexpr (kLanesForm.placed) {
      tile_.packet = load_packet(streams.patches, tile_.first_patch, 0, tile_.patches);
    } else if constexpr (!kFloats) {
      ECMV_GPU_UNROLL
      for (int k = 0; k < kPatchesAhead; ++k)
        if (patch_of(k) < tile_.patches) tile_.patches_ahead[k] = streams.patches[tile_.first_patch + patch_of(k)];
    }
    if constexpr (!kRawLater)
      begin_raw();
    else if (kRawBits > 0)
      prefetch_raw(0, 1);
    if constexpr (kFloats) prefetch_patches(streams, tile_.first_patch, tile_.patches);
    // Nothing else hides the raw bits of a tile of one segment.
    if (kRawBits > 0 && segments_ == 1)
      prefetch_raw(1, kBatches - 1);
    else if constexpr (kPrefetched == 1)
      prefetch_raw(1, 1);
    ring_.order();
    LaneGroup::sync();
    ECMV_GPU_UNROLL
    for (int s = 0; s < kAhead; ++s) {
      ring_.fetch(blocks[s], s);  // no position is behind the ring yet
      gpu::commit_copies();
    }
    if constexpr (kFetches) fetch_group(0);
  }

  // Raw bits to registers, which what comes between begin() and this may use for itself.
  ECMV_GPU_DEVICE void begin_raw() { load_step(0, 0, kRawBytesOfLane, 0); }

  // Calls f(lane's patch, sign and mantissa of its element: a byte) for the patches of the tile, of bf16 or f8 elements.
  template <typename F>
  ECMV_GPU_DEVICE void for_each_float_patch(F f) const {
    ECMV_GPU_NO_UNROLL
    for (uint32_t first = 0; first < tile_.patches; first += kPatchesAhead * kLanes) {
      const FloatPatches<kPatchesAhead> of = float_patches(first);
      ECMV_GPU_UNROLL
      for (int k = 0; k < kPatchesAhead; ++k)
        if (first + patch_of(k) < tile_.patches) f(patch_word(of.bits[k]), of.sign[k]);
    }
  }

  // Calls visit(segment, quad of the segment, bytes) for all quads in order: byte k is of column k in this lane's row, as
  // Cells::join gives it. For floats a fourth argument has the bytes of sign and mantissa, of f8 the raw word with the quad's.
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

  // Calls f(row, column of the tile, what is added to the element) for the patches of the tile, of int8 elements, each of
  // one cell: an element may have several. The first ones have been loaded since begin().
  template <typename F>
  ECMV_GPU_DEVICE void for_each_patch(F f) const {
    const auto visit = [&](uint32_t i, uint32_t p) { f(patch_row(p), patch_col(i, p), patch_change(p)); };
    ECMV_GPU_UNROLL
    for (int k = 0; k < kPatchesAhead; ++k)
      if (patch_of(k) < tile_.patches) visit(patch_of(k), tile_.patches_ahead[k]);
    // As many loads at once: one at a time each would be waited for.
    ECMV_GPU_NO_UNROLL
    for (uint32_t first = kPatchesAhead * kLanes; first < tile_.patches; first += kPatchesAhead * kLanes) {
      uint16_t patches[kPatchesAhead];
      ECMV_GPU_UNROLL
      for (int k = 0; k < kPatchesAhead; ++k)
        if (first + patch_of(k) < tile_.patches) patches[k] = patches_[tile_.first_patch + first + patch_of(k)];
      ECMV_GPU_UNROLL
      for (int k = 0; k < kPatchesAhead; ++k)
        if (first + patch_of(k) < tile_.patches) visit(first + patch_of(k), patches[k]);
    }
  }
  // For a tile of strips, between begin() and for_each_placed_patch(): what needs no vector.
  ECMV_GPU_DEVICE void place_patches() { tile_.placed = placed_patches(tile_.packet, 0); }
  // Calls f(place in the tile, whether one is taken) for the patches of such a tile.
  template <typename F>
  ECMV_GPU_DEVICE void for_each_placed_patch(F f) const {
    visit_placed(tile_.placed, f);
    const uint32_t count = patch_count();
    PlacedPatches placed = tile_.placed;
    ECMV_GPU_NO_UNROLL
    for (uint32_t first = kLanes; first < count; first += kLanes) {
      placed = placed_patches(load_packet(patches_, tile_.first_patch, first, count), placed.end());
      visit_placed(placed, f);
    }
  }
  // The same, 32 at a time: calls f(whether this lane has one, its row, its column in the tile, what it adds to the
  // element) in all lanes. Later ones are loaded while those before them are in use.
  template <typename F>
  ECMV_GPU_DEVICE void deal_patches(F f) const {
    const uint32_t count = patch_count();
    uint32_t ahead[kPatchesAhead];
    ECMV_GPU_UNROLL
    for (int k = 0; k < kPatchesAhead; ++k) ahead[k] = patch_of(k) < count ? tile_.patches_ahead[k] : 0u;
    ECMV_GPU_NO_UNROLL
    for (uint32_t first = 0; first < count; first += kPatchesAhead * kLanes) {
      uint32_t patches[kPatchesAhead];
      ECMV_GPU_UNROLL
      for (int k = 0; k < kPatchesAhead; ++k) {
        patches[k] = ahead[k];
        if (const uint32_t next = first + kPatchesAhead * kLanes + patch_of(k); next < count)
          ahead[k] = patches_[tile_.first_patch + next];
      }
      for_each_filled(count - first, [&](int k) {
        const uint32_t i = first + patch_of(k), patch = gpu::picked(patches, k);
        f(i < count, patch_row(patch), patch_col(i, patch), patch_change(patch));
      });
    }
  }
  // The same of bf16 and f8 elements: f(whether this lane has one, the patch, sign and mantissa of its element).
  template <typename F>
  ECMV_GPU_DEVICE void deal_float_patches(F f) const {
    const uint32_t count = patch_count();
    ECMV_GPU_NO_UNROLL
    for (uint32_t first = 0; first < count; first += kPatchesAhead * kLanes) {
      const FloatPatches<kPatchesAhead> of = float_patches(first);
      for_each_filled(count - first, [&](int k) {
        f(first + patch_of(k) < count, patch_word(gpu::picked(of.bits, k)), gpu::picked(of.sign, k));
      });
    }
  }
  // The same 2 x 32 at once, from number `first` on: f(0 or 1, ...).
  template <typename F>
  ECMV_GPU_DEVICE void read_float_patches(uint32_t first, F f) const {
    const FloatPatches<2> of = float_patches<2>(first);
    ECMV_GPU_UNROLL
    for (int k = 0; k < 2; ++k) f(k, first + patch_of(k) < tile_.patches, patch_word(of.bits[k]), of.sign[k]);
  }
  ECMV_GPU_DEVICE uint32_t patch_count() const {
    return static_cast<uint32_t>(LaneGroup::uniform(static_cast<int32_t>(tile_.patches)));
  }
  // decode() with what Cells::integers makes of a quad.
  template <typename Visit>
  ECMV_GPU_DEVICE void decode_integers(const Table& table, Visit visit) {
    decode(table, Integers<Visit>{visit});
  }

  // The parts of decode(), for lane groups that go through their tiles together: before segment s each waits, then all
  // meet, then each calls fetch() and commits. Copies that are no bulk copies are those of all that it has committed.
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

  using PatchWalk = quad_huffman::ECMV_GPU_NAMESPACE::PatchWalk;
  ECMV_GPU_DEVICE PatchWalk patch_walk() const {
    PatchWalk walk;
    walk.patch = patch_bits(static_cast<uint32_t>(LaneGroup::lane()));
    begin_patches(walk, kNoPatch);
    return walk;
  }
  // Applies the patches of columns before `end_col` of the tile: f(row, column of the tile, what is added to an int8
  // element or what the exponent is).
  template <typename F>
  ECMV_GPU_DEVICE void apply_patches(PatchWalk& walk, int end_col, F f) const {
    for (;;) {
      const bool applies = walk.col < end_col;
      const int count = gpu::popcount(LaneGroup::ballot(applies));
      if (applies) {
        const int row = static_cast<int>(walk.patch % kLanes);
        if constexpr (kFloats) {
          f(row, walk.col, static_cast<int>(walk.patch >> 16 & 255));
        } else if (walk.is_first) {
          int cells = walk.patch >> 15 != 0 ? -1 : 1;
          if (!walk.is_last) cells = cells_of_element(walk.first + static_cast<uint32_t>(LaneGroup::lane()));
          f(row, walk.col, cells * (1 << Bytes::kCellBits));
        }
        walk.col = kNoCol;
      }
      walk.applied += count;
      if (walk.applied < kLanes) return;
      const uint32_t before = LaneGroup::shuffle(walk.patch, kLanes - 1);
      walk.first += kLanes;
      walk.applied = 0;
      walk.patch = walk.ahead;
      begin_patches(walk, before);
    }
  }

 private:
  static constexpr uint32_t kNoPatch = 0xFFFFFFFF;
  // kNoPatch where there is none.
  ECMV_GPU_DEVICE uint32_t patch_bits(uint32_t i) const {
    if (i >= tile_.patches) return kNoPatch;
    if constexpr (kFloats) return gpu::cast<const uint32_t>(patches_)[tile_.first_patch + i];
    return patches_[tile_.first_patch + i];
  }
  ECMV_GPU_DEVICE static int patch_change(uint32_t patch) {
    return patch >> 15 != 0 ? -(1 << Bytes::kCellBits) : 1 << Bytes::kCellBits;
  }
  ECMV_GPU_DEVICE int patch_col(uint32_t i, uint32_t patch) const {
    if constexpr (kFloats) return static_cast<int>(patch / kLanes % kMostTileCols);
    return (i < tile_.left_patches ? 0 : kPatchCols) + static_cast<int>(patch / kLanes % kPatchCols);
  }
  // The walk has come to walk.patch; `before` is the one before them.
  ECMV_GPU_DEVICE void begin_patches(PatchWalk& walk, uint32_t before) const {
    const int lane = LaneGroup::lane();
    const uint32_t i = walk.first + static_cast<uint32_t>(lane);
    walk.ahead = patch_bits(i + kLanes);
    walk.col = i < tile_.patches ? patch_col(i, walk.patch) : kNoCol;
    if constexpr (!kFloats) {
      // Patches of an element, each one cell, follow each other.
      const uint32_t first_ahead = LaneGroup::shuffle(walk.ahead, 0);
      uint32_t left = LaneGroup::shuffle_up(walk.patch, 1), right = LaneGroup::shuffle_down(walk.patch, 1);
      if (lane == 0) left = before;
      if (lane == kLanes - 1) right = first_ahead;
      const auto same = [&](uint32_t other, bool same_half) {
        return other != kNoPatch && same_half && ((other ^ walk.patch) & 0x7FFF) == 0;
      };
      walk.is_first = !same(left, i != tile_.left_patches);
      walk.is_last = !same(right, i + 1 != tile_.left_patches);
    }
  }
  ECMV_GPU_DEVICE int cells_of_element(uint32_t first) const {
    const uint32_t patch = patch_bits(first);
    int cells = 0;
    for (uint32_t i = first; i < tile_.patches && (i == first || i != tile_.left_patches); ++i) {
      const uint32_t other = patch_bits(i);
      if (((other ^ patch) & 0x7FFF) != 0) break;
      cells += other >> 15 != 0 ? -1 : 1;
    }
    return cells;
  }

  // Raw bits of one batch are in use while those of the next one are loaded.
  static constexpr int kSegmentRawBytes = static_cast<int>(raw_bytes_of_segment(kSymbolCols, kForm));
  static constexpr int kBatchCols = batch_cols(kSymbolCols, kForm), kBatches = kSegmentCols / kBatchCols,
                       kBatchQuads = kBatchCols / 4;
  static constexpr int kBatchWords = batch_words(kSymbolCols, kForm), kUnitWords = raw_unit_words(kSymbolCols, kForm);
  static constexpr int kRawBytesOfLane = kUnitWords * 4;  // of a unit
  // What is loaded at once: batches, or parts of them.
  static constexpr int kLoadsOfBatch = kLanesForm.halves ? 2 : 1, kStepQuads = kBatchQuads / kLoadsOfBatch;
  static_assert(kBatchWords % kLoadsOfBatch == 0);
  static_assert(kBatches % 2 == 0);

  static constexpr int kPatchesAhead = 4;
  // Some patches a lane, from number `first` of the tile on, and signs and mantissas of their elements.
  template <int kCount>
  struct FloatPatches {
    uint32_t bits[kCount], sign[kCount];
  };
  template <int kCount = kPatchesAhead>
  ECMV_GPU_DEVICE FloatPatches<kCount> float_patches(uint32_t first) const {
    const gpu::Pointer<const uint32_t> patches = gpu::cast<const uint32_t>(patches_) + tile_.first_patch;
    const gpu::Pointer<const uint8_t> signs = signs_ + tile_.first_patch;
    FloatPatches<kCount> of;
    ECMV_GPU_UNROLL
    for (int k = 0; k < kCount; ++k) {
      const uint32_t i = first + patch_of(k);
      of.bits[k] = i < tile_.patches ? patches[i] : 0;
      of.sign[k] = i < tile_.patches ? signs[i] : 0;
    }
    return of;
  }
  template <typename F>
  ECMV_GPU_DEVICE static void for_each_filled(uint32_t left, F f) {
    ECMV_GPU_NO_UNROLL
    for (int k = 0; k < kPatchesAhead && static_cast<uint32_t>(k * kLanes) < left; ++k) f(k);
  }
  ECMV_GPU_DEVICE static uint32_t patch_of(int k) { return static_cast<uint32_t>(k * kLanes + LaneGroup::lane()); }

  ECMV_GPU_DEVICE int ring_bits() const { return kShifted ? hidden_.ring_bits : kRingBits; }

  template <typename T>
  ECMV_GPU_DEVICE static std::remove_const_t<T> load_raw(gpu::Pointer<T> from) {
    if constexpr (kLanesForm.early) return gpu::load_streaming_before_sync(from);
    return gpu::load_streaming_here(from);
  }
  // Loads what step `step` of the segment that is `further` bytes after the one in work needs and the one before it has not
  // loaded, lanes `of_lane` bytes apart. Loads begin when what is in use has come: nvcc counts all of a thread's loads of this
  // kind by one counter, so that a wait for one waits for all that have begun.
  ECMV_GPU_DEVICE void load_step(int step, int further, int of_lane, uint32_t in_use) {
    if constexpr (kRawBits == 0) return;
    const int batch = step / kLoadsOfBatch;
    const uint32_t lane = (in_use & hidden_.zero) | static_cast<uint32_t>(LaneGroup::lane() * of_lane);
    const gpu::Pointer<const std::byte> from = tile_.raw + further;
    uint32_t* words = tile_.words[batch % 2];
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
  // Of a batch, what a step loads: units that have a word of the step's columns, and no word of those before.
  ECMV_GPU_DEVICE static constexpr int first_word(int step) {
    return (step * (kBatchWords / kLoadsOfBatch) + kUnitWords - 1) / kUnitWords * kUnitWords;
  }

  // Batches that are brought to the L2 cache at a time, before they are loaded (NOTES.md: what that gains, and costs bf16).
  static constexpr int kPrefetched = kSymbolCols != 4 || (kFloats && !kLanesForm.prefetches) ? 0
                                     : kRawBits > 3                                          ? 1
                                     : kRawBits > 0                                          ? kBatches
                                                                                             : 0;
  // Starts to bring batches, counted from the first one of the segment in work.
  ECMV_GPU_DEVICE void prefetch_raw(int batch, int count) const {
    if (LaneGroup::lane() != 0) return;
    gpu::prefetch_l2(tile_.raw + batch * kBatchWords * kLineBytes, count * kBatchWords * kLineBytes);
  }

  // Blocks of lines that segment s needs; 0 beyond the last one.
  ECMV_GPU_DEVICE int blocks_of(int s) const { return s < segments_ ? ring_.blocks_of(s) : 0; }
  // Starts the copies of the next blocks and moves lagging positions forward.
  ECMV_GPU_DEVICE void fetch_codes(int blocks, int later) {
    // Since the last such call a segment was decoded, whose bits fit a ring, and before it no position was behind the ring.
    if constexpr (kExactLengths) {
      const int behind = 32 * ring_.reach() - ring_bits();
      tile_.position =
          static_cast<uint32_t>(behind) + ((tile_.position - static_cast<uint32_t>(behind)) & kExactLengthMask);
    }
    ring_.fetch(blocks, later);
    const int least = 32 * ring_.reach() - ring_bits();
    if (static_cast<int>(tile_.position) < least) tile_.position = static_cast<uint32_t>(least);
  }

  // The next kSymbols symbols, all of segment s.
  template <int kSymbols, typename Visit>
  ECMV_GPU_DEVICE void decode_symbols(const Table& table, int s, bool goes_on, Visit visit) {
    constexpr int kSteps = kSymbols * kSymbolCols / 4 / kStepQuads;
    static_assert(kSteps % (2 * kLoadsOfBatch) == 0);
    Windows windows{};
    uint32_t window = 0, used = 0, used_before = 0, rotation = 0;
    // Without a condition: with one nvcc would load to other registers and wait to copy them.
    const int next = goes_on ? kSegmentRawBytes * kSymbols / kSegmentSymbols : 0;  // past the last segment: its own
    const auto look_up = [&](int i) {
      if (i % (2 * kSymbolsOfWindow) == 0) {
        windows = windows_of(lane_ring_, tile_.position, hidden_);
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
      const uint32_t before = entry;  // of pairs, the first one's
      entry = kLanesForm.looks_ahead || i == 0 ? ahead : look_up(i);
      used = Bytes::add_length(entry, used);
      if (i % (2 * kSymbolsOfWindow) == 2 * kSymbolsOfWindow - 1 || i == kSymbols - 1)
        tile_.position += kExactLengths ? used_before + used : Bytes::bits_of(used_before + used);
      if (kLanesForm.looks_ahead && i + 1 < kSymbols) ahead = look_up(i + 1);
      if constexpr (kLanesForm.rotates != 0) entry = gpu::funnel_shift_right(entry, entry, rotation);
      if constexpr (kSymbolCols == 2) {
        if (i % 2 == 1) visit_quad<0, kSteps>(i / 2, s, next, visit, Bytes::pair(before, entry));
      } else {
        visit_quad<0, kSteps>(i * (kSymbolCols / 4), s, next, visit, entry);
        if constexpr (kSymbolCols == 8) visit_quad<1, kSteps>(2 * i + 1, s, next, visit, entry);
      }
    }
    tile_.raw += next;
  }

  // What decode_integers() has decode() call.
  template <typename Visit>
  struct Integers {
    Visit visit;
  };
  // Quad kQuad of the symbol of `entry`.
  template <int kQuad, int kSteps, typename Visit>
  ECMV_GPU_DEVICE void visit_quad(int quad, int s, int next, Visit visit, uint32_t entry) {
    const int batch = quad / kBatchQuads, group = quad % kBatchQuads / 8;
    if (quad % kStepQuads == 0) {
      // Nobody needs what is loaded past the last segment: all lanes load the same.
      const int step = quad / kStepQuads;
      const bool of_next = step + 1 == kSteps;
      load_step(of_next ? 0 : step + 1, of_next ? next : 0, of_next && next == 0 ? 0 : kRawBytesOfLane,
                tile_.words[batch % 2][first_word(step % kLoadsOfBatch)]);
    }
    if (kPrefetched == 1 && quad % kBatchQuads == 0 && (batch + 2 < kSteps / kLoadsOfBatch || next != 0))
      prefetch_raw(batch + 2, 1);
    const auto word = [&](int j) { return tile_.words[batch % 2][group * kRawBits + j]; };
    if constexpr (kFloats) {
      const auto cell_word = [&](int j) { return word(kSignWords + j); };
      visit(s, quad, Bytes::template join<kQuad>(cell_word, quad % 8, entry), word(quad % 8 / (kF8 ? 2 : 1)));
    } else if constexpr (requires { visit.visit; }) {
      uint32_t first, second;
      Bytes::template integers<kQuad>(word, quad % 8, entry, first, second);
      visit.visit(s, quad, first, second);
    } else {
      visit(s, quad, Bytes::template join<kQuad>(word, quad % 8, entry));
    }
  }

  gpu::Pointer<const uint16_t> patches_;
  gpu::Pointer<const uint8_t> signs_;  // of floats
  const Hidden& hidden_;
  CodeRing<kLanesForm.lean> ring_;
  gpu::SharedWords lane_ring_;
  TileState<kBatchWords, kPatchesAhead> tile_;
  int first_col_ = 0, segments_ = 0;
};

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
