// From entries to elements: 64 columns of a row, a piece, become offsets of elements in vectors, which are stored or
// multiplied. Entries are split into high parts, and raw bits are merged from their planes. Per-target header. Vectors
// have up to 32 bytes: 8 quads have their raw bits together, and the walk is two thirds of the work, so wider ones
// would gain little.
#if defined(ECMV_CODECS_QUAD_HUFFMAN_PIECES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_CODECS_QUAD_HUFFMAN_PIECES_INL_H_
#undef ECMV_CODECS_QUAD_HUFFMAN_PIECES_INL_H_
#else
#define ECMV_CODECS_QUAD_HUFFMAN_PIECES_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/format/raw_planes.h"
#include "codecs/quad_huffman/simd/walk.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::quad_huffman::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D8 = hn::CappedTag<uint8_t, 32>;
using DI8 = hn::RebindToSigned<D8>;
using D16 = hn::Repartition<uint16_t, D8>;
using DI16 = hn::RebindToSigned<D16>;
using D32 = hn::Repartition<uint32_t, D8>;
using DI32 = hn::RebindToSigned<D32>;
using V8 = hn::Vec<D8>;
using V32 = hn::Vec<D32>;
using VI32 = hn::Vec<DI32>;

// Columns of a piece: two halves of 8 quads, each with raw words of its own.
inline constexpr int kPieceCols = 64;
inline constexpr int lane_raw_bytes(int symbol_cols, Form form) { return 4 * raw_unit_words(symbol_cols, form); }

// Quads in a vector of bytes; one or two vectors are half a piece.
inline constexpr int kVectorQuads = static_cast<int>(HWY_MAX_LANES_D(D32));
inline constexpr int kParts = 8 / kVectorQuads;
static_assert(kParts == 1 || kParts == 2);

// Joins the quads of `part`: quads 0 to 3 of 8 have lanes of `low`, quads 4 to 7 of `high`.
HWY_INLINE V32 FromBlocks(V32 low, V32 high, int part) {
  if constexpr (kParts == 1) return hn::ConcatUpperLower(D32(), high, low);
  return part == 0 ? low : high;
}

// The words of 8 quads; two neighbours share a word.
HWY_INLINE V32 Pairs(uint32_t word0, uint32_t word1, uint32_t word2, uint32_t word3, int part) {
  const D32 d32;
  const hn::Repartition<uint64_t, D32> d64;
  const auto two = [&](uint32_t first, uint32_t second) HWY_ATTR {
    return hn::BitCast(d32, hn::OddEven(hn::BitCast(d64, hn::Set(d32, second)), hn::BitCast(d64, hn::Set(d32, first))));
  };
  return FromBlocks(two(word0, word1), two(word2, word3), part);
}

// The raw words of the 8 quads of a group of 32 columns. They are loaded where they are used, because a broadcast from
// memory costs no vector operation.
template <int kSymbolCols, Form kForm, int kGroup, int kFirst = 0>
struct RawWords {
  const uint8_t* HWY_RESTRICT segment;
  HWY_INLINE uint32_t operator[](int j) const {
    uint32_t word;
    std::memcpy(&word, segment + raw_word_offset(kSymbolCols, kForm, kGroup, kFirst + j), 4);
    return word;
  }
};

// The words of a plane of kPlane bits for the 8 quads of a group, each where the plane has the quads of `part`.
template <int kPlane, class Words>
HWY_INLINE V32 WordsOfPlane(Words words, int part) {
  const D32 d32;
  if constexpr (kPlane == 1) return hn::Set(d32, words[0]);
  if constexpr (kPlane == 2) return FromBlocks(hn::Set(d32, words[0]), hn::Set(d32, words[1]), part);
  if constexpr (kPlane == 3) {
    const uint32_t last = (words[0] >> 6 & 0x03030303u) | (words[1] >> 4 & 0x0c0c0c0cu) | (words[2] >> 2 & 0x30303030u);
    return Pairs(words[0], words[1], words[2], last, part);
  }
  if constexpr (kPlane == 4) return Pairs(words[0], words[1], words[2], words[3], part);
  return hn::Zero(d32);  // no plane
}

// The shift of a plane's words that brings a quad's field to the front.
struct Shifts {
  uint32_t of_quad[8];
};
constexpr Shifts plane_shifts(int plane) {
  Shifts shifts{};
  for (int q = 0; q < 8; ++q) shifts.of_quad[q] = static_cast<uint32_t>(plane == 0 ? 0 : q % (8 / plane) * plane);
  if (plane == 3)
    for (int q = 0; q < 8; ++q) shifts.of_quad[q] = static_cast<uint32_t>(q % 2 * 3);
  return shifts;
}
constexpr Shifts nibble_shifts(int raw_bits) {
  Shifts shifts{};
  for (int q = 0; q < 8; ++q) shifts.of_quad[q] = static_cast<uint32_t>(nibble_shift(raw_bits, q));
  return shifts;
}
// Shifts to the left, so that a sign of one bit comes last.
constexpr Shifts sign_shifts(Shifts first, int bit) {
  for (uint32_t& shift : first.of_quad) shift = static_cast<uint32_t>(7 - bit) - shift;
  return first;
}

HWY_INLINE V32 Load(const Shifts& shifts, int part) { return hn::LoadU(D32(), shifts.of_quad + 4 * part); }

// Turns the magnitudes or offsets of the quads of `part` of a group of 32 columns, without their raw bits, into w -
// lowest.
template <int kSymbolCols, Form kForm, int kGroup>
HWY_INLINE V8 MergeRaw(V8 t, const uint8_t* HWY_RESTRICT segment, int part) {
  const D8 d8;
  constexpr Planes kPlanes =
      has_nibble_entries(kSymbolCols, kForm) ? Planes{kForm, 0} : planes_of(kForm.raw_bits, kForm.folded);
  constexpr int kFirst = kPlanes.first, kSecond = kPlanes.second, kCell = cell_bits(kForm);
  // The planes' bits below the sign.
  constexpr int kOfFirst = kFirst < kCell ? kFirst : kCell, kOfSecond = kCell - kOfFirst;
  static constexpr Shifts kFirstShifts =
      has_nibble_entries(kSymbolCols, kForm) ? nibble_shifts(kFirst) : plane_shifts(kFirst);
  static constexpr Shifts kSecondShifts = plane_shifts(kSecond);
  const V32 first = WordsOfPlane<kFirst>(RawWords<kSymbolCols, kForm, kGroup>{segment}, part);
  V32 second = first;
  if constexpr (kSecond > 0)
    second = WordsOfPlane<kSecond>(RawWords<kSymbolCols, kForm, kGroup, kFirst>{segment}, part);
  if constexpr (kOfFirst > 0) {
    const V8 bits = hn::BitCast(d8, hn::Shr(first, Load(kFirstShifts, part)));
    t = hn::OrAnd(t, bits, hn::Set(d8, (1 << kOfFirst) - 1));
  }
  if constexpr (kOfSecond > 0) {
    const auto bits = hn::ShiftLeft<kFirst>(hn::BitCast(D16(), hn::Shr(second, Load(kSecondShifts, part))));
    t = hn::OrAnd(t, hn::BitCast(d8, bits), hn::Set(d8, ((1 << kOfSecond) - 1) << kFirst));
  }
  if constexpr (kForm.folded) {
    constexpr bool kInSecond = kSecond > 0;
    static constexpr Shifts kSignShifts =
        sign_shifts(kInSecond ? kSecondShifts : kFirstShifts, kInSecond ? kCell - kFirst : kCell);
    const V32 last = hn::Shl(second, Load(kSignShifts, part));
    t = hn::Xor(t, hn::BitCast(d8, hn::BroadcastSignBit(hn::BitCast(DI8(), last))));
  }
  return t;
}

// What happens to the offsets t = w - lowest. Products take t + bias_of(), which is never negative.
enum class Use {
  dot_small,  // acc += t . x, all t + bias < 128
  dot,        // acc += t . x
  store,      // decoded = lowest + t
};
constexpr int bias_of(Form form, Use use) { return !form.folded ? 0 : use == Use::dot_small ? 64 : 128; }
// Says whether no t + bias of a form can be 128 or more with Use::dot_small.
constexpr bool is_small(int symbol_cols, Form form) {
  return ((most_high(symbol_cols, form) + 1) << cell_bits(form)) - 1 + bias_of(form, Use::dot_small) < 128;
}

template <bool kSmall>
HWY_INLINE VI32 Dot(V8 t, hn::Vec<DI8> x, VI32 acc) {
  const DI32 di32;
#if HWY_ARCH_X86
  if constexpr (HWY_TARGET <= HWY_AVX3_DL) return hn::SumOfMulQuadAccumulate(di32, t, x, acc);  // VNNI
  const DI16 di16;
  if constexpr (kSmall)  // 127 * 128 * 2 fits int16: the pairwise product never saturates
    return hn::Add(acc, hn::WidenMulPairwiseAdd(di32, hn::SatWidenMulPairwiseAdd(di16, t, x), hn::Set(di16, 1)));
  const auto t16 = hn::BitCast(D16(), t);
  const auto x16 = hn::BitCast(di16, x);
  const auto even = hn::WidenMulPairwiseAdd(di32, hn::BitCast(di16, hn::And(t16, hn::Set(D16(), 0xff))),
                                            hn::ShiftRight<8>(hn::ShiftLeft<8>(x16)));
  const auto odd = hn::WidenMulPairwiseAdd(di32, hn::BitCast(di16, hn::ShiftRight<8>(t16)), hn::ShiftRight<8>(x16));
  return hn::Add(acc, hn::Add(even, odd));
#else
  return hn::SumOfMulQuadAccumulate(di32, t, x, acc);
#endif
}

// The high parts of a piece, h << C: the quads of part `part` of half `half` in high[half][part].
using Highs = V8[2][kParts];

template <Form kForm>
HWY_INLINE void HighsOfQuads(const uint32_t* HWY_RESTRICT entries, Highs& high) {
  const D8 d8;
  const D16 d16;
  const D32 d32;
  constexpr int kCell = cell_bits(kForm);
  for (int part = 0; part < kParts; ++part) {
    // Every block of 128 bits gets 4 quads of one half and 4 of the other: interleaving then leaves whole halves.
    const auto quads_of = [&](int half) HWY_ATTR {
      return hn::BitCast(DI32(), hn::ShiftRight<16>(hn::LoadU(d32, entries + 8 * half + kVectorQuads * part)));
    };
    const auto quads = hn::ReorderDemote2To(d16, quads_of(0), quads_of(1));
    const V8 mask = hn::Set(d8, static_cast<uint8_t>(15u << kCell));
    V8 odd;
    if constexpr (kCell <= 4)
      odd = hn::BitCast(d8, hn::ShiftRight<(kCell <= 4 ? 4 - kCell : 0)>(quads));
    else
      odd = hn::BitCast(d8, hn::ShiftLeft<(kCell <= 4 ? 0 : kCell - 4)>(quads));
    // Columns 0 and 2, and 1 and 3.
    const V8 even = hn::And(hn::BitCast(d8, hn::ShiftLeft<kCell>(quads)), mask);
    odd = hn::And(odd, mask);
    high[0][part] = hn::InterleaveLower(d8, even, odd), high[1][part] = hn::InterleaveUpper(d8, even, odd);
  }
}

template <int kCell>
HWY_INLINE void HighsOfEights(const uint32_t* HWY_RESTRICT entries, Highs& high) {
  const D8 d8;
  const D32 d32;
  const V32 mask = hn::BitCast(d32, hn::Set(d8, 3u << kCell));
  for (int i = 0; i < kParts; ++i) {
    V32 eights = hn::LoadU(d32, entries + kVectorQuads * i);
    // Symbols 2, 3 and 4, 5 change places, so that interleaving blocks of 128 bits leaves whole halves.
    if constexpr (kParts == 1) {
      const hn::Repartition<uint64_t, D32> d64;
      eights = hn::BitCast(d32, hn::Per4LaneBlockShuffle<3, 1, 2, 0>(hn::BitCast(d64, eights)));
    }
    const V32 first = hn::And(hn::ShiftRight<6 - kCell>(eights), mask);
    // Column 4 comes from byte 1. The bits that the two shifts bring to each other's places are 0.
    const V32 second = hn::And(hn::Or(hn::ShiftRight<4 - kCell>(eights), hn::ShiftRight<10 - kCell>(eights)), mask);
    const V8 lower = hn::BitCast(d8, hn::InterleaveLower(d32, first, second)),
             upper = hn::BitCast(d8, hn::InterleaveUpper(d32, first, second));
    if constexpr (kParts == 1)
      high[0][0] = lower, high[1][0] = upper;
    else
      high[i][0] = lower, high[i][kParts - 1] = upper;
  }
}

// Uses piece kPiece of a segment of one row, whose raw words are at `segment`.
template <int kSymbolCols, Form kForm, Use kUse, int kPiece>
HWY_INLINE void Piece(const uint32_t* HWY_RESTRICT entries, const uint8_t* HWY_RESTRICT segment, V8 lowest,
                      const int8_t* HWY_RESTRICT x, int8_t* HWY_RESTRICT decoded, VI32& acc) {
  const D8 d8;
  const DI8 di8;
  Highs high;
  if constexpr (kSymbolCols == 4)
    HighsOfQuads<kForm>(entries, high);
  else
    HighsOfEights<cell_bits(kForm)>(entries, high);
  for (int half = 0; half < 2; ++half)
    for (int part = 0; part < kParts; ++part) {
      const V8 t = half == 0 ? MergeRaw<kSymbolCols, kForm, 2 * kPiece>(high[0][part], segment, part)
                             : MergeRaw<kSymbolCols, kForm, 2 * kPiece + 1>(high[1][part], segment, part);
      const int at = 32 * half + 4 * kVectorQuads * part;
      if constexpr (kUse == Use::store)
        hn::StoreU(hn::Add(t, lowest), d8, reinterpret_cast<uint8_t*>(decoded) + at);
      else
        acc = Dot<kUse == Use::dot_small>(hn::Add(t, hn::Set(d8, bias_of(kForm, kUse))), hn::LoadU(di8, x + at), acc);
    }
}

}  // namespace ecmv::codecs::quad_huffman::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_CODECS_QUAD_HUFFMAN_PIECES_INL_H_
