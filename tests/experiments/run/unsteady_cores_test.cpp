// Claims about runs on cores that do not keep their speed: samples next to an unsteady reading are marked and kept.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "experiments/config/experiment.h"
#include "experiments/run/run.h"
#include "reports/record.h"
#include "tests/experiments/test_codecs.h"

using namespace ecmv;
using namespace ecmv::experiments;
using backends::cpu::CoreReading;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

namespace {

struct Fixture {
  codecs::Codec right = tests::make_codec();
  std::vector<backends::Kernel> kernels = {tests::make_kernel<tests::multiply>()};
  std::vector<codecs::CodecEntry> codecs = {{"right", &right, kernels, {}}};
  std::vector<reports::CaseRecord> records;
  std::ostringstream said;
  RunOptions options;

  Fixture() {
    options.codecs = codecs;
    options.progress = &said;
    options.on_case = [this](const reports::CaseRecord& record) { records.push_back(record); };
  }
  // One case of five samples in one batch.
  reports::CaseRecord run(backends::cpu::CoreWatch* cores, RunSummary* summary = nullptr) {
    options.cores = cores;
    const Experiment experiment = parse_experiment(
        "schema: 1\nname: unsteady\nmeasure: {repetitions: 5, min_time: 0.0001}\nexperiments:\n"
        "  - data: {source: gaussian, sigma: 4, d: 16, layers: 2}\n    codecs: right\n"
        "    kernels: {backend: scalar, threads: 1}\n",
        "unsteady", {}, codecs);
    const RunSummary found = run_experiment(experiment, options);
    if (summary != nullptr) *summary = found;
    REQUIRE(records.size() == 1);
    REQUIRE(records[0].status == reports::Status::ok);
    return records[0];
  }
};

// Readings of cores at these shares of their speed, one after the other; the last one stays.
backends::cpu::CoreWatch watch_of(std::vector<double> shares) {
  return backends::cpu::CoreWatch([shares, next = size_t{0}]() mutable {
    const double share = shares[std::min(next++, shares.size() - 1)];
    CoreReading reading;
    reading.dependent_s = 1e-9 / share;
    reading.independent_s = 0.1e-9 / share;
    reading.clock_hz = 3e9 * share;
    reading.throttled = 7;
    return reading;
  });
}

}  // namespace

TEST_CASE(
    "samples next to which the cores changed their speed are marked, kept, and said in the record and at the end") {
  Fixture fixture;
  // Readings come at the start of the run, before the first sample and after the last one; a batch this short has none
  // between.
  backends::cpu::CoreWatch watch = watch_of({1, 1, 0.6});
  watch.look();
  RunSummary summary;
  const reports::CaseRecord record = fixture.run(&watch, &summary);
  CHECK(record.time.samples_s.size() == 5);
  CHECK(record.time.unsteady_samples == std::vector<int64_t>{0, 1, 2, 3, 4});
  CHECK(reports::is_disturbed(record));
  CHECK_THAT(record.host.clock_share, WithinRel(0.6, 1e-12));
  CHECK_THAT(record.host.throughput_share, WithinRel(0.6, 1e-12));
  CHECK(record.host.clock_hz == 0.6 * 3e9);
  CHECK(record.host.throttle_events == 0);
  CHECK(summary.disturbed == 1);
  CHECK(summary.disturbers.cores);
  CHECK_THAT(summary.disturbers.text(), ContainsSubstring("unsteady cores"));
  CHECK_THAT(fixture.said.str(), ContainsSubstring("elements/s !"));
}

TEST_CASE("a reading before a sample marks it, too, though the one after it is right again") {
  Fixture fixture;
  backends::cpu::CoreWatch watch = watch_of({1, 0.8, 1});
  watch.look();
  const reports::CaseRecord record = fixture.run(&watch);
  CHECK(record.time.unsteady_samples == std::vector<int64_t>{0, 1, 2, 3, 4});
  CHECK_THAT(record.host.clock_share, WithinRel(0.8, 1e-12));
}

TEST_CASE("cores that keep their speed mark nothing, and without a watch the record says nothing of them") {
  Fixture steady, unwatched;
  backends::cpu::CoreWatch watch = watch_of({1, 0.99, 1});
  const reports::CaseRecord record = steady.run(&watch);
  CHECK(record.time.unsteady_samples.empty());
  CHECK_THAT(record.host.clock_share, WithinRel(0.99, 1e-12));
  CHECK(std::isnan(unwatched.run(nullptr).host.clock_share));
}
