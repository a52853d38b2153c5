// The loop that all SIMD engines of rans share: kBlocks independent blocks at once, piece by piece, each piece handed to
// the output or multiplied in the first-level cache. Blocks are the source of parallelism: with 32 lanes one block is a
// single chain of dependent steps, while four blocks fill the pipelines and share every load of x. An engine
// gives kVectors (vectors of 16-bit lanes in a step) and Steps<kBlocks>(). Per-target header.
#if defined(ECMV_CODECS_RANS_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ECMV_CODECS_RANS_BLOCKS_INL_H_
#undef ECMV_CODECS_RANS_BLOCKS_INL_H_
#else
#define ECMV_CODECS_RANS_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "backends/cpu/dot-inl.h"
#include "backends/cpu/piece_product-inl.h"
#include "backends/kernel.h"
#include "codecs/rans/format.h"
#include "codecs/rans/model.h"
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

// Scratch of the loop: one piece for each of at most four blocks, and a vector behind.
inline constexpr int64_t kPieceStride = kPieceElements + 64;
inline constexpr int64_t kPiecesBytes = 4 * kPieceStride;

template <int kBlocks, class Engine>
HWY_INLINE void RunBlocks(const Engine& engine, const backends::KernelCall& call, const Layout& layout, int64_t block, int8_t* pieces) {
  const auto shape = call.matrix->shape;
  const auto* offsets = call.matrix->sections[kBlockOffsets].bytes.data();
  const auto* payload = reinterpret_cast<const uint8_t*>(call.matrix->sections[kPayload].bytes.data());
  const int64_t elements = block_elements(layout, shape, block);
  BlockState states[kBlocks];
  int8_t* outs[kBlocks];
  int32_t* y[kBlocks];
  int8_t* decoded[kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    uint64_t offset;
    std::memcpy(&offset, offsets + 8 * (block + b), 8);
    states[b].Begin(payload + offset, layout.lanes);
    const int64_t row = (block + b) * layout.rows_per_block;
    y[b] = call.decoded == nullptr ? call.y + row : nullptr;
    decoded[b] = call.decoded == nullptr ? nullptr : call.decoded + (row - call.row_begin) * shape.cols;
  }
  for (int64_t begin = 0; begin < elements; begin += kPieceElements) {
    const int64_t count = std::min(kPieceElements, elements - begin);
    if (call.decoded == nullptr) {
      for (int b = 0; b < kBlocks; ++b) outs[b] = pieces + b * kPieceStride;
      engine.template Steps<kBlocks>(states, (count + layout.lanes - 1) / layout.lanes, outs);
      cpu::MultiplyPieces<kBlocks>(pieces, kPieceStride, begin, count, shape.cols, call.x, y);
      continue;
    }
    const int64_t whole = count / layout.lanes * layout.lanes, rest = count - whole;
    for (int b = 0; b < kBlocks; ++b) outs[b] = decoded[b] + begin;
    engine.template Steps<kBlocks>(states, whole / layout.lanes, outs);
    if (rest == 0) continue;
    for (int b = 0; b < kBlocks; ++b) outs[b] = pieces + b * kPieceStride;
    engine.template Steps<kBlocks>(states, 1, outs);
    for (int b = 0; b < kBlocks; ++b) std::memcpy(decoded[b] + begin + whole, pieces + b * kPieceStride, static_cast<size_t>(rest));
  }
}

// All blocks of a call, Engine::kBlocks at once while they are equally long, the others one by one.
template <class Engine>
HWY_NOINLINE void RunCall(const Engine& engine, const backends::KernelCall& call, const Layout& layout, int8_t* pieces) {
  int64_t block = call.row_begin / layout.rows_per_block;
  const int64_t end = (call.row_end + layout.rows_per_block - 1) / layout.rows_per_block;
  const int64_t end_full = call.row_end / layout.rows_per_block;
  for (; block + Engine::kBlocks <= end_full; block += Engine::kBlocks) RunBlocks<Engine::kBlocks>(engine, call, layout, block, pieces);
  for (; block < end; ++block) RunBlocks<1>(engine, call, layout, block, pieces);
}

// What needs no engine: matrices without elements and those of one value. Otherwise only prepares y and returns false.
HWY_INLINE bool RunTrivial(const backends::KernelCall& call, const Layout& layout, const Model& model) {
  const int64_t cols = call.matrix->shape.cols, rows = call.row_end - call.row_begin;
  if (call.decoded == nullptr) {
    const bool constant = layout.blocks == 0 || model.symbols == 1;
    const int32_t weight = constant ? (layout.blocks == 0 ? 0 : model.value[0]) : (cpu::kDotIsBiased ? -128 : 0);
    std::fill(call.y + call.row_begin, call.y + call.row_end, weight == 0 ? 0 : weight * cpu::SumX(call.x, cols));
    return constant;
  }
  if (layout.blocks == 0) return true;
  if (model.symbols == 1) std::memset(call.decoded, model.value[0], static_cast<size_t>(rows * cols));
  return model.symbols == 1;
}

}  // namespace ecmv::codecs::rans::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // ECMV_CODECS_RANS_BLOCKS_INL_H_
