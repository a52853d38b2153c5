// ECMV_INLINE inlines a function into every caller whatever it costs, so that it is compiled for the caller's
// instruction set.
#pragma once

#define ECMV_INLINE inline __attribute__((always_inline))
