// From a table's entry and raw words to bytes of four columns, w - lowest for int8 elements and exponents less `lowest`
// for bf16, and their product with x. Operations for four columns, raw bits included:
//   contiguous cells   0.5 to 2 shifts, 1 select (three-input logic)
//   the same, K = 8    0.4 shifts, 0.5 selects, 1 and
//   folded cells       0.9 to 1.6 shifts, 1 select, 1 byte permute that spreads the signs, 1 three-input logic
#pragma once

#include "backends/gpu/bits.h"
#include "codecs/quad_huffman/format/layout.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

ECMV_GPU_DEVICE constexpr uint32_t low_bits(int bits) { return 0x01010101u * ((1u << bits) - 1); }

// Entries of quads of exponents have more free bits than the stored form uses. In shared memory byte k is 16 h of
// column k, bit 3 is free for the raw bit, and bits 0 and 1 of bytes 0 to 2 make the length a weighted sum of the bytes
// (as in folded cells, FORMAT.md), which costs an operation less than one length bit a byte.
inline constexpr bool has_exponent_quads(int symbol_cols, int form) { return is_float(form) && symbol_cols == 4; }
inline constexpr int32_t kQuadLengthWeights = static_cast<int32_t>(length_weights(4));
ECMV_GPU_DEVICE uint32_t exponent_quads(uint32_t stored) {
  const uint32_t cells = (stored & 0x1E1E1E1Eu) << 3;
  const int32_t length = gpu::dot4_unsigned_signed(stored & 0x01010101u, 0x08040201, 0);
  const auto left = static_cast<uint32_t>(length - gpu::dot4_unsigned_signed(cells, kQuadLengthWeights, 0));
  return cells | (left & 3) | (left & 12) << 6 | (left & 48) << 12;
}

template <int kSymbolCols, int kForm>
struct Cells {
  static constexpr int kCellBits = cell_bits(kForm), kShift = entry_shift(kForm);
  static constexpr bool kFolds = is_folded(kForm), kPacked = has_packed_entries(kSymbolCols, kForm),
                        kNibbles = has_nibble_entries(kSymbolCols, kForm),
                        kEights = has_exponent_eights(kSymbolCols, kForm),
                        kExponentQuads = has_exponent_quads(kSymbolCols, kForm),
                        kSummed = has_summed_lengths(kSymbolCols, kForm) || kExponentQuads;
  static constexpr uint32_t kLengthWeights = length_weights(kSymbolCols);
  static constexpr Planes kPlanes = planes_of(kForm);
  // Bytes of exponents e - lowest times this are bits 7 and higher of a half; the bits below are arbitrary.
  static constexpr uint32_t kExponentUnit = kExponentQuads ? 16 : 128;
  // Says whether bytes are twice w - lowest.
  static constexpr bool kDoubled = !kPacked && kShift > kCellBits;
  // A cell with its raw bits in both nibbles of each byte, and a mask of the raw bits there.
  static constexpr uint32_t kCellOfNibbles = 0x11111111u * ((4u << kShift) - 1 - (kDoubled ? 1 : 0)),
                            kRawOfNibbles = 0x11111111u * ((1u << kCellBits) - 1), kRawOfEights = 0x99999999u;

  // `used` bits of a window plus the entry's bits, in the form that past_used() and bits_of() take.
  ECMV_GPU_DEVICE static uint32_t add_length(uint32_t entry, uint32_t used) {
    if constexpr (kPacked) return used + (entry >> 28);
    return static_cast<uint32_t>(gpu::dot4_unsigned_signed(kSummed ? entry : entry & 0x01010101u,
                                                           static_cast<int32_t>(kSummed ? kLengthWeights : 0x08040201u),
                                                           static_cast<int32_t>(used)));
  }

  // The rest of a window; summed lengths are right modulo 64.
  ECMV_GPU_DEVICE static uint32_t past_used(uint32_t window, uint32_t used) {
    return kSummed ? gpu::funnel_shift_right(window, 0, used) : window >> used;
  }
  ECMV_GPU_DEVICE static uint32_t bits_of(uint32_t used) { return kSummed ? used & kSummedLengthMask : used; }

  // The bytes of quad kQuad of a symbol. word(j) is word j of a group of 32 columns, and the quad is number `quad` of
  // the group, a constant once the loops around are unrolled. raw_planes.h says where raw
  // bits of nibbles are.
  template <int kQuad, typename Word>
  ECMV_GPU_DEVICE static uint32_t join(Word word, int quad, uint32_t entry) {
    if constexpr (kEights) {
      const uint32_t raw_bits = word(quad / 4);
      return gpu::select_bits(kRawOfEights,
                              quad / 2 % 2 == 0 ? raw_bits : gpu::funnel_shift_right(raw_bits, raw_bits, 2u), entry);
    } else if constexpr (kNibbles) {
      uint32_t both = entry;
      if constexpr (kCellBits > 0)
        both = gpu::select_bits(kRawOfNibbles, word(quad / 2 * kCellBits / 4) >> (quad / 2 * kCellBits % 4), entry);
      return both & kCellOfNibbles & (kQuad == 0 ? 0x0F0F0F0Fu : 0xF0F0F0F0u);
    } else if constexpr (kExponentQuads) {
      const uint32_t raw_bits = quad <= 3 ? word(0) << (3 - quad) : word(0) >> (quad - 3);
      return gpu::select_bits(0x08080808u, raw_bits, entry);
    } else if constexpr (!kFolds) {
      return gpu::select_bits(low_bits(kShift), raw(word, quad), high_of<kQuad>(entry));
    } else {
      const uint32_t high = high_of<kQuad>(entry), signs = gpu::spread_signs(sign_bits(word, quad));
      if constexpr (kDoubled) return (high ^ signs) & ~low_bits(1);
      const uint32_t magnitude = gpu::select_bits(low_bits(kCellBits), raw(word, quad), high);
      // Packed entries have other bits above these.
      if constexpr (kPacked) return (magnitude & low_bits(kCellBits + 2)) ^ signs;
      return magnitude ^ signs;
    }
  }

  // Folded cells of symbols of four as two words of two halves each: 2 (w - lowest) + 1 as sign (the highest bit) and
  // magnitude (the lowest eight).
  template <typename Word>
  ECMV_GPU_DEVICE static void integers(Word word, int quad, uint32_t entry, uint32_t& first, uint32_t& second) {
    static_assert(kFolds && !kPacked && !kDoubled);
    const uint32_t signs = sign_bits(word, quad) & 0x80808080u,
                   odd = gpu::select_bits(low_bits(kCellBits), raw(word, quad), entry) * 2 + 0x01010101u;
    first = gpu::byte_permute(odd, signs, 0x5140);
    second = gpu::byte_permute(odd, signs, 0x7362);
  }

  // Adds the products of four bytes with x to `sum`. There are two sums; sum_of() says which one a quad has.
  ECMV_GPU_DEVICE static int32_t add_products(uint32_t bytes, uint32_t x, int32_t sum) {
    if constexpr (kFolds) return gpu::dot4(static_cast<int32_t>(bytes), static_cast<int32_t>(x), sum);
    return gpu::dot4_unsigned_signed(bytes, static_cast<int32_t>(x), sum);
  }
  ECMV_GPU_DEVICE static int sum_of(int quad) { return kNibbles ? quad % 2 : 0; }
  // The product from both sums, without the factors of their bytes.
  ECMV_GPU_DEVICE static int32_t product(const int32_t (&sums)[2]) {
    const int32_t sum = kNibbles ? sums[0] + sums[1] / 16 : sums[0] + sums[1];
    return kDoubled ? sum / 2 : sum;
  }
  // Bytes w - lowest.
  ECMV_GPU_DEVICE static uint32_t offsets(uint32_t bytes, int quad) {
    if constexpr (kNibbles) return (quad % 2 == 0 ? bytes : bytes >> 4) >> (kDoubled ? 1 : 0);
    if constexpr (!kDoubled) return bytes;
    return (bytes >> 1 & 0x7F7F7F7Fu) | (kFolds ? bytes & 0x80808080u : 0);
  }

 private:
  // The high parts of quad kQuad of a symbol, above the place of the raw bits; other bits are arbitrary.
  template <int kQuad>
  ECMV_GPU_DEVICE static uint32_t high_of(uint32_t entry) {
    if constexpr (!kPacked) return entry;
    constexpr int kLeft = kQuad == 0 ? kCellBits - 2 : kCellBits;
    if constexpr (kLeft < 0) return entry >> -kLeft;
    return entry << (kLeft < 0 ? 0 : kLeft);
  }

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
