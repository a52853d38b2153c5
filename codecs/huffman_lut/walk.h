// The scalar part of `single_level`, shared by the portable and the SIMD kernels: the look-up table, the position of S
// streams in a block, and the walk that turns them into table entries. Everything is inlined, so that each kernel
// compiles it for its own instruction set (BMI2 shifts on AVX2 and up). Assumes a verified stream.
//
// An entry has 32 bits: the code's length in bits 0..5, the tuple in bits 16..31. Entries are stored whole and the
// vector code drops the lengths later, which saves a shift a look-up.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "backends/cpu/always_inline.h"
#include "backends/kernel.h"
#include "codecs/compressed_matrix.h"
#include "codecs/huffman_lut/format.h"
#include "codecs/modelling/marked_window.h"

namespace ecmv::codecs::huffman_lut::single_level {

// A segment's entries (4 or 8 KiB) stay in L1 beside a table of 16 KiB.
inline constexpr int64_t kSegmentCols = 4096;
inline constexpr int kMaxSegmentUnits = kSegmentCols / 2;

ECMV_INLINE uint64_t load_u64(const uint8_t* p) {
  uint64_t value;
  std::memcpy(&value, p, 8);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  return value;
}

// What a bound kernel knows of its matrix.
struct Stored {
  const uint8_t* streams;
  const uint8_t* planes;  // raw bits
  const uint8_t* patches;
  const uint8_t* code;
  const uint8_t* blocks;
  int32_t lowest;
  uint32_t raw_bits;
  int tuple, stream_count, table_bits;
  int64_t cols, rows_per_block, row_bytes;
};

inline Stored open_stored(const CompressedView& matrix) {
  const auto bytes = [&](int section) {
    return reinterpret_cast<const uint8_t*>(matrix.sections[static_cast<size_t>(section)].bytes.data());
  };
  CodeHeader header;
  std::memcpy(&header, bytes(kCode), sizeof(CodeHeader));
  const Settings& settings = *matrix.settings;
  const int64_t cols = matrix.shape.cols;
  return {.streams = bytes(kStreams),
          .planes = bytes(kRawBits),
          .patches = bytes(kPatches),
          .code = bytes(kCode),
          .blocks = bytes(kBlocks),
          .lowest = header.lowest,
          .raw_bits = header.raw_bits,
          .tuple = static_cast<int>(settings.integer("tuple")),
          .stream_count = static_cast<int>(settings.integer("streams")),
          .table_bits = static_cast<int>(settings.integer("table_bits")),
          .cols = cols,
          .rows_per_block = rows_per_block(cols, settings.integer("block_elements")),
          .row_bytes = raw_row_bytes(cols, static_cast<int>(header.raw_bits))};
}

// Fills table[2^table_bits], indexed by the stream's next bits (the first one least significant), and returns the
// largest high part of any tuple. The table of all codes of up to l bits is repeated for l + 1, so copies write most of
// it: 4096 entries take about a microsecond.
inline uint32_t build_table(const Stored& stored, uint32_t* table) {
  CodeHeader header;
  std::memcpy(&header, stored.code, sizeof(CodeHeader));
  const uint8_t* tuples = stored.code + sizeof(CodeHeader);
  uint32_t largest = 0;
  uint32_t code = 0;  // the next canonical code, right-aligned, first bit most significant
  for (int length = 0; length <= stored.table_bits; ++length) {
    const size_t size = size_t{1} << length;
    if (length > 0) {
      std::memcpy(table + size / 2, table, size / 2 * sizeof(uint32_t));
      code <<= 1;
    }
    for (int i = 0; i < header.codes_of_length[length]; ++i, tuples += 2) {
      const uint32_t tuple = tuples[0] | uint32_t{tuples[1]} << 8;
      uint32_t reversed = 0;
      for (int bit = 0; bit < length; ++bit) reversed |= (code >> bit & 1) << (length - 1 - bit);
      table[reversed] = tuple << 16 | static_cast<uint32_t>(length);
      ++code;
      for (int element = 0; element < stored.tuple; ++element) {
        const uint32_t high = tuple >> tuple_shift(element, stored.tuple) & (stored.tuple == 2 ? 0xff : 0xf);
        largest = high > largest ? high : largest;
      }
    }
  }
  return largest;
}

// Where the streams of a block stand (modelling/marked_window.h).
template <int kStreamCount>
struct Streams {
  const uint8_t* next[kStreamCount];
  uint64_t window[kStreamCount];
};

template <bool kLzcnt, int kStreamCount>
ECMV_INLINE void refill(Streams<kStreamCount>& s, int stream) {
  const uint64_t taken = modelling::leading_zeros<kLzcnt>(s.window[stream]);
  s.next[stream] += taken >> 3;
  s.window[stream] = modelling::load_window(s.next[stream]) >> (taken & 7);
}

template <int kStreamCount>
ECMV_INLINE uint32_t take(Streams<kStreamCount>& s, int stream, const uint32_t* table, uint64_t mask) {
  uint32_t entry = table[s.window[stream] & mask];
  // Hides that neighbouring entries are stored side by side: a compiler that vectorised the look-ups into gathers would
  // cost the walk a third of its speed. Also keeps the streams interleaved as written.
#if defined(__GNUC__)
  asm volatile("" : "+r"(entry));
#endif
  s.window[stream] >>= entry & 63;
  return entry;
}

// The entries of the next `units` units of a row; every call for a row but the last takes whole tiles. A stream has
// four look-ups (at most 56 bits) between refills. Eight streams run interleaved, one look-up each: their windows fit
// the registers, and eight chains of 7 cycles need only a small part of the reorder buffer. Zen 4 reads 2.21 G quads a
// second interleaved, 1.84 G when a stream takes its four look-ups in a row, and 1.48 G with four streams.
template <bool kLzcnt, int kStreamCount>
ECMV_INLINE void walk(Streams<kStreamCount>& state, const uint32_t* table, uint64_t mask, int64_t units,
                      uint32_t* entries) {
  constexpr int kGroup = kStreamCount < 8 ? kStreamCount : 8;
  Streams<kStreamCount> s = state;
  for (; units >= 4 * kStreamCount; units -= 4 * kStreamCount, entries += 4 * kStreamCount) {
#pragma GCC unroll 4
    for (int group = 0; group < kStreamCount; group += kGroup) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
#pragma GCC unroll 8
        for (int j = group; j < group + kGroup; ++j) entries[i * kStreamCount + j] = take(s, j, table, mask);
#pragma GCC unroll 8
      for (int j = group; j < group + kGroup; ++j) refill<kLzcnt>(s, j);
    }
  }
  state = s;
  if (units > 0) {
    for (int64_t unit = 0; unit < units; ++unit)
      entries[unit] = take(state, static_cast<int>(unit % kStreamCount), table, mask);
    for (int j = 0; j < kStreamCount; ++j) refill<kLzcnt>(state, j);
  }
}

// Opens the streams of a block at their beginnings.
template <int kStreamCount>
inline void open_block(const Stored& stored, int64_t block, Streams<kStreamCount>& s) {
  const uint8_t* record = stored.blocks + block * block_record_bytes(kStreamCount);
  const uint8_t* stream = stored.streams + load_u64(record);
  for (int j = 0; j < kStreamCount; ++j) {
    s.next[j] = stream;
    s.window[j] = modelling::load_window(stream);
    uint32_t bytes;
    std::memcpy(&bytes, record + 16 + 4 * j, 4);
    stream += bytes;
  }
}

// The patches of a block in order. The current one adds `addend` to element `position`, counted from the block's first;
// `left` more follow.
struct PatchList {
  const uint8_t* next;
  int64_t left, position;
  int32_t addend;

  ECMV_INLINE void advance() {
    if (--left < 0) {
      position = INT64_MAX;
      return;
    }
    uint32_t patch;
    std::memcpy(&patch, next, 4);
    next += kPatchBytes;
    position += patch & 0xffff;
    addend = static_cast<int8_t>(patch >> 16);
  }
};

ECMV_INLINE PatchList open_patches(const Stored& stored, int64_t block) {
  const int64_t record = block_record_bytes(stored.stream_count);
  const int64_t begin = static_cast<int64_t>(load_u64(stored.blocks + block * record + 8));
  const int64_t end = static_cast<int64_t>(load_u64(stored.blocks + (block + 1) * record + 8));
  PatchList patches{stored.patches + begin * kPatchBytes, end - begin, 0, 0};
  patches.advance();
  return patches;
}

// Expands one tile of `cols` columns from entries and raw bits to offsets t = high << raw_bits | raw (mod 256), in
// plain loops.
inline void expand_tile(const Stored& stored, const uint32_t* entries, const uint8_t* raw, int64_t cols,
                        uint8_t* offsets) {
  const int raw_bits = static_cast<int>(stored.raw_bits);
  const int64_t units = units_of(cols, stored.tuple);
  std::memset(offsets, 0, kTileCols);
  if (stored.tuple == 2) {
    for (int64_t u = 0; u < units; ++u) {
      offsets[2 * u] = static_cast<uint8_t>((entries[u] >> 16 & 0xff) << raw_bits);
      offsets[2 * u + 1] = static_cast<uint8_t>(entries[u] >> 24 << raw_bits);
    }
  } else {
    for (int64_t u = 0; u < units; ++u) {
      uint8_t* first = offsets + unit_column(u, 4);
      const uint32_t tuple = entries[u] >> 16;
      first[0] = static_cast<uint8_t>((tuple & 15) << raw_bits);
      first[1] = static_cast<uint8_t>((tuple >> 8 & 15) << raw_bits);
      first[32] = static_cast<uint8_t>((tuple >> 4 & 15) << raw_bits);
      first[33] = static_cast<uint8_t>((tuple >> 12) << raw_bits);
    }
  }
  int below = raw_bits;  // raw bits less significant than the planes done so far
  for (int width = 4; width > 0; width /= 2) {
    if ((raw_bits & width) == 0) continue;
    below -= width;
    const int64_t bytes = plane_bytes(cols, width);
    const uint8_t field = static_cast<uint8_t>((1 << width) - 1);
    for (int k = 0; k < 8 / width; ++k) {
      uint8_t* columns = offsets + bytes * k;
      const int64_t here = bytes < cols - bytes * k ? bytes : cols - bytes * k;
      for (int64_t i = 0; i < here; ++i)
        columns[i] = static_cast<uint8_t>(columns[i] | (raw[i] >> (width * k) & field) << below);
    }
    raw += bytes;
  }
}

// The vector code reads entries as u16 halves and bytes, so hosts must be little-endian.
inline std::string refuses_layout(const CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  if (matrix.settings->text("layout") != "single_level") return "This kernel decodes the layout single_level only.";
  if constexpr (std::endian::native != std::endian::little) return "This kernel needs a little-endian machine.";
  return "";
}

// A bound kernel. `run` keeps the instruction set that was in use when it was bound.
template <typename Args>
struct BoundTuples {
  using Run = void (*)(const Stored&, const Args&);
  Stored stored;
  Run run;
  void operator()(void*, const Args& args) const { run(stored, args); }
};

// Instances for 4, 8 and 16 streams.
template <typename Args>
backends::BoundKernel bind_tuples(const CompressedView& matrix, typename BoundTuples<Args>::Run of4,
                                  typename BoundTuples<Args>::Run of8, typename BoundTuples<Args>::Run of16) {
  const Stored stored = open_stored(matrix);
  const auto run = stored.stream_count == 4 ? of4 : stored.stream_count == 8 ? of8 : of16;
  return {BoundTuples<Args>{stored, run},
          {.rows_per_block = stored.rows_per_block, .scratch_bytes = int64_t{sizeof(uint32_t)} << stored.table_bits}};
}

template <typename Args>
inline constexpr bool kIsMatvec = std::is_same_v<Args, backends::MatvecArgs>;

// kRows(args, stored, table, the largest high part) handles a call that has elements; others end here.
template <auto kRows, typename Args>
ECMV_INLINE void build_and_run(const Stored& bound, const Args& args) {
  if (args.rows.begin >= args.rows.end) return;
  if (bound.cols == 0) {
    if constexpr (kIsMatvec<Args>) std::fill(args.y + args.rows.begin, args.y + args.rows.end, 0);
    return;
  }
  const Stored stored = bound;  // a compiler must assume that stores of bytes change `bound`
  uint32_t* table = reinterpret_cast<uint32_t*>(args.scratch);
  const uint32_t largest = build_table(stored, table);
  kRows(args, stored, table, largest);
}

}  // namespace ecmv::codecs::huffman_lut::single_level
