// Counts go to four tables in turn, so that equal neighbours, frequent in peaked data, do not wait for each other's
// store. 32-bit counts are added to the 64-bit result before they can overflow.
#include "codecs/modelling/histogram.h"

#include <algorithm>
#include <cstddef>

namespace ecmv::codecs::modelling {

Histogram histogram(std::span<const int8_t> elements) {
  constexpr size_t kPiece = size_t{1} << 30;
  Histogram total{};
  for (size_t begin = 0; begin < elements.size(); begin += kPiece) {
    const auto piece = elements.subspan(begin, std::min(kPiece, elements.size() - begin));
    std::array<std::array<uint32_t, 256>, 4> counts{};
    const auto bin = [&](size_t i) { return static_cast<uint8_t>(piece[i] + 128); };
    size_t i = 0;
    for (; i + 4 <= piece.size(); i += 4) {
      ++counts[0][bin(i)];
      ++counts[1][bin(i + 1)];
      ++counts[2][bin(i + 2)];
      ++counts[3][bin(i + 3)];
    }
    for (; i < piece.size(); ++i) ++counts[0][bin(i)];
    for (size_t b = 0; b < 256; ++b) total[b] += uint64_t{counts[0][b]} + counts[1][b] + counts[2][b] + counts[3][b];
  }
  return total;
}

}  // namespace ecmv::codecs::modelling
