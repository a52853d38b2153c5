// The encoder's model of a matrix: how many columns a symbol has, how many low bits stay raw, where the cells of the
// high parts begin, which symbols get codes, and which of these stands in for each of the others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "codecs/quad_huffman/format/layout.h"
#include "datasets/matrix.h"

namespace ecmv::codecs::quad_huffman {

struct SymbolCode {
  uint16_t bits = 0;   // the code, first bit lowest
  uint16_t coded = 0;  // the symbol that it stands for
  uint8_t length = 0;
};

inline constexpr int kSymbols = 65536;
inline constexpr int high_of_symbol(uint32_t symbol, int symbol_cols, int k) {
  return static_cast<int>(symbol >> (high_bits(symbol_cols) * k) & ((1u << high_bits(symbol_cols)) - 1));
}

// Cells of elements w. Floats have those of exponents.
struct Cells {
  int symbol_cols = 4;
  Form form;
  int lowest = 0;

  int most_high() const { return quad_huffman::most_high(symbol_cols, form); }
  // The distance of w from `lowest`, the high part, also between 0 and most_high(), and the raw bits of w.
  bool is_negative(int w) const { return form.folded && w < lowest; }
  int magnitude(int w) const { return is_negative(w) ? lowest - w - 1 : w - lowest; }
  int high(int w) const { return magnitude(w) >> cell_bits(form); }
  int clamped_high(int w) const { return std::clamp(high(w), 0, most_high()); }
  int raw(int w) const {
    return (magnitude(w) & ((1 << cell_bits(form)) - 1)) | (is_negative(w) ? 1 << cell_bits(form) : 0);
  }
  bool is_eights() const { return has_exponent_eights(symbol_cols, form); }
};

struct Model : Cells {
  bool rotated = false;
  int table_bits = 0;
  // [kSymbols]: for each symbol its substitute's code: the fewest patches, then the shortest.
  std::vector<SymbolCode> codes = {};
  SymbolCode shortest = {};  // for columns and rows that are not there
  // [2^(bits of cols % symbol_cols high parts)]: for a row's last columns, whatever follows in the symbol.
  std::vector<SymbolCode> partial = {};
  std::vector<uint32_t> table = {};  // [2^table_bits], as stored

  // Exponents that products must have as patches, whatever is coded.
  bool always_patched(int exponent) const { return is_eights() && exponent == 0; }
};

// The choices that are left to the model: 0 columns of a symbol, -1 raw bits and 0 table bits are open, and so are the
// cells where both kinds are wanted. Open symbols of floats become eight columns only for fragments, because most
// kernels that take those multiply fragments.
struct Wanted {
  int symbol_cols, raw_bits, table_bits;
  bool contiguous, folded;
  Layout layout;
  bool rotated;
  int tile_cols;   // 0: open
  bool for_speed;  // the aim: the shortest time, not the fewest bytes
};

// The model of the stored matrix, with all open settings chosen. The raw bits of floats are fixed, and their cells are
// contiguous. Deterministic on every platform: counts and logarithms are integers, and comparisons use sums and
// products.
Model make_model(datasets::MatrixView matrix, const Wanted& wanted);

}  // namespace ecmv::codecs::quad_huffman
