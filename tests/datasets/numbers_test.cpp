// Claims about the values of bit patterns.
#include <algorithm>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "datasets/numbers.h"
#include "datasets/source.h"

using namespace ecmv::datasets;

TEST_CASE("bit patterns have the values of their formats") {
  CHECK(bf16_value(0x3F80) == 1.0);
  CHECK(bf16_value(0xC040) == -3.0);
  CHECK(bf16_value(0x0001) == std::ldexp(1.0, -133));
  CHECK(std::isinf(bf16_value(0x7F80)));
  CHECK(std::isnan(bf16_value(0x7F81)));
  CHECK(f16_value(0x3C00) == 1.0);
  CHECK(f16_value(0xFBFF) == -65504.0);
  CHECK(f16_value(0x0001) == std::ldexp(1.0, -24));
  CHECK(f16_value(0xFC00) == -INFINITY);
  CHECK(std::isnan(f16_value(0x7C01)));
  CHECK(f8_e5m2_value(0x3C) == 1.0);
  CHECK(f8_e5m2_value(0x7B) == 57344.0);
  CHECK(f8_e5m2_value(0x01) == std::ldexp(1.0, -16));
  CHECK(std::isinf(f8_e5m2_value(0x7C)));
  CHECK(f8_e4m3_value(0x38) == 1.0);
  CHECK(f8_e4m3_value(0x7E) == 448.0);
  CHECK(f8_e4m3_value(0x01) == std::ldexp(1.0, -9));
  CHECK(std::isnan(f8_e4m3_value(0x7F)));
  CHECK(std::isnan(f8_e4m3_value(0xFF)));
}

TEST_CASE("every bf16 is its own nearest bf16, and what lies between goes to the nearer, or even, one") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double value = bf16_value(uint16_t(bits));
    if (std::isnan(value)) {
      CHECK(std::isnan(bf16_value(nearest_bf16(value))));
      continue;
    }
    if (nearest_bf16(value) != bits) FAIL(bits);
    if (std::isinf(value) || (bits & 0x7FFF) == 0x7F7F) continue;
    const double next = bf16_value(uint16_t(bits + 1)), middle = (value + next) / 2;
    if (nearest_bf16(middle) != bits + (bits & 1)) FAIL(bits);
    // One part in 2^50 beside the middle, which a float cannot distinguish from it.
    if (nearest_bf16(middle + (value - next) * 0x1p-30) != bits) FAIL(bits);
    if (nearest_bf16(middle + (next - value) * 0x1p-30) != bits + 1) FAIL(bits);
  }
  CHECK(nearest_bf16(1e300) == 0x7F80);
  CHECK(nearest_bf16(-1e300) == 0xFF80);
}

TEST_CASE("nearest_f8_e4m3 gives every value its own bits and the even one of two neighbours between them") {
  for (int bits = 0; bits < 256; ++bits) {
    const double value = f8_e4m3_value(static_cast<uint8_t>(bits));
    if (std::isnan(value)) {
      CHECK(std::isnan(f8_e4m3_value(nearest_f8_e4m3(value))));
      continue;
    }
    if (nearest_f8_e4m3(value) != bits) FAIL(bits);
    if ((bits & 0x7F) == 0x7E) continue;
    const double next = f8_e4m3_value(static_cast<uint8_t>(bits + 1)), middle = (value + next) / 2;
    if (nearest_f8_e4m3(middle) != bits + (bits & 1)) FAIL(bits);
    if (nearest_f8_e4m3(middle + (value - next) * 0x1p-30) != bits) FAIL(bits);
    if (nearest_f8_e4m3(middle + (next - value) * 0x1p-30) != bits + 1) FAIL(bits);
  }
  CHECK(nearest_f8_e4m3(1e9) == 0x7E);
  CHECK(nearest_f8_e4m3(-HUGE_VAL) == 0xFE);
}

TEST_CASE("nearest_f16 and nearest_f8_e5m2 give every value its own bits and the even one of two neighbours") {
  const auto check = [](int patterns, auto value_of, auto nearest) {
    for (int bits = 0; bits < patterns; ++bits) {
      const double value = value_of(bits);
      if (std::isnan(value)) {
        CHECK(std::isnan(value_of(nearest(value))));
        continue;
      }
      if (nearest(value) != bits) FAIL(bits);
      const double next = value_of((bits + 1) % patterns), middle = (value + next) / 2;
      if (!std::isfinite(middle)) continue;
      if (nearest(middle) != bits + (bits & 1)) FAIL(bits);
      if (nearest(middle + (value - next) * 0x1p-30) != bits) FAIL(bits);
      if (nearest(middle + (next - value) * 0x1p-30) != bits + 1) FAIL(bits);
    }
  };
  check(
      65536, [](int bits) { return f16_value(static_cast<uint16_t>(bits)); }, nearest_f16);
  check(
      256, [](int bits) { return f8_e5m2_value(static_cast<uint8_t>(bits)); }, nearest_f8_e5m2);
  CHECK(nearest_f16(65519) == 0x7BFF);
  CHECK(nearest_f16(-65520) == 0xFC00);
  CHECK(nearest_f16(1e300) == 0x7C00);
  CHECK(nearest_f8_e5m2(61439) == 0x7B);
  CHECK(nearest_f8_e5m2(-61440) == 0xFC);
}

TEST_CASE("gaussian_floats makes every type of floats, with a small sigma subnormal ones") {
  struct Kind {
    const char* type;
    double sigma, least_normal;
  };
  for (const auto& [type, sigma, least_normal] :
       {Kind{"bf16", 1e-38, 0x1p-126}, Kind{"f16", 5e-5, 0x1p-14}, Kind{"f32", 1e-38, 0x1p-126},
        Kind{"f64", 2e-308, 0x1p-1022}, Kind{"f8_e5m2", 5e-5, 0x1p-14}, Kind{"f8_e4m3", 0.01, 0x1p-6}}) {
    INFO(type);
    const Dataset dataset = find_source("gaussian_floats")
                                ->load({.shape = {64, 64}, .numbers = {{"sigma", sigma}}, .texts = {{"type", type}}});
    const Matrix& matrix = dataset.layers.at(0);
    CHECK(element_type_name(matrix.type) == type);
    std::vector<double> numbers(64 * 64);
    read_numbers(matrix.view(), 0, numbers);
    const auto subnormal =
        std::ranges::count_if(numbers, [&](double x) { return x != 0 && std::fabs(x) < least_normal; });
    CHECK(subnormal > 64 * 64 / 3);
    CHECK(subnormal < 64 * 64);
  }
}

TEST_CASE("numbers are read from every element type") {
  const auto read = [](ElementType type, auto value) {
    std::vector<std::byte> bytes(2 * sizeof value);
    std::memcpy(bytes.data() + sizeof value, &value, sizeof value);
    double out = 0;
    read_numbers({{1, 2}, type, bytes}, 1, {&out, 1});
    return out;
  };
  CHECK(read(ElementType::i8, int8_t{-5}) == -5);
  CHECK(read(ElementType::u8, uint8_t{250}) == 250);
  CHECK(read(ElementType::bf16, uint16_t{0x3F80}) == 1);
  CHECK(read(ElementType::f16, uint16_t{0x3C00}) == 1);
  CHECK(read(ElementType::f32, 2.5f) == 2.5);
  CHECK(read(ElementType::f64, 1e-300) == 1e-300);
  CHECK(read(ElementType::i16, int16_t{-300}) == -300);
  CHECK(read(ElementType::u16, uint16_t{65535}) == 65535);
  CHECK(read(ElementType::i32, int32_t{-70000}) == -70000);
  CHECK(read(ElementType::u32, uint32_t{4000000000}) == 4e9);
  CHECK(read(ElementType::i64, int64_t{-1} << 40) == -std::ldexp(1.0, 40));
  CHECK(read(ElementType::u64, uint64_t{1} << 63) == std::ldexp(1.0, 63));
  CHECK(read(ElementType::f8_e5m2, uint8_t{0x3C}) == 1);
  CHECK(read(ElementType::f8_e4m3, uint8_t{0x38}) == 1);
}
