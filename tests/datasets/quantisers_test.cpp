// Claims about quantisers: their elements and scales, the distance of their numbers from the weights, and their
// refusals.
#include <algorithm>
#include <bit>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "datasets/numbers.h"
#include "datasets/quantisers/quantisers.h"
#include "tests/datasets/temporary_file.h"

using namespace ecmv::datasets;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;

namespace {

Matrix floats(Shape shape, std::vector<float> numbers) {
  Matrix matrix{.name = "w", .shape = shape, .type = ElementType::f32, .elements = {}};
  matrix.elements.resize(numbers.size() * sizeof(float));
  if (!numbers.empty()) std::memcpy(matrix.elements.data(), numbers.data(), matrix.elements.size());
  return matrix;
}

Dataset dataset_of(Matrix matrix) { return {.layers = {std::move(matrix)}, .initial_vector = {}}; }

Dataset quantised(Matrix matrix, const QuantiserChoice& choice) {
  return quantise(dataset_of(std::move(matrix)), choice);
}

Dataset gaussian(Shape shape, double sigma = 0.02) {
  return load("gaussian_floats", {.shape = shape, .numbers = {{"sigma", sigma}}, .texts = {{"type", "f32"}}});
}

std::vector<int> integers(const Dataset& dataset) {
  const auto elements = dataset.layers[0].view().i8();
  return {elements.begin(), elements.end()};
}

std::vector<float> scales_of_row(const Dataset& dataset, int64_t row) {
  std::vector<float> scales(size_t(dataset.scales[0].groups));
  dataset.scales[0].of_row(row, scales);
  return scales;
}

Distortion distortion_of(const Dataset& dataset) {
  return distortion(dataset.sources[0].view(), dataset.layers[0].view(), dataset.scales[0]);
}

std::vector<QuantiserChoice> choices() {
  return {{"absmax", {{"bits", 8}}, {{"group", "tensor"}}},
          {"absmax", {{"bits", 8}}, {{"group", "row"}}},
          {"absmax", {{"bits", 4}}, {{"group", "32"}}},
          {"absmax", {{"bits", 4}}, {{"group", "128"}}},
          {"absmax", {{"bits", 12}}, {{"group", "tensor"}}},
          {"absmax", {{"bits", 16}}, {{"group", "64"}}},
          {"fp8", {}, {{"group", "tensor"}}},
          {"fp8", {}, {{"group", "row"}}},
          {"nvfp4"},
          {"mxfp4"},
          {"uniform", {{"step", 0.25}}},
          {"uniform", {{"entropy", 3}}, {{"group", "row"}}}};
}

}  // namespace

TEST_CASE("absmax makes the largest weight of a row the greatest integer, halves to even") {
  // The second row's scale is 254 / 127 = 2: 1 and 3 are halves.
  const Dataset dataset =
      quantised(floats({2, 4}, {127, -64, 0.4f, 0, 254, 1, 3, -5}), {"absmax", {}, {{"group", "row"}}});
  CHECK(integers(dataset) == std::vector<int>{127, -64, 0, 0, 127, 0, 2, -2});
  CHECK(scales_of_row(dataset, 0) == std::vector<float>{1});
  CHECK(scales_of_row(dataset, 1) == std::vector<float>{2});
  CHECK(dataset.scales[0].one_a_row());
  CHECK(dataset.scales[0].stored.size() == 2 * sizeof(uint16_t));
  CHECK(distortion_of(dataset).largest == 1);
}

TEST_CASE("absmax with 4 bits in groups gives each group its own scale, the last may be short") {
  std::vector<float> numbers(70, 0);
  numbers[0] = 7, numbers[31] = -3.4f, numbers[32] = 14, numbers[63] = -6, numbers[64] = 0.4375f, numbers[69] = -0.25f;
  const Dataset dataset = quantised(floats({1, 70}, numbers), {"absmax", {{"bits", 4}}, {{"group", "32"}}});
  CHECK(scales_of_row(dataset, 0) == std::vector<float>{1, 2, 0.0625f});
  const std::vector<int> got = integers(dataset);
  CHECK((got[0] == 7 && got[31] == -3 && got[32] == 7 && got[63] == -3 && got[64] == 7 && got[69] == -4));
  CHECK_FALSE(dataset.scales[0].one_a_row());
  CHECK(dataset.scales[0].stored.size() == 3 * sizeof(uint16_t));
}

TEST_CASE("absmax beyond 8 bits makes int16 and clips nothing") {
  for (const int bits : {9, 12, 16}) {
    const Dataset dataset = quantise(gaussian({64, 96}), {"absmax", {{"bits", double(bits)}}, {{"group", "row"}}});
    CHECK(dataset.layers[0].type == ElementType::i16);
    CHECK(dataset.layers[0].elements.size() == 2 * 64 * 96);
    const double greatest = double((1 << (bits - 1)) - 1);
    std::vector<double> weights(96), steps(96);
    for (int64_t row = 0; row < 64; ++row) {
      read_numbers(dataset.sources[0].view(), row * 96, weights);
      read_numbers(dataset.layers[0].view(), row * 96, steps);
      const double scale = scales_of_row(dataset, row)[0];
      double largest = 0;
      for (size_t c = 0; c < 96; ++c) {
        CHECK(std::fabs(weights[c] - steps[c] * scale) <= scale / 2);
        largest = std::max(largest, std::fabs(steps[c]));
      }
      CHECK(largest <= greatest);
      CHECK(largest >= greatest * (1 - 0x1p-7) - 1);
    }
  }
}

TEST_CASE("a tensor of one scale keeps every weight within half a step") {
  const Dataset dataset = quantise(gaussian({64, 96}), {"absmax", {{"bits", 8}}, {{"group", "tensor"}}});
  CHECK(dataset.scales[0].stored.size() == sizeof(uint16_t));
  const double step = scales_of_row(dataset, 63)[0];
  // The scale is the nearest bf16, so that the largest weight may lie 127 / 512 of a step beyond the last one.
  CHECK(distortion_of(dataset).largest <= 0.5 * step);
}

TEST_CASE("fp8 makes the largest weight 448") {
  const Dataset dataset = quantised(floats({2, 2}, {448, 1, -896, 30}), {"fp8", {}, {{"group", "row"}}});
  REQUIRE(dataset.layers[0].type == ElementType::f8_e4m3);
  const auto bits = dataset.layers[0].elements;
  CHECK(f8_e4m3_value(uint8_t(bits[0])) == 448);
  CHECK(f8_e4m3_value(uint8_t(bits[1])) == 1);
  CHECK(f8_e4m3_value(uint8_t(bits[2])) == -448);
  CHECK(f8_e4m3_value(uint8_t(bits[3])) == 15);
  CHECK(scales_of_row(dataset, 1) == std::vector<float>{2});
}

TEST_CASE("fp4 elements are twice the nearest e2m1, of two the even one") {
  // A power of two as the scale: 1, since the largest magnitude is 6.
  const Dataset dataset =
      quantised(floats({1, 12}, {6, 0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, -4.9f, -0.3f, 2.4f, 0}), {"mxfp4"});
  CHECK(integers(dataset) == std::vector<int>{12, 0, 2, 2, 4, 4, 8, 8, -8, -1, 4, 0});
  CHECK(scales_of_row(dataset, 0) == std::vector<float>{0.5f});
  CHECK(dataset.scales[0].stored.size() == 1);
  // Beyond 6 there is nothing: 7.9 has the exponent of 4.
  CHECK(integers(quantised(floats({1, 2}, {7.9f, 4}), {"mxfp4"})) == std::vector<int>{12, 8});
}

TEST_CASE("nvfp4 has e4m3 scales of blocks of 16 below one of the tensor") {
  std::vector<float> numbers(32, 0);
  numbers[0] = 6 * 448, numbers[1] = 448, numbers[16] = 6, numbers[17] = -3, numbers[18] = 1;
  const Dataset dataset = quantised(floats({1, 32}, numbers), {"nvfp4"});
  CHECK(scales_of_row(dataset, 0) == std::vector<float>{224, 0.5f});
  const std::vector<int> got = integers(dataset);
  CHECK((got[0] == 12 && got[1] == 2 && got[16] == 12 && got[17] == -6 && got[18] == 2));
  CHECK(dataset.scales[0].stored.size() == 2 + sizeof(float));
  CHECK(distortion_of(dataset).noise == 0);
}

TEST_CASE("a uniform step of a quarter sigma has the entropy and the noise of theory") {
  const Dataset dataset = quantise(gaussian({512, 512}), {"uniform", {{"step", 0.25}}});
  CHECK_THAT(entropy_bits_per_element(dataset.layers[0].view()), WithinAbs(2.047 + 2, 0.02));
  CHECK_THAT(distortion_of(dataset).snr_db(), WithinAbs(10 * std::log10(12 * 16), 0.05));
}

TEST_CASE("a uniform step for a target entropy has it, of tensors and of rows") {
  const double bits = GENERATE(1, 2.5, 4);
  const std::string group = GENERATE("tensor", "row");
  const Dataset dataset = quantise(gaussian({256, 512}), {"uniform", {{"entropy", bits}}, {{"group", group}}});
  CHECK_THAT(entropy_bits_per_element(dataset.layers[0].view()), WithinAbs(bits, 0.01));
  CHECK(dataset.scales[0].stored.size() == (group == "row" ? 256 : 1) * sizeof(uint16_t));
}

TEST_CASE("the step of a large matrix, found from some of its rows, gives the entropy of all") {
  const std::string group = GENERATE("tensor", "row");
  Matrix matrix = gaussian({2100, 2048}).layers[0];
  float* const numbers = reinterpret_cast<float*>(matrix.elements.data());
  for (size_t i = 0; i < 2100 * 2048; ++i) numbers[i] *= 1 + static_cast<float>(i / 2048) / 2100;
  const Dataset dataset = quantised(matrix, {"uniform", {{"entropy", 3.25}}, {{"group", group}}});
  CHECK_THAT(entropy_bits_per_element(dataset.layers[0].view()), WithinAbs(3.25, 0.006));
}

TEST_CASE("rows of very different size have steps of their own") {
  Matrix matrix = gaussian({2, 4096}).layers[0];
  for (size_t i = 0; i < 4096; ++i) {
    float number;
    std::memcpy(&number, &matrix.elements[4 * i], 4);
    number *= 1024;
    std::memcpy(&matrix.elements[4 * i], &number, 4);
  }
  const Dataset dataset = quantised(matrix, {"uniform", {{"step", 0.5}}, {{"group", "row"}}});
  CHECK_THAT(scales_of_row(dataset, 0)[0] / scales_of_row(dataset, 1)[0], WithinAbs(1024, 60));
}

TEST_CASE("a dead zone makes more zeros and moves nothing else") {
  const std::vector<int> plain = integers(quantise(gaussian({64, 64}), {"uniform", {{"step", 1}}})),
                         wide = integers(quantise(gaussian({64, 64}), {"uniform", {{"step", 1}, {"dead_zone", 0.8}}}));
  CHECK(std::ranges::count(wide, 0) > std::ranges::count(plain, 0));
  for (size_t i = 0; i < plain.size(); ++i)
    if (wide[i] != 0 && wide[i] != plain[i]) FAIL(i);
}

TEST_CASE("weights beyond 127 uniform steps become 127 steps, which the largest error shows") {
  std::vector<float> numbers(10000, 1);
  numbers[0] = 50;
  const Dataset dataset = quantised(floats({1, 10000}, numbers), {"uniform", {{"step", 0.25}}});
  CHECK(integers(dataset)[0] == 127);
  CHECK(distortion_of(dataset).largest > 10);
}

TEST_CASE("zeros stay zeros, and weights too small for any scale become zero") {
  for (const QuantiserChoice& choice : choices()) {
    if (choice.numbers.contains("entropy")) continue;
    INFO(choice.name());
    const Distortion zeros = distortion_of(quantised(floats({3, 40}, std::vector<float>(120)), choice));
    CHECK((zeros.noise == 0 && zeros.largest == 0));
    const Dataset small = quantised(floats({3, 40}, std::vector<float>(120, 0x1p-140f)), choice);
    CHECK(distortion_of(small).largest <= 0x1p-140);
  }
}

TEST_CASE("every number of a quantised matrix is exactly a float32") {
  for (const double sigma : {0.02, 1e-6, 1e6}) {
    for (const QuantiserChoice& choice : choices()) {
      INFO(choice.name());
      const Dataset dataset = quantise(gaussian({64, 200}, sigma), choice);
      std::vector<double> numbers(200);
      int rounded = 0;
      for (int64_t row = 0; row < 64; ++row) {
        read_row(dataset.layers[0].view(), dataset.scales[0], row, numbers);
        rounded += int(std::ranges::count_if(numbers, [](double v) { return double(float(v)) != v; }));
      }
      CHECK(rounded == 0);
    }
  }
}

TEST_CASE("finer groups and more bits lie nearer to the weights") {
  const auto snr = [](const QuantiserChoice& choice) {
    return distortion_of(quantise(load("llm_like", {.shape = {256, 1024}, .numbers = {}, .texts = {}}), choice))
        .snr_db();
  };
  const double tensor = snr({"absmax", {{"bits", 4}}, {{"group", "tensor"}}}),
               row = snr({"absmax", {{"bits", 4}}, {{"group", "row"}}}),
               wide = snr({"absmax", {{"bits", 4}}, {{"group", "128"}}}),
               narrow = snr({"absmax", {{"bits", 4}}, {{"group", "32"}}}), eight = snr({"absmax", {{"bits", 8}}});
  CHECK(tensor < row);
  CHECK(row < wide);
  CHECK(wide < narrow);
  CHECK(narrow < eight);
  CHECK(snr({"mxfp4"}) < snr({"nvfp4"}));
  CHECK(std::isinf(Distortion{.signal = 1}.snr_db()));
}

TEST_CASE("quantisers refuse what they cannot do, with a sentence") {
  const auto refuses = [](Matrix matrix, const std::string& why) {
    CHECK_THROWS_WITH(quantised(std::move(matrix), {"absmax"}), ContainsSubstring(why));
  };
  refuses(floats({1, 2}, {1, NAN}), "NaN or infinities");
  refuses(floats({1, 2}, {1, -INFINITY}), "NaN or infinities");
  refuses(floats({1, 2}, {1, 0x1p101f}), "beyond 2^100");
  refuses(floats({0, 2}, {}), "no elements");
  refuses(load("constant", {.shape = {2, 2}, .numbers = {}, .texts = {}}).layers[0], "only floats");
  CHECK_THROWS_WITH(quantised(floats({1, 4}, {1, 1, 1, 1}), {"uniform", {{"entropy", 3}}}),
                    ContainsSubstring("No step gives"));
}

TEST_CASE("parameters of quantisers are checked by name, range and choice") {
  const auto wrong = [](const QuantiserChoice& choice, const std::string& why) {
    CHECK_THROWS_WITH(check_quantiser(choice), ContainsSubstring(why));
  };
  wrong({"absmin"}, "There is no quantiser \"absmin\"; there are absmax, fp8,");
  wrong({"absmax", {{"bit", 4}}}, "The quantiser absmax has no parameter \"bit\"");
  wrong({"absmax", {{"bits", 17}}}, "at most 16");
  wrong({"absmax", {}, {{"group", "33"}}}, "one of tensor, row, 16, 32");
  wrong({"fp8", {}, {{"group", "32"}}}, "one of tensor, row, not \"32\"");
  wrong({"uniform"}, "exactly one of \"step\" and \"entropy\"");
  wrong({"uniform", {{"step", 1}}, {{"group", "128"}}}, "tensor or row");
  wrong({"nvfp4", {{"bits", 4}}}, "it has none");
}

TEST_CASE("the name of a quantiser has every parameter that decides") {
  CHECK(QuantiserChoice{"absmax", {{"bits", 4}}, {{"group", "128"}}}.name() == "absmax[bits=4,group=128]");
  CHECK(QuantiserChoice{"uniform", {{"entropy", 3.5}}}.name() == "uniform[entropy=3.5,group=tensor]");
  CHECK(QuantiserChoice{"uniform", {{"step", 1}, {"dead_zone", 0.6}}}.name() ==
        "uniform[step=1,dead_zone=0.6,group=tensor]");
  CHECK(QuantiserChoice{"absmax"}.name() == QuantiserChoice{"absmax", {{"bits", 8}}, {{"group", "row"}}}.name());
  CHECK(QuantiserChoice{"nvfp4"}.name() == "nvfp4");
  CHECK(group_cols({"absmax", {}, {{"group", "row"}}}) == 0);
  CHECK(group_cols({"absmax", {}, {{"group", "64"}}}) == 64);
  CHECK(group_cols({"mxfp4"}) == 32);
  CHECK(group_cols({"nvfp4"}) == 16);
  CHECK(group_cols({}) == 0);
}

TEST_CASE("the same weights give the same elements and scales on every platform") {
  std::vector<uint64_t> hashes;
  for (const QuantiserChoice& choice : choices()) {
    const Dataset dataset = quantise(load("llm_like", {.shape = {96, 300}, .numbers = {}, .texts = {}}), choice);
    const std::vector<std::byte>& scales = dataset.scales[0].stored;
    hashes.push_back(dataset.layers[0].content_hash ^
                     content_hash({{1, int64_t(scales.size())}, ElementType::u8, scales}));
  }
  CHECK(hashes == std::vector<uint64_t>{0x2b83b43896612d50, 0x7dd1f9dc398686da, 0x3228c73ae7631de6, 0x1466f5155c1a87fd,
                                        0xd4fe67e512fbc362, 0x0af687b73d1c2f9b, 0x71897d11716a66a9, 0x1839bb3e55ec0902,
                                        0x24fa83363e974dae, 0x844ee8dbdb62be4c, 0x078ce864e5ef7de1,
                                        0x6c0551e72784d7f4});
}
