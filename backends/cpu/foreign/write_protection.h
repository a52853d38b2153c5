// Memory that foreign code may read and not write. A write is let through, so that no process ends, but it is noted and
// can be taken back: the one who wrote is known, and nobody else works with what was written.
#pragma once

#include <cstddef>
#include <memory>

namespace ecmv::backends::cpu {

class WriteProtection {
 public:
  // Protects whole pages of memory: `begin` and `bytes` are multiples of a page. Where the system refuses, nothing is
  // protected.
  WriteProtection(std::byte* begin, size_t bytes);
  // Makes them writable again.
  ~WriteProtection();
  WriteProtection(const WriteProtection&) = delete;
  // Makes the handler that lets writes through the process's. Protecting does it, too; code that keeps handlers as they
  // are calls it before.
  static void install();
  // The first address that was written to, or null.
  const std::byte* written() const;
  // Gives the pages back what they held before the write, and protects them again.
  void restore();

  struct Pages;

 private:
  std::unique_ptr<Pages> pages_;
};

}  // namespace ecmv::backends::cpu
