// Normalisation: counts become integer frequencies with the sum 2^bits, as rANS and tANS need them. The result is the
// optimum: no other frequencies code these counts in fewer bits. All decisions are integer arithmetic, so every
// platform finds the same one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ecmv::codecs::modelling {

// Frequencies q with sum 2^bits, q >= 1 exactly where the count is not zero, that minimise sum count * log2(2^bits /
// q). Where equal steps compete, the lower index is given to or taken from first. No non-zero count gives all zeros.
// Throws std::invalid_argument if bits is not in 1..30 or if more than 2^bits counts are not zero; counts must add up
// to less than 2^63.
std::vector<uint32_t> normalise(std::span<const uint64_t> counts, int bits);

}  // namespace ecmv::codecs::modelling
