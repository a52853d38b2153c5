// Clusters: blocks that run at the same time on multiprocessors close to each other and read each other's shared memory
// (the CUDA programming guide calls that distributed shared memory). NVIDIA devices have them since sm_90, and the
// emulator. A launch asks for them (LaunchShape::cluster); a cluster's blocks follow each other.
#pragma once

#include "backends/gpu/early_launches.h"
#include "backends/gpu/memory.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Host code. Early launches came with the same architecture.
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
// All threads of the cluster's blocks wait for each other; what they wrote to shared memory is seen by all of them.
ECMV_GPU_DEVICE void sync_cluster() {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}
// What block `rank` of the cluster, which must not have ended, has where `place` is in this block's shared memory.
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
