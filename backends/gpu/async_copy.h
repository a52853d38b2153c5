// Copies from global to shared memory that a lane starts and later waits for. On NVIDIA devices since sm_80 they bypass the registers;
// elsewhere they are plain copies; in the emulator they happen as late as they may, so that a missing wait shows.
// Copies belong to the lane that started them: others see the bytes behind its wait and a barrier.
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
  // The access is checked now, the bytes move later.
  (void)cast<std::array<std::byte, kBytes>>(shared)[0];
  (void)cast<const std::array<std::byte, kBytes>>(global)[0];
  if (reinterpret_cast<uintptr_t>(shared.address()) % kBytes != 0 || reinterpret_cast<uintptr_t>(global.address()) % kBytes != 0)
    fault("an asynchronous copy of " + std::to_string(kBytes) + " bytes between addresses that are not multiples of it.");
  queue_copy(shared.address(), global.address(), kBytes);
}
inline void commit_copies() { commit_queued_copies(); }
template <int kPending>
void wait_copies() {
  finish_copies(kPending);
}

#else

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

#endif

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
