// Policies of rans_byte_planes on CPUs with SIMD.
#pragma once

#include "backends/kernel.h"

namespace ecmv::codecs::rans_byte_planes {

// From DRAM, prefetching 2 KiB ahead is worth much.
struct PrefetchPolicy : backends::Policy {
  int64_t bytes;  // ahead of the position in stream and raw bits
};
inline constexpr PrefetchPolicy kPrefetchPolicies[] = {
    {{"prefetch2k"}, 2048}, {{"prefetch4k"}, 4096}, {{"no_prefetch"}, 0}};

}  // namespace ecmv::codecs::rans_byte_planes
