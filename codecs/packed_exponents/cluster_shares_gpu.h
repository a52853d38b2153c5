// Tiles whose parts the thread blocks of a cluster have (backends/gpu/cluster.h), so that they run at the same time and
// may wait for each other: each block has all sums of some tokens at the end, and stores what it has of the others' in
// their shared memory. Where a tile has no more parts, no sums go to the second-level cache.
#pragma once

#include <type_traits>

#include "codecs/packed_exponents/pipeline_stages_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

template <int kTokenTiles, int kBlocks>
class ClusterShares {
 public:
  static constexpr int kOwn = kTokenTiles / kBlocks;

  float sums[kOwn][4] = {};  // of tokens from 8 kOwn rank on
  int rank = gpu::cluster_rank();

  // Lane group number `own` of the block. All blocks have met, and nobody reads the places of its fields any more: they
  // take what comes.
  ECMV_GPU_DEVICE ClusterShares(const Stages& fields, const gpu::Delivery& delivery, int own,
                                const float (&all)[kTokenTiles][4]) {
    if constexpr (kBlocks == 2) {
      ECMV_GPU_UNROLL
      for (int j = 0; j < kOwn; ++j) {
        float given[4];
        ECMV_GPU_UNROLL
        for (int i = 0; i < 4; ++i) {
          sums[j][i] = rank == 0 ? all[j][i] : all[kOwn + j][i];
          given[i] = rank == 0 ? all[kOwn + j][i] : all[j][i];
        }
        delivery.store(place(fields, own, j), 1 - rank, given);
      }
    } else {  // to itself, too: in branches that read sums, ptxas would wait for every product (C7518)
      ECMV_GPU_UNROLL
      for (int j = 0; j < kTokenTiles; ++j)
        delivery.store(place(fields, own, rank * kOwn + j % kOwn), j / kOwn, all[j]);
    }
    delivery.wait();
    ECMV_GPU_UNROLL
    for (int k = 0; k < kGiven; ++k) {
      const gpu::uint4 four = *place(fields, own, k);
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) sums[k % kOwn][i] += gpu::float_of(gpu::word_of(four, i));
    }
  }

 private:
  static constexpr int kGiven = given_sums(kTokenTiles, kBlocks), kOfPlace = kBlockFieldBytes / kSumBytes;
  static_assert(kGiven <= Stages::kCount * kOfPlace && kTokenTiles % kBlocks == 0);
  static ECMV_GPU_DEVICE gpu::Pointer<gpu::uint4> place(const Stages& fields, int own, int j) {
    return gpu::cast<gpu::uint4>(fields.places +
                                 (j / kOfPlace * fields.bytes + own * kBlockFieldBytes + j % kOfPlace * kSumBytes)) +
           LaneGroup::lane();
  }
};

// f(std::integral_constant<int, blocks>) for a cluster of two or more blocks.
template <int kTokenTiles, typename F>
ECMV_GPU_DEVICE void with_cluster(int blocks, F f) {
  const auto one = [&](auto number) {
    if constexpr (cluster_takes(kTokenTiles, decltype(number)::value))
      if (blocks == decltype(number)::value) f(number);
  };
  one(std::integral_constant<int, 2>());
  one(std::integral_constant<int, 4>());
  one(std::integral_constant<int, 8>());
}

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
