// Portable kernels of quad_huffman: lane by lane of a tile, a segment at a time to a buffer that is then stored or
// multiplied by plain loops. Patches follow tile by tile.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/products/copy_rows.h"
#include "backends/cpu/products/dense_matvec.h"
#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/plain.h"
#include "codecs/quad_huffman/schedule.h"
#include "codecs/quad_huffman/stored.h"

namespace ecmv::codecs::quad_huffman {
namespace {

// A segment's w - lowest; of floats exponent - lowest, and Stored::sign_of.
struct SegmentBytes {
  std::array<int16_t, kMostSegmentCols> offsets;
  std::array<uint8_t, kMostSegmentCols> signs;
};

void decode_segment(const Stored& stored, const TileCodes& codes, int lane, int64_t& position, const uint8_t* raw,
                    SegmentBytes& bytes) {
  auto& [offsets, signs] = bytes;
  const int each = stored.symbol_cols;
  const uint32_t mask = (1u << stored.table_bits) - 1;
  for (int i = 0; i < kSegmentSymbols; ++i) {
    const uint64_t both = codes.word(position / 32, lane) | static_cast<uint64_t>(codes.word(position / 32 + 1, lane))
                                                                << 32;
    const int64_t entry = static_cast<uint32_t>(both >> (position % 32)) & mask;
    position += stored.entry_length(entry);
    for (int k = 0; k < each; ++k) offsets[each * i + k] = static_cast<int16_t>(stored.entry_high(entry, k));
  }
  for (int group = 0; group < stored.segment_cols() / 32; ++group) {
    std::array<uint32_t, kMostPlaneWords> words{};
    for (int j = 0; j < stored.raw_bits(); ++j) words[j] = load_u32(raw + stored.raw_word_offset(group, j));
    std::array<uint32_t, 8> quads;
    stored.unpack(words.data(), quads.data());
    if (stored.floats())
      for (int i = 0; i < 32; ++i) signs[32 * group + i] = stored.sign_of(words.data(), i);
    for (int i = 0; i < 32; ++i) {
      int16_t& offset = offsets[32 * group + i];
      offset = static_cast<int16_t>(stored.offset_of(offset, static_cast<int>(quads[i / 4] >> (8 * (i % 4)) & 0xff)));
    }
  }
}

// Calls f(row, col, columns of what is stored, bytes) for every segment of the stored rows that have any of `rows`.
template <class F>
void for_each_segment(const Stored& stored, backends::Rows rows, F f) {
  SegmentBytes bytes;
  std::array<int64_t, kMostSegments> reach;
  const int segment_cols = stored.segment_cols();
  for (int64_t group = rows.begin / stored.tile_rows(); group * stored.tile_rows() < rows.end; ++group)
    for (int64_t column = 0; column < stored.column_tiles; ++column) {
      const int64_t tile = group * stored.column_tiles + column, segments = stored.segments_of(column);
      const TileCodes codes(stored, stored.tile(tile));
      int64_t blocks = 0;
      for (int64_t s = 0; s < segments; ++s)
        reach[s] = reach_of(blocks += stored.schedule[tile * stored.tile_segments + s], codes.lines());
      const int64_t end = stored.fragments ? stored.rows : std::min(stored.rows, rows.end);
      for (int64_t row = group * kLanes; row < std::min(end, (group + 1) * kLanes); ++row) {
        const int lane = static_cast<int>(row % kLanes);
        int64_t position = 0;
        for (int64_t s = 0; s < segments; ++s) {
          position = std::max(position, 32 * (reach[std::min(s + kAhead, segments - 1)] - kRingLines));
          decode_segment(stored, codes, lane, position,
                         stored.raw_of(group, column * stored.tile_segments + s) + stored.raw_lane_bytes() * lane,
                         bytes);
          const int64_t col = column * stored.tile_cols + s * segment_cols;
          f(row, col, std::min<int64_t>(segment_cols, stored.cols - col), bytes);
        }
      }
    }
}

// Calls f(row, column, first, count) for runs of `count` columns from number `first` of a segment on, which are in the matrix
// at `row`, `column`; the segment begins at `stored_row`, `col`.
template <class F>
void for_each_run(const Stored& stored, backends::Rows rows, int64_t stored_row, int64_t col, int64_t count, F f) {
  if (!stored.fragments) return f(stored_row, col, 0, count);
  const auto run = static_cast<int64_t>(stored.runs());
  for (int64_t first = 0; first < count; first += run) {
    const ElementPlace place = stored.place_of(stored_row, col + first);
    if (place.row < std::min(rows.end, stored.size.rows) && place.col < stored.size.cols)
      f(place.row, place.col, first, std::min(run, stored.size.cols - place.col));
  }
}

// Calls f(number of the patch, first row and column of its tile, index of the tile) for every patch of the rows.
template <class F>
void for_each_patch(const Stored& stored, backends::Rows rows, F f) {
  for (int64_t group = rows.begin / stored.tile_rows(); group * stored.tile_rows() < rows.end; ++group)
    for (int64_t column = 0; column < stored.column_tiles; ++column) {
      const int64_t tile = group * stored.column_tiles + column;
      const TileIndex index = stored.tile(tile);
      for (int64_t i = index.first_patch; i < stored.first_patch(tile + 1); ++i)
        f(i, group * kLanes, column * stored.tile_cols, index);
    }
}

// Patches may be of what repeats the last row or column.
bool is_there(const Stored& stored, backends::Rows rows, const ElementPlace& place) {
  return place.row < std::min(rows.end, stored.size.rows) && place.col < stored.size.cols;
}

// The bodies copy what is stored, so that stores through byte pointers cannot change it and it stays in registers.

struct Decode {
  Stored bound;
  void operator()(void*, const backends::DecodeArgs& args) const {
    if (args.rows.count() <= 0) return;
    const Stored stored = bound;
    const int64_t cols = stored.size.cols;
    int8_t* decoded = reinterpret_cast<int8_t*>(args.out) - args.rows.begin * cols;
    for_each_segment(stored, args.rows, [&](int64_t row, int64_t col, int64_t count, const SegmentBytes& bytes) {
      for_each_run(stored, args.rows, row, col, count, [&](int64_t to_row, int64_t to_col, int64_t first, int64_t run) {
        for (int64_t i = 0; i < run; ++i)
          decoded[to_row * cols + to_col + i] = static_cast<int8_t>(bytes.offsets[first + i] + stored.lowest);
      });
    });
    for_each_patch(stored, args.rows, [&](int64_t i, int64_t first_row, int64_t first_col, const TileIndex& tile) {
      const Patch patch = stored.patch(tile, i);
      const ElementPlace place = stored.place_of(first_row + patch.row, first_col + patch.col);
      if (!is_there(stored, args.rows, place)) return;
      int8_t& element = decoded[place.row * cols + place.col];
      element = static_cast<int8_t>(element + patch.delta);
    });
  }
};

struct DecodeFloats {
  Stored bound;
  void operator()(void*, const backends::DecodeArgs& args) const {
    if (args.rows.count() <= 0) return;
    const Stored stored = bound;
    const int64_t cols = stored.size.cols, element_bytes = stored.element_bytes();
    int8_t* decoded = reinterpret_cast<int8_t*>(args.out) - element_bytes * args.rows.begin * cols;
    const auto store = [&](int64_t row, int64_t col, int exponent, int sign) {
      int8_t* to = decoded + element_bytes * (row * cols + col);
      const uint16_t bits = stored.float_bits(exponent, sign);
      to[0] = static_cast<int8_t>(bits);
      if (element_bytes == 2) to[1] = static_cast<int8_t>(bits >> 8);
    };
    for_each_segment(stored, args.rows, [&](int64_t row, int64_t col, int64_t count, const SegmentBytes& bytes) {
      for_each_run(stored, args.rows, row, col, count, [&](int64_t to_row, int64_t to_col, int64_t first, int64_t run) {
        for (int64_t i = 0; i < run; ++i)
          store(to_row, to_col + i, stored.lowest + bytes.offsets[first + i], bytes.signs[first + i]);
      });
    });
    for_each_patch(stored, args.rows, [&](int64_t i, int64_t first_row, int64_t first_col, const TileIndex&) {
      const FloatPatch patch = stored.float_patch(i);
      const ElementPlace place = stored.place_of(first_row + patch.row, first_col + patch.col);
      if (!is_there(stored, args.rows, place)) return;
      const int8_t* at = decoded + element_bytes * (place.row * cols + place.col);
      store(place.row, place.col, patch.exponent, element_bytes == 2 ? (at[1] & 0x80) | (at[0] & 0x7f) : at[0] & 0x87);
    });
  }
};

struct Multiply {
  Stored bound;
  void operator()(void*, const backends::MatvecArgs& args) const {
    if (args.rows.count() <= 0) return;
    const Stored stored = bound;
    const int8_t* x = args.x;
    // Sums wrap like the int32 of the result: a substitute may be larger than the element.
    uint32_t* y = reinterpret_cast<uint32_t*>(args.y);
    uint32_t offset = 0;
    for (int64_t col = 0; col < stored.size.cols; ++col) offset += static_cast<uint32_t>(stored.lowest * x[col]);
    std::fill(y + args.rows.begin, y + args.rows.end, offset);
    for_each_segment(stored, args.rows, [&](int64_t row, int64_t col, int64_t count, const SegmentBytes& bytes) {
      for_each_run(stored, args.rows, row, col, count, [&](int64_t of_row, int64_t of_col, int64_t first, int64_t run) {
        int32_t sum = 0;
        for (int64_t i = 0; i < run; ++i) sum += bytes.offsets[first + i] * x[of_col + i];
        y[of_row] += static_cast<uint32_t>(sum);
      });
    });
    for_each_patch(stored, args.rows, [&](int64_t i, int64_t first_row, int64_t first_col, const TileIndex& tile) {
      const Patch patch = stored.patch(tile, i);
      const ElementPlace place = stored.place_of(first_row + patch.row, first_col + patch.col);
      if (is_there(stored, args.rows, place)) y[place.row] += static_cast<uint32_t>(patch.delta * x[place.col]);
    });
  }
};

std::string refuses_decode(const CompressedView& view, const backends::DeviceInfo&, const backends::Policy&) {
  if (!is_plain(view) && is_strips(view)) return "The kernel takes rows and fragments; these are strips.";
  return is_plain(view) ? kRefusesPlain : "";
}
std::string refuses_matvec(const CompressedView& view, const backends::DeviceInfo&, const backends::Policy&) {
  if (view.type != datasets::ElementType::i8) return "The kernel multiplies int8 elements.";
  if (!is_plain(view) && is_strips(view)) return "The kernel takes rows and fragments; these are strips.";
  return is_plain(view) ? kRefusesPlain : "";
}

struct MultiplyPlain {
  const int8_t* elements;
  int64_t cols;
  void operator()(void*, const backends::MatvecArgs& args) const {
    backends::cpu::dense_matvec_scalar(elements + args.rows.begin * cols, args.rows.count(), cols, args.x,
                                       args.y + args.rows.begin);
  }
};

std::string refuses_plain_decode(const CompressedView& view, const backends::DeviceInfo&, const backends::Policy&) {
  return is_plain(view) ? "" : kRefusesCodes;
}
std::string refuses_plain_matvec(const CompressedView& view, const backends::DeviceInfo&, const backends::Policy&) {
  if (view.type != datasets::ElementType::i8) return "The kernel multiplies int8 elements.";
  return is_plain(view) ? "" : kRefusesCodes;
}
backends::BoundKernel bind_plain_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const CompressedView& view = *layers[0].matrix;
  return backends::cpu::CopyRows{view.sections[kRaw].bytes.data(),
                                 view.shape.cols * datasets::element_bytes(view.type)};
}
backends::BoundKernel bind_plain_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const CompressedView& view = *layers[0].matrix;
  return MultiplyPlain{reinterpret_cast<const int8_t*>(view.sections[kRaw].bytes.data()), view.shape.cols};
}

backends::KernelFacts facts_of(const Stored& stored) { return {.rows_per_block = stored.tile_rows()}; }

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const Stored stored = open_stored(*layers[0].matrix);
  if (stored.floats()) return {DecodeFloats{stored}, facts_of(stored)};
  return {Decode{stored}, facts_of(stored)};
}
backends::BoundKernel bind_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const Stored stored = open_stored(*layers[0].matrix);
  return {Multiply{stored}, facts_of(stored)};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "lanes", .refuses = refuses_decode, .bind = bind_decode},
    {.op = backends::Op::decode, .variant = "plain", .refuses = refuses_plain_decode, .bind = bind_plain_decode},
    {.op = backends::Op::matvec, .variant = "lanes", .refuses = refuses_matvec, .bind = bind_matvec},
    {.op = backends::Op::matvec, .variant = "plain", .refuses = refuses_plain_matvec, .bind = bind_plain_matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::quad_huffman
