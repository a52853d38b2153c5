// Claims about the summaries of `ecmv inspect`.
#include <algorithm>
#include <bit>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <map>

#include "datasets/files/safetensors.h"
#include "datasets/inspect.h"
#include "tests/datasets/temporary_file.h"
#include "tests/weight_files.h"

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
  std::vector<int8_t> bytes(32, 5);
  std::fill(bytes.begin() + 16, bytes.end(), int8_t{9});
  const TensorSummary two = summarize({"t", "I8", {2, 2, 8}, std::as_bytes(std::span(bytes))});
  CHECK(two.entropy_bits.value() == 0);
  CHECK(two.order0_bytes.value() == 0);
  CHECK(two.distinct_values.value() == 2);
  CHECK(two.mean.value() == 7);
  const TensorSummary one = summarize({"t", "I8", {4, 8}, std::as_bytes(std::span(bytes))});
  CHECK(one.entropy_bits.value() == 1);
  CHECK(one.order0_bytes.value() == 4);
  const std::vector<float> floats(bytes.begin(), bytes.end());
  const TensorSummary exponents = summarize({"t", "F32", {2, 2, 8}, std::as_bytes(std::span(floats))});
  CHECK(exponents.exponent_entropy_bits.value() == 0);
  CHECK(exponents.distinct_exponents.value() == 2);
}

TEST_CASE("floats of two bytes have an entropy, wider ones only of exponents; infinities and NaN are counted apart") {
  const TensorSummary f32 = summary_of<float>("F32", {1.5f, -1.5f, INFINITY, NAN});
  CHECK(f32.sigma.value() == 1.5);
  CHECK(f32.min.value() == -1.5);
  CHECK(f32.not_finite == 2);
  CHECK(!f32.entropy_bits);
  // Exponents 127, 127, 255, 255: one bit each, beside 24 of sign and fraction.
  CHECK(f32.exponent_entropy_bits.value() == 1);
  CHECK(f32.order0_bytes.value() == 13);
  const TensorSummary bf16 = summary_of<uint16_t>("BF16", {0x3FC0, 0xBFC0, 0x7F80});
  CHECK(bf16.sigma.value() == 1.5);
  CHECK(bf16.not_finite == 1);
  CHECK(bf16.distinct_exponents.value() == 2);
  CHECK(std::abs(bf16.exponent_entropy_bits.value() - (-2.0 / 3 * std::log2(2.0 / 3) - 1.0 / 3 * std::log2(1.0 / 3))) <
        1e-12);
  CHECK_THAT(bf16.entropy_bits.value(), WithinAbs(std::log2(3.0), 1e-12));
  CHECK(bf16.order0_bytes.value() == 1);
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

TEST_CASE("floats of 8 bits have moments, and their NaN and infinities are counted") {
  const TensorSummary f8 = summary_of<uint8_t>("F8_E4M3", {0x38, 0xB8, 0x40, 0xC0});  // 1, -1, 2, -2
  CHECK(f8.sigma.value() == std::sqrt(2.5));
  CHECK(f8.min.value() == -2);
  CHECK(f8.max.value() == 2);
  CHECK(f8.entropy_bits.value() == 2);
  CHECK(f8.order0_bytes.value() == 1);
  const TensorSummary nan = summary_of<uint8_t>("F8_E4M3", {0x7F, 0xFF, 0x7F});
  CHECK(nan.not_finite == 3);
  CHECK(!nan.sigma);
  CHECK(summary_of<uint8_t>("F8_E5M2", {0x7C, 0xFC, 0x7F, 0x3C}).not_finite == 3);
  CHECK(summary_of<uint8_t>("F8_E5M2", {0x7C, 0xFC, 0x7F, 0x3C}).max.value() == 1);
  CHECK(summary_of<uint8_t>("F8_E4M3FNUZ", {0x80, 0x40}).not_finite == 1);
  CHECK(summary_of<uint8_t>("F8_E4M3FNUZ", {0x80, 0x40}).max.value() == 1);
  CHECK(summary_of<uint8_t>("F8_E5M2FNUZ", {0x80, 0x40}).max.value() == 1);
  CHECK(summary_of<uint8_t>("F8_E8M0", {127, 129, 255}).max.value() == 4);
  CHECK(summary_of<uint8_t>("F8_E8M0", {127, 129, 255}).not_finite == 1);
}

TEST_CASE("packed codes have an entropy of their own, and the numbers that they stand for") {
  const auto of = [](const char* dtype, std::vector<std::byte> bytes, std::vector<int64_t> shape) {
    return summarize({"w", dtype, std::move(shape), bytes});
  };
  // 0.5, 0.5, -6, -0: three codes, low halves first.
  const TensorSummary f4 = of("F4", {std::byte{0x11}, std::byte{0x8F}}, {2, 2});
  CHECK(f4.elements == 4);
  CHECK(f4.stored_bytes == 2);
  CHECK(f4.entropy_bits.value() == 1.5);
  CHECK(f4.distinct_values.value() == 3);
  CHECK(f4.min.value() == -6);
  CHECK(f4.max.value() == 0.5);
  CHECK(f4.order0_bytes.value() == 1);
  CHECK(of("INT4", {std::byte{0x8F}, std::byte{0x07}}, {3}).min.value() == -8);
  CHECK(of("INT4", {std::byte{0x8F}, std::byte{0x07}}, {3}).max.value() == 7);
  CHECK(of("INT4", {std::byte{0x8F}, std::byte{0x07}}, {3}).elements == 3);
  CHECK(of("UINT4", {std::byte{0x8F}}, {2}).max.value() == 15);
  CHECK(of("INT2", {std::byte{0xE4}}, {4}).min.value() == -2);
  CHECK(of("UINT2", {std::byte{0xE4}}, {4}).entropy_bits.value() == 2);
}

TEST_CASE("an empty tensor is summarised without numbers") {
  const TensorSummary empty = summary_of<int8_t>("I8", {});
  CHECK(empty.elements == 0);
  CHECK(!empty.sigma);
  CHECK(empty.entropy_bits.value() == 0);
  CHECK(empty.order0_bytes.value() == 0);
}

TEST_CASE("entropy of two-byte elements is the same whether a tensor is smaller than their patterns or larger") {
  // A hundred thousand elements of 8 values, as one matrix, a tenth of them, and as thousands.
  std::vector<uint16_t> patterns;
  for (uint32_t i = 0; i < 100'000; ++i) patterns.push_back(static_cast<uint16_t>(i * 2654435761u >> 29) * 5001);
  const auto entropy_of = [&](std::vector<int64_t> shape, size_t elements) {
    return summarize({"t", "F16", std::move(shape), std::as_bytes(std::span(patterns).first(elements))});
  };
  const TensorSummary large = entropy_of({100, 1000}, 100'000), small = entropy_of({10, 1000}, 10'000),
                      tiny = entropy_of({6250, 2, 8}, 100'000);
  CHECK(large.distinct_values.value() == 8);
  CHECK(small.distinct_values.value() == 8);
  CHECK_THAT(large.entropy_bits.value(), WithinAbs(3, 0.01));
  CHECK_THAT(small.entropy_bits.value(), WithinAbs(3, 0.01));
  double bits = 0;
  for (size_t first = 0; first < patterns.size(); first += 16) {
    std::map<uint16_t, double> counts;
    for (size_t i = first; i < first + 16; ++i) ++counts[patterns[i]];
    for (const auto& [pattern, count] : counts) bits += count * std::log2(16 / count);
  }
  CHECK_THAT(tiny.entropy_bits.value(), WithinAbs(bits / 100'000, 1e-9));
}

TEST_CASE("blocks are summarised by their numbers, and their scales count as they are") {
  std::vector<int> numbers(32, 3);
  numbers[0] = -5;
  const std::string q4 = q4_block(u32(0), std::vector<int>(32, 15)), q8 = q8_block(0, numbers);
  const auto bytes = to_bytes(q4 + q8);
  const TensorSummary four = summarize({"w", "Q4_1", {1, 32}, std::span(bytes).first(20)});
  CHECK(four.elements == 32);
  CHECK(four.stored_bytes == 20);
  CHECK(four.scale_bytes == 4);
  CHECK(four.entropy_bits.value() == 0);
  CHECK(four.order0_bytes.value() == 4);
  CHECK(four.mean.value() == 15);
  const TensorSummary eight = summarize({"w", "Q8_0", {1, 32}, std::span(bytes).subspan(20)});
  CHECK(eight.min.value() == -5);
  CHECK_THAT(eight.entropy_bits.value(), WithinAbs(-31.0 / 32 * std::log2(31.0 / 32) + 5.0 / 32, 1e-12));
  CHECK(eight.order0_bytes.value() == 1 + 2);
  const std::vector<std::byte> unread(144);
  const TensorSummary other = summarize({"w", "Q4_K", {1, 256}, unread});
  CHECK(other.elements == 256);
  CHECK(other.stored_bytes == 144);
  CHECK(!other.entropy_bits);
}

TEST_CASE("kinds of layers are summed up by type, with means over elements and not of pooled elements") {
  const std::vector<int8_t> fives(8, 5), nines(8, 9), mixed = {1, 2, 3, 4, 1, 2, 3, 4};
  const std::vector<float> norm = {1, 1, 1, 1};
  const auto view = [](const char* name, const std::vector<int8_t>& values) {
    return TensorView{name, "I8", {2, int64_t(values.size()) / 2}, std::as_bytes(std::span(values))};
  };
  const std::vector<TensorSummary> tensors =
      summarize_all(std::vector<TensorView>{view("blk.0.attn_q.weight", fives),
                                            view("blk.1.attn_q.weight", nines),
                                            view("blk.0.ffn_up.weight", mixed),
                                            {"blk.0.attn_norm.weight", "F32", {4}, std::as_bytes(std::span(norm))}});
  const std::vector<KindSummary> kinds = summarize_kinds(tensors);
  REQUIRE(kinds.size() == 4);
  CHECK(kinds[0].kind == "q");
  CHECK(kinds[0].tensors == 2);
  CHECK(kinds[0].elements == 16);
  CHECK(kinds[0].entropy_bits.value() == 0);  // pooled it would be one bit
  CHECK(kinds[0].minimum_bytes == 0);
  CHECK(kinds[1].kind == "up");
  CHECK(kinds[1].entropy_bits.value() == 2);
  CHECK(kinds[2].kind == "norm");
  CHECK(!kinds[2].entropy_bits);
  CHECK(kinds[2].minimum_bytes == 12);  // signs and fractions
  CHECK(kinds[3].kind == "total");
  CHECK(kinds[3].dtype.empty());
  CHECK(kinds[3].elements == 28);
  CHECK(kinds[3].stored_bytes == 40);
  CHECK(kinds[3].minimum_bytes == 14);
  CHECK(!kinds[3].entropy_bits);
  CHECK(kinds[3].exponent_entropy_bits.value() == 0);  // of the floats
  CHECK(kinds[3].minimum_bits() == 4);
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
  REQUIRE_DATASET_ERROR(inspect_file(empty.path()), "is empty");
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
