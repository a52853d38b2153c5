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

// For bf16 the exponents are modelled: raw_bits are those of a cell of exponents, `lowest` is an exponent.
struct Model {
  bool floats = false;
  int symbol_cols = 4, raw_bits = 0, table_bits = 0, lowest = 0;
  std::vector<SymbolCode>
      codes;            // [kSymbols]: what stands for a symbol, with the fewest patches and then the shortest code
  SymbolCode shortest;  // for columns and rows that are not there
  std::vector<SymbolCode> partial;  // [2^(bits of cols % symbol_cols high parts)]: for a row's last columns, of which a
                                    // symbol's others follow
  std::vector<uint32_t> table;      // [2^table_bits * entry_words], as stored

  int most_high() const { return (1 << high_bits(symbol_cols)) - 1; }
  // The high part of element or exponent w, not clamped.
  int high(int w) const { return (w - lowest) >> raw_bits; }
  int stored_raw_bits() const { return raw_bits + (floats ? kSignMantissaBits : 0); }
};

// What the model is chosen for.
enum class Aim { size, speed };

// The model of an int8 matrix, or of a bf16 one, whose raw bits are fixed. 0 columns of a symbol, -1 raw bits and 0
// table bits are chosen here. Deterministic on every platform: counts and logarithms are integers, what is compared are
// sums and products of them.
Model make_model(datasets::MatrixView matrix, int symbol_cols, int raw_bits, int table_bits, Aim aim);

}  // namespace ecmv::codecs::quad_huffman
