// Intel's AMX by inline assembly, so that no instruction set of Highway has to be compiled for it: eight tile registers
// of 16 rows of 64 bytes, which compilers do not know, and the instruction that multiplies tiles of bf16 (Intel's
// manual, TDPBF16PS).
#pragma once

#include <cstdint>
#include <string>

namespace ecmv::backends::cpu {

inline constexpr int64_t kTileRows = 16, kTileRowBytes = 64;
inline constexpr int64_t kTileSteps = kTileRowBytes / 4;  // pairs of bf16

// Why this process cannot use tiles of bf16, as a sentence; "" if it can. A process has to ask Linux for them; the
// first call asks for all its threads.
std::string why_no_bf16_tiles();

#if defined(__x86_64__)
// While it lives, the thread's tile registers are whole tiles. Afterwards it gives them back, as the system has
// to save them.
class TileRegisters {
 public:
  TileRegisters() {
    alignas(64) static constexpr Shapes kShapes;
    asm volatile("ldtilecfg %0" : : "m"(kShapes));
  }
  ~TileRegisters() { asm volatile("tilerelease"); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

 private:
  struct Shapes {
    uint8_t palette = 1, unused[15] = {};
    uint16_t row_bytes[16] = {kTileRowBytes, kTileRowBytes, kTileRowBytes, kTileRowBytes,
                              kTileRowBytes, kTileRowBytes, kTileRowBytes, kTileRowBytes};
    uint8_t rows[16] = {kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows};
  };
  static_assert(sizeof(Shapes) == 64);
};

// Loads rows of 64 bytes, each `stride` bytes after the one before.
template <int kTile>
inline void LoadTile(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
inline void StoreTile(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}
// to[row][col] += the sum over pairs p of a[row][p] * b[p][col].
template <int kTo, int kA, int kB>
inline void MultiplyPairs() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kTo), "i"(kA), "i"(kB));
}
#endif

}  // namespace ecmv::backends::cpu
