// The encoder's model of a matrix: how many columns a symbol has, how many low bits stay raw, where the cells of the
// high parts begin, which symbols get codes, and which symbol with a code stands in for each of the others.
#pragma once

#include <cstdint>
#include <vector>

#include "codecs/quad_huffman/format.h"
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

// For bf16 and f8 the exponents are modelled: raw_bits are those of a cell of exponents, `lowest` is an exponent.
struct Model {
  bool floats = false, f8 = false, folded = false, rotated = false;
  int symbol_cols = 4, raw_bits = 0, table_bits = 0, lowest = 0;
  std::vector<SymbolCode>
      codes;            // [kSymbols]: what stands for a symbol, with the fewest patches and then the shortest code
  SymbolCode shortest;  // for columns and rows that are not there
  std::vector<SymbolCode> partial;  // [2^(bits of cols % symbol_cols high parts)]: for a row's last columns, of which a
                                    // symbol's others follow
  std::vector<uint32_t> table;      // [2^table_bits], as stored

  // The header's first byte.
  int form() const { return floats ? float_form(symbol_cols, f8) : raw_bits + (folded ? kFolded : 0); }
  int most_high() const { return quad_huffman::most_high(symbol_cols, form()); }
  // Of element or exponent w: the distance from `lowest`, the high part, not clamped, and the raw bits.
  bool is_negative(int w) const { return folded && w < lowest; }
  int magnitude(int w) const { return is_negative(w) ? lowest - w - 1 : w - lowest; }
  int high(int w) const { return magnitude(w) >> cell_bits(form()); }
  // Exponents that products have to have as patches, whatever is coded.
  bool always_patched(int exponent) const { return has_exponent_eights(symbol_cols, form()) && exponent == 0; }
  int raw(int w) const {
    const int low = magnitude(w) & ((1 << cell_bits(form())) - 1);
    return is_negative(w) ? low | 1 << (raw_bits - 1) : low;
  }
};

// What the model may become: 0 columns of a symbol, -1 raw bits and 0 table bits are open, and so are the cells where
// both kinds are wanted. Symbols of eight exponents are for fragments, which most kernels that take them multiply, and
// those of two for rows: kernels of fragments take none. Of the others they are only made where nothing else is wanted.
struct Wanted {
  int symbol_cols, raw_bits, table_bits;
  bool contiguous, folded, fragments, strips, rotated;
};

// What the model is chosen for.
enum class Aim { size, speed };

// The model of an int8 matrix, or of one of bf16 or f8, whose raw bits are fixed and whose cells are contiguous. What is open is
// chosen here. Deterministic on every platform: counts and logarithms are integers, what is compared are sums and
// products of them.
Model make_model(datasets::MatrixView matrix, Wanted wanted, Aim aim);

}  // namespace ecmv::codecs::quad_huffman
