// Claims about histogram and normalise: known vectors, the limits, and optimality against exhaustive search.
#include "codecs/modelling/normalise.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "codecs/modelling/histogram.h"

namespace {

using ecmv::codecs::modelling::histogram;
using ecmv::codecs::modelling::normalise;
using Counts = std::vector<uint64_t>;
using Frequencies = std::vector<uint32_t>;

double cost_bits(const Counts& counts, const Frequencies& q, int bits) {
  double cost = 0;
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0) cost += static_cast<double>(counts[i]) * (bits - std::log2(q[i]));
  return cost;
}

// The least cost over all frequencies >= 1 with the sum 2^bits, by recursion over the symbols; all counts used.
double exhaustive_cost(const Counts& counts, int bits) {
  Frequencies q(counts.size(), 0);
  double best = INFINITY;
  const std::function<void(size_t, uint32_t)> place = [&](size_t i, uint32_t left) {
    if (i + 1 == counts.size()) {
      q[i] = left;
      best = std::min(best, cost_bits(counts, q, bits));
      return;
    }
    for (uint32_t f = 1; f + (counts.size() - i - 1) <= left; ++f) {
      q[i] = f;
      place(i + 1, left - f);
    }
  };
  place(0, uint32_t{1} << bits);
  return best;
}

}  // namespace

TEST_CASE("histogram_counts_every_value_in_its_bin") {
  std::vector<int8_t> elements;
  for (int value = -128; value < 128; ++value)
    for (int repeat = 0; repeat < (value + 128) % 7; ++repeat) elements.push_back(static_cast<int8_t>(value));
  const auto counts = histogram(elements);
  for (int bin = 0; bin < 256; ++bin) REQUIRE(counts[static_cast<size_t>(bin)] == static_cast<uint64_t>(bin % 7));
  CHECK(histogram({})[128] == 0);
}

TEST_CASE("normalise_gives_the_known_vectors") {
  CHECK(normalise(Counts{1000, 500, 250, 3, 1}, 8) == Frequencies{145, 73, 36, 1, 1});
  CHECK(normalise(Counts{5, 3, 1, 1}, 4) == Frequencies{7, 5, 2, 2});
  CHECK(normalise(Counts{90, 5, 3, 1, 1}, 3) == Frequencies{4, 1, 1, 1, 1});
}

TEST_CASE("normalise_gives_and_takes_at_the_lower_index_first") {
  CHECK(normalise(Counts{7, 7, 7}, 2) == Frequencies{2, 1, 1});
  CHECK(normalise(Counts{1, 1, 1, 1, 1}, 3) == Frequencies{1, 1, 2, 2, 2});
}

TEST_CASE("normalise_keeps_unused_symbols_at_zero_and_gives_a_lone_symbol_everything") {
  CHECK(normalise(Counts{0, 0, 0}, 8) == Frequencies{0, 0, 0});
  CHECK(normalise(Counts{}, 8).empty());
  CHECK(normalise(Counts{0, 9, 0}, 12) == Frequencies{0, 4096, 0});
  CHECK(normalise(Counts(256, 1), 8) == Frequencies(256, 1));
}

TEST_CASE("normalise_refuses_more_symbols_than_slots_and_impossible_sizes") {
  CHECK_THROWS_AS(normalise(Counts(129, 1), 7), std::invalid_argument);
  CHECK_THROWS_AS(normalise(Counts{1}, 0), std::invalid_argument);
  CHECK_THROWS_AS(normalise(Counts{1}, 31), std::invalid_argument);
}

TEST_CASE("normalise_handles_counts_near_the_limit_of_64_bits") {
  const uint64_t huge = uint64_t{1} << 61;
  CHECK(normalise(Counts{huge, huge, 1}, 16) == Frequencies{32767, 32768, 1});
}

TEST_CASE("normalise_is_as_good_as_exhaustive_search") {
  std::mt19937 random(5);
  for (int trial = 0; trial < 60; ++trial) {
    Counts counts(2 + random() % 3);
    for (uint64_t& count : counts) count = 1 + random() % (trial % 2 ? 10 : 3000);
    const int bits = 2 + static_cast<int>(random() % 4);
    const Frequencies q = normalise(counts, bits);
    CAPTURE(counts, bits, q);
    REQUIRE(std::accumulate(q.begin(), q.end(), 0u) == 1u << bits);
    REQUIRE(cost_bits(counts, q, bits) <= exhaustive_cost(counts, bits) + 1e-9);
  }
}

TEST_CASE("normalise_cannot_be_improved_by_moving_one_unit") {
  std::mt19937 random(6);
  for (int bits : {8, 12, 16}) {
    Counts counts(256);
    for (size_t i = 0; i < counts.size(); ++i)
      counts[i] = static_cast<uint64_t>(1e7 * std::exp(-0.5 * std::pow((static_cast<double>(i) - 128) / 9.0, 2))) +
                  random() % 2;
    const Frequencies q = normalise(counts, bits);
    REQUIRE(std::accumulate(q.begin(), q.end(), 0u) == 1u << bits);
    const double cost = cost_bits(counts, q, bits);
    for (size_t from = 0; from < 256; ++from)
      for (size_t to = 0; to < 256; ++to) {
        if (from == to || q[from] <= 1 || counts[to] == 0) continue;
        Frequencies moved = q;
        --moved[from];
        ++moved[to];
        REQUIRE(cost_bits(counts, moved, bits) >= cost - 1e-6 * cost);
      }
  }
}
