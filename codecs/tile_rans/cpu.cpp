// Portable kernels of tile_rans, both tile by tile: a tile's symbols go to a buffer of the first-level cache, from there to memory as
// elements, or, row by row as floats, to the products with all tokens. Levels are exact in float32, so the products are plain float32 sums.
#include <algorithm>

#include "backends/kernel.h"
#include "codecs/tile_rans/levels.h"
#include "codecs/tile_rans/tiles.h"

namespace ecmv::codecs::tile_rans {
namespace {

struct Scratch {
  TileScratch tile;
  uint8_t symbols[kTileBufferBytes];
};

// Calls f(tile, symbols, columns of a row there) for the tiles of a call's rows.
template <typename F>
void for_each_tile(const backends::KernelCall& call, F f) {
  auto& scratch = *reinterpret_cast<Scratch*>(call.scratch);
  const TileDecoder decoder(*call.matrix, scratch.tile);
  const Layout& layout = decoder.layout();
  if (layout.tiles() == 0) return;
  for (int64_t down = call.row_begin / layout.tile_rows; down * layout.tile_rows < call.row_end; ++down)
    for (int64_t across = 0; across < layout.tiles_across; ++across) {
      const Tile tile = tile_at(layout, down, across);
      f(tile, scratch.symbols, decoder.decode(tile, scratch.symbols));
    }
}

template <class Element>
void decode_as(const backends::KernelCall& call) {
  const auto bits = level_bits(trusted_levels(call.matrix->sections[kLayer].bytes), call.matrix->type);
  Element elements[kLevels];
  for (int s = 0; s < kLevels; ++s) elements[s] = static_cast<Element>(bits[s].value_or(0));
  const int64_t cols = call.matrix->shape.cols;
  for_each_tile(call, [&](const Tile& tile, const uint8_t* symbols, int stride) {
    for (int row = 0; row < tile.rows; ++row) {
      auto* out = reinterpret_cast<std::byte*>(call.decoded) + ((tile.row - call.row_begin + row) * cols + tile.col) * static_cast<int64_t>(sizeof(Element));
      for (int col = 0; col < tile.cols; ++col) std::memcpy(out + col * sizeof(Element), &elements[symbols[row * stride + col]], sizeof(Element));
    }
  });
}

void decode(const backends::KernelCall& call) {
  if (call.matrix->shape.elements() == 0) return;
  switch (datasets::element_bytes(call.matrix->type)) {
    case 1: return decode_as<uint8_t>(call);
    case 2: return decode_as<uint16_t>(call);
    default: return decode_as<uint32_t>(call);
  }
}

void matmul(const backends::KernelCall& call) {
  const datasets::Shape shape = call.matrix->shape;
  for (int token = 0; token < call.batch; ++token) std::fill(call.y_tokens + token * shape.rows + call.row_begin, call.y_tokens + token * shape.rows + call.row_end, 0.0f);
  if (shape.elements() == 0) return;
  const Levels levels = trusted_levels(call.matrix->sections[kLayer].bytes);
  float values[kLevels];
  for (int s = 0; s < kLevels; ++s) values[s] = static_cast<float>(levels.value(s));
  for_each_tile(call, [&](const Tile& tile, const uint8_t* symbols, int stride) {
    float weights[kMostTileCols];
    for (int row = 0; row < tile.rows; ++row) {
      for (int col = 0; col < tile.cols; ++col) weights[col] = values[symbols[row * stride + col]];
      for (int token = 0; token < call.batch; ++token) {
        const float* x = call.x_tokens + token * call.x_stride + tile.col;
        float sum = 0;
        for (int col = 0; col < tile.cols; ++col) sum += weights[col] * x[col];
        call.y_tokens[token * shape.rows + tile.row + row] += sum;
      }
    }
  });
}

int64_t rows_per_block(const CompressedView& matrix) { return layout_of(matrix.shape, *matrix.settings).tile_rows; }
int64_t scratch_bytes(const CompressedView&, int) { return sizeof(Scratch); }

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "tiles", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .rows_per_block = rows_per_block,
     .scratch_bytes = scratch_bytes, .launch = decode},
    {.op = backends::Op::matmul, .variant = "tiles", .tunings = backends::kDefaultTuning, .refuses = backends::refuses_nothing, .rows_per_block = rows_per_block,
     .scratch_bytes = scratch_bytes, .launch = matmul},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::tile_rans
