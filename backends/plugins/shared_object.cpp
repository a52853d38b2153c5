// See shared_object.h.
#include "backends/plugins/shared_object.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

std::string why_it_crashes(const std::filesystem::path& file) {
  constexpr unsigned kSeconds = 20;
  const pid_t child = fork();
  if (child < 0) return {};  // no process to spare; then it is loaded untried
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM}) ::signal(signal, SIG_DFL);
    if (const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0) {
      dup2(nowhere, STDOUT_FILENO);
      dup2(nowhere, STDERR_FILENO);
    }
    alarm(kSeconds);
    dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // if it refuses, it does so again
    ::_exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return {};
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return WIFEXITED(status) ? "ends the process that loads it."
                           : std::string("crashes the process that loads it (") + strsignal(WTERMSIG(status)) + ").";
}

}  // namespace ecmv::backends
