// SIMD kernels of huffman_lut, layout `single_level`: look-ups stay scalar (walk.h, compiled here for each instruction
// set), vectors do the rest. A segment of up to 4096 columns is walked first. Then its entries become elements 64
// columns at a time: lengths dropped, high parts split, raw bits merged, and the product (or the store) follows.
// Between the two passes the 4-byte stores reach the cache; a vector load that met them in the store queue would stall.
#include <algorithm>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/huffman_lut/format.h"
#include "codecs/huffman_lut/walk.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/huffman_lut/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::huffman_lut::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace single_level;

// At most 32 bytes, the smallest group of columns that one shift of a plane serves. The scalar walk is 80 % of the
// work, so wider vectors would gain little.
using D8 = hn::CappedTag<uint8_t, 32>;
using DI8 = hn::RebindToSigned<D8>;
using D16 = hn::Repartition<uint16_t, D8>;
using DI16 = hn::RebindToSigned<D16>;
using D32 = hn::Repartition<uint32_t, D8>;
using DI32 = hn::RebindToSigned<D32>;
using V8 = hn::Vec<D8>;
using VI32 = hn::Vec<DI32>;

// The use of a vector of offsets t (element = lowest + t).
enum class Use {
  dot_small,  // acc += t . x, all t < 128; the caller adds lowest * sum(x)
  dot,        // acc += (lowest + t) . x
  store,      // decoded = lowest + t
};

// Bits [kFrom, kFrom + kWidth) of each byte, moved to bit kTo.
template <int kFrom, int kTo, int kWidth>
HWY_INLINE V8 MoveField(V8 v) {
  const D8 d8;
  const D16 d16;
  constexpr uint8_t kMask = static_cast<uint8_t>(((1 << kWidth) - 1) << kTo);
  if constexpr (kFrom > kTo) {
    v = hn::BitCast(d8, hn::ShiftRight<kFrom - kTo>(hn::BitCast(d16, v)));
  } else if constexpr (kFrom < kTo) {
    v = hn::BitCast(d8, hn::ShiftLeft<kTo - kFrom>(hn::BitCast(d16, v)));
  }
  return hn::And(v, hn::Set(d8, kMask));
}

// The raw bits of the columns [32 * kGroup + at, + Lanes) of a tile (kGroup 0..7), from its planes.
template <int kRawBits, int kGroup>
HWY_INLINE V8 RawBits(const uint8_t* HWY_RESTRICT planes, size_t at) {
  const D8 d8;
  constexpr int kBytes4 = kRawBits & 4 ? 128 : 0, kBytes2 = kRawBits & 2 ? 64 : 0;
  V8 raw = hn::Zero(d8);
  if constexpr (kRawBits & 4)
    raw = MoveField<4 * (kGroup / 4), kRawBits - 4, 4>(hn::LoadU(d8, planes + 32 * (kGroup % 4) + at));
  if constexpr (kRawBits & 2)
    raw = hn::Or(
        raw, MoveField<2 * (kGroup / 2), kRawBits & 1, 2>(hn::LoadU(d8, planes + kBytes4 + 32 * (kGroup % 2) + at)));
  if constexpr (kRawBits & 1)
    raw = hn::Or(raw, MoveField<kGroup, 0, 1>(hn::LoadU(d8, planes + kBytes4 + kBytes2 + at)));
  return raw;
}

// acc += t . x; t < 128, or any int8 if kSigned.
template <bool kSigned>
HWY_INLINE VI32 Dot(V8 t, hn::Vec<DI8> x, VI32 acc) {
  const DI8 di8;
  const DI32 di32;
#if HWY_ARCH_X86
  if constexpr (!kSigned) {
    if constexpr (HWY_TARGET <= HWY_AVX3_DL) return hn::SumOfMulQuadAccumulate(di32, t, x, acc);  // VNNI
    // 127 * 128 * 2 fits int16, so the pairwise product never saturates.
    const DI16 di16;
    return hn::Add(acc, hn::WidenMulPairwiseAdd(di32, hn::SatWidenMulPairwiseAdd(di16, t, x), hn::Set(di16, 1)));
  }
#endif
  return hn::SumOfMulQuadAccumulate(di32, hn::BitCast(di8, t), x, acc);
}

template <Use kUse>
HWY_INLINE void Emit(V8 t, V8 lowest, const int8_t* HWY_RESTRICT x, int8_t* HWY_RESTRICT decoded, VI32& acc) {
  const D8 d8;
  const DI8 di8;
  if constexpr (kUse == Use::dot_small) {
    acc = Dot<false>(t, hn::LoadU(di8, x), acc);
  } else if constexpr (kUse == Use::dot) {
    acc = Dot<true>(hn::Add(t, lowest), hn::LoadU(di8, x), acc);
  } else {
    hn::StoreU(hn::Add(t, lowest), d8, reinterpret_cast<uint8_t*>(decoded));
  }
}

// Two entry vectors to one vector of tuples.
HWY_INLINE V8 Tuples(const uint32_t* HWY_RESTRICT entries) {
  const D8 d8;
  const D16 d16;
  const D32 d32;
  const auto lo = hn::BitCast(d16, hn::LoadU(d32, entries));
  const auto hi = hn::BitCast(d16, hn::LoadU(d32, entries + hn::Lanes(d32)));
  return hn::BitCast(d8, hn::ConcatOdd(d16, hi, lo));
}

// The columns from 64 * kPart on of a tile.
template <int kTuple, int kRawBits, Use kUse, int kPart>
HWY_INLINE void Part(const uint32_t* HWY_RESTRICT entries, const uint8_t* HWY_RESTRICT planes, V8 lowest,
                     const int8_t* HWY_RESTRICT x, int8_t* HWY_RESTRICT decoded, VI32& acc0, VI32& acc1) {
  const size_t lanes = hn::Lanes(D8());
  for (size_t at = 0; at < 32; at += lanes) {
    V8 high0, high1;
    if constexpr (kTuple == 4) {
      const V8 tuples = Tuples(entries + 16 * kPart + at / 2);
      high0 = MoveField<0, kRawBits, 4>(tuples);
      high1 = MoveField<4, kRawBits, 4>(tuples);
    } else {
      high0 = MoveField<0, kRawBits, 8>(Tuples(entries + 32 * kPart + at / 2));
      high1 = MoveField<0, kRawBits, 8>(Tuples(entries + 32 * kPart + 16 + at / 2));
    }
    const V8 t0 = hn::Or(high0, RawBits<kRawBits, 2 * kPart>(planes, at));
    const V8 t1 = hn::Or(high1, RawBits<kRawBits, 2 * kPart + 1>(planes, at));
    Emit<kUse>(t0, lowest, x + 64 * kPart + at, decoded + 64 * kPart + at, acc0);
    Emit<kUse>(t1, lowest, x + 64 * kPart + 32 + at, decoded + 64 * kPart + 32 + at, acc1);
  }
}

// Walks `tiles` full tiles; returns the sum of their products (0 for store).
template <int kTuple, int kRawBits, Use kUse>
int32_t Tiles(const uint32_t* HWY_RESTRICT entries, const uint8_t* HWY_RESTRICT planes, int64_t tiles, int32_t lowest,
              const int8_t* HWY_RESTRICT x, int8_t* HWY_RESTRICT decoded) {
  const V8 lowest_v = hn::Set(D8(), static_cast<uint8_t>(lowest));
  VI32 acc0 = hn::Zero(DI32()), acc1 = acc0;
  for (; tiles > 0; --tiles) {
    // The raw bits stream from memory: 2 KiB ahead.
    for (int line = 0; line < kRawBits * 32; line += 64) hwy::Prefetch(planes + 2048 + line);
    Part<kTuple, kRawBits, kUse, 0>(entries, planes, lowest_v, x, decoded, acc0, acc1);
    Part<kTuple, kRawBits, kUse, 1>(entries, planes, lowest_v, x, decoded, acc0, acc1);
    Part<kTuple, kRawBits, kUse, 2>(entries, planes, lowest_v, x, decoded, acc0, acc1);
    Part<kTuple, kRawBits, kUse, 3>(entries, planes, lowest_v, x, decoded, acc0, acc1);
    entries += kTileCols / kTuple;
    planes += 32 * kRawBits;
    x += kTileCols;
    if constexpr (kUse == Use::store) decoded += kTileCols;
  }
  return hn::ReduceSum(DI32(), hn::Add(acc0, acc1));
}

using TilesFunction = int32_t (*)(const uint32_t*, const uint8_t*, int64_t, int32_t, const int8_t*, int8_t*);

template <int kTuple, Use kUse>
TilesFunction TilesFor(uint32_t raw_bits) {
  constexpr TilesFunction kFunctions[8] = {Tiles<kTuple, 0, kUse>, Tiles<kTuple, 1, kUse>, Tiles<kTuple, 2, kUse>,
                                           Tiles<kTuple, 3, kUse>, Tiles<kTuple, 4, kUse>, Tiles<kTuple, 5, kUse>,
                                           Tiles<kTuple, 6, kUse>, Tiles<kTuple, 7, kUse>};
  return kFunctions[raw_bits];
}

template <bool kMatvec>
TilesFunction ChooseTiles(const Stored& stored, bool small) {
  const uint32_t raw_bits = stored.raw_bits;
  if constexpr (!kMatvec)
    return stored.tuple == 4 ? TilesFor<4, Use::store>(raw_bits) : TilesFor<2, Use::store>(raw_bits);
  if (small) return stored.tuple == 4 ? TilesFor<4, Use::dot_small>(raw_bits) : TilesFor<2, Use::dot_small>(raw_bits);
  return stored.tuple == 4 ? TilesFor<4, Use::dot>(raw_bits) : TilesFor<2, Use::dot>(raw_bits);
}

// A row's last columns, fewer than a tile: plain expansion, then the product over whole vectors (x is padded with
// zeros) or a copy.
template <bool kMatvec>
int32_t Rest(const Stored& stored, const uint32_t* entries, const uint8_t* raw, int64_t cols, const int8_t* x,
             int8_t* decoded) {
  const DI8 di8;
  HWY_ALIGN uint8_t offsets[kTileCols];
  expand_tile(stored, entries, raw, cols, offsets);
  const V8 lowest = hn::Set(D8(), static_cast<uint8_t>(stored.lowest));
  VI32 acc = hn::Zero(DI32());
  if constexpr (kMatvec) {
    for (int64_t i = 0; i < cols; i += static_cast<int64_t>(hn::Lanes(di8)))
      acc = Dot<true>(hn::Add(hn::Load(D8(), offsets + i), lowest), hn::LoadU(di8, x + i), acc);
  } else {
    for (int64_t i = 0; i < cols; ++i)
      decoded[i] = static_cast<int8_t>(static_cast<uint8_t>(offsets[i] + stored.lowest));
  }
  return hn::ReduceSum(DI32(), acc);
}

// A function of its own, so that eight windows, table, mask and output have the registers to themselves.
template <int kStreamCount>
HWY_NOINLINE void Walk(Streams<kStreamCount>& streams, const uint32_t* HWY_RESTRICT table, uint64_t mask, int64_t units,
                       uint32_t* HWY_RESTRICT entries) {
  walk<HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2>(streams, table, mask, units, entries);
}

template <int kStreamCount, typename Args>
void RunRows(const Args& args, const Stored& stored, const uint32_t* table, uint32_t largest) {
  constexpr bool kMatvec = kIsMatvec<Args>;
  const bool small = ((largest + 1) << stored.raw_bits) <= 128;
  const int8_t* x = nullptr;
  if constexpr (kMatvec) x = args.x;
  const uint64_t mask = (uint64_t{1} << stored.table_bits) - 1;
  const int64_t cols = stored.cols, units = units_of(cols, stored.tuple), full_cols = cols / kTileCols * kTileCols;
  const TilesFunction tiles_function = ChooseTiles<kMatvec>(stored, small);
  int32_t bias = 0;
  if (kMatvec && small) {
    for (int64_t i = 0; i < full_cols; ++i) bias += x[i];
    bias *= stored.lowest;
  }
  Streams<kStreamCount> streams;
  PatchList patches;
  HWY_ALIGN uint32_t entries[kMaxSegmentUnits];
  for (int64_t row = args.rows.begin; row < args.rows.end; ++row) {
    const int64_t row_in_block = row % stored.rows_per_block;
    if (row_in_block == 0) {
      open_block(stored, row / stored.rows_per_block, streams);
      patches = open_patches(stored, row / stored.rows_per_block);
    }
    const uint8_t* raw = stored.planes + row * stored.row_bytes;
    int8_t* decoded = nullptr;
    if constexpr (!kMatvec) decoded = reinterpret_cast<int8_t*>(args.out) + (row - args.rows.begin) * cols;
    int32_t sum = bias;
    for (int64_t segment = 0; segment < cols; segment += kSegmentCols) {
      // Eight streams of a few KiB are too many and too short for most hardware prefetchers.
      for (int j = 0; j < kStreamCount; ++j)
        for (int line = 0; line < 192; line += 64) hwy::Prefetch(streams.next[j] + 512 + line);
      Walk(streams, table, mask, std::min<int64_t>(kSegmentCols / stored.tuple, units - segment / stored.tuple),
           entries);
      const int64_t tiles = (std::min(full_cols, segment + kSegmentCols) - segment) / kTileCols;
      if (tiles > 0) {
        sum += tiles_function(entries, raw, tiles, stored.lowest, x + segment, kMatvec ? nullptr : decoded + segment);
        raw += tiles * 32 * stored.raw_bits;
      }
      const int64_t rest = std::min(cols, segment + kSegmentCols) - segment - tiles * kTileCols;
      if (rest > 0) {
        const int64_t first = segment + tiles * kTileCols;
        sum += Rest<kMatvec>(stored, entries + tiles * kTileCols / stored.tuple, raw, rest, x + first,
                             kMatvec ? nullptr : decoded + first);
      }
    }
    const int64_t first = row_in_block * cols;
    for (; patches.position < first + cols; patches.advance()) {
      const int64_t column = patches.position - first;
      if constexpr (kMatvec) {
        sum += patches.addend * x[column];
      } else {
        decoded[column] = static_cast<int8_t>(decoded[column] + patches.addend);
      }
    }
    if constexpr (kMatvec) args.y[row] = sum;
  }
}

template <int kStreamCount, typename Args>
void Run(const Stored& stored, const Args& args) {
  build_and_run<RunRows<kStreamCount, Args>>(stored, args);
}

template <typename Args>
backends::BoundKernel Bind(const CompressedView& matrix) {
  return bind_tuples<Args>(matrix, Run<4, Args>, Run<8, Args>, Run<16, Args>);
}
backends::BoundKernel BindDecode(const CompressedView& matrix) { return Bind<backends::DecodeArgs>(matrix); }
backends::BoundKernel BindMatvec(const CompressedView& matrix) { return Bind<backends::MatvecArgs>(matrix); }

}  // namespace ecmv::codecs::huffman_lut::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::huffman_lut {
namespace {

HWY_EXPORT(BindDecode);
HWY_EXPORT(BindMatvec);

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindDecode)(*layers[0].matrix);
}
backends::BoundKernel bind_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatvec)(*layers[0].matrix);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "tuples", .refuses = single_level::refuses_layout, .bind = bind_decode},
    {.op = backends::Op::matvec, .variant = "tuples", .refuses = single_level::refuses_layout, .bind = bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_lut
#endif  // HWY_ONCE
