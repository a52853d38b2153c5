// Claims about the summaries of `ecmv inspect`.
#include <bit>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>

#include "datasets/inspect.h"
#include "datasets/safetensors.h"
#include "tests/datasets/temporary_file.h"

using namespace ecmv::datasets;
using namespace ecmv::tests;
using Catch::Matchers::WithinAbs;

namespace {

template <typename T>
TensorSummary summary_of(const char* dtype, const std::vector<T>& values) {
  return summarize({"t", dtype, {int64_t(values.size())}, std::as_bytes(std::span(values))});
}

}  // namespace

TEST_CASE("int8 tensors are summarised by spread, extremes and entropy") {
  const TensorSummary summary = summary_of<int8_t>("I8", {-3, 1, 1, 1});
  CHECK(summary.elements == 4);
  CHECK(summary.stored_bytes == 4);
  CHECK(summary.mean.value() == 0);
  CHECK_THAT(summary.sigma.value(), WithinAbs(std::sqrt(3.0), 1e-12));
  CHECK(summary.min.value() == -3);
  CHECK(summary.max.value() == 1);
  CHECK(summary.distinct_values.value() == 2);
  CHECK_THAT(summary.entropy_bits.value(), WithinAbs(0.8112781244591328, 1e-12));
  CHECK(summary.order0_bytes.value() == 1);
  CHECK(summary_of<uint8_t>("U8", {0, 255}).max.value() == 255);
}

TEST_CASE("entropy is that of each matrix, not of all of a tensor's matrices together") {
  // Two matrices of one value each: a model for each takes nothing, one for both a bit an element.
  const std::vector<int8_t> bytes = {5, 5, 5, 5, 9, 9, 9, 9};
  const TensorSummary two = summarize({"t", "I8", {2, 2, 2}, std::as_bytes(std::span(bytes))});
  CHECK(two.entropy_bits.value() == 0);
  CHECK(two.order0_bytes.value() == 0);
  CHECK(two.distinct_values.value() == 2);
  CHECK(two.mean.value() == 7);
  const TensorSummary one = summarize({"t", "I8", {4, 2}, std::as_bytes(std::span(bytes))});
  CHECK(one.entropy_bits.value() == 1);
  CHECK(one.order0_bytes.value() == 1);
  const std::vector<float> floats = {1, 1, 2, 2};
  const TensorSummary exponents = summarize({"t", "F32", {2, 1, 2}, std::as_bytes(std::span(floats))});
  CHECK(exponents.exponent_entropy_bits.value() == 0);
  CHECK(exponents.distinct_exponents.value() == 2);
}

TEST_CASE("floats are summarised without entropy, and infinities and NaN are counted apart") {
  const TensorSummary f32 = summary_of<float>("F32", {1.5f, -1.5f, INFINITY, NAN});
  CHECK(f32.sigma.value() == 1.5);
  CHECK(f32.min.value() == -1.5);
  CHECK(f32.not_finite == 2);
  CHECK(!f32.entropy_bits);
  const TensorSummary bf16 = summary_of<uint16_t>("BF16", {0x3FC0, 0xBFC0, 0x7F80});
  CHECK(bf16.sigma.value() == 1.5);
  CHECK(bf16.not_finite == 1);
  CHECK(bf16.distinct_exponents.value() == 2);
  CHECK(std::abs(bf16.exponent_entropy_bits.value() - (-2.0 / 3 * std::log2(2.0 / 3) - 1.0 / 3 * std::log2(1.0 / 3))) <
        1e-12);
  CHECK(!bf16.entropy_bits);
  const TensorSummary f16 = summary_of<uint16_t>("F16", {0x3E00, 0xBE00, 0x7C00, 0x7E01});
  CHECK(f16.max.value() == 1.5);
  CHECK(f16.sigma.value() == 1.5);
  CHECK(f16.not_finite == 2);
  CHECK(f16.exponent_entropy_bits.value() == 1);
  const TensorSummary tiny = summary_of<uint16_t>("F16", {0x0001, 0x7BFF});
  CHECK(tiny.min.value() == std::ldexp(1.0, -24));
  CHECK(tiny.max.value() == 65504);
  CHECK(summary_of<double>("F64", {1e10 + 1, 1e10 - 1}).sigma.value() == 1);
  CHECK(summary_of<double>("F64", {1, 2, 4, 8}).exponent_entropy_bits.value() == 2);
  CHECK(summary_of<float>("F32", {1, -1}).distinct_exponents.value() == 1);
  CHECK(summary_of<int64_t>("I64", {-5, 5}).sigma.value() == 5);
  CHECK(!summary_of<int64_t>("I64", {-5, 5}).distinct_exponents);
}

TEST_CASE("types without a numeric reading are summarised by their bytes only") {
  const TensorSummary f8 = summary_of<uint8_t>("F8_E4M3", {1, 2, 3, 4});
  CHECK(!f8.sigma);
  CHECK(f8.entropy_bits.value() == 2);
  CHECK(f8.order0_bytes.value() == 1);
  const TensorSummary f4 = summary_of<uint8_t>("F4", {1, 2, 3});
  CHECK(f4.elements == 6);
  CHECK(!f4.entropy_bits);
}

TEST_CASE("an empty tensor is summarised without numbers") {
  const TensorSummary empty = summary_of<int8_t>("I8", {});
  CHECK(empty.elements == 0);
  CHECK(!empty.sigma);
  CHECK(empty.entropy_bits.value() == 0);
  CHECK(empty.order0_bytes.value() == 0);
}

TEST_CASE("files are inspected by content, and others are refused") {
  const std::vector<std::byte> data(8);
  const TemporaryFile container(
      write_safetensors(std::vector<TensorView>{{"w", "I8", {2, 4}, data}, {"s", "F32", {2}, data}}));
  const auto summaries = inspect_file(container.path());
  REQUIRE(summaries.size() == 2);
  CHECK(summaries[0].name == "w");
  CHECK(summaries[0].shape == std::vector<int64_t>{2, 4});
  CHECK(summaries[1].dtype == "F32");

  const TemporaryFile text(to_bytes("just a text, and a long one at that"));
  REQUIRE_DATASET_ERROR(inspect_file(text.path()), "neither safetensors nor npy");
  const TemporaryFile empty(std::vector<std::byte>{});
  REQUIRE_DATASET_ERROR(inspect_file(empty.path()), "neither safetensors nor npy");
}

TEST_CASE("the figures of a MatVANS bin are those computed independently from its bytes") {
  const std::string bin = ECMV_SOURCE_DIR "/../shared/data/matvans/w512_e5_uncompressed.bin";
  if (!std::filesystem::exists(bin)) SKIP("The MatVANS test data is not there.");
  const auto matvans = inspect_file(bin);
  REQUIRE(matvans.size() == 3);
  CHECK_THAT(matvans[0].entropy_bits.value(), WithinAbs(3.7922982923698845, 1e-12));
  CHECK_THAT(matvans[0].sigma.value(), WithinAbs(28.295571405513844, 1e-12));
  CHECK_THAT(matvans[0].mean.value(), WithinAbs(0.005279541015625, 1e-15));
  CHECK(matvans[2].name == "initial_vector");
}
