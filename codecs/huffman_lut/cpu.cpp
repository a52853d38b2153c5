// Portable kernels of huffman_lut. `single_level` runs the shared walk, expands each tile of 256 columns in plain loops
// and multiplies it; for `hierarchical` see hierarchical_walk.h.
#include <algorithm>
#include <cstring>

#include "backends/kernel.h"
#include "codecs/huffman_lut/format.h"
#include "codecs/huffman_lut/hierarchical_walk.h"
#include "codecs/huffman_lut/walk.h"

namespace ecmv::codecs::huffman_lut {
namespace {

template <int kStreamCount, typename Args>
void run_rows(const Args& args, const single_level::Stored& stored, const uint32_t* table, uint32_t) {
  using namespace single_level;
  constexpr bool kMatvec = kIsMatvec<Args>;
  const uint64_t mask = (uint64_t{1} << stored.table_bits) - 1;
  const int64_t units = units_of(stored.cols, stored.tuple);
  const int raw_bits = static_cast<int>(stored.raw_bits);
  Streams<kStreamCount> streams;
  PatchList patches;
  uint32_t entries[kMaxSegmentUnits];
  uint8_t offsets[kTileCols];
  for (int64_t row = args.rows.begin; row < args.rows.end; ++row) {
    const int64_t row_in_block = row % stored.rows_per_block;
    if (row_in_block == 0) {
      open_block(stored, row / stored.rows_per_block, streams);
      patches = open_patches(stored, row / stored.rows_per_block);
    }
    const uint8_t* raw = stored.planes + row * stored.row_bytes;
    int8_t* decoded = nullptr;
    if constexpr (!kMatvec) decoded = reinterpret_cast<int8_t*>(args.out) + (row - args.rows.begin) * stored.cols;
    int32_t sum = 0;
    for (int64_t segment = 0; segment < stored.cols; segment += kSegmentCols) {
      walk<false>(streams, table, mask, std::min<int64_t>(kSegmentCols / stored.tuple, units - segment / stored.tuple),
                  entries);
      const int64_t end = std::min(stored.cols, segment + kSegmentCols);
      for (int64_t tile = segment; tile < end; tile += kTileCols) {
        const int64_t cols = std::min<int64_t>(kTileCols, end - tile);
        expand_tile(stored, entries + (tile - segment) / stored.tuple, raw, cols, offsets);
        raw += raw_tile_bytes(cols, raw_bits);
        const uint8_t lowest = static_cast<uint8_t>(stored.lowest);
        for (int64_t i = 0; i < cols; ++i) {
          const int8_t element = static_cast<int8_t>(static_cast<uint8_t>(offsets[i] + lowest));
          if constexpr (kMatvec) {
            sum += element * args.x[tile + i];
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
        sum += patches.addend * args.x[column];
      } else {
        decoded[column] = static_cast<int8_t>(decoded[column] + patches.addend);
      }
    }
    if constexpr (kMatvec) args.y[row] = sum;
  }
}

template <int kStreamCount, typename Args>
void run(const single_level::Stored& stored, const Args& args) {
  single_level::build_and_run<run_rows<kStreamCount, Args>>(stored, args);
}

template <typename Args>
backends::BoundKernel bind_tuples(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return single_level::bind_tuples<Args>(*layers[0].matrix, run<4, Args>, run<8, Args>, run<16, Args>);
}

using backends::DecodeArgs, backends::MatvecArgs;

using backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "tuples", .refuses = single_level::refuses_layout, .bind = bind_tuples<DecodeArgs>},
    {.op = Op::matvec, .variant = "tuples", .refuses = single_level::refuses_layout, .bind = bind_tuples<MatvecArgs>},
    {.op = Op::decode,
     .variant = "table_walk",
     .refuses = hierarchical::refuses_layout,
     .bind = hierarchical::bind_decode},
    {.op = Op::matvec,
     .variant = "table_walk",
     .refuses = hierarchical::refuses_layout,
     .bind = hierarchical::bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> cpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_lut
