// A block is [zone 4096][data][zone 4096], with the data aligned to 64 bytes (to 2 MiB pages if large). With fences it
// is [no access 4096][zone 4096 and more][data][zone, less than 64][no access 4096].
#include "backends/cpu/guarded_buffer.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "backends/executor.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace ecmv::backends::cpu {
namespace {

constexpr int64_t kPageBytes = 4096;
constexpr int64_t kHugePageBytes = int64_t{2} << 20;

std::atomic<bool> fences = false;

// The content of zones differs from process to process, so no kernel writes it by chance.
const std::byte* zone_pattern() {
  static const auto pattern = [] {
    std::array<std::byte, 2 * kPageBytes> bytes;
    std::minstd_rand random(std::random_device{}());
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 8);
    return bytes;
  }();
  return pattern.data();
}

bool zone_intact(std::span<const std::byte> zone) {
  ASAN_UNPOISON_MEMORY_REGION(zone.data(), zone.size());
  const bool intact = std::memcmp(zone.data(), zone_pattern(), zone.size()) == 0;
  ASAN_POISON_MEMORY_REGION(zone.data(), zone.size());
  return intact;
}

void write_zone(std::span<std::byte> zone) {
  std::memcpy(zone.data(), zone_pattern(), zone.size());
  ASAN_POISON_MEMORY_REGION(zone.data(), zone.size());
}

int64_t rounded_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void GuardedBuffer::fence(bool on) { fences = on; }

std::span<std::byte> GuardedBuffer::front_zone() const { return {data_ - kPageBytes, static_cast<size_t>(kPageBytes)}; }
std::span<std::byte> GuardedBuffer::back_zone() const { return {data_ + bytes_, static_cast<size_t>(back_bytes_)}; }

GuardedBuffer::GuardedBuffer(int64_t bytes) : bytes_(bytes), fenced_(fences) {
  const auto full = [&] {
    return OutOfMemory("The host has no room for a buffer of " + std::to_string(bytes) + " bytes.");
  };
  if (fenced_) {
    const int64_t aligned = rounded_up(bytes, 64), inner = rounded_up(aligned + kPageBytes, kPageBytes);
    block_bytes_ = inner + 2 * kPageBytes;
    void* block = mmap(nullptr, static_cast<size_t>(block_bytes_), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) throw full();
    block_ = static_cast<std::byte*>(block);
    if (mprotect(block_ + kPageBytes, static_cast<size_t>(inner), PROT_READ | PROT_WRITE) != 0) {
      munmap(block, static_cast<size_t>(block_bytes_));
      throw full();
    }
    data_ = block_ + kPageBytes + inner - aligned;
    back_bytes_ = aligned - bytes;
  } else {
    const bool large = bytes >= kHugePageBytes;
    const int64_t alignment = large ? kHugePageBytes : kPageBytes;
    block_bytes_ = rounded_up(bytes + 2 * kPageBytes, alignment);
    block_ =
        static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(block_bytes_)));
    if (block_ == nullptr) throw full();
    if (large) madvise(block_, static_cast<size_t>(block_bytes_), MADV_HUGEPAGE);  // advice only: fewer TLB misses
    data_ = block_ + kPageBytes;
    back_bytes_ = kPageBytes;
    std::memset(data_, 0, static_cast<size_t>(bytes));
  }
  write_zone(front_zone());
  write_zone(back_zone());
}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(block_, other.block_);
  std::swap(block_bytes_, other.block_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(back_bytes_, other.back_bytes_);
  std::swap(fenced_, other.fenced_);
  std::swap(protection_, other.protection_);
  return *this;
}

GuardedBuffer::~GuardedBuffer() {
  if (block_ == nullptr) return;
  protection_.reset();
  ASAN_UNPOISON_MEMORY_REGION(front_zone().data(), front_zone().size());
  ASAN_UNPOISON_MEMORY_REGION(back_zone().data(), back_zone().size());
  if (fenced_)
    munmap(block_, static_cast<size_t>(block_bytes_));
  else
    std::free(block_);
}

void GuardedBuffer::protect() {
#if !defined(__SANITIZE_ADDRESS__)
  const int64_t fence = fenced_ ? kPageBytes : 0;
  protection_ = std::make_unique<WriteProtection>(block_ + fence, static_cast<size_t>(block_bytes_ - 2 * fence));
#endif
}

std::string_view GuardedBuffer::take_back_writes() const {
  const std::byte* const written = protection_ == nullptr ? nullptr : protection_->written();
  if (written == nullptr) return {};
  protection_->restore();
  return written >= data_ && written < data_ + bytes_ ? "to" : "outside";
}

bool GuardedBuffer::guards_intact() const {
  return block_ == nullptr || (zone_intact(front_zone()) && zone_intact(back_zone()));
}

}  // namespace ecmv::backends::cpu
