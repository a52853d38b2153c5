// Claims about runs on GGUF files of blocks: from the config to verified products with the file's scales.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <set>
#include <sstream>

#include "backends/exact_product.h"
#include "experiments/config/experiment.h"
#include "experiments/plan/plan.h"
#include "experiments/run/run.h"
#include "tests/datasets/temporary_file.h"
#include "tests/experiments/test_codecs.h"
#include "tests/gguf_blocks.h"

using namespace ecmv;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using Catch::Matchers::WithinRel;
using reports::Status;

namespace {

constexpr uint64_t kCols = 96, kRows = 40;
constexpr GgufType kTypes[] = {kQ8_0, kQ4_0, kQ4_1};

struct Blocks {
  explicit Blocks(GgufType type, const std::vector<std::string>& names = {"blk.0.attn_q.weight", "blk.0.attn_k.weight"})
      : made(blocks_tensor(names[0], {kCols, kRows}, type)), file([&] {
          GgufFile all;
          for (const std::string& name : names)
            all.tensors.push_back({name, made.tensor.dims, made.tensor.type, made.tensor.data});
          return to_bytes(all.bytes());
        }()) {}
  BlocksTensor made;
  TemporaryFile file;
};

experiments::Experiment experiment_of(const Blocks& blocks, const std::string& kernels, const std::string& codec,
                                      std::span<const codecs::CodecEntry> codecs, const std::string& source) {
  const std::string place = source == "model" ? "model: " : "file: ";
  return experiments::parse_experiment(
      "schema: 1\nname: gguf\nmeasure: {repetitions: 2, min_time: 0.0001}\nexperiments:\n  - data: {source: " + source +
          ", " + place + blocks.file.path() + "}\n    codecs: " + codec + "\n    kernels: {" + kernels + "}\n",
      "x", {}, codecs);
}

std::vector<reports::CaseRecord> run(const Blocks& blocks, const std::string& kernels,
                                     const std::string& codec = "raw_int8",
                                     std::span<const codecs::CodecEntry> codecs = codecs::all_codecs(),
                                     const std::string& source = "weights") {
  const auto experiment = experiment_of(blocks, kernels, codec, codecs, source);
  std::vector<reports::CaseRecord> records;
  experiments::RunOptions options;
  options.codecs = codecs;
  options.on_case = [&](const reports::CaseRecord& record) { records.push_back(record); };
  experiments::run_experiment(experiment, options);
  return records;
}

}  // namespace

TEST_CASE("scales of blocks are counted beside every codec, and the numbers of the file are kept") {
  const codecs::Codec codec = make_codec();
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, {}, {}}};
  for (const GgufType type : kTypes) {
    const Blocks blocks(type);
    const auto records = run(blocks, "op: size", "test", codecs);
    REQUIRE(records.size() == 1);
    INFO(records[0].reason);
    CHECK(records[0].status == Status::ok);
    const int64_t scales = 2 * kRows * (kCols / 32) * (type == kQ4_1 ? 4 : 2);
    CHECK(records[0].size.scale_bytes == scales);
    CHECK(records[0].size.stored_bytes == static_cast<int64_t>(2 * kRows * kCols) + scales);
    CHECK(records[0].data.type == "i8");
    CHECK(std::isnan(records[0].distortion.snr_db));  // as for all unquantised data that is kept without loss
    double squares = 0, sum = 0;
    for (const double number : blocks.made.numbers) sum += number, squares += number * number;
    const auto count = static_cast<double>(blocks.made.numbers.size());
    CHECK_THAT(records[0].data.sigma, WithinRel(std::sqrt(squares / count - sum / count * (sum / count)), 1e-9));
  }
}

TEST_CASE("the reference of products of blocks is the sum over the numbers of the file") {
  for (const GgufType type : kTypes) {
    const Blocks blocks(type);
    datasets::SourceRequest request;
    request.texts["file"] = blocks.file.path();
    const datasets::Dataset dataset = load("weights", request);
    std::vector<float> token;
    for (uint64_t c = 0; c < kCols; ++c) token.push_back(0.25f * static_cast<float>(c % 7) - 0.5f);
    const backends::ExactProduct exact =
        backends::exact_product(dataset.layers[0].view(), token, 1, &dataset.scales[0]);
    CHECK(exact.refused.empty());
    for (uint64_t row = 0; row < kRows; ++row) {
      double sum = 0;
      for (uint64_t c = 0; c < kCols; ++c) sum += blocks.made.numbers[row * kCols + c] * double{token[c]};
      CHECK(exact.sums[row] == sum);
      CHECK(exact.scales[row] > 0);  // magnitudes, though scales are of both signs
    }
  }
}

TEST_CASE("products of blocks run unfused on CPUs, and are verified") {
  if (codecs::find_codec("raw_int8") == nullptr) SKIP("this build lacks raw_int8");
  for (const GgufType type : kTypes) {
    const Blocks blocks(type);
    for (const char* activations : {"f32", "bf16"}) {
      const auto records =
          run(blocks, "backend: [scalar, simd, best], threads: 2, op: matmul, batch: [1, 5], activations: " +
                          std::string(activations));
      std::set<std::string> backends;
      for (const reports::CaseRecord& record : records) {
        INFO(record.kernel.backend << " " << record.kernel.variant << ": " << record.reason);
        CHECK(record.status == Status::ok);
        CHECK(record.kernel.unfused);
        CHECK_THAT(record.check.outputs, StartsWith("within the bound of float32 sums"));
        CHECK(record.check.guards == "intact");
        CHECK(record.time.samples_s.size() == 2);
        backends.insert(record.kernel.backend);
      }
      CHECK(backends == std::set<std::string>{"scalar", "simd"});
    }
  }
}

TEST_CASE("a wrong decoder is found in products of blocks") {
  const codecs::Codec codec = make_codec();
  const std::vector<backends::Kernel> kernels = {make_kernel<decode_wrongly>()};
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, kernels, {}}};
  for (const GgufType type : kTypes) {
    const auto records = run(Blocks(type), "backend: scalar, threads: 1, op: matmul", "test", codecs);
    REQUIRE(records.size() == 1);
    CHECK(records[0].status == Status::incorrect);
    CHECK_THAT(records[0].reason, ContainsSubstring("row 0, token 0 is "));
  }
}

TEST_CASE("fused products and the int8 chain refuse blocks with the reason, in plans too") {
  const codecs::Codec codec = make_codec();
  const std::vector<backends::Kernel> kernels = {make_kernel<multiply_tokens>(), make_kernel<multiply>(),
                                                 make_kernel<decode>()};
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, kernels, {}}};
  const Blocks blocks(kQ8_0);
  const auto fused = run(blocks, "backend: scalar, op: matmul, unfused: never", "test", codecs);
  REQUIRE(fused.size() == 1);
  CHECK(fused[0].status == Status::refused);
  CHECK_THAT(fused[0].reason, ContainsSubstring("groups of columns have scales of their own"));
  const auto chain = run(blocks, "backend: scalar, op: matvec", "test", codecs);
  REQUIRE(chain.size() == 1);
  CHECK(chain[0].status == Status::refused);
  CHECK_THAT(chain[0].reason, ContainsSubstring("the rows or groups of these have scales"));
  std::ostringstream plan;
  CHECK(experiments::print_plan(experiment_of(blocks, "backend: scalar, op: matvec", "test", codecs, "weights"), codecs,
                                plan) == 0);
  CHECK_THAT(plan.str(), ContainsSubstring("the rows or groups of these have scales"));
}

TEST_CASE("what a lossy codec loses of blocks is the distance from their numbers") {
  codecs::Codec lossy = make_codec();
  lossy.lossless = false;
  lossy.encode = store_even;
  lossy.error_bound = within_one;
  const std::vector<codecs::CodecEntry> codecs = {{"test", &lossy, {}, {}}};
  const auto records = run(Blocks(kQ4_1), "op: size", "test", codecs);
  REQUIRE(records.size() == 1);
  INFO(records[0].reason);
  CHECK(records[0].status == Status::ok);
  CHECK(records[0].distortion.largest_error == 1);  // the lowest bit, times the largest scale
  CHECK(records[0].distortion.snr_db > 10);
}

TEST_CASE("a decoding step multiplies blocks of a GGUF model, and its parts count their scales") {
  const codecs::Codec codec = make_codec();
  const std::vector<backends::Kernel> kernels = {make_kernel<multiply_tokens>(), make_kernel<decode>()};
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, kernels, {}}};
  for (const GgufType type : kTypes) {
    const auto records = run(Blocks(type), "backend: scalar, op: step, batch: 2, repeat: 2", "test", codecs, "model");
    REQUIRE(records.size() == 1);
    INFO(records[0].reason);
    CHECK(records[0].status == Status::ok);
    CHECK(records[0].kernel.unfused);
    int64_t bytes = 0;
    for (const auto& part : records[0].step.parts) bytes += part.stored_bytes;
    CHECK(bytes == records[0].size.stored_bytes);
    CHECK(records[0].size.scale_bytes > 0);
  }
}

TEST_CASE("emulated GPUs multiply blocks by the scales and minimums of their file", "[emulator]") {
  const codecs::CodecEntry* entry = codecs::find_codec("raw_int8");
  if (entry == nullptr || entry->kernels("emulator").empty())
    SKIP("there is no emulator plugin beside this test, or no raw_int8 in this build");
  for (const GgufType type : kTypes) {
    const auto records = run(
        Blocks(type), "backend: emulator, simd_target: all, op: matmul, batch: [1, 3], variant: first, policy: first");
    CHECK(records.size() == 4);
    for (const reports::CaseRecord& record : records) {
      INFO(record.reason);
      CHECK(record.status == Status::ok);
      CHECK(record.kernel.unfused);
    }
  }
}
