// CPU kernels of `segments`: four rows of a tile at once, then their elements in units of 16 columns, or 32 for f8.
// `Join` makes the elements of a unit from exponents and the unit's words of signs and mantissas, see cpu.cpp.
#pragma once

#include "codecs/compressed_matrix.h"
#include "codecs/huffman_exponents/walk.h"

namespace ecmv::codecs::huffman_exponents::segments {

inline std::string refuses_layout(const CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  return matrix.settings->text("layout") == "segments" ? refuses_big_endian()
                                                       : "This kernel decodes the layout segments only.";
}

// What a bound kernel knows of its matrix.
struct Stored {
  const uint8_t* code;
  const uint8_t* streams;
  const uint8_t* raw;  // signs and mantissas
  const uint8_t* tiles;
  int64_t rows, cols, segment_cols;
  bool bf16;

  explicit Stored(const CompressedView& matrix)
      : code(section_bytes(matrix, kCode)),
        streams(section_bytes(matrix, kStreams)),
        raw(section_bytes(matrix, kSignMantissa)),
        tiles(section_bytes(matrix, kTiles)),
        rows(matrix.shape.rows),
        cols(matrix.shape.cols),
        segment_cols(matrix.settings->integer("segment_cols")),
        bf16(is_bf16(matrix.type)) {}
  int64_t buffer_bytes() const { return segment_cols + kSlackBytes; }
  int64_t scratch_bytes() const { return kRunEntries * 8 + kStreamsInTurn * buffer_bytes(); }
};

// The canonical code: codes of up to l bits lie below limit[l], left-aligned in 32 bits.
struct Canonical {
  const uint8_t* order;
  uint64_t limit[kMaxCodeBits + 1] = {};
  uint32_t before[kMaxCodeBits + 1] = {};  // codes shorter than l bits

  explicit Canonical(const uint8_t* code) : order(code + kOrderByte) {
    uint32_t last = 0;
    for (int length = 1; length <= kMaxCodeBits; ++length) {
      const uint32_t count = code[2 * length] | uint32_t{code[2 * length + 1]} << 8;
      limit[length] = limit[length - 1] + (uint64_t{count} << (32 - length));
      before[length] = before[length - 1] + last;
      last = count;
    }
  }
  FirstCode first(uint32_t window) const {
    for (int length = 1; length <= kMaxCodeBits; ++length)
      if (window < limit[length])
        return {order[before[length] + static_cast<uint32_t>((window - limit[length - 1]) >> (32 - length))], length};
    return {0, 0};
  }
};

// Tables and buffers of a call, in scratch_bytes().
struct Tables {
  Canonical code;
  uint64_t* runs;
  uint8_t* buffers;
};
inline Tables build_tables(const Stored& stored, std::byte* scratch) {
  Tables tables{Canonical(stored.code), reinterpret_cast<uint64_t*>(scratch), nullptr};
  tables.buffers = reinterpret_cast<uint8_t*>(tables.runs + kRunEntries);
  build_runs(tables.runs, [&](uint32_t window) { return tables.code.first(window); });
  return tables;
}

template <bool kBf16, class Join>
ECMV_INLINE void decode_rows(const Stored& bound, const Tables& tables, backends::Rows asked, std::byte* to,
                             const Join& join) {
  const Stored stored = bound;  // a compiler must assume that stores of bytes change `bound`
  const int64_t rows = stored.rows, cols = stored.cols, segment_cols = stored.segment_cols,
                segments = (cols + segment_cols - 1) / segment_cols;
  const uint64_t* const runs = tables.runs;
  uint8_t* const buffers = tables.buffers;
  const Canonical code = tables.code;
  const auto first = [&](uint32_t window) { return code.first(window); };
  int8_t* const elements = reinterpret_cast<int8_t*>(to);
  for (int64_t group = asked.begin / kGroupRows; group * kGroupRows < asked.end; ++group) {
    const int64_t group_rows = rows_of_group(rows, group);
    for (int64_t segment = 0; segment < segments; ++segment) {
      const uint8_t* const words =
          stored.streams + int64_t{4} * load_u32(stored.tiles + 4 * (group * segments + segment));
      const int64_t first_col = segment * segment_cols, width = std::min(segment_cols, cols - first_col),
                    stride = 4 * group_rows;
      for (int64_t row = 0; row < group_rows; row += kStreamsInTurn) {
        const uint64_t positions[kStreamsInTurn] = {};
        int64_t counts[kStreamsInTurn];
        uint8_t* outs[kStreamsInTurn];
        const int64_t here = std::min<int64_t>(kStreamsInTurn, group_rows - row);
        for (int64_t j = 0; j < here; ++j) {
          counts[j] = width;
          outs[j] = buffers + j * stored.buffer_bytes();
        }
        const auto streams_from = [&](const uint8_t* of_row) __attribute__((always_inline)) {
          return [ of_row, stride ](int j, uint64_t position) __attribute__((always_inline)) {
            const uint8_t* const word = of_row + 4 * j + static_cast<int64_t>(position >> 5) * stride;
            const int shift = static_cast<int>(position & 31);
            const uint64_t both = uint64_t{load_u32(word)} << 32 | load_u32(word + stride);
            return both << shift | uint64_t{load_u32(word + 2 * stride)} << shift >> 32;
          };
        };
        if (here == kStreamsInTurn)
          walk<kStreamsInTurn>(runs, streams_from(words + 4 * row), first, positions, counts, outs);
        else
          for (int64_t j = 0; j < here; ++j)
            walk<1>(runs, streams_from(words + 4 * (row + j)), first, positions, counts + j, outs + j);
        for (int64_t j = 0; j < here; ++j) {
          const int64_t of_matrix = group * kGroupRows + row + j;
          constexpr int kUnitCols = unit_cols(kBf16), kElementBytes = kBf16 ? 2 : 1;
          int8_t* const out = elements + kElementBytes * ((of_matrix - asked.begin) * cols + first_col);
          for (int64_t c = 0; c < width; c += kUnitCols)
            join(outs[j] + c, stored.raw + raw_index({rows, cols}, kBf16, of_matrix, first_col + c),
                 std::min<int64_t>(kUnitCols, width - c), out + kElementBytes * c);
        }
      }
    }
  }
}

template <bool kBf16, class Join>
ECMV_INLINE void run_decode(const Stored& stored, const backends::DecodeArgs& args, const Join& join) {
  decode_rows<kBf16>(stored, build_tables(stored, args.scratch), args.rows, args.out, join);
}

// The elements of a unit, plain.
inline void join_unit(const uint8_t* exponents, const uint8_t* raw, int64_t count, int8_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = std::rotl(load_u32(raw + i / 4 * 4), static_cast<int>(8 * (i % 4)));
    const uint16_t bits = static_cast<uint16_t>((word >> 16 & 0x807f) | uint32_t{exponents[i]} << kBf16MantissaBits);
    std::memcpy(out + 2 * i, &bits, 2);
  }
}
// The same for f8: two elements of a turned word, see raw_turn().
inline void join_unit_f8(const uint8_t* exponents, const uint8_t* raw, int64_t count, int8_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = raw_bits(false, load_u32(raw + i / 8 * 4), i);
    out[i] = static_cast<int8_t>((bits & 8) << 4 | uint32_t{exponents[i]} << kF8MantissaBits | (bits & 7));
  }
}

inline backends::BoundKernel bind_decode(const CompressedView& matrix, BoundDecode<Stored>::Run run_bf16,
                                         BoundDecode<Stored>::Run run_f8) {
  const Stored stored(matrix);
  return {BoundDecode<Stored>{stored, stored.bf16 ? run_bf16 : run_f8},
          {.rows_per_block =
               kGroupRows * std::max<int64_t>(1, kCallElements / kGroupRows / std::max<int64_t>(1, matrix.shape.cols)),
           .scratch_bytes = stored.scratch_bytes()}};
}

}  // namespace ecmv::codecs::huffman_exponents::segments
