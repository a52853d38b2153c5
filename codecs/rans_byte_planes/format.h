// The stored bytes of rans_byte_planes, shared by encoder, reference and kernels. A symbol names the classes of
// elements at the same lane of 1, 2 or 3 neighbouring vectors of 64; raw bits tell which element of its class is meant.
// 512 interleaved rANS states of 16 bits (M = L = 256, bytes) code the symbols, kept as a plane of high bytes and a
// plane of low bytes. Of a bf16 matrix the exponents are coded, as a matrix of int8, and signs and mantissas are stored
// beside them. README.md has a drawing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "codecs/compressed_matrix.h"

namespace ecmv::codecs::rans_byte_planes {

inline constexpr int kGroup = 64;                     // lanes of a step: one vector of bytes
inline constexpr int kSteps = 8;                      // groups, and steps of a round: each group steps once
inline constexpr int kFormatLanes = kGroup * kSteps;  // interleaved states of a block
inline constexpr int kSlots = 256;                    // M, and the lower end of the state interval
inline constexpr int kMaxFrequency = 127;             // a signed byte in the pairwise multiply-add
inline constexpr int kMaxModels = 2;
inline constexpr int kMinGapBits = 6, kMaxGapBits = 13;  // an exception is a gap and the number of its delta
inline constexpr int kMinDeltaBits = 1, kMaxDeltaBits = 8;
inline constexpr int kDeltas = 1 << kMaxDeltaBits;
inline constexpr int kExceptionPadding = 4;      // an entry is read as 4 bytes
inline constexpr int kHeadBytes = kFormatLanes;  // the first exceptions of a block are the low bytes of its last states
inline constexpr int kStreamPadding = 64;        // a kernel loads 64 bytes and uses what a step consumes

enum SectionNumber { kTables, kIndex, kStates, kStream, kRaw, kExceptions, kElements, kSectionCount };
// bf16 has one section more: a byte for each element's mantissa and, lowest, sign.
inline constexpr int kFractions = kSectionCount;
inline constexpr int kFractionPadding = 64;  // a kernel loads 64 bytes from any element on

// Runs of slots that hold the same symbol, so that fewer operations find it: 2i and 2i + 1 (all frequencies are even: 7
// probability bits), or 4i .. 4i + 3 of the first kFourSlots.
enum Runs : uint8_t { kAnyRuns, kTwos, kFours, kRunsCount };
inline constexpr int kFourSlots = 192;

// Values of a symbol, raw bits of a value.
struct Form {
  uint8_t values = 1;
  uint8_t raw_bits = 0;
  uint8_t runs = kAnyRuns;
  uint8_t unused = 0;
  bool operator==(const Form&) const = default;
};

// The first slot of the run that `slot` is in.
constexpr int first_of_run(int runs, int slot) {
  return runs == kTwos ? slot & ~1 : runs == kFours && slot < kFourSlots ? slot & ~3 : slot;
}

// A kernel's tables, stored ready for use.
struct Model {
  Form form;
  uint8_t unused[60];
  uint8_t frequency[64];    // by symbol; 0: the symbol does not occur
  uint8_t minus_start[64];  // by symbol: minus the first of its slots, modulo 256
  uint8_t symbol[kSlots];   // by slot
  int8_t value[3][256];     // by position in the symbol, then by class bits and raw bits as place() puts them
};
static_assert(sizeof(Model) == 64 + 64 + 64 + 256 + 768);

// The first rows of a block are coded with model 0, the others with model 1.
struct Header {
  uint8_t models = 0;  // 0: the matrix is in section `elements` as it is
  uint8_t gap_bits = 0;
  uint8_t delta_bits = 0;
  uint8_t unused_byte = 0;
  uint16_t first_share = 0;  // of 256: rows of a block coded with model 0 = rows * first_share / 256
  uint8_t unused[58];
  int16_t delta[kDeltas];  // what an exception adds to the decoded value; the widest gap only moves on
};
static_assert(sizeof(Header) == 576);

// The beginnings of a block's parts. There is one entry more than there are blocks.
struct BlockIndex {
  uint64_t stream;  // bytes
  uint64_t raw;     // bytes
  uint64_t
      exceptions;  // entries of gap_bits + delta_bits bits, packed from the lowest bit up, after those of the heads
};

// Bits of a symbol that name one value's class.
constexpr int class_bits(int values) { return values == 1 ? 6 : values == 2 ? 3 : 2; }
constexpr int class_mask(int values, int position) {
  return ((1 << class_bits(values)) - 1) << (class_bits(values) * position);
}
constexpr int max_raw_bits(int values) { return values == 1 ? 2 : values == 2 ? 5 : 4; }
constexpr int index_bits(Form form) {
  return form.values == 1 ? 6 + form.raw_bits : form.values == 2 && form.raw_bits > 3 ? 3 + form.raw_bits : 6;
}
constexpr int64_t round_elements(int values) { return int64_t{kFormatLanes} * values; }
constexpr int64_t raw_bytes_per_lane(Form form) { return int64_t{form.values} * form.raw_bits; }  // of a round: 8 steps
constexpr int64_t round_raw_bytes(Form form) { return raw_bytes_per_lane(form) * kGroup; }

// An index byte for a value has the symbol's class bits where they are, and raw bits in the byte's other places. A
// piece says where these raw bits come from: vector `vector` of the round's raw bytes, shifted right by `shift` (left
// if negative), under `mask`. The places are chosen so that most raw bits need neither a shift nor a second vector.
struct Piece {
  int8_t vector = 0;
  int8_t shift = 0;
  uint8_t mask = 0;
};
struct Placement {
  int count = 0;
  Piece pieces[2] = {};
};

constexpr Placement one(int vector, int shift, int mask) {
  return {1, {{static_cast<int8_t>(vector), static_cast<int8_t>(shift), static_cast<uint8_t>(mask)}, {}}};
}
constexpr Placement two(int va, int sa, int ma, int vb, int sb, int mb) {
  return {2,
          {{static_cast<int8_t>(va), static_cast<int8_t>(sa), static_cast<uint8_t>(ma)},
           {static_cast<int8_t>(vb), static_cast<int8_t>(sb), static_cast<uint8_t>(mb)}}};
}

constexpr Placement place(int values, int raw_bits, int step, int position) {
  const int p = position, s = step, j = s & 3, half = s / 4;
  switch (values * 8 + raw_bits) {
    case 1 * 8 + 1: return one(0, s - 6, 0x40);
    case 1 * 8 + 2: return one(half, 2 * j - 6, 0xC0);
    case 2 * 8 + 1: return one(half, j, p == 0 ? 0x10 : 0x01);
    case 2 * 8 + 2: return one(s / 2, 2 * (s & 1), p == 0 ? 0x30 : 0x03);
    case 2 * 8 + 3:
      if (j < 3) return one(3 * half + j, 0, p == 0 ? 0x38 : 0x07);
      return p == 0 ? two(3 * half + 1, 4, 0x08, 3 * half + 2, 2, 0x30) : two(3 * half, 6, 0x03, 3 * half + 1, 4, 0x04);
    case 2 * 8 + 4: return p == 0 ? one(s, 0, 0x78) : two(s, 0, 0x07, s, 1, 0x40);
    case 2 * 8 + 5: return p == 0 ? one(s, 0, 0xF8) : two(s, 0, 0x07, 8 + half, 2 * j - 6, 0xC0);
    case 3 * 8 + 1:
      if (s < 6) return one(s / 2, s & 1, p == 0 ? 0x04 : p == 1 ? 0x10 : 0x01);
      return p == 0 ? one(0, s - 2, 0x04) : p == 1 ? one(1, s - 4, 0x10) : one(2, s, 0x01);
    case 3 * 8 + 2:
      if (j < 3) return one(3 * half + j, 0, p == 0 ? 0x0C : p == 1 ? 0x30 : 0x03);
      return p == 0 ? one(3 * half, 4, 0x0C) : p == 1 ? one(3 * half + 1, 2, 0x30) : one(3 * half + 2, 6, 0x03);
    case 3 * 8 + 3: return p == 0 ? one(s, 0, 0x1C) : p == 1 ? one(s, 0, 0x23) : two(s, 6, 0x03, 8, s - 2, 0x04);
    case 3 * 8 + 4: {
      const int a = 6 * half + 2 * j, f = 6 * half;
      if (j < 3) return p == 0 ? one(a, 0, 0x3C) : p == 1 ? two(a, 0, 0x03, a + 1, 0, 0x30) : one(a + 1, 0, 0x0F);
      return p == 0   ? two(f, 4, 0x0C, f + 1, 2, 0x30)
             : p == 1 ? two(f + 2, 6, 0x03, f + 3, 2, 0x30)
                      : two(f + 4, 6, 0x03, f + 5, 4, 0x0C);
    }
  }
  return {};
}

// Index bits that hold raw bits: the same in every step.
constexpr int raw_mask(int values, int raw_bits, int position) {
  int mask = 0;
  const Placement placement = place(values, raw_bits, 0, position);
  for (int i = 0; i < placement.count; ++i) mask |= placement.pieces[i].mask;
  return mask;
}

// Puts the bits of `value` into the places of `mask`, and back.
constexpr int deposit(int value, int mask) {
  int out = 0;
  for (int bit = 0; mask != 0; mask &= mask - 1, ++bit)
    if (value >> bit & 1) out |= mask & -mask;
  return out;
}
constexpr int extract(int value, int mask) {
  int out = 0;
  for (int bit = 0; mask != 0; mask &= mask - 1, ++bit)
    if (value & (mask & -mask)) out |= 1 << bit;
  return out;
}

// A bf16 as the int8 that is coded, its exponent - 128, and the byte beside it. With the exponent above this byte it is
// the element turned by one bit, which costs a kernel one operation for 32 elements.
constexpr int8_t coded_exponent(uint16_t element) { return static_cast<int8_t>((element >> 7 & 255) - 128); }
constexpr uint8_t fraction(uint16_t element) { return static_cast<uint8_t>(element << 1 | element >> 15); }
constexpr uint16_t bf16_of(int8_t exponent, uint8_t fraction) {
  const int turned = (exponent + 128) << 8 | fraction;
  return static_cast<uint16_t>(turned >> 1 | turned << 15);
}

// Blocks and their parts, known from shape, type and settings alone.
struct Layout {
  int64_t rows = 0, cols = 0, rows_per_block = 1, blocks = 0;
  int64_t block_rows(int64_t block) const { return std::min(rows_per_block, rows - block * rows_per_block); }
};
Layout layout_of(datasets::Shape shape, datasets::ElementType type, const Settings& settings);

}  // namespace ecmv::codecs::rans_byte_planes
