#include "codecs/quad_huffman/settings.h"
#include "codecs/compressed_matrix.h"

#include <algorithm>
#include <string_view>

#include "codecs/quad_huffman/format.h"
#include "codecs/quad_huffman/fragments.h"
#include "codecs/quad_huffman/strips.h"

namespace ecmv::codecs::quad_huffman {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;
constexpr int kMostFragmentTileCols = 1024;

// Of settings that are not open.
std::string refuses_combination(int symbol_cols, int raw_bits, std::string_view cells) {
  const auto fits = [&](int cols, bool folded) {
    return (symbol_cols == 0 || symbol_cols == cols) && (!folded || has_folded_cells(cols)) &&
           (raw_bits < 0 || (raw_bits >= least_raw_bits(cols, folded) && raw_bits <= most_raw_bits(cols, folded)));
  };
  for (int cols = kLeastSymbolCols; cols <= kMostSymbolCols; cols *= 2)
    for (const bool folded : {false, true})
      if (cells != (folded ? "contiguous" : "folded") && fits(cols, folded)) return "";
  if (cells == "folded")
    return "quad_huffman has folded cells for symbols of 4 columns with 1 to 5 raw bits, and of 8 columns with 2 to 5.";
  if (symbol_cols == 2) return "quad_huffman stores at most 4 raw bits beside symbols of 2 columns.";
  return "quad_huffman stores at most 2 raw bits beside symbols of 8 columns, 2 to 5 where cells are folded.";
}

// Symbols that are open may turn out to be the widest.
std::string refuses_tile_cols(int symbol_cols, int tile_cols) {
  const int multiple = symbol_cols == 0 ? kMostSegmentCols : segment_cols(symbol_cols);
  if (tile_cols % multiple == 0) return "";
  return "A tile of quad_huffman has a multiple of " + std::to_string(multiple) + " columns" +
         (symbol_cols == 0 ? " while symbol_cols is open." : " with symbols of " + std::to_string(symbol_cols) + ".");
}

}  // namespace

int number_of(const Settings& settings, std::string_view name) { return static_cast<int>(settings.integer(name)); }

bool wants_fragments(const Settings& settings) { return settings.text("layout") == "fragments"; }
bool wants_strips(const Settings& settings) { return settings.text("layout") == "strips"; }
bool wants_rotated(const Settings& settings) { return settings.text("symbols") == "rotated"; }
datasets::Shape stored_shape_for(datasets::Shape shape, const Settings& settings) {
  return wants_fragments(settings) ? fragments_shape(shape) : wants_strips(settings) ? strips_shape(shape) : shape;
}

// Of the stored matrix, which is of `shape`. Fragments are multiplied with many tokens, whose numbers for a tile's columns have to
// fit the shared memory of a thread block: of 16 tokens 64 KiB for 1024 columns, beside rings of 137 KiB.
int tile_cols_for(datasets::Shape shape, const Settings& settings) {
  const int tile_cols = number_of(settings, "tile_cols");
  if (tile_cols != 0) return tile_cols;
  const int wide = default_tile_cols(shape.rows, shape.cols);
  return wants_fragments(settings) ? std::min(wide, kMostFragmentTileCols) : wide;
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
  if (f8 && symbol_cols == 2) return "quad_huffman codes the exponents of 4 or 8 columns of f8 as a symbol, not of 2.";
  if (floats && settings.integer("raw_bits") >= 0)
    return "quad_huffman's raw bits of bf16 and f8 elements are not open; with raw_bits = -1 it takes them.";
  if (wants_strips(settings) && (floats || (symbol_cols != 8 && symbol_cols != 0)))
    return "quad_huffman stores int8 elements in strips, with symbols of 8 columns.";
  const std::string_view cells = settings.text("cells");
  if (wants_rotated(settings)) {
    if (!wants_strips(settings) || cells == "folded")
      return "quad_huffman rotates symbols with contiguous cells, in strips.";
    if (number_of(settings, "table_bits") > kMostRotatedTableBits)
      return "The table of rotated symbols of quad_huffman is indexed by at most 12 bits.";
  }
  if (floats && cells == "folded") return "quad_huffman folds cells of int8 elements, not those of exponents.";
  return refuses_combination(symbol_cols, number_of(settings, "raw_bits"), cells);
}

}  // namespace ecmv::codecs::quad_huffman
