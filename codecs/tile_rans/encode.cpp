// rANS runs backwards: the encoder takes the symbols from the last to the first and ends in the state with which decoding begins.
#include "codecs/tile_rans/encode.h"

#include <array>
#include <limits>
#include <stdexcept>

#include "codecs/modelling/normalise.h"

namespace ecmv::codecs::tile_rans {
namespace {

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i)));
}

uint32_t offset_of(size_t units) {
  if (units > std::numeric_limits<uint32_t>::max()) throw std::length_error("The codes of a tile_rans matrix are longer than its offsets of 32 bits reach.");
  return static_cast<uint32_t>(units);
}

void fill_up(Section& section) {
  const size_t size = section.bytes.size(), full = (size + kCodesAlign - 1) / kCodesAlign * kCodesAlign;
  section.padding_bytes += static_cast<int64_t>(full - size);
  section.bytes.resize(full);
}

// Calls f(tile) for every tile, row by row.
template <typename F>
void for_each_tile(const Layout& layout, F f) {
  for (int64_t down = 0; down < layout.tiles_down; ++down)
    for (int64_t across = 0; across < layout.tiles_across; ++across) f(tile_at(layout, down, across));
}

// A lane's quads of a tile in their order, four symbols a word; `filler` where the tile has no element.
class TileQuads {
 public:
  TileQuads(const Layout& layout, std::span<const uint8_t> symbols, uint8_t filler) : layout_(layout), symbols_(symbols), filler_(filler) {}

  uint32_t at(const Tile& tile, int lane, int number) const {
    const int panel = number / kPanelQuads, quad = number % kPanelQuads;
    const int row = panel % tile.panels_down * kPanelRows + row_of(lane, quad), col = panel / tile.panels_down * kPanelCols + col_of(lane, quad);
    uint32_t bytes = 0;
    for (int i = 0; i < 4; ++i) {
      const bool inside = row < tile.rows && col + i < tile.cols;
      bytes |= uint32_t{inside ? symbols_[static_cast<size_t>((tile.row + row) * layout_.shape.cols + tile.col + col + i)] : filler_} << (8 * i);
    }
    return bytes;
  }

 private:
  const Layout& layout_;
  std::span<const uint8_t> symbols_;
  uint8_t filler_;
};

void encode_packed(const Layout& layout, std::span<const uint8_t> symbols, Section& codes) {
  const TileQuads quads(layout, symbols, 0);
  codes.bytes.reserve(static_cast<size_t>(panels_of(layout.shape) * kPackedPanelBytes));
  for_each_tile(layout, [&](const Tile& tile) {
    for (int panel = 0; panel < tile.panels(); ++panel)
      for (int lane = 0; lane < kLanes; ++lane)
        for (int quad = 0; quad < kPanelQuads; quad += 2)
          append(codes.bytes, quads.at(tile, lane, panel * kPanelQuads + quad) | quads.at(tile, lane, panel * kPanelQuads + quad + 1) << 4);
  });
  codes.padding_bytes = static_cast<int64_t>(codes.bytes.size()) - (layout.shape.elements() + 1) / 2;
}

void encode_tiles(const Layout& layout, std::span<const uint8_t> symbols, std::vector<Section>& sections) {
  std::vector<uint8_t> tile_symbols, backwards;
  std::array<uint32_t, kMostStreams> states;
  std::vector<std::byte>& codes = sections[kCodes].bytes;
  for_each_tile(layout, [&](const Tile& tile) {
    tile_symbols.clear();
    std::array<uint64_t, kLevels> counts{};
    for (int row = 0; row < tile.rows; ++row)
      for (int col = 0; col < tile.cols; ++col) {
        const uint8_t symbol = symbols[static_cast<size_t>((tile.row + row) * layout.shape.cols + tile.col + col)];
        tile_symbols.push_back(symbol);
        ++counts[symbol];
      }
    const std::vector<uint32_t> frequency = modelling::normalise(counts, kTileProbBits);
    std::array<uint32_t, kLevels> first{};
    for (int s = 1; s < kLevels; ++s) first[s] = first[s - 1] + frequency[s - 1];
    for (const uint32_t f : frequency) append(sections[kTables].bytes, static_cast<uint16_t>(f));
    append(sections[kIndex].bytes, offset_of(codes.size()));
    append(sections[kIndex].bytes, static_cast<uint32_t>(tile_symbols.size()));

    states.fill(kByteLower);
    backwards.clear();
    for (size_t i = tile_symbols.size(); i-- > 0;) {
      uint32_t& x = states[i % static_cast<size_t>(layout.streams)];
      const uint32_t f = frequency[tile_symbols[i]];
      while (x >> 8 >= (kByteLower >> kTileProbBits) * f) {
        backwards.push_back(static_cast<uint8_t>(x));
        x >>= 8;
      }
      x = (x / f << kTileProbBits) + first[tile_symbols[i]] + x % f;
    }
    for (int stream = 0; stream < layout.streams; ++stream) append(codes, states[stream]);
    for (size_t i = backwards.size(); i-- > 0;) codes.push_back(std::byte{backwards[i]});
  });
}

void encode_lanes(const Layout& layout, std::span<const uint8_t> symbols, std::vector<Section>& sections) {
  std::array<uint64_t, kLevels> level_counts{};
  for (const uint8_t symbol : symbols) ++level_counts[symbol];
  const auto filler = static_cast<uint8_t>(std::max_element(level_counts.begin(), level_counts.end()) - level_counts.begin());
  const TileQuads quads(layout, symbols, filler);
  const int cols = layout.symbol_cols, symbols_of_quad = 4 / cols;
  const auto symbol_at = [&](const Tile& tile, int lane, int number) {
    const uint32_t quad = quads.at(tile, lane, number / symbols_of_quad);
    return cols == 4 ? symbol_of_four(quad) : symbol_of_two(quad >> (number % 2 * 16));
  };

  std::vector<uint64_t> counts(kLaneSymbols);
  for_each_tile(layout, [&](const Tile& tile) {
    for (int lane = 0; lane < kLanes; ++lane)
      for (int i = 0; i < tile.lane_quads() * symbols_of_quad; ++i) ++counts[symbol_at(tile, lane, i)];
  });
  const std::vector<uint32_t> frequency = lane_frequencies(counts, layout.prob_bits);
  std::array<uint32_t, kLaneSymbols> first{};
  for (int s = 1; s < kLaneSymbols; ++s) first[s] = first[s - 1] + frequency[s - 1];
  for (const uint32_t f : frequency) append(sections[kTables].bytes, static_cast<uint16_t>(f));

  std::vector<std::byte>& codes = sections[kCodes].bytes;
  std::vector<uint16_t> backwards;
  for_each_tile(layout, [&](const Tile& tile) {
    const size_t tile_begin = codes.size();
    append(sections[kIndex].bytes, offset_of(tile_begin / 2));
    for (int lane = 0; lane < kLanes; ++lane) {
      const size_t start = (codes.size() - tile_begin) / 2;
      if (start > std::numeric_limits<uint16_t>::max()) throw std::length_error("A tile of a tile_rans matrix is longer than its lanes' starts of 16 bits reach.");
      append(sections[kIndex].bytes, static_cast<uint16_t>(start));
      uint32_t x = kWordLower;
      backwards.clear();
      for (int i = tile.lane_quads() * symbols_of_quad; i-- > 0;) {
        const uint32_t symbol = symbol_at(tile, lane, i), f = frequency[symbol];
        while (x >> 16 >= (kWordLower >> layout.prob_bits) * f) {
          backwards.push_back(static_cast<uint16_t>(x));
          x >>= 16;
        }
        x = (x / f << layout.prob_bits) + first[symbol] + x % f;
      }
      append(codes, x);
      for (size_t i = backwards.size(); i-- > 0;) append(codes, backwards[i]);
    }
    if (cols != 4) return;
    for (int panel = 0; panel < tile.panels(); ++panel)
      for (int lane = 0; lane < kLanes; ++lane) {
        uint32_t word = 0;
        for (int quad = 0; quad < kPanelQuads; ++quad) word |= (quads.at(tile, lane, panel * kPanelQuads + quad) & 0x03030303u) << (2 * quad);
        append(sections[kRaw].bytes, word);
      }
  });
  append(sections[kIndex].bytes, offset_of(codes.size() / 2));
  sections[kRaw].padding_bytes = cols == 4 ? static_cast<int64_t>(sections[kRaw].bytes.size()) - (layout.shape.elements() + 3) / 4 : 0;
}

}  // namespace

std::vector<uint32_t> lane_frequencies(std::span<const uint64_t> counts, int prob_bits) {
  // Symbols that would have more than the most get just that; what they leave is shared by the others, and again.
  std::vector<uint32_t> frequency = modelling::normalise(counts, prob_bits);
  uint32_t surplus = 0;
  for (uint32_t& f : frequency)
    if (f > kMostFrequency) {
      surplus += f - kMostFrequency;
      f = kMostFrequency;
    }
  // To those in use first, in proportion, so that it is used up in a few rounds; then one by one to all.
  while (surplus > 0) {
    uint64_t weight = 0;
    for (const uint32_t f : frequency) weight += f < kMostFrequency ? f : 0;
    uint32_t given = 0;
    for (uint32_t& f : frequency) {
      if (f == kMostFrequency || weight == 0) continue;
      const uint32_t share = std::min({static_cast<uint32_t>(uint64_t{surplus} * f / weight), kMostFrequency - f, surplus - given});
      f += share;
      given += share;
    }
    surplus -= given;
    if (given > 0) continue;
    for (uint32_t& f : frequency)
      if (f < kMostFrequency && surplus > 0) {
        ++f;
        --surplus;
      }
  }
  return frequency;
}

void encode_symbols(const Layout& layout, std::span<const uint8_t> symbols, std::vector<Section>& sections) {
  if (layout.coder == Coder::packed) encode_packed(layout, symbols, sections[kCodes]);
  if (layout.coder == Coder::rans) encode_tiles(layout, symbols, sections);
  if (layout.coder == Coder::rans_lanes) encode_lanes(layout, symbols, sections);
  fill_up(sections[kCodes]);
}

}  // namespace ecmv::codecs::tile_rans
