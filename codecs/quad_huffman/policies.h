// Policies of quad_huffman's kernels on CPUs.
#pragma once

#include "backends/kernel.h"

namespace ecmv::codecs::quad_huffman {

struct DecodePolicy : backends::Policy {
  bool past_caches;  // what is decoded is not read soon
};
inline constexpr DecodePolicy kDecodePolicies[] = {{{"past_caches"}, true}, {{"through_caches"}, false}};

}  // namespace ecmv::codecs::quad_huffman
