// The walk of the CPU kernels. A block of 4096 coded bytes begins at its output position and its first gap, and four
// blocks are decoded at once. A call that begins inside a block drops the elements before its own. `Join` makes
// elements of exponents and raw bits, see cpu.cpp.
#pragma once

#include "codecs/compressed_matrix.h"
#include "codecs/huffman_exponents/walk.h"

namespace ecmv::codecs::huffman_exponents {

inline constexpr int64_t kBufferBytes = 8 * int64_t{kBlockBytes} + kSlackBytes;  // codes of one bit
inline constexpr int64_t kJoinedEntries = (kMaxSubtables + 1) * 256;

// A run is stored whole, with the first exponent first.
inline std::string refuses_big_endian(const CompressedView&, const backends::DeviceInfo&, const backends::Policy&) {
  return std::endian::native == std::endian::little ? "" : "This kernel needs a little-endian machine.";
}

// What a bound kernel knows of its matrix.
struct Stored {
  const uint8_t* luts;
  const uint8_t* encoded;
  const uint8_t* raw;  // signs and mantissas
  const uint8_t* gaps;
  const uint8_t* positions;
  int64_t lut_bytes, position_count, blocks, elements, cols;
  int gap_bits;

  explicit Stored(const CompressedView& matrix)
      : luts(section_bytes(matrix, kLuts)),
        encoded(section_bytes(matrix, kEncoded)),
        raw(section_bytes(matrix, kSignMantissa)),
        gaps(section_bytes(matrix, kGaps)),
        positions(section_bytes(matrix, kOutputPositions)),
        lut_bytes(static_cast<int64_t>(matrix.sections[kLuts].bytes.size())),
        position_count(static_cast<int64_t>(matrix.sections[kOutputPositions].bytes.size() / 4)),
        blocks((static_cast<int64_t>(matrix.sections[kEncoded].bytes.size()) - kSpareBytes + kBlockBytes - 1) /
               kBlockBytes),
        elements(matrix.shape.elements()),
        cols(matrix.shape.cols),
        gap_bits(huffman_exponents::gap_bits(matrix.type)) {}

  // The first element of a block. The entry past the last block may be missing.
  int64_t position(int64_t block) const { return block < position_count ? load_u32(positions + 4 * block) : elements; }
  // The first bit of the block's first code. The gap of thread 512 b begins at a byte.
  uint64_t first_bit(int64_t block) const {
    return static_cast<uint64_t>(block) * kBlockBytes * 8 +
           (gaps[block * kBlockThreads * gap_bits / 8] >> (8 - gap_bits));
  }
};

// joined[i]: a table's entry with its code length below it; length 0: the entry leads to another table.
inline void join_tables(const Stored& stored, uint16_t* joined) {
  const uint8_t* luts = stored.luts;
  const size_t tables = static_cast<size_t>(stored.lut_bytes) / 256 - 1;
  for (size_t i = 0; i < tables * 256; ++i)
    joined[i] = static_cast<uint16_t>(luts[i] << 8 | (luts[i] < kMaxSymbols ? luts[tables * 256 + luts[i]] : 0));
}

// No code leads to these entries, so they may hold anything: they end as codes of length 0.
inline FirstCode first_code(const uint16_t* joined, int64_t entries, uint32_t window) {
  uint32_t entry = joined[window >> 24];
  for (int shift = 16; (entry & 0xff) == 0 && (entry >> 8) >= uint32_t{kMaxSymbols} && shift >= 0; shift -= 8) {
    const int64_t next = int64_t{256 - (entry >> 8)} * 256 + (window >> shift & 0xff);
    if (next >= entries) return {0, 0};
    entry = joined[next];
  }
  return {entry >> 8, static_cast<int>(entry & 0xff)};
}

// Tables and buffers of a call, in kScratchBytes.
struct Tables {
  uint64_t* runs;
  uint16_t* joined;
  uint8_t* buffers;
};
inline constexpr int64_t kScratchBytes = kRunEntries * 8 + kJoinedEntries * 2 + kStreamsInTurn * kBufferBytes;

inline Tables build_tables(const Stored& stored, std::byte* scratch) {
  Tables tables{reinterpret_cast<uint64_t*>(scratch), nullptr, nullptr};
  tables.joined = reinterpret_cast<uint16_t*>(tables.runs + kRunEntries);
  tables.buffers = reinterpret_cast<uint8_t*>(tables.joined + kJoinedEntries);
  join_tables(stored, tables.joined);
  build_runs(tables.runs, [&](uint32_t window) { return first_code(tables.joined, stored.lut_bytes - 256, window); });
  return tables;
}

template <class Join>
ECMV_INLINE void decode_rows(const Stored& bound, const Tables& tables, backends::Rows rows, std::byte* to,
                             const Join& join) {
  const int64_t begin = rows.begin * bound.cols, end = rows.end * bound.cols;
  if (begin >= end) return;
  const Stored stored = bound;  // a compiler must assume that stores of bytes change `bound`
  const uint64_t* const runs = tables.runs;
  const uint16_t* const joined = tables.joined;
  uint8_t* const buffers = tables.buffers;
  const int64_t entries = stored.lut_bytes - 256;
  const auto first = [&](uint32_t window) { return first_code(joined, entries, window); };

  int8_t* const out = reinterpret_cast<int8_t*>(to);
  const uint8_t* const encoded = stored.encoded;
  const auto window_at = [encoded](int, uint64_t position) __attribute__((always_inline)) {
    uint64_t window;
    std::memcpy(&window, encoded + (position >> 3), 8);
    return __builtin_bswap64(window) << (position & 7);
  };
  int64_t low = 0, high = stored.blocks;  // the last block that begins at or before `begin`
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (stored.position(middle) <= begin ? low : high) = middle;
  }
  for (int64_t block = low; block < stored.blocks && stored.position(block) < end; block += kStreamsInTurn) {
    uint64_t positions[kStreamsInTurn];
    int64_t counts[kStreamsInTurn] = {}, last = 0;
    uint8_t* outs[kStreamsInTurn];
    for (; last < kStreamsInTurn && block + last < stored.blocks && stored.position(block + last) < end; ++last) {
      positions[last] = stored.first_bit(block + last);
      counts[last] = std::min(stored.position(block + last + 1), end) - stored.position(block + last);
      outs[last] = buffers + last * kBufferBytes;
    }
    if (last == kStreamsInTurn)
      walk<kStreamsInTurn>(runs, window_at, first, positions, counts, outs);
    else
      for (int64_t j = 0; j < last; ++j) walk<1>(runs, window_at, first, positions + j, counts + j, outs + j);
    for (int64_t j = 0; j < last; ++j) {
      const int64_t at = stored.position(block + j), from = std::max(at, begin), to = at + counts[j];
      if (from < to) join(outs[j] + (from - at), stored.raw, from, to - from, out, from - begin);
    }
  }
}

template <class Join>
ECMV_INLINE void run_decode(const Stored& stored, const backends::DecodeArgs& args, const Join& join) {
  if (args.rows.count() > 0) decode_rows(stored, build_tables(stored, args.scratch), args.rows, args.out, join);
}

// Joins f8 elements one by one, from element `from` of the matrix on, into out[at] and on.
inline void join_f8(const uint8_t* exponents, const uint8_t* raw, int64_t from, int64_t count, int8_t* out,
                    int64_t at) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t byte = raw[(from + i) / 2], bits = (from + i) % 2 == 0 ? byte >> 4 : byte & 15u;
    out[at + i] = static_cast<int8_t>((bits & 8) << 4 | uint32_t{exponents[i]} << kF8MantissaBits | (bits & 7));
  }
}

// A bound decode kernel. `run` keeps the instruction set that was in use when it was bound.
struct BoundDecode {
  using Run = void (*)(const Stored&, const backends::DecodeArgs&);
  Stored stored;
  Run run;
  void operator()(void*, const backends::DecodeArgs& args) const { run(stored, args); }
};

// With code for bf16 and for f8.
inline backends::BoundKernel bind_decode(const CompressedView& matrix, BoundDecode::Run bf16, BoundDecode::Run f8) {
  return {BoundDecode{Stored(matrix), is_bf16(matrix.type) ? bf16 : f8},
          {.rows_per_block = std::max<int64_t>(1, kCallElements / std::max<int64_t>(1, matrix.shape.cols)),
           .scratch_bytes = kScratchBytes}};
}

}  // namespace ecmv::codecs::huffman_exponents
