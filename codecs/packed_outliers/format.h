// Stored bytes of packed_outliers, version 1. A field is w - lowest, clamped to b bits; records, applied after the
// fields, add back what clamping took away.
//
//   header     4 bytes: b (1..8), lowest (int8), bytes of a distance (1 or 2), bits of a delta (4 or 8)
//   fields     rows of b * (64 * groups + tail strip) bytes, then 64 zero bytes so that vectors may be loaded whole
//   blocks     uint64 a block of 16 rows, and one more: number of its first record
//   distances  one or two bytes a record     deltas  4 or 8 bits a record, two's complement, low nibble first
//
// A group is 8 strips of 64 columns (512 columns); the rest of a row is one group more, with strips of
// roundup(ceil(left / 8), 4) columns. A group of strip width W stores its fields as planes of 4, 2 and 1 bits, those
// whose bit is set in b, in this order: plane P is P * W bytes, and byte (s, j) of it holds P bits of column j of the
// strips s, s + P, s + 2P ... from its low bits up. So a 32-bit word gives four neighbouring columns by (word >> 4) &
// 0x0f0f0f0f, a vector of any width up to 64 bytes likewise, and no field crosses a byte.
//
// A record moves `distance` elements on from the record before (from the block's first element at first; rows follow
// each other) and adds its delta to that element. Far distances are reached by records with delta 0, large deltas by
// several records at distance 0: no record is special.
#pragma once

#include <cstdint>
#include <type_traits>

namespace ecmv::codecs::packed_outliers {

// Section numbers.
inline constexpr int kHeader = 0, kFields = 1, kBlocks = 2, kDistances = 3, kDeltas = 4, kSections = 5;

inline constexpr int64_t kHeaderBytes = 4;
inline constexpr int64_t kStrips = 8;      // strips of a group
inline constexpr int64_t kStripCols = 64;  // columns (and bytes of a 1-bit plane) of a full strip
inline constexpr int64_t kGroupCols = kStrips * kStripCols;
inline constexpr int64_t kRowsPerBlock = 16;
inline constexpr int64_t kFieldPadding = 64;

inline constexpr int64_t full_groups(int64_t cols) { return cols / kGroupCols; }
inline constexpr int64_t tail_cols(int64_t cols) { return cols % kGroupCols; }
// Columns of a strip of the group that holds the tail; 0 where there is no tail.
inline constexpr int64_t tail_strip(int64_t cols) { return (tail_cols(cols) + 31) / 32 * 4; }
inline constexpr int64_t row_bytes(int bits, int64_t cols) {
  return bits * (full_groups(cols) * kStripCols + tail_strip(cols));
}
inline constexpr int64_t block_count(int64_t rows) { return (rows + kRowsPerBlock - 1) / kRowsPerBlock; }

// f(std::integral_constant<int, bits>) for 1 to 8 bits a field; the results are of one type.
template <class F>
auto with_bits(int bits, F f) {
  switch (bits) {
    case 1: return f(std::integral_constant<int, 1>{});
    case 2: return f(std::integral_constant<int, 2>{});
    case 3: return f(std::integral_constant<int, 3>{});
    case 4: return f(std::integral_constant<int, 4>{});
    case 5: return f(std::integral_constant<int, 5>{});
    case 6: return f(std::integral_constant<int, 6>{});
    case 7: return f(std::integral_constant<int, 7>{});
  }
  return f(std::integral_constant<int, 8>{});
}

// What a record can say: distances 0..max_distance, deltas -max_down..max_up.
struct RecordForm {
  int distance_bytes;
  int delta_bits;
  constexpr int64_t max_distance() const { return distance_bytes == 1 ? 255 : 65535; }
  constexpr int max_up() const { return delta_bits == 4 ? 7 : 127; }
  constexpr int max_down() const { return delta_bits == 4 ? 8 : 128; }
  constexpr int64_t bytes(int64_t records) const { return records * distance_bytes + (records * delta_bits + 7) / 8; }
};
inline constexpr RecordForm kRecordForms[] = {{1, 8}, {1, 4}, {2, 8}, {2, 4}};

}  // namespace ecmv::codecs::packed_outliers
