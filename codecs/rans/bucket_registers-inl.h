// Engine for 512-bit registers: the buckets of the alias method live in registers, so no table in memory is looked up.
// A gather of 16 entries costs about 20 cycles; here 32 elements cost three two-register permutes. One step of a vector
// of 32 lanes:
//   1. bucket = low bits of the slot = low bits of the state, which a permute uses without a mask: split|alias and
//      bias.
//   2. own or alias: compare the position, kept above the bucket bits, with split|alias; choose the symbol, look up its
//      frequency.
//   3. state = frequency * (state >> prob_bits) + rank, 16 bits at a time: with f' = frequency << (16 - prob_bits) the
//      products are mullo(f', high), mulhi(f', high) and mulhi(f', low & ~slot_mask).
//   4. refill where the high half is 0: low moves up, the next words are expanded into low, in lane order.
// Needs at most 128 symbols and a multiple of 32 lanes. Per-target header.
#if defined(ECMV_CODECS_RANS_BUCKET_REGISTERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_CODECS_RANS_BUCKET_REGISTERS_INL_H_
#undef ECMV_CODECS_RANS_BUCKET_REGISTERS_INL_H_
#else
#define ECMV_CODECS_RANS_BUCKET_REGISTERS_INL_H_
#endif

#include "codecs/rans/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::rans::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86

// kVectors: lanes / 32. kTables: 64-entry tables for each look-up, 1 or 2.
template <int kVectorsPerBlock, int kTables>
class BucketRegisters {
 public:
  static constexpr int kBlocks = 4;
  static constexpr int kBucketBits = kTables == 1 ? 6 : 7;

  explicit BucketRegisters(const Model& model) {
    slot_mask_ = static_cast<uint16_t>((1u << model.prob_bits) - 1);
    const uint32_t size = model.bucket_size();
    for (int b = 0; b < 64 * kTables; ++b) {
      // A bucket of one symbol gets an alias of its own for the last position, so that 16 bits suffice.
      const uint32_t split = HWY_MIN(model.split[b], size - 1);
      split_alias_[b] = static_cast<uint16_t>(split << kBucketBits | model.alias[b]);
      bias_[b] = model.bias[b];
      frequency_[b] = static_cast<uint16_t>(model.frequency[b] << (16 - model.prob_bits));
      value_[b] = static_cast<uint8_t>(model.value[b]);
    }
  }

  template <int kAtOnce>
  HWY_INLINE void Steps(BlockState* states, int64_t steps, int8_t* const* outs) const {
    constexpr int kV = kVectorsPerBlock, kAll = kAtOnce * kV;
    const Table split_alias(split_alias_), bias(bias_), frequency(frequency_);
    V high[kAll], low[kAll];
    const uint8_t* next[kAtOnce];
    for (int v = 0; v < kAll; ++v) {
      high[v] = hn::Load(d16, states[v / kV].high + v % kV * 32);
      low[v] = hn::Load(d16, states[v / kV].low + v % kV * 32);
    }
    for (int b = 0; b < kAtOnce; ++b) next[b] = states[b].next;

    for (int64_t step = 0; step < steps; ++step) {
      V symbol[kAll];
      for (int b = 0; b < kAtOnce; ++b) {
        hwy::Prefetch(next[b] + kPrefetchBytes);
        for (int v = b * kV; v < (b + 1) * kV; ++v)
          symbol[v] = Step(high[v], low[v], next[b], split_alias, bias, frequency);
      }
      if constexpr (kAll == 1) {
        hn::StoreU(hn::LowerHalf(Values(symbol[0], symbol[0])), d8_half,
                   reinterpret_cast<uint8_t*>(outs[0] + step * 32));
      } else if constexpr (kV == 2) {
        for (int b = 0; b < kAtOnce; ++b)
          hn::StoreU(Values(symbol[2 * b], symbol[2 * b + 1]), d8, reinterpret_cast<uint8_t*>(outs[b] + step * 64));
      } else {
        for (int b = 0; b < kAtOnce; b += 2) {
          const auto values = Values(symbol[b], symbol[b + 1]);
          hn::StoreU(hn::LowerHalf(values), d8_half, reinterpret_cast<uint8_t*>(outs[b] + step * 32));
          hn::StoreU(hn::UpperHalf(d8_half, values), d8_half, reinterpret_cast<uint8_t*>(outs[b + 1] + step * 32));
        }
      }
    }

    for (int v = 0; v < kAll; ++v) {
      hn::Store(high[v], d16, states[v / kV].high + v % kV * 32);
      hn::Store(low[v], d16, states[v / kV].low + v % kV * 32);
    }
    for (int b = 0; b < kAtOnce; ++b) states[b].next = next[b];
  }

 private:
  static constexpr hn::FixedTag<uint16_t, 32> d16{};
  static constexpr hn::FixedTag<uint8_t, 64> d8{};
  static constexpr hn::FixedTag<uint8_t, 32> d8_half{};
  using V = hn::Vec<hn::FixedTag<uint16_t, 32>>;
  using V8 = hn::Vec<hn::FixedTag<uint8_t, 64>>;
  using M = hn::Mask<hn::FixedTag<uint16_t, 32>>;

  // 64 or 128 16-bit entries in registers, looked up by the low 6 or 7 bits of each lane. The permute ignores the other
  // bits, which Highway's index type does not promise, hence its plain constructor.
  struct Table {
    V part[2 * kTables];
    explicit Table(const uint16_t* entries) {
      for (int p = 0; p < 2 * kTables; ++p) part[p] = hn::Load(d16, entries + 32 * p);
    }
    HWY_INLINE V operator()(V index, M upper) const {
      const hn::Indices512<uint16_t> raw{index.raw};
      const V lower = hn::TwoTablesLookupLanes(d16, part[0], part[1], raw);
      if constexpr (kTables == 1) {
        return lower;
      } else {
        return hn::IfThenElse(upper, hn::TwoTablesLookupLanes(d16, part[2], part[3], raw), lower);
      }
    }
  };

  static HWY_INLINE M IsUpper(V index) {
    if constexpr (kTables == 1) {
      return hn::MFromD<hn::FixedTag<uint16_t, 32>>();
    } else {
      return hn::TestBit(index, hn::Set(d16, 64));
    }
  }

  // Decodes 32 lanes and returns the symbols' numbers in the low bits of each lane.
  HWY_INLINE V Step(V& high, V& low, const uint8_t*& next, const Table& split_alias, const Table& bias,
                    const Table& frequency) const {
    const V slot_mask = hn::Set(d16, slot_mask_);
    const M upper = IsUpper(low);
    const V slot = hn::And(low, slot_mask);
    const V chosen = split_alias(low, upper);
    const M own = hn::Lt(hn::Or(slot, hn::Set(d16, (1 << kBucketBits) - 1)), chosen);
    const V symbol = hn::IfThenElse(own, low, chosen);
    const V f = frequency(symbol, IsUpper(symbol));

    const V rank = hn::Add(hn::ShiftRight<kBucketBits>(slot), hn::IfThenZeroElse(own, bias(low, upper)));
    const V addend = hn::Add(hn::MulHigh(f, hn::AndNot(slot_mask, low)), rank);
    const V new_low = hn::Add(hn::Mul(f, high), addend);
    const V product_high = hn::MulHigh(f, high);
    const V new_high = hn::MaskedAddOr(product_high, hn::Lt(new_low, addend), product_high, hn::Set(d16, 1));

    const M refill = hn::Eq(new_high, hn::Zero(d16));
    const V words = RefillWords(refill, next);
    high = hn::IfThenElse(refill, new_low, new_high);
    low = hn::IfThenElse(refill, words, new_low);
    return symbol;
  }

  // Puts the next words, in lane order, into the lanes of the mask. Before VBMI2 only 32-bit lanes expand, in two
  // halves.
  static HWY_INLINE V RefillWords(M refill, const uint8_t*& next) {
    if constexpr (HWY_TARGET <= HWY_AVX3_DL) {
      const V words = hn::Expand(hn::LoadU(d16, reinterpret_cast<const uint16_t*>(next)), refill);
      next += 2 * hn::CountTrue(d16, refill);
      return words;
    } else {
      const hn::FixedTag<uint32_t, 16> d32;
      const hn::Half<hn::FixedTag<uint16_t, 32>> half16;
      const uint32_t bits = static_cast<uint32_t>(refill.raw);
      const auto expand = [&](uint32_t half_bits) HWY_ATTR {
        const auto words = hn::PromoteTo(d32, hn::LoadU(half16, reinterpret_cast<const uint16_t*>(next)));
        next += 2 * hwy::PopCount(half_bits);
        return hn::Expand(words, hn::Mask512<uint32_t>{static_cast<__mmask16>(half_bits)});
      };
      const auto lower = expand(bits & 0xFFFF);
      return hn::OrderedTruncate2To(d16, lower, expand(bits >> 16));
    }
  }

  // The values of 64 symbols as bytes.
  HWY_INLINE V8 Values(V first, V second) const {
    const V8 symbols = hn::OrderedTruncate2To(d8, first, second);
    if constexpr (kTables == 1) {
      return hn::TableLookupLanes(hn::Load(d8, value_), hn::Indices512<uint8_t>{hn::And(symbols, hn::Set(d8, 63)).raw});
    } else {
      return hn::TwoTablesLookupLanes(d8, hn::Load(d8, value_), hn::Load(d8, value_ + 64),
                                      hn::Indices512<uint8_t>{hn::And(symbols, hn::Set(d8, 127)).raw});
    }
  }

  alignas(64) uint16_t split_alias_[64 * kTables];
  alignas(64) uint16_t bias_[64 * kTables];
  alignas(64) uint16_t frequency_[64 * kTables];
  alignas(64) uint8_t value_[64 * kTables];
  uint16_t slot_mask_;
};

HWY_INLINE std::string RefusesBucketRegisters(const Layout& layout, int symbols) {
  if (layout.lanes < 32)
    return "rans keeps its buckets in 512-bit registers for 32 or 64 lanes, not for " + std::to_string(layout.lanes) +
           ".";
  if (symbols > 128)
    return "rans keeps at most 128 symbols in registers; this matrix has " + std::to_string(symbols) + ".";
  return "";
}

template <int kVectors, int kTables, class Args>
void RunBucketRegisters(const Stream& stream, const Args& args) {
  RunAll(BucketRegisters<kVectors, kTables>(trusted_model(stream.alphabet, stream.layout.prob_bits)), stream, args);
}

template <class Args>
Run<Args> BucketRegistersRun(const Stream& stream) {
  const bool small = bucket_bits_of(symbols_of(stream.alphabet)) == 6;
  if (stream.layout.lanes == 32) return small ? RunBucketRegisters<1, 1, Args> : RunBucketRegisters<1, 2, Args>;
  return small ? RunBucketRegisters<2, 1, Args> : RunBucketRegisters<2, 2, Args>;
}

#else

HWY_INLINE std::string RefusesBucketRegisters(const Layout&, int) {
  return "rans keeps its buckets in 512-bit registers; the instruction set in use has none.";
}
template <class Args>
Run<Args> BucketRegistersRun(const Stream&) {
  return nullptr;  // refused
}

#endif

}  // namespace ecmv::codecs::rans::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_CODECS_RANS_BUCKET_REGISTERS_INL_H_
