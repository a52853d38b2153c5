// Device memory between two guard zones with a known pattern, registered by name with the emulator.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "backends/gpu/gpu_api.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

class GpuBuffer {
 public:
  GpuBuffer() = default;
  // `bytes` >= 0, zero-initialised, aligned to 256. The back guard begins with the byte after the last. `name`
  // completes "byte 7 of ..." in reports. Throws OutOfMemory.
  GpuBuffer(int64_t bytes, const std::string& name);
  GpuBuffer(GpuBuffer&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  GpuBuffer& operator=(GpuBuffer&& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~GpuBuffer();

  std::byte* data() const { return block_ == nullptr ? nullptr : block_ + kGuardBytes; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }
  int64_t size() const { return bytes_; }
  // Copies [offset, offset + host.size()) to or from the host, and waits.
  void write(std::span<const std::byte> host, int64_t offset = 0) const {
    copy_in(data() + offset, host.data(), static_cast<int64_t>(host.size()));
  }
  void read(std::span<std::byte> host, int64_t offset = 0) const {
    copy_out(host.data(), data() + offset, static_cast<int64_t>(host.size()));
  }
  bool guards_intact() const;

 private:
  static constexpr int64_t kGuardBytes = 4096;
  // From the last byte to a multiple of 256, plus a page.
  int64_t back_guard_bytes() const { return (256 - bytes_ % 256) % 256 + kGuardBytes; }
  std::byte* block_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
