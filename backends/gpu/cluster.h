// Clusters: blocks that run at the same time on neighbouring multiprocessors and read each other's shared memory
// (distributed shared memory in the CUDA programming guide). NVIDIA devices since sm_90 and the emulator have them. A
// launch asks for them (LaunchShape::cluster), and the blocks of a cluster have consecutive numbers.
#pragma once

#include "backends/gpu/early_launches.h"
#include "backends/gpu/memory.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Host code. The same architecture that brought early launches brought clusters.
inline bool have_clusters(const DeviceInfo& device) {
#if defined(ECMV_GPU_EMULATOR)
  (void)device;
  return true;
#else
  return have_early_launches(device);
#endif
}

#if defined(ECMV_GPU_EMULATOR)

using emulator::cluster_rank;
inline void sync_cluster() { emulator::meet_cluster(); }
inline void sync_cluster_after_reads() { emulator::meet_cluster(); }
inline uint4 load_of_block(Pointer<const uint4> place, int rank) {
  const int64_t offset = cast<const std::byte>(place) - Pointer<const std::byte>(shared_memory());
  return *cast<const uint4>(Pointer<const std::byte>(emulator::shared_data_of(rank)) + offset);
}

#else

// This block's number in its cluster.
ECMV_GPU_DEVICE int cluster_rank() {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
#else
  return 0;
#endif
}
// A barrier for all threads of the cluster's blocks, which then see what the others wrote to shared memory.
ECMV_GPU_DEVICE void sync_cluster() {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}
// The same after which they see nothing new: it keeps this block's shared memory until the others have read it. It does
// not wait for stores under way.
ECMV_GPU_DEVICE void sync_cluster_after_reads() {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}
// Loads from block `rank` of the cluster, which must not have ended, the bytes at the same place of its shared memory.
ECMV_GPU_DEVICE uint4 load_of_block(Pointer<const uint4> place, int rank) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(place))), "r"(rank));
  uint4 value;
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address)
               : "memory");
  return value;
#else
  (void)rank;
  return *place;
#endif
}

#endif

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
