// An address in shared memory as a number that an instruction uses directly. For pointers into shared memory nvcc adds
// the memory's base by an instruction of its own at each access, which a loop of fifteen instructions feels twice.
// Loads and stores through it keep their order among each other, but need a barrier between them and ordinary accesses.
#pragma once

#include <cstdint>

#include "backends/gpu/memory.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

class SharedAddress {
 public:
#if !defined(ECMV_GPU_EMULATOR) && !defined(__HIP__) && defined(__CUDA_ARCH__)
  ECMV_GPU_DEVICE explicit SharedAddress(Pointer<std::byte> place)
      : address_(static_cast<uint32_t>(__cvta_generic_to_shared(place))) {}
  // The first multiple of `bytes`, a power of two, from here on.
  ECMV_GPU_DEVICE SharedAddress aligned(int bytes) const {
    return SharedAddress((address_ + static_cast<uint32_t>(bytes) - 1) & ~(static_cast<uint32_t>(bytes) - 1));
  }
  // The word at this address plus `bits`, where the address has none of these bits set.
  ECMV_GPU_DEVICE uint32_t load32_with(uint32_t bits) const {
    uint32_t value;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address_ | bits));
    return value;
  }
  ECMV_GPU_DEVICE void store(uint32_t value) const {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address_), "r"(value));
  }
  ECMV_GPU_DEVICE void store(uint4 value) const {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address_), "r"(value.x), "r"(value.y), "r"(value.z),
                 "r"(value.w));
  }
  ECMV_GPU_DEVICE SharedAddress operator+(int bytes) const {
    return SharedAddress(address_ + static_cast<uint32_t>(bytes));
  }

 private:
  ECMV_GPU_DEVICE explicit SharedAddress(uint32_t address) : address_(address) {}
  uint32_t address_;
#else
  ECMV_GPU_DEVICE explicit SharedAddress(Pointer<std::byte> place) : address_(place) {}
  ECMV_GPU_DEVICE SharedAddress aligned(int bytes) const {
    const int64_t offset = address_ - shared_memory();
    return SharedAddress(shared_memory() + (offset + bytes - 1) / bytes * bytes);
  }
  ECMV_GPU_DEVICE uint32_t load32_with(uint32_t bits) const { return *cast<const uint32_t>(address_ + bits); }
  ECMV_GPU_DEVICE void store(uint32_t value) const { *cast<uint32_t>(address_) = value; }
  ECMV_GPU_DEVICE void store(uint4 value) const { *cast<uint4>(address_) = value; }
  ECMV_GPU_DEVICE SharedAddress operator+(int bytes) const { return SharedAddress(address_ + bytes); }

 private:
  Pointer<std::byte> address_;
#endif
};

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
