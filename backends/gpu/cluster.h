// Clusters: blocks that run at the same time on neighbouring multiprocessors and read and write each other's shared
// memory (distributed shared memory in the CUDA programming guide). NVIDIA devices since sm_90 and the emulator have
// them. A launch asks for them (LaunchShape::cluster), and the blocks of a cluster have consecutive numbers.
#pragma once

#include <cstring>

#include "backends/gpu/async_copy.h"
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
class ClusterMeeting {
 public:
  void wait() const { emulator::wait_for_cluster(goes_on_); }

 private:
  int64_t goes_on_ = emulator::arrive_at_cluster();
};
// Two halves: bytes that are expected, and those that came.
class Delivery {
 public:
  static constexpr int kBytes = 8;
  explicit Delivery(Pointer<std::byte> place) : halves_(cast<uint32_t>(place)) {}
  void init(int bytes) const { halves_[0] = static_cast<uint32_t>(bytes), halves_[1] = 0; }
  void store(Pointer<uint4> place, int rank, const float (&four)[4]) const {
    std::memcpy(of_block(place, rank), four, sizeof four);
    *of_block(halves_ + 1, rank) += 16;
  }
  void wait() const {
    while (halves_[1] < halves_[0]) pause();
    if (halves_[1] > halves_[0]) fault("more bytes came from blocks of the cluster than are expected.");
  }

 private:
  Pointer<uint32_t> halves_;
  template <typename T>
  static T* of_block(Pointer<T> place, int rank) {
    const int64_t offset = cast<std::byte>(place) - Pointer<std::byte>(shared_memory());
    return reinterpret_cast<T*>(emulator::shared_data_of(rank) + offset);
  }
};
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
// A barrier for all threads of the cluster's blocks in two halves: they arrive where they make it, and go on meanwhile.
// It orders no memory: what was read before it must have been used, and a Delivery's init() has a fence of its own.
class ClusterMeeting {
 public:
  ECMV_GPU_DEVICE ClusterMeeting() {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
  }
  ECMV_GPU_DEVICE void wait() const {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
  }
};
// 8 bytes of shared memory that count what blocks of the cluster store in this one's shared memory, so that a lane
// group can wait for its own part: no barrier of the cluster, no fence. It serves once.
class Delivery {
 public:
  static constexpr int kBytes = 8;
  explicit ECMV_GPU_DEVICE Delivery(Pointer<std::byte> place) : place_(shared_address(place)) {}
  // One lane calls it, before a ClusterMeeting: how many bytes will come.
  ECMV_GPU_DEVICE void init(int bytes) const {
#if defined(ECMV_GPU_HAS_BULK_COPIES)
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;\n\t"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place_),
        "r"(bytes)
        : "memory");
#else
    (void)bytes;
#endif
  }
  // Stores 16 bytes at the same place of block `rank`, counted there. Both blocks have met.
  ECMV_GPU_DEVICE void store(Pointer<uint4> place, int rank, const float (&four)[4]) const {
#if defined(ECMV_GPU_HAS_BULK_COPIES)
    asm volatile(
        "{\n\t.reg .b32 at, count;\n\tmapa.shared::cluster.u32 at, %0, %2;\n\tmapa.shared::cluster.u32 count, %1, "
        "%2;\n\t"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [at], {%3, %4, %5, %6}, [count];\n\t}" ::"r"(
            static_cast<uint32_t>(__cvta_generic_to_shared(place))),
        "r"(place_), "r"(rank), "f"(four[0]), "f"(four[1]), "f"(four[2]), "f"(four[3])
        : "memory");
#else
    (void)place, (void)rank, (void)four;
#endif
  }
  // Waits until all have come.
  ECMV_GPU_DEVICE void wait() const { wait_for_phase(place_, 0); }

 private:
  uint32_t place_;
};
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
