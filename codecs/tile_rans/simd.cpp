// SIMD kernels of tile_rans: tiles are decoded by the portable loops (tiles.h), the products are vectors. A row's symbols become floats once and
// are multiplied with four tokens at a time, so that the sums' latency is hidden and loads of weights are shared; with one token they
// never leave the registers. Levels are exact in float32.
#include "backends/kernel.h"
#include "codecs/tile_rans/levels.h"
#include "codecs/tile_rans/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/tile_rans/simd.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ecmv::codecs::tile_rans::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Room of weights and symbols behind a row, for whole vectors.
inline constexpr int kBehind = 64;

struct Scratch {
  TileScratch tile;
  uint8_t symbols[kTileBufferBytes + kBehind];
  float weights[kMostTileCols + kBehind];
};

// Symbols as weights.
class Weights {
 public:
  explicit Weights(const Levels& levels) : scale_(hn::Set(D(), levels.scale)), zero_point_(hn::Set(D(), levels.zero_point)) {}
  HWY_INLINE V At(const uint8_t* symbols) const {
    const hn::Rebind<uint8_t, D> d8;
    const hn::RebindToSigned<D> di;
    return hn::MulAdd(hn::ConvertTo(D(), hn::PromoteTo(di, hn::LoadU(d8, symbols))), scale_, zero_point_);
  }

 private:
  V scale_, zero_point_;
};

// Behind the tile's last column x is that of the next tile or zero, and weights are anything: the last vector is cut off.
HWY_INLINE float MultiplyOne(const Weights& weights, const uint8_t* symbols, const float* x, int cols) {
  const D d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  V s0 = hn::Zero(d), s1 = s0;
  int col = 0;
  for (; col + 2 * lanes <= cols; col += 2 * lanes) {
    s0 = hn::MulAdd(weights.At(symbols + col), hn::LoadU(d, x + col), s0);
    s1 = hn::MulAdd(weights.At(symbols + col + lanes), hn::LoadU(d, x + col + lanes), s1);
  }
  for (; col < cols; col += lanes) s0 = hn::MulAdd(weights.At(symbols + col), hn::LoadN(d, x + col, static_cast<size_t>(HWY_MIN(lanes, cols - col))), s0);
  return hn::ReduceSum(d, hn::Add(s0, s1));
}

template <int kTokens>
HWY_INLINE void MultiplyTokens(const float* weights, const float* x, int64_t stride, int cols, float* y, int64_t rows) {
  const D d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  V sums[kTokens];
  for (V& sum : sums) sum = hn::Zero(d);
  int col = 0;
  for (; col + lanes <= cols; col += lanes) {
    const V w = hn::LoadU(d, weights + col);
    for (int t = 0; t < kTokens; ++t) sums[t] = hn::MulAdd(w, hn::LoadU(d, x + t * stride + col), sums[t]);
  }
  if (col < cols) {
    const V w = hn::LoadU(d, weights + col);
    for (int t = 0; t < kTokens; ++t) sums[t] = hn::MulAdd(w, hn::LoadN(d, x + t * stride + col, static_cast<size_t>(cols - col)), sums[t]);
  }
  for (int t = 0; t < kTokens; ++t) y[t * rows] += hn::ReduceSum(d, sums[t]);
}

void MultiplyRow(const backends::KernelCall& call, const Weights& weights, const uint8_t* symbols, int64_t row, int64_t first_col, int cols, float* buffer) {
  const D d;
  const float* x = call.x_tokens + first_col;
  float* y = call.y_tokens + row;
  const int64_t rows = call.matrix->shape.rows;
  if (call.batch == 1) {
    *y += MultiplyOne(weights, symbols, x, cols);
    return;
  }
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int col = 0; col < cols; col += lanes) hn::StoreU(weights.At(symbols + col), d, buffer + col);
  int token = 0;
  for (; token + 4 <= call.batch; token += 4) MultiplyTokens<4>(buffer, x + token * call.x_stride, call.x_stride, cols, y + token * rows, rows);
  for (; token < call.batch; ++token) MultiplyTokens<1>(buffer, x + token * call.x_stride, call.x_stride, cols, y + token * rows, rows);
}

void Matmul(const backends::KernelCall& call) {
  const datasets::Shape shape = call.matrix->shape;
  for (int token = 0; token < call.batch; ++token) std::fill(call.y_tokens + token * shape.rows + call.row_begin, call.y_tokens + token * shape.rows + call.row_end, 0.0f);
  if (shape.elements() == 0) return;
  auto& scratch = *reinterpret_cast<Scratch*>(call.scratch);
  std::memset(scratch.symbols, 0, sizeof(scratch.symbols));  // vectors behind a row see levels only: no infinity that is multiplied with zero
  const TileDecoder decoder(*call.matrix, scratch.tile);
  const Layout& layout = decoder.layout();
  const Weights weights(trusted_levels(call.matrix->sections[kLayer].bytes));
  for (int64_t down = call.row_begin / layout.tile_rows; down * layout.tile_rows < call.row_end; ++down)
    for (int64_t across = 0; across < layout.tiles_across; ++across) {
      const Tile tile = tile_at(layout, down, across);
      const int stride = decoder.decode(tile, scratch.symbols);
      for (int row = 0; row < tile.rows; ++row) MultiplyRow(call, weights, scratch.symbols + row * stride, tile.row + row, tile.col, tile.cols, scratch.weights);
    }
}

int64_t ScratchBytes() { return sizeof(Scratch); }

}  // namespace ecmv::codecs::tile_rans::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::tile_rans {
namespace {

HWY_EXPORT(Matmul);
HWY_EXPORT(ScratchBytes);

void matmul(const backends::KernelCall& call) { HWY_DYNAMIC_DISPATCH(Matmul)(call); }
int64_t scratch_bytes(const CompressedView&, int) { return HWY_DYNAMIC_DISPATCH(ScratchBytes)(); }
int64_t rows_per_block(const CompressedView& matrix) { return layout_of(matrix.shape, *matrix.settings).tile_rows; }

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::matmul, .variant = "tiles", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .rows_per_block = rows_per_block,
     .scratch_bytes = scratch_bytes, .launch = matmul},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::tile_rans
#endif  // HWY_ONCE
