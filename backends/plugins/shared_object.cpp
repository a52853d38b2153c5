// See shared_object.h.
#include "backends/plugins/shared_object.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>

namespace ecmv::backends {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);

// The architecture of the program itself.
#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
constexpr int kMachine = EM_NONE;  // not known here: not compared
#endif
constexpr int kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;

// The end of `count` entries of `bytes` each from `begin` on; saturates.
uint64_t end_of(uint64_t begin, uint64_t count, uint64_t bytes) {
  uint64_t size = 0, end = 0;
  return __builtin_mul_overflow(count, bytes, &size) || __builtin_add_overflow(begin, size, &end) ? UINT64_MAX : end;
}

}  // namespace

std::string why_not_loadable(const std::filesystem::path& file) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(file, error);
  std::ifstream stream(file, std::ios::binary);
  if (error || !stream) return "cannot be read.";
  Header header{};
  stream.read(reinterpret_cast<char*>(&header), sizeof(header));
  if (static_cast<size_t>(stream.gcount()) < std::min<size_t>(sizeof(header), SELFMAG) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return "is no shared object.";
  const auto cut_short = [&](uint64_t needed) {
    return "is cut short: it has " + std::to_string(size) + " bytes, and its headers promise " +
           (needed == UINT64_MAX ? "more than there can be" : std::to_string(needed)) + ".";
  };
  if (!stream) return cut_short(sizeof(header));
  if (header.e_ident[EI_CLASS] != kClass || (kMachine != EM_NONE && header.e_machine != kMachine) ||
      header.e_type != ET_DYN || header.e_phentsize != sizeof(Segment))
    return "is no shared object for this machine.";
  uint64_t needed = std::max(end_of(header.e_phoff, header.e_phnum, header.e_phentsize),
                             end_of(header.e_shoff, header.e_shnum, header.e_shentsize));
  if (needed > size) return cut_short(needed);
  std::vector<Segment> segments(header.e_phnum);
  stream.seekg(static_cast<std::streamoff>(header.e_phoff));
  stream.read(reinterpret_cast<char*>(segments.data()),
              static_cast<std::streamsize>(segments.size() * sizeof(Segment)));
  if (!stream) return "cannot be read.";
  for (const Segment& segment : segments)
    if (segment.p_type != PT_NULL) needed = std::max(needed, end_of(segment.p_offset, segment.p_filesz, 1));
  return needed > size ? cut_short(needed) : "";
}

}  // namespace ecmv::backends
