// The emulator's half of backends/gpu/lanes.h: every operation is one meeting of the group's lanes, named by the source
// line that called it.
#pragma once

#include <bit>
#include <cstring>
#include <type_traits>

#include "backends/emulator/block_runner.h"

namespace ecmv::backends::emulator {

inline constexpr int kWholeWave = 0;
inline constexpr int kLargestWave = 64;

template <int kLanes>
struct Lanes {
  static_assert(kLanes == kWholeWave || (kLanes >= 2 && kLanes <= 32 && (kLanes & (kLanes - 1)) == 0));
  using Mask = std::conditional_t<kLanes == kWholeWave, uint64_t, uint32_t>;

  static int size() { return kLanes == kWholeWave ? wave_size() : kLanes; }
  static int lane() { return thread_index() % size(); }
  static int group() { return thread_index() / size(); }

  static Mask ballot(bool value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return ballot_at("ballot", value, file, line);
  }
  static bool any(bool value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return ballot_at("any", value, file, line) != 0;
  }
  static bool all(bool value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return ballot_at("all", !value, file, line) == 0;
  }
  static int count_before(Mask mask) { return std::popcount(static_cast<Mask>(mask & ((Mask{1} << lane()) - 1))); }

  template <typename T>
  static T shuffle(T value, int source, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return exchange("shuffle", value, source & (size() - 1), file, line);
  }
  static uint32_t pick(uint32_t value, int source, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const uint64_t* met = meet({"pick", file, line, size()}, uint64_t{static_cast<uint32_t>(source)} << 32 | value);
    for (int i = 0; i < size(); ++i)
      if (met[i] >> 32 != static_cast<uint32_t>(source)) fault("the lanes of a group pick different lanes.");
    return static_cast<uint32_t>(met[source & (size() - 1)]);
  }
  static int32_t uniform(int32_t value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const uint64_t* met = meet({"uniform", file, line, size()}, bits_of(value));
    for (int i = 0; i < size(); ++i)
      if (met[i] != bits_of(value)) fault("a value that must be the same in all lanes of a group is not.");
    return value;
  }
  template <typename T>
  static T shuffle_xor(T value, int mask, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return exchange("shuffle_xor", value, lane() ^ mask, file, line);
  }
  template <typename T>
  static T shuffle_down(T value, int distance, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return exchange("shuffle_down", value, lane() + distance < size() ? lane() + distance : lane(), file, line);
  }
  template <typename T>
  static T shuffle_up(T value, int distance, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return exchange("shuffle_up", value, lane() >= distance ? lane() - distance : lane(), file, line);
  }

  static int32_t reduce_add(int32_t value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const uint64_t* met = meet({"reduce_add", file, line, size()}, bits_of(value));
    uint32_t sum = 0;
    for (int i = 0; i < size(); ++i) sum += static_cast<uint32_t>(met[i]);
    return static_cast<int32_t>(sum);
  }
  static int32_t reduce_max(int32_t value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const uint64_t* met = meet({"reduce_max", file, line, size()}, bits_of(value));
    for (int i = 0; i < size(); ++i)
      value = static_cast<int32_t>(met[i]) > value ? static_cast<int32_t>(met[i]) : value;
    return value;
  }
  template <typename T>
  static T prefix_add(T value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    const uint64_t* met = meet({"prefix_add", file, line, size()}, bits_of(value));
    std::make_unsigned_t<T> sum = 0;
    for (int i = 0; i < lane(); ++i) sum += static_cast<std::make_unsigned_t<T>>(met[i]);
    return static_cast<T>(sum);
  }
  static void sync(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    meet({"sync", file, line, size()}, 0);
  }

 private:
  template <typename T>
  static uint64_t bits_of(T value) {
    static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable_v<T>);
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
  }
  template <typename T>
  static T exchange(const char* operation, T value, int source, const char* file, int line) {
    const uint64_t* met = meet({operation, file, line, size()}, bits_of(value));
    std::memcpy(&value, &met[source], sizeof(T));
    return value;
  }
  static Mask ballot_at(const char* operation, bool value, const char* file, int line) {
    const uint64_t* met = meet({operation, file, line, size()}, value);
    Mask mask = 0;
    for (int i = 0; i < size(); ++i) mask |= static_cast<Mask>(met[i]) << i;
    return mask;
  }
};

using Wave = Lanes<kWholeWave>;

}  // namespace ecmv::backends::emulator
