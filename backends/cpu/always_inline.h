// ECMV_INLINE: inlined into every caller, and so compiled for the caller's instruction set, whatever the compiler
// thinks it costs.
#pragma once

#define ECMV_INLINE inline __attribute__((always_inline))
