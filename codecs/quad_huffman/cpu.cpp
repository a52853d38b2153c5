// Portable decoding of quad_huffman, for the backend `scalar`: lane by lane of a tile, a segment at a time to a buffer
// that plain loops store. A tile's patches follow. Products decode rows first, as the executor does for any codec.
#include <algorithm>
#include <array>

#include "backends/cpu/products/copy_rows.h"
#include "codecs/compressed_matrix.h"
#include "codecs/quad_huffman/format/schedule.h"
#include "codecs/quad_huffman/format/segment.h"
#include "codecs/quad_huffman/format/stored.h"

namespace ecmv::codecs::quad_huffman {
namespace {

// Where rows of the matrix are decoded to; `first` is the place of row 0.
struct Output {
  const Stored& stored;
  backends::Rows rows;
  uint8_t* first;

  // Stored elements may repeat the matrix's last row or column.
  bool has(ElementPlace place) const {
    return place.row < std::min(rows.end, stored.size.rows) && place.col < stored.size.cols;
  }
  uint8_t* at(ElementPlace place) const {
    return first + stored.element_bytes() * (place.row * stored.size.cols + place.col);
  }
  void store_float(uint8_t* to, int exponent, int sign) const {
    const uint16_t bits = stored.float_bits(exponent, sign);
    to[0] = static_cast<uint8_t>(bits);
    if (!stored.form.f8) to[1] = static_cast<uint8_t>(bits >> 8);
  }
  void store(uint8_t* to, const int16_t* offsets, const uint8_t* signs, int64_t count) const {
    const int lowest = stored.lowest, bytes = stored.element_bytes();
    if (!stored.form.floats)
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint8_t>(offsets[i] + lowest);
    else
      for (int64_t i = 0; i < count; ++i) store_float(to + bytes * i, offsets[i] + lowest, signs[i]);
  }
};

void decode_codes(const Stored& stored, int64_t group, int64_t column, const Output& output) {
  const int64_t tile = group * stored.column_tiles + column, segments = stored.segments_of(column),
                end = stored.fragments() ? stored.rows : std::min(stored.rows, output.rows.end),
                run = stored.fragments() ? static_cast<int64_t>(stored.runs()) : stored.segment_cols();
  const TileCodes codes(stored, stored.tile(tile));
  std::array<int64_t, kMostSegments> reach;
  reach_of_segments(stored.schedule + tile * stored.tile_segments, segments, codes.lines(), reach.data());
  SegmentColumns columns;
  for (int64_t row = group * kLanes; row < std::min(end, (group + 1) * kLanes); ++row) {
    const int lane = static_cast<int>(row % kLanes);
    int64_t position = 0;
    for (int64_t s = 0; s < segments; ++s) {
      position = std::max(position, least_position(reach.data(), s, segments));
      const uint8_t* raw = stored.raw_of(group, column * stored.tile_segments + s) + stored.raw_lane_bytes() * lane;
      decode_segment(stored, codes, lane, position, raw, columns, [](int64_t) {});
      const int64_t first = column * stored.tile_cols + s * stored.segment_cols(),
                    count = std::min<int64_t>(stored.segment_cols(), stored.cols - first);
      for (int64_t i = 0; i < count; i += run)
        if (const ElementPlace place = stored.place_of(row, first + i); output.has(place))
          output.store(output.at(place), columns.offsets.data() + i, columns.signs.data() + i,
                       std::min(run, stored.size.cols - place.col));
    }
  }
}

void apply_patches(const Stored& stored, int64_t group, int64_t column, const Output& output) {
  const int64_t tile = group * stored.column_tiles + column;
  const TileIndex index = stored.tile(tile);
  const uint8_t* signs = stored.signs_of_patches();
  for (int64_t i = index.first_patch; i < stored.first_patch(tile + 1); ++i) {
    const auto place_of = [&](const auto& patch) {
      return stored.place_of(group * kLanes + patch.row, column * stored.tile_cols + patch.col);
    };
    if (stored.form.floats) {
      const StoredPatch patch = stored.float_patch(i);
      if (output.has(place_of(patch))) output.store_float(output.at(place_of(patch)), patch.exponent, signs[i]);
    } else {
      const Patch patch = stored.patch(index, i);
      if (!output.has(place_of(patch))) continue;
      uint8_t& element = *output.at(place_of(patch));
      element = static_cast<uint8_t>(element + patch.delta);
    }
  }
}

struct Decode {
  Stored bound;
  void operator()(void*, const backends::DecodeArgs& args) const {
    if (args.rows.count() <= 0) return;
    const Stored stored = bound;  // a copy, which stores through byte pointers cannot change: it stays in registers
    const Output output{
        stored, args.rows,
        reinterpret_cast<uint8_t*>(args.out) - stored.element_bytes() * args.rows.begin * stored.size.cols};
    for (int64_t group = args.rows.begin / stored.tile_rows(); group * stored.tile_rows() < args.rows.end; ++group)
      for (int64_t column = 0; column < stored.column_tiles; ++column) {
        decode_codes(stored, group, column, output);
        apply_patches(stored, group, column, output);
      }
  }
};

std::string refuses(const CompressedView& view, const backends::DeviceInfo&, const backends::Policy&) {
  if (is_plain(view)) return kRefusesPlain;
  return header_of(view).layout == Layout::strips ? "The kernel takes rows and fragments; these are strips." : "";
}
std::string refuses_codes(const CompressedView& view, const backends::DeviceInfo&, const backends::Policy&) {
  return is_plain(view) ? "" : kRefusesCodes;
}

backends::BoundKernel bind(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const Stored stored = open_stored(*layers[0].matrix);
  return {Decode{stored}, {.rows_per_block = stored.tile_rows()}};
}
backends::BoundKernel bind_plain(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  const CompressedView& view = *layers[0].matrix;
  return backends::cpu::CopyRows{view.sections[kRaw].bytes.data(),
                                 view.shape.cols * datasets::element_bytes(view.type)};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "lanes", .refuses = refuses, .bind = bind},
    {.op = backends::Op::decode, .variant = "plain", .refuses = refuses_codes, .bind = bind_plain},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::quad_huffman
