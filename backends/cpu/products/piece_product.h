// The product of a decoded piece in portable C++: the scalar half of piece_product-inl.h.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ecmv::backends::cpu {

// y[row] += the elements of a piece that belong to the row, for all rows of the piece, which begins at element `begin`.
inline void multiply_piece(const int8_t* piece, int64_t begin, int64_t count, int64_t cols, const int8_t* x,
                           int32_t* y) {
  while (count > 0) {
    const int64_t row = begin / cols, col = begin % cols, length = std::min(count, cols - col);
    int32_t sum = 0;
    for (int64_t i = 0; i < length; ++i) sum += piece[i] * x[col + i];
    y[row] += sum;
    piece += length;
    begin += length;
    count -= length;
  }
}

}  // namespace ecmv::backends::cpu
