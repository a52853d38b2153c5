// Claims about runs: finished cases survive interruptions, done ones are skipped, a failure does not end the run, and
// oversized data is reported and not tried.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "datasets/files/safetensors.h"
#include "experiments/config/experiment.h"
#include "experiments/run/measure.h"
#include "experiments/run/run.h"
#include "experiments/run/run_record.h"
#include "reports/fields.h"
#include "reports/metrics.h"
#include "tests/datasets/temporary_file.h"
#include "tests/experiments/test_codecs.h"

using namespace ecmv;
using namespace ecmv::experiments;
using Catch::Matchers::ContainsSubstring;
using reports::Status;

namespace {

struct Fixture {
  codecs::Codec right = tests::make_codec(), throwing = [] {
    codecs::Codec codec = tests::make_codec();
    codec.encode = tests::throw_on_encode;
    return codec;
  }();
  std::vector<backends::Kernel> kernels = {tests::make_kernel<tests::multiply>()};
  std::vector<codecs::CodecEntry> codecs = {{"right", &right, kernels, {}}, {"throwing", &throwing, kernels, {}}};
  std::vector<reports::CaseRecord> records;
  RunOptions options;

  Fixture() {
    options.codecs = codecs;
    options.on_case = [this](const reports::CaseRecord& record) { records.push_back(record); };
  }
  Experiment experiment(const std::string& data, const std::string& ids,
                        const std::string& measure = "{repetitions: 2, min_time: 0.0001}") const {
    return parse_experiment("schema: 1\nname: runs\nmeasure: " + measure + "\nexperiments:\n  - data: " + data +
                                "\n    codecs: " + ids + "\n    kernels: {backend: scalar, threads: 1}\n",
                            "runs", {}, codecs);
  }
};

const std::string kThree = "{source: gaussian, sigma: 4, d: [16, 24, 32], layers: 2}";

}  // namespace

TEST_CASE("one failing case never ends the run") {
  Fixture fixture;
  const RunSummary summary = run_experiment(fixture.experiment(kThree, "[throwing, right]"), fixture.options);
  CHECK(fixture.records.size() == 6);
  CHECK(summary.counts.at(Status::ok) == 3);
  CHECK(summary.counts.at(Status::error) == 3);
  CHECK(summary.exit_code() == 5);
}

TEST_CASE("done cases are skipped and count as success") {
  Fixture fixture;
  const Experiment experiment = fixture.experiment(kThree, "right");
  fixture.options.done = {experiment.cases[0].key(), experiment.cases[2].key()};
  RunSummary summary = run_experiment(experiment, fixture.options);
  REQUIRE(fixture.records.size() == 1);
  CHECK(fixture.records[0].case_key == experiment.cases[1].key());
  CHECK(fixture.records[0].data.rows == 24);
  CHECK(summary.skipped == 2);
  fixture.options.done.insert(experiment.cases[1].key());
  summary = run_experiment(experiment, fixture.options);
  CHECK(summary.skipped == 3);
  CHECK(summary.exit_code() == 0);
}

TEST_CASE("an interruption keeps finished records and abandons the rest") {
  Fixture fixture;
  const Experiment experiment = fixture.experiment(kThree, "right");
  fixture.options.interrupted = [&] {
    return fixture.records.size() >= 1;
  };  // as if the signal came after the first record
  const RunSummary summary = run_experiment(experiment, fixture.options);
  REQUIRE(fixture.records.size() == 1);
  CHECK(fixture.records[0].status == Status::ok);
  CHECK(summary.interrupted);
  CHECK(summary.exit_code() == 130);
}

TEST_CASE("a case that is interrupted while it is measured leaves no record") {
  Fixture fixture;
  int asked = 0;
  const Experiment experiment = fixture.experiment("{source: gaussian, sigma: 4, d: 16, layers: 1}", "right",
                                                   "{repetitions: 50, min_time: 0.0001}");
  fixture.options.interrupted = [&] { return ++asked > 20; };
  const RunSummary summary = run_experiment(experiment, fixture.options);
  CHECK(fixture.records.empty());
  CHECK(summary.exit_code() == 130);
}

TEST_CASE("every repetition is kept, and statistics are those of the samples") {
  Fixture fixture;
  run_experiment(fixture.experiment("{source: gaussian, sigma: 4, d: 16, layers: 1}", "right",
                                    "{repetitions: 7, min_time: 0.0001}"),
                 fixture.options);
  REQUIRE(fixture.records.size() == 1);
  const auto& time = fixture.records[0].time;
  CHECK(time.samples_s.size() == 7);
  CHECK(time.median_s == reports::quantile(time.samples_s, 0.5));
  CHECK(time.p10_s <= time.median_s);
  CHECK(time.median_s <= time.p90_s);
}

TEST_CASE("a record knows how many of its codec's kernels and settings ran, whatever was filtered") {
  Fixture fixture;
  fixture.kernels = {tests::make_kernel<tests::multiply>("one"), tests::make_kernel<tests::multiply>("two"),
                     tests::make_kernel<tests::decode>("decodes")};
  fixture.codecs = {{"right", &fixture.right, fixture.kernels, {}}};
  fixture.options.codecs = fixture.codecs;
  Experiment experiment = fixture.experiment(kThree, "right");
  REQUIRE(experiment.cases.size() == 6);
  run_experiment(experiment, fixture.options);
  for (const reports::CaseRecord& record : fixture.records) {
    CHECK(record.entrants.kernels == 2);
    CHECK(record.entrants.known_kernels == 2);
    CHECK(record.entrants.settings == 1);
  }
  fixture.records.clear();
  filter_cases(experiment, "variant=two", "");
  run_experiment(experiment, fixture.options);
  REQUIRE(fixture.records.size() == 3);
  for (const reports::CaseRecord& record : fixture.records) {
    CHECK(record.entrants.kernels == 1);
    CHECK(record.entrants.known_kernels == 2);
  }
}

TEST_CASE("the energy of a pass is right where the counter moves less often than samples are taken") {
  TimedPass timed;
  for (int sample = 0; sample < 8; ++sample)  // two passes of 1 J each; the counter moves with every fourth sample
    timed.add_energy(100 + sample / 4 * 8, 100 + (sample + 1) / 4 * 8, 2);
  timed.add_energy(116, 3, 2);  // wrapped around
  CHECK(timed.energy_j == 16);
  CHECK(timed.energy_passes == 16);
}

TEST_CASE("samples are taken until their median is settled, or as often as the config says") {
  CHECK_FALSE(is_settled({1, 1, 1, 1, 1, 1, 1}, 0.01));  // seven samples have no interval
  CHECK(is_settled({1, 1, 1, 1, 1, 1, 1, 1}, 0.01));
  CHECK_FALSE(is_settled({1, 1, 1, 1, 1, 1, 1, 2}, 0.01));  // of eight the interval has all
  CHECK_FALSE(is_settled(std::vector<double>(50, 1), 0));
  std::vector<double> many(100, 1);
  many[0] = 5, many[1] = 0.1;
  CHECK(is_settled(many, 0.01));
  Fixture fixture;
  const std::string data = "{source: gaussian, sigma: 4, d: 64, layers: 2}";
  run_experiment(fixture.experiment(data, "right", "{repetitions: 40, min_time: 0.0001, until_noise: 0.99}"),
                 fixture.options);
  REQUIRE(fixture.records.size() == 1);
  CHECK(fixture.records[0].status == Status::ok);
  CHECK(fixture.records[0].time.samples_s.size() >= 8);
  CHECK(fixture.records[0].time.samples_s.size() < 40);
}

TEST_CASE("quantiles interpolate between order statistics") {
  CHECK(reports::quantile({3, 1, 2}, 0.5) == 2);
  CHECK(reports::quantile({1, 2}, 0.5) == 1.5);
  CHECK(reports::quantile({5}, 0.9) == 5);
  CHECK(reports::quantile({4, 0}, 0.25) == 1);
}

TEST_CASE("data that does not fit into memory is out_of_memory with the numbers, and other data still runs") {
  Fixture fixture;
  const RunSummary summary = run_experiment(
      fixture.experiment("{source: gaussian, sigma: 4, d: [131000, 16], layers: 1000}", "right"), fixture.options);
  REQUIRE(fixture.records.size() == 2);
  CHECK(fixture.records[0].status == Status::out_of_memory);
  CHECK_THAT(fixture.records[0].reason, ContainsSubstring("GiB are available"));
  CHECK(fixture.records[0].data.rows == 131000);
  INFO(fixture.records[1].reason);
  CHECK(fixture.records[1].status == Status::ok);
  CHECK(summary.exit_code() == 5);
}

TEST_CASE("a file of several shapes is recorded with all of them") {
  const std::vector<std::byte> bytes(40 * 24);
  const tests::TemporaryFile file(
      datasets::write_safetensors(std::vector<datasets::TensorView>{{"a", "I8", {24, 40}, bytes},
                                                                    {"b", "I8", {40, 24}, bytes},
                                                                    {"c", "I8", {2, 12, 40}, bytes},
                                                                    {"d", "I8", {24, 40}, bytes}}));
  Fixture fixture;
  run_experiment(fixture.experiment("{source: safetensors, file: " + file.path() + "}", "right"), fixture.options);
  REQUIRE(fixture.records.size() == 1);
  const reports::CaseRecord::Data& data = fixture.records[0].data;
  using Shape = reports::CaseRecord::Data::Shape;
  CHECK(data.shapes == std::vector<Shape>{{24, 40, 2}, {40, 24, 1}, {12, 40, 2}});
  CHECK(data.layers == 5);
  CHECK(reports::shape_label(fixture.records[0]) == "24 × 40 (2 layers), 40 × 24 (1 layer), 12 × 40 (2 layers)");
  CHECK(reports::elements_of(fixture.records[0]) == 4 * 24 * 40);
  run_experiment(fixture.experiment("{source: safetensors, file: " + file.path() + ", tensors: '^[ad]$'}", "right"),
                 fixture.options);
  CHECK(fixture.records.at(1).data.shapes.empty());
  CHECK(fixture.records.at(1).data.rows == 24);
}

TEST_CASE("a data file that is missing is found before the run, and one that goes is an error of its cases") {
  Fixture fixture;
  CHECK_THROWS_WITH(fixture.experiment("{source: safetensors, file: /nowhere/x.safetensors}", "right"),
                    ContainsSubstring("/nowhere/x.safetensors"));
  Experiment experiment = fixture.experiment("{source: gaussian, sigma: 4, d: 8, layers: 1}", "right");
  experiment.cases[0].data = {};
  experiment.cases[0].data.source = "safetensors";
  experiment.cases[0].data.texts = {{"file", "/nowhere/x.safetensors"}};
  const RunSummary summary = run_experiment(experiment, fixture.options);
  REQUIRE(fixture.records.size() == 1);
  CHECK(fixture.records[0].status == Status::error);
  CHECK_THAT(fixture.records[0].reason, ContainsSubstring("/nowhere/x.safetensors"));
  CHECK(summary.exit_code() == 5);
  REQUIRE(summary.failures.size() == 1);
  CHECK_THAT(summary.failures[0].first, ContainsSubstring("right/scalar:t1/matvec"));
}

TEST_CASE("a case whose pass is too long is timed_out and not measured") {
  Fixture fixture;
  run_experiment(fixture.experiment("{source: gaussian, sigma: 4, d: 512, layers: 4}", "right",
                                    "{repetitions: 2, max_seconds: 0.0000001}"),
                 fixture.options);
  REQUIRE(fixture.records.size() == 1);
  CHECK(fixture.records[0].status == Status::timed_out);
  CHECK(fixture.records[0].time.samples_s.empty());
}

TEST_CASE("oblong matrices run in order without a chain") {
  Fixture fixture;
  run_experiment(fixture.experiment("{source: gaussian, sigma: 4, shapes: [[24, 40]], layers: 3}", "right"),
                 fixture.options);
  REQUIRE(fixture.records.size() == 1);
  CHECK(fixture.records[0].status == Status::ok);
  CHECK(fixture.records[0].data.cols == 40);
}

TEST_CASE("a run record names machine, build and config") {
  Fixture fixture;
  const Experiment experiment = fixture.experiment(kThree, "right");
  const reports::RunRecord a = make_run_record(experiment, {"run", "x.yaml"}), b = make_run_record(experiment, {});
  CHECK(a.run != b.run);
  CHECK(a.config_hash == b.config_hash);
  CHECK_FALSE(a.cpu_model.empty());
  CHECK_FALSE(a.compiler.empty());
  CHECK(a.threads >= 1);
  CHECK(a.config_text == experiment.config_text);
  CHECK(a.arguments.size() == 2);
}
