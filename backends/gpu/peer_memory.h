// Device memory that processes of other devices on the machine map into their own address space. Their kernels read and
// write it over the link between the devices.
#pragma once

#include <cstring>
#include <string>

#include "backends/gpu/gpu_api.h"

#if defined(ECMV_GPU_EMULATOR)
#include "backends/emulator/emulator_peer_memory.h"
#else

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

// Memory to share, zero at first. It stays until the process ends, since others may have it mapped.
class OfferedMemory {
 public:
  explicit OfferedMemory(int64_t bytes) {
    // Whole pages of the device are mapped, so nothing else may lie there.
    constexpr int64_t kPage = int64_t{2} << 20;
    bytes_ = (bytes + kPage - 1) / kPage * kPage;
#if defined(__HIP_PLATFORM_AMD__)
    // Ordinary device memory is coherent between devices only at the beginning and end of kernels.
    void* data = nullptr;
    check(hipExtMallocWithFlags(&data, static_cast<size_t>(bytes_), hipDeviceMallocFinegrained),
          "allocating memory for other devices");
    data_ = static_cast<std::byte*>(data);
#else
    data_ = allocate(bytes_);
#endif
    fill(data_, 0, bytes_);
  }
  std::byte* data() const { return data_; }
  // The name by which another process opens it.
  std::string name() const {
    ECMV_GPU_API(IpcMemHandle_t) handle;
    check(ECMV_GPU_API(IpcGetMemHandle)(&handle, data_), "offering memory to other devices");
    return {reinterpret_cast<const char*>(&handle), sizeof(handle)};
  }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

class MappedMemory {
 public:
  MappedMemory(const std::string& name, int64_t /*bytes*/) {
    ECMV_GPU_API(IpcMemHandle_t) handle;
    if (name.size() != sizeof(handle)) throw std::logic_error("The name of another device's memory has another size.");
    std::memcpy(&handle, name.data(), sizeof(handle));
    void* data = nullptr;
    check(ECMV_GPU_API(IpcOpenMemHandle)(&data, handle, ECMV_GPU_API(IpcMemLazyEnablePeerAccess)),
          "mapping the memory of another device");
    data_ = static_cast<std::byte*>(data);
  }
  MappedMemory(MappedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  MappedMemory& operator=(MappedMemory&&) = delete;
  ~MappedMemory() {
    if (data_ != nullptr) (void)ECMV_GPU_API(IpcCloseMemHandle)(data_);
  }
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

#endif  // !ECMV_GPU_EMULATOR
