// Records which bytes of the host are whose device memory; its pointer refuses to leave its buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace ecmv::backends::emulator {

struct MemoryRange {
  const std::byte* begin = nullptr;
  int64_t bytes = 0;
  std::string name;
  // Shared memory: for each 4 bytes, the number of asynchronous copies that no lane has waited for; nullptr elsewhere.
  const uint8_t* in_flight = nullptr;
};

// Allows accesses to [data, data + bytes) from now on, under this name in reports; forget_range() forbids them again.
void name_range(const std::byte* data, int64_t bytes, const std::string& name, const uint8_t* in_flight = nullptr);
void forget_range(const std::byte* data);
// The range that holds `address` or ends there; nullptr: not allocated.
const MemoryRange* find_range(const void* address);
// Ends the launch: `bytes` at `address` are not in `range` (nullptr: in none).
[[noreturn]] void refuse_access(const MemoryRange* range, const void* address, size_t bytes);
// Ends the launch: an asynchronous copy to these bytes is under way.
[[noreturn]] void refuse_in_flight(const MemoryRange* range, const void* address, size_t bytes);

template <typename T>
class CheckedPointer {
 public:
  CheckedPointer() = default;
  CheckedPointer(std::nullptr_t) {}
  CheckedPointer(T* address) : address_(address), range_(find_range(address)) {}
  CheckedPointer(T* address, const MemoryRange* range) : address_(address), range_(range) {}
  template <typename U>
  requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>) CheckedPointer(const CheckedPointer<U>& other)
      : address_(other.address()), range_(other.range()) {}

  T& operator*() const { return *checked(address_); }
  // The value, or `otherwise` where an asynchronous copy to it is under way.
  T value_or(T otherwise) const {
    check_bounds(address_);
    return is_in_flight(address_) ? otherwise : *address_;
  }
  T* operator->() const { return checked(address_); }
  T& operator[](int64_t i) const { return *checked(address_ + i); }
  CheckedPointer operator+(int64_t n) const { return {address_ + n, range_}; }
  CheckedPointer operator-(int64_t n) const { return {address_ - n, range_}; }
  int64_t operator-(const CheckedPointer& other) const { return address_ - other.address_; }
  CheckedPointer& operator+=(int64_t n) {
    address_ += n;
    return *this;
  }
  CheckedPointer& operator-=(int64_t n) {
    address_ -= n;
    return *this;
  }
  CheckedPointer& operator++() {
    ++address_;
    return *this;
  }
  CheckedPointer operator++(int) {
    CheckedPointer old = *this;
    ++address_;
    return old;
  }
  explicit operator bool() const { return address_ != nullptr; }
  friend bool operator==(const CheckedPointer& a, const CheckedPointer& b) { return a.address_ == b.address_; }
  friend auto operator<=>(const CheckedPointer& a, const CheckedPointer& b) { return a.address_ <=> b.address_; }

  T* address() const { return address_; }
  const MemoryRange* range() const { return range_; }

 private:
  // Devices also demand that an access is aligned to its size.
  void check_bounds(T* address) const {
    const auto* first = reinterpret_cast<const std::byte*>(address);
    if (range_ == nullptr || first < range_->begin || first + sizeof(T) > range_->begin + range_->bytes ||
        reinterpret_cast<uintptr_t>(address) % alignof(T) != 0)
      refuse_access(range_, address, sizeof(T));
  }
  bool is_in_flight(T* address) const {
    if (range_->in_flight == nullptr) return false;
    const auto offset = static_cast<size_t>(reinterpret_cast<const std::byte*>(address) - range_->begin);
    for (size_t word = offset / 4; word <= (offset + sizeof(T) - 1) / 4; ++word)
      if (range_->in_flight[word] != 0) return true;
    return false;
  }
  T* checked(T* address) const {
    check_bounds(address);
    if (is_in_flight(address)) refuse_in_flight(range_, address, sizeof(T));
    return address;
  }
  T* address_ = nullptr;
  const MemoryRange* range_ = nullptr;
};

}  // namespace ecmv::backends::emulator
