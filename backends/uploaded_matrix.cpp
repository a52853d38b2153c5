// What is the same for uploaded matrices of all backends; plugins have their own copy of it.
#include <sys/mman.h>

#include "backends/backend.h"

namespace ecmv::backends {

void invert_bytes(std::span<std::byte> bytes, size_t first, size_t step) {
  for (size_t at = first; at < bytes.size(); at += step) bytes[at] = ~bytes[at];
}

// Sections of the host are protected against writes.
void UploadedMatrix::invert_payload(size_t first, size_t step) const {
  constexpr uintptr_t kPage = 4096;
  for (const SectionView& section : view().sections) {
    if (section.role != Role::payload || section.bytes.empty()) continue;
    auto* const bytes = const_cast<std::byte*>(section.bytes.data());
    const uintptr_t begin = reinterpret_cast<uintptr_t>(bytes) / kPage * kPage;
    mprotect(reinterpret_cast<void*>(begin), reinterpret_cast<uintptr_t>(bytes) + section.bytes.size() - begin,
             PROT_READ | PROT_WRITE);
    invert_bytes({bytes, section.bytes.size()}, first, step);
  }
}

}  // namespace ecmv::backends
