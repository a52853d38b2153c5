// Copies from global to shared memory that a lane starts and later waits for. NVIDIA devices since sm_80 copy past the
// registers; other devices make plain copies; the emulator copies as late as it may, so that a missing wait shows.
// Copies belong to the lane that started them: others see the bytes after its wait and a barrier. Bulk copies are for
// NVIDIA devices since sm_90: one lane starts a copy of many bytes, and everybody waits at an Arrival. They bypass the
// unit that serves the lanes' loads and returns them in order, so a load does not wait for a long queue of copies in
// front of it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "backends/gpu/memory.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

#if defined(ECMV_GPU_EMULATOR)

template <int kBytes>
void copy_async(Pointer<std::byte> shared, Pointer<const std::byte> global) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  // Checks the access now; the bytes move later.
  (void)cast<std::array<std::byte, kBytes>>(shared)[0];
  (void)cast<const std::array<std::byte, kBytes>>(global)[0];
  if (reinterpret_cast<uintptr_t>(shared.address()) % kBytes != 0 ||
      reinterpret_cast<uintptr_t>(global.address()) % kBytes != 0)
    fault("an asynchronous copy of " + std::to_string(kBytes) +
          " bytes between addresses that are not multiples of it.");
  queue_copy(shared.address(), global.address(), kBytes);
}
template <int kBytes>
void copy_async_or_zero(Pointer<std::byte> shared, Pointer<const std::byte> global, bool there) {
  if (there)
    copy_async<kBytes>(shared, global);
  else
    *cast<std::array<std::byte, kBytes>>(shared) = {};
}
// Only checks that the bytes are there.
inline void prefetch_l2(Pointer<const std::byte> global, int bytes) {
  if (bytes % 16 != 0 || reinterpret_cast<uintptr_t>(global.address()) % 16 != 0)
    fault("a prefetch of what are no multiples of 16 bytes.");
  (void)cast<const uint4>(global)[0];
  (void)cast<const uint4>(global)[bytes / 16 - 1];
}
inline void commit_copies() { commit_queued_copies(); }
template <int kPending>
void wait_copies() {
  finish_copies(kPending);
}

inline constexpr bool kBulkCopies = true;
inline bool have_bulk_copies(const DeviceInfo&) { return true; }
inline void order_before_bulk_copies() {}
class Arrival {
 public:
  static constexpr int kBytes = 8;
  explicit Arrival(Pointer<std::byte> place) : phases_(cast<uint64_t>(place)) {}
  void init() const { *phases_ = 0; }
  void expect(int bytes) const { expect_bulk(phases_.address(), bytes); }
  void copy(Pointer<std::byte> shared, Pointer<const std::byte> global, int bytes) const {
    if (bytes <= 0 || bytes % 16 != 0 || reinterpret_cast<uintptr_t>(shared.address()) % 16 != 0 ||
        reinterpret_cast<uintptr_t>(global.address()) % 16 != 0)
      fault("a bulk copy of " + std::to_string(bytes) + " bytes; sizes and addresses are multiples of 16.");
    for (const int end : {0, bytes - 1}) {
      (void)*cast<const uint8_t>(shared + end);
      (void)*cast<const uint8_t>(global + end);
    }
    queue_bulk(phases_.address(), shared.address(), global.address(), bytes);
  }
  // 16 zeros, as a part of a copy that has no bytes of memory for them.
  void copy_zeros(Pointer<std::byte> shared) const {
    static constexpr std::byte kZeros[16] = {};
    (void)*cast<const uint8_t>(shared);
    queue_bulk(phases_.address(), shared.address(), kZeros, sizeof kZeros);
  }
  bool ended(int parity) const {
    if (*phases_ % 2 == static_cast<uint64_t>(parity)) finish_bulk(phases_.address());
    return *phases_ % 2 != static_cast<uint64_t>(parity);
  }
  void wait(int parity) const {
    while (!ended(parity)) pause();
  }

 private:
  Pointer<uint64_t> phases_;  // number of phases that have ended
};

#else

#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define ECMV_GPU_HAS_BULK_COPIES
inline constexpr bool kBulkCopies = true;
#else
inline constexpr bool kBulkCopies = false;
#endif

// kBytes: 4, 8 or 16; both addresses are multiples of it.
template <int kBytes>
ECMV_GPU_DEVICE void copy_async(Pointer<std::byte> shared, Pointer<const std::byte> global) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(global), "n"(kBytes) : "memory");
#else
  if constexpr (kBytes == 16)
    *cast<uint4>(shared) = *cast<const uint4>(global);
  else if constexpr (kBytes == 8)
    *cast<uint2>(shared) = *cast<const uint2>(global);
  else
    *cast<uint32_t>(shared) = *cast<const uint32_t>(global);
#endif
}

// The same if `there` is true; else writes zeros and reads nothing. It has no branch: a step of a product makes four
// such copies, and tests around each were 12 of its 218 instructions.
template <int kBytes>
ECMV_GPU_DEVICE void copy_async_or_zero(Pointer<std::byte> shared, Pointer<const std::byte> global, bool there) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = there ? kBytes : 0;
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(global), "n"(kBytes), "r"(bytes)
                 : "memory");
#else
  if (there) {
    copy_async<kBytes>(shared, global);
  } else if constexpr (kBytes == 16) {
    *cast<uint4>(shared) = uint4{};
  } else if constexpr (kBytes == 8) {
    *cast<uint2>(shared) = uint2{};
  } else {
    *cast<uint32_t>(shared) = 0;
  }
#endif
}

// Brings bytes to the L2 cache, if one instruction of one lane can (NVIDIA since sm_90); else does nothing. Address and
// size are multiples of 16, and the size is not 0.
ECMV_GPU_DEVICE void prefetch_l2(Pointer<const std::byte> global, int bytes) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
#else
  (void)global;
  (void)bytes;
#endif
}

// The copies started since the last commit become one group.
ECMV_GPU_DEVICE void commit_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most the kPending groups committed last are unfinished.
template <int kPending>
ECMV_GPU_DEVICE void wait_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

inline bool have_bulk_copies(const DeviceInfo& device) { return have_early_launches(device); }

// Orders this lane's writes to shared memory before bulk copies to the same place that begin after a following barrier.
ECMV_GPU_DEVICE void order_before_bulk_copies() {
#if defined(ECMV_GPU_HAS_BULK_COPIES)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

ECMV_GPU_DEVICE uint32_t shared_address(Pointer<std::byte> pointer) {
#if defined(ECMV_GPU_HAS_BULK_COPIES)
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
#else
  (void)pointer;
  return 0;
#endif
}
// Waits until phase n of a barrier in shared memory has ended, where `parity` is n modulo 2. Phase n - 1 must have
// ended; phase -1 counts as ended.
ECMV_GPU_DEVICE void wait_for_phase(uint32_t barrier, int parity) {
#if defined(ECMV_GPU_HAS_BULK_COPIES)
  asm volatile(
      "{\n\t.reg .pred there;\n"
      "again:\n\tmbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\n\t@!there bra again;\n\t}" ::"r"(barrier),
      "r"(parity)
      : "memory");
#else
  (void)barrier, (void)parity;
#endif
}

// 8 bytes of shared memory at which copies arrive, one phase after the other.
class Arrival {
 public:
  static constexpr int kBytes = 8;
  ECMV_GPU_DEVICE explicit Arrival(Pointer<std::byte> place) : place_(shared_address(place)) {}
  // One thread calls it, before a barrier of the block.
  ECMV_GPU_DEVICE void init() const {
#if defined(ECMV_GPU_HAS_BULK_COPIES)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(place_)
                 : "memory");
#endif
  }
  // One lane begins a phase with the total of the bytes that it will copy, then copies. Sizes and addresses are
  // multiples of 16.
  ECMV_GPU_DEVICE void expect(int bytes) const {
#if defined(ECMV_GPU_HAS_BULK_COPIES)
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place_), "r"(bytes) : "memory");
#endif
  }
  ECMV_GPU_DEVICE void copy(Pointer<std::byte> shared, Pointer<const std::byte> global, int bytes) const {
#if defined(ECMV_GPU_HAS_BULK_COPIES)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared)),
                 "l"(global), "r"(bytes), "r"(place_)
                 : "memory");
#endif
  }
  // Whether phase number n has ended, n % 2 being `parity`; the one before it has. Then its bytes are seen by the lane.
  ECMV_GPU_DEVICE bool ended(int parity) const {
    int there = 1;
#if defined(ECMV_GPU_HAS_BULK_COPIES)
    asm volatile(
        "{\n\t.reg .pred there;\n\tmbarrier.test_wait.parity.shared::cta.b64 there, [%1], %2;\n\tselp.b32 %0, 1, 0, "
        "there;\n\t}"
        : "=r"(there)
        : "r"(place_), "r"(parity)
        : "memory");
#endif
    return there != 0;
  }
  // Waits until it has.
  ECMV_GPU_DEVICE void wait(int parity) const { wait_for_phase(place_, parity); }
  ECMV_GPU_DEVICE uint32_t address() const { return place_; }

 private:
  uint32_t place_;
};

#endif

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
