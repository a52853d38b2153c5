// Portable kernels of tile_rans, which work tile by tile. A tile's symbols go to a buffer of the first-level cache;
// from there they go to memory as elements, or row by row as floats to the products with all tokens. Levels are exact
// in float32, so the products are plain float32 sums.
#include <algorithm>

#include "backends/kernel.h"
#include "codecs/tile_rans/tiles.h"

namespace ecmv::codecs::tile_rans {
namespace {

struct Scratch {
  TileScratch tile;
  uint8_t symbols[kTileBufferBytes];
};

// Calls f(tile, symbols, columns of a row there) for the tiles of some rows.
template <typename F>
void for_each_tile(const BoundTiles& tiles, backends::Rows rows, std::byte* scratch_bytes, F f) {
  auto& scratch = *reinterpret_cast<Scratch*>(scratch_bytes);
  const TileDecoder decoder(tiles, scratch.tile);
  const Layout& layout = decoder.layout();
  if (layout.tiles() == 0) return;
  for (int64_t down = rows.begin / kTileRows; down * kTileRows < rows.end; ++down)
    for (int64_t across = 0; across < layout.tiles_across; ++across) {
      const Tile tile = tile_at(layout, down, across);
      f(tile, scratch.symbols, decoder.decode(tile, scratch.symbols));
    }
}

template <class Element>
struct Decode {
  BoundTiles tiles;
  void operator()(void*, const backends::DecodeArgs& args) const {
    if (tiles.layout.tiles() == 0) return;
    const auto bits = level_bits(tiles.levels, tiles.type);
    Element elements[kLevels];
    for (int s = 0; s < kLevels; ++s) elements[s] = static_cast<Element>(bits[s].value_or(0));
    const int64_t cols = tiles.layout.shape.cols;
    for_each_tile(tiles, args.rows, args.scratch, [&](const Tile& tile, const uint8_t* symbols, int stride) {
      for (int row = 0; row < tile.rows; ++row) {
        auto* out =
            args.out + ((tile.row - args.rows.begin + row) * cols + tile.col) * static_cast<int64_t>(sizeof(Element));
        for (int col = 0; col < tile.cols; ++col)
          std::memcpy(out + col * sizeof(Element), &elements[symbols[row * stride + col]], sizeof(Element));
      }
    });
  }
};

struct Multiply {
  BoundTiles tiles;
  int batch;
  void operator()(void*, const backends::MatmulArgs& args) const {
    for (int token = 0; token < batch; ++token)
      std::fill(args.y + token * args.y_stride + args.rows.begin, args.y + token * args.y_stride + args.rows.end, 0.0f);
    float values[kLevels];
    for (int s = 0; s < kLevels; ++s) values[s] = static_cast<float>(tiles.levels.value(s));
    for_each_tile(tiles, args.rows, args.scratch, [&](const Tile& tile, const uint8_t* symbols, int stride) {
      float weights[kMostTileCols];
      for (int row = 0; row < tile.rows; ++row) {
        for (int col = 0; col < tile.cols; ++col) weights[col] = values[symbols[row * stride + col]];
        for (int token = 0; token < batch; ++token) {
          const float* x = args.x + token * args.x_stride + tile.col;
          float sum = 0;
          for (int col = 0; col < tile.cols; ++col) sum += weights[col] * x[col];
          args.y[token * args.y_stride + tile.row + row] += sum;
        }
      }
    });
  }
};

template <class Body>
backends::BoundKernel bound(const Body& body) {
  return {body, {.rows_per_block = kTileRows, .scratch_bytes = sizeof(Scratch)}};
}

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const BoundTiles tiles = bound_tiles(*layers[0].matrix);
  switch (datasets::element_bytes(tiles.type)) {
    case 1: return bound(Decode<uint8_t>{tiles});
    case 2: return bound(Decode<uint16_t>{tiles});
    default: return bound(Decode<uint32_t>{tiles});
  }
}

backends::BoundKernel bind_matmul(const backends::Policy&, backends::Layers layers, int batch, backends::Place&) {
  return bound(Multiply{bound_tiles(*layers[0].matrix), batch});
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "tiles", .bind = bind_decode},
    {.op = backends::Op::matmul, .variant = "tiles", .bind = bind_matmul},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::tile_rans
