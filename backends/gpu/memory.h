// Device memory as kernels see it. gpu::Pointer<T> is T* on devices and a pointer that knows its buffer in the
// emulator, where every access outside is reported with the buffer's name; kernels that keep to it are checked byte by
// byte. Shared memory is always the block's dynamic shared memory, whose size the launch states.
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

// The same address as elements of another type; it must be aligned for that type wherever it is accessed.
template <typename To, typename From>
ECMV_GPU_BOTH Pointer<To> cast(From* pointer) {
  return reinterpret_cast<To*>(pointer);
}

// The first byte of the block's dynamic shared memory, 16-byte aligned.
ECMV_GPU_DEVICE Pointer<std::byte> shared_memory() {
  extern __shared__ uint4 ecmv_dynamic_shared_memory[];
  return reinterpret_cast<std::byte*>(ecmv_dynamic_shared_memory);
}

// A load of 4, 8 or 16 bytes that are read once: they leave the caches first. Only from memory that no kernel writes.
template <typename T>
ECMV_GPU_DEVICE T load_streaming(const T* pointer) {
#if defined(__HIP__)
  // As one vector, so that one instruction loads it.
  typedef uint32_t Words __attribute__((ext_vector_type(sizeof(T) / 4)));
  const Words words = __builtin_nontemporal_load(reinterpret_cast<const Words*>(pointer));
  T value;
  __builtin_memcpy(&value, &words, sizeof(T));
  return value;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
  // Past L1, which on some parts would otherwise be filled by the stream instead of the vector x.
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

// The same, but kept where it stands by nvcc, which else moves loads down to where they are used, so that no work would
// hide their latency. ptxas still moves it where registers are few, and where they are not.
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

// Whether that happens here.
#if !defined(__HIP__)
inline constexpr bool kMovesLoads = true;
#else
inline constexpr bool kMovesLoads = false;
#endif

// The same, but before the next barrier of lanes: of memory that others may write, for all that ptxas knows, so that it
// does not move the load behind one. What does not fit the registers is spilled.
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

// A load through the read-only path, for what many threads share. Only from memory that this kernel does not write.
template <typename T>
ECMV_GPU_DEVICE T load_shared_by_many(const T* pointer) {
#if defined(__HIP__) || !defined(__CUDA_ARCH__)
  return *pointer;
#else
  return __ldg(pointer);
#endif
}

// Adds atomically, in global or shared memory; returns what was there.
ECMV_GPU_DEVICE int32_t atomic_add(int32_t* pointer, int32_t value) { return atomicAdd(pointer, value); }
ECMV_GPU_DEVICE uint32_t atomic_add(uint32_t* pointer, uint32_t value) { return atomicAdd(pointer, value); }
ECMV_GPU_DEVICE float atomic_add(float* pointer, float value) { return atomicAdd(pointer, value); }

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

#endif  // !ECMV_GPU_EMULATOR

#if !defined(ECMV_GPU_EMULATOR) && !defined(__HIP__) && defined(__CUDA_ARCH__)
#define ECMV_GPU_HIDE_SHARED_BASE
#endif

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// A place in shared memory from which words are read at computed distances in bytes. nvcc would add the base of shared
// memory by an instruction of its own at each access; here it cannot.
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

  // The same; anything while an asynchronous copy to the word is under way, for readers that then use no bit of it.
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
