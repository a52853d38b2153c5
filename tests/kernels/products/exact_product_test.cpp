// Sums in double precision and their bounds (backends/exact_product.h), the reference for every float product.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "backends/exact_product.h"
#include "tests/kernels/places.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::tests;

TEST_CASE("exact products refuse what has no bound, and their check finds one wrong result") {
  using enum datasets::ElementType;
  Random random{17};
  std::vector<float> tokens;
  while (tokens.size() < 32) tokens.push_back(static_cast<float>(random.normal()));  // [2, 16]
  for (const uint64_t pattern : {0x7F80u, 0x7FC0u, 0x7F7Fu}) {  // infinity, NaN, the greatest number
    const datasets::Matrix matrix =
        make_typed_matrix("special", bf16, {4, 16}, [&](int64_t i) { return i == 37 ? pattern : 0x3F80; });
    CHECK(backends::exact_product(matrix.view(), tokens, 2)
              .refused.starts_with("The product of row 2 is not held to anything"));
  }
  for (const auto type : {f64, i32, u32, i64, u64})
    CHECK(backends::why_no_float_product({{1, 1}, type, {}}).find("float32 holds exactly") != std::string::npos);
  for (const auto type : {i8, u8, i16, u16, bf16, f16, f32, f8_e5m2, f8_e4m3})
    CHECK(backends::why_no_float_product({{1, 1}, type, {}}) == "");
  CHECK(backends::why_no_float_product({{1, int64_t{1} << 23}, i8, {}}) != "");

  const datasets::Matrix matrix = make_matrix("counting", {3, 16}, [](int64_t i) { return static_cast<int>(i) - 20; });
  const backends::ExactProduct exact = backends::exact_product(matrix.view(), tokens, 2);
  REQUIRE(exact.refused == "");
  std::vector<float> right(exact.sums.begin(), exact.sums.end());
  CHECK(backends::check_product(right, exact, {}).violation == "");
  CHECK(backends::check_product(right, exact, {}).used < 0.1);
  CHECK(backends::check_product(std::span(right).first(3), exact, {}).violation == "");  // the first token alone
  CHECK(backends::check_product(std::span(right).first(4), exact, {}).violation != "");
  for (const float wrong : {right[4] + 0.01f, std::nanf(""), INFINITY}) {
    std::vector<float> got = right;
    got[4] = wrong;
    const std::string violation = backends::check_product(got, exact, {}).violation;
    CHECK(violation.starts_with("row 1, token 1 is "));
    CHECK(violation.ends_with("(1 of 6 results are)"));
  }
  std::vector<float> scaled = right;
  for (float& value : scaled) value *= 1.0001f;
  CHECK(backends::check_product(scaled, exact, {}).violation != "");
  CHECK(backends::check_product(scaled, exact, {.more_roundings = 2000}).violation == "");
  CHECK(backends::check_product(scaled, exact, {.narrowing = 1e-4}).violation == "");
  CHECK(backends::check_product(right, exact, {.more_roundings = 1 << 24}).violation ==
        "the kernel's bound says nothing for so many roundings");
}

TEST_CASE("exact products with other numbers in some columns are those of the changed tokens") {
  Random random{5};
  std::vector<float> tokens, values;
  while (tokens.size() < 2 * 64) tokens.push_back(static_cast<float>(random.normal()));
  tokens[63] = 0;
  const std::vector<int64_t> columns = {0, 17, 63};
  while (values.size() < 2 * columns.size()) values.push_back(static_cast<float>(random.normal()));
  const datasets::Matrix matrix = gaussian_matrix({8, 64}, 4);
  backends::ExactProduct changed = backends::exact_product(matrix.view(), tokens, 2);
  backends::change_columns(changed, matrix.view(), tokens, columns, values);
  CHECK(tokens[63] == values[2]);
  CHECK(tokens[64 + 17] == values[4]);
  const backends::ExactProduct exact = backends::exact_product(matrix.view(), tokens, 2);
  const auto close = [](const std::vector<double>& one, const std::vector<double>& other) {
    return std::ranges::equal(one, other,
                              [](double a, double b) { return std::fabs(a - b) <= 1e-9 * (1 + std::fabs(b)); });
  };
  CHECK(close(changed.sums, exact.sums));
  CHECK(close(changed.magnitudes, exact.magnitudes));
  CHECK(close(changed.norms, exact.norms));
  CHECK(close(changed.x_magnitudes, exact.x_magnitudes));
  CHECK(changed.terms == exact.terms);
}

TEST_CASE("zeros are no product, however wide the bound") {
  Random random{3};
  std::vector<float> tokens;
  while (tokens.size() < 64) tokens.push_back(static_cast<float>(random.normal()));
  const datasets::Matrix matrix = gaussian_matrix({8, 64}, 4);
  const backends::ExactProduct exact = backends::exact_product(matrix.view(), tokens, 1);
  for (const backends::ProductRounding& rounding :
       {backends::ProductRounding{.narrowing = 1}, backends::ProductRounding{.more_roundings = 8'000'000},
        backends::ProductRounding{.offset = 1e300}}) {
    CHECK(backends::check_product(std::vector<float>(8), exact, rounding).violation ==
          "all results are zero, and those of the exact product are not");
    std::vector<float> half(exact.sums.begin(), exact.sums.end());
    for (float& sum : half) sum /= 2;
    CHECK(backends::check_product(half, exact, rounding).typical > 0.2);
  }
  const datasets::Matrix nothing = make_matrix("nothing", {8, 64}, [](int64_t) { return 0; });
  CHECK(backends::check_product(std::vector<float>(8), backends::exact_product(nothing.view(), tokens, 1), {})
            .violation == "");
}

TEST_CASE("the bound of kernels that take subnormal numbers as zero has room for that alone") {
  const datasets::Matrix matrix = make_typed_matrix("small", datasets::ElementType::bf16, {1, 2},
                                                    [](int64_t i) -> uint64_t { return i == 0 ? 0x3F80 : 0x0040; });
  const std::vector<float> token = {1, 1024};  // 1 + 2^-127 * 1024; 1 is lost with the token's first number
  const std::vector<float> small = {0, 1024};
  const std::vector<float> nothing = {0};
  const backends::ExactProduct exact = backends::exact_product(matrix.view(), small, 1);
  CHECK(backends::check_product(nothing, exact, {}).violation != "");
  CHECK(backends::check_product(nothing, exact, {.flushes_subnormals = true}).violation == "");
  CHECK(backends::check_product(nothing, backends::exact_product(matrix.view(), token, 1), {.flushes_subnormals = true})
            .violation != "");
  // A token's small number counts by the weight that it multiplies.
  const std::vector<float> subnormal = {0x1p-127f, 0};
  const datasets::Matrix large =
      make_typed_matrix("large", datasets::ElementType::bf16, {1, 2}, [](int64_t) -> uint64_t { return 0x4480; });
  CHECK(backends::check_product(nothing, backends::exact_product(large.view(), subnormal, 1),
                                {.flushes_subnormals = true})
            .violation == "");
}

TEST_CASE("a kernel that raises elements may get infinities from large ones, and from no others") {
  const std::vector<float> token = {1, 1}, infinite = {std::numeric_limits<float>::infinity()};
  for (const auto& [element, allowed] : {std::pair{0x7880, true}, {0x7800, false}}) {  // 2^114, 2^113
    const datasets::Matrix matrix =
        make_typed_matrix("large", datasets::ElementType::bf16, {1, 2},
                          [&](int64_t i) -> uint64_t { return i == 0 ? static_cast<uint64_t>(element) : 0; });
    const backends::ExactProduct exact = backends::exact_product(matrix.view(), token, 1);
    CHECK((backends::check_product(infinite, exact, {.raised = 13}).violation == "") == allowed);
    CHECK(backends::check_product(infinite, exact, {}).violation != "");
    CHECK(backends::check_product(std::vector<float>{0}, exact, {.raised = 13}).violation != "");
  }
}

TEST_CASE("the rounding of several ranks allows what each of theirs does") {
  const backends::ProductRounding floats{.more_roundings = 3, .offset = 0.5},
      units{.more_roundings = 2, .narrowing = 1e-3, .unit_cols = 8, .chain_cols = 64},
      longer{.more_roundings = 7, .unit_cols = 16, .chain_cols = 128, .flushes_subnormals = true};
  for (const backends::ProductRounding& one : {floats, units, longer})
    for (const backends::ProductRounding& other : {floats, units, longer}) {
      const backends::ProductRounding both = backends::looser_of(one, other);
      for (const int64_t terms : {1, 5, 64, 1000})
        for (const backends::ProductRounding& own : {one, other}) {
          CHECK(backends::roundings_of(both, terms) >= backends::roundings_of(own, terms));
          CHECK(backends::product_bound(both, terms, 3, 2, 1, 4) >= backends::product_bound(own, terms, 3, 2, 1, 4));
        }
    }
  CHECK(backends::roundings_of(backends::looser_of(units, units), 1000) == backends::roundings_of(units, 1000));
}
