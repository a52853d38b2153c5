// The code of the 16-bit symbols of a transformed block. Its seven prefixes are complete.
#include <bit>

#include "codecs/mpc/format.h"

namespace ecmv::codecs::mpc {
namespace {

constexpr int kPositionBits = 4, kRunBits = 4;

void put_symbol(uint32_t symbol, modelling::BitWriter& out) {
  const int position = 15 - (std::bit_width(symbol) - 1);  // of the first one; the first bit's is 0
  if (std::has_single_bit(symbol)) {
    out.put(0b011, 3);
    out.put(static_cast<uint64_t>(position), kPositionBits);
  } else if (symbol == uint32_t{0xc000} >> position) {
    out.put(0b0000, 4);
    out.put(static_cast<uint64_t>(position), kPositionBits);
  } else if (symbol < 256) {
    out.put(0b0001, 4);
    out.put(symbol, 8);
  } else if ((symbol & 255) == 0) {
    out.put(0b0010, 4);
    out.put(symbol >> 8, 8);
  } else {
    out.put(1, 1);
    out.put(symbol, 16);
  }
}

}  // namespace

void put_symbols(const Symbols& symbols, modelling::BitWriter& out) {
  for (int i = 0; i < kSymbols;) {
    if (symbols[i] != 0) {
      put_symbol(symbols[i++], out);
      continue;
    }
    int run = 1;
    while (i + run < kSymbols && symbols[i + run] == 0) ++run;
    i += run;
    if (run == 1) {
      out.put(0b0011, 4);
    } else {
      out.put(0b010, 3);
      out.put(static_cast<uint64_t>(run - 1), kRunBits);
    }
  }
}

Symbols read_symbols(modelling::BitReader& in) {
  Symbols symbols = {};
  for (int i = 0; i < kSymbols;) {
    if (in.read(1) == 1) {
      symbols[i++] = static_cast<uint16_t>(in.read(16));
    } else if (in.read(1) == 1) {
      const bool is_one = in.read(1) == 1;
      const auto field = static_cast<int>(in.read(kPositionBits));
      if (is_one) {
        symbols[i++] = static_cast<uint16_t>(0x8000 >> field);
      } else {
        if (field == 0 || i + field + 1 > kSymbols)
          throw MalformedStream("A run of zero symbols is of one symbol or goes beyond its block.");
        i += field + 1;
      }
    } else {
      switch (in.read(2)) {
        case 0b00: {
          const auto position = static_cast<int>(in.read(kPositionBits));
          if (position == 15) throw MalformedStream("Of two neighbouring ones the second lies outside of its symbol.");
          symbols[i++] = static_cast<uint16_t>(0xc000 >> position);
          break;
        }
        case 0b01: symbols[i++] = static_cast<uint16_t>(in.read(8)); break;
        case 0b10: symbols[i++] = static_cast<uint16_t>(in.read(8) << 8); break;
        default: ++i;  // one zero symbol
      }
    }
  }
  return symbols;
}

}  // namespace ecmv::codecs::mpc
