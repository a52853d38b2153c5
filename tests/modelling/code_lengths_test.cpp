// Package-merge against exhaustive search, against plain Huffman, and the canonical order.
#include "codecs/modelling/code_lengths.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

using ecmv::codecs::modelling::canonical_codes;
using ecmv::codecs::modelling::canonical_order;
using ecmv::codecs::modelling::coded_bits;
using ecmv::codecs::modelling::limited_code_lengths;

uint64_t kraft_sum(const std::vector<uint8_t>& lengths, int max_bits) {
  uint64_t sum = 0;
  for (const uint8_t length : lengths)
    if (length > 0) sum += uint64_t{1} << (max_bits - length);
  return sum;
}

// The fewest bits over all assignments of lengths 1..max_bits that satisfy Kraft's inequality.
uint64_t best_by_search(const std::vector<uint64_t>& counts, int max_bits) {
  uint64_t best = UINT64_MAX;
  std::function<void(size_t, uint64_t, uint64_t)> place = [&](size_t i, uint64_t room, uint64_t bits) {
    if (i == counts.size()) {
      best = std::min(best, bits);
      return;
    }
    for (int length = 1; length <= max_bits; ++length) {
      const uint64_t share = uint64_t{1} << (max_bits - length);
      if (share <= room) place(i + 1, room - share, bits + counts[i] * static_cast<uint64_t>(length));
    }
  };
  place(0, uint64_t{1} << max_bits, 0);
  return best;
}

// Bits of an unlimited Huffman code: the sum of all inner nodes.
uint64_t huffman_bits(const std::vector<uint64_t>& counts) {
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> nodes(counts.begin(), counts.end());
  uint64_t bits = 0;
  while (nodes.size() > 1) {
    const uint64_t a = nodes.top();
    nodes.pop();
    const uint64_t b = nodes.top();
    nodes.pop();
    bits += a + b;
    nodes.push(a + b);
  }
  return bits;
}

}  // namespace

TEST_CASE("limited code lengths cost as little as the best of all assignments") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const int max_bits = 2 + round % 4;
    const size_t symbols = 2 + random() % std::min<uint64_t>(5, (uint64_t{1} << max_bits) - 1);
    std::vector<uint64_t> counts(symbols);
    for (uint64_t& count : counts) count = 1 + (random() % 3 == 0 ? random() % 1000 : random() % 8);
    const auto lengths = limited_code_lengths(counts, max_bits);
    CHECK(kraft_sum(lengths, max_bits) == uint64_t{1} << max_bits);
    CHECK(coded_bits(counts, lengths) == best_by_search(counts, max_bits));
  }
}

TEST_CASE("a limit that does not bind gives Huffman's cost") {
  std::mt19937_64 random(8);
  for (int round = 0; round < 20; ++round) {
    std::vector<uint64_t> counts(200);
    for (uint64_t& count : counts) count = 1 + random() % 5000;
    CHECK(coded_bits(counts, limited_code_lengths(counts, 32)) == huffman_bits(counts));
  }
}

TEST_CASE("a limit is kept under Fibonacci counts") {
  std::vector<uint64_t> counts{1, 1};
  while (counts.size() < 70) counts.push_back(counts[counts.size() - 1] + counts[counts.size() - 2]);
  counts.resize(60);
  for (const int max_bits : {6, 8, 12, 16, 32}) {
    const auto lengths = limited_code_lengths(counts, max_bits);
    CHECK(*std::max_element(lengths.begin(), lengths.end()) <= max_bits);
    CHECK(kraft_sum(lengths, max_bits) == uint64_t{1} << max_bits);
  }
}

TEST_CASE("unused symbols get no code and a single symbol gets one bit") {
  CHECK(limited_code_lengths(std::vector<uint64_t>{0, 0}, 8) == std::vector<uint8_t>{0, 0});
  CHECK(limited_code_lengths(std::vector<uint64_t>{}, 8).empty());
  CHECK(limited_code_lengths(std::vector<uint64_t>{0, 9, 0}, 8) == std::vector<uint8_t>{0, 1, 0});
  CHECK(limited_code_lengths(std::vector<uint64_t>(256, 1), 8) == std::vector<uint8_t>(256, 8));
}

TEST_CASE("impossible limits are refused") {
  CHECK_THROWS_AS(limited_code_lengths(std::vector<uint64_t>(5, 1), 2), std::invalid_argument);
  CHECK_THROWS_AS(limited_code_lengths(std::vector<uint64_t>(5, 1), 0), std::invalid_argument);
  CHECK_THROWS_AS(limited_code_lengths(std::vector<uint64_t>(5, 1), 33), std::invalid_argument);
  CHECK_THROWS_AS(limited_code_lengths(std::vector<uint64_t>{UINT64_MAX, 1}, 8), std::invalid_argument);
}

TEST_CASE("canonical codes rise with length and index") {
  const std::vector<uint8_t> lengths{3, 1, 0, 3, 2};
  CHECK(canonical_order(lengths) == std::vector<uint32_t>{1, 4, 0, 3});
  CHECK(canonical_codes(lengths) == std::vector<uint32_t>{0b110, 0b0, 0, 0b111, 0b10});
  CHECK_THROWS_AS(canonical_codes(std::vector<uint8_t>{1, 1, 1}), std::invalid_argument);
  CHECK_THROWS_AS(canonical_codes(std::vector<uint8_t>{1, 2, 33}), std::invalid_argument);
}
