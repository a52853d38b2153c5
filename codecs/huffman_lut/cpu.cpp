// Portable kernels of huffman_lut. `single_level`: the shared walk, a plain expansion of each tile of 256
// columns, a plain product. `hierarchical`: see hierarchical_walk.h.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/kernel.h"
#include "codecs/huffman_lut/format.h"
#include "codecs/huffman_lut/hierarchical_walk.h"
#include "codecs/huffman_lut/walk.h"

namespace ecmv::codecs::huffman_lut {
namespace {

using backends::KernelCall;

template <int kStreamCount, bool kMatvec>
void run_rows(const KernelCall& call, const single_level::Stored& stored, const uint32_t* table) {
  using namespace single_level;
  const uint64_t mask = (uint64_t{1} << stored.table_bits) - 1;
  const int64_t units = units_of(stored.cols, stored.tuple);
  const int raw_bits = static_cast<int>(stored.header.raw_bits);
  Streams<kStreamCount> streams;
  PatchList patches;
  uint32_t entries[kMaxSegmentUnits];
  uint8_t offsets[kTileCols];
  for (int64_t row = call.row_begin; row < call.row_end; ++row) {
    const int64_t row_in_block = row % stored.rows_per_block;
    if (row_in_block == 0) {
      open_block(stored, row / stored.rows_per_block, streams);
      patches = open_patches(stored, row / stored.rows_per_block);
    }
    const uint8_t* raw = stored.raw_bits + row * stored.row_bytes;
    int8_t* decoded = kMatvec ? nullptr : call.decoded + (row - call.row_begin) * stored.cols;
    int32_t sum = 0;
    for (int64_t segment = 0; segment < stored.cols; segment += kSegmentCols) {
      walk<false>(streams, table, mask,
                  std::min<int64_t>(kSegmentCols / stored.tuple, units - segment / stored.tuple), entries);
      const int64_t end = std::min(stored.cols, segment + kSegmentCols);
      for (int64_t tile = segment; tile < end; tile += kTileCols) {
        const int64_t cols = std::min<int64_t>(kTileCols, end - tile);
        expand_tile(stored, entries + (tile - segment) / stored.tuple, raw, cols, offsets);
        raw += raw_tile_bytes(cols, raw_bits);
        const uint8_t lowest = static_cast<uint8_t>(stored.header.lowest);
        for (int64_t i = 0; i < cols; ++i) {
          const int8_t element = static_cast<int8_t>(static_cast<uint8_t>(offsets[i] + lowest));
          if constexpr (kMatvec) {
            sum += element * call.x[tile + i];
          } else {
            decoded[tile + i] = element;
          }
        }
      }
    }
    const int64_t first = row_in_block * stored.cols;
    for (; patches.position < first + stored.cols; patches.advance()) {
      const int64_t column = patches.position - first;
      if constexpr (kMatvec) {
        sum += patches.addend * call.x[column];
      } else {
        decoded[column] = static_cast<int8_t>(decoded[column] + patches.addend);
      }
    }
    if constexpr (kMatvec) call.y[row] = sum;
  }
}

template <bool kMatvec>
void run(const KernelCall& call) {
  if (call.row_begin >= call.row_end) return;
  if (call.matrix->shape.cols == 0) {
    if constexpr (kMatvec) std::fill(call.y + call.row_begin, call.y + call.row_end, 0);
    return;
  }
  const single_level::Stored stored = single_level::open_stored(*call.matrix);
  uint32_t* table = reinterpret_cast<uint32_t*>(call.scratch);
  single_level::build_table(stored, table);
  switch (stored.stream_count) {
    case 4:
      return run_rows<4, kMatvec>(call, stored, table);
    case 8:
      return run_rows<8, kMatvec>(call, stored, table);
    case 16:
      return run_rows<16, kMatvec>(call, stored, table);
  }
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode,
     .variant = "tuples",
     .tunings = backends::kDefaultTuning,
     .refuses = single_level::refuses_layout,
     .rows_per_block = single_level::kernel_rows_per_block,
     .scratch_bytes = single_level::kernel_scratch_bytes,
     .launch = run<false>},
    {.op = backends::Op::matvec,
     .variant = "tuples",
     .tunings = backends::kDefaultTuning,
     .refuses = single_level::refuses_layout,
     .rows_per_block = single_level::kernel_rows_per_block,
     .scratch_bytes = single_level::kernel_scratch_bytes,
     .launch = run<true>},
    {.op = backends::Op::decode,
     .variant = "table_walk",
     .tunings = backends::kDefaultTuning,
     .refuses = hierarchical::refuses_layout,
     .rows_per_block = hierarchical::kernel_rows_per_block,
     .scratch_bytes = hierarchical::kernel_scratch_bytes,
     .launch = hierarchical::run_decode},
    {.op = backends::Op::matvec,
     .variant = "table_walk",
     .tunings = backends::kDefaultTuning,
     .refuses = hierarchical::refuses_layout,
     .rows_per_block = hierarchical::kernel_rows_per_block,
     .scratch_bytes = hierarchical::kernel_scratch_bytes,
     .launch = hierarchical::run_matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_lut
