// The header of a stream. No other file knows which bits of it mean what.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::quad_huffman {

// Section numbers.
inline constexpr int kHeader = 0, kTable = 1, kTiles = 2, kSchedule = 3, kCodes = 4, kRaw = 5, kPatches = 6,
                     kSections = 7;

// Bits of the header's first byte: a Form where the matrix is coded, kPlain where it is not.
inline constexpr int kFolded = 16, kPlain = 32, kF8 = 64;
inline constexpr int kSignMantissaBits = 8, kF8SignMantissaBits = 4;  // raw bits of bf16 and f8 beside their exponents

// The raw bits of an element. Kernels have a form as a template argument, on GPUs as the stored int.
struct Form {
  int raw_bits = 0;     // B; floats: with sign and mantissa
  bool folded = false;  // cells on both sides of `lowest` share a code; the highest raw bit is the sign
  bool floats = false, f8 = false;

  constexpr Form(int stored = 0)
      : raw_bits(stored & 15),
        folded((stored & kFolded) != 0),
        floats(!folded && (stored & (kF8 | kSignMantissaBits)) != 0),
        f8((stored & kF8) != 0) {}
  constexpr operator int() const { return raw_bits + (folded ? kFolded : 0) + (f8 ? kF8 : 0); }
};

// A lane has a row, its part of a matrix unit's operand, or 32 columns of all rows (layout.h).
enum class Layout { rows, fragments, strips };

struct Header {
  Form form;
  int table_bits = 0, lowest = 0, tile_segments = 0, symbol_cols = 0;
  Layout layout = Layout::rows;
  bool rotated = false;        // the symbols
  int largest_substitute = 0;  // floats: the largest exponent that is coded in place of another one
};

inline constexpr size_t kHeaderBytes = 6, kFloatHeaderBytes = 7, kPlainHeaderBytes = 1;
inline constexpr size_t header_bytes(bool floats) { return floats ? kFloatHeaderBytes : kHeaderBytes; }

namespace header_bits {
inline constexpr int kTileSegments = 64, kFragments = 128;        // byte 4; its low bits count segments
inline constexpr int kFloats = 16, kRotated = 64, kStrips = 128;  // byte 5; its low bits are log2 of K
}  // namespace header_bits

inline std::vector<std::byte> write_header(const Header& header) {
  using namespace header_bits;
  const int bytes[] = {header.form,
                       header.table_bits,
                       header.lowest,
                       header.lowest >> 8,
                       header.tile_segments + kTileSegments + (header.layout == Layout::fragments ? kFragments : 0),
                       std::countr_zero(static_cast<uint32_t>(header.symbol_cols)) +
                           (header.form.floats ? kFloats : 0) + (header.rotated ? kRotated : 0) +
                           (header.layout == Layout::strips ? kStrips : 0),
                       header.largest_substitute};
  std::vector<std::byte> out;
  for (size_t i = 0; i < header_bytes(header.form.floats); ++i) out.push_back(static_cast<std::byte>(bytes[i] & 255));
  return out;
}

// Takes header_bytes() bytes and drops bits without a meaning. To check an untrusted header, write the result again and
// compare.
inline Header read_header(std::span<const std::byte> bytes) {
  using namespace header_bits;
  const auto byte = [&](size_t i) { return std::to_integer<int>(bytes[i]); };
  return {.form = byte(0),
          .table_bits = byte(1),
          .lowest = static_cast<int16_t>(byte(2) | byte(3) << 8),
          .tile_segments = byte(4) & (kTileSegments - 1),
          .symbol_cols = 1 << (byte(5) & 3),
          .layout = (byte(4) & kFragments) != 0 ? Layout::fragments
                    : (byte(5) & kStrips) != 0  ? Layout::strips
                                                : Layout::rows,
          .rotated = (byte(5) & kRotated) != 0,
          .largest_substitute = bytes.size() > kHeaderBytes ? byte(kHeaderBytes) : 0};
}
inline Header header_of(const CompressedView& view) { return read_header(view.sections[kHeader].host); }

// Says whether the elements are stored as they are: row-major in the section of raw bits, with the other sections
// empty.
inline bool is_plain(const CompressedView& view) {
  const auto& header = view.sections[kHeader].host;
  return header.size() == kPlainHeaderBytes && header[0] == std::byte{kPlain};
}
// With which kernels refuse the one and the other.
inline constexpr const char* kRefusesPlain =
    "The elements are stored as they are, for which there is the kernel plain.";
inline constexpr const char* kRefusesCodes = "The elements are stored as codes.";

}  // namespace ecmv::codecs::quad_huffman
