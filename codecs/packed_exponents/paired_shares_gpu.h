// Tiles that pairs of thread blocks share, each pair a cluster (backends/gpu/cluster.h), so that they run at the same
// time and may wait for each other: each gives the other one half of its sums, by tokens, through shared memory, and
// has the sums of both for its own half then. With two shares no sums go to the second-level cache, with four a quarter
// of those that LastShare takes. The same plan took 1 to 10 % less time (NOTES.md).
#pragma once

#include "backends/gpu/cluster.h"
#include "codecs/packed_exponents/pipeline_stages_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

template <int kTokenTiles>
struct PairedShares {
  static constexpr int kHalf = kTokenTiles / 2;

  float sums[kHalf][4];  // of tokens from 8 kHalf rank() on
  int rank = gpu::cluster_rank();

  // Lane group number `own` of the block, which has read all of its fields: their places take what it gives. All lanes
  // of both blocks meet twice: here, and where the blocks end (meet()).
  ECMV_GPU_DEVICE PairedShares(const Stages& fields, int own, const float (&all)[kTokenTiles][4]) {
    ECMV_GPU_UNROLL
    for (int j = 0; j < kHalf; ++j) {
      float given[4];
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        sums[j][i] = rank == 0 ? all[j][i] : all[kHalf + j][i];
        given[i] = rank == 0 ? all[kHalf + j][i] : all[j][i];
      }
      *place(fields, own, j) = {gpu::bits_of(given[0]), gpu::bits_of(given[1]), gpu::bits_of(given[2]),
                                gpu::bits_of(given[3])};
    }
    gpu::sync_cluster();
    // It does not matter which of two sums comes first.
    ECMV_GPU_UNROLL
    for (int j = 0; j < kHalf; ++j) {
      const gpu::uint4 four = gpu::load_of_block(place(fields, own, j), 1 - rank);
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) sums[j][i] += gpu::float_of(gpu::word_of(four, i));
    }
  }
  // What all lanes call before the block ends; `copies`: those that make no PairedShares.
  static ECMV_GPU_DEVICE void meet(bool copies) {
    if (copies) gpu::sync_cluster();
    gpu::sync_cluster_after_reads();
  }

 private:
  static constexpr int kTileBytes = gpu::kTokenLanes * int{sizeof(gpu::uint4)},
                       kOfPlace = kBlockFieldBytes / kTileBytes;
  static_assert(kHalf <= Stages::kCount * kOfPlace);
  static ECMV_GPU_DEVICE gpu::Pointer<gpu::uint4> place(const Stages& fields, int own, int j) {
    return gpu::cast<gpu::uint4>(fields.places +
                                 (j / kOfPlace * fields.bytes + own * kBlockFieldBytes + j % kOfPlace * kTileBytes)) +
           LaneGroup::lane();
  }
};

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
