// Tiles for CPU kernels: decodes a tile's symbols into a buffer, row by row, without checks (the stream was verified
// before). A state of rans looks its symbol up in 4096 bytes made for each tile. The states of a step are independent,
// which keeps a core busy. No branch predictor learns whether a state needs a byte, so bytes are always loaded and then
// masked. In the last tile that would read beyond the codes, so it branches instead.
#pragma once

#include <array>
#include <cstring>

#include "codecs/compressed_matrix.h"
#include "codecs/tile_rans/levels.h"

namespace ecmv::codecs::tile_rans {

// Columns of the buffer's rows; panels may write beyond the tile.
inline constexpr int kMostTileCols = 512;
inline constexpr int64_t kTileBufferBytes = kTileRows * kMostTileCols;
// A lane's pairs of columns with the longest codes, in blocks of full lines, and the most lines of tails after them.
inline constexpr int kMostTileLines =
    64 * kMostTileCols / kLanes / 2 * kMostTableBits / 32 + kBlockLines + kMostTailWords + 1;

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// Buffers for decoding a tile, in the caller's scratch.
struct TileScratch {
  std::array<uint8_t, kTileSlots> slots;                // rans
  std::array<uint32_t, kMostTileLines * kLanes> lines;  // huffman_lanes: of a tile
};

// A matrix as kernels are bound to it. Without elements it has no levels.
struct BoundTiles {
  Layout layout;
  datasets::ElementType type;
  Levels levels;
  std::array<const std::byte*, kSections> sections;
};

inline BoundTiles bound_tiles(const CompressedView& matrix) {
  BoundTiles tiles{layout_of(matrix.shape, *matrix.settings), matrix.type, {}, {}};
  for (int i = 0; i < kSections; ++i) tiles.sections[i] = matrix.sections[i].bytes.data();
  if (tiles.layout.tiles() > 0) tiles.levels = trusted_levels(matrix.sections[kLayer].bytes);
  return tiles;
}

class TileDecoder {
 public:
  // `scratch` stays in use.
  TileDecoder(const BoundTiles& tiles, TileScratch& scratch)
      : layout_(tiles.layout), scratch_(scratch), sections_(tiles.sections) {}

  const Layout& layout() const { return layout_; }

  // Writes the tile's symbols to `out`; returns the columns of a row there.
  int decode(const Tile& tile, uint8_t* out) const {
    if (layout_.coder == Coder::rans) {
      tile.number + 1 < layout_.tiles() ? decode_streams<true>(tile, out) : decode_streams<false>(tile, out);
      return tile.cols;
    }
    const int stride = tile.panels_across * kPanelCols;
    if (layout_.coder == Coder::packed)
      unpack(tile, stride, out);
    else
      layout_.symbol_cols == 2 ? decode_lines<2>(tile, stride, out) : decode_lines<4>(tile, stride, out);
    return stride;
  }

 private:
  template <bool kMasked>
  void decode_streams(const Tile& tile, uint8_t* out) const {
    switch (layout_.streams) {
      case 4: return decode_bytes<kMasked, 4>(tile, out);
      case 8: return decode_bytes<kMasked, 8>(tile, out);
      case 16: return decode_bytes<kMasked, 16>(tile, out);
      case 32: return decode_bytes<kMasked, 32>(tile, out);
      default: return decode_bytes<kMasked, 64>(tile, out);
    }
  }

  template <bool kMasked, int kStreams>
  void decode_bytes(const Tile& tile, uint8_t* out) const {
    std::array<uint32_t, kLevels> frequency, first;
    uint32_t slot = 0;
    for (int s = 0; s < kLevels; ++s) {
      frequency[s] = load<uint16_t>(sections_[kTables] + tile.number * kTileTableBytes + 2 * s);
      first[s] = slot;
      std::memset(scratch_.slots.data() + slot, s, frequency[s]);
      slot += frequency[s];
    }
    const std::byte* next = sections_[kCodes] + load<uint32_t>(sections_[kIndex] + tile.number * kTileIndexBytes);
    std::array<uint32_t, kStreams> states;  // in registers where there are few
    for (uint32_t& x : states) {
      x = load<uint32_t>(next);
      next += 4;
    }
    const uint8_t* slots = scratch_.slots.data();
    const auto step = [&](uint32_t& x) {
      const uint32_t at = x & (kTileSlots - 1), s = slots[at];
      x = frequency[s] * (x >> kTileProbBits) + at - first[s];
      if constexpr (kMasked) {
        const uint32_t low = x < kByteLower;
        x += ((x << 8 | std::to_integer<uint32_t>(*next)) - x) & (0 - low);
        next += low;
      }
      while (x < kByteLower) x = x << 8 | std::to_integer<uint32_t>(*next++);  // if masked, a second one: rare
      return static_cast<uint8_t>(s);
    };
    const int count = tile.rows * tile.cols, whole = count / kStreams * kStreams;
    for (int i = 0; i < whole; i += kStreams)
#pragma GCC unroll 8
      for (int stream = 0; stream < kStreams; ++stream) out[i + stream] = step(states[stream]);
    for (int i = whole; i < count; ++i) out[i] = step(states[i - whole]);
  }

  template <int kCols>
  void decode_lines(const Tile& tile, int stride, uint8_t* out) const {
    copy_lines(tile);
    std::array<uint32_t, kLanes> positions{};
    const std::byte* entries = sections_[kTables];
    const uint32_t mask = (1u << layout_.table_bits) - 1;
    const auto step = [&](int lane) {
      uint32_t& position = positions[lane];
      const uint32_t* words = scratch_.lines.data() + position / 32 * kLanes + lane;
      const auto entry =
          load<uint32_t>(entries + 4 * ((words[0] | uint64_t{words[kLanes]} << 32) >> position % 32 & mask));
      position += length_of_entry(kCols, entry);
      return entry & (kCols == 4 ? kHighBits : kPairBits);
    };
    store_quads<kCols>(tile, stride, out, step);
  }

  // Decodes quads in the order of panels. step(lane) gives a lane's next two columns, or four columns' high bits, which
  // the raw bits complete.
  template <int kCols, typename Step>
  void store_quads(const Tile& tile, int stride, uint8_t* out, Step step) const {
    const std::byte* raw = sections_[kRaw] + tile.first_panel * kRawPanelBytes;
    for (int panel = 0; panel < tile.panels(); ++panel) {
      uint8_t* corner = out + panel % tile.panels_down * kPanelRows * stride + panel / tile.panels_down * kPanelCols;
      for (int quad = 0; quad < kPanelQuads; ++quad)
        for (int lane = 0; lane < kLanes; ++lane) {
          uint32_t bytes = step(lane);
          if constexpr (kCols == 2)
            bytes |= step(lane) << 16;
          else
            bytes |= load<uint32_t>(raw + 4 * raw_word(panel, lane)) >> (2 * quad) & 0x03030303u;
          std::memcpy(corner + row_of(lane, quad) * stride + col_of(lane, quad), &bytes, 4);
        }
    }
  }

  // A tile's lines, tails among them, and a line after them.
  void copy_lines(const Tile& tile) const {
    const std::byte* entry = sections_[kIndex] + tile.number * kHuffmanIndexBytes;
    const std::byte* counts = sections_[kCodes] + load<uint32_t>(entry) * size_t{kCodesAlign};
    const auto full = load<uint32_t>(entry + 4);
    std::memcpy(scratch_.lines.data(), counts + kCountBytes, full * kLineBytes);
    const std::byte* next = counts + kCountBytes + full * kLineBytes;
    uint32_t* tails = scratch_.lines.data() + full * kLanes;
    std::memset(tails, 0, (kMostTailWords + 1) * kLineBytes);
    for (int lane = 0; lane < kLanes; ++lane)
      for (int word = 0; word < (std::to_integer<int>(counts[lane / 2]) >> (lane % 2 * 4) & 15); ++word, next += 4)
        tails[word * kLanes + lane] = load<uint32_t>(next);
  }

  void unpack(const Tile& tile, int stride, uint8_t* out) const {
    const std::byte* packed = sections_[kCodes] + tile.first_panel * kPackedPanelBytes;
    for (int panel = 0; panel < tile.panels(); ++panel, packed += kPackedPanelBytes) {
      uint8_t* corner = out + panel % tile.panels_down * kPanelRows * stride + panel / tile.panels_down * kPanelCols;
      for (int lane = 0; lane < kLanes; ++lane)
        for (int half = 0; half < 2; ++half) {
          const auto word = load<uint32_t>(packed + lane * 8 + half * 4);
          const uint32_t even = word & 0x0F0F0F0Fu, odd = word >> 4 & 0x0F0F0F0Fu;
          std::memcpy(corner + row_of(lane, 2 * half) * stride + col_of(lane, 2 * half), &even, 4);
          std::memcpy(corner + row_of(lane, 2 * half + 1) * stride + col_of(lane, 2 * half + 1), &odd, 4);
        }
    }
  }

  Layout layout_;
  TileScratch& scratch_;
  std::array<const std::byte*, kSections> sections_;
};

}  // namespace ecmv::codecs::tile_rans
