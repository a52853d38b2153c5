// The same as float_pieces-inl.h of symbols of eight exponents: 64 columns of a row from 8 entries and their raw
// words, which have signs and mantissas where a bf16 has them, rotated as exponents are (format.h). Per-target header.
#if defined(ECMV_CODECS_QUAD_HUFFMAN_FLOAT_EIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_CODECS_QUAD_HUFFMAN_FLOAT_EIGHTS_INL_H_
#undef ECMV_CODECS_QUAD_HUFFMAN_FLOAT_EIGHTS_INL_H_
#else
#define ECMV_CODECS_QUAD_HUFFMAN_FLOAT_EIGHTS_INL_H_
#endif

#include <bit>
#include <cstdint>

#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/format/raw_planes.h"
#include "codecs/quad_huffman/simd/float_pieces-inl.h"
#include "codecs/quad_huffman/simd/pieces-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::quad_huffman::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A segment's raw words, one lane's after the other's: its units of four words lie lane by lane.
template <Form kForm>
HWY_INLINE void CopyEightsWords(const uint8_t* HWY_RESTRICT raw, FloatWords& words) {
  static_assert(raw_unit_words(8, kForm) == 4);
  const hn::FixedTag<uint32_t, 4> d;
  for (int unit = 0; unit < segment_cols(8) / 32 * kForm.raw_bits / 4; ++unit, raw += kLanes * 16)
    for (int lane = 0; lane < kWalkLanes; ++lane)
      hn::StoreU(hn::LoadU(d, reinterpret_cast<const uint32_t*>(raw) + 4 * lane), d, words[lane].data() + 4 * unit);
}

// Where bytes come from, of 32 columns. Raw bits of exponents: of the words of two eights each, rotated left by one
// bit so that each has a nibble of its own; f8: mantissas and signs, nibbles too; bf16: the same of 16 columns, bytes.
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

// 64 columns: entries[8] and the words of two groups.
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

#endif  // ECMV_CODECS_QUAD_HUFFMAN_FLOAT_EIGHTS_INL_H_
