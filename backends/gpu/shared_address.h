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
  ECMV_GPU_DEVICE uint32_t load16() const {
    uint32_t value;
    asm volatile("ld.shared.u16 %0, [%1];" : "=r"(value) : "r"(address_));
    return value;
  }
  // If state < 2^16: state = state << 16 | word, and `word` becomes the one after this address, which advances. Four
  // instructions and no branch.
  ECMV_GPU_DEVICE void refill(uint32_t& state, uint32_t& word) {
    asm volatile(
        "{\n\t.reg .pred low;\n\tsetp.lt.u32 low, %0, 65536;\n\t@low prmt.b32 %0, %0, %1, 0x1054;\n\t@low "
        "ld.shared.u16 %1, [%2+2];\n\t@low add.u32 %2, %2, 2;\n\t}"
        : "+r"(state), "+r"(word), "+r"(address_));
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
  ECMV_GPU_DEVICE uint32_t load16() const { return *cast<const uint16_t>(address_); }
  ECMV_GPU_DEVICE void refill(uint32_t& state, uint32_t& word) {
    if (state >= 1u << 16) return;
    state = state << 16 | word;
    address_ += 2;
    word = load16();
  }
  ECMV_GPU_DEVICE uint32_t load32_with(uint32_t bits) const { return *cast<const uint32_t>(address_ + bits); }
  ECMV_GPU_DEVICE void store(uint32_t value) const { *cast<uint32_t>(address_) = value; }
  ECMV_GPU_DEVICE void store(uint4 value) const { *cast<uint4>(address_) = value; }
  ECMV_GPU_DEVICE SharedAddress operator+(int bytes) const { return SharedAddress(address_ + bytes); }

 private:
  Pointer<std::byte> address_;
#endif

 public:
  ECMV_GPU_DEVICE SharedAddress& operator+=(int bytes) { return *this = *this + bytes; }
  ECMV_GPU_DEVICE friend bool operator<(const SharedAddress& a, const SharedAddress& b) {
    return a.address_ < b.address_;
  }
  ECMV_GPU_DEVICE friend bool operator==(const SharedAddress& a, const SharedAddress& b) {
    return a.address_ == b.address_;
  }
};

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
