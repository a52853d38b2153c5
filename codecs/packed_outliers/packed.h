// The stored matrix as kernels see it (pointers and numbers), and the parts that every kernel shares: plain loops over
// the fields of a group, which compilers vectorise, and the pass over the outlier records.
#pragma once

#include <cstdint>
#include <cstring>

#include "codecs/compressed_matrix.h"
#include "codecs/packed_outliers/format.h"

namespace ecmv::codecs::packed_outliers {

struct Packed {
  int64_t rows, cols;
  int bits, lowest;
  RecordForm form;
  int64_t row_bytes;
  const uint8_t* fields;
  const uint8_t* blocks;  // uint64, perhaps unaligned on the host
  const uint8_t* distances;
  const uint8_t* deltas;
};

// Trusts the bytes: kernels run only what the reference decoder has accepted.
Packed open_packed(const CompressedView& view);

uint64_t first_record(const Packed& packed, int64_t block);

// Fields of a group: fields[strip * width + j] for the 8 strips of `width` columns stored at `group`.
void unpack_group(int bits, const uint8_t* group, int64_t width, uint8_t* fields);
// The inverse; `group` is overwritten.
void pack_group(int bits, const uint8_t* fields, int64_t width, uint8_t* group);

// lowest * sum(x), which the product of fields lacks in every row. Sums wrap like the int32 accumulators of kernels.
int32_t window_offset(const Packed& packed, const int8_t* x);

// y[row] += delta * x[col] over the records of the blocks that cover rows [row_begin, row_end). y points to row 0.
void add_outliers(const Packed& packed, int64_t row_begin, int64_t row_end, const int8_t* x, int32_t* y);
// The same for decoded elements; decoded[0] is row_begin's first element.
void patch_outliers(const Packed& packed, int64_t row_begin, int64_t row_end, int8_t* decoded);

// The distance of record i, and its delta.
template <int kDistanceBytes>
int64_t distance_at(const uint8_t* distances, uint64_t i) {
  if constexpr (kDistanceBytes == 1) return distances[i];
  uint16_t value;
  std::memcpy(&value, distances + 2 * i, 2);
  return value;
}
template <int kDeltaBits>
int32_t delta_at(const uint8_t* deltas, uint64_t i) {
  if constexpr (kDeltaBits == 8) return static_cast<int8_t>(deltas[i]);
  return ((deltas[i / 2] >> (i % 2 * 4) & 15) ^ 8) - 8;
}

}  // namespace ecmv::codecs::packed_outliers
