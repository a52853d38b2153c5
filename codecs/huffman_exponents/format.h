// Stored bytes of huffman_exponents, version 1; all integers little-endian, drawn in README.md. An element is split
// into its exponent, which has a Huffman code, and its sign and mantissa, which are stored as they are. The codes are
// one bit stream, MSB first, that thousands of threads can enter: thread i of 512 in a block owns 8 coded bytes. The
// bytes are those that DFloat11 (bf16) and its variants for fp8 (e4m3) write.
#pragma once

#include <cstddef>
#include <cstdint>

#include "datasets/matrix.h"

namespace ecmv::codecs::huffman_exponents {

inline constexpr int kBf16Exponents = 256, kBf16MantissaBits = 7;
inline constexpr int kF8Exponents = 16, kF8MantissaBits = 3;

constexpr bool is_bf16(datasets::ElementType type) { return type == datasets::ElementType::bf16; }

// Sections as in the file, with spare bytes after the codes.
inline constexpr int kLuts = 0;     // u8 [tables + 1, 256]; the last row: code lengths
inline constexpr int kEncoded = 1;  // bit stream and kSpareBytes
// bf16: a byte an element (sign, mantissa); f8: two elements a byte, the first above, sign << 3 | mantissa
inline constexpr int kSignMantissa = 2;
// u32 [blocks + 1]: first element of each block of 512 threads, and the number of elements. The entry of a last block
// in which no code starts may be missing.
inline constexpr int kOutputPositions = 3;
// gap_bits() a thread, MSB first: bits from its first byte to the first code that starts there; a spare byte
inline constexpr int kGaps = 4;
// i64: where the matrices of one stream begin, without the first; mostly empty
inline constexpr int kSplitPositions = 5;
inline constexpr int kSections = 6;

inline constexpr int kTableRow = 256;
inline constexpr int kThreadBytes = 8;  // coded bytes of a thread
inline constexpr int kThreadBits = 8 * kThreadBytes;
inline constexpr int kBlockThreads = 512;  // threads of an output position
inline constexpr int kBlockBytes = kThreadBytes * kBlockThreads;
// The last thread loads 8 bytes and 4 more, wherever its own begin; CPU kernels load 8 from any byte.
inline constexpr int kSpareBytes = 16;
inline constexpr int kMaxSymbols = 240;  // entries 240..255 of the tables point to row 256 - entry
inline constexpr int kMaxSubtables = 16;

constexpr int gap_bits(datasets::ElementType type) { return is_bf16(type) ? 5 : 4; }
constexpr int max_code_bits(datasets::ElementType type) { return is_bf16(type) ? 32 : 16; }
constexpr int symbols_of(datasets::ElementType type) { return is_bf16(type) ? kMaxSymbols : kF8Exponents; }
constexpr int64_t raw_bytes(int64_t elements, datasets::ElementType type) {
  return is_bf16(type) ? elements : (elements + 1) / 2;
}

}  // namespace ecmv::codecs::huffman_exponents
