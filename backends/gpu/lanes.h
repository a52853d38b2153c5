// Operations of a group of lanes together: ballot, shuffle, prefix sums, reductions. A group is kLanes neighbouring
// lanes of a wave. A format's number of interleaved streams is such a kLanes, so it runs on waves of 32 and of 64 alike
// (two groups in a wave of 64 may even take different paths). `Wave` is the whole wave, whatever its size. Every lane
// of the group must take part in each of these calls; the emulator reports a lane that does not.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/gpu/bits.h"
#include "backends/gpu/memory.h"

#if defined(ECMV_GPU_EMULATOR)
#include "backends/emulator/emulator_lanes.h"
#else

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

inline constexpr int kWholeWave = 0;
// The most lanes in a wave of any device. It bounds blocks that are counted in waves.
#if defined(__HIP__)
inline constexpr int kLargestWave = 64;
#else
inline constexpr int kLargestWave = 32;
#endif

ECMV_GPU_DEVICE constexpr int wave_size() {
#if defined(__HIP__) && defined(__AMDGCN_WAVEFRONT_SIZE)
  return __AMDGCN_WAVEFRONT_SIZE;
#elif defined(__HIP__)
  return 64;  // host pass only: no code is generated from it
#else
  return 32;
#endif
}

template <int kLanes>
struct Lanes {
  static_assert(kLanes == kWholeWave || (kLanes >= 2 && kLanes <= 32 && (kLanes & (kLanes - 1)) == 0));
  // One bit for each lane of the group, lane 0 lowest.
  using Mask = std::conditional_t<kLanes == kWholeWave && kLargestWave == 64, uint64_t, uint32_t>;

  static ECMV_GPU_DEVICE constexpr int size() { return kLanes == kWholeWave ? wave_size() : kLanes; }
  static ECMV_GPU_DEVICE int lane() { return thread_index() & (size() - 1); }
  // Number of this group in its block.
  static ECMV_GPU_DEVICE int group() { return thread_index() / size(); }

  static ECMV_GPU_DEVICE Mask ballot(bool value) {
#if defined(__HIP__)
    const uint64_t all = __ballot(value);
    if constexpr (kLanes == kWholeWave) return static_cast<Mask>(all);
    return static_cast<Mask>((all >> first_in_wave()) & ((uint64_t{1} << size()) - 1));
#else
    const uint32_t all = __ballot_sync(members(), value);
    return size() == 32 ? all : (all >> first_in_wave()) & ((1u << (size() & 31)) - 1);
#endif
  }
  static ECMV_GPU_DEVICE bool any(bool value) { return ballot(value) != 0; }
  static ECMV_GPU_DEVICE bool all(bool value) { return ballot(!value) == 0; }
  // Lanes of the mask that are before this one.
  static ECMV_GPU_DEVICE int count_before(Mask mask) {
    return popcount(static_cast<Mask>(mask & ((Mask{1} << lane()) - 1)));
  }

  // The value of lane `source` of the group (modulo its size); of lane ^ mask; of the lane `distance` further (at the
  // end, one's own); of the lane `distance` before (at the beginning, one's own).
  template <typename T>
  static ECMV_GPU_DEVICE T shuffle(T value, int source) {
#if defined(__HIP__)
    return __shfl(value, source & (size() - 1), size());
#else
    return __shfl_sync(members(), value, source, size());
#endif
  }
  // The value of lane `source`, where `source` is the same in all lanes. nvcc then knows that the result is the same in
  // all lanes, too. Without that knowledge a branch on the value may part the lanes, and where lanes may be parted,
  // each shuffle and barrier first waits for all loads under way. In a kernel that always has loads under way, 18 % of
  // a profile's samples stood there.
  static ECMV_GPU_DEVICE uint32_t pick(uint32_t value, int source) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (size() == 32) return __reduce_or_sync(members(), lane() == source ? value : 0u);
#endif
    return shuffle(value, source);
  }
  // The value, for values that are the same in all lanes; nvcc then knows it.
  static ECMV_GPU_DEVICE int32_t uniform(int32_t value) {
    return static_cast<int32_t>(pick(static_cast<uint32_t>(value), 0));
  }

  template <typename T>
  static ECMV_GPU_DEVICE T shuffle_xor(T value, int mask) {
#if defined(__HIP__)
    return __shfl_xor(value, mask, size());
#else
    return __shfl_xor_sync(members(), value, mask, size());
#endif
  }
  template <typename T>
  static ECMV_GPU_DEVICE T shuffle_down(T value, int distance) {
#if defined(__HIP__)
    return __shfl_down(value, distance, size());
#else
    return __shfl_down_sync(members(), value, distance, size());
#endif
  }
  template <typename T>
  static ECMV_GPU_DEVICE T shuffle_up(T value, int distance) {
#if defined(__HIP__)
    return __shfl_up(value, distance, size());
#else
    return __shfl_up_sync(members(), value, distance, size());
#endif
  }

  // The sum over the group, in every lane.
  static ECMV_GPU_DEVICE int32_t reduce_add(int32_t value) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (size() == 32) {
      return __reduce_add_sync(members(), value);
    } else
#endif
    {
      ECMV_GPU_UNROLL
      for (int distance = size() / 2; distance > 0; distance /= 2) value += shuffle_xor(value, distance);
      return value;
    }
  }
  // The greatest over the group, in every lane.
  static ECMV_GPU_DEVICE int32_t reduce_max(int32_t value) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (size() == 32) {
      return __reduce_max_sync(members(), value);
    } else
#endif
    {
      ECMV_GPU_UNROLL
      for (int distance = size() / 2; distance > 0; distance /= 2) {
        const int32_t other = shuffle_xor(value, distance);
        value = other > value ? other : value;
      }
      return value;
    }
  }
  // The sum over the lanes before this one.
  template <typename T>
  static ECMV_GPU_DEVICE T prefix_add(T value) {
    T sum = value;
    ECMV_GPU_UNROLL
    for (int distance = 1; distance < size(); distance *= 2) {
      const T other = shuffle_up(sum, distance);
      if (lane() >= distance) sum += other;
    }
    return sum - value;
  }
  // After this all lanes of the group see its writes to shared memory.
  static ECMV_GPU_DEVICE void sync() {
#if defined(__HIP__)
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
#else
    __syncwarp(members());
#endif
  }

 private:
  static ECMV_GPU_DEVICE int first_in_wave() { return thread_index() & (wave_size() - 1) & ~(size() - 1); }
#if !defined(__HIP__)
  static ECMV_GPU_DEVICE uint32_t members() {
    return size() == 32 ? 0xFFFFFFFFu : ((1u << (size() & 31)) - 1) << first_in_wave();
  }
#endif
};

using Wave = Lanes<kWholeWave>;

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

#endif  // !ECMV_GPU_EMULATOR
