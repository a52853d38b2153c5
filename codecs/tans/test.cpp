// Claims about tans alone: known tables, exact bytes, stored size against the entropy, kernels over all lanes.
#include <algorithm>
#include <array>
#include <cmath>

#include "codecs/tans/format.h"
#include "codecs/tans/model.h"
#include "tests/int8_claims.h"

namespace {

using namespace ecmv;
using backends::CompressedMatrix;

const codecs::CodecEntry& tans() { return *codecs::find_codec("tans"); }

backends::Settings settings(const tests::Given& given) { return tests::settings_of(tans(), given); }

std::vector<int8_t> decoded(const CompressedMatrix& compressed) { return tests::decoded_int8(tans(), compressed); }

}  // namespace

TEST_CASE("tans_table_equals_the_known_one_for_16_states_and_the_step_spread") {
  codecs::tans::Model model;
  model.table_bits = 4;
  model.symbols = 3;
  for (int s = 0; s < 3; ++s) {
    model.value[s] = static_cast<uint16_t>(s);
    model.frequency[s] = static_cast<uint16_t>(std::array{10, 4, 2}[s]);
  }
  std::array<codecs::tans::Entry, 16> table;
  codecs::tans::build_table(model, false, table.data());
  const int symbols[] = {0, 0, 1, 2, 0, 0, 2, 0, 0, 1, 0, 0, 1, 0, 0, 1};
  const int bits[] = {1, 1, 2, 3, 1, 1, 3, 1, 1, 2, 0, 0, 2, 0, 0, 2};
  for (int slot = 0; slot < 16; ++slot) {
    CHECK((table[slot] & 0xFFFF) == static_cast<uint32_t>(symbols[slot]));
    CHECK(table[slot] >> 28 == static_cast<uint32_t>(bits[slot]));
  }
  // Decoding the symbols 0 1 0 2 from state 24 (slot 8) with the bits 1, 10, none, 000 ends in state 16.
  const auto next = [&](int slot, int taken) { return static_cast<int>(table[slot] >> 16 & 0xFFF) + taken; };
  CHECK(next(8, 1) == 15);
  CHECK(next(15, 2) == 14);
  CHECK(next(14, 0) == 3);
  CHECK(next(3, 0) == 0);
}

TEST_CASE("tans_spread_gives_every_symbol_its_slots") {
  for (bool even : {true, false})
    for (int bits : {8, 12}) {
      codecs::tans::Model model;
      model.table_bits = bits;
      model.symbols = 4;
      const int size = 1 << bits;
      const int frequencies[] = {1, size / 2, 7, size / 2 - 8};
      for (int s = 0; s < 4; ++s) model.frequency[s] = static_cast<uint16_t>(frequencies[s]);
      std::vector<uint16_t> symbol_of_slot(static_cast<size_t>(size));
      codecs::tans::spread_symbols(model, even, symbol_of_slot.data());
      for (int s = 0; s < 4; ++s) CHECK(std::count(symbol_of_slot.begin(), symbol_of_slot.end(), s) == frequencies[s]);
    }
}

TEST_CASE("tans_stores_these_exact_bytes") {
  // Two symbols, frequencies 192 and 64 of 256. Worked out by a separate program from the description of the format.
  const std::vector<int8_t> pattern = {0, 0, 0, 7, 0, 0, 7, 0, 0, 0, 0, 7, 0, 0, 7, 0};
  std::vector<int8_t> elements;
  for (int repeat = 0; repeat < 5; ++repeat) elements.insert(elements.end(), pattern.begin(), pattern.end());
  for (const auto& [spread, expected] : {std::pair<std::string, std::string>{"step", "7a006c004e9c803a7102761f"},
                                         {"even", "6000680053201e4de1602c35"}}) {
    const auto compressed = encode_matrix(tans(), tests::int8_view(elements, 20, 4),
                                          settings({{"table_bits", "8"}, {"lanes", "2"}, {"spread", spread}}));
    std::string hex;
    for (std::byte byte : compressed.sections[2].bytes) {
      hex += "0123456789abcdef"[static_cast<int>(byte) >> 4];
      hex += "0123456789abcdef"[static_cast<int>(byte) & 15];
    }
    CHECK(hex == expected + std::string(2 * codecs::tans::kPayloadPadding, '0'));
  }
}

TEST_CASE("tans_stores_within_one_and_a_half_percent_of_the_entropy_everything_counted") {
  for (double sigma : {4.0, 7.74}) {
    const auto elements = tests::gaussian_int8(4096 * 4096, sigma, 11);
    const auto matrix = tests::int8_view(elements, 4096, 4096);
    const double entropy = datasets::entropy_bits_per_element(matrix);
    for (const char* spread : {"even", "step"}) {
      const auto compressed = encode_matrix(tans(), matrix, settings({{"spread", spread}}));
      const double bits = 8.0 * static_cast<double>(compressed.stored_bytes()) / static_cast<double>(elements.size());
      CAPTURE(sigma, spread, entropy, bits);
      CHECK(bits < 1.015 * entropy);
      CHECK(bits > entropy);
    }
  }
}

TEST_CASE("tans_pairs_stay_exact_where_most_pairs_escape") {
  const auto elements = tests::gaussian_int8(200 * 333, 60.0, 4);
  const auto compressed = encode_matrix(tans(), tests::int8_view(elements, 200, 333),
                                        settings({{"symbols", "pairs"}, {"table_bits", "8"}}));
  CHECK((decoded(compressed) == elements));
  CHECK(compressed.stored_bytes() <= tans().codec->max_stored_bytes({200, 333}, compressed.settings));
}

TEST_CASE("tans_decode_refuses_a_stream_whose_bits_were_changed") {
  const auto elements = tests::gaussian_int8(64 * 96, 4.0, 2);
  for (const char* symbols : {"single", "pairs"}) {
    auto compressed = encode_matrix(tans(), tests::int8_view(elements, 64, 96),
                                    settings({{"symbols", symbols}, {"block_elements", "1000"}}));
    REQUIRE((decoded(compressed) == elements));
    auto& payload = compressed.sections[codecs::tans::kPayload].bytes;
    for (size_t at : {size_t{1}, payload.size() - codecs::tans::kPayloadPadding, payload.size() - 1}) {
      payload[at] ^= std::byte{0x41};
      CHECK_THROWS_AS(decoded(compressed), codecs::MalformedStream);
      payload[at] ^= std::byte{0x41};
    }
    payload.pop_back();
    CHECK_THROWS_AS(decoded(compressed), codecs::MalformedStream);
  }
}

TEST_CASE("tans_kernels_equal_the_reference_for_all_lanes_symbols_and_targets") {
  struct Input {
    int64_t rows, cols;
    double sigma;
  };
  for (const Input& input :
       {Input{37, 101, 4.0}, Input{9, 512, 14.0}, Input{300, 1, 4.0}, Input{1, 3000, 4.0}, Input{64, 64, 60.0},
        Input{5, 5, 0.001}, Input{0, 5, 4.0}, Input{5, 0, 4.0}, Input{1, 1, 4.0}}) {
    const auto elements = tests::gaussian_int8(input.rows * input.cols, input.sigma, 7);
    const auto matrix = tests::int8_view(elements, input.rows, input.cols);
    for (const char* symbols : {"single", "pairs"})
      for (const char* table_bits : {"8", "11", "12"})
        for (const char* lanes : {"1", "2", "4", "8", "16", "32", "64"}) {
          const auto given =
              settings({{"symbols", symbols}, {"table_bits", table_bits}, {"lanes", lanes}, {"block_elements", "505"}});
          tests::claim_kernels_agree(tans(), encode_matrix(tans(), matrix, given), elements);
        }
  }
}

TEST_CASE("tans_counts_the_zeros_past_the_end_the_bits_of_last_steps_and_parts_of_bytes_as_padding") {
  const auto padding = [](const std::vector<int8_t>& elements, int64_t rows, const tests::Given& given) {
    const int64_t cols = static_cast<int64_t>(elements.size()) / rows;
    return codecs::encode_matrix(tans(), tests::int8_view(elements, rows, cols), settings(given)).padding_bytes();
  };
  const std::vector<int8_t> two = {1, 2, 1, 2, 1, 2, 1, 2};  // a symbol takes one bit, of the last step always 0
  CHECK(padding(std::vector<int8_t>(33, 5), 1, {}) == 64);   // the only symbol takes no bits
  CHECK(padding({1, 2}, 1, {}) == 64 + 1);
  CHECK(padding(two, 1, {}) == 64 + 1);
  CHECK(padding(two, 4, {{"block_elements", "1"}}) == 64 + 4);
  CHECK(padding(two, 1, {{"lanes", "2"}}) == 64);                               // 2 bits of the last of 4 steps
  CHECK(padding(two, 4, {{"block_elements", "1"}, {"lanes", "2"}}) == 64 + 4);  // and 6 up to a byte
  // A pair without a code: the bits of the last step are zeros, but not its 16.
  CHECK(padding({1, 2}, 1, {{"symbols", "pairs"}, {"lanes", "1"}}) == 64);
  CHECK(padding({}, 1, {}) == 0);
}
