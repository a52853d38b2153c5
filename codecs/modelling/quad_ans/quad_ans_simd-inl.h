// One step of 32 quad coders in SIMD registers, and what the kernels of both layouts share. Per-target header: include
// it after foreach_target.h. The 64-bit states lie in two planes of 32-bit words, so that the refill is a test for
// zero, an expand of queue words under that mask and two blends, and so that the 28 slot bits are one word. A step
// (numbers mark the code):
//  1. refill: lanes whose high word is 0 take consecutive words of the queue, in lane order;
//  2. slots: the low 28 bits become four bytes, slot i in byte i;
//  3. three look-ups of 128 bytes, symbol, r (position inside the symbol) and p (probability), in registers;
//  4. P = p0 p1 p2 p3 and R = ((r3 p2 + r2) p1 + r1) p0 + r0 by pairwise multiply-adds of bytes, then of 16-bit words;
//  5. state = (state >> 28) * P + R.
// About 100 vector operations for 128 symbols with VBMI; without it the look-ups go through eight tables of 16 bytes
// each.
#if defined(ECMV_CODECS_MODELLING_QUAD_ANS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_CODECS_MODELLING_QUAD_ANS_SIMD_INL_H_
#undef ECMV_CODECS_MODELLING_QUAD_ANS_SIMD_INL_H_
#else
#define ECMV_CODECS_MODELLING_QUAD_ANS_SIMD_INL_H_
#endif

#include <algorithm>
#include <string>

#include "backends/cpu/products/dot-inl.h"
#include "codecs/modelling/quad_ans/quad_ans_matrix.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::modelling::HWY_NAMESPACE {
namespace cpu = backends::cpu::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;

// The registers of a step are arrays of vectors, which scalable vectors do not allow.
#if !HWY_HAVE_SCALABLE

using QuadD32 = hn::ScalableTag<uint32_t>;
using QuadD8 = hn::Repartition<uint8_t, QuadD32>;
using QuadV32 = hn::Vec<QuadD32>;
using QuadV8 = hn::Vec<QuadD8>;
inline constexpr size_t kQuadVectorLanes = HWY_MAX_LANES_D(QuadD32);
inline constexpr size_t kQuadParts = kQuadFormatLanes / kQuadVectorLanes;  // vectors of 32 lanes
inline constexpr bool kQuadHasVbmi = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL;

// A table of 128 bytes in registers: two of 64 bytes, or eight of 16 (repeated in every 128-bit block).
struct QuadTable {
  QuadV8 part[kQuadHasVbmi ? 2 : 8];
};

HWY_INLINE QuadTable LoadQuadTable(const uint8_t* HWY_RESTRICT bytes) {
  const QuadD8 d8;
  QuadTable table;
  for (size_t i = 0; i < sizeof(table.part) / sizeof(table.part[0]); ++i)
    table.part[i] = kQuadHasVbmi ? hn::LoadU(d8, bytes + (i & 1) * 64) : hn::LoadDup128(d8, bytes + i * 16);
  return table;
}

struct QuadStepTables {
  QuadTable symbol, position, prob;
};

// `flip` is xored into the symbols: 0x80 stores them as symbol + 128.
HWY_INLINE QuadStepTables LoadQuadStepTables(const QuadMatrix& matrix, uint8_t flip) {
  alignas(64) uint8_t symbol[kQuadSlots], position[kQuadSlots], prob[kQuadSlots];
  for (int slot = 0; slot < kQuadSlots; ++slot) {
    symbol[slot] = static_cast<uint8_t>(matrix.symbol[slot]) ^ flip;
    position[slot] = static_cast<uint8_t>(slot - static_cast<uint8_t>(matrix.cum[slot]));
    prob[slot] = static_cast<uint8_t>(matrix.prob[slot]);
  }
  return {LoadQuadTable(symbol), LoadQuadTable(position), LoadQuadTable(prob)};
}

// Step 2. A byte is 0..127, except with VBMI, where its bit 7 is a neighbour's and the look-up ignores it.
HWY_INLINE QuadV8 QuadSlotBytes(QuadV32 low) {
  const QuadD32 d32;
  const QuadD8 d8;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
  // One instruction that Highway lacks, instead of eight: the whole matvec ran at 1.15× the speed (Zen 4: 6.2 against
  // 5.4 G elements/s).
  const auto shifts = hn::Set(hn::Repartition<uint64_t, QuadD32>(), 0x352E2720150E0700ull);
  return QuadV8{_mm512_multishift_epi64_epi8(shifts.raw, low.raw)};
#else
  const auto halves =
      hn::Or(hn::And(low, hn::Set(d32, 0x3FFF)), hn::And(hn::ShiftLeft<2>(low), hn::Set(d32, 0x3FFF0000)));
  return hn::BitCast(d8, hn::Or(hn::And(halves, hn::Set(d32, 0x007F007F)),
                                hn::And(hn::ShiftLeft<1>(halves), hn::Set(d32, 0x7F007F00))));
#endif
}

// Step 3.
HWY_INLINE void QuadLookUp(const QuadStepTables& tables, QuadV8 slots, QuadV8& symbol, QuadV8& position, QuadV8& prob) {
  const QuadD8 d8;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
  symbol = QuadV8{_mm512_permutex2var_epi8(tables.symbol.part[0].raw, slots.raw, tables.symbol.part[1].raw)};
  position = QuadV8{_mm512_permutex2var_epi8(tables.position.part[0].raw, slots.raw, tables.position.part[1].raw)};
  prob = QuadV8{_mm512_permutex2var_epi8(tables.prob.part[0].raw, slots.raw, tables.prob.part[1].raw)};
#else
  symbol = position = prob = hn::Zero(d8);
  for (size_t i = 0; i < 8; ++i) {
    const auto mine = hn::Xor(slots, hn::Set(d8, static_cast<uint8_t>(i * 16)));  // below 16 only for slots of part i
#if HWY_ARCH_X86
    const auto index = hn::SaturatedAdd(mine, hn::Set(d8, 0x70));  // all others get bit 7, which selects zero
    symbol = hn::Or(symbol, hn::TableLookupBytesOr0(tables.symbol.part[i], index));
    position = hn::Or(position, hn::TableLookupBytesOr0(tables.position.part[i], index));
    prob = hn::Or(prob, hn::TableLookupBytesOr0(tables.prob.part[i], index));
#else
    const auto in_part = hn::Lt(mine, hn::Set(d8, 16));
    const auto index = hn::And(mine, hn::Set(d8, 15));
    symbol = hn::IfThenElse(in_part, hn::TableLookupBytes(tables.symbol.part[i], index), symbol);
    position = hn::IfThenElse(in_part, hn::TableLookupBytes(tables.position.part[i], index), position);
    prob = hn::IfThenElse(in_part, hn::TableLookupBytes(tables.prob.part[i], index), prob);
#endif
  }
#endif
}

// The states of the 32 coders of a queue, apart from the queue so that they stay in registers.
struct QuadStates {
  QuadV32 low[kQuadParts], high[kQuadParts];
};

// The queue of one row or stripe. `words_` holds the stored groups with the transposition undone, so that the queue is
// linear.
class QuadQueue {
 public:
  // Words are prefetched `ahead_bytes` before their use.
  HWY_INLINE void Begin(const QuadMatrix& matrix, int64_t queue, int64_t ahead_bytes, QuadStates& states) {
    const QuadD32 d32;
    const auto offsets = matrix.offsets, payload = matrix.payload;
    const bool is_last = queue + 1 == static_cast<int64_t>(offsets.size() / 4);
    constexpr int64_t kOffsetBytes = 4 * kQuadOffsetWords;
    next_ = payload.data() + quad_u32(offsets, queue) * kOffsetBytes;
    end_ = is_last ? payload.data() + payload.size() : payload.data() + quad_u32(offsets, queue + 1) * kOffsetBytes;
    ahead_ = ahead_bytes;
    alignas(64) uint32_t group[kQuadGroupWords];
    Untranspose(group);
    for (size_t part = 0; part < kQuadParts; ++part) {
      const size_t lane = part * kQuadVectorLanes;
      hn::StoreU(hn::Load(d32, group + lane), d32, words_ + lane);
      hn::StoreU(hn::Load(d32, group + 32 + lane), d32, words_ + 32 + lane);
      states.low[part] = hn::Load(d32, group + 64 + lane);
      states.high[part] = hn::Load(d32, group + 96 + lane);
    }
    used_ = 0;
    filled_ = kQuadWordsBeforeStates;
  }

  // Call this once a chunk: it provides the 32 words that a step may take.
  HWY_INLINE void Fill() {
    if (HWY_LIKELY(filled_ - used_ >= kQuadFormatLanes)) return;
    if (next_ == end_) return;  // the rest of the stream needs no more words than are left
    const QuadD32 d32;
    for (size_t i = 0; i < kQuadFormatLanes; i += kQuadVectorLanes)
      hn::StoreU(hn::LoadU(d32, words_ + used_ + i), d32, words_ + i);
    filled_ -= used_;
    used_ = 0;
    Untranspose(words_ + filled_);
    filled_ += kQuadGroupWords;
  }

  // Decodes the quads of lanes part * kQuadVectorLanes and following, a lane's symbols in its four bytes.
  HWY_INLINE QuadV8 Step(const QuadStepTables& tables, QuadStates& states, size_t part) {
    const QuadD32 d32;
    const QuadD8 d8;
    const hn::Repartition<int8_t, QuadD32> di8;
    const hn::Repartition<uint16_t, QuadD32> d16;
    const hn::Repartition<int16_t, QuadD32> di16;
    const hn::Repartition<int32_t, QuadD32> di32;
    const hn::Repartition<uint64_t, QuadD32> d64;
    QuadV32 low = states.low[part], high = states.high[part];

    // 1.
    const auto empty = hn::Eq(high, hn::Zero(d32));
    const auto words = hn::Expand(hn::LoadU(d32, words_ + used_), empty);
    used_ += static_cast<int64_t>(hn::CountTrue(d32, empty));
    high = hn::IfThenElse(empty, low, high);
    low = hn::IfThenElse(empty, words, low);

    // 2. and 3.
    QuadV8 symbol, position, prob;
    QuadLookUp(tables, QuadSlotBytes(low), symbol, position, prob);

    // 4.
    const auto probs = hn::BitCast(d16, prob);
    const auto p01_p23 = hn::BitCast(d32, hn::Mul(hn::And(probs, hn::Set(d16, 0xFF)), hn::ShiftRight<8>(probs)));
    const auto one_p0 = hn::BitCast(d8, hn::Or(hn::ShiftLeft<8>(probs), hn::Set(d16, 1)));
    const auto r01_r23 = hn::SatWidenMulPairwiseAdd(di16, one_p0, hn::BitCast(di8, position));
    const auto p23 = hn::BitCast(di16, hn::ShiftRight<16>(p01_p23));
    const auto p = hn::BitCast(d32, hn::WidenMulPairwiseAdd(di32, hn::BitCast(di16, p01_p23), p23));
    const auto one_p01 = hn::BitCast(di16, hn::Or(hn::ShiftLeft<16>(p01_p23), hn::Set(d32, 1)));
    const auto r = hn::BitCast(d64, hn::WidenMulPairwiseAdd(di32, r01_r23, one_p01));

    // 5. state >> 28 has 36 bits: 32 are multiplied in even and odd lanes, the upper four end in the high word.
    const auto x = hn::Or(hn::ShiftLeft<4>(high), hn::ShiftRight<28>(low));
    const auto even = hn::Add(hn::MulEven(x, p), hn::And(r, hn::Set(d64, 0xFFFFFFFFu)));
    const auto odd_x = hn::BitCast(d32, hn::ShiftRight<32>(hn::BitCast(d64, x)));
    const auto odd_p = hn::BitCast(d32, hn::ShiftRight<32>(hn::BitCast(d64, p)));
    const auto odd = hn::Add(hn::MulEven(odd_x, odd_p), hn::ShiftRight<32>(r));
    states.low[part] = hn::InterleaveEven(d32, hn::BitCast(d32, even), hn::BitCast(d32, odd));
    states.high[part] = hn::Add(hn::InterleaveOdd(d32, hn::BitCast(d32, even), hn::BitCast(d32, odd)),
                                hn::Mul(hn::ShiftRight<28>(high), p));
    return symbol;
  }

 private:
  // The next stored group, [lane][4], as 128 words in the order of the queue.
  HWY_INLINE void Untranspose(uint32_t* HWY_RESTRICT to) {
    const QuadD32 d32;
    for (int line = 0; line < kQuadGroupWords * 4; line += 64) hwy::Prefetch(next_ + ahead_ + line);
    const uint32_t* from = reinterpret_cast<const uint32_t*>(next_);
    for (size_t lane = 0; lane < kQuadFormatLanes; lane += kQuadVectorLanes) {
      QuadV32 x, y, z, w;
      hn::LoadInterleaved4(d32, from + lane * 4, x, y, z, w);
      hn::StoreU(x, d32, to + lane);
      hn::StoreU(y, d32, to + 32 + lane);
      hn::StoreU(z, d32, to + 64 + lane);
      hn::StoreU(w, d32, to + 96 + lane);
    }
    next_ += kQuadGroupWords * 4;
  }

  int64_t used_, filled_, ahead_;
  const std::byte* next_;
  const std::byte* end_;
  // Fewer than 32 left-over words, a group, and what the last step's loads read beyond without using it.
  alignas(64) uint32_t words_[2 * kQuadFormatLanes + kQuadGroupWords + 16] = {};
};

// How far ahead to prefetch: to the same place of the next queue if queues are short, else a distance that covers the
// latency of DRAM.
inline int64_t QuadAheadBytes(const QuadMatrix& matrix) {
  if (matrix.layout.queues == 0) return 0;
  const int64_t bytes = static_cast<int64_t>(matrix.payload.size()) / matrix.layout.queues;
  return bytes < 16384 ? bytes : 2048;
}

// The kernels of a layout. `Loops` has kQueueRows, the rows of a queue, and the loops over the chunks of the queue that
// begins with `row`:
//   Decode(const QuadMatrix&, const backends::DecodeArgs&, const QuadStepTables&, row, ahead)
//   Multiply(const QuadMatrix&, const backends::MatvecArgs&, const QuadStepTables&, row, ahead, correction)
// where `correction` is the excess of the products of symbols + 128.
template <class Loops>
struct DecodeQuads {
  QuadMatrix matrix;
  void operator()(void*, const backends::DecodeArgs& args) const {
    if (matrix.shape.elements() == 0) return;
    const QuadStepTables tables = LoadQuadStepTables(matrix, 0);
    for (int64_t row = args.rows.begin; row < args.rows.end; row += Loops::kQueueRows)
      Loops::Decode(matrix, args, tables, row, QuadAheadBytes(matrix));
  }
};

template <class Loops>
struct MultiplyQuads {
  QuadMatrix matrix;
  void operator()(void*, const backends::MatvecArgs& args) const {
    if (matrix.shape.elements() == 0) {
      std::fill(args.y + args.rows.begin, args.y + args.rows.end, 0);
      return;
    }
    const QuadStepTables tables = LoadQuadStepTables(matrix, 0x80);
    const int32_t correction = static_cast<int32_t>(128u * static_cast<uint32_t>(cpu::SumX(args.x, matrix.shape.cols)));
    for (int64_t row = args.rows.begin; row < args.rows.end; row += Loops::kQueueRows)
      Loops::Multiply(matrix, args, tables, row, QuadAheadBytes(matrix), correction);
  }
};

template <class Loops>
backends::BoundKernel BindQuadDecode(const QuadMatrix& matrix) {
  return {DecodeQuads<Loops>{matrix}, {.rows_per_block = Loops::kQueueRows}};
}
template <class Loops>
backends::BoundKernel BindQuadMatvec(const QuadMatrix& matrix) {
  return {MultiplyQuads<Loops>{matrix}, {.rows_per_block = Loops::kQueueRows}};
}

inline std::string RefusesQuads() { return ""; }

#else

template <class Loops>
backends::BoundKernel BindQuadDecode(const QuadMatrix&) {
  return {};
}
template <class Loops>
backends::BoundKernel BindQuadMatvec(const QuadMatrix&) {
  return {};
}
inline std::string RefusesQuads() {
  return "The kernel keeps arrays of vectors, which scalable vectors do not allow; NEON runs it.";
}

#endif  // !HWY_HAVE_SCALABLE

}  // namespace ecmv::codecs::modelling::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_CODECS_MODELLING_QUAD_ANS_SIMD_INL_H_
