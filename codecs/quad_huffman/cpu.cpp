// Portable kernels of quad_huffman. They decode a tile lane by lane, a segment at a time, to a buffer that plain loops
// store or multiply. Patches follow tile by tile.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/products/copy_rows.h"
#include "backends/cpu/products/dense_matvec.h"
#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format/schedule.h"
#include "codecs/quad_huffman/format/segment.h"
#include "codecs/quad_huffman/format/stored.h"
#include "codecs/quad_huffman/plain.h"

namespace ecmv::codecs::quad_huffman {
namespace {

// Calls f(row, col, how many columns, columns) for every segment of the stored rows that have any of `rows`.
template <class F>
void for_each_segment(const Stored& stored, backends::Rows rows, F f) {
  SegmentColumns columns;
  std::array<int64_t, kMostSegments> reach;
  const int segment_cols = stored.segment_cols();
  for (int64_t group = rows.begin / stored.tile_rows(); group * stored.tile_rows() < rows.end; ++group)
    for (int64_t column = 0; column < stored.column_tiles; ++column) {
      const int64_t tile = group * stored.column_tiles + column, segments = stored.segments_of(column);
      const TileCodes codes(stored, stored.tile(tile));
      reach_of_segments(stored.schedule + tile * stored.tile_segments, segments, codes.lines(), reach.data());
      const int64_t end = stored.fragments() ? stored.rows : std::min(stored.rows, rows.end);
      for (int64_t row = group * kLanes; row < std::min(end, (group + 1) * kLanes); ++row) {
        const int lane = static_cast<int>(row % kLanes);
        int64_t position = 0;
        for (int64_t s = 0; s < segments; ++s) {
          position = std::max(position, least_position(reach.data(), s, segments));
          const uint8_t* raw = stored.raw_of(group, column * stored.tile_segments + s) + stored.raw_lane_bytes() * lane;
          decode_segment<false>(stored, codes, lane, position, raw, columns, [] {});
          const int64_t col = column * stored.tile_cols + s * segment_cols;
          f(row, col, std::min<int64_t>(segment_cols, stored.cols - col), columns);
        }
      }
    }
}

// Calls f(row, column, first, count) for runs of `count` columns from number `first` of a segment on, which are in the
// matrix at `row`, `column`; the segment begins at `stored_row`, `col`.
template <class F>
void for_each_run(const Stored& stored, backends::Rows rows, int64_t stored_row, int64_t col, int64_t count, F f) {
  if (!stored.fragments()) return f(stored_row, col, 0, count);
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

// A patch may belong to a repetition of the last row or column.
bool is_there(const Stored& stored, backends::Rows rows, const ElementPlace& place) {
  return place.row < std::min(rows.end, stored.size.rows) && place.col < stored.size.cols;
}

// The bodies copy `Stored`, so that stores through byte pointers cannot change it and it stays in registers.

template <bool kFloats>
struct Decode {
  Stored bound;
  void operator()(void*, const backends::DecodeArgs& args) const {
    if (args.rows.count() <= 0) return;
    const Stored stored = bound;
    const int64_t cols = stored.size.cols, bytes = kFloats ? stored.element_bytes() : 1;
    int8_t* decoded = reinterpret_cast<int8_t*>(args.out) - bytes * args.rows.begin * cols;
    [[maybe_unused]] const auto store = [&](int8_t* to, int value, int sign) {
      const uint16_t bits = stored.float_bits(value, sign);
      to[0] = static_cast<int8_t>(bits);
      if (bytes == 2) to[1] = static_cast<int8_t>(bits >> 8);
    };
    for_each_segment(stored, args.rows, [&](int64_t row, int64_t col, int64_t count, const SegmentColumns& columns) {
      for_each_run(stored, args.rows, row, col, count, [&](int64_t to_row, int64_t to_col, int64_t first, int64_t run) {
        int8_t* to = decoded + bytes * (to_row * cols + to_col);
        for (int64_t i = 0; i < run; ++i)
          if constexpr (kFloats)
            store(to + bytes * i, columns.offsets[first + i] + stored.lowest, columns.signs[first + i]);
          else
            to[i] = static_cast<int8_t>(columns.offsets[first + i] + stored.lowest);
      });
    });
    for_each_patch(stored, args.rows, [&](int64_t i, int64_t first_row, int64_t first_col, const TileIndex& tile) {
      const auto patch = [&] {
        if constexpr (kFloats) return stored.float_patch(i);
        if constexpr (!kFloats) return stored.patch(tile, i);
      }();
      const ElementPlace place = stored.place_of(first_row + patch.row, first_col + patch.col);
      if (!is_there(stored, args.rows, place)) return;
      int8_t* at = decoded + bytes * (place.row * cols + place.col);
      if constexpr (kFloats)
        store(at, patch.exponent, bytes == 2 ? (at[1] & 0x80) | (at[0] & 0x7f) : at[0] & 0x87);
      else
        *at = static_cast<int8_t>(*at + patch.delta);
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
    for_each_segment(stored, args.rows, [&](int64_t row, int64_t col, int64_t count, const SegmentColumns& columns) {
      for_each_run(stored, args.rows, row, col, count, [&](int64_t of_row, int64_t of_col, int64_t first, int64_t run) {
        int32_t sum = 0;
        for (int64_t i = 0; i < run; ++i) sum += columns.offsets[first + i] * x[of_col + i];
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

template <bool kPlain, bool kMultiplies>
std::string refuses(const CompressedView& view, const backends::DeviceInfo&, const backends::Policy&) {
  if (kMultiplies && view.type != datasets::ElementType::i8) return "The kernel multiplies int8 elements.";
  if (is_plain(view) != kPlain) return kPlain ? kRefusesCodes : kRefusesPlain;
  return !kPlain && is_strips(view) ? "The kernel takes rows and fragments; these are strips." : "";
}

backends::BoundKernel bind_plain_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const CompressedView& view = *layers[0].matrix;
  return backends::cpu::CopyRows{view.sections[kRaw].bytes.data(),
                                 view.shape.cols * datasets::element_bytes(view.type)};
}
backends::BoundKernel bind_plain_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return PlainProduct<backends::cpu::dense_matvec_scalar>(*layers[0].matrix);
}

backends::KernelFacts facts_of(const Stored& stored) { return {.rows_per_block = stored.tile_rows()}; }

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const Stored stored = open_stored(*layers[0].matrix);
  if (stored.form.floats) return {Decode<true>{stored}, facts_of(stored)};
  return {Decode<false>{stored}, facts_of(stored)};
}
backends::BoundKernel bind_matvec(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const Stored stored = open_stored(*layers[0].matrix);
  return {Multiply{stored}, facts_of(stored)};
}

using enum backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = decode, .variant = "lanes", .refuses = refuses<false, false>, .bind = bind_decode},
    {.op = decode, .variant = "plain", .refuses = refuses<true, false>, .bind = bind_plain_decode},
    {.op = matvec, .variant = "lanes", .refuses = refuses<false, true>, .bind = bind_matvec},
    {.op = matvec, .variant = "plain", .refuses = refuses<true, true>, .bind = bind_plain_matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::quad_huffman
