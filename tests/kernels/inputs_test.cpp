// A pass is bound once and multiplies one input after the other; its guards know the current input.
#include <algorithm>
#include <cstring>
#include <set>

#include "tests/kernels/places.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::tests;

namespace {

constexpr datasets::Shape kShape = {5, 7};

backends::CompressedMatrix stored(const datasets::Matrix& matrix) {
  backends::CompressedMatrix compressed;
  compressed.shape = matrix.shape;
  compressed.sections.push_back({"elements", backends::Role::payload, 64, matrix.elements});
  return compressed;
}

void copy_elements(const backends::CompressedView& view, std::span<std::byte> out) {
  std::memcpy(out.data(), view.sections[0].bytes.data(), out.size());
}

template <typename T>
std::vector<T> input(int64_t count, int first) {
  std::vector<T> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<T>((first + i * 3) % 11 - 5));
  return numbers;
}

// [tokens, rows]; small integers, so that float sums are exact too.
template <typename Sum, typename T>
std::vector<Sum> plain_product(const datasets::Matrix& matrix, const std::vector<T>& x) {
  const auto [rows, cols] = matrix.shape;
  std::vector<Sum> y;
  for (size_t token = 0; token < x.size() / static_cast<size_t>(cols); ++token)
    for (int64_t row = 0; row < rows; ++row) {
      Sum sum = 0;
      for (int64_t col = 0; col < cols; ++col)
        sum += static_cast<Sum>(matrix.view().i8()[static_cast<size_t>(row * cols + col)]) *
               static_cast<Sum>(x[token * static_cast<size_t>(cols) + static_cast<size_t>(col)]);
      y.push_back(sum);
    }
  return y;
}

template <typename T>
std::vector<T> copied(std::span<const T> results) {
  return {results.begin(), results.end()};
}

}  // namespace

TEST_CASE("a pass takes one input after the other") {
  const datasets::Matrix matrix = gaussian_matrix(kShape, 4), other = gaussian_matrix(kShape, 4, 2);
  for (auto& device : devices(Place::cpu, 2)) {
    const auto uploaded = device->upload(stored(matrix)), second = device->upload(stored(other));
    backends::PassPlan plan;
    plan.reference_decode = copy_elements;
    plan.layers = {uploaded.get(), second.get()};
    plan.chained = false;
    plan.inputs = {input<int8_t>(7, 0), input<int8_t>(7, 1)};
    plan.scales = {1, 1};
    const auto matvec = backends::prepare(*device, plan);
    plan.op = backends::Op::matmul;
    plan.batch = 3;
    plan.tokens = {input<float>(21, 0), input<float>(21, 1)};
    const auto matmul = backends::prepare(*device, plan);
    for (const int first : {2, 5, 2}) {
      const auto x = input<int8_t>(7, first);
      matvec->set_input(1, std::as_bytes(std::span(x)));
      matvec->run();
      CHECK(copied(matvec->accumulators(0)) == plain_product<int32_t>(matrix, plan.inputs[0]));
      CHECK(copied(matvec->accumulators(1)) == plain_product<int32_t>(other, x));
      CHECK(matvec->broken_guards() == "");
      const auto tokens = input<float>(21, first);
      matmul->set_input(0, std::as_bytes(std::span(tokens)));
      matmul->run();
      CHECK(copied(matmul->products(0)) == plain_product<float>(matrix, tokens));
      CHECK(copied(matmul->products(1)) == plain_product<float>(other, plan.tokens[1]));
      CHECK(matmul->broken_guards() == "");
    }
    const auto x = input<int8_t>(8, 0);
    CHECK_THROWS_AS(matvec->set_input(0, std::as_bytes(std::span(x))), std::invalid_argument);
    CHECK_THROWS_AS(matvec->set_input(2, std::as_bytes(std::span(x)).first(7)), std::invalid_argument);
    CHECK_THROWS_AS(matmul->set_input(0, std::as_bytes(std::span(x))), std::invalid_argument);
  }
}

TEST_CASE("only the first layer of a chain, and no decoding pass, has an input") {
  const datasets::Matrix matrix = gaussian_matrix({7, 7}, 4);
  for (auto& device : devices(Place::cpu, 1)) {
    const auto uploaded = device->upload(stored(matrix));
    backends::PassPlan plan;
    plan.reference_decode = copy_elements;
    plan.layers = {uploaded.get(), uploaded.get()};
    plan.inputs = {input<int8_t>(7, 0)};
    plan.scales = {1, 1};
    const auto chain = backends::prepare(*device, plan);
    const auto x = input<int8_t>(7, 4);
    chain->set_input(0, std::as_bytes(std::span(x)));
    chain->run();
    CHECK(copied(chain->accumulators(0)) == plain_product<int32_t>(matrix, x));
    CHECK_THROWS_AS(chain->set_input(1, std::as_bytes(std::span(x))), std::invalid_argument);
    plan.op = backends::Op::decode;
    CHECK_THROWS_AS(backends::prepare(*device, plan)->set_input(0, std::as_bytes(std::span(x))), std::invalid_argument);
  }
}

TEST_CASE("of many products a run brings a part to the host, which differs from round to round") {
  constexpr int kTokens = 16;
  const datasets::Matrix matrix = gaussian_matrix({20000, 7}, 4);
  for (auto& device : devices(Place::cpu, 2)) {
    const auto uploaded = device->upload(stored(matrix));
    backends::PassPlan plan;
    plan.reference_decode = copy_elements;
    plan.op = backends::Op::matmul;
    plan.layers = {uploaded.get()};
    plan.batch = kTokens;
    plan.tokens = {input<float>(7 * kTokens, 3)};
    const auto pass = backends::prepare(*device, plan);
    const std::vector<float> all = plain_product<float>(matrix, plan.tokens[0]);
    std::set<std::vector<float>> parts;
    for (int round = 0; round < 8; ++round) {
      pass->mark_outputs(round);
      pass->run();
      const auto* floats = reinterpret_cast<const float*>(pass->result().data());
      const std::vector<float> part(floats, floats + pass->result().size() / sizeof(float));
      CHECK(part.size() * sizeof(float) == size_t{1} << 20);
      CHECK(std::ranges::search(all, part).begin() != all.end());
      parts.insert(part);
    }
    CHECK(parts.size() > 1);
  }
}
