// GuardedBuffer: 64-byte aligned host memory between two guard zones of a page each. A kernel that writes outside its
// buffers changes the zones, whose bytes differ in every process. AddressSanitizer also catches reads, since the zones
// are poisoned; fences catch them without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "backends/cpu/foreign/write_protection.h"

namespace ecmv::backends::cpu {

class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  // `bytes` >= 0, zero-initialised. The back guard begins with the byte past the last one. Throws OutOfMemory.
  explicit GuardedBuffer(int64_t bytes);
  GuardedBuffer(GuardedBuffer&& other) noexcept { *this = std::move(other); }
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept;
  ~GuardedBuffer();
  // With fences, accessible memory ends with the buffer, rounded up to a multiple of 64 bytes, and a page without
  // access also lies before the front zone: touching either raises SIGSEGV. It holds for buffers made from now on. They
  // are slower to make.
  static void fence(bool on);

  std::byte* data() const { return data_; }
  int64_t size() const { return bytes_; }
  std::span<std::byte> bytes() const { return {data_, static_cast<size_t>(bytes_)}; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  bool guards_intact() const;

  // From now on nobody is to write here, until the buffer ends. (Under AddressSanitizer, which reads and writes itself,
  // nothing is protected.)
  void protect();
  // "": nobody wrote since. Otherwise "to" or "outside" the buffer; and what was written is taken back.
  std::string_view take_back_writes() const;

 private:
  std::span<std::byte> front_zone() const;
  std::span<std::byte> back_zone() const;
  std::byte* block_ = nullptr;  // all of it
  int64_t block_bytes_ = 0;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t back_bytes_ = 0;  // of the zone past the data
  bool fenced_ = false;
  std::unique_ptr<WriteProtection> protection_;
};

}  // namespace ecmv::backends::cpu
