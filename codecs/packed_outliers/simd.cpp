// SIMD kernels of packed_outliers. One shift and one and-or for each plane make a vector of fields. Vectors of up to 64
// bytes walk along the strips, so one format serves every instruction set. The product runs on the unsigned fields
// (VNNI: dpbusd; AVX2, SSE4, AVX3: maddubs with as many sums in 16 bits as their width allows; NEON: signed dot) and
// adds lowest * sum(x) once. Outliers follow block by block while y is in the L1 cache.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/kernel.h"
#include "codecs/packed_outliers/packed.h"
#include "codecs/packed_outliers/policies.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/packed_outliers/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "backends/cpu/products/dot-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::packed_outliers::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace cpu = backends::cpu::HWY_NAMESPACE;

using D8 = cpu::DotD8;
using DU8 = cpu::DotDU8;
using DU16 = hn::Repartition<uint16_t, D8>;
using D16 = cpu::DotD16;
using D32 = cpu::DotD32;
using VU8 = hn::Vec<DU8>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;

static_assert(HWY_MAX_BYTES <= kStripCols, "A vector must not be longer than a strip.");

// Prefetches into the L2 cache, because the few outstanding misses of the L1 cap a stream at some 16 GB/s (Zen 4, 5
// bits, one thread: 16 KiB ahead into L2 28-38 G elements/s, 2 KiB ahead into L1 21-28, none 26-30).
HWY_INLINE void PrefetchL2(const uint8_t* at) { __builtin_prefetch(at, 0, 2); }

// Stored bytes at one place of a group: `a` from the plane of 4 bits (of 8: all strips), `b` of 2, `c` of 1.
template <int kBits>
struct Strips {
  VU8 a[8], b[2], c[1];

  HWY_INLINE Strips(const uint8_t* HWY_RESTRICT at, int64_t width) {
    const DU8 du8;
    constexpr int kFirst = kBits == 8 ? 8 : kBits & 4;
    for (int s = 0; s < kFirst; ++s) a[s] = hn::LoadU(du8, at + s * width);
    if constexpr (kBits & 2)
      for (int s = 0; s < 2; ++s) b[s] = hn::LoadU(du8, at + (kFirst + s) * width);
    if constexpr (kBits & 1) c[0] = hn::LoadU(du8, at + (kFirst + (kBits & 2)) * width);
  }
};

// fields | the plane's part of them: kPlane bits from slot kSlot of `stored`, moved to bit kTarget. Shifts of 16-bit
// lanes carry foreign bits only to places where the mask is zero.
template <int kPlane, int kSlot, int kTarget>
HWY_INLINE VU8 MergePlane(VU8 fields, VU8 stored) {
  const DU8 du8;
  const DU16 du16;
  constexpr int kShift = kTarget - kPlane * kSlot;
  VU8 shifted = stored;
  if constexpr (kShift > 0)
    shifted = hn::BitCast(du8, hn::ShiftLeft<(kShift > 0 ? kShift : 0)>(hn::BitCast(du16, stored)));
  if constexpr (kShift < 0)
    shifted = hn::BitCast(du8, hn::ShiftRight<(kShift < 0 ? -kShift : 0)>(hn::BitCast(du16, stored)));
  const VU8 mask = hn::Set(du8, static_cast<uint8_t>(((1 << kPlane) - 1) << kTarget));
  if constexpr (kTarget == 0) return hn::And(shifted, mask);
  return hn::OrAnd(fields, shifted, mask);
}

template <int kBits, int kStrip>
HWY_INLINE VU8 Fields(const Strips<kBits>& strips) {
  if constexpr (kBits == 8) return strips.a[kStrip];
  VU8 fields = hn::Zero(DU8());
  if constexpr (kBits & 4) fields = MergePlane<4, kStrip / 4, 0>(fields, strips.a[kStrip % 4]);
  if constexpr (kBits & 2) fields = MergePlane<2, kStrip / 2, (kBits & 4)>(fields, strips.b[kStrip % 2]);
  if constexpr (kBits & 1) fields = MergePlane<1, kStrip, (kBits & 6)>(fields, strips.c[0]);
  return fields;
}

// How many sums of two products fit into int16.
template <int kBits>
constexpr int kSums16 = kBits <= 4   ? 8
                        : kBits == 5 ? 4
                        : kBits == 6 ? 2
                                     : 1;

// acc += fields . x for one strip. `sums` carries 16-bit sums from strip to strip on targets that multiply that way.
template <int kBits, int kStrip>
HWY_INLINE void DotStrip(const Strips<kBits>& strips, const int8_t* HWY_RESTRICT x, V16& sums, V32& acc) {
  const VU8 fields = Fields<kBits, kStrip>(strips);
  const auto vx = hn::LoadU(D8(), x);
  if constexpr (kBits == 8 || cpu::kDotIsBiased) {
    acc = cpu::DotAccumulateBiased(fields, cpu::PrepareX(vx), acc);
  } else {
#if HWY_ARCH_X86
    const auto products = hn::SatWidenMulPairwiseAdd(D16(), fields, vx);
    sums = kStrip % kSums16<kBits> == 0 ? products : hn::Add(sums, products);
    if constexpr (kStrip % kSums16<kBits> == kSums16<kBits> - 1)
      acc = hn::Add(acc, hn::WidenMulPairwiseAdd(D32(), sums, hn::Set(D16(), 1)));
#else
    acc = hn::SumOfMulQuadAccumulate(D32(), hn::BitCast(D8(), fields), vx, acc);
#endif
  }
}

// One group of a row: strips of `width` columns at `group`, their x `x_stride` apart.
template <int kBits>
HWY_INLINE void DotGroup(const uint8_t* HWY_RESTRICT group, int64_t width, const int8_t* HWY_RESTRICT x,
                         int64_t x_stride, V32& acc0, V32& acc1) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D8()));
  for (int64_t j = 0; j < width; j += lanes) {
    const Strips<kBits> strips(group + j, width);
    V16 sums = hn::Zero(D16());
    DotStrip<kBits, 0>(strips, x + j, sums, acc0);
    DotStrip<kBits, 1>(strips, x + j + x_stride, sums, acc1);
    DotStrip<kBits, 2>(strips, x + j + 2 * x_stride, sums, acc0);
    DotStrip<kBits, 3>(strips, x + j + 3 * x_stride, sums, acc1);
    DotStrip<kBits, 4>(strips, x + j + 4 * x_stride, sums, acc0);
    DotStrip<kBits, 5>(strips, x + j + 5 * x_stride, sums, acc1);
    DotStrip<kBits, 6>(strips, x + j + 6 * x_stride, sums, acc0);
    DotStrip<kBits, 7>(strips, x + j + 7 * x_stride, sums, acc1);
  }
}

// y[0..kRows) of the rows at `rows`. It prefetches kPrefetchBytes ahead in every row (0: not at all), because hardware
// prefetchers stop at page borders. x_tail: x of the tail's strips, 64 apart, zeros where a strip has no column.
template <int kBits, int kRows, int kPrefetchBytes>
HWY_INLINE void DotRows(const Packed& packed, const uint8_t* HWY_RESTRICT rows, const int8_t* HWY_RESTRICT x,
                        const int8_t* HWY_RESTRICT x_tail, int32_t offset, int32_t* HWY_RESTRICT y) {
  const D32 d32;
  V32 acc0[kRows], acc1[kRows];
  for (int r = 0; r < kRows; ++r) acc0[r] = acc1[r] = hn::Zero(d32);
  const int64_t groups = full_groups(packed.cols), tail = tail_strip(packed.cols);
  for (int64_t g = 0; g < groups; ++g)
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* group = rows + r * packed.row_bytes + g * kBits * kStripCols;
      if constexpr (kPrefetchBytes > 0)
        for (int line = 0; line < kBits; ++line) PrefetchL2(group + kPrefetchBytes + line * 64);
      DotGroup<kBits>(group, kStripCols, x + g * kGroupCols, kStripCols, acc0[r], acc1[r]);
    }
  if (tail > 0)
    for (int r = 0; r < kRows; ++r)
      DotGroup<kBits>(rows + r * packed.row_bytes + groups * kBits * kStripCols, tail, x_tail, kStripCols, acc0[r],
                      acc1[r]);
  for (int r = 0; r < kRows; ++r)
    y[r] = static_cast<int32_t>(static_cast<uint32_t>(hn::ReduceSum(d32, hn::Add(acc0[r], acc1[r]))) +
                                static_cast<uint32_t>(offset));
}

// This many records at a time go to buffers, their deltas as bytes and their elements of x gathered one by one, so that
// vectors multiply them. A record then costs an addition, a comparison, a load and a store.
constexpr int kChunk = 512;
struct OutlierChunk {
  alignas(64) int8_t x[kChunk];
  alignas(64) int8_t deltas[kChunk + 2];
};

// The deltas of records [first, first + count), count <= kChunk.
HWY_INLINE const int8_t* ChunkDeltas(const Packed& packed, uint64_t first, int count, OutlierChunk& chunk) {
  if (packed.form.delta_bits == 8) return reinterpret_cast<const int8_t*>(packed.deltas) + first;
  const uint8_t* stored = packed.deltas + first / 2;
  const int bytes = static_cast<int>((first % 2 + count + 1) / 2);
  for (int i = 0; i < bytes; ++i) {
    chunk.deltas[2 * i] = static_cast<int8_t>(((stored[i] & 15) ^ 8) - 8);
    chunk.deltas[2 * i + 1] = static_cast<int8_t>(((stored[i] >> 4) ^ 8) - 8);
  }
  return chunk.deltas + first % 2;
}

// The sum of count products of signed bytes.
HWY_INLINE int32_t DotBytes(const int8_t* HWY_RESTRICT w, const int8_t* HWY_RESTRICT x, int count) {
  const D8 d8;
  const D32 d32;
  const int lanes = static_cast<int>(hn::Lanes(d8));
  V32 sum = hn::Zero(d32), bias = hn::Zero(d32);
  for (int i = 0; i < count; i += lanes) {
    const auto vw = count - i >= lanes ? hn::LoadU(d8, w + i) : hn::LoadN(d8, w + i, static_cast<size_t>(count - i));
    const auto vx = count - i >= lanes ? hn::LoadU(d8, x + i) : hn::LoadN(d8, x + i, static_cast<size_t>(count - i));
    sum = cpu::DotAccumulate(vw, cpu::PrepareX(vx), sum);
    if constexpr (cpu::kDotIsBiased) bias = hn::SumOfMulQuadAccumulate(d32, hn::Set(DU8(), 128), vx, bias);
  }
  return hn::ReduceSum(d32, hn::Sub(sum, bias));
}

// Applies the records of row0's block. Many outliers take as long as the fields, and memory would idle meanwhile, so
// this prefetches the fields from `next` up to `next_end`, which come after, a line every fourth record.
template <int kDistanceBytes>
void AddBlockOutliers(const Packed& packed, int64_t row0, const uint8_t* next, const uint8_t* next_end,
                      const int8_t* HWY_RESTRICT x, int32_t* HWY_RESTRICT y) {
  struct Segment {
    int64_t row;
    int begin;
  };
  OutlierChunk chunk;
  std::array<Segment, kRowsPerBlock + 1> segments;
  const int64_t block = row0 / kRowsPerBlock, cols = packed.cols;
  const uint64_t end = first_record(packed, block + 1);
  int64_t row = row0, col = 0;
  for (uint64_t first = first_record(packed, block); first < end; first += kChunk) {
    const int count = static_cast<int>(std::min<uint64_t>(kChunk, end - first));
    const int8_t* deltas = ChunkDeltas(packed, first, count, chunk);
    int segment = 0;
    segments[0] = {row, 0};
    const auto gather = [&](int i) HWY_ATTR {
      col += distance_at<kDistanceBytes>(packed.distances, first + i);
      if (HWY_UNLIKELY(col >= cols)) {
        for (; col >= cols; col -= cols) ++row;
        segments[++segment] = {row, i};
      }
      chunk.x[i] = x[col];
    };
    int i = 0;
    for (; i + 4 <= count; i += 4) {
      PrefetchL2(next);
      next = std::min(next + 64, next_end);
      gather(i);
      gather(i + 1);
      gather(i + 2);
      gather(i + 3);
    }
    for (; i < count; ++i) gather(i);
    // Not earlier: vectors loaded right after the byte stores would wait for them.
    for (int s = 0; s <= segment; ++s) {
      const int begin = segments[s].begin, stop = s < segment ? segments[s + 1].begin : count;
      int32_t& sum = y[segments[s].row];
      sum = static_cast<int32_t>(static_cast<uint32_t>(sum) +
                                 static_cast<uint32_t>(DotBytes(deltas + begin, chunk.x + begin, stop - begin)));
    }
  }
}

template <int kDistanceBytes>
void PatchBlockOutliers(const Packed& packed, int64_t row0, int8_t* HWY_RESTRICT element) {
  OutlierChunk chunk;
  const int64_t block = row0 / kRowsPerBlock;
  const uint64_t end = first_record(packed, block + 1);
  for (uint64_t first = first_record(packed, block); first < end; first += kChunk) {
    const int count = static_cast<int>(std::min<uint64_t>(kChunk, end - first));
    const int8_t* deltas = ChunkDeltas(packed, first, count, chunk);
    for (int i = 0; i < count; ++i) {
      element += distance_at<kDistanceBytes>(packed.distances, first + i);
      *element = static_cast<int8_t>(*element + deltas[i]);
    }
  }
}

template <int kBits, int kRows, int kPrefetchBytes>
void MatvecBits(const Packed& packed, const backends::MatvecArgs& args) {
  // Whole vectors load a strip of the tail: x past its columns is zero, whatever the fields there are.
  alignas(64) std::array<int8_t, kGroupCols> x_tail{};
  const int64_t tail = tail_cols(packed.cols), width = tail_strip(packed.cols);
  for (int64_t i = 0; i < tail; ++i) x_tail[i / width * kStripCols + i % width] = args.x[packed.cols - tail + i];
  const int32_t offset = static_cast<int32_t>(static_cast<uint32_t>(packed.lowest) *
                                              static_cast<uint32_t>(cpu::SumX(args.x, packed.cols)));
  for (int64_t begin = args.rows.begin; begin < args.rows.end; begin += kRowsPerBlock) {
    const int64_t end = std::min(begin + kRowsPerBlock, args.rows.end);
    int64_t row = begin;
    for (; row + kRows <= end; row += kRows)
      DotRows<kBits, kRows, kPrefetchBytes>(packed, packed.fields + row * packed.row_bytes, args.x, x_tail.data(),
                                            offset, args.y + row);
    for (; row < end; ++row)
      DotRows<kBits, 1, kPrefetchBytes>(packed, packed.fields + row * packed.row_bytes, args.x, x_tail.data(), offset,
                                        args.y + row);
    const uint8_t* next = packed.fields + end * packed.row_bytes;
    const uint8_t* next_end = packed.fields + std::min(end + kRowsPerBlock, args.rows.end) * packed.row_bytes;
    if (packed.form.distance_bytes == 1)
      AddBlockOutliers<1>(packed, begin, next, next_end, args.x, args.y);
    else
      AddBlockOutliers<2>(packed, begin, next, next_end, args.x, args.y);
  }
}

template <int kBits, int kStrip>
HWY_INLINE void StoreStrip(const Strips<kBits>& strips, VU8 lowest, uint8_t* HWY_RESTRICT out) {
  hn::StoreU(hn::Add(Fields<kBits, kStrip>(strips), lowest), DU8(), out + kStrip * kStripCols);
}

// Stores the elements of one group. Strip s goes to out + 64 s, in whole vectors even where strips are shorter.
template <int kBits>
HWY_INLINE void DecodeGroup(const uint8_t* HWY_RESTRICT group, int64_t width, VU8 lowest, uint8_t* HWY_RESTRICT out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D8()));
  for (int64_t j = 0; j < width; j += lanes) {
    const Strips<kBits> strips(group + j, width);
    StoreStrip<kBits, 0>(strips, lowest, out + j);
    StoreStrip<kBits, 1>(strips, lowest, out + j);
    StoreStrip<kBits, 2>(strips, lowest, out + j);
    StoreStrip<kBits, 3>(strips, lowest, out + j);
    StoreStrip<kBits, 4>(strips, lowest, out + j);
    StoreStrip<kBits, 5>(strips, lowest, out + j);
    StoreStrip<kBits, 6>(strips, lowest, out + j);
    StoreStrip<kBits, 7>(strips, lowest, out + j);
  }
}

template <int kBits>
void DecodeBits(const Packed& packed, const backends::DecodeArgs& args) {
  const VU8 lowest = hn::Set(DU8(), static_cast<uint8_t>(packed.lowest));
  const int64_t groups = full_groups(packed.cols), tail = tail_cols(packed.cols), width = tail_strip(packed.cols);
  alignas(64) std::array<uint8_t, kGroupCols> buffer;
  for (int64_t begin = args.rows.begin; begin < args.rows.end; begin += kRowsPerBlock) {
    const int64_t end = std::min(begin + kRowsPerBlock, args.rows.end);
    for (int64_t row = begin; row < end; ++row) {
      const uint8_t* group = packed.fields + row * packed.row_bytes;
      uint8_t* out = reinterpret_cast<uint8_t*>(args.out) + (row - args.rows.begin) * packed.cols;
      for (int64_t g = 0; g < groups; ++g, group += kBits * kStripCols, out += kGroupCols) {
        DecodeGroup<kBits>(group, kStripCols, lowest, out);
      }
      if (tail == 0) continue;
      DecodeGroup<kBits>(group, width, lowest, buffer.data());
      for (int64_t i = 0; i < tail; i += width)
        std::memcpy(out + i, buffer.data() + i / width * kStripCols, std::min(width, tail - i));
    }
    int8_t* decoded = reinterpret_cast<int8_t*>(args.out) + (begin - args.rows.begin) * packed.cols;
    if (packed.form.distance_bytes == 1)
      PatchBlockOutliers<1>(packed, begin, decoded);
    else
      PatchBlockOutliers<2>(packed, begin, decoded);
  }
}

// Instances for the matrix's bits and, for the product, the policy.
struct Decode {
  Packed packed;
  void (*run)(const Packed&, const backends::DecodeArgs&);
  void operator()(void*, const backends::DecodeArgs& args) const { run(packed, args); }
};
struct Multiply {
  Packed packed;
  void (*run)(const Packed&, const backends::MatvecArgs&);
  void operator()(void*, const backends::MatvecArgs& args) const { run(packed, args); }
};

backends::BoundKernel BindDecode(const Packed& packed) {
  const auto run = with_bits(packed.bits, [](auto bits) -> decltype(Decode::run) { return DecodeBits<bits>; });
  return {Decode{packed, run}, {.rows_per_block = kRowsPerBlock}};
}

backends::BoundKernel BindMatvec(const backends::Policy& policy, const Packed& packed) {
  const auto run = backends::with_policy<kProductPolicies>(policy, [&](auto i) {
    return with_bits(packed.bits, [](auto bits) -> decltype(Multiply::run) {
      constexpr backends::cpu::RowsPolicy kPolicy = kProductPolicies[decltype(i)::value];
      return MatvecBits<bits, kPolicy.rows, kPolicy.prefetch_bytes>;
    });
  });
  return {Multiply{packed, run}, {.rows_per_block = kRowsPerBlock}};
}

}  // namespace ecmv::codecs::packed_outliers::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::packed_outliers {
namespace {

HWY_EXPORT(BindDecode);
HWY_EXPORT(BindMatvec);

using backends::Layers;

backends::BoundKernel bind_decode(const backends::Policy&, Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(open_packed(*layers[0].matrix));
}
backends::BoundKernel bind_matvec(const backends::Policy& policy, Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatvec)(policy, open_packed(*layers[0].matrix));
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "planes", .bind = bind_decode},
    {.op = backends::Op::matvec, .variant = "planes", .policies = kProductPolicies, .bind = bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::packed_outliers
#endif  // HWY_ONCE
