// tile_rans: matrices of 16 levels in tiles that decode by themselves. The coders are rANS with streams and frequencies
// of each tile, Huffman codes for lanes that multiply at once, and plain packed 4 bits as the baseline. This file has
// the settings and the reference decoder.
#include "codecs/codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "codecs/modelling/bytes.h"
#include "codecs/tile_rans/encode.h"
#include "codecs/tile_rans/format.h"
#include "codecs/tile_rans/levels.h"

namespace ecmv::codecs::tile_rans {
namespace {

std::string refuses(datasets::MatrixView matrix, const Settings& settings) {
  const int64_t streams = settings.integer("streams");
  if ((streams & (streams - 1)) != 0)
    return "tile_rans interleaves 4, 8, 16, 32 or 64 streams, not " + std::to_string(streams) + ".";
  return refuses_levels(matrix);
}

CompressedMatrix encode(datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = make_compressed(matrix, settings);
  compressed.sections = {{"layer", Role::scale, 64, {}},
                         {"tables", Role::table, 64, {}},
                         {"index", Role::index, 64, {}},
                         {"codes", Role::payload, 64, {}},
                         {"raw", Role::payload, 64, {}}};
  const Layout layout = layout_of(matrix.shape, settings);
  if (layout.tiles() == 0) return compressed;
  const Levels levels = fit_levels(matrix);
  const uint32_t words[] = {std::bit_cast<uint32_t>(levels.scale), std::bit_cast<uint32_t>(levels.zero_point),
                            static_cast<uint32_t>(layout.tiles_down), static_cast<uint32_t>(layout.tiles_across)};
  for (const uint32_t word : words) modelling::append<uint32_t>(compressed.sections[kLayer].bytes, word);
  encode_symbols(layout, symbols_of(matrix, levels), compressed.sections);
  return compressed;
}

// Reads little-endian numbers of a section and checks every access.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T at(size_t position) const {
    if (position > bytes_.size() || bytes_.size() - position < sizeof(T))
      throw MalformedStream("A section of a tile_rans stream ends too early.");
    return modelling::load<T>(bytes_, position);
  }
  size_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

// The symbol of each slot of a tile, and where each symbol's interval begins.
struct Slots {
  std::vector<uint8_t> symbol;
  std::array<uint32_t, kLevels> frequency, first;

  Slots(const Reader& tables, int64_t tile) {
    for (size_t s = 0; s < kLevels; ++s) {
      frequency[s] = tables.at<uint16_t>(static_cast<size_t>(tile * kTileTableBytes) + 2 * s);
      first[s] = static_cast<uint32_t>(symbol.size());
      if (frequency[s] > kTileSlots - symbol.size())
        throw MalformedStream("Frequencies of a tile_rans stream are too large.");
      symbol.insert(symbol.end(), frequency[s], static_cast<uint8_t>(s));
    }
    if (symbol.size() != kTileSlots)
      throw MalformedStream("Frequencies of a tile_rans stream add up to " + std::to_string(symbol.size()) + ", not " +
                            std::to_string(kTileSlots) + ".");
  }
  // Takes the symbol that a state means. The state becomes the one before it, not yet renormalised.
  uint32_t take(uint32_t& x) const {
    const uint32_t slot = x & (kTileSlots - 1), s = symbol[slot];
    x = frequency[s] * (x >> kTileProbBits) + slot - first[s];
    return s;
  }
};

// Stores symbols as elements. Throws for levels that the type cannot hold.
class Elements {
 public:
  Elements(const Layout& layout, const Levels& levels, datasets::ElementType type, std::span<std::byte> out)
      : layout_(layout),
        bits_(level_bits(levels, type)),
        bytes_(static_cast<size_t>(datasets::element_bytes(type))),
        out_(out) {}
  void put(const Tile& tile, int row, int col, uint32_t symbol) {
    if (row >= tile.rows || col >= tile.cols) return;
    if (!bits_[symbol])
      throw MalformedStream("Symbol " + std::to_string(symbol) +
                            " of a tile_rans stream stands for no number of the elements' type.");
    const auto element = static_cast<size_t>((tile.row + row) * layout_.shape.cols + tile.col + col);
    std::memcpy(out_.data() + element * bytes_, &*bits_[symbol], bytes_);
  }
  // A lane's quad of a panel of the tile.
  void put_quad(const Tile& tile, int panel, int lane, int quad, uint32_t bytes) {
    const int row = panel % tile.panels_down * kPanelRows + row_of(lane, quad),
              col = panel / tile.panels_down * kPanelCols + col_of(lane, quad);
    for (int i = 0; i < 4; ++i) put(tile, row, col + i, bytes >> (8 * i) & 15);
  }

 private:
  const Layout& layout_;
  std::array<std::optional<uint32_t>, kLevels> bits_;
  size_t bytes_;
  std::span<std::byte> out_;
};

void check_size(size_t bytes, int64_t wanted, const char* section) {
  if (bytes != static_cast<size_t>(wanted))
    throw MalformedStream("The " + std::string(section) + " of a tile_rans stream have " + std::to_string(bytes) +
                          " bytes instead of " + std::to_string(wanted) + ".");
}

size_t filled_up(size_t bytes) { return (bytes + kCodesAlign - 1) / kCodesAlign * kCodesAlign; }

// A tile of rans. Returns where the next one begins.
size_t decode_tile(const Layout& layout, const Tile& tile, const Reader& tables, const Reader& codes, size_t at,
                   Elements& out) {
  const Slots slots(tables, tile.number);
  std::array<uint32_t, kMostStreams> states{};
  for (int stream = 0; stream < layout.streams; ++stream, at += 4) {
    states[stream] = codes.at<uint32_t>(at);
    if (states[stream] < kByteLower || states[stream] >> 8 >= kByteLower)
      throw MalformedStream("A state of a tile_rans stream is out of its range.");
  }
  for (int i = 0; i < tile.rows * tile.cols; ++i) {
    uint32_t& x = states[i % layout.streams];
    out.put(tile, i / tile.cols, i % tile.cols, slots.take(x));
    while (x < kByteLower) x = x << 8 | codes.at<uint8_t>(at++);
  }
  for (int stream = 0; stream < layout.streams; ++stream)
    if (states[stream] != kByteLower)
      throw MalformedStream("A stream of a tile_rans tile does not end in its start state.");
  return at;
}

void decode_tiles(const Layout& layout, const CompressedView& compressed, Elements& out) {
  const Reader tables(compressed.sections[kTables].bytes), index(compressed.sections[kIndex].bytes),
      codes(compressed.sections[kCodes].bytes);
  check_size(tables.size(), layout.tiles() * kTileTableBytes, "tables");
  check_size(index.size(), layout.tiles() * kTileIndexBytes, "index entries");
  size_t at = 0;
  for (int64_t down = 0; down < layout.tiles_down; ++down)
    for (int64_t across = 0; across < layout.tiles_across; ++across) {
      const Tile tile = tile_at(layout, down, across);
      const auto entry = static_cast<size_t>(tile.number * kTileIndexBytes);
      if (index.at<uint32_t>(entry) != at)
        throw MalformedStream("A tile of a tile_rans stream does not begin where the one before ends.");
      if (index.at<uint32_t>(entry + 4) != static_cast<uint32_t>(tile.rows * tile.cols))
        throw MalformedStream("A tile of a tile_rans stream counts other symbols than it has elements.");
      at = decode_tile(layout, tile, tables, codes, at, out);
    }
  check_size(codes.size(), static_cast<int64_t>(filled_up(at)), "codes");
}

// A tile of huffman_lanes from `codes`; every read is checked. A lane's string must end in its last word.
class HuffmanTile {
 public:
  // The tile's counts begin at `unit`.
  HuffmanTile(const Reader& codes, size_t unit, size_t full)
      : codes_(codes), full_(full), lines_at_(unit * kCodesAlign + kCountBytes) {
    if (full % kBlockLines != 0 || full > codes.size() / kLineBytes)
      throw MalformedStream(
          "The full lines of a tile of a tile_rans stream fill no blocks, or are more than there are.");
    end_ = lines_at_ + full * kLineBytes;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      ends_[lane] = full + (codes.at<uint8_t>(unit * kCodesAlign + lane / 2) >> (lane % 2 * 4) & 15);
      tails_at_[lane] = end_;
      end_ += 4 * (ends_[lane] - full);
    }
    end_ = filled_up(end_);
  }
  // The number of lines that the strings reach.
  size_t lines() const { return *std::max_element(ends_.begin(), ends_.end()); }
  size_t end() const { return end_; }

  // The next bits of a lane, with zeros past its words.
  uint32_t window(size_t lane, uint32_t position) const {
    return static_cast<uint32_t>((word(lane, position / 32) | uint64_t{word(lane, position / 32 + 1)} << 32) >>
                                 position % 32);
  }
  void check_end(size_t lane, uint32_t position) {
    const size_t words = (position + 31) / 32;
    longest_ = std::max(longest_, words);
    if (words > ends_[lane]) throw MalformedStream("A lane of a tile_rans stream ends too early.");
    if (words < ends_[lane] && ends_[lane] > full_)
      throw MalformedStream("A lane of a tile_rans stream holds more words than its elements need.");
  }
  // Call this after check_end of all lanes. Kernels have room for a tile's longest string, not for lines that no lane
  // needs.
  void check_lines() const {
    if (full_ > static_cast<size_t>(round_up(static_cast<int64_t>(longest_), kBlockLines)))
      throw MalformedStream("A tile of a tile_rans stream has full lines that no lane needs.");
  }

 private:
  uint32_t word(size_t lane, size_t line) const {
    if (line >= ends_[lane]) return 0;
    return codes_.at<uint32_t>(line < full_ ? lines_at_ + line * kLineBytes + 4 * lane
                                            : tails_at_[lane] + 4 * (line - full_));
  }

  const Reader& codes_;
  size_t full_, lines_at_, end_, longest_ = 0;      // longest: words of the longest string so far
  std::array<size_t, kLanes> ends_{}, tails_at_{};  // words of a lane, where its tail is
};

void decode_huffman(const Layout& layout, const CompressedView& compressed, Elements& out) {
  const Reader tables(compressed.sections[kTables].bytes), index(compressed.sections[kIndex].bytes),
      codes(compressed.sections[kCodes].bytes), raw(compressed.sections[kRaw].bytes);
  check_size(tables.size(), int64_t{4} << layout.table_bits, "tables");
  check_size(index.size(), (layout.tiles() + 1) * kHuffmanIndexBytes, "index entries");
  check_size(raw.size(), layout.has_raw() ? panels_of(layout) * kRawPanelBytes : 0, "raw bits");
  std::vector<uint32_t> entries;
  const uint32_t columns = layout.symbol_cols == 4 ? kHighBits : kPairBits;
  for (size_t i = 0; i < tables.size(); i += 4) {
    entries.push_back(tables.at<uint32_t>(i));
    const uint32_t length = length_of_entry(layout.symbol_cols, entries.back());
    if (length < 1 || length > static_cast<uint32_t>(layout.table_bits) ||
        entries.back() !=
            huffman_entry(layout.symbol_cols, symbol_of_entry(layout.symbol_cols, entries.back()), length))
      throw MalformedStream("An entry of the table of a tile_rans stream is none.");
  }
  size_t at = 0, most_lines = 0;
  for (int64_t down = 0; down < layout.tiles_down; ++down)
    for (int64_t across = 0; across < layout.tiles_across; ++across) {
      const Tile tile = tile_at(layout, down, across);
      const auto entry = static_cast<size_t>(tile.number * kHuffmanIndexBytes);
      HuffmanTile lines(codes, index.at<uint32_t>(entry), index.at<uint32_t>(entry + 4));
      if (index.at<uint32_t>(entry) * size_t{kCodesAlign} != at)
        throw MalformedStream("A tile of a tile_rans stream does not begin where the one before ends.");
      at = lines.end();
      most_lines = std::max(most_lines, lines.lines());
      for (int lane = 0; lane < kLanes; ++lane) {
        const auto own = static_cast<size_t>(lane);
        uint32_t position = 0;
        for (int number = 0; number < tile.lane_quads(); ++number) {
          uint32_t bytes = 0;
          for (int part = 0; part < 4 / layout.symbol_cols; ++part) {
            const uint32_t found = entries[lines.window(own, position) & ((1u << layout.table_bits) - 1)];
            position += length_of_entry(layout.symbol_cols, found);
            bytes |= (found & columns) << (16 * part);
          }
          const int panel = number / kPanelQuads, quad = number % kPanelQuads;
          if (layout.has_raw())
            bytes |= raw.at<uint32_t>(static_cast<size_t>(4 * raw_word(tile.first_panel + panel, lane))) >> (2 * quad) &
                     0x03030303u;
          out.put_quad(tile, panel, lane, quad, bytes);
        }
        lines.check_end(own, position);
      }
      lines.check_lines();
    }
  check_size(codes.size(), static_cast<int64_t>(filled_up(at)), "codes");
  if (index.at<uint32_t>(index.size() - 8) * size_t{kCodesAlign} != at || index.at<uint32_t>(index.size() - 4) != 0)
    throw MalformedStream("The index of a tile_rans stream does not end where its tiles do.");
  if (Reader(compressed.sections[kLayer].bytes).at<uint32_t>(kLayerBytes) != most_lines)
    throw MalformedStream("The longest tile of a tile_rans stream has not as many lines as the stream says.");
}

void decode_packed(const Layout& layout, const CompressedView& compressed, Elements& out) {
  const Reader codes(compressed.sections[kCodes].bytes);
  check_size(codes.size(), panels_of(layout) * kPackedPanelBytes, "codes");
  for (int64_t down = 0; down < layout.tiles_down; ++down)
    for (int64_t across = 0; across < layout.tiles_across; ++across) {
      const Tile tile = tile_at(layout, down, across);
      for (int row = 0; row < tile.rows; ++row)
        for (int col = 0; col < tile.cols; ++col) {
          const int64_t panel = tile.first_panel + col / kPanelCols * tile.panels_down + row / kPanelRows;
          const int quad = quad_of(row % kPanelRows, col % kPanelCols);
          const int64_t place =
              panel * kPackedPanelBytes + lane_of(row % kPanelRows, col % kPanelCols) * 8 + quad / 2 * 4 + col % 4;
          out.put(tile, row, col, codes.at<uint8_t>(static_cast<size_t>(place)) >> (quad % 2 * 4) & 15);
        }
    }
}

void decode(const CompressedView& compressed, std::span<std::byte> out) {
  if (compressed.sections.size() != kSections)
    throw MalformedStream("A tile_rans stream has five sections, not " + std::to_string(compressed.sections.size()) +
                          ".");
  const Layout layout = layout_of(compressed.shape, *compressed.settings);
  if (layout.tiles() == 0) return;
  check_size(compressed.sections[kLayer].bytes.size(), layout.layer_bytes(), "layer's numbers");
  const Levels levels = read_levels(compressed.sections[kLayer].bytes);
  const Reader layer(compressed.sections[kLayer].bytes);
  if (layer.at<uint32_t>(8) != layout.tiles_down || layer.at<uint32_t>(12) != layout.tiles_across)
    throw MalformedStream("The tile counts of a tile_rans stream are not those of its shape.");
  Elements elements(layout, levels, compressed.type, out);
  if (layout.coder == Coder::rans) decode_tiles(layout, compressed, elements);
  if (layout.coder == Coder::huffman_lanes) decode_huffman(layout, compressed, elements);
  if (layout.coder == Coder::packed) decode_packed(layout, compressed, elements);
}

int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings) {
  const Layout layout = layout_of(shape, settings);
  if (layout.tiles() == 0) return 0;
  const int64_t padded = panels_of(layout) * kPanelRows * kPanelCols;
  if (layout.coder == Coder::packed) return kLayerBytes + padded / 2;
  if (layout.coder == Coder::rans)  // a symbol takes up to 12 bits
    return kLayerBytes + kCodesAlign + layout.tiles() * (kTileTableBytes + kTileIndexBytes + 4 * layout.streams) +
           shape.elements() * 2;
  // Lines as long as the longest lane's, which takes table_bits a symbol, and blocks begun.
  return kHuffmanLayerBytes + (int64_t{4} << kMostTableBits) +
         (layout.tiles() + 1) * (kHuffmanIndexBytes + kCountBytes + kCodesAlign + (kBlockLines + 1) * kLineBytes) +
         padded * 2;
}

ErrorBound error_bound(datasets::MatrixView matrix, const Settings&) {
  if (matrix.type == datasets::ElementType::i8 || matrix.shape.elements() == 0) return {};
  return {.relative = 0, .absolute = static_cast<double>(fit_levels(matrix).scale) / 2};
}

// The order-0 entropy of the symbols.
double ideal_bits_per_element(datasets::MatrixView matrix, const Settings&) {
  std::array<uint64_t, kLevels> counts{};
  for (const uint8_t symbol : symbols_of(matrix, fit_levels(matrix))) ++counts[symbol];
  double bits = 0;
  for (const uint64_t count : counts) {
    const double share = static_cast<double>(count) / static_cast<double>(matrix.shape.elements());
    if (count > 0) bits -= share * std::log2(share);
  }
  return bits;
}

}  // namespace

const Codec& codec() {
  static const Codec codec = {
      .summary = "16 levels in tiles of their own: rANS, Huffman codes or packed, fused with dequantisation",
      .source =
          "a design for fused rANS decoding and matrix products on GPUs (tiles, interleaved streams); layout for lanes "
          "of matrix units: this project",
      .lossless = false,
      .settings =
          {
              choice_setting(
                  "coder",
                  "rans: frequencies and interleaved bytes of each tile; huffman_lanes: prefix codes of several "
                  "columns, lanes' words side by side; packed: 4 bits",
                  "rans", {"rans", "huffman_lanes", "packed"}),
              choice_setting("tile", "rows x columns of a tile", "64x64", {"64x64", "64x256", "64x512"}),
              number_setting("streams", "streams", "rans: states of a tile, 4, 8, 16, 32 or 64", 8, 4, kMostStreams),
              value_setting("symbol_cols", "columns",
                            "huffman_lanes: columns of a symbol, 2, or 4 and two bits of each stored plainly", 4,
                            {2, 4}),
              number_setting("table_bits", "bits", "huffman_lanes: the longest code", 10, kLeastTableBits,
                             kMostTableBits),
          },
      .refuses = refuses,
      .encode = encode,
      .decode = decode,
      .max_stored_bytes = max_stored_bytes,
      .error_bound = error_bound,
      .ideal_bits_per_element = ideal_bits_per_element,
  };
  return codec;
}

}  // namespace ecmv::codecs::tile_rans
