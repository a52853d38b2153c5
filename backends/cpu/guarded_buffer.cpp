// Memory layout of a block: [front guard 256][data][back guard 256], the data aligned to 64 bytes (2 MiB pages for
// large ones).
#include "backends/cpu/guarded_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "backends/backend.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)0)
#endif

namespace ecmv::backends::cpu {
namespace {

constexpr int64_t kGuardBytes = 256;
constexpr int64_t kHugePageBytes = int64_t{2} << 20;

std::byte guard_pattern(int64_t i) { return static_cast<std::byte>(0xC3 ^ (i * 29)); }

bool zone_intact(const std::byte* zone) {
  for (int64_t i = 0; i < kGuardBytes; ++i)
    if (zone[i] != guard_pattern(i)) return false;
  return true;
}

void write_zone(std::byte* zone) {
  for (int64_t i = 0; i < kGuardBytes; ++i) zone[i] = guard_pattern(i);
}

}  // namespace

void GuardedBuffer::Free::operator()(std::byte* p) const { std::free(p); }

GuardedBuffer::GuardedBuffer(int64_t bytes) : bytes_(bytes) {
  const bool large = bytes >= kHugePageBytes;
  const int64_t alignment = large ? kHugePageBytes : 64;
  const int64_t total = (bytes + 2 * kGuardBytes + alignment - 1) / alignment * alignment;
  auto* block = static_cast<std::byte*>(std::aligned_alloc(alignment, total));
  if (block == nullptr) throw OutOfMemory("The host has no room for a buffer of " + std::to_string(bytes) + " bytes.");
  block_.reset(block);
  if (large) madvise(block, total, MADV_HUGEPAGE);  // advice only: fewer TLB misses where the kernel grants it
  data_ = block + kGuardBytes;
  write_zone(block);
  std::memset(data_, 0, bytes);
  write_zone(data_ + bytes);
  ASAN_POISON_MEMORY_REGION(block, kGuardBytes);
  ASAN_POISON_MEMORY_REGION(data_ + bytes, kGuardBytes);
}

GuardedBuffer::~GuardedBuffer() {
  if (!block_) return;
  ASAN_UNPOISON_MEMORY_REGION(block_.get(), bytes_ + 2 * kGuardBytes);
}

bool GuardedBuffer::guards_intact() const {
  if (!block_) return true;
  ASAN_UNPOISON_MEMORY_REGION(block_.get(), kGuardBytes);
  ASAN_UNPOISON_MEMORY_REGION(data_ + bytes_, kGuardBytes);
  const bool intact = zone_intact(block_.get()) && zone_intact(data_ + bytes_);
  ASAN_POISON_MEMORY_REGION(block_.get(), kGuardBytes);
  ASAN_POISON_MEMORY_REGION(data_ + bytes_, kGuardBytes);
  return intact;
}

}  // namespace ecmv::backends::cpu
