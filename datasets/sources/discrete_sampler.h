// Exact sampling of bytes from a table of integer probabilities, for all synthetic sources. Element e of a stream is a
// pure function of (seed, stream, e): a counter-based generator (Philox4x32-10 of Random123; Salmon et al., SC 2011)
// gives 48 bits, and the element is where these bits fall in the cumulative table. So bytes depend neither on threads,
// nor on chunks, nor on the platform.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace ecmv::datasets {

// Probabilities are counted in units of 2^-48.
inline constexpr int kProbabilityBits = 48;
inline constexpr uint64_t kProbabilityOne = uint64_t{1} << kProbabilityBits;

// upper[v + 128] = P(element <= v) in units of 2^-48, for v = -128..127: never falling, ends in 2^48.
using CumulativeTable = std::array<uint64_t, 256>;

// Names one independent sequence of random numbers.
struct RandomStream {
  uint64_t seed = 0;
  uint32_t layer = 0;
  enum class Purpose : uint32_t { matrix = 0, initial_vector = 1 } purpose = Purpose::matrix;
};

class DiscreteSampler {
 public:
  explicit DiscreteSampler(const CumulativeTable& upper);  // throws DatasetError if the table is malformed

  // Writes elements first, first + 1, ... of the stream. `first` is a multiple of 8.
  void draw(const RandomStream& stream, int64_t first, std::span<int8_t> out) const;

  // Writes elements 0, 1, ..., cut into fixed chunks over `threads` threads (0: as many as the machine has).
  void draw_parallel(const RandomStream& stream, std::span<int8_t> out, int threads = 0) const;

  double probability(int value) const;  // of a value -128..127
  double entropy_bits() const;          // of the distribution itself: the ideal bits per element

 private:
  int8_t value_at(uint64_t position) const;  // position in [0, 2^48)

  CumulativeTable upper_;
  std::vector<int8_t> direct_;  // by the first 16 bits; undecided_ where these do not decide
  int8_t undecided_ = 0;        // the least likely value marks undecided entries
};

}  // namespace ecmv::datasets
