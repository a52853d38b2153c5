// The loops of hierarchical_walk.h. The stored tables are first joined with the code lengths into 16-bit
// entries, so that a code of up to 8 bits costs one look-up: length in bits 0..5 (0: the entry leads to
// another table), symbol or pointer in bits 8..15.
#include "codecs/huffman_lut/hierarchical_walk.h"
#include "codecs/compressed_matrix.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codecs/huffman_lut/format.h"

namespace ecmv::codecs::huffman_lut::hierarchical {
namespace {

constexpr int kAtOnce =
    4;  // blocks decoded in turn, to hide the look-ups' latency: 0.90 G elements/s, with 8 0.81 G (spills)
constexpr int kCodesPerLoad = 4;  // short ones, at most 32 of the 57 bits that a load gives for certain
constexpr int64_t kMaxBlockElements = 8 * int64_t{kBlockBytes};
constexpr int64_t kTableEntries = (kMaxSubtables + 1) * 256;

uint64_t load_bits(const uint8_t* bytes, uint64_t position) {
  uint64_t window;
  std::memcpy(&window, bytes + (position >> 3), 8);
  if constexpr (std::endian::native == std::endian::little) window = __builtin_bswap64(window);
  return window << (position & 7);
}

// What a bound kernel knows of its matrix.
struct Stored {
  const uint8_t* luts;
  const uint8_t* encoded;
  const uint8_t* gaps;
  const uint8_t* positions;
  size_t tables;
  int64_t blocks, cols;
  uint8_t offset;
  uint16_t* entries = nullptr;  // in the scratch of a call

  int64_t position(int64_t block) const {
    uint32_t value;
    std::memcpy(&value, positions + 4 * block, 4);
    return value;
  }
  // The first bit of the block's first code. Gap 512 b begins at bit 2560 b, a byte boundary.
  uint64_t first_bit(int64_t block) const {
    return static_cast<uint64_t>(block) * kBlockBytes * 8 +
           (gaps[block * kBlockThreads * kGapBits / 8] >> (8 - kGapBits));
  }
};

Stored open_stored(const CompressedView& matrix) {
  const auto bytes = [&](int section) {
    return reinterpret_cast<const uint8_t*>(matrix.sections[static_cast<size_t>(section)].bytes.data());
  };
  return {.luts = bytes(kLuts),
          .encoded = bytes(kEncoded),
          .gaps = bytes(kGaps),
          .positions = bytes(kOutputPositions),
          .tables = matrix.sections[kLuts].bytes.size() / 256 - 1,
          .blocks = static_cast<int64_t>(matrix.sections[kOutputPositions].bytes.size() / 4) - 1,
          .cols = matrix.shape.cols,
          .offset = bytes(kOffset)[0]};
}

// The matrix with its tables joined.
Stored join_tables(const Stored& bound, std::byte* scratch) {
  Stored stored = bound;
  stored.entries = reinterpret_cast<uint16_t*>(scratch);
  for (size_t i = 0; i < stored.tables * 256; ++i) {
    const uint32_t entry = stored.luts[i];
    stored.entries[i] = static_cast<uint16_t>(
        entry << 8 | (entry < uint32_t{kMaxSymbols} ? stored.luts[stored.tables * 256 + entry] : 0));
  }
  return stored;
}

// The entry of the code at `position`, of any length.
uint32_t any_code(const Stored& stored, uint64_t position) {
  const uint64_t window = load_bits(stored.encoded, position);
  uint32_t entry = stored.entries[window >> 56];
  for (int shift = 48; (entry & 63) == 0 && shift >= 32; shift -= 8)
    entry = stored.entries[(256 - (entry >> 8)) * 256 + (window >> shift & 0xff)];
  return entry;
}

// Decodes the blocks [first, last) (kAtOnce at most) one after the other to `out`. Positions and pointers are local
// arrays that never escape, so the byte stores cannot alias them and they stay in registers.
void decode_blocks(const Stored& stored, int64_t first, int64_t last, uint8_t* out) {
  const uint16_t* const entries = stored.entries;
  const uint8_t* const encoded = stored.encoded;
  const uint32_t offset = stored.offset;
  uint64_t positions[kAtOnce] = {};
  uint8_t* outs[kAtOnce] = {};
  int64_t left[kAtOnce] = {}, common = INT64_MAX, done = 0;
  const int count = static_cast<int>(last - first);
  for (int j = 0; j < count; ++j) {
    positions[j] = stored.first_bit(first + j);
    outs[j] = out + (stored.position(first + j) - stored.position(first));
    left[j] = stored.position(first + j + 1) - stored.position(first + j);
    common = std::min(common, left[j]);
  }
  if (count == kAtOnce) {
    for (; done + kCodesPerLoad <= common; done += kCodesPerLoad) {
      uint64_t windows[kAtOnce];
#pragma GCC unroll 8
      for (int j = 0; j < kAtOnce; ++j) windows[j] = load_bits(encoded, positions[j]);
#pragma GCC unroll 4
      for (int i = 0; i < kCodesPerLoad; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < kAtOnce; ++j) {
          uint32_t entry = entries[windows[j] >> 56];
          if ((entry & 63) == 0) [[unlikely]] {
            entry = any_code(stored, positions[j]);
            windows[j] = load_bits(encoded, positions[j] + (entry & 63));
          } else {
            windows[j] <<= entry & 63;
          }
          positions[j] += entry & 63;
          outs[j][done + i] = static_cast<uint8_t>((entry >> 8) + offset);
        }
      }
    }
  }
  for (int j = 0; j < count; ++j) {
    for (int64_t i = done; i < left[j]; ++i) {
      const uint32_t entry = any_code(stored, positions[j]);
      positions[j] += entry & 63;
      outs[j][i] = static_cast<uint8_t>((entry >> 8) + offset);
    }
  }
}

// Decodes the elements of these rows in pieces and calls use(elements, first, count) for each; `first` counts from the
// first row.
template <class UsePiece>
void for_each_piece(const Stored& bound, backends::Rows rows, std::byte* scratch, UsePiece use) {
  const int64_t begin = rows.begin * bound.cols, end = rows.end * bound.cols;
  if (begin >= end) return;
  const Stored stored = join_tables(bound, scratch);
  uint8_t* buffer = reinterpret_cast<uint8_t*>(scratch) + kTableEntries * sizeof(uint16_t);
  int64_t low = 0, high = stored.blocks;  // the last block that begins at or before `begin`
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (stored.position(middle) <= begin ? low : high) = middle;
  }
  for (int64_t block = low; block < stored.blocks && stored.position(block) < end; block += kAtOnce) {
    int64_t last = std::min(stored.blocks, block + kAtOnce);
    while (last - 1 > block && stored.position(last - 1) >= end) --last;
    decode_blocks(stored, block, last, buffer);
    const int64_t at = stored.position(block), from = std::max(at, begin), to = std::min(stored.position(last), end);
    if (from < to) use(reinterpret_cast<const int8_t*>(buffer) + (from - at), from - begin, to - from);
  }
}

struct Decode {
  Stored stored;
  void operator()(void*, const backends::DecodeArgs& args) const {
    for_each_piece(stored, args.rows, args.scratch, [&](const int8_t* elements, int64_t first, int64_t count) {
      std::memcpy(args.out + first, elements, static_cast<size_t>(count));
    });
  }
};

struct Matvec {
  Stored stored;
  void operator()(void*, const backends::MatvecArgs& args) const {
    std::fill(args.y + args.rows.begin, args.y + args.rows.end, 0);
    const int64_t cols = stored.cols;
    for_each_piece(stored, args.rows, args.scratch, [&](const int8_t* elements, int64_t first, int64_t count) {
      while (count > 0) {
        const int64_t row = first / cols, column = first % cols, here = std::min(count, cols - column);
        int32_t sum = 0;
        for (int64_t i = 0; i < here; ++i) sum += elements[i] * args.x[column + i];
        args.y[args.rows.begin + row] += sum;
        elements += here;
        first += here;
        count -= here;
      }
    });
  }
};

template <typename Body>
backends::BoundKernel bind(const CompressedView& matrix) {
  return {
      Body{open_stored(matrix)},
      {.rows_per_block = single_level::rows_per_block(matrix.shape.cols, matrix.settings->integer("block_elements")),
       .scratch_bytes = kTableEntries * int64_t{sizeof(uint16_t)} + kAtOnce * kMaxBlockElements}};
}

}  // namespace

std::string refuses_layout(const CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  return matrix.settings->text("layout") == "hierarchical" ? "" : "This kernel decodes the layout hierarchical only.";
}

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return bind<Decode>(*layers[0].matrix);
}
backends::BoundKernel bind_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return bind<Matvec>(*layers[0].matrix);
}

}  // namespace ecmv::codecs::huffman_lut::hierarchical
