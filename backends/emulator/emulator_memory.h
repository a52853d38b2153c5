// The emulator's half of backends/gpu/memory.h: pointers that are checked at every access.
#pragma once

#include "backends/emulator/checked_memory.h"
#include "backends/emulator/emulator_launch.h"

namespace ecmv::backends::emulator {

struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};

template <typename T>
using Pointer = CheckedPointer<T>;

template <typename To, typename From>
Pointer<To> cast(CheckedPointer<From> pointer) {
  return {reinterpret_cast<To*>(pointer.address()), pointer.range()};
}
template <typename To, typename From>
Pointer<To> cast(From* pointer) {
  return CheckedPointer<To>(reinterpret_cast<To*>(pointer));
}

inline Pointer<std::byte> shared_memory() { return CheckedPointer<std::byte>(shared_data()); }

template <typename T>
std::remove_const_t<T> load_streaming(CheckedPointer<T> pointer) {
  return *pointer;
}
template <typename T>
std::remove_const_t<T> load_streaming_here(CheckedPointer<T> pointer) {
  return *pointer;
}
inline constexpr bool kMovesLoads = false;
template <typename T>
std::remove_const_t<T> load_streaming_before_sync(CheckedPointer<T> pointer) {
  return *pointer;
}
template <typename T>
std::remove_const_t<T> load_shared_by_many(CheckedPointer<T> pointer) {
  return *pointer;
}

// Lanes never run at the same time.
template <typename T>
T atomic_add(CheckedPointer<T> pointer, T value) {
  const T old = *pointer;
  *pointer = old + value;
  return old;
}

}  // namespace ecmv::backends::emulator
