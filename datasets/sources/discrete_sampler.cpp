// The sampler works in two stages. The first 16 bits of an element index a direct table. 32 further bits decide only if
// a threshold of the cumulative table lies inside that slot (at most 255 of 65536 slots; 36 for a Gaussian of sigma 4).
// Undecided slots hold the least likely value as a mark, so the filling loop has no branch, and a memchr over its
// output finds the open ones. The result is exactly the 48-bit sample.
#include "datasets/sources/discrete_sampler.h"

#include <Random123/philox.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "datasets/chunks.h"
#include "datasets/source.h"

namespace ecmv::datasets {
namespace {

constexpr int kFirstBits = 16;
constexpr int kFurtherBits = kProbabilityBits - kFirstBits;
constexpr int64_t kElementsPerBlock = 8;     // one Philox block is 128 bits: 8 elements of 16 bits
constexpr int64_t kFurtherPerBlock = 4;      // or the 32 further bits of 4 elements
constexpr int64_t kPieceElements = 4096;     // filled, then settled while still in the first-level cache
constexpr int64_t kChunkElements = 1 << 20;  // of one thread's turn

using Philox = r123::Philox4x32;

// The counter: block index (64 bits), layer, purpose, and whether the block serves first or further bits.
Philox::ctr_type random_block(const RandomStream& stream, int64_t block, bool further) {
  const Philox::key_type key{{uint32_t(stream.seed), uint32_t(stream.seed >> 32)}};
  const Philox::ctr_type counter{{uint32_t(block), uint32_t(uint64_t(block) >> 32), stream.layer,
                                  2 * uint32_t(stream.purpose) + (further ? 1u : 0u)}};
  return Philox()(counter, key);
}

// The two 16-bit halves of each word, low half first.
uint32_t first_bits(const Philox::ctr_type& words, int64_t element) {
  const uint32_t word = words[size_t(element % kElementsPerBlock) / 2];
  return element % 2 == 0 ? word & 0xFFFF : word >> 16;
}

}  // namespace

DiscreteSampler::DiscreteSampler(const CumulativeTable& upper) : upper_(upper), direct_(size_t{1} << kFirstBits) {
  if (!std::is_sorted(upper.begin(), upper.end()) || upper.back() != kProbabilityOne) {
    throw DatasetError("A cumulative table must never fall and must end in 2^48.");
  }
  uint64_t least = kProbabilityOne + 1;
  for (int value = -128; value < 128; ++value) {
    const size_t i = size_t(value + 128);
    const uint64_t weight = upper[i] - (i == 0 ? 0 : upper[i - 1]);
    if (weight < least) {
      least = weight;
      undecided_ = int8_t(value);
    }
  }
  for (uint64_t slot = 0; slot < direct_.size(); ++slot) {
    const uint64_t begin = slot << kFurtherBits;
    const int8_t low = value_at(begin);
    const int8_t high = value_at(begin + (uint64_t{1} << kFurtherBits) - 1);
    direct_[slot] = low == high ? low : undecided_;
  }
}

int8_t DiscreteSampler::value_at(uint64_t position) const {
  return int8_t(std::upper_bound(upper_.begin(), upper_.end(), position) - upper_.begin() - 128);
}

void DiscreteSampler::draw(const RandomStream& stream, int64_t first, std::span<int8_t> out) const {
  if (first < 0 || first % kElementsPerBlock != 0) {
    throw DatasetError("Elements are drawn from a position that is a multiple of 8, not from " + std::to_string(first) +
                       ".");
  }
  const int8_t* direct = direct_.data();
  for (int64_t done = 0; done < int64_t(out.size()); done += kPieceElements) {
    const int64_t begin = first + done;
    const auto piece = out.subspan(size_t(done), std::min(size_t(kPieceElements), out.size() - size_t(done)));
    int8_t* const data = piece.data();
    const int64_t n = int64_t(piece.size());

    int64_t i = 0;
    for (; i + kElementsPerBlock <= n; i += kElementsPerBlock) {
      const auto words = random_block(stream, (begin + i) / kElementsPerBlock, false);
      for (size_t w = 0; w < 4; ++w) {
        data[i + int64_t(2 * w)] = direct[words[w] & 0xFFFF];
        data[i + int64_t(2 * w) + 1] = direct[words[w] >> 16];
      }
    }
    if (i < n) {
      const auto words = random_block(stream, (begin + i) / kElementsPerBlock, false);
      for (; i < n; ++i) data[i] = direct[first_bits(words, begin + i)];
    }

    // A marked element may also be a decided one; settling it gives the same value again.
    for (int8_t* at = data; at < data + n; ++at) {
      at = static_cast<int8_t*>(std::memchr(at, undecided_, size_t(data + n - at)));
      if (at == nullptr) break;
      const int64_t element = begin + (at - data);
      const uint64_t head = first_bits(random_block(stream, element / kElementsPerBlock, false), element);
      const auto further = random_block(stream, element / kFurtherPerBlock, true);
      *at = value_at((head << kFurtherBits) | further[size_t(element % kFurtherPerBlock)]);
    }
  }
}

void DiscreteSampler::draw_parallel(const RandomStream& stream, std::span<int8_t> out, int threads) const {
  const int64_t n = int64_t(out.size());
  for_each_chunk((n + kChunkElements - 1) / kChunkElements, threads, [&](int64_t chunk) {
    const int64_t begin = chunk * kChunkElements;
    draw(stream, begin, out.subspan(size_t(begin), size_t(std::min(kChunkElements, n - begin))));
  });
}

double DiscreteSampler::probability(int value) const {
  const size_t i = size_t(value + 128);
  return double(upper_[i] - (i == 0 ? 0 : upper_[i - 1])) / double(kProbabilityOne);
}

double DiscreteSampler::entropy_bits() const {
  double bits = 0;
  for (int value = -128; value < 128; ++value) {
    const double p = probability(value);
    if (p > 0) bits -= p * std::log2(p);
  }
  return bits;
}

}  // namespace ecmv::datasets
