// Claims about a run's output, on the way and at its end.
#include "experiments/output/progress.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sstream>

#include "experiments/config/experiment.h"
#include "experiments/output/run_summary.h"
#include "experiments/output/terminal_table.h"
#include "experiments/run/measure.h"
#include "experiments/run/run.h"
#include "tests/experiments/test_codecs.h"

using namespace ecmv;
using namespace ecmv::experiments;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Case some_case() {
  Case one;
  one.data.source = "gaussian";
  one.data.shape = {4096, 4096};
  one.data.numbers = {{"sigma", 4.0}};
  one.codec.id = "coder";
  one.codec.settings.set("lanes", int64_t{32});
  one.codec.settings.set("mode", std::string("fast"));
  one.codec.non_default = {"mode"};
  one.kernel.backend = "simd";
  one.kernel.variant = "rows";
  one.kernel.policy = "default";
  return one;
}

reports::CaseRecord record_of(reports::Status status, const std::string& reason = "") {
  reports::CaseRecord record;
  record.status = status;
  record.reason = reason;
  record.kernel.op = "matvec";
  if (status != reports::Status::ok) return record;
  record.size.bits_per_element = 4.125;
  record.time.elements = 62'500'000'000;
  record.time.median_s = 1;
  return record;
}

}  // namespace

TEST_CASE("the time left is that of a median case, times those that will be tried") {
  TimeLeft left(20);
  CHECK_FALSE(left.seconds().has_value());
  left.tried(4, 8);  // 2 s each
  CHECK(left.seconds() == 32);
  left.tried(1, 600);  // one slow case changes nothing
  CHECK(left.seconds() == 30);
  for (int i = 0; i < 5; ++i) left.refused();  // half of them are
  CHECK(left.seconds() == 10);
  left.skip(10);
  CHECK(left.seconds() == 0);
  CHECK(duration_text(45.2) == "45 s");
  CHECK(duration_text(600) == "10 min");
  CHECK(duration_text(7200) == "2.0 h");
}

TEST_CASE("short names leave out what is the default, keys do not") {
  const Case one = some_case();
  CHECK(one.name() == "gaussian[sigma=4]/4096x4096x10/seed1/coder[lanes=32,mode=fast]/simd/matvec/rows/default");
  CHECK(one.short_name() == "gaussian[sigma=4]/4096x4096x10/coder[mode=fast]/simd/matvec/rows");
  Case other = one;
  other.codec.non_default = {};
  CHECK(other.key() == one.key());
  other.data.seed = 2;
  other.kernel.policy = "rows4";
  CHECK(other.short_name() == "gaussian[sigma=4]/4096x4096x10/seed2/coder/simd/matvec/rows/rows4");
}

TEST_CASE("a line has its numbers before the name and fits 120 columns, whatever the name") {
  std::ostringstream out;
  Progress progress(&out, 12, true);
  progress.over(some_case(), record_of(reports::Status::ok));
  CHECK_THAT(out.str(),
             StartsWith("[ 1/12") && ContainsSubstring("62.5 G elements/s     4.125 bits  coder[mode=fast]/simd"));
  Case longer = some_case();
  longer.codec.settings.set("mode", std::string(300, 'm'));
  longer.data.texts["file"] = std::string(300, 'f');
  progress.data(longer.data);
  progress.phase("encoding with " + std::string(300, 'c'));
  progress.over(longer, record_of(reports::Status::ok));
  progress.over(longer,
                record_of(reports::Status::incorrect, "Element 7 of layer 0 is 3 and not 4, " + std::string(200, 'x')));
  const auto lines = lines_of(out.str());
  CHECK(lines.size() >= 6);
  for (const std::string& line : lines) {
    INFO(line);
    CHECK(shown_width(line) <= kLineColumns);
  }
  CHECK_THAT(out.str(), ContainsSubstring("FAILED (incorrect)") && ContainsSubstring("Element 7 of layer 0 is 3"));
}

TEST_CASE("refused cases have no line, and without a line a case only failures do") {
  std::ostringstream out;
  Progress progress(&out, 4, true);
  progress.over(some_case(), record_of(reports::Status::refused, "It takes no such matrix."));
  CHECK(out.str().empty());
  Progress failures(&out, 4, false);
  failures.over(some_case(), record_of(reports::Status::ok));
  CHECK(out.str().empty());
  failures.over(some_case(), record_of(reports::Status::error, "The encoder gave up."));
  CHECK_THAT(out.str(),
             ContainsSubstring("The encoder gave up.") && ContainsSubstring("gaussian[sigma=4]/4096x4096x10"));
}

TEST_CASE("progress moves within a batch of cases that are measured together") {
  std::ostringstream out;
  Progress progress(&out, 12, true, std::chrono::milliseconds(0));
  progress.sampled(30, 120, 10);
  CHECK(out.str() == "  30 of 120 samples of the batch, 30 s left\n");
  progress.sampled(120, 120, 40);  // the cases' own lines follow
  CHECK(lines_of(out.str()).size() == 1);
  Progress rarely(&out, 12, true, std::chrono::hours(1));
  rarely.sampled(30, 120, 10);
  CHECK(lines_of(out.str()).size() == 1);
}

TEST_CASE("a batch tells of each sample once, with the most that there will be") {
  struct Quick final : backends::Pass {
    double run() override { return 1e-6; }
    void mark_outputs(int) override {}
    std::span<const std::byte> result() const override { return {}; }
    bool has_parts() const override { return false; }
    void run_first(int) override {}
    void set_input(int, std::span<const std::byte>) override {}
    void run_layer(int) override {}
    void poison_outputs(int) override {}
    std::span<const int32_t> accumulators(int) override { return {}; }
    std::span<const int8_t> outputs(int) override { return {}; }
    std::span<const int8_t> decoded() override { return {}; }
    std::string broken_guards() const override { return ""; }
  };
  static const auto unknown_flags = initialise_timing({});
  Quick quick;
  std::vector<TimedPass> passes(3);
  for (TimedPass& pass : passes) pass.pass = &quick, pass.estimate_s = 1e-6;
  MeasureSpec spec;
  spec.repetitions = 4, spec.min_time_s = 1e-5;
  std::vector<std::pair<size_t, size_t>> told;
  measure_interleaved(
      passes, spec, [] { return false; }, nullptr, [&](size_t samples, size_t of) { told.emplace_back(samples, of); });
  REQUIRE(told.size() == 12);
  for (size_t i = 0; i < told.size(); ++i) CHECK(told[i] == std::pair<size_t, size_t>{i + 1, 12});
}

TEST_CASE("a run announces its phases and counts its refusals by reason") {
  codecs::Codec right = tests::make_codec(), refusing = tests::make_codec();
  refusing.refuses = tests::rejects;
  const std::vector<backends::Kernel> kernels = {tests::make_kernel<tests::multiply>()};
  const std::vector<codecs::CodecEntry> codecs = {{"right", &right, kernels, {}}, {"refusing", &refusing, kernels, {}}};
  const Experiment experiment = parse_experiment(
      "schema: 1\nname: x\nmeasure: {repetitions: 2, min_time: 0.0001}\nexperiments:\n"
      "  - data: {source: gaussian, sigma: 4, d: [16, 24], layers: 2}\n    codecs: [right, refusing]\n"
      "    kernels: {backend: scalar, threads: 1}\n",
      "x", {}, codecs);
  RunOptions options;
  options.codecs = codecs;
  std::ostringstream out;
  options.progress = &out;
  const RunSummary summary = run_experiment(experiment, options);
  CHECK_THAT(out.str(),
             ContainsSubstring("gaussian[sigma=4]/16x16x2: ") && ContainsSubstring("encoding with right, refusing") &&
                 ContainsSubstring("verifying right") && ContainsSubstring("measuring a batch of 1 case, about"));
  CHECK(summary.refusals == std::map<std::string, int>{{"This codec refuses every matrix.", 2}});
  std::ostringstream end;
  print_refusals(summary.refusals, "", end);
  CHECK(end.str() == "2 refused for 1 reason:\n      2  This codec refuses every matrix.\n");
}

TEST_CASE("of many reasons and failures the most are shown and the rest is counted") {
  std::map<std::string, int> refusals;
  for (int i = 1; i <= 8; ++i) refusals["Reason " + std::to_string(i) + "."] = i;
  std::ostringstream out;
  print_refusals(refusals, "", out);
  CHECK_THAT(out.str(), StartsWith("36 refused for 8 reasons:\n      8  Reason 8.\n") &&
                            ContainsSubstring("      6  for 3 other reasons\n"));
  std::vector<std::pair<std::string, std::string>> failures(25, {"name", "It failed."});
  out.str("");
  print_failures(failures, "", out);
  CHECK(out.str() == "FAILED name\nFAILED name\nFAILED name\n       and 22 more\n       It failed.\n");
  for (int i = 0; i < 25; ++i) failures[i].second = "Reason " + std::to_string(i) + ".";
  out.str("");
  print_failures(failures, "", out);
  CHECK_THAT(out.str(), StartsWith("FAILED name\n       Reason 0.\n") && ContainsSubstring("Reason 19.") &&
                            ContainsSubstring("FAILED for 5 more reasons\n"));
}

TEST_CASE("the table at the end has the fastest kernel of each codec, the numbers first, and marks a busy machine") {
  reports::RecordSet records;
  const auto add = [&](const std::string& codec, const std::string& variant, double seconds, double bits) {
    reports::CaseRecord& record = records.cases.emplace_back(record_of(reports::Status::ok));
    record.codec.id = codec;
    record.data.source = "gaussian";
    record.data.rows = record.data.cols = 64;
    record.kernel.backend = "simd";
    record.kernel.variant = variant;
    record.kernel.policy = "default";
    record.kernel.device = "A CPU";
    record.kernel.threads = 2;
    record.size.bits_per_element = bits;
    record.size.stored_bytes = static_cast<int64_t>(bits * 100);
    record.size.entropy_bits_per_element = 4;
    record.time.cache = "streamed";
    record.time.median_s = seconds;
    for (int i = -3; i <= 3; ++i) record.time.samples_s.push_back(seconds * (1 + 0.001 * i));
  };
  add("raw", "rows", 1, 8);
  add("coder", "slow", 2, 5);
  add("coder", "fast", 0.5, 5);
  auto tables = fastest_cases(records, "raw");
  REQUIRE(tables.size() == 1);
  std::string text = fitted_text(tables[0], kLineColumns);
  INFO(text);
  CHECK_THAT(text, ContainsSubstring("matvec, gaussian, 64 × 64, streamed, simd on A CPU with 2 threads"));
  REQUIRE(tables[0].rows.size() == 2);
  const auto lines = lines_of(text);
  CHECK_THAT(lines[1], StartsWith("stored bits  of entropy  elements/s  vs raw  95 % interval  codec"));
  CHECK_THAT(lines[3], ContainsSubstring("5.000       1.250       125 G    2.00  1.99 … 2.01") &&
                           ContainsSubstring("coder") && ContainsSubstring("fast"));
  CHECK_THAT(lines[4], ContainsSubstring("8.000       2.000      62.5 G    1.00") && ContainsSubstring("raw"));
  CHECK(text.find("slow") == std::string::npos);
  CHECK(text.find('!') == std::string::npos);
  records.cases[2].time.disturbed_samples = {0, 1, 2, 3};
  CHECK_THAT(fitted_text(fastest_cases(records, "raw")[0], kLineColumns), ContainsSubstring("2.01 !"));
  // Another op, another dataset and sizes have tables of their own.
  add("coder", "fast", 0.5, 5);
  records.cases.back().kernel.op = "size";
  records.cases.back().check.decode = "exact";
  CHECK(fastest_cases(records, "raw").size() == 2);
  // Data that differ from the source's floats show their distance.
  CHECK(text.find("SNR") == std::string::npos);
  for (reports::CaseRecord& record : records.cases) record.distortion = {31.25, 0.0042};
  CHECK_THAT(fitted_text(fastest_cases(records, "raw")[0], kLineColumns),
             ContainsSubstring("2 threads, SNR 31.25 dB, largest error 0.0042") && !ContainsSubstring("SNR dB"));
  records.cases[0].distortion = {20, 0.5};
  CHECK_THAT(fitted_text(fastest_cases(records, "raw")[0], kLineColumns),
             ContainsSubstring("SNR dB  largest error") && ContainsSubstring(" 31.25         0.0042") &&
                 ContainsSubstring(" 20.00            0.5"));
}
