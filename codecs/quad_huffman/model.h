// The encoder's model of a matrix: how many low bits stay raw, where the cells of the high parts begin, which quads of high parts
// get codes, and which quad with a code stands in for each of the others.
#pragma once

#include <cstdint>
#include <vector>

#include "datasets/matrix.h"

namespace ecmv::codecs::quad_huffman {

// What a patch of 4 bits can add to h.
inline constexpr int kMostUp = 7, kMostDown = 8;
inline constexpr int kPatchBits = 20;

// Records that lead h from `coded` to `wanted`.
inline constexpr int patch_records(int coded, int wanted) {
  return wanted > coded ? (wanted - coded + kMostUp - 1) / kMostUp : (coded - wanted + kMostDown - 1) / kMostDown;
}

struct QuadCode {
  uint16_t bits = 0;    // the code, first bit lowest
  uint16_t coded = 0;   // the quad that it stands for
  uint8_t length = 0;
};

// A quad of high parts as a number: h of column k in bits 4 k.
inline constexpr int kQuads = 65536;
inline constexpr int high_of_quad(uint32_t quad, int k) { return static_cast<int>(quad >> (4 * k) & 15); }

struct Model {
  int raw_bits = 0, table_bits = 0, lowest = 0;
  std::vector<QuadCode> codes;     // [kQuads]: what stands for a quad, with the fewest patches and then the shortest code
  QuadCode shortest;               // for columns and rows that are not there
  std::vector<QuadCode> partial;   // [16^(cols % 4)]: for a row's last columns, of which a quad's other columns follow
  std::vector<uint32_t> table;     // [2^table_bits], as stored

  // Of element w, not clamped.
  int high(int w) const { return (w - lowest) >> raw_bits; }
};

// What the model shall be chosen for.
enum class Aim { size, speed };

// raw_bits -1 and table_bits 0: chosen. Deterministic on every platform: all decisions are made in integers.
Model make_model(datasets::MatrixView matrix, int raw_bits, int table_bits, Aim aim);

}  // namespace ecmv::codecs::quad_huffman
