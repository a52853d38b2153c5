// SIMD kernels of tile_rans: the portable loops (tiles.h) decode tiles, vectors multiply. A row's symbols become floats
// once and are multiplied with four tokens at a time, which hides the sums' latency and shares loads of weights; with
// one token they never leave the registers. Levels are exact in float32.
#include <algorithm>

#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
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

// Room for weights and symbols after a row, so that whole vectors fit.
inline constexpr int kRoom = 64;

struct Scratch {
  TileScratch tile;
  uint8_t symbols[kTileBufferBytes + kRoom];
  float weights[kMostTileCols + kRoom];
};

// Symbols as weights.
class Weights {
 public:
  explicit Weights(const Levels& levels)
      : scale_(hn::Set(D(), levels.scale)), zero_point_(hn::Set(D(), levels.zero_point)) {}
  HWY_INLINE V At(const uint8_t* symbols) const {
    const hn::Rebind<uint8_t, D> d8;
    const hn::RebindToSigned<D> di;
    return hn::MulAdd(hn::ConvertTo(D(), hn::PromoteTo(di, hn::LoadU(d8, symbols))), scale_, zero_point_);
  }

 private:
  V scale_, zero_point_;
};

// After the tile's last column x belongs to the next tile or is zero, and weights are undefined, so the last vector is
// masked.
HWY_INLINE float MultiplyOne(const Weights& weights, const uint8_t* symbols, const float* x, int cols) {
  const D d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  V s0 = hn::Zero(d), s1 = s0;
  int col = 0;
  for (; col + 2 * lanes <= cols; col += 2 * lanes) {
    s0 = hn::MulAdd(weights.At(symbols + col), hn::LoadU(d, x + col), s0);
    s1 = hn::MulAdd(weights.At(symbols + col + lanes), hn::LoadU(d, x + col + lanes), s1);
  }
  for (; col < cols; col += lanes)
    s0 = hn::MulAdd(weights.At(symbols + col), hn::LoadN(d, x + col, static_cast<size_t>(HWY_MIN(lanes, cols - col))),
                    s0);
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
    for (int t = 0; t < kTokens; ++t)
      sums[t] = hn::MulAdd(w, hn::LoadN(d, x + t * stride + col, static_cast<size_t>(cols - col)), sums[t]);
  }
  for (int t = 0; t < kTokens; ++t) y[t * rows] += hn::ReduceSum(d, sums[t]);
}

void MultiplyRow(const backends::MatmulArgs& args, int batch, const Weights& weights, const uint8_t* symbols,
                 int64_t row, int64_t first_col, int cols, float* buffer) {
  const D d;
  const float* x = args.x + first_col;
  float* y = args.y + row;
  const int64_t rows = args.y_stride;
  if (batch == 1) {
    *y += MultiplyOne(weights, symbols, x, cols);
    return;
  }
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int col = 0; col < cols; col += lanes) hn::StoreU(weights.At(symbols + col), d, buffer + col);
  int token = 0;
  for (; token + 4 <= batch; token += 4)
    MultiplyTokens<4>(buffer, x + token * args.x_stride, args.x_stride, cols, y + token * rows, rows);
  for (; token < batch; ++token)
    MultiplyTokens<1>(buffer, x + token * args.x_stride, args.x_stride, cols, y + token * rows, rows);
}

struct Multiply {
  BoundTiles tiles;
  int batch;
  void operator()(void*, const backends::MatmulArgs& args) const {
    for (int token = 0; token < batch; ++token)
      std::fill(args.y + token * args.y_stride + args.rows.begin, args.y + token * args.y_stride + args.rows.end, 0.0f);
    if (tiles.layout.tiles() == 0) return;
    auto& scratch = *reinterpret_cast<Scratch*>(args.scratch);
    std::memset(
        scratch.symbols, 0,
        sizeof(scratch.symbols));  // vectors after a row see levels only: no infinity that is multiplied with zero
    const TileDecoder decoder(tiles, scratch.tile);
    const Layout& layout = decoder.layout();
    const Weights weights(tiles.levels);
    for (int64_t down = args.rows.begin / kTileRows; down * kTileRows < args.rows.end; ++down)
      for (int64_t across = 0; across < layout.tiles_across; ++across) {
        const Tile tile = tile_at(layout, down, across);
        const int stride = decoder.decode(tile, scratch.symbols);
        for (int row = 0; row < tile.rows; ++row)
          MultiplyRow(args, batch, weights, scratch.symbols + row * stride, tile.row + row, tile.col, tile.cols,
                      scratch.weights);
      }
  }
};

backends::BoundKernel BindMatmul(const CompressedView& matrix, int batch) {
  const BoundTiles tiles = bound_tiles(matrix);
  return {Multiply{tiles, batch}, {.rows_per_block = kTileRows, .scratch_bytes = sizeof(Scratch)}};
}

}  // namespace ecmv::codecs::tile_rans::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ecmv::codecs::tile_rans {
namespace {

HWY_EXPORT(BindMatmul);

backends::BoundKernel bind_matmul(const backends::Policy&, backends::Layers layers, int batch, backends::Place&) {
  return HWY_DYNAMIC_DISPATCH(BindMatmul)(*layers[0].matrix, batch);
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::matmul, .variant = "tiles", .bind = bind_matmul},
};

}  // namespace

std::span<const backends::Kernel> simd_kernels() { return kKernels; }

}  // namespace ecmv::codecs::tile_rans
#endif  // HWY_ONCE
