// Engine for every instruction set: scalar loads look up one 32-bit table entry for each slot (16 KiB). Arithmetic
// works on 16-bit halves of the states as in bucket_registers, 16 lanes (AVX2) or 8 a vector. Even and odd lanes are
// looked up separately, so nothing has to be permuted: an entry's fields are shifted into the even or the odd 16 bits
// and blended. Needs prob_bits <= 12 and at least 16 lanes. Per-target header.
#if defined(ECMV_CODECS_RANS_SLOT_TABLE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_CODECS_RANS_SLOT_TABLE_SIMD_INL_H_
#undef ECMV_CODECS_RANS_SLOT_TABLE_SIMD_INL_H_
#else
#define ECMV_CODECS_RANS_SLOT_TABLE_SIMD_INL_H_
#endif

#include "codecs/rans/blocks-inl.h"
#include "codecs/rans/slot_table.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::rans::HWY_NAMESPACE {

// Byte shuffles for each mask of eight lanes: they move the first words of a vector into the lanes of the mask.
struct alignas(64) ExpandTable {
  uint8_t bytes[256][16];
  constexpr ExpandTable() : bytes() {
    for (int mask = 0; mask < 256; ++mask)
      for (int lane = 0, word = 0; lane < 8; ++lane) {
        bytes[mask][2 * lane] = static_cast<uint8_t>(2 * word);
        bytes[mask][2 * lane + 1] = static_cast<uint8_t>(2 * word + 1);
        word += mask >> lane & 1;
      }
  }
};
inline constexpr ExpandTable kExpandTable;

template <int kLanes>
class SlotTableSimd {
 public:
  static constexpr hn::CappedTag<uint16_t, 16> d16{};
  static constexpr int kWidth = HWY_MIN(16, HWY_MAX_LANES_D(hn::ScalableTag<uint16_t>));
  static constexpr int kVectorsPerBlock = kLanes / kWidth;
  static constexpr int kBlocks = kVectorsPerBlock >= 4 ? 1 : 4 / kVectorsPerBlock;

  SlotTableSimd(const Model& model, uint32_t* table) : table_(table) {
    expand_slots<NarrowEntry>(model, table);
    prob_bits_ = model.prob_bits;
  }

  template <int kAtOnce>
  HWY_INLINE void Steps(BlockState* states, int64_t steps, int8_t* const* outs) const {
    constexpr int kV = kVectorsPerBlock, kAll = kAtOnce * kV;
    V high[kAll], low[kAll];
    const uint8_t* next[kAtOnce];
    for (int v = 0; v < kAll; ++v) {
      high[v] = hn::Load(d16, states[v / kV].high + v % kV * kWidth);
      low[v] = hn::Load(d16, states[v / kV].low + v % kV * kWidth);
    }
    for (int b = 0; b < kAtOnce; ++b) next[b] = states[b].next;
    const V slot_mask = hn::Set(d16, static_cast<uint16_t>((1u << prob_bits_) - 1));
    for (int64_t step = 0; step < steps; ++step) {
      for (int b = 0; b < kAtOnce; ++b) {
        hwy::Prefetch(next[b] + kPrefetchBytes);
        for (int v = 0; v < kV; ++v)
          Step(high[b * kV + v], low[b * kV + v], next[b], slot_mask,
               reinterpret_cast<uint8_t*>(outs[b] + step * kLanes + v * kWidth));
      }
    }
    for (int v = 0; v < kAll; ++v) {
      hn::Store(high[v], d16, states[v / kV].high + v % kV * kWidth);
      hn::Store(low[v], d16, states[v / kV].low + v % kV * kWidth);
    }
    for (int b = 0; b < kAtOnce; ++b) states[b].next = next[b];
  }

 private:
  using D16 = hn::CappedTag<uint16_t, 16>;
  using D32 = hn::Repartition<uint32_t, D16>;
  using D64 = hn::Repartition<uint64_t, D16>;
  using V = hn::Vec<D16>;

  HWY_INLINE void Step(V& high, V& low, const uint8_t*& next, V slot_mask, uint8_t* out) const {
    const hn::Rebind<uint8_t, D16> d8;
    hn::Vec<D32> even, odd;
    LookUp(low, even, odd);
    // f and rank, shifted up to 16 bits from the entry's fields of 12, see NarrowEntry.
    const V value = hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(odd)), hn::BitCast(d16, even));
    const V raw_f = hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<12>(odd)), hn::BitCast(d16, hn::ShiftRight<4>(even)));
    const V rank = hn::OddEven(hn::BitCast(d16, hn::ShiftRight<4>(odd)), hn::BitCast(d16, hn::ShiftRight<20>(even)));
    const V f = hn::ShiftLeftSame(hn::And(raw_f, hn::Set(d16, 0xFFF0)), 12 - prob_bits_);
    hn::StoreU(hn::TruncateTo(d8, value), d8, out);

    const V addend = hn::Add(hn::MulHigh(f, hn::AndNot(slot_mask, low)), rank);
    const V new_low = hn::Add(hn::Mul(f, high), addend);
    // This is high - 1 + carry, compared with -1 and corrected by -1 below: an unsigned comparison for less costs more.
    const V no_carry = hn::VecFromMask(d16, hn::Eq(hn::Max(new_low, addend), new_low));
    const V minus_one = hn::Set(d16, 0xFFFF);
    const V high_less_one = hn::Add(hn::MulHigh(f, high), no_carry);
    const auto refill = hn::Eq(high_less_one, minus_one);
    const V words = RefillWords(refill, next);
    high = hn::IfThenElse(refill, new_low, hn::Sub(high_less_one, minus_one));
    low = hn::IfThenElse(refill, words, new_low);
  }

  // Looks up the entries of the even and of the odd lanes by sixteen scalar loads, whose indices are cut out of 64-bit
  // registers. On Zen 4 a gather of eight is slower (AVX2: 1.74 against 1.92 G elements/s), and so is going through
  // memory (1.68).
  HWY_INLINE void LookUp(V low, hn::Vec<D32>& even, hn::Vec<D32>& odd) const {
    const D32 d32;
    const uint32_t mask = (1u << prob_bits_) - 1;
    const uint32_t* HWY_RESTRICT table = table_;
    if constexpr (kWidth == 8) {
      const uint64_t a = hn::GetLane(hn::BitCast(D64(), low)), b = hn::ExtractLane(hn::BitCast(D64(), low), 1);
      even =
          hn::Dup128VecFromValues(d32, table[a & mask], table[a >> 32 & mask], table[b & mask], table[b >> 32 & mask]);
      odd = hn::Dup128VecFromValues(d32, table[a >> 16 & mask], table[a >> 48 & mask], table[b >> 16 & mask],
                                    table[b >> 48 & mask]);
    } else {
      const hn::Half<D16> half16;
      const hn::Half<D32> half32;
      const hn::Half<D64> half64;
      const auto lower = hn::BitCast(half64, hn::LowerHalf(half16, low)),
                 upper = hn::BitCast(half64, hn::UpperHalf(half16, low));
      const uint64_t a = hn::GetLane(lower), b = hn::ExtractLane(lower, 1), c = hn::GetLane(upper),
                     d = hn::ExtractLane(upper, 1);
      even = hn::Combine(d32,
                         hn::Dup128VecFromValues(half32, table[c & mask], table[c >> 32 & mask], table[d & mask],
                                                 table[d >> 32 & mask]),
                         hn::Dup128VecFromValues(half32, table[a & mask], table[a >> 32 & mask], table[b & mask],
                                                 table[b >> 32 & mask]));
      odd = hn::Combine(d32,
                        hn::Dup128VecFromValues(half32, table[c >> 16 & mask], table[c >> 48 & mask],
                                                table[d >> 16 & mask], table[d >> 48 & mask]),
                        hn::Dup128VecFromValues(half32, table[a >> 16 & mask], table[a >> 48 & mask],
                                                table[b >> 16 & mask], table[b >> 48 & mask]));
    }
  }

  // Puts the next words, in lane order, into the lanes of the mask.
  static HWY_INLINE V RefillWords(hn::Mask<D16> refill, const uint8_t*& next) {
    if constexpr (HWY_TARGET <= HWY_AVX3_DL && HWY_ARCH_X86) {
      const V words = hn::LoadExpand(refill, d16, reinterpret_cast<const uint16_t*>(next));
      next += 2 * hn::CountTrue(d16, refill);
      return words;
    } else {
      const hn::FixedTag<uint16_t, 8> d8x16;
      const hn::FixedTag<uint8_t, 16> d8x8;
      uint8_t mask_bytes[8] = {};
      hn::StoreMaskBits(d16, refill, mask_bytes);
      const auto eight = [&](uint64_t piece_bits) HWY_ATTR {
        const auto words = hn::TableLookupBytes(hn::LoadU(d8x8, next), hn::Load(d8x8, kExpandTable.bytes[piece_bits]));
        next += 2 * hwy::PopCount(piece_bits);
        return hn::BitCast(d8x16, words);
      };
      if constexpr (kWidth == 8) {
        return eight(mask_bytes[0]);
      } else {
        const auto lower = eight(mask_bytes[0]);
        return hn::Combine(d16, eight(mask_bytes[1]), lower);
      }
    }
  }

  const uint32_t* table_;
  int prob_bits_;
};

inline constexpr int64_t kSlotTableBytes = 4 * 4096;

HWY_INLINE std::string RefusesSlotTableSimd(const Layout& layout) {
  if (layout.lanes < 16) return "rans needs 16 lanes or more for SIMD, not " + std::to_string(layout.lanes) + ".";
  if (layout.prob_bits > 12)
    return "rans packs table entries of SIMD kernels into 32 bits, which needs prob_bits <= 12.";
  return "";
}

template <int kLanes, class Args>
void RunSlotTableSimd(const Stream& stream, const Args& args) {
  auto* table = reinterpret_cast<uint32_t*>(args.scratch + kPiecesBytes);
  RunAll(SlotTableSimd<kLanes>(trusted_model(stream.alphabet, stream.layout.prob_bits), table), stream, args);
}

template <class Args>
Run<Args> SlotTableSimdRun(const Stream& stream) {
  if (stream.layout.lanes == 16) return RunSlotTableSimd<16, Args>;
  return stream.layout.lanes == 32 ? RunSlotTableSimd<32, Args> : RunSlotTableSimd<64, Args>;
}

}  // namespace ecmv::codecs::rans::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_CODECS_RANS_SLOT_TABLE_SIMD_INL_H_
