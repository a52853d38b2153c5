#include "codecs/quad_huffman/encode/settings.h"

#include <algorithm>
#include <string_view>

#include "codecs/quad_huffman/encode/tile_width.h"
#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/format/patches.h"

namespace ecmv::codecs::quad_huffman {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;

int number_of(const Settings& settings, std::string_view name) { return static_cast<int>(settings.integer(name)); }

Layout layout_of(const Settings& settings) {
  const std::string_view layout = settings.text("layout");
  return layout == "fragments" ? Layout::fragments : layout == "strips" ? Layout::strips : Layout::rows;
}

std::string refuses_combination(int symbol_cols, int raw_bits, std::string_view cells) {
  const auto fits = [&](int cols, bool folded) {
    return (symbol_cols == 0 || symbol_cols == cols) &&
           (raw_bits < 0 || (raw_bits >= least_raw_bits(cols, folded) && raw_bits <= most_raw_bits(cols, folded)));
  };
  for (const int cols : {kLeastSymbolCols, kMostSymbolCols})
    for (const bool folded : {false, true})
      if (cells != (folded ? "contiguous" : "folded") && fits(cols, folded)) return "";
  if (cells == "folded")
    return "quad_huffman has folded cells for symbols of 4 columns with 1 to 5 raw bits, and of 8 columns with 2 to 5.";
  return "quad_huffman stores at most 2 raw bits beside symbols of 8 columns, 2 to 5 where cells are folded.";
}

// Open symbols may turn out to be the widest.
std::string refuses_tile_cols(int symbol_cols, int tile_cols) {
  const int multiple = symbol_cols == 0 ? kMostSegmentCols : segment_cols(symbol_cols);
  if (tile_cols % multiple == 0) return "";
  return "A tile of quad_huffman has a multiple of " + std::to_string(multiple) + " columns" +
         (symbol_cols == 0 ? " while symbol_cols is open." : " with symbols of " + std::to_string(symbol_cols) + ".");
}

}  // namespace

std::vector<SettingInfo> setting_infos() {
  return {
      {.name = "raw_bits",
       .unit = "bit",
       .help = "low bits of an element stored as they are; -1: chosen for `optimise`",
       .default_value = int64_t{-1},
       .min = -1,
       .max = kMostRawBits,
       .open = "-1"},
      {.name = "table_bits",
       .unit = "bit",
       .help = "longest code, index width of the table; 0: chosen for `optimise`",
       .default_value = int64_t{0},
       .values = {0, 8, 9, 10, 11, 12, 13},
       .open = "0"},
      {.name = "tile_cols",
       .unit = "column",
       .help = "columns of a tile, with symbols of 8 a multiple of 256; 0: as many as suit an H200",
       .default_value = int64_t{0},
       .values = {0, 128, 256, 384, 512, 640, 768, 896, 1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048},
       .open = "0"},
      {.name = "symbol_cols",
       .unit = "column",
       .help = "columns of a symbol: many are fast, few are small; 8 of bf16 and f8 are for layout=fragments; 0: "
               "chosen for `optimise`",
       .default_value = int64_t{4},
       .values = {0, 4, 8},
       .open = "0"},
      {.name = "cells",
       .unit = "",
       .help = "which elements share a code: neighbours, or those at the same distance from the centre, of "
               "which the sign is raw; any: chosen for `optimise`",
       .default_value = "any",
       .choices = {"any", "contiguous", "folded"},
       .open = "any"},
      {.name = "layout",
       .unit = "",
       .help = "what a GPU lane decodes: a row; what it has of the operands of matrix units "
               "(fragments), for products with tokens of bf16; or 32 columns of all rows (strips), for int8 vectors",
       .default_value = "rows",
       .choices = {"rows", "fragments", "strips"},
       .brings = {{"strips", "symbol_cols", "8"}}},
      {.name = "symbols",
       .unit = "",
       .help = "whether a table's entry is one symbol (ordered), or all eight rotations of it, of which three "
               "bits more of a code "
               "say which (rotated: strips of 8 columns a symbol, contiguous cells)",
       .default_value = "ordered",
       .choices = {"ordered", "rotated"},
       .brings = {{"rotated", "layout", "strips"},
                  {"rotated", "symbol_cols", "8"},
                  {"rotated", "cells", "contiguous"}}},
      {.name = "optimise",
       .unit = "",
       .help = "what open settings are chosen for: fewest bytes, or the shortest time on a GPU",
       .default_value = "size",
       .choices = {"size", "speed"}},
      {.name = "fallback",
       .unit = "",
       .help = "what is stored where codes would take more bytes than the elements: these as they are "
               "(plain), or codes all the same (none)",
       .default_value = "plain",
       .choices = {"plain", "none"}}};
}

Wanted wanted_by(const Settings& settings) {
  const std::string_view cells = settings.text("cells");
  const Layout layout = layout_of(settings);
  const bool rotated = settings.text("symbols") == "rotated";
  return {.symbol_cols = layout == Layout::strips ? kMostSymbolCols : number_of(settings, "symbol_cols"),
          .raw_bits = number_of(settings, "raw_bits"),
          .table_bits = number_of(settings, "table_bits"),
          .contiguous = cells != "folded",
          .folded = cells != "contiguous" && !rotated,
          .layout = layout,
          .rotated = rotated,
          .tile_cols = number_of(settings, "tile_cols"),
          .for_speed = settings.text("optimise") == "speed"};
}

int tile_cols_for(const datasets::MatrixView& stored, const Settings& settings, const Model& model) {
  if (const int tile_cols = number_of(settings, "tile_cols"); tile_cols != 0) return tile_cols;
  if (layout_of(settings) == Layout::fragments)
    return tile_cols_for_fragments(stored.shape, stored.type, model.symbol_cols, model.table_bits);
  return tile_cols_for_rows(stored.shape,
                            layout_of(settings) == Layout::strips ? datasets::ElementType::bf16 : stored.type);
}

std::string refuses(datasets::MatrixView matrix, const Settings& settings) {
  const bool f8 = matrix.type == datasets::ElementType::f8_e4m3,
             floats = f8 || matrix.type == datasets::ElementType::bf16;
  if (matrix.type != datasets::ElementType::i8 && !floats)
    return "quad_huffman stores int8, bf16 and f8_e4m3 elements.";
  if (matrix.shape.elements() > kMostElements)
    return "quad_huffman stores at most 2^40 elements, so that its 32-bit index of codes suffices.";
  const int symbol_cols = number_of(settings, "symbol_cols");
  if (const std::string reason = refuses_tile_cols(symbol_cols, number_of(settings, "tile_cols")); !reason.empty())
    return reason;
  if (floats && settings.integer("raw_bits") >= 0)
    return "quad_huffman's raw bits of bf16 and f8 elements are not open; with raw_bits = -1 it takes them.";
  const bool strips = layout_of(settings) == Layout::strips;
  if (strips && (floats || (symbol_cols != 8 && symbol_cols != 0)))
    return "quad_huffman stores int8 elements in strips, with symbols of 8 columns.";
  const std::string_view cells = settings.text("cells");
  if (settings.text("symbols") == "rotated") {
    if (!strips || cells == "folded") return "quad_huffman rotates symbols with contiguous cells, in strips.";
    if (number_of(settings, "table_bits") > kMostRotatedTableBits)
      return "The table of rotated symbols of quad_huffman is indexed by at most 12 bits.";
  }
  if (floats && cells == "folded") return "quad_huffman folds cells of int8 elements, not those of exponents.";
  return refuses_combination(symbol_cols, number_of(settings, "raw_bits"), cells);
}

// Assumes that every code is as long as codes get and every element is patched all the way across the cells, in the
// most tiles; open settings may become any. bf16 rows have half as many elements of up to 10 raw bits and five bytes of
// patches, f8 rows at most 6 and five: less than int8 rows with all their patches.
int64_t max_stored_bytes(datasets::Shape shape, const Settings& settings) {
  const Layout layout = layout_of(settings);
  shape = stored_shape(shape, layout);
  const int symbol_cols = number_of(settings, "symbol_cols"), raw_bits = number_of(settings, "raw_bits"),
            least_cols = symbol_cols == 0 ? kLeastSymbolCols : symbol_cols,
            most_cols = symbol_cols == 0 ? kMostSymbolCols : symbol_cols,
            tile_cols = std::max(number_of(settings, "tile_cols"), kLeastTileCols);
  const int64_t groups = row_groups(shape.rows), tiles = groups * column_tiles(shape.cols, tile_cols);
  // Lanes are moved only where others are longer, so the longest codes are a bound of any schedule.
  const int64_t lines = groups * row_segments(shape.cols, least_cols) * ((kSegmentSymbols * kMostTableBits + 31) / 32);
  return int64_t{kFloatHeaderBytes} + (int64_t{4} << kMostTableBits) + kTileBytes * (tiles + 1) +
         tiles * (kMostTileCols / segment_cols(least_cols) + 4 * kMostPartialLines + 2 * kUnitBytes) +
         lines * kLineBytes +
         groups * row_segments(shape.cols, most_cols) * raw_bytes_of_segment(most_cols, kMostPlaneWords) +
         2 * shape.elements() * (256 >> std::max(0, raw_bits - 1)) +
         (layout == Layout::strips ? tiles * most_moving_patches(tile_cols) * 2 : 0);
}

}  // namespace ecmv::codecs::quad_huffman
