// From a table's entry and raw words to bytes of four columns, w - lowest of int8 elements (of bf16: of exponents), and
// their product with x. Operations for four columns, raw bits included:
//   contiguous cells   0.5 to 2 shifts, 1 select (three-input logic)
//   folded cells       0.9 to 1.6 shifts, 1 select, 1 byte permute that spreads the signs, 1 three-input logic
#pragma once

#include "backends/gpu/bits.h"
#include "codecs/quad_huffman/format.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

// What a look-up gives: a word for columns 0 to 3 and, of 8 columns that are not packed, one for the others.
struct Entry {
  uint32_t first, second;
};

ECMV_GPU_DEVICE constexpr uint32_t low_bits(int bits) { return 0x01010101u * ((1u << bits) - 1); }

template <int kSymbolCols, int kForm>
struct Cells {
  static constexpr int kCellBits = cell_bits(kForm), kShift = entry_shift(kSymbolCols, kForm);
  static constexpr bool kFolds = is_folded(kForm), kPacked = has_packed_entries(kSymbolCols, kForm),
                        kSummed = has_summed_lengths(kSymbolCols, kForm);
  static constexpr Planes kPlanes = planes_of(is_float(kForm) ? kCellBits : raw_bits_of(kForm), kFolds);
  // Whether bytes are twice w - lowest.
  static constexpr bool kDoubled = !kPacked && kShift > kCellBits;

  // `used` bits of a window and those of the entry; past_used() and bits_of() take it.
  ECMV_GPU_DEVICE static uint32_t add_length(const Entry& entry, uint32_t used) {
    if constexpr (kSymbolCols == 2) return used + (entry.first >> 16);
    if constexpr (kPacked) return used + (entry.first >> 28);
    if constexpr (kSummed)
      return static_cast<uint32_t>(
          gpu::dot4_unsigned_signed(entry.first, static_cast<int32_t>(kLengthWeights), static_cast<int32_t>(used)));
    return static_cast<uint32_t>(
        gpu::dot4_unsigned_signed(entry.first & 0x01010101u, 0x08040201, static_cast<int32_t>(used)));
  }

  // What is left of a window; summed lengths are right modulo 64.
  ECMV_GPU_DEVICE static uint32_t past_used(uint32_t window, uint32_t used) {
    return kSummed ? gpu::funnel_shift_right(window, 0, used) : window >> used;
  }
  ECMV_GPU_DEVICE static uint32_t bits_of(uint32_t used) { return kSummed ? used & kSummedLengthMask : used; }

  // The high parts of quad kQuad of a symbol where join() expects them; other bits are anything.
  template <int kQuad>
  ECMV_GPU_DEVICE static uint32_t high(const Entry& entry) {
    if constexpr (!kPacked) return kQuad == 0 ? entry.first : entry.second;
    constexpr int kLeft = kQuad == 0 ? kCellBits - 2 : kCellBits;
    if constexpr (kLeft < 0) return entry.first >> -kLeft;
    return entry.first << (kLeft < 0 ? 0 : kLeft);
  }
  // The same of the two symbols of a quad.
  ECMV_GPU_DEVICE static uint32_t high_of_pair(uint32_t before, uint32_t entry) {
    return gpu::byte_permute(before, entry, 0x5410);
  }

  // word(j) is word j of a group of 32 columns, of which the quad is number `quad`, a constant once the loops around are
  // unrolled.
  template <typename Word>
  ECMV_GPU_DEVICE static uint32_t join(Word word, int quad, uint32_t high) {
    if constexpr (!kFolds) {
      return gpu::select_bits(low_bits(kShift), raw(word, quad), high);
    } else {
      const uint32_t signs = gpu::spread_signs(sign_bits(word, quad));
      if constexpr (kDoubled) return (high ^ signs) & ~low_bits(1);
      const uint32_t magnitude = gpu::select_bits(low_bits(kCellBits), raw(word, quad), high);
      // Of packed entries other bits are above.
      if constexpr (kPacked) return (magnitude & low_bits(kCellBits + 2)) ^ signs;
      return magnitude ^ signs;
    }
  }

  // sum + the products of four bytes with x.
  ECMV_GPU_DEVICE static int32_t add_products(uint32_t bytes, uint32_t x, int32_t sum) {
    if constexpr (kFolds) return gpu::dot4(static_cast<int32_t>(bytes), static_cast<int32_t>(x), sum);
    return gpu::dot4_unsigned_signed(bytes, static_cast<int32_t>(x), sum);
  }
  // What sums of add_products() are without the factor of two.
  ECMV_GPU_DEVICE static int32_t product(int32_t sum) { return kDoubled ? sum / 2 : sum; }
  // Bytes w - lowest.
  ECMV_GPU_DEVICE static uint32_t offsets(uint32_t bytes) {
    if constexpr (!kDoubled) return bytes;
    return (bytes >> 1 & 0x7F7F7F7Fu) | (kFolds ? bytes & 0x80808080u : 0);
  }

 private:
  // A plane's bits of a quad in the low bits of each byte, others above them.
  template <int kWidth, int kFirst, typename Word>
  ECMV_GPU_DEVICE static uint32_t plane(Word word, int quad) {
    if (kWidth == 3 && quad >= 6) {
      const uint32_t low = gpu::select_bits(0x03030303u, word(kFirst) >> 6, word(kFirst + 1) >> 4);
      const uint32_t both = gpu::select_bits(0x0F0F0F0Fu, low, word(kFirst + 2) >> 2);
      return both >> (3 * (quad - 6));
    }
    constexpr int kEach = 8 / kWidth;
    return word(kFirst + quad / kEach) >> (quad % kEach * kWidth);
  }

  // The raw bits of a quad in the low bits of each byte, others above them.
  template <typename Word>
  ECMV_GPU_DEVICE static uint32_t raw(Word word, int quad) {
    if constexpr (kPlanes.first == 0) return 0;
    if constexpr (kPlanes.first > 0 && (kPlanes.second == 0 || kFolds)) return plane<kPlanes.first, 0>(word, quad);
    if constexpr (kPlanes.second > 0 && !kFolds)
      return gpu::select_bits(low_bits(kPlanes.first), plane<kPlanes.first, 0>(word, quad),
                              plane<kPlanes.second, kPlanes.first>(word, quad) << kPlanes.first);
  }

  // The signs of a quad as the highest bits of bytes: the last bit of the last plane.
  template <typename Word>
  ECMV_GPU_DEVICE static uint32_t sign_bits(Word word, int quad) {
    constexpr int kWidth = kPlanes.second > 0 ? kPlanes.second : kPlanes.first,
                  kFirst = kPlanes.second > 0 ? kPlanes.first : 0, kEach = 8 / kWidth;
    return word(kFirst + quad / kEach) << (8 - kWidth * (quad % kEach + 1));
  }
};

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
