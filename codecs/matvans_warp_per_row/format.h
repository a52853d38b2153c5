// Stored bytes of matvans_warp_per_row, version 1. A row belongs to 32 lanes with an ANS coder each (32-bit head,
// 16-bit words, probabilities of 8 bits); lane l has columns 512 g + 16 l .. 512 g + 16 l + 15 of every g. README.md
// has a drawing.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace ecmv::codecs::matvans_warp_per_row {

inline constexpr uint32_t kFormatVersion = 1;
inline constexpr int kFormatLanes = 32;
inline constexpr int kLaneCols = 16;                         // neighbouring columns of a lane
inline constexpr int kGroupCols = kFormatLanes * kLaneCols;  // 512
inline constexpr int kUnitWords = 8;                         // words of a lane that lie side by side: one 16-byte load
inline constexpr int kModelBits = 8;
inline constexpr int kSlots = 1 << kModelBits;
inline constexpr uint32_t kLowestHead = uint32_t{1} << 16;  // a head below it takes a word

enum SectionNumber : int {
  kPayload,   // u16 words, little-endian
  kCursors,   // index: u32[rows], a row's first word
  kCdf,       // table: u8[grid + 1], low bytes of the cumulative slots of the values min_value, min_value + 1, ...
  kPpf,       // table: u8[256], slot -> value - min_value
  kMinValue,  // table: int8
  kSections,
};

// The place of a lane's word j, in words from the row's cursor.
constexpr int64_t word_position(int64_t j, int lane) {
  return j / kUnitWords * (kUnitWords * kFormatLanes) + lane * kUnitWords + j % kUnitWords;
}

inline uint16_t u16_at(std::span<const std::byte> words, int64_t index) {
  uint16_t value;
  std::memcpy(&value, words.data() + index * 2, 2);
  return value;
}

inline uint32_t u32_at(std::span<const std::byte> words, int64_t index) {
  uint32_t value;
  std::memcpy(&value, words.data() + index * 4, 4);
  return value;
}

}  // namespace ecmv::codecs::matvans_warp_per_row
