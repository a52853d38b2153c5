// The encoder's model for `single_level`: how many low bits stay raw, where the high parts begin, which tuples get a
// code and which tuples replace the others. All decisions are integer arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "datasets/matrix.h"

namespace ecmv::codecs::huffman_lut::single_level {

struct TupleCode {
  int tuple = 4;
  int raw_bits = 0;
  int32_t lowest = 0;
  std::vector<uint8_t> lengths;      // [65536]; 0: no code (or the only one)
  std::vector<uint32_t> codes;       // [65536] bits reversed: the first one least significant
  std::vector<uint16_t> order;       // tuples in canonical order
  std::vector<uint16_t> substitute;  // [65536] the tuple itself if it has a code, else one with a code

  // The high part that codes `element`, clamped into the window of 16 parts (quads) or 256 (pairs).
  uint32_t high_of(int32_t element) const;
};

// The code for a matrix. With raw_bits < 0 it takes the number that gives the fewest bytes on a sample of rows.
TupleCode make_tuple_code(datasets::MatrixView matrix, int tuple, int table_bits, int raw_bits);

}  // namespace ecmv::codecs::huffman_lut::single_level
