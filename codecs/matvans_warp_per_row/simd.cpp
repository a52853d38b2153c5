// SIMD kernels of matvans_warp_per_row: the 32 heads of a row in 32-bit lanes. Each lane has words of its own, which
// are gathered; a head that took a word is at least 2^24 and cannot need another in the next step, so one gather serves
// two steps. That pays even where a gather is taken apart into loads (SSE4: 0.72 G elements/s, the scalar kernel 0.45).
// Slots are looked up in registers (VBMI: three tables of 256 bytes are 12 registers) or gathered from a table of 1
// KiB. Four symbols of a lane fill its 32 bits in the order of the columns; four such words are the lane's 16 columns.
#include <algorithm>
#include <string>

#include "codecs/compressed_matrix.h"
#include "codecs/matvans_warp_per_row/format.h"
#include "codecs/matvans_warp_per_row/slot_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/matvans_warp_per_row/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/products/dot-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::matvans_warp_per_row::HWY_NAMESPACE {
namespace cpu = backends::cpu::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;

#if !HWY_HAVE_SCALABLE  // the lanes of a row are arrays of vectors

using D32 = hn::ScalableTag<uint32_t>;
using DI32 = hn::ScalableTag<int32_t>;
using V32 = hn::Vec<D32>;
constexpr size_t kVectorLanes = HWY_MAX_LANES_D(D32);
constexpr size_t kParts = kFormatLanes / kVectorLanes;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
struct Tables {
  __m512i symbol[4], position[4], prob[4];

  HWY_INLINE explicit Tables(const SlotTable& table) {
    alignas(64) uint8_t bytes[3][kSlots];
    for (int slot = 0; slot < kSlots; ++slot)
      for (int field = 0; field < 3; ++field) bytes[field][slot] = static_cast<uint8_t>(table[slot] >> (8 * field));
    for (int i = 0; i < 4; ++i) {
      symbol[i] = _mm512_load_si512(bytes[0] + 64 * i);
      position[i] = _mm512_load_si512(bytes[1] + 64 * i);
      prob[i] = _mm512_load_si512(bytes[2] + 64 * i);
    }
  }

  // Only a lane's lowest byte counts. The instruction takes seven bits of it, and the eighth selects the half.
  HWY_INLINE void LookUp(V32 head, V32& symbols, V32& positions, V32& probs) const {
    const D32 d32;
    const __mmask64 upper = _mm512_movepi8_mask(head.raw);
    const auto look_up = [&](const __m512i* t) HWY_ATTR {
      return V32{_mm512_mask_blend_epi8(upper, _mm512_permutex2var_epi8(t[0], head.raw, t[1]),
                                        _mm512_permutex2var_epi8(t[2], head.raw, t[3]))};
    };
    symbols = look_up(symbol);
    positions = hn::And(look_up(position), hn::Set(d32, 0xFF));
    probs = hn::And(look_up(prob), hn::Set(d32, 0xFF));
  }
};
#else
struct Tables {
  const SlotTable& table;

  HWY_INLINE explicit Tables(const SlotTable& slots) : table(slots) {}

  HWY_INLINE void LookUp(V32 head, V32& symbols, V32& positions, V32& probs) const {
    const D32 d32;
    const DI32 di32;
    const auto slots = hn::BitCast(di32, hn::And(head, hn::Set(d32, kSlots - 1)));
    symbols = hn::GatherIndex(d32, table.data(), slots);
    positions = hn::And(hn::ShiftRight<8>(symbols), hn::Set(d32, 0xFF));
    probs = hn::ShiftRight<16>(symbols);
  }
};
#endif

// kVectorLanes lanes of a row.
struct RowLanes {
  V32 heads, offsets;  // offsets: of the next word, in bytes from the row's first
};

HWY_INLINE RowLanes BeginLanes(const uint8_t* HWY_RESTRICT row, size_t part) {
  const D32 d32;
  const DI32 di32;
  const auto first = hn::ShiftLeft<4>(hn::Iota(d32, static_cast<uint32_t>(part * kVectorLanes)));
  const auto head = hn::GatherOffset(d32, reinterpret_cast<const uint32_t*>(row), hn::BitCast(di32, first));
  return {hn::RotateRight<16>(head), hn::Add(first, hn::Set(d32, 4))};
}

// The next word of each lane in its lower 16 bits; the upper ones are undefined. Lanes at their end point past the row,
// and in the matrix's last row past the payload: there offsets are limited and words read in aligned pairs.
template <bool kIsLast>
HWY_INLINE V32 NextWords(const uint8_t* HWY_RESTRICT row, V32 offsets, V32 last_offset) {
  const D32 d32;
  const DI32 di32;
  const uint32_t* base = reinterpret_cast<const uint32_t*>(row);
  if constexpr (!kIsLast) return hn::GatherOffset(d32, base, hn::BitCast(di32, offsets));
  const auto inside = hn::Min(offsets, last_offset);
  const auto pairs = hn::GatherOffset(d32, base, hn::BitCast(di32, hn::AndNot(hn::Set(d32, 3), inside)));
  return hn::Shr(pairs, hn::ShiftLeft<3>(hn::And(inside, hn::Set(d32, 2))));
}

HWY_INLINE hn::Mask<D32> Step(const Tables& tables, V32 words, V32& heads, V32& quads) {
  const D32 d32;
  V32 symbols, positions, probs;
  tables.LookUp(heads, symbols, positions, probs);
  heads = hn::Add(hn::Mul(hn::ShiftRight<kModelBits>(heads), probs), positions);
  const auto low = hn::Lt(heads, hn::Set(d32, kLowestHead));
  heads = hn::IfThenElse(low, hn::Or(hn::ShiftLeft<16>(heads), words), heads);
  quads = hn::Or(hn::ShiftRight<8>(quads), hn::ShiftLeft<24>(symbols));
  return low;
}

// Four symbols of each lane, the first in the lowest byte.
template <bool kIsLast>
HWY_INLINE V32 FourSteps(const Tables& tables, const uint8_t* HWY_RESTRICT row, V32 last_offset, RowLanes& lanes) {
  const D32 d32;
  V32 quads = hn::Zero(d32);
  HWY_UNROLL(2)
  for (int pair = 0; pair < 2; ++pair) {
    const auto words = hn::And(NextWords<kIsLast>(row, lanes.offsets, last_offset), hn::Set(d32, 0xFFFF));
    const auto first = Step(tables, words, lanes.heads, quads);
    const auto second = Step(tables, words, lanes.heads, quads);
    // Advances a word; from the end of a unit of 16 bytes to the lane's next unit, 512 - 16 bytes on.
    const auto further = hn::Add(lanes.offsets, hn::Set(d32, 2));
    const auto at_end = hn::Eq(hn::And(further, hn::Set(d32, 14)), hn::Zero(d32));
    const auto next = hn::Add(further, hn::IfThenElseZero(at_end, hn::Set(d32, (kFormatLanes - 1) * kUnitWords * 2)));
    lanes.offsets = hn::IfThenElse(hn::Or(first, second), next, lanes.offsets);
  }
  return quads;
}

// Calls sink(col, part, q0, q1, q2, q3) for every group of columns, with the 16 symbols of lanes part * kVectorLanes
// and following; `col` is the first lane's first column.
template <bool kIsLast, class Sink>
HWY_INLINE void DecodeRow(const StoredMatrix& matrix, const Tables& tables, int64_t row_index, const Sink& sink) {
  const D32 d32;
  const auto payload = matrix.payload;
  const int64_t cols = matrix.shape.cols, begin = int64_t{u32_at(matrix.cursors, row_index)} * 2;
  const uint8_t* HWY_RESTRICT row = reinterpret_cast<const uint8_t*>(payload.data()) + begin;
  const V32 last_offset = hn::Set(d32, static_cast<uint32_t>(static_cast<int64_t>(payload.size()) - begin - 2));
  RowLanes lanes[kParts];
  for (size_t part = 0; part < kParts; ++part) lanes[part] = BeginLanes(row, part);
  for (int64_t col = 0; col < cols; col += kGroupCols) {
    V32 quads[kParts][4];
    HWY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      HWY_UNROLL(8)
      for (size_t part = 0; part < kParts; ++part)
        quads[part][i] = FourSteps<kIsLast>(tables, row, last_offset, lanes[part]);
    }
    for (size_t part = 0; part < kParts; ++part)
      sink(col + static_cast<int64_t>(part * kVectorLanes) * kLaneCols, quads[part][0], quads[part][1], quads[part][2],
           quads[part][3]);
  }
}

template <class Sink>
HWY_INLINE void DecodeRowAnywhere(const StoredMatrix& matrix, const Tables& tables, int64_t row, const Sink& sink) {
  if (row + 1 == matrix.shape.rows)
    DecodeRow<true>(matrix, tables, row, sink);
  else
    DecodeRow<false>(matrix, tables, row, sink);
}

struct Decode {
  StoredMatrix matrix;
  void operator()(void*, const backends::DecodeArgs& args) const {
    const D32 d32;
    const int64_t cols = matrix.shape.cols;
    if (cols == 0) return;
    const SlotTable table = slot_table(matrix);
    const Tables tables(table);
    for (int64_t row = args.rows.begin; row < args.rows.end; ++row) {
      std::byte* HWY_RESTRICT out = args.out + (row - args.rows.begin) * cols;
      DecodeRowAnywhere(matrix, tables, row, [&](int64_t col, V32 q0, V32 q1, V32 q2, V32 q3) HWY_ATTR {
        hn::StoreInterleaved4(q0, q1, q2, q3, d32, reinterpret_cast<uint32_t*>(out + col));
      });
    }
  }
};

struct Multiply {
  StoredMatrix matrix;
  void operator()(void*, const backends::MatvecArgs& args) const {
    const D32 d32;
    const cpu::DotD8 d8;
    const cpu::DotD32 di32;
    if (matrix.shape.cols == 0) {
      std::fill(args.y + args.rows.begin, args.y + args.rows.end, 0);
      return;
    }
    SlotTable table = slot_table(matrix);
    for (uint32_t& entry : table) entry ^= 0x80;  // symbol + 128, as the dot product takes it
    const Tables tables(table);
    const int32_t correction = static_cast<int32_t>(128u * static_cast<uint32_t>(cpu::SumX(args.x, matrix.shape.cols)));
    for (int64_t row = args.rows.begin; row < args.rows.end; ++row) {
      auto sums = hn::Zero(di32);
      DecodeRowAnywhere(matrix, tables, row, [&](int64_t col, V32 q0, V32 q1, V32 q2, V32 q3) HWY_ATTR {
        V32 x0, x1, x2, x3;
        hn::LoadInterleaved4(d32, reinterpret_cast<const uint32_t*>(args.x + col), x0, x1, x2, x3);
        const cpu::DotDU8 du8;
        sums = cpu::DotAccumulateBiased(hn::BitCast(du8, q0), cpu::PrepareX(hn::BitCast(d8, x0)), sums);
        sums = cpu::DotAccumulateBiased(hn::BitCast(du8, q1), cpu::PrepareX(hn::BitCast(d8, x1)), sums);
        sums = cpu::DotAccumulateBiased(hn::BitCast(du8, q2), cpu::PrepareX(hn::BitCast(d8, x2)), sums);
        sums = cpu::DotAccumulateBiased(hn::BitCast(du8, q3), cpu::PrepareX(hn::BitCast(d8, x3)), sums);
      });
      args.y[row] = hn::ReduceSum(di32, sums) - correction;
    }
  }
};

backends::BoundKernel BindDecode(const StoredMatrix& matrix) { return Decode{matrix}; }
backends::BoundKernel BindMatvec(const StoredMatrix& matrix) { return Multiply{matrix}; }

std::string Refuses(int64_t row_bytes) {
  return row_bytes <= INT32_MAX
             ? ""
             : "The kernel gathers with 32-bit offsets, which do not reach the end of so long a row.";
}

#else

backends::BoundKernel BindDecode(const StoredMatrix&) { return {}; }
backends::BoundKernel BindMatvec(const StoredMatrix&) { return {}; }
std::string Refuses(int64_t) {
  return "The kernel keeps arrays of vectors, which scalable vectors do not allow; NEON runs it.";
}

#endif

}  // namespace ecmv::codecs::matvans_warp_per_row::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::matvans_warp_per_row {
namespace {

HWY_EXPORT(BindDecode);
HWY_EXPORT(BindMatvec);
HWY_EXPORT(Refuses);

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(stored_matrix(*layers[0].matrix));
}
backends::BoundKernel bind_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatvec)(stored_matrix(*layers[0].matrix));
}

// A lane uses at most a word a symbol.
std::string refuses(const CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  return HWY_DYNAMIC_DISPATCH(Refuses)((matrix.shape.cols + 16 * kGroupCols) * 2);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "lanes32", .refuses = refuses, .bind = bind_decode},
    {.op = backends::Op::matvec, .variant = "lanes32", .refuses = refuses, .bind = bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::matvans_warp_per_row
#endif  // HWY_ONCE
