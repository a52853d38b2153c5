// GuardedBuffer: 64-byte aligned host memory between two guard zones with a known pattern. A kernel that writes outside
// its buffers breaks the pattern; under AddressSanitizer the zones are poisoned, so that reading them is caught too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ecmv::backends::cpu {

class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  // `bytes` >= 0, zero-initialised. The back guard begins with the byte past the last one. Throws OutOfMemory.
  explicit GuardedBuffer(int64_t bytes);
  GuardedBuffer(GuardedBuffer&&) noexcept = default;
  GuardedBuffer& operator=(GuardedBuffer&&) noexcept = default;
  ~GuardedBuffer();

  std::byte* data() const { return data_; }
  int64_t size() const { return bytes_; }
  std::span<std::byte> bytes() const { return {data_, static_cast<size_t>(bytes_)}; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  bool guards_intact() const;

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> block_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace ecmv::backends::cpu
