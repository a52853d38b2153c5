// Gates: lane groups of a block wait until others have arrived, while the rest of the block goes on. A gate opens when
// as many have arrived as it was made for, and at once closes for the next phase. Reads and writes that a lane group
// makes before it arrives come before those that the waiting groups make afterwards. NVIDIA devices since sm_90 and the
// emulator have gates; elsewhere kernels with gates are refused (have_bulk_copies of async_copy.h).
#pragma once

#include <cstdint>

#include "backends/gpu/async_copy.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

inline constexpr int kGateBytes = 8;

#if defined(ECMV_GPU_EMULATOR)

// Two halves: the arrivals of a phase, and the arrivals in all phases.
class Gate {
 public:
  explicit Gate(Pointer<std::byte> place) : halves_(cast<uint32_t>(place)) {}
  void init(uint32_t arrivals) const { halves_[0] = arrivals, halves_[1] = 0; }
  void arrive() const { halves_[1] = halves_[1] + 1; }
  void wait(int parity) const {
    while (static_cast<int>(halves_[1] / halves_[0] % 2) == parity) pause();
  }

 private:
  Pointer<uint32_t> halves_;
};
inline void meet_block(bool) { sync_block(); }  // all wait, which no kernel can tell

#else

class Gate {
 public:
  explicit ECMV_GPU_DEVICE Gate(Pointer<std::byte> place) : place_(shared_address(place)) {}
  // One thread calls it, before a barrier of the block.
  ECMV_GPU_DEVICE void init(uint32_t arrivals) const {
#if defined(ECMV_GPU_HAS_BULK_COPIES)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(place_), "r"(arrivals) : "memory");
#else
    (void)arrivals;
#endif
  }
  // One lane calls it, after a barrier of its lane group.
  ECMV_GPU_DEVICE void arrive() const {
#if defined(ECMV_GPU_HAS_BULK_COPIES)
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(place_) : "memory");
#endif
  }
  // Waits until phase n has ended, where `parity` is n modulo 2. Phase n - 1 must have ended; phase -1 counts as ended.
  ECMV_GPU_DEVICE void wait(int parity) const { wait_for_phase(place_, parity); }

 private:
  uint32_t place_;
};
// A barrier for all threads of the block at which only those that `wait` do so, and then see what the others wrote
// before it. Lane groups wait or do not as a whole. On AMD devices all wait. A kernel that calls it does not call
// sync_first_threads(), whose barrier it is.
ECMV_GPU_DEVICE void meet_block(bool wait) {
#if defined(__HIP__)
  (void)wait;
  sync_block();
#elif defined(__CUDA_ARCH__)
  if (wait)
    asm volatile("bar.sync 1, %0;" ::"r"(block_size()) : "memory");
  else
    asm volatile("bar.arrive 1, %0;" ::"r"(block_size()) : "memory");
#else
  (void)wait;
#endif
}

#endif

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
