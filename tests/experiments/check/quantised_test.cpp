// Claims about quantised data: configs that sweep quantisers, scales that are stored, counted and applied by products,
// and the distortion in records.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <set>

#include "backends/exact_product.h"
#include "experiments/config/experiment.h"
#include "experiments/run/run.h"
#include "tests/experiments/test_codecs.h"
#include "tests/run_command.h"

using namespace ecmv;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using Catch::Matchers::WithinAbs;
using reports::Status;

namespace {

constexpr int64_t kRows = 24, kCols = 200, kLayers = 2;

void one_row_wrongly(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(stored, args, batch);
  if (args.rows.begin == 0) args.y[3] *= 1.001f;
}

std::string config_of(const std::string& quantise, const std::string& kernels, const std::string& source = "llm_like") {
  return "schema: 1\nname: quantised\nmeasure: {repetitions: 2, min_time: 0.0001}\nexperiments:\n  - data: {source: " +
         source + ", shapes: [[24, 200]], layers: 2, quantise: " + quantise +
         "}\n    codecs: test\n    kernels: {backend: scalar, threads: 2, " + kernels + "}\n";
}

std::vector<reports::CaseRecord> run(const codecs::Codec& codec, const std::vector<backends::Kernel>& kernels,
                                     const std::string& quantise, const std::string& choice) {
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, kernels, {}}};
  const auto experiment = experiments::parse_experiment(config_of(quantise, choice), "x", {}, codecs);
  std::vector<reports::CaseRecord> records;
  experiments::RunOptions options;
  options.codecs = codecs;
  options.on_case = [&](const reports::CaseRecord& record) { records.push_back(record); };
  experiments::run_experiment(experiment, options);
  return records;
}

std::string errors_of(const std::string& quantise, const std::string& source = "llm_like") {
  const codecs::Codec codec = make_codec();
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, {}, {}}};
  try {
    experiments::parse_experiment(config_of(quantise, "op: size", source), "x", {}, codecs);
  } catch (const experiments::ConfigError& e) {
    std::string all;
    for (const std::string& message : e.messages) all += message + "\n";
    return all;
  }
  return "";
}

std::string quantiser_of(const reports::CaseRecord& record) {
  const auto found = record.data.parameters.find("quantise");
  return found == record.data.parameters.end() ? "" : std::get<std::string>(found->second);
}

}  // namespace

TEST_CASE("quantisers are an axis: their parameters multiply, and names have them") {
  const codecs::Codec codec = make_codec();
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, {}, {}}};
  const auto experiment = experiments::parse_experiment(
      config_of("[absmax: {bits: [4, 8], group: [row, 128]}, nvfp4, none]", "op: size"), "x", {}, codecs);
  std::vector<std::string> names;
  std::set<std::string> keys;
  for (const experiments::Case& one : experiment.cases) {
    names.push_back(one.data.short_name());
    keys.insert(one.key());
  }
  CHECK(names == std::vector<std::string>{"llm_like[quantise=absmax[bits=4,group=row]]/24x200x2",
                                          "llm_like[quantise=absmax[bits=4,group=128]]/24x200x2",
                                          "llm_like[quantise=absmax[bits=8,group=row]]/24x200x2",
                                          "llm_like[quantise=absmax[bits=8,group=128]]/24x200x2",
                                          "llm_like[quantise=nvfp4]/24x200x2", "llm_like/24x200x2"});
  CHECK(keys.size() == names.size());
}

TEST_CASE("a wrong quantiser is an error of the config, with its place") {
  CHECK_THAT(errors_of("absmix"), StartsWith("x:5:") && ContainsSubstring("There is no quantiser 'absmix'. Did you "
                                                                          "mean 'absmax'?"));
  CHECK_THAT(errors_of("{absmax: {bit: 4}}"), ContainsSubstring("'absmax' has no key 'bit'. Did you mean 'bits'?"));
  CHECK_THAT(errors_of("{absmax: {bits: 17}}"), ContainsSubstring("must be at most 16, not 17"));
  CHECK_THAT(errors_of("{absmax: {group: 100}}"), ContainsSubstring("is one of tensor, row, 16"));
  CHECK_THAT(errors_of("{uniform: {step: 1, entropy: 2}}"), ContainsSubstring("both were given"));
  CHECK_THAT(errors_of("[]"), ContainsSubstring("'quantise' is a list of quantisers."));
  CHECK_THAT(errors_of("[[absmax]]"), ContainsSubstring("A quantiser is an id"));
  CHECK_THAT(errors_of("absmax", "constant"), ContainsSubstring("only floats are quantised"));
}

TEST_CASE("quantise_bits of older configs is an error that says what stands for it") {
  const std::string instead = "'quantise: {absmax: {bits: N + 1, group: tensor}}' makes such integers";
  const std::string errors = errors_of("absmax, quantise_bits: 7");
  CHECK_THAT(errors, StartsWith("x:5:") && ContainsSubstring(instead));
  CHECK(std::ranges::count(errors, '\n') == 1);
  Command ecmv;
  CHECK(ecmv({"run", "--source", "llm_like", "--param", "quantise_bits=7", "--d", "8", "--codec", "all", "--op",
              "size"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("--param quantise-bits: ") && ContainsSubstring(instead));
}

TEST_CASE("scales are counted in every size, and by their role") {
  const auto records = run(make_codec(), {}, "[absmax: {group: [tensor, row, 32]}, nvfp4, mxfp4]", "op: size");
  const int64_t bytes[] = {2, 2 * kRows, 2 * kRows * 7, kRows * 13 + 4, kRows * 7};
  REQUIRE(records.size() == std::size(bytes));
  for (size_t i = 0; i < records.size(); ++i) {
    INFO(quantiser_of(records[i]));
    CHECK(records[i].status == Status::ok);
    CHECK(records[i].size.scale_bytes == kLayers * bytes[i]);
    CHECK(records[i].size.stored_bytes == kLayers * (kRows * kCols + bytes[i]));
    CHECK(records[i].size.bits_per_element == 8.0 * static_cast<double>(records[i].size.stored_bytes) / 9600);
  }
}

TEST_CASE("fused and unfused products apply scales of tensors and rows, unfused ones those of groups") {
  const auto records = run(make_codec(), {make_kernel<multiply_tokens>(), make_kernel<decode>()},
                           "[absmax: {bits: 4, group: [tensor, row, 32]}, uniform: {entropy: 3}, nvfp4, mxfp4]",
                           "op: matmul, batch: [1, 5], unfused: always");
  std::map<std::string, std::set<bool>> unfused;
  for (const reports::CaseRecord& record : records) {
    INFO(quantiser_of(record));
    CHECK(record.status == Status::ok);
    CHECK(record.reason == "");
    CHECK_THAT(record.check.outputs, StartsWith("within the bound of float32 sums"));
    CHECK(record.check.guards == "intact");
    unfused[quantiser_of(record)].insert(record.kernel.unfused);
  }
  CHECK(unfused.size() == 6);
  CHECK(unfused["absmax[bits=4,group=row]"].size() == 2);
  CHECK(unfused["absmax[bits=4,group=32]"] == std::set<bool>{true});
  CHECK(unfused["nvfp4"] == std::set<bool>{true});
}

TEST_CASE("a codec without kernels multiplies quantised data by its reference decoder") {
  for (const reports::CaseRecord& record :
       run(make_codec(), {}, "[absmax: {group: [row, 128]}, mxfp4]", "op: matmul, batch: 3"))
    CHECK(record.status == Status::ok);
}

TEST_CASE("groups of columns run unfused by themselves, and a fused product of them is refused with the reason") {
  const std::vector<backends::Kernel> kernels = {make_kernel<multiply_tokens>(), make_kernel<decode>()};
  const auto left_to_itself = run(make_codec(), kernels, "{absmax: {group: [row, 64]}}", "op: matmul");
  REQUIRE(left_to_itself.size() == 2);
  CHECK_FALSE(left_to_itself[0].kernel.unfused);
  CHECK(left_to_itself[1].kernel.unfused);
  CHECK(left_to_itself[1].status == Status::ok);
  const auto fused = run(make_codec(), kernels, "{absmax: {group: 64}}", "op: matmul, unfused: never");
  REQUIRE(fused.size() == 1);
  CHECK(fused[0].status == Status::refused);
  CHECK_THAT(fused[0].reason, ContainsSubstring("groups of columns have scales of their own"));
}

TEST_CASE("a wrong product of scaled rows is found") {
  const auto records =
      run(make_codec(), {make_kernel<one_row_wrongly>()}, "{absmax: {group: [tensor, row]}}", "op: matmul");
  REQUIRE(records.size() == 2);
  for (const reports::CaseRecord& record : records) {
    CHECK(record.status == Status::incorrect);
    CHECK_THAT(record.reason, ContainsSubstring("row 3, token 0 is "));
  }
}

TEST_CASE("the int8 chain takes one scale a tensor and refuses others") {
  const auto records = run(make_codec(), {make_kernel<multiply>()}, "{absmax: {group: [tensor, row]}}", "op: matvec");
  REQUIRE(records.size() == 2);
  CHECK(records[0].status == Status::ok);
  CHECK(records[1].status == Status::refused);
  CHECK_THAT(records[1].reason, ContainsSubstring("the rows or groups of these have scales"));
}

TEST_CASE("records of quantised data have their distance from the floats, others have none") {
  const auto records = run(make_codec(), {}, "[absmax: {bits: [4, 8]}, none]", "op: size");
  REQUIRE(records.size() == 3);
  CHECK(records[0].distortion.snr_db > 10);
  CHECK(records[1].distortion.snr_db > records[0].distortion.snr_db + 20);
  CHECK(records[1].distortion.largest_error < records[0].distortion.largest_error);
  CHECK(std::isnan(records[2].distortion.snr_db));
  CHECK(std::isnan(records[2].distortion.largest_error));
  // Data that differ only in the quantiser have the same sigma, that of the weights.
  CHECK(records[0].data.sigma == records[2].data.sigma);
}

TEST_CASE("what a lossy codec loses of quantised data adds to their distance from the floats") {
  codecs::Codec lossy = make_codec();
  lossy.lossless = false;
  lossy.encode = store_even;
  lossy.error_bound = within_one;
  const auto exact = run(make_codec(), {}, "absmax", "op: size"), even = run(lossy, {}, "absmax", "op: size");
  REQUIRE(even.size() == 1);
  CHECK(even[0].status == Status::ok);
  CHECK(even[0].distortion.snr_db < exact[0].distortion.snr_db - 3);
  CHECK(even[0].distortion.largest_error > exact[0].distortion.largest_error);
}

TEST_CASE("exact products of scaled elements are those of their numbers, and the bound scales with the row") {
  const int8_t elements[] = {1, -2, 3, 4};
  const datasets::MatrixView matrix{{2, 2}, datasets::ElementType::i8, std::as_bytes(std::span(elements))};
  datasets::Scales scales;
  scales.rows = 2;
  scales.group_cols = 2;
  for (const int byte : {0x00, 0x40, 0x00, 0x3F}) scales.stored.push_back(std::byte(byte));  // 2 and 0.5
  const std::vector<float> tokens = {1, 10};
  const backends::ExactProduct exact = backends::exact_product(matrix, tokens, 1, &scales);
  CHECK(exact.sums == std::vector<double>{2 * -19, 0.5 * 43});
  CHECK(exact.magnitudes == std::vector<double>{2 * 21, 0.5 * 43});
  CHECK(exact.scales == std::vector<double>{2, 0.5});
  const backends::ProductRounding offset{.offset = 8};
  CHECK(backends::check_product(std::vector<float>{-38, 21.5f}, exact, offset).violation.empty());
  CHECK_FALSE(backends::check_product(std::vector<float>{-38, 21.5001f}, exact, offset).violation.empty());
  CHECK(backends::product_bound(offset, 2, 42, 11, 2) > backends::product_bound(offset, 2, 42, 11, 1));
}

// Records of raw_int8 on the emulator; empty if this build lacks one of the two.
std::vector<reports::CaseRecord> run_emulated(const std::string& data, const std::string& kernels) {
  const codecs::CodecEntry* entry = codecs::find_codec("raw_int8");
  if (entry == nullptr || entry->kernels("emulator").empty()) return {};
  const std::string config = "schema: 1\nname: gpu\nexperiments:\n  - data: {source: llm_like, layers: 2, " + data +
                             "}\n    codecs: raw_int8\n    kernels: {backend: emulator, op: matmul, " + kernels + "}\n";
  const auto experiment = experiments::parse_experiment(config, "x", {}, codecs::all_codecs());
  std::vector<reports::CaseRecord> records;
  experiments::RunOptions options;
  options.on_case = [&](const reports::CaseRecord& record) { records.push_back(record); };
  experiments::run_experiment(experiment, options);
  for (const reports::CaseRecord& record : records) {
    INFO(quantiser_of(record) << " " << record.kernel.variant << ": " << record.reason);
    // Policies for a GPU's shared memory do not fit the emulator's.
    CHECK((record.status == Status::ok || record.reason.find("shared memory") != std::string::npos));
  }
  std::erase_if(records, [](const reports::CaseRecord& record) { return record.status != Status::ok; });
  return records;
}
constexpr const char* kNoEmulator = "there is no emulator plugin beside this test, or no raw_int8 in this build";

TEST_CASE("emulated GPUs apply scales of tensors and rows, and say what they do not", "[emulator]") {
  const auto records = run_emulated("shapes: [[40, 96]], quantise: {absmax: {group: [tensor, row, 32]}}",
                                    "batch: [1, 3], variant: first, policy: first");
  if (records.empty()) SKIP(kNoEmulator);
  CHECK(records.size() >= 6);
}

TEST_CASE("a kernel with the scales of groups in its sums is chosen where there is one for them", "[emulator]") {
  const auto records = run_emulated("shapes: [[40, 320]], quantise: {absmax: {bits: 4, group: [row, 32, 64, 128]}}",
                                    "activations: bf16, batch: [1, 9]");
  if (records.empty()) SKIP(kNoEmulator);
  std::map<std::string, std::set<std::string>> kernels;
  for (const reports::CaseRecord& record : records)
    kernels[quantiser_of(record)].insert((record.kernel.unfused ? "unfused " : "") + record.kernel.variant);
  CHECK(kernels["absmax[bits=4,group=row]"] == std::set<std::string>{"tokens"});
  CHECK(kernels["absmax[bits=4,group=32]"] == std::set<std::string>{"unfused copy"});
  CHECK(kernels["absmax[bits=4,group=64]"] == std::set<std::string>{"scaled_tokens"});
  CHECK(kernels["absmax[bits=4,group=128]"] == std::set<std::string>{"scaled_tokens"});
}
