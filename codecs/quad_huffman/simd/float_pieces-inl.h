// From entries to elements of bf16 and f8. 32 columns of a row, eight quads, get their exponents from entries (bf16:
// and a plane of raw bits), and their signs and mantissas as bytes (f8: nibbles). Per-target header.
#if defined(ECMV_CODECS_QUAD_HUFFMAN_FLOAT_PIECES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_CODECS_QUAD_HUFFMAN_FLOAT_PIECES_INL_H_
#undef ECMV_CODECS_QUAD_HUFFMAN_FLOAT_PIECES_INL_H_
#else
#define ECMV_CODECS_QUAD_HUFFMAN_FLOAT_PIECES_INL_H_
#endif

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/format/raw_planes.h"
#include "codecs/quad_huffman/simd/pieces-inl.h"
#include "codecs/quad_huffman/simd/walk.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::quad_huffman::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int kFloatCols = 4;                      // columns of a symbol
inline constexpr int kFloatForm = kSignMantissaBits + 1;  // with cells of two exponents
inline constexpr int kFloatGroups = segment_cols(kFloatCols) / 32;
static_assert(kLeastF8SymbolCols == kFloatCols);
// Raw words of a segment and lane.
inline constexpr int float_words(Form form) { return kFloatGroups * form.raw_bits; }

// A segment's raw words, one lane after the other; in memory its units of two words lie lane by lane.
using FloatWords = std::array<std::array<uint32_t, segment_cols(8) / 32 * kMostPlaneWords>, kWalkLanes>;
template <Form kForm>
HWY_INLINE void CopyFloatWords(const uint8_t* HWY_RESTRICT raw, FloatWords& words) {
  static_assert(raw_unit_words(kFloatCols, kForm) == 2 && float_words(kForm) % 4 == 0);
  const hn::FixedTag<uint64_t, 2> d;
  for (int lane = 0; lane < kWalkLanes; lane += 2)
    for (int unit = 0; unit < float_words(kForm) / 2; unit += 2) {
      const auto* from = reinterpret_cast<const uint64_t*>(raw + unit * kLanes * 8 + lane * 8);
      const auto first = hn::LoadU(d, from), second = hn::LoadU(d, from + kLanes);
      const auto to = [&](int of) HWY_ATTR { return reinterpret_cast<uint64_t*>(words[of].data() + 2 * unit); };
      hn::StoreU(hn::InterleaveLower(d, first, second), d, to(lane));
      hn::StoreU(hn::InterleaveUpper(d, first, second), d, to(lane + 1));
    }
}

// Exponents are lowest + 2 h + r. Their upper seven bits and their lowest one go to different bytes, so they are
// computed separately: with an odd `lowest`, r = 1 carries.
struct FloatOrigin {
  V8 upper, odd;  // lowest / 2; all ones where it is odd
};
HWY_INLINE FloatOrigin OriginOf(int lowest) {
  const D8 d8;
  return {hn::Set(d8, static_cast<uint8_t>(lowest >> 1)), hn::Set(d8, static_cast<uint8_t>(lowest % 2 != 0 ? 255 : 0))};
}

// The high parts of the quads of a vector as bytes, from the kernels' entries.
HWY_INLINE V8 HighsOf(const uint32_t* HWY_RESTRICT entries) {
  const D8 d8;
  const D16 d16;
  alignas(32) static constexpr uint8_t kHighs[32] = {2, 2, 3, 3, 6, 6, 7, 7, 10, 10, 11, 11, 14, 14, 15, 15,
                                                     2, 2, 3, 3, 6, 6, 7, 7, 10, 10, 11, 11, 14, 14, 15, 15};
  const V8 quads = hn::BitCast(d8, hn::LoadU(D32(), entries));
  // Takes a byte twice: the first keeps its low nibble, the second moves its high nibble down.
  const auto twice = hn::BitCast(d16, hn::TableLookupBytes(quads, hn::Load(d8, kHighs)));
  return hn::BitCast(
      d8, hn::Or(hn::And(twice, hn::Set(d16, 0x000f)), hn::And(hn::ShiftRight<4>(twice), hn::Set(d16, 0x0f00))));
}

// All ones in bytes whose raw bit is set, for the quads of `part` and the group's plane of one bit.
HWY_INLINE V8 RawOf(V8 plane, int part) {
  const D8 d8;
  alignas(32) static constexpr uint8_t kBits[32] = {1,  1,  1,  1,  2,  2,  2,  2,  4,  4,  4,  4,  8,   8,   8,   8,
                                                    16, 16, 16, 16, 32, 32, 32, 32, 64, 64, 64, 64, 128, 128, 128, 128};
  const V8 bits = hn::Load(d8, kBits + 4 * kVectorQuads * part);
  return hn::VecFromMask(d8, hn::Eq(hn::And(plane, bits), bits));
}

// Stores the bytes of two vectors in turn.
HWY_INLINE void StoreInterleaved(V8 first, V8 second, uint8_t* HWY_RESTRICT to) {
  const D8 d8;
  const V8 lower_half = hn::InterleaveLower(d8, first, second), upper_half = hn::InterleaveUpper(d8, first, second);
  if constexpr (kParts == 1) {  // blocks of 128 bits are interleaved each by itself
    hn::StoreU(hn::ConcatLowerLower(d8, upper_half, lower_half), d8, to);
    hn::StoreU(hn::ConcatUpperUpper(d8, upper_half, lower_half), d8, to + 32);
  } else {
    hn::StoreU(lower_half, d8, to);
    hn::StoreU(upper_half, d8, to + 16);
  }
}

// Makes 32 columns from entries[8] and words[9].
HWY_INLINE void FloatGroup(const uint32_t* HWY_RESTRICT entries, const uint32_t* HWY_RESTRICT words,
                           const FloatOrigin& origin, uint16_t* HWY_RESTRICT decoded) {
  const D8 d8;
  const D32 d32;
  const V8 plane = hn::BitCast(d8, hn::Set(d32, words[kSignMantissaBits]));
  for (int part = 0; part < kParts; ++part) {
    const V8 high = HighsOf(entries + kVectorQuads * part);
    const V8 raw = RawOf(plane, part);
    const V8 upper = hn::Sub(hn::Add(high, origin.upper), hn::And(raw, origin.odd));
    const V8 signs = hn::LoadU(d8, reinterpret_cast<const uint8_t*>(words) + 4 * kVectorQuads * part);
    const V8 sign = hn::Set(d8, 0x80);
    StoreInterleaved(hn::Or(hn::AndNot(sign, signs), hn::And(hn::Xor(raw, origin.odd), sign)),
                     hn::Or(hn::And(signs, sign), upper),
                     reinterpret_cast<uint8_t*>(decoded) + 8 * kVectorQuads * part);
  }
}

// Makes 32 columns of f8 from entries[8] and words[5]. Columns 0 and 1 of four have their bits in high nibbles, 2 and 3
// in low ones.
HWY_INLINE void F8Group(const uint32_t* HWY_RESTRICT entries, const uint32_t* HWY_RESTRICT words, V8 lowest,
                        uint8_t* HWY_RESTRICT decoded) {
  struct Bytes {
    alignas(32) uint8_t of_mantissa[32], of_sign[32], is_high[32];
  };
  static constexpr Bytes kBytes = [] {
    Bytes bytes{};
    for (int col = 0; col < 32; ++col) {
      bytes.of_mantissa[col] = static_cast<uint8_t>(col / 8 * 4 + f8_mantissa_nibble(col % 8) / 2);
      bytes.of_sign[col] = static_cast<uint8_t>(col / 8 * 4 + f8_sign_nibble(col % 8) / 2);
      bytes.is_high[col] = f8_mantissa_nibble(col % 8) % 2 == 1 ? 255 : 0;
    }
    return bytes;
  }();
  static_assert(f8_mantissa_nibble(0) % 2 == f8_sign_nibble(0) % 2);
  const D8 d8;
  const D16 d16;
  const V8 all = hn::LoadDup128(d8, reinterpret_cast<const uint8_t*>(words)),
           plane = hn::BitCast(d8, hn::Set(D32(), words[kF8SignMantissaBits]));
  for (int part = 0; part < kParts; ++part) {
    const int first = 4 * kVectorQuads * part;
    const V8 high = HighsOf(entries + kVectorQuads * part),
             exponent = hn::Sub(hn::Add(hn::Add(high, high), lowest), RawOf(plane, part)),
             above = hn::And(hn::BitCast(d8, hn::ShiftLeft<3>(hn::BitCast(d16, exponent))), hn::Set(d8, 0x78));
    const V8 mantissas = hn::TableLookupBytes(all, hn::Load(d8, kBytes.of_mantissa + first)),
             signs = hn::TableLookupBytes(all, hn::Load(d8, kBytes.of_sign + first));
    const auto is_high = hn::Ne(hn::Load(d8, kBytes.is_high + first), hn::Zero(d8));
    const V8 down = hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, mantissas))),
             up = hn::BitCast(d8, hn::ShiftLeft<4>(hn::BitCast(d16, signs)));
    const V8 mantissa = hn::And(hn::IfThenElse(is_high, down, mantissas), hn::Set(d8, 7)),
             sign = hn::And(hn::IfThenElse(is_high, signs, up), hn::Set(d8, 0x80));
    hn::StoreU(hn::Or3(above, mantissa, sign), d8, decoded + first);
  }
}

// Symbols of eight exponents: 64 columns of a row from 8 entries and their raw words. Signs and mantissas lie where a
// bf16 has them, rotated as exponents are (FORMAT.md).

// A segment's raw words, one lane after the other; in memory its units of four words lie lane by lane.
template <Form kForm>
HWY_INLINE void CopyEightsWords(const uint8_t* HWY_RESTRICT raw, FloatWords& words) {
  static_assert(raw_unit_words(8, kForm) == 4);
  const hn::FixedTag<uint32_t, 4> d;
  for (int unit = 0; unit < segment_cols(8) / 32 * kForm.raw_bits / 4; ++unit, raw += kLanes * 16)
    for (int lane = 0; lane < kWalkLanes; ++lane)
      hn::StoreU(hn::LoadU(d, reinterpret_cast<const uint32_t*>(raw) + 4 * lane), d, words[lane].data() + 4 * unit);
}

// Sources of the bytes of 32 columns. Raw bits of exponents: the words of two eights each, rotated left by one bit so
// that each has a nibble of its own; f8: nibbles of mantissas and signs; bf16: bytes of 16 columns.
struct EightsBytes {
  alignas(32) uint8_t of_raw[32], is_high_raw[32], of_mantissa[32], of_sign[32], is_high[32];
};
template <bool kF8>
constexpr EightsBytes eights_bytes() {
  EightsBytes bytes{};
  for (int col = 0; col < 32; ++col) {
    const int raw = (eights_exponent_shift(col % 8) + 1) % 32, first = eights_sign_shift(col);
    bytes.of_raw[col] = static_cast<uint8_t>(col / 8 * 4 + raw / 8);
    bytes.is_high_raw[col] = raw % 8 >= 4 ? 255 : 0;
    if (kF8) {
      const int mantissa = (first + 4) % 32, sign = (first + 12) % 32;
      bytes.of_mantissa[col] = static_cast<uint8_t>(col / 8 * 4 + mantissa / 8);
      bytes.of_sign[col] = static_cast<uint8_t>(col / 8 * 4 + sign / 8);
      bytes.is_high[col] = mantissa % 8 >= 4 ? 255 : 0;
    } else {
      // Words with an odd number are rotated right by four bits.
      const int of_word = col % 16 / 4, at = (first - of_word % 2 * 4 + 32) % 32;
      bytes.of_mantissa[col] = static_cast<uint8_t>(4 * of_word + at / 8);
      bytes.of_sign[col] = static_cast<uint8_t>(4 * of_word + (at / 8 + 1) % 4);
    }
  }
  return bytes;
}

HWY_INLINE V8 HighNibbles(V8 bytes) { return hn::BitCast(D8(), hn::ShiftRight<4>(hn::BitCast(D16(), bytes))); }

// The elements of columns [4 kVectorQuads part, ...) of 32, whose exponents less `lowest` are `high` and two raw bits.
template <Form kForm, class Element>
HWY_INLINE void EightsPart(V8 high, const uint32_t* HWY_RESTRICT words, V8 raw_words, V8 lowest, int part,
                           Element* HWY_RESTRICT decoded) {
  constexpr bool kF8 = kForm.f8;
  static constexpr EightsBytes kBytes = eights_bytes<kF8>();
  const D8 d8;
  const D32 d32;
  const int first = 4 * kVectorQuads * part;
  const auto is = [&](const uint8_t* flags) HWY_ATTR { return hn::Ne(hn::Load(d8, flags + first), hn::Zero(d8)); };
  const V8 raw = hn::TableLookupBytes(raw_words, hn::Load(d8, kBytes.of_raw + first)),
           low = hn::And(hn::IfThenElse(is(kBytes.is_high_raw), HighNibbles(raw), raw), hn::Set(d8, 3)),
           exponent = hn::Add(hn::Add(high, low), lowest);
  if constexpr (kF8) {
    const V8 all = hn::LoadDup128(d8, reinterpret_cast<const uint8_t*>(words)),
             mantissas = hn::TableLookupBytes(all, hn::Load(d8, kBytes.of_mantissa + first)),
             signs = hn::TableLookupBytes(all, hn::Load(d8, kBytes.of_sign + first)),
             up = hn::BitCast(d8, hn::ShiftLeft<4>(hn::BitCast(D16(), signs))),
             above = hn::And(hn::BitCast(d8, hn::ShiftLeft<3>(hn::BitCast(D16(), exponent))), hn::Set(d8, 0x78));
    const V8 mantissa = hn::And(hn::IfThenElse(is(kBytes.is_high), HighNibbles(mantissas), mantissas), hn::Set(d8, 7)),
             sign = hn::And(hn::IfThenElse(is(kBytes.is_high), signs, up), hn::Set(d8, 0x80));
    hn::StoreU(hn::Or3(above, mantissa, sign), d8, decoded + first);
  } else {
    const V32 own = hn::LoadU(d32, words + kVectorQuads * part);
    const V8 all = hn::BitCast(d8, hn::OddEven(hn::RotateRight<4>(own), own)), sign = hn::Set(d8, 0x80),
             signs = hn::Or(hn::AndNot(sign, hn::TableLookupBytes(all, hn::Load(d8, kBytes.of_mantissa + first))),
                            hn::And(sign, hn::TableLookupBytes(all, hn::Load(d8, kBytes.of_sign + first))));
    // The exponent's lowest bit is the first byte's highest.
    const V8 odd = hn::BitCast(d8, hn::ShiftLeft<7>(hn::BitCast(D16(), exponent))),
             upper = hn::AndNot(sign, hn::BitCast(d8, hn::ShiftRight<1>(hn::BitCast(D16(), exponent))));
    StoreInterleaved(hn::OrAnd(hn::AndNot(sign, signs), odd, sign), hn::OrAnd(upper, signs, sign),
                     reinterpret_cast<uint8_t*>(decoded + first));
  }
}

// Makes 64 columns from entries[8] and the words of two groups.
template <Form kForm, class Element>
HWY_INLINE void EightsPiece(const uint32_t* HWY_RESTRICT entries, const uint32_t* HWY_RESTRICT words, V8 lowest,
                            Element* HWY_RESTRICT decoded) {
  constexpr int kWords = kForm.raw_bits, kSigns = sign_mantissa_bits(kForm);
  const D8 d8;
  Highs high;
  HighsOfEights<cell_bits(kForm)>(entries, high);
  for (int half = 0; half < 2; ++half, words += kWords, decoded += 32) {
    const uint32_t first = std::rotl(words[kSigns], 1), second = std::rotl(words[kSigns + 1], 1);
    alignas(16) const uint32_t raw[4] = {first, first >> 2, second, second >> 2};
    const V8 raw_words = hn::LoadDup128(d8, reinterpret_cast<const uint8_t*>(raw));
    for (int part = 0; part < kParts; ++part)
      EightsPart<kForm>(high[half][part], words, raw_words, lowest, part, decoded);
  }
}

}  // namespace ecmv::codecs::quad_huffman::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_CODECS_QUAD_HUFFMAN_FLOAT_PIECES_INL_H_
