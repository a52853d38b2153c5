// See gpu_buffer.h.
#include "backends/gpu/host/gpu_buffer.h"

#include <random>
#include <vector>

namespace ecmv::backends::ECMV_GPU_NAMESPACE {
namespace {

// The pattern differs from process to process, so no kernel writes it by chance.
std::vector<std::byte> guard_pattern(int64_t bytes) {
  static const unsigned seed = std::random_device{}();
  std::minstd_rand random(seed);
  std::vector<std::byte> zone(static_cast<size_t>(bytes));
  for (std::byte& byte : zone) byte = static_cast<std::byte>(random() >> 8);
  return zone;
}

bool zone_intact(const std::byte* device, int64_t bytes) {
  std::vector<std::byte> zone(static_cast<size_t>(bytes));
  copy_out(zone.data(), device, bytes);
  return zone == guard_pattern(bytes);
}

}  // namespace

GpuBuffer::GpuBuffer(int64_t bytes, const std::string& name) : bytes_(bytes) {
  block_ = allocate(kGuardBytes + bytes_ + back_guard_bytes());
  const std::vector<std::byte> front = guard_pattern(kGuardBytes), back = guard_pattern(back_guard_bytes());
  copy_in(block_, front.data(), kGuardBytes);
  fill(data(), 0, bytes_);
  copy_in(data() + bytes_, back.data(), back_guard_bytes());
  name_range(data(), bytes_, name);
}

GpuBuffer::~GpuBuffer() {
  if (block_ == nullptr) return;
  forget_range(data());
  release(block_);
}

bool GpuBuffer::guards_intact() const {
  return block_ == nullptr || (zone_intact(block_, kGuardBytes) && zone_intact(data() + bytes_, back_guard_bytes()));
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
