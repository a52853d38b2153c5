// Fields and outlier records in portable C++. The record loops are templates over the record's form, so that the loop
// decides nothing but where a row ends.
#include "codecs/packed_outliers/packed.h"
#include "codecs/compressed_matrix.h"

#include <bit>
#include <cstring>

namespace ecmv::codecs::packed_outliers {

static_assert(std::endian::native == std::endian::little, "Stored numbers are little-endian and are read in place.");

namespace {

template <int kDistanceBytes, int kDeltaBits>
struct OutlierRecords {
  const uint8_t* distances;
  const uint8_t* deltas;
  int64_t distance(uint64_t i) const { return distance_at<kDistanceBytes>(distances, i); }
  int32_t delta(uint64_t i) const { return delta_at<kDeltaBits>(deltas, i); }
};

// Calls f(records) with the type that fits the form.
template <class F>
void with_records(const Packed& packed, F f) {
  const uint8_t *distances = packed.distances, *deltas = packed.deltas;
  if (packed.form.distance_bytes == 1)
    packed.form.delta_bits == 8 ? f(OutlierRecords<1, 8>{distances, deltas})
                                : f(OutlierRecords<1, 4>{distances, deltas});
  else
    packed.form.delta_bits == 8 ? f(OutlierRecords<2, 8>{distances, deltas})
                                : f(OutlierRecords<2, 4>{distances, deltas});
}

// The planes of b: f(plane's bits, their place in the field, offset of the plane in units of the strip's width).
template <class F>
void for_each_plane(int bits, F f) {
  int offset = 0;
  for (int plane : {8, 4, 2, 1}) {
    if (!(bits & plane)) continue;
    f(plane, offset);
    offset += plane;
  }
}

}  // namespace

Packed open_packed(const CompressedView& view) {
  const auto bytes = [&](int section) { return reinterpret_cast<const uint8_t*>(view.sections[section].bytes.data()); };
  const uint8_t* header = bytes(kHeader);
  return {.rows = view.shape.rows,
          .cols = view.shape.cols,
          .bits = header[0],
          .lowest = static_cast<int8_t>(header[1]),
          .form = {header[2], header[3]},
          .row_bytes = row_bytes(header[0], view.shape.cols),
          .fields = bytes(kFields),
          .blocks = bytes(kBlocks),
          .distances = bytes(kDistances),
          .deltas = bytes(kDeltas)};
}

uint64_t first_record(const Packed& packed, int64_t block) {
  uint64_t value;
  std::memcpy(&value, packed.blocks + 8 * block, 8);
  return value;
}

void unpack_group(int bits, const uint8_t* group, int64_t width, uint8_t* fields) {
  std::memset(fields, 0, kStrips * width);
  for_each_plane(bits, [&](int plane, int offset) {
    const uint8_t mask = static_cast<uint8_t>((1 << plane) - 1);
    for (int strip = 0; strip < kStrips; ++strip) {
      const uint8_t* stored = group + (offset + strip % plane) * width;
      uint8_t* out = fields + strip * width;
      const int shift = strip / plane * plane;
      for (int64_t j = 0; j < width; ++j)
        out[j] = static_cast<uint8_t>(out[j] | ((stored[j] >> shift & mask) << offset));
    }
  });
}

void pack_group(int bits, const uint8_t* fields, int64_t width, uint8_t* group) {
  std::memset(group, 0, bits * width);
  for_each_plane(bits, [&](int plane, int offset) {
    const uint8_t mask = static_cast<uint8_t>((1 << plane) - 1);
    for (int strip = 0; strip < kStrips; ++strip) {
      uint8_t* stored = group + (offset + strip % plane) * width;
      const uint8_t* in = fields + strip * width;
      const int shift = strip / plane * plane;
      for (int64_t j = 0; j < width; ++j)
        stored[j] = static_cast<uint8_t>(stored[j] | ((in[j] >> offset & mask) << shift));
    }
  });
}

int32_t window_offset(const Packed& packed, const int8_t* x) {
  int32_t sum = 0;
  for (int64_t i = 0; i < packed.cols; ++i) sum += x[i];
  return static_cast<int32_t>(static_cast<uint32_t>(packed.lowest) * static_cast<uint32_t>(sum));
}

void add_outliers(const Packed& packed, int64_t row_begin, int64_t row_end, const int8_t* x, int32_t* y) {
  const int64_t cols = packed.cols;
  with_records(packed, [&](auto records) {
    for (int64_t row0 = row_begin; row0 < row_end; row0 += kRowsPerBlock) {
      uint64_t i = first_record(packed, row0 / kRowsPerBlock);
      const uint64_t end = first_record(packed, row0 / kRowsPerBlock + 1);
      if (i == end) continue;
      int64_t row = row0, col = 0;
      uint32_t sum = 0;
      for (; i < end; ++i) {
        col += records.distance(i);
        while (col >= cols) {
          y[row] = static_cast<int32_t>(static_cast<uint32_t>(y[row]) + sum);
          ++row;
          col -= cols;
          sum = 0;
        }
        sum += static_cast<uint32_t>(records.delta(i) * x[col]);
      }
      y[row] = static_cast<int32_t>(static_cast<uint32_t>(y[row]) + sum);
    }
  });
}

void patch_outliers(const Packed& packed, int64_t row_begin, int64_t row_end, int8_t* decoded) {
  with_records(packed, [&](auto records) {
    for (int64_t row0 = row_begin; row0 < row_end; row0 += kRowsPerBlock) {
      int8_t* element = decoded + (row0 - row_begin) * packed.cols;
      const uint64_t end = first_record(packed, row0 / kRowsPerBlock + 1);
      for (uint64_t i = first_record(packed, row0 / kRowsPerBlock); i < end; ++i) {
        element += records.distance(i);
        *element = static_cast<int8_t>(*element + records.delta(i));
      }
    }
  });
}

}  // namespace ecmv::codecs::packed_outliers
