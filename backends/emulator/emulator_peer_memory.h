// The emulator's half of backends/gpu/peer_memory.h: host memory with a descriptor, which another process of the same
// user opens through this process's number.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "backends/emulator/checked_memory.h"
#include "backends/emulator/emulator_api.h"

namespace ecmv::backends::emulator {

inline std::byte* map_descriptor(int descriptor, int64_t bytes) {
  void* data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED)
    throw OutOfMemory("The host has no room for " + std::to_string(bytes) + " bytes that emulated devices share.");
  return static_cast<std::byte*>(data);
}

class OfferedMemory {
 public:
  explicit OfferedMemory(int64_t bytes) : descriptor_(::memfd_create("ecmv", MFD_CLOEXEC)) {
    if (descriptor_ < 0 || ::ftruncate(descriptor_, bytes) != 0)
      throw std::runtime_error("The host gives no memory that processes could share.");
    data_ = map_descriptor(descriptor_, bytes);
    name_range(data_, bytes, "the memory that devices exchange vectors through");
  }
  OfferedMemory(const OfferedMemory&) = delete;
  std::byte* data() const { return data_; }
  std::string name() const { return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
  std::byte* data_ = nullptr;
};

class MappedMemory {
 public:
  MappedMemory(const std::string& name, int64_t bytes) : bytes_(bytes) {
    const int descriptor = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) throw std::runtime_error("The memory of another emulated device cannot be opened.");
    data_ = map_descriptor(descriptor, bytes);
    ::close(descriptor);
    name_range(data_, bytes, "the memory of another device");
  }
  MappedMemory(MappedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  MappedMemory& operator=(MappedMemory&&) = delete;
  ~MappedMemory() {
    if (data_ == nullptr) return;
    forget_range(data_);
    (void)::munmap(data_, static_cast<size_t>(bytes_));
  }
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_;
};

}  // namespace ecmv::backends::emulator
