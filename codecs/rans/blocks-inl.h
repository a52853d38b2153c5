// The loop that all SIMD engines of rans share. It decodes kBlocks independent blocks at once, piece by piece, and
// stores each piece or multiplies it in the first-level cache. Blocks are the source of parallelism: with 32 lanes one
// block is a single chain of dependent steps, while four blocks fill the pipelines and share every load of x. An engine
// provides kVectors (vectors of 16-bit lanes in a step) and Steps<kBlocks>(). Per-target header.
#if defined(ECMV_CODECS_RANS_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_CODECS_RANS_BLOCKS_INL_H_
#undef ECMV_CODECS_RANS_BLOCKS_INL_H_
#else
#define ECMV_CODECS_RANS_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/products/dot-inl.h"
#include "backends/cpu/products/piece_product-inl.h"
#include "backends/kernel.h"
#include "codecs/rans/format.h"
#include "codecs/rans/model.h"
#include "codecs/rans/stream.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::rans::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace cpu = backends::cpu::HWY_NAMESPACE;

inline constexpr int64_t kPieceElements = 2048;
inline constexpr int64_t kPrefetchBytes = 2048;

// The states of one block in two planes: state = high << 16 | low.
struct alignas(64) BlockState {
  uint16_t high[kMaxLanes], low[kMaxLanes];
  const uint8_t* next;

  void Begin(const uint8_t* block, int lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      std::memcpy(&low[lane], block + 4 * lane, 2);
      std::memcpy(&high[lane], block + 4 * lane + 2, 2);
    }
    next = block + 4 * lanes;
  }
};

// The loop's scratch: one piece for each of at most four blocks, and a vector past them.
inline constexpr int64_t kPieceStride = kPieceElements + 64;
inline constexpr int64_t kPiecesBytes = 4 * kPieceStride;

// Args tells the operation: DecodeArgs or MatvecArgs.
template <class Args>
inline constexpr bool kDecodes = std::is_same_v<Args, backends::DecodeArgs>;

template <int kBlocks, class Engine, class Args>
HWY_INLINE void RunBlocks(const Engine& engine, const Stream& stream, const Args& args, int64_t block, int8_t* pieces) {
  const auto shape = stream.shape;
  const Layout& layout = stream.layout;
  const int64_t elements = block_elements(layout, shape, block);
  BlockState states[kBlocks];
  int8_t* outs[kBlocks];
  std::conditional_t<kDecodes<Args>, int8_t*, int32_t*> results[kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    uint64_t offset;
    std::memcpy(&offset, stream.offsets + 8 * (block + b), 8);
    states[b].Begin(stream.payload + offset, layout.lanes);
    const int64_t row = (block + b) * layout.rows_per_block;
    if constexpr (kDecodes<Args>)
      results[b] = reinterpret_cast<int8_t*>(args.out) + (row - args.rows.begin) * shape.cols;
    else
      results[b] = args.y + row;
  }
  for (int64_t begin = 0; begin < elements; begin += kPieceElements) {
    const int64_t count = std::min(kPieceElements, elements - begin);
    if constexpr (kDecodes<Args>) {
      const int64_t whole = count / layout.lanes * layout.lanes, rest = count - whole;
      for (int b = 0; b < kBlocks; ++b) outs[b] = results[b] + begin;
      engine.template Steps<kBlocks>(states, whole / layout.lanes, outs);
      if (rest == 0) continue;
      for (int b = 0; b < kBlocks; ++b) outs[b] = pieces + b * kPieceStride;
      engine.template Steps<kBlocks>(states, 1, outs);
      for (int b = 0; b < kBlocks; ++b)
        std::memcpy(results[b] + begin + whole, pieces + b * kPieceStride, static_cast<size_t>(rest));
    } else {
      for (int b = 0; b < kBlocks; ++b) outs[b] = pieces + b * kPieceStride;
      engine.template Steps<kBlocks>(states, (count + layout.lanes - 1) / layout.lanes, outs);
      cpu::MultiplyPieces<kBlocks>(pieces, kPieceStride, begin, count, shape.cols, args.x, results);
    }
  }
}

// y = weight * sum(x).
HWY_INLINE void FillProducts(const backends::MatvecArgs& args, int64_t cols, int32_t weight) {
  std::fill(args.y + args.rows.begin, args.y + args.rows.end, weight == 0 ? 0 : weight * cpu::SumX(args.x, cols));
}

// Decodes all blocks of the rows, Engine::kBlocks at once while they are equally long, the others one by one.
template <class Engine, class Args>
HWY_NOINLINE void RunAll(const Engine& engine, const Stream& stream, const Args& args) {
  const Layout& layout = stream.layout;
  auto* pieces = reinterpret_cast<int8_t*>(args.scratch);
  if constexpr (!kDecodes<Args>) FillProducts(args, stream.shape.cols, cpu::kDotIsBiased ? -128 : 0);
  int64_t block = args.rows.begin / layout.rows_per_block;
  const int64_t end = (args.rows.end + layout.rows_per_block - 1) / layout.rows_per_block;
  const int64_t end_full = args.rows.end / layout.rows_per_block;
  for (; block + Engine::kBlocks <= end_full; block += Engine::kBlocks)
    RunBlocks<Engine::kBlocks>(engine, stream, args, block, pieces);
  for (; block < end; ++block) RunBlocks<1>(engine, stream, args, block, pieces);
}

// Matrices without elements or with a single value need no engine.
template <class Args>
void RunConstant(const Stream& stream, const Args& args) {
  const int8_t value = stream.layout.blocks == 0 ? int8_t{0} : static_cast<int8_t>(stream.alphabet[0]);
  if constexpr (kDecodes<Args>) {
    if (const int64_t bytes = args.rows.count() * stream.shape.cols; bytes > 0)
      std::memset(args.out, value, static_cast<size_t>(bytes));
  } else {
    FillProducts(args, stream.shape.cols, value);
  }
}

}  // namespace ecmv::codecs::rans::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_CODECS_RANS_BLOCKS_INL_H_
