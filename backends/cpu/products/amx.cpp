#include "backends/cpu/products/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ecmv::backends::cpu {

std::string why_no_bf16_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;         // of leaf 7, edx
  constexpr long kAskForFeature = 0x1023, kTileDataFeature = 18;  // ARCH_REQ_XCOMP_PERM, of Linux 5.16
  static const std::string reason = []() -> std::string {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBf16) == 0 || (d & kTiles) == 0)
      return "This CPU lacks AMX-BF16, which multiplies tiles of bf16.";
    if (syscall(SYS_arch_prctl, kAskForFeature, kTileDataFeature) != 0)
      return "The operating system does not let this process use the tiles of AMX (Linux does from 5.16 on).";
    return "";
  }();
  return reason;
#else
  return "AMX-BF16, which multiplies tiles of bf16, is of x86-64, and asked for as Linux wants it.";
#endif
}

}  // namespace ecmv::backends::cpu
