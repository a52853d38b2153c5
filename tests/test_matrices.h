// Matrices for every codec and kernel: degenerate shapes, lengths around lane counts and blocks, and the distributions
// that break models. Deterministic, and small enough for every kernel x policy x instruction set.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "datasets/matrix.h"
#include "datasets/numbers.h"

namespace ecmv::tests {

// 64-bit SplitMix: tests need no better generator.
struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // A sum of 12 uniforms is near enough to a normal variate.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }
};

inline datasets::Matrix make_matrix(std::string name, datasets::Shape shape,
                                    const std::function<int(int64_t)>& element) {
  datasets::Matrix matrix;
  matrix.name = std::move(name);
  matrix.shape = shape;
  for (int64_t i = 0; i < shape.elements(); ++i)
    matrix.elements.push_back(static_cast<std::byte>(static_cast<int8_t>(element(i))));
  matrix.content_hash = datasets::content_hash(matrix.view());
  return matrix;
}

inline datasets::Matrix gaussian_matrix(datasets::Shape shape, double sigma, uint64_t seed = 1) {
  Random random{seed};
  return make_matrix("gaussian_" + std::to_string(sigma), shape, [&](int64_t) {
    return static_cast<int>(std::max(-127.0, std::min(127.0, std::nearbyint(sigma * random.normal()))));
  });
}

// Shapes without elements, single rows and columns, and lengths around 32, 64, 128, 512 and 1024.
inline std::vector<datasets::Shape> odd_shapes() {
  return {{0, 0},  {0, 5},  {5, 0},   {1, 1},   {1, 2},    {2, 1},    {1, 31},  {1, 33},  {1, 64},   {1, 513}, {300, 1},
          {3, 63}, {5, 65}, {33, 31}, {7, 127}, {31, 129}, {32, 128}, {64, 64}, {2, 511}, {3, 1024}, {9, 1025}};
}

// Shapes that the layouts of the paper accept too (columns divisible by 512, rows by 32).
inline std::vector<datasets::Shape> even_shapes() { return {{32, 512}, {64, 1024}}; }

// Distributions at one shape.
inline std::vector<datasets::Matrix> distributions(datasets::Shape shape) {
  std::vector<datasets::Matrix> out;
  Random random{7};
  const auto add = [&](const char* name, const std::function<int(int64_t)>& element) {
    out.push_back(make_matrix(name, shape, element));
  };
  add("all_zero", [](int64_t) { return 0; });
  add("all_minimum", [](int64_t) { return -128; });
  add("all_maximum", [](int64_t) { return 127; });
  add("two_extremes", [&](int64_t) { return random.next() & 1 ? 127 : -128; });
  add("rare_symbol", [&](int64_t i) { return i == shape.elements() / 2 ? 100 : -3; });
  add("uniform_256", [&](int64_t) { return static_cast<int>(random.next() & 255) - 128; });
  add("every_value_in_turn", [](int64_t i) { return static_cast<int>(i & 255) - 128; });
  add("skewed", [&](int64_t) { return static_cast<int>(-std::log2(random.uniform() + 1e-9)); });
  add("two_scales", [&](int64_t) {
    return static_cast<int>(std::nearbyint((random.next() % 100 == 0 ? 30.0 : 1.0) * random.normal()));
  });
  for (double sigma : {0.3, 1.0, 4.0, 7.74, 16.0, 32.0}) out.push_back(gaussian_matrix(shape, sigma));
  return out;
}

// Everything: odd shapes with Gaussian data, all distributions at an odd and an even shape.
inline std::vector<datasets::Matrix> test_matrices() {
  std::vector<datasets::Matrix> out;
  for (const datasets::Shape shape : odd_shapes()) out.push_back(gaussian_matrix(shape, 4));
  for (const datasets::Shape shape : even_shapes()) out.push_back(gaussian_matrix(shape, 4));
  for (datasets::Matrix& matrix : distributions({33, 331})) out.push_back(std::move(matrix));
  for (datasets::Matrix& matrix : distributions({64, 512})) out.push_back(std::move(matrix));
  return out;
}

// A matrix of any element type; `bits` gives the bit pattern of each element.
inline datasets::Matrix make_typed_matrix(std::string name, datasets::ElementType type, datasets::Shape shape,
                                          const std::function<uint64_t(int64_t)>& bits) {
  datasets::Matrix matrix;
  matrix.name = std::move(name);
  matrix.shape = shape;
  matrix.type = type;
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const uint64_t pattern = bits(i);
    for (int64_t byte = 0; byte < datasets::element_bytes(type); ++byte)
      matrix.elements.push_back(static_cast<std::byte>(pattern >> (8 * byte)));
  }
  matrix.content_hash = datasets::content_hash(matrix.view());
  return matrix;
}

// Weights of N(0, sigma^2) as bf16.
inline datasets::Matrix bf16_matrix(datasets::Shape shape, double sigma = 0.02, uint64_t seed = 1) {
  Random random{seed};
  return make_typed_matrix("bf16_gaussian", datasets::ElementType::bf16, shape,
                           [&](int64_t) { return datasets::nearest_bf16(sigma * random.normal()); });
}

// Weights of N(0, sigma^2) as f8 (e4m3).
inline datasets::Matrix f8_matrix(datasets::Shape shape, double sigma = 100, uint64_t seed = 1) {
  Random random{seed};
  return make_typed_matrix("f8_gaussian", datasets::ElementType::f8_e4m3, shape,
                           [&](int64_t) { return datasets::nearest_f8_e4m3(sigma * random.normal()); });
}

// -1, 0 and 1, half of them 0, with long runs of 0; or only 0 and 1.
inline datasets::Matrix ternary_matrix(datasets::Shape shape, bool binary = false) {
  Random random{9};
  return make_matrix(binary ? "binary" : "ternary", shape, [&](int64_t i) {
    const uint64_t draw = random.next() % 4;
    return i / 64 % 3 == 0 || draw < 2 ? 0 : draw == 2 || binary ? 1 : -1;
  });
}

// One element nearly everywhere, whose probability models round to 1, and few others: in int8, bf16 and f8.
inline std::vector<datasets::Matrix> nearly_constant(datasets::Shape shape) {
  using enum datasets::ElementType;
  const auto is_rare = [&](int64_t i) { return (i * 7919 + 13) % 4999 == 0 || i == shape.elements() - 1; };
  return {make_matrix("nearly_constant", shape, [&](int64_t i) { return is_rare(i) ? 100 : -3; }),
          make_typed_matrix("nearly_constant_bf16", bf16, shape,
                            [&](int64_t i) -> uint64_t { return is_rare(i) ? 0xC2F7 : 0x3C9A; }),
          make_typed_matrix("nearly_constant_f8", f8_e4m3, shape,
                            [&](int64_t i) -> uint64_t { return is_rare(i) ? 0xF3 : 0x21; })};
}

// Every element type but int8: all bit patterns of the 16-bit types (NaN, infinities and subnormal numbers included),
// weights or small integers at an odd shape and one element.
inline std::vector<datasets::Matrix> typed_matrices() {
  using enum datasets::ElementType;
  std::vector<datasets::Matrix> out = {bf16_matrix({33, 331}), bf16_matrix({64, 512}), bf16_matrix({1, 1}),
                                       bf16_matrix({0, 5}), bf16_matrix({300, 1})};
  for (const auto type : {bf16, f16, i16, u16})
    out.push_back(make_typed_matrix("all_patterns_" + std::string(element_type_name(type)), type, {256, 256},
                                    [](int64_t i) { return i; }));
  out.push_back(make_typed_matrix("all_patterns_f8_e4m3", f8_e4m3, {32, 96}, [](int64_t i) { return i * 93; }));
  out.push_back(make_typed_matrix("zeros_bf16", bf16, {16, 64}, [](int64_t) { return 0; }));
  Random random{5};
  for (const auto type : {u8, f16, f32, f64, i16, u16, i32, u32, i64, u64, f8_e5m2, f8_e4m3})
    for (const datasets::Shape shape : {datasets::Shape{33, 331}, datasets::Shape{1, 1}})
      out.push_back(
          make_typed_matrix("small_" + std::string(element_type_name(type)), type, shape, [&](int64_t) -> uint64_t {
            const double weight = 0.02 * random.normal();
            switch (type) {
              case f32: return std::bit_cast<uint32_t>(static_cast<float>(weight));
              case f64: return std::bit_cast<uint64_t>(weight);
              case u8:
              case u16:
              case u32:
              case u64: return static_cast<uint64_t>(std::fabs(1000 * weight));
              case f16:
              case f8_e5m2:
              case f8_e4m3:  // a small exponent and any fraction
                return random.next() & (type == f16 ? 0x8FFF : 0x9F);
              default: return static_cast<uint64_t>(static_cast<int64_t>(1000 * weight));
            }
          }));
  for (const auto type : {f32, f64})  // of both signs, every ninth the least normal one
    out.push_back(make_typed_matrix("subnormal_" + std::string(element_type_name(type)), type, {33, 331},
                                    [&](int64_t i) -> uint64_t {
                                      const int fraction_bits = type == f32 ? 23 : 52, bits = type == f32 ? 32 : 64;
                                      const uint64_t least = uint64_t{1} << fraction_bits;
                                      const uint64_t magnitude = i % 9 == 0 ? least : random.next() % least;
                                      return static_cast<uint64_t>(i % 2) << (bits - 1) | magnitude;
                                    }));
  return out;
}

inline std::string describe(const datasets::Matrix& matrix) {
  return matrix.name + " " + std::to_string(matrix.shape.rows) + "x" + std::to_string(matrix.shape.cols);
}

}  // namespace ecmv::tests
