// Device memory in kernels. gpu::Pointer<T> is T* on devices. In the emulator it is a pointer that knows its buffer and
// reports every access outside with the buffer's name, so kernels that use it are checked byte by byte. Shared memory
// is always the block's dynamic shared memory, whose size the launch states.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/gpu/launch.h"

#if defined(ECMV_GPU_EMULATOR)
#include "backends/emulator/emulator_memory.h"
#else

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

using ::uint2;
using ::uint4;
template <typename T>
using Pointer = T*;

// The address as elements of another type, to which it must be aligned at every access.
template <typename To, typename From>
ECMV_GPU_BOTH Pointer<To> cast(From* pointer) {
  return reinterpret_cast<To*>(pointer);
}

// The first byte of the block's dynamic shared memory, 16-byte aligned.
ECMV_GPU_DEVICE Pointer<std::byte> shared_memory() {
  extern __shared__ uint4 ecmv_dynamic_shared_memory[];
  return reinterpret_cast<std::byte*>(ecmv_dynamic_shared_memory);
}

// Loads 4, 8 or 16 bytes that are read once, so they leave the caches first. Only from memory that no kernel writes.
template <typename T>
ECMV_GPU_DEVICE T load_streaming(const T* pointer) {
#if defined(__HIP__)
  // A vector type, so that one instruction loads it.
  typedef uint32_t Words __attribute__((ext_vector_type(sizeof(T) / 4)));
  const Words words = __builtin_nontemporal_load(reinterpret_cast<const Words*>(pointer));
  T value;
  __builtin_memcpy(&value, &words, sizeof(T));
  return value;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
  // The load bypasses L1, which on some parts the stream would otherwise fill instead of the vector x.
  if constexpr (sizeof(T) == 16) {
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(pointer));
    return *reinterpret_cast<T*>(&v);
  } else {
    return __ldcs(pointer);
  }
#else
  return *pointer;
#endif
}

// The same, but nvcc keeps it in place. It would move loads down to their use, where no work would hide their latency.
// ptxas may still move it, whether registers are few or not.
template <typename T>
ECMV_GPU_DEVICE T load_streaming_here(const T* pointer) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
  T value;
  if constexpr (sizeof(T) == 16)
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(pointer));
  else if constexpr (sizeof(T) == 8)
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(value.x), "=r"(value.y) : "l"(pointer));
  else
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(value) : "l"(pointer));
  return value;
#else
  return load_streaming(pointer);
#endif
}

// Whether the compiler moves loads here.
#if !defined(__HIP__)
inline constexpr bool kMovesLoads = true;
#else
inline constexpr bool kMovesLoads = false;
#endif

// The same, but it stays before the next barrier of lanes: ptxas must take the memory for one that others may write, so
// it does not move the load past the barrier. Values that do not fit the registers are spilled.
template <typename T>
ECMV_GPU_DEVICE T load_streaming_before_sync(const T* pointer) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
  T value;
  if constexpr (sizeof(T) == 16)
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(pointer)
                 : "memory");
  else if constexpr (sizeof(T) == 8)
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0,%1}, [%2];"
                 : "=r"(value.x), "=r"(value.y)
                 : "l"(pointer)
                 : "memory");
  else
    asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(value) : "l"(pointer) : "memory");
  return value;
#else
  return load_streaming(pointer);
#endif
}

// Loads through the read-only path data that many threads share. Only from memory that this kernel does not write.
template <typename T>
ECMV_GPU_DEVICE T load_shared_by_many(const T* pointer) {
#if defined(__HIP__) || !defined(__CUDA_ARCH__)
  return *pointer;
#else
  return __ldg(pointer);
#endif
}

// Adds atomically, in global or shared memory; returns the old value.
ECMV_GPU_DEVICE int32_t atomic_add(int32_t* pointer, int32_t value) { return atomicAdd(pointer, value); }
ECMV_GPU_DEVICE uint32_t atomic_add(uint32_t* pointer, uint32_t value) { return atomicAdd(pointer, value); }
ECMV_GPU_DEVICE float atomic_add(float* pointer, float value) { return atomicAdd(pointer, value); }

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

#endif  // !ECMV_GPU_EMULATOR

#if !defined(ECMV_GPU_EMULATOR) && !defined(__HIP__) && defined(__CUDA_ARCH__)
#define ECMV_GPU_HIDE_SHARED_BASE
#endif

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// A place in shared memory from which words are read at computed distances in bytes. It spares an instruction for each
// access, by which nvcc would add the base of shared memory.
class SharedWords {
 public:
  ECMV_GPU_DEVICE explicit SharedWords(Pointer<const std::byte> first) {
#if defined(ECMV_GPU_HIDE_SHARED_BASE)
    asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(first_) : "l"(first));
#else
    first_ = first;
#endif
  }
  // The word at distance + kFurther.
  template <int kFurther = 0>
  ECMV_GPU_DEVICE uint32_t at(int distance) const {
#if defined(ECMV_GPU_HIDE_SHARED_BASE)
    uint32_t word;
    asm volatile("ld.shared.u32 %0, [%1+%2];"
                 : "=r"(word)
                 : "r"(first_ + static_cast<uint32_t>(distance)), "n"(kFurther));
    return word;
#else
    return *cast<const uint32_t>(first_ + (distance + kFurther));
#endif
  }

  // The same, but while an asynchronous copy to the word is under way it may return anything, for readers that then use
  // no bit of it.
  template <int kFurther>
  ECMV_GPU_DEVICE uint32_t arriving_at(int distance) const {
#if defined(ECMV_GPU_EMULATOR)
    return cast<const uint32_t>(first_ + (distance + kFurther)).value_or(0x5A5A5A5A);
#else
    return at<kFurther>(distance);
#endif
  }

 private:
#if defined(ECMV_GPU_HIDE_SHARED_BASE)
  uint32_t first_;
#else
  Pointer<const std::byte> first_;
#endif
};

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
