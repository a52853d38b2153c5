// Claims about the exact sampler: checked against a second implementation written from the definition alone.
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>

#include "datasets/sources/discrete_sampler.h"
#include "datasets/sources/distributions.h"
#include "tests/datasets/temporary_file.h"

using namespace ecmv::datasets;
using Catch::Matchers::WithinAbs;

namespace {

using Words = std::array<uint32_t, 4>;

// Philox4x32 with ten rounds, from its published definition.
Words philox(Words c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ key[0], uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ key[1], uint32_t(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c;
}

int8_t sample_by_definition(const CumulativeTable& upper, const RandomStream& stream, int64_t element) {
  const std::array<uint32_t, 2> key{uint32_t(stream.seed), uint32_t(stream.seed >> 32)};
  const auto block = [&](int64_t index, uint32_t further) {
    return philox({uint32_t(index), uint32_t(index >> 32), stream.layer, 2 * uint32_t(stream.purpose) + further}, key);
  };
  const uint32_t word = block(element / 8, 0)[size_t(element % 8 / 2)];
  const uint64_t first = element % 2 == 0 ? word & 0xFFFF : word >> 16;
  const uint64_t position = first << 32 | block(element / 4, 1)[size_t(element % 4)];
  int value = -128;
  while (position >= upper[size_t(value + 128)]) ++value;
  return int8_t(value);
}

}  // namespace

TEST_CASE("the generator of the tests gives the published Philox answers") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
}

TEST_CASE("every element is where its 48 random bits fall in the cumulative table") {
  const CumulativeTable tables[] = {
      gaussian_table(4),         gaussian_table(0.3),  gaussian_table(60),        laplace_table(3),
      uniform_table(-128, 127),  uniform_table(-3, 3), uniform_table(-128, -128), two_symbols_table(5, -5, 1e-4),
      two_symbols_table(0, 1, 0)};
  for (const CumulativeTable& table : tables) {
    const DiscreteSampler sampler(table);
    const RandomStream stream{0x123456789ABCDEF0, 7, RandomStream::Purpose::initial_vector};
    const int64_t first = (int64_t{1} << 36) + 8;  // the block index needs more than 32 bits
    std::vector<int8_t> drawn(20'003);
    sampler.draw(stream, first, drawn);
    size_t wrong = 0;
    for (size_t i = 0; i < drawn.size(); ++i) {
      wrong += drawn[i] != sample_by_definition(table, stream, first + int64_t(i));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("any cut of a stream gives the same elements") {
  const DiscreteSampler sampler(gaussian_table(4));
  std::vector<int8_t> whole(50'000), parts(50'000);
  sampler.draw({3, 0}, 0, whole);
  for (size_t begin = 0, length = 8; begin < parts.size(); begin += length, length += 488) {
    sampler.draw({3, 0}, int64_t(begin), std::span(parts).subspan(begin, std::min(length, parts.size() - begin)));
  }
  CHECK(whole == parts);
}

TEST_CASE("the number of threads does not change a byte") {
  const DiscreteSampler sampler(gaussian_table(7.74));
  std::vector<int8_t> one(5'000'001), other(5'000'001);
  sampler.draw_parallel({9, 2}, one, 1);
  for (const int threads : {0, 2, 3, 16}) {
    std::fill(other.begin(), other.end(), int8_t{99});
    sampler.draw_parallel({9, 2}, other, threads);
    CHECK(one == other);
  }
}

TEST_CASE("drawing from a position that is no multiple of eight is refused") {
  const DiscreteSampler sampler(gaussian_table(4));
  std::vector<int8_t> out(8);
  REQUIRE_DATASET_ERROR(sampler.draw({1, 0}, 4, out), "multiple of 8");
  REQUIRE_DATASET_ERROR(sampler.draw({1, 0}, -8, out), "multiple of 8");
}

TEST_CASE("a malformed cumulative table is refused") {
  CumulativeTable falling = uniform_table(-128, 127);
  std::swap(falling[10], falling[11]);
  REQUIRE_DATASET_ERROR(DiscreteSampler(falling), "never fall");
  CumulativeTable short_of_one = uniform_table(-128, 127);
  short_of_one[255] -= 1;
  REQUIRE_DATASET_ERROR(DiscreteSampler(short_of_one), "2^48");
}

TEST_CASE("the tables agree with the mathematical library to three units of 2^-48") {
  for (const double sigma : {0.05, 0.5, 1.0, 4.0, 7.74, 30.0, 1000.0}) {
    const CumulativeTable table = gaussian_table(sigma);
    for (int v = -127; v < 127; ++v) {
      const double expected = 0.5 * std::erfc(-(v + 0.5) / sigma / std::sqrt(2.0)) * double(kProbabilityOne);
      CHECK_THAT(double(table[size_t(v + 128)]), WithinAbs(expected, 3.0));
    }
  }
  const CumulativeTable all = gaussian_table(2), clipped = gaussian_table(2, 7);
  for (int v = -128; v < 128; ++v)
    CHECK(clipped[size_t(v + 128)] == (v < -7 ? 0 : v < 7 ? all[size_t(v + 128)] : kProbabilityOne));
  for (const double scale : {0.05, 1.0, 20.0}) {
    const CumulativeTable table = laplace_table(scale);
    for (int v = 0; v < 127; ++v) {
      const double expected = (1 - 0.5 * std::exp(-(v + 0.5) / scale)) * double(kProbabilityOne);
      CHECK_THAT(double(table[size_t(v + 128)]), WithinAbs(expected, 3.0));
    }
  }
  for (const double bits : {-3.0, 0.0, 1.0, 4.5, 8.0})
    CHECK_THAT(exact_exp2(bits) / std::exp2(bits), WithinAbs(1, 1e-15));
}

TEST_CASE("the distributions have their known entropies") {
  CHECK_THAT(DiscreteSampler(gaussian_table(4)).entropy_bits(), WithinAbs(4.051, 5e-4));
  CHECK_THAT(DiscreteSampler(gaussian_table(7.74)).entropy_bits(), WithinAbs(5.000, 5e-4));
  CHECK_THAT(DiscreteSampler(uniform_table(-128, 127)).entropy_bits(), WithinAbs(8, 1e-12));
  CHECK_THAT(DiscreteSampler(uniform_table(-1, 1)).entropy_bits(), WithinAbs(std::log2(3.0), 1e-12));
  CHECK(DiscreteSampler(uniform_table(5, 5)).entropy_bits() == 0);
  CHECK_THAT(DiscreteSampler(two_symbols_table(0, 1, 0.25)).entropy_bits(), WithinAbs(0.8112781244591328, 1e-12));
}

TEST_CASE("drawn elements follow their distribution by chi-square") {
  const CumulativeTable tables[] = {gaussian_table(4), gaussian_table(16), laplace_table(6), uniform_table(-128, 127),
                                    two_symbols_table(-1, 1, 0.003)};
  for (const CumulativeTable& table : tables) {
    const DiscreteSampler sampler(table);
    std::vector<int8_t> drawn(4'000'000);
    sampler.draw_parallel({11, 0}, drawn);
    std::array<double, 256> counts{};
    for (const int8_t value : drawn) counts[size_t(value + 128)] += 1;
    double chi_square = 0, rare_expected = 0, rare_count = 0;
    int classes = 0;
    for (int value = -128; value < 128; ++value) {
      const double expected = sampler.probability(value) * double(drawn.size());
      const double count = counts[size_t(value + 128)];
      if (expected < 10) {
        rare_expected += expected;
        rare_count += count;
        continue;
      }
      ++classes;
      chi_square += (count - expected) * (count - expected) / expected;
    }
    // Mean k - 1, standard deviation sqrt(2 (k - 1)); the seed is fixed, so this holds always or never.
    CHECK(chi_square < classes - 1 + 5 * std::sqrt(2.0 * (classes - 1)));
    CHECK(rare_count <= rare_expected + 5 * std::sqrt(rare_expected));
  }
}
