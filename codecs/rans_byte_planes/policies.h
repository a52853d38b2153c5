// Policies of rans_byte_planes on CPUs with SIMD.
#pragma once

#include "backends/kernel.h"

namespace ecmv::codecs::rans_byte_planes {

// How far ahead of the position in stream and raw bits is prefetched (from DRAM, 2 KiB are worth much), and which lanes
// share a register of new states (decode_rounds.inc): `halves` is for Intel, whose permutes have one port.
struct PlanesPolicy : backends::Policy {
  int64_t ahead;
  bool halves;
};
inline constexpr PlanesPolicy kPlanesPolicies[] = {{{"prefetch2k"}, 2048, false},
                                                   {{"prefetch4k"}, 4096, false},
                                                   {{"no_prefetch"}, 0, false},
                                                   {{"halves_prefetch2k"}, 2048, true},
                                                   {{"halves_prefetch4k"}, 4096, true}};

}  // namespace ecmv::codecs::rans_byte_planes
