// From entries to elements: 64 columns of a row, a piece, become offsets of elements in vectors, which are stored or
// multiplied. Entries are split into high parts, raw bits are merged from their planes. Per-target header. Vectors of
// up to 32 bytes: 8 quads have their raw bits together, and the walk is two thirds of the work, so wider ones would
// gain little.
#if defined(ECMV_CODECS_QUAD_HUFFMAN_PIECES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_CODECS_QUAD_HUFFMAN_PIECES_INL_H_
#undef ECMV_CODECS_QUAD_HUFFMAN_PIECES_INL_H_
#else
#define ECMV_CODECS_QUAD_HUFFMAN_PIECES_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "codecs/quad_huffman/format.h"
#include "codecs/quad_huffman/raw_planes.h"
#include "codecs/quad_huffman/walk.h"
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

// Columns whose raw words are neighbours: two halves of 8 quads.
inline constexpr int kPieceCols = 64;
inline constexpr int kPieces = kSegmentCols / kPieceCols;
inline constexpr int lane_raw_bytes(int form) { return 4 * raw_unit_words(4, form); }
inline constexpr int64_t raw_bytes_of_segment(int form) { return quad_huffman::raw_bytes_of_segment(4, form); }

// Quads of a vector of bytes; two vectors or one are half a piece.
inline constexpr int kVectorQuads = static_cast<int>(HWY_MAX_LANES_D(D32));
inline constexpr int kParts = 8 / kVectorQuads;
static_assert(kParts == 1 || kParts == 2);

// Quads 4 * block .. + 3 of 8 have lanes of `low` where block is 0, of `high` where it is 1.
HWY_INLINE V32 FromBlocks(V32 low, V32 high, int part) {
  if constexpr (kParts == 1) return hn::ConcatUpperLower(D32(), high, low);
  return part == 0 ? low : high;
}

// The words of 8 quads, two neighbours a word.
HWY_INLINE V32 Pairs(uint32_t word0, uint32_t word1, uint32_t word2, uint32_t word3, int part) {
  const D32 d32;
  const hn::Repartition<uint64_t, D32> d64;
  const auto two = [&](uint32_t first, uint32_t second) HWY_ATTR {
    return hn::BitCast(d32, hn::OddEven(hn::BitCast(d64, hn::Set(d32, second)), hn::BitCast(d64, hn::Set(d32, first))));
  };
  return FromBlocks(two(word0, word1), two(word2, word3), part);
}

// The raw words of the 8 quads of a group of 32 columns, loaded where they are used: a broadcast from memory costs no
// vector operation.
template <int kForm, int kGroup, int kFirst = 0>
struct RawWords {
  const uint8_t* HWY_RESTRICT segment;
  HWY_INLINE uint32_t operator[](int j) const {
    uint32_t word;
    std::memcpy(&word, segment + raw_word_offset(4, kForm, kGroup, kFirst + j), 4);
    return word;
  }
};

// One plane of kPlane bits of the quads of `part`: the words that hold them, shifted so that a quad's field comes
// first.
template <int kPlane, class Words>
HWY_INLINE V8 PlaneOf(Words words, int part) {
  const D32 d32;
  alignas(32) static constexpr uint32_t kShifts[4][8] = {
      {0, 1, 2, 3, 4, 5, 6, 7}, {0, 2, 4, 6, 0, 2, 4, 6}, {0, 3, 0, 3, 0, 3, 0, 3}, {0, 4, 0, 4, 0, 4, 0, 4}};
  const V32 shifts = hn::Load(d32, kShifts[kPlane - 1] + 4 * part);
  V32 stored;
  if constexpr (kPlane == 1) stored = hn::Set(d32, words[0]);
  if constexpr (kPlane == 2) stored = FromBlocks(hn::Set(d32, words[0]), hn::Set(d32, words[1]), part);
  if constexpr (kPlane == 3) {
    const uint32_t last = (words[0] >> 6 & 0x03030303u) | (words[1] >> 4 & 0x0c0c0c0cu) | (words[2] >> 2 & 0x30303030u);
    stored = Pairs(words[0], words[1], words[2], last, part);
  }
  if constexpr (kPlane == 4) stored = Pairs(words[0], words[1], words[2], words[3], part);
  return hn::BitCast(D8(), hn::Shr(stored, shifts));
}

// From the magnitudes or offsets of the quads of `part` of a group of 32 columns without their raw bits to w - lowest.
template <int kForm, int kGroup>
HWY_INLINE V8 MergeRaw(V8 t, const uint8_t* HWY_RESTRICT segment, int part) {
  const D8 d8;
  constexpr Planes kPlanes = planes_of(raw_bits_of(kForm), is_folded(kForm));
  constexpr int kFirst = kPlanes.first, kSecond = kPlanes.second, kCell = cell_bits(kForm);
  // What the planes have below the sign.
  constexpr int kOfFirst = kFirst < kCell ? kFirst : kCell, kOfSecond = kCell - kOfFirst;
  V8 first = t, second = t;
  if constexpr (kFirst > 0) first = PlaneOf<kFirst>(RawWords<kForm, kGroup>{segment}, part);
  if constexpr (kSecond > 0) second = PlaneOf<kSecond>(RawWords<kForm, kGroup, kFirst>{segment}, part);
  if constexpr (kOfFirst > 0) t = hn::OrAnd(t, first, hn::Set(d8, (1 << kOfFirst) - 1));
  if constexpr (kOfSecond > 0) {
    const V8 shifted = hn::BitCast(d8, hn::ShiftLeft<kFirst>(hn::BitCast(D16(), second)));
    t = hn::OrAnd(t, shifted, hn::Set(d8, ((1 << kOfSecond) - 1) << kFirst));
  }
  if constexpr (is_folded(kForm)) {
    const V8 sign = kSecond > 0 ? second : first;
    const V8 bit = hn::Set(d8, static_cast<uint8_t>(1u << (kSecond > 0 ? kCell - kFirst : kCell)));
    t = hn::Xor(t, hn::VecFromMask(d8, hn::TestBit(sign, bit)));
  }
  return t;
}

// How the offsets t = w - lowest are used. Products take t + bias_of(), which is never negative.
enum class Use {
  dot_small,  // acc += t . x, all t + bias < 128
  dot,        // acc += t . x
  store,      // decoded = lowest + t
  stream,  // the same through a buffer, in which patches are applied, and past the caches: the destination is not read
};
constexpr int bias_of(int form, Use use) { return !is_folded(form) ? 0 : use == Use::dot_small ? 64 : 128; }
constexpr bool stores(Use use) { return use == Use::store || use == Use::stream; }

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

// Piece kPiece of a segment of one row, whose raw words are at `segment`.
template <int kForm, Use kUse, int kPiece>
HWY_INLINE void Piece(const uint32_t* HWY_RESTRICT entries, const uint8_t* HWY_RESTRICT segment, V8 lowest,
                      const int8_t* HWY_RESTRICT x, int8_t* HWY_RESTRICT decoded, VI32& acc) {
  const D8 d8;
  const DI8 di8;
  const D16 d16;
  const D32 d32;
  constexpr int kCell = cell_bits(kForm);
  for (int part = 0; part < kParts; ++part) {
    // Quads of both halves, of which every block of 128 bits gets 4 and 4: interleaving then leaves whole halves.
    const auto quads_of = [&](int half) HWY_ATTR {
      return hn::BitCast(DI32(), hn::ShiftRight<16>(hn::LoadU(d32, entries + 8 * half + kVectorQuads * part)));
    };
    const auto quads = hn::ReorderDemote2To(d16, quads_of(0), quads_of(1));
    constexpr uint8_t kHighMask = static_cast<uint8_t>(15u << kCell);
    V8 even, odd;  // h << kCell of columns 0 and 2, and of 1 and 3
    if constexpr (kCell <= 4)
      odd = hn::BitCast(d8, hn::ShiftRight<(kCell <= 4 ? 4 - kCell : 0)>(quads));
    else
      odd = hn::BitCast(d8, hn::ShiftLeft<(kCell <= 4 ? 0 : kCell - 4)>(quads));
    even = hn::And(hn::BitCast(d8, hn::ShiftLeft<kCell>(quads)), hn::Set(d8, kHighMask));
    odd = hn::And(odd, hn::Set(d8, kHighMask));
    V8 halves[2] = {hn::InterleaveLower(d8, even, odd), hn::InterleaveUpper(d8, even, odd)};
    for (int half = 0; half < 2; ++half) {
      const V8 t = half == 0 ? MergeRaw<kForm, 2 * kPiece>(halves[0], segment, part)
                             : MergeRaw<kForm, 2 * kPiece + 1>(halves[1], segment, part);
      const int at = 32 * half + 4 * kVectorQuads * part;
      if constexpr (stores(kUse))
        hn::StoreU(hn::Add(t, lowest), d8, reinterpret_cast<uint8_t*>(decoded) + at);
      else
        acc = Dot<kUse == Use::dot_small>(hn::Add(t, hn::Set(d8, bias_of(kForm, kUse))), hn::LoadU(di8, x + at), acc);
    }
  }
}

}  // namespace ecmv::codecs::quad_huffman::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_CODECS_QUAD_HUFFMAN_PIECES_INL_H_
