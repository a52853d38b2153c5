// Host memory as large as a matrix.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ecmv::datasets {

// Asks for huge pages where none of these bytes was written yet. The kernel clears a page when it is first written, and
// threads that encode at once wait for each other there. (Xeon, 16 cores, eight layers of
// Llama 3 8B: 16 to 20 of 76 s of the processors' time of encoding were the kernel's.)
inline void prefer_huge_pages(std::span<std::byte> bytes) {
  constexpr uintptr_t kPage = 4096, kWorthIt = uintptr_t{4} << 20;
  if (bytes.size() < kWorthIt) return;
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + kPage - 1) / kPage * kPage,
             end = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size()) / kPage * kPage;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // advice: it may be refused
}

// Bytes that are all written before they are read: nobody sets them to zero before.
class LargeBytes {
 public:
  explicit LargeBytes(size_t size) : bytes_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {
    prefer_huge_pages(all());
  }
  std::byte* data() { return bytes_.get(); }
  std::span<std::byte> all() { return {bytes_.get(), size_}; }
  std::span<const std::byte> all() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  size_t size_;
};

}  // namespace ecmv::datasets
