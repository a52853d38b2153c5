// Claims about the variant `auto`: a case whose kernel nobody names.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "experiments/config/experiment.h"
#include "experiments/run/run.h"
#include "reports/fields.h"
#include "tests/experiments/test_codecs.h"

using namespace ecmv;
using namespace ecmv::tests;
using reports::Status;

namespace {

std::string only_32_rows(const backends::CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  return matrix.shape.rows == 32 ? "" : "This kernel takes 32 rows.";
}
backends::BoundKernel cannot_bind(const backends::Policy&, backends::Layers, int, backends::Place&) {
  throw backends::Refused("This kernel takes no layer alone.");
}
std::string_view choose_second(const backends::CompressedView&, const backends::DeviceInfo&, int) { return "second"; }
constexpr backends::Policy kTwo[] = {{"first"}, {"second"}};

// "never" cannot be bound, "narrow" takes 32 rows alone, "few" is for up to two tokens.
std::vector<backends::Kernel> fused_kernels() {
  std::vector<backends::Kernel> kernels = {make_kernel<multiply_tokens>("never"),
                                           make_kernel<multiply_tokens>("narrow"),
                                           backends::up_to(2, make_kernel<multiply_tokens>("few")),
                                           make_kernel<multiply_tokens>("many"), make_kernel<decode>("copy")};
  kernels[0].bind = cannot_bind;
  kernels[1].refuses = only_32_rows;
  kernels[3].policies = kTwo;
  kernels[3].choose = choose_second;
  return kernels;
}

std::vector<reports::CaseRecord> run(const std::vector<backends::Kernel>& kernels, const std::string& axes,
                                     const std::string& shapes = "[[40, 40]]") {
  const codecs::Codec codec = make_codec();
  const std::vector<codecs::CodecEntry> entries = {{"test", &codec, kernels, {}}};
  const auto experiment = experiments::parse_experiment(
      "schema: 1\nname: automatic\nmeasure: {repetitions: 2, min_time: 0.0001}\nexperiments:\n"
      "  - data: {source: gaussian, sigma: 4, shapes: " +
          shapes + ", layers: 2}\n    codecs: test\n    kernels: {backend: scalar, threads: 2, " + axes + "}\n",
      "x", {}, entries);
  std::vector<reports::CaseRecord> records;
  experiments::RunOptions options;
  options.codecs = entries;
  options.on_case = [&](const reports::CaseRecord& record) { records.push_back(record); };
  experiments::run_experiment(experiment, options);
  return records;
}

}  // namespace

TEST_CASE("a case without a named kernel takes one that can, by the number of tokens, and its record says which") {
  const auto records = run(fused_kernels(), "op: matmul, variant: auto, batch: [1, 2, 3, 70]");
  REQUIRE(records.size() == 4);
  for (const reports::CaseRecord& record : records) {
    INFO(record.kernel.batch << ": " << record.reason);
    CHECK(record.status == Status::ok);
    CHECK(record.time.samples_s.size() == 2);
    CHECK(record.kernel.variant == "auto");
    CHECK(record.kernel.policy == "auto");
    CHECK(record.kernel.chosen == (record.kernel.batch <= 2 ? "few" : "many second"));
    CHECK(reports::kernel_label(record) == "scalar auto ×2");
    CHECK(record.entrants.kernels == 1);
    CHECK(record.entrants.known_kernels == 5);
  }
  const auto narrow = run(fused_kernels(), "op: matmul, variant: auto, batch: 3", "[[32, 40]]");
  REQUIRE(narrow.size() == 1);
  CHECK(narrow[0].kernel.chosen == "narrow");
}

TEST_CASE("a case without a named kernel stands beside those with one, and counts as none of them") {
  const auto records = run(fused_kernels(), "op: matmul, variant: [few, auto], policy: [default, auto]");
  REQUIRE(records.size() == 3);
  for (const reports::CaseRecord& record : records) {
    INFO(record.kernel.variant << " " << record.kernel.policy << ": " << record.reason);
    CHECK(record.status == Status::ok);
    CHECK(record.kernel.chosen == (record.kernel.policy == "auto" ? "few" : ""));
    CHECK(record.entrants.kernels == 2);
  }
}

TEST_CASE("a kernel that chooses its policy has the policy in its record, whatever the op") {
  std::vector<backends::Kernel> kernels = {make_kernel<decode>("copy")};
  kernels[0].policies = kTwo;
  kernels[0].choose = choose_second;
  const auto records = run(kernels, "op: [decode, matvec, matmul], policy: auto");
  REQUIRE(records.size() == 3);
  for (const reports::CaseRecord& record : records) {
    INFO(record.kernel.op << ": " << record.reason);
    CHECK(record.status == Status::ok);
    CHECK(record.kernel.chosen == (record.kernel.op == "decode" ? "copy second" : "unfused copy second"));
  }
}

TEST_CASE("a codec without a fused kernel that takes the matrix is decoded first, and is called auto all the same") {
  std::vector<backends::Kernel> kernels = {make_kernel<multiply_tokens>("narrow"), make_kernel<decode>("copy")};
  kernels[0].refuses = only_32_rows;
  const auto records = run(kernels, "op: matmul, variant: auto, unfused: never");
  REQUIRE(records.size() == 1);
  CHECK(records[0].status == Status::ok);
  CHECK(records[0].kernel.chosen == "unfused copy");
  CHECK(records[0].kernel.unfused);
  CHECK(reports::kernel_label(records[0]) == "scalar auto ×2");
  kernels.pop_back();
  const auto refused = run(kernels, "op: matmul, variant: auto");
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].status == Status::refused);
  CHECK(refused[0].reason == "Layers of 40 x 40: This kernel takes 32 rows.");
}
