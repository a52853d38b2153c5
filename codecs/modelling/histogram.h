// Histogram of int8 elements, the order-0 statistics every model here starts from. The index is value + 128, so that
// index order is the order of the values.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace ecmv::codecs::modelling {

using Histogram = std::array<uint64_t, 256>;

// How often each value occurs; element v counts in bin v + 128.
Histogram histogram(std::span<const int8_t> elements);

}  // namespace ecmv::codecs::modelling
