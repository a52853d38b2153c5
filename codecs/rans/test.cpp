// Claims about rans alone: how slots are dealt, exact bytes, stored size against the entropy, kernels over all lanes.
#include <algorithm>
#include <cmath>
#include <random>

#include "codecs/modelling/normalise.h"
#include "codecs/rans/format.h"
#include "codecs/rans/model.h"
#include "tests/int8_claims.h"

namespace {

using namespace ecmv;
using backends::CompressedMatrix;

const codecs::CodecEntry& rans() { return *codecs::find_codec("rans"); }

backends::Settings settings(const tests::Given& given) { return tests::settings_of(rans(), given); }

std::vector<int8_t> decoded(const CompressedMatrix& compressed) { return tests::decoded_int8(rans(), compressed); }

}  // namespace

TEST_CASE("rans_deals_every_rank_of_every_symbol_to_exactly_one_slot") {
  std::mt19937 random(3);
  for (int prob_bits : {7, 8, 10, 12, 16})
    for (int symbols : {1, 2, 63, 64, 65, 128, 129, 256}) {
      if (symbols > 1 << prob_bits) continue;
      CAPTURE(prob_bits, symbols);
      std::vector<int8_t> elements;
      for (int s = 0; s < symbols; ++s)
        elements.insert(elements.end(), 1 + random() % (s % 9 == 0 ? 500 : 20), static_cast<int8_t>(s - 128));
      const codecs::rans::Model model = codecs::rans::fit_model(elements, prob_bits);
      REQUIRE(model.symbols == symbols);
      std::vector<std::vector<int>> seen(256);
      for (int s = 0; s < symbols; ++s) seen[s].resize(model.frequency[s]);
      for (uint32_t slot = 0; slot < 1u << prob_bits; ++slot) {
        const codecs::rans::Slot dealt = codecs::rans::slot_of(model, slot);
        REQUIRE(dealt.rank < seen[dealt.symbol].size());
        ++seen[dealt.symbol][dealt.rank];
      }
      for (const auto& ranks : seen)
        REQUIRE(std::all_of(ranks.begin(), ranks.end(), [](int times) { return times == 1; }));
    }
}

TEST_CASE("rans_stores_these_exact_bytes") {
  // Two symbols, frequencies 192 and 64 of 256. Worked out by a separate program from the description of the format.
  const std::vector<int8_t> pattern = {0, 0, 0, 7, 0, 0, 7, 0, 0, 0, 0, 7, 0, 0, 7, 0};
  std::vector<int8_t> elements;
  for (int repeat = 0; repeat < 5; ++repeat) elements.insert(elements.end(), pattern.begin(), pattern.end());
  const auto compressed =
      encode_matrix(rans(), tests::int8_view(elements, 20, 4), settings({{"prob_bits", "8"}, {"lanes", "2"}}));
  const auto hex = [](std::span<const std::byte> bytes) {
    std::string text;
    for (std::byte byte : bytes) {
      text += "0123456789abcdef"[static_cast<int>(byte) >> 4];
      text += "0123456789abcdef"[static_cast<int>(byte) & 15];
    }
    return text;
  };
  CHECK(hex(compressed.sections[0].bytes) == "0007bf003f00");
  CHECK(hex(compressed.sections[1].bytes) ==
        "0000000000000000"
        "1000000000000000");
  CHECK(hex(compressed.sections[2].bytes).substr(0, 32) ==
        "655f0100855c0100"
        "839b6b51ed35bfb8");
  CHECK(compressed.sections[2].bytes.size() == 16 + codecs::rans::kPayloadPadding);
}

TEST_CASE("rans_stores_within_one_percent_of_the_entropy_everything_counted") {
  for (double sigma : {4.0, 7.74}) {
    const auto elements = tests::gaussian_int8(4096 * 4096, sigma, 11);
    const auto matrix = tests::int8_view(elements, 4096, 4096);
    const double entropy = datasets::entropy_bits_per_element(matrix);
    for (const char* state : {"w16s32", "w32s64", "w8s32"})
      for (const char* prob_bits : {"12", "14", "16"}) {
        const auto compressed = encode_matrix(rans(), matrix, settings({{"prob_bits", prob_bits}, {"state", state}}));
        const double bits = 8.0 * static_cast<double>(compressed.stored_bytes()) / static_cast<double>(elements.size());
        CAPTURE(sigma, state, prob_bits, entropy, bits);
        CHECK(bits < 1.01 * entropy);
        CHECK(bits > entropy);
      }
  }
}

TEST_CASE("rans_decode_refuses_a_stream_whose_words_were_changed") {
  const auto elements = tests::gaussian_int8(64 * 96, 4.0, 2);
  for (const char* state : {"w16s32", "w32s64", "w8s32"}) {
    auto compressed = encode_matrix(rans(), tests::int8_view(elements, 64, 96),
                                    settings({{"state", state}, {"block_elements", "1000"}}));
    REQUIRE((decoded(compressed) == elements));
    auto& payload = compressed.sections[codecs::rans::kPayload].bytes;
    for (size_t at :
         {size_t{0}, size_t{3}, size_t{300}, payload.size() - codecs::rans::kPayloadPadding - 1, payload.size() - 1}) {
      payload[at] ^= std::byte{0x41};
      CHECK_THROWS_AS(decoded(compressed), codecs::MalformedStream);
      payload[at] ^= std::byte{0x41};
    }
    payload.pop_back();
    CHECK_THROWS_AS(decoded(compressed), codecs::MalformedStream);
  }
}

TEST_CASE("rans_refuses_lanes_that_are_no_power_of_two_and_too_few_slots") {
  std::vector<int8_t> all(256);
  for (int i = 0; i < 256; ++i) all[i] = static_cast<int8_t>(i - 128);
  CHECK_FALSE(rans().codec->refuses(tests::int8_view(all, 16, 16), settings({{"lanes", "3"}})).empty());
  CHECK_FALSE(rans().codec->refuses(tests::int8_view(all, 16, 16), settings({{"prob_bits", "7"}})).empty());
  CHECK(rans().codec->refuses(tests::int8_view(all, 16, 16), settings({{"prob_bits", "8"}})).empty());
}

TEST_CASE("rans_kernels_equal_the_reference_for_all_lanes_forms_and_targets") {
  struct Input {
    int64_t rows, cols;
    double sigma;
  };
  for (const Input& input :
       {Input{37, 101, 4.0}, Input{9, 512, 14.0}, Input{300, 1, 4.0}, Input{1, 3000, 4.0}, Input{64, 64, 60.0},
        Input{5, 5, 0.001}, Input{0, 5, 4.0}, Input{5, 0, 4.0}, Input{1, 1, 4.0}}) {
    const auto elements = tests::gaussian_int8(input.rows * input.cols, input.sigma, 7);
    const auto matrix = tests::int8_view(elements, input.rows, input.cols);
    for (const char* state : {"w16s32", "w32s64", "w8s32"})
      for (const char* prob_bits : {"8", "12", "16"})
        for (const char* lanes : {"1", "2", "4", "8", "16", "32", "64"}) {
          const auto given =
              settings({{"state", state}, {"prob_bits", prob_bits}, {"lanes", lanes}, {"block_elements", "505"}});
          tests::claim_kernels_agree(rans(), encode_matrix(rans(), matrix, given), elements);
        }
  }
}

TEST_CASE("rans_counts_the_zeros_past_the_end_and_the_symbols_that_fill_last_steps_as_padding") {
  const auto padding = [](const std::vector<int8_t>& elements, int64_t rows, const tests::Given& given) {
    const int64_t cols = static_cast<int64_t>(elements.size()) / rows;
    return codecs::encode_matrix(rans(), tests::int8_view(elements, rows, cols), settings(given)).padding_bytes();
  };
  const std::map<std::string, std::string> block_a_row = {{"block_elements", "1"}};
  CHECK(padding(std::vector<int8_t>(33, 5), 1, {}) == 128);  // the only symbol costs nothing
  CHECK(padding({1, 2}, 1, {}) == 128 + 30 / 8);             // of 32 lanes 30 have a symbol of one bit to spare
  CHECK(padding({1, 2, 1, 2, 1, 2, 1, 2}, 4, block_a_row) == 128 + 4 * 30 / 8);
  CHECK(padding({1, 2, 1, 2}, 1, {{"lanes", "4"}}) == 128);
  CHECK(padding({}, 1, {}) == 0);
}
