// Writes the sections of each coder. rANS runs backwards: the encoder takes the symbols from the last to the first and
// ends in the state with which decoding begins.
#include "codecs/tile_rans/encode.h"
#include "codecs/compressed_matrix.h"

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "codecs/modelling/bytes.h"
#include "codecs/modelling/code_lengths.h"
#include "codecs/modelling/normalise.h"

namespace ecmv::codecs::tile_rans {
namespace {

using modelling::append;

uint32_t offset_of(size_t units) {
  if (units > std::numeric_limits<uint32_t>::max())
    throw std::length_error("The codes of a tile_rans matrix are longer than its offsets of 32 bits reach.");
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

// A lane's quads of a tile in their order, four symbols a word, with `filler` where the tile has no element.
class TileQuads {
 public:
  TileQuads(const Layout& layout, std::span<const uint8_t> symbols, uint8_t filler)
      : layout_(layout), symbols_(symbols), filler_(filler) {}

  // Whether the tile has the quad's element in column `first` or in a later one.
  bool reaches(const Tile& tile, int lane, int number, int first) const {
    const int panel = number / kPanelQuads, quad = number % kPanelQuads;
    return panel % tile.panels_down * kPanelRows + row_of(lane, quad) < tile.rows &&
           panel / tile.panels_down * kPanelCols + col_of(lane, quad) + first < tile.cols;
  }

  uint32_t at(const Tile& tile, int lane, int number) const {
    const int panel = number / kPanelQuads, quad = number % kPanelQuads;
    const int row = panel % tile.panels_down * kPanelRows + row_of(lane, quad),
              col = panel / tile.panels_down * kPanelCols + col_of(lane, quad);
    uint32_t bytes = 0;
    for (int i = 0; i < 4; ++i) {
      const bool inside = row < tile.rows && col + i < tile.cols;
      bytes |=
          uint32_t{inside ? symbols_[static_cast<size_t>((tile.row + row) * layout_.shape.cols + tile.col + col + i)]
                          : filler_}
          << (8 * i);
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
  codes.bytes.reserve(static_cast<size_t>(panels_of(layout) * kPackedPanelBytes));
  for_each_tile(layout, [&](const Tile& tile) {
    for (int panel = 0; panel < tile.panels(); ++panel)
      for (int lane = 0; lane < kLanes; ++lane)
        for (int quad = 0; quad < kPanelQuads; quad += 2)
          append<uint32_t>(codes.bytes, quads.at(tile, lane, panel * kPanelQuads + quad) |
                                            quads.at(tile, lane, panel * kPanelQuads + quad + 1) << 4);
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
    for (const uint32_t f : frequency) append<uint16_t>(sections[kTables].bytes, static_cast<uint16_t>(f));
    append<uint32_t>(sections[kIndex].bytes, offset_of(codes.size()));
    append<uint32_t>(sections[kIndex].bytes, static_cast<uint32_t>(tile_symbols.size()));

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
    for (int stream = 0; stream < layout.streams; ++stream) append<uint32_t>(codes, states[stream]);
    for (size_t i = backwards.size(); i-- > 0;) codes.push_back(std::byte{backwards[i]});
  });
}

// The input of huffman_lanes: symbols of columns of a lane's quads, for a table of the layer, and raw
// bits.
class LaneSymbols {
 public:
  LaneSymbols(const Layout& layout, std::span<const uint8_t> symbols)
      : layout_(layout), quads_(layout, symbols, most_frequent(symbols)) {}

  int count(const Tile& tile) const { return tile.lane_quads() * (4 / layout_.symbol_cols); }
  uint32_t at(const Tile& tile, int lane, int number) const {
    if (layout_.symbol_cols == 4) return symbol_of_four(quads_.at(tile, lane, number));
    return symbol_of_two(quads_.at(tile, lane, number / 2) >> (number % 2 * 16));
  }
  // Whether no element of the tile is in the symbol.
  bool is_filler(const Tile& tile, int lane, int number) const {
    if (layout_.symbol_cols == 4) return !quads_.reaches(tile, lane, number, 0);
    return !quads_.reaches(tile, lane, number / 2, number % 2 * 2);
  }
  std::vector<uint64_t> counts() const {
    std::vector<uint64_t> counts(kLaneSymbols);
    for_each_tile(layout_, [&](const Tile& tile) {
      for (int lane = 0; lane < kLanes; ++lane)
        for (int i = 0; i < count(tile); ++i) ++counts[at(tile, lane, i)];
    });
    return counts;
  }
  void append_raw(const Tile& tile, Section& raw) const {
    if (!layout_.has_raw()) return;
    std::vector<uint32_t> words(static_cast<size_t>(tile.panels() * kLanes));
    for (int panel = 0; panel < tile.panels(); ++panel)
      for (int lane = 0; lane < kLanes; ++lane)
        for (int quad = 0; quad < kPanelQuads; ++quad)
          words[static_cast<size_t>(raw_word(panel, lane))] |=
              (quads_.at(tile, lane, panel * kPanelQuads + quad) & 0x03030303u) << (2 * quad);
    for (const uint32_t word : words) append<uint32_t>(raw.bytes, word);
  }
  void finish_raw(Section& raw) const {
    if (layout_.has_raw())
      raw.padding_bytes = static_cast<int64_t>(raw.bytes.size()) - (layout_.shape.elements() + 3) / 4;
  }

 private:
  static uint8_t most_frequent(std::span<const uint8_t> symbols) {
    std::array<uint64_t, kLevels> counts{};
    for (const uint8_t symbol : symbols) ++counts[symbol];
    return static_cast<uint8_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  }
  const Layout& layout_;
  TileQuads quads_;
};

// A code with its first bit lowest.
struct PrefixCode {
  uint32_t bits, length;
};

// The code of each symbol, and the table that decodes it. With a single symbol, half of the entries are never read.
std::vector<PrefixCode> make_codes(const Layout& layout, std::span<const uint64_t> counts,
                                   std::vector<std::byte>& table) {
  const std::vector<uint8_t> lengths = modelling::limited_code_lengths(counts, layout.table_bits);
  const std::vector<uint32_t> canonical = modelling::canonical_codes(lengths);
  std::vector<PrefixCode> codes(counts.size());
  std::vector<uint32_t> entries(size_t{1} << layout.table_bits, huffman_entry(layout.symbol_cols, 0, 1));
  for (size_t s = 0; s < codes.size(); ++s) {
    PrefixCode& code = codes[s];
    code = {0, lengths[s]};
    if (code.length == 0) continue;
    for (uint32_t i = 0; i < code.length; ++i) code.bits |= (canonical[s] >> i & 1) << (code.length - 1 - i);
    for (size_t i = code.bits; i < entries.size(); i += size_t{1} << code.length)
      entries[i] = huffman_entry(layout.symbol_cols, static_cast<uint32_t>(s), code.length);
  }
  for (const uint32_t entry : entries) append<uint32_t>(table, entry);
  return codes;
}

void encode_huffman(const Layout& layout, std::span<const uint8_t> symbols, std::vector<Section>& sections) {
  const LaneSymbols lane_symbols(layout, symbols);
  const std::vector<PrefixCode> code_of = make_codes(layout, lane_symbols.counts(), sections[kTables].bytes);
  Section& codes = sections[kCodes];
  std::array<std::vector<uint32_t>, kLanes> strings;
  size_t most_lines = 0;
  int64_t bits = 0;  // of counts and codes, without those of symbols past a tile's edge that end a lane
  for_each_tile(layout, [&](const Tile& tile) {
    size_t shortest = std::numeric_limits<size_t>::max(), lines = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      std::vector<uint32_t>& words = strings[lane];
      words.clear();
      uint64_t pending = 0;
      uint32_t pending_bits = 0;
      int64_t filler = 0;
      for (int i = 0; i < lane_symbols.count(tile); ++i) {
        const PrefixCode code = code_of[lane_symbols.at(tile, lane, i)];
        pending |= uint64_t{code.bits} << pending_bits;
        pending_bits += code.length;
        filler += code.length;
        if (!lane_symbols.is_filler(tile, lane, i)) bits += std::exchange(filler, 0);
        if (pending_bits < 32) continue;
        words.push_back(static_cast<uint32_t>(pending));
        pending >>= 32;
        pending_bits -= 32;
      }
      if (pending_bits > 0) words.push_back(static_cast<uint32_t>(pending));
      shortest = std::min(shortest, words.size());
      lines = std::max(lines, words.size());
    }
    // Takes as few full lines as the counts allow.
    const size_t least = lines > kMostTailWords ? lines - kMostTailWords : 0,
                 full = std::max(shortest / kBlockLines, (least + kBlockLines - 1) / kBlockLines) * kBlockLines;
    most_lines = std::max({most_lines, lines, full});
    append<uint32_t>(sections[kIndex].bytes, offset_of(codes.bytes.size() / kCodesAlign));
    append<uint32_t>(sections[kIndex].bytes, static_cast<uint32_t>(full));
    bits += 8 * kCountBytes;
    const auto tail = [&](int lane) { return strings[lane].size() > full ? strings[lane].size() - full : 0; };
    for (int lane = 0; lane < kLanes; lane += 2)
      append<uint8_t>(codes.bytes, static_cast<uint8_t>(tail(lane) | tail(lane + 1) << 4));
    for (size_t line = 0; line < full; ++line)
      for (const std::vector<uint32_t>& words : strings)
        append<uint32_t>(codes.bytes, line < words.size() ? words[line] : 0);
    for (const std::vector<uint32_t>& words : strings)
      for (size_t line = full; line < words.size(); ++line) append<uint32_t>(codes.bytes, words[line]);
    codes.bytes.resize((codes.bytes.size() + kCodesAlign - 1) / kCodesAlign * kCodesAlign);
    lane_symbols.append_raw(tile, sections[kRaw]);
  });
  append<uint32_t>(sections[kIndex].bytes, offset_of(codes.bytes.size() / kCodesAlign));
  append<uint32_t>(sections[kIndex].bytes, 0);
  append<uint32_t>(sections[kLayer].bytes, static_cast<uint32_t>(most_lines));
  codes.padding_bytes = static_cast<int64_t>(codes.bytes.size()) - (bits + 7) / 8;
  lane_symbols.finish_raw(sections[kRaw]);
}

}  // namespace

void encode_symbols(const Layout& layout, std::span<const uint8_t> symbols, std::vector<Section>& sections) {
  if (layout.coder == Coder::packed) encode_packed(layout, symbols, sections[kCodes]);
  if (layout.coder == Coder::rans) encode_tiles(layout, symbols, sections);
  if (layout.coder == Coder::huffman_lanes) encode_huffman(layout, symbols, sections);
  fill_up(sections[kCodes]);
}

}  // namespace ecmv::codecs::tile_rans
