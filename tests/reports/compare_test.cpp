// Claims about comparisons: verdicts follow from samples, intervals agree with the rank test's tables.
#include "reports/compare.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <map>

#include "reports/metrics.h"
#include "reports/tables/tables.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

namespace {

CaseRecord timed(const std::string& key, std::vector<double> samples, std::int64_t stored = 100) {
  CaseRecord record;
  record.status = Status::ok;
  record.case_key = key;
  record.size.stored_bytes = stored;
  record.time.samples_s = std::move(samples);
  record.time.elements = 1000;
  record.time.cache = "streamed";
  return record;
}

// One of several codecs' cases in one set: seven samples around `seconds`.
CaseRecord of_codec(const std::string& codec, const std::string& key, double seconds, std::int64_t stored = 100) {
  CaseRecord record = timed(key, {}, stored);
  for (int i = -3; i <= 3; ++i) record.time.samples_s.push_back(seconds * (1 + 0.001 * i));
  record.time.median_s = seconds;
  record.codec.id = codec;
  record.kernel.op = "matvec";
  return record;
}

Verdict verdict(std::vector<double> base, std::vector<double> other) {
  RecordSet a, b;
  a.cases = {timed("k", std::move(base))};
  b.cases = {timed("k", std::move(other))};
  return compare(a, b).rows.at(0).verdict;
}

}  // namespace

TEST_CASE("verdicts follow from the samples") {
  const std::vector<double> one = {1.000, 1.001, 1.002, 1.003, 1.004, 1.005, 1.006};
  auto times = [](std::vector<double> samples, double factor) {
    for (double& s : samples) s *= factor;
    return samples;
  };
  CHECK(verdict(one, one) == Verdict::same);
  CHECK(verdict(one, times(one, 1.10)) == Verdict::slower);
  CHECK(verdict(one, times(one, 0.90)) == Verdict::faster);
  CHECK(verdict(one, times(one, 1.01)) == Verdict::same);  // below the smallest change that counts
  const std::vector<double> noisy = {0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4};
  CHECK(verdict(noisy, times(noisy, 1.05)) == Verdict::unsure);
  CHECK(verdict({1, 1, 1}, {2, 2, 2}) == Verdict::unsure);  // three samples cannot carry 95 %
  CHECK(verdict({1, 1.001, 1.002, 1.003}, {2, 2.001, 2.002, 2.003}) == Verdict::slower);
}

TEST_CASE("the interval cuts as many pairs as the tables of the rank test say") {
  // Critical values of U, two-sided 5 %: (4,4) 0, (5,5) 2, (8,8) 13, (10,10) 23, (5,8) 6. One set has samples at powers
  // of two, the other ones, so the k-th smallest ratio shows where the cut was made.
  struct Row {
    std::size_t n, m, critical;
  };
  for (const Row& row : {Row{4, 4, 0}, Row{5, 5, 2}, Row{8, 8, 13}, Row{10, 10, 23}, Row{5, 8, 6}}) {
    std::vector<double> base, other, ratios;
    for (std::size_t i = 0; i < row.n; ++i) base.push_back(std::exp2(static_cast<double>(i)));
    for (std::size_t j = 0; j < row.m; ++j) other.push_back(std::pow(3.0, static_cast<double>(j)));
    for (double b : base) {
      for (double o : other) ratios.push_back(b / o);
    }
    std::sort(ratios.begin(), ratios.end());
    const Interval interval = ratio_interval(base, other, 0.95);
    CHECK_THAT(interval.low, WithinRel(ratios[row.critical], 1e-12));
    CHECK_THAT(interval.high, WithinRel(ratios[ratios.size() - 1 - row.critical], 1e-12));
  }
}

TEST_CASE("exact counts and the normal approximation agree where they meet") {
  std::vector<double> forty, forty_one;
  for (int i = 0; i < 41; ++i) {
    const double sample = 1 + 0.001 * ((i * 17) % 41);
    if (i < 40) forty.push_back(sample);
    forty_one.push_back(sample);
  }
  const Interval exact = ratio_interval(forty, forty, 0.95), normal = ratio_interval(forty_one, forty_one, 0.95);
  CHECK_THAT(exact.low, WithinRel(normal.low, 1e-3));
  CHECK_THAT(exact.high, WithinRel(normal.high, 1e-3));
}

TEST_CASE("samples that are no times are errors") {
  CHECK_THROWS_AS(ratio_interval({}, {1}, 0.95), ReportError);
  CHECK_THROWS_AS(ratio_interval({0}, {1}, 0.95), ReportError);
  CHECK_THROWS_AS(ratio_interval({1}, {NAN}, 0.95), ReportError);
}

TEST_CASE("a slower case, a broken case and a larger size are regressions, nothing else is") {
  const std::vector<double> samples = {1, 1.001, 1.002, 1.003, 1.004};
  RecordSet base;
  base.cases = {timed("k", samples), timed("gone", samples)};
  auto regression = [&](auto change) {
    RecordSet other = base;
    change(other.cases);
    return compare(base, other).regression;
  };
  CHECK_FALSE(regression([](auto&) {}));
  CHECK_FALSE(regression([](auto& cases) { cases.pop_back(); }));
  CHECK_FALSE(regression([](auto& cases) { cases[0].size.stored_bytes = 99; }));
  CHECK(regression([](auto& cases) { cases[0].size.stored_bytes = 101; }));
  CHECK(regression([](auto& cases) { cases[0].status = Status::incorrect; }));
  CHECK(regression([](auto& cases) {
    for (double& s : cases[0].time.samples_s) s *= 1.2;
  }));
}

TEST_CASE("lost, added, broken and repaired cases are told, the worst first") {
  RecordSet base, other;
  base.cases = {timed("both", {1}), timed("lost", {1}), timed("breaks", {1}), timed("heals", {1})};
  base.cases[3].status = Status::error;
  other.cases = {timed("both", {1}), timed("added", {1}), timed("breaks", {1}), timed("heals", {1})};
  other.cases[2].status = Status::incorrect;
  const ComparisonResult result = compare(base, other);
  REQUIRE(result.rows.size() == 5);
  CHECK(result.rows[0].verdict == Verdict::broken);
  CHECK(result.rows[1].verdict == Verdict::lost);
  CHECK(result.rows[2].verdict == Verdict::unsure);
  CHECK(result.rows[3].verdict == Verdict::repaired);
  CHECK(result.rows[4].verdict == Verdict::added);
  CHECK(comparison_table(result).rows.size() == 5);
}

TEST_CASE("a retried case counts with its ok record, other work is not compared") {
  RecordSet base, other;
  base.cases = {timed("k", {1, 1, 1, 1})};
  other.cases = {timed("k", {1, 1, 1, 1}), timed("k", {1, 1, 1, 1})};
  other.cases[1].status = Status::error;
  CHECK(compare(base, other).rows.at(0).verdict == Verdict::same);
  other.cases[0].time.elements = 7;
  CHECK(compare(base, other).rows.at(0).verdict == Verdict::unsure);
}

TEST_CASE("comparing nothing is an error, not a success") {
  RecordSet base, other;
  base.cases = {timed("a", {1})};
  other.cases = {timed("b", {1})};
  CHECK_THROWS_AS(compare(base, other), ReportError);
}

TEST_CASE("within one set every case of other codecs is compared with the baseline codec's fastest case") {
  RecordSet records;
  records.cases = {of_codec("raw", "slow kernel", 2), of_codec("raw", "fast kernel", 1), of_codec("a", "half", 2, 60),
                   of_codec("a", "double", 0.5, 60), of_codec("b", "equal", 1, 130)};
  const ComparisonResult result = compare_with_baseline(records, "raw");
  REQUIRE(result.rows.size() == 3);  // fastest first
  for (const Comparison& row : result.rows) CHECK(row.base->case_key == "fast kernel");
  CHECK(result.rows[0].verdict == Verdict::faster);
  CHECK(result.rows[1].verdict == Verdict::same);
  CHECK(result.rows[2].verdict == Verdict::slower);
  CHECK_THAT(result.rows[0].speed_ratio.middle, WithinRel(2.0, 1e-12));
  CHECK(result.rows[0].speed_ratio.low < 2);
  CHECK(result.rows[0].speed_ratio.high > 2);
  CHECK(result.rows[0].stored_bytes_change == -40);
  CHECK(result.rows[1].stored_bytes_change == 30);
  CHECK_FALSE(result.regression);  // another codec that is slower or larger is no regression
  const std::string table = to_text(comparison_table(result));
  CHECK_THAT(table, ContainsSubstring("Comparison with raw") && ContainsSubstring("100 B") &&
                        ContainsSubstring("60 B") && ContainsSubstring("-40"));
}

TEST_CASE("within one set the pairs are those of the speed-ups in reports, and all others say why there is none") {
  const RecordSet records = fixture("mixed.jsonl");
  const Contexts contexts(records, "plain");
  const ComparisonResult result = compare_with_baseline(records, "plain");
  std::size_t others = 0, pairs = 0;
  for (const CaseRecord& record : records.cases) others += record.codec.id != "plain";
  CHECK(result.rows.size() == others);
  bool after_pairs = false;
  for (const Comparison& row : result.rows) {
    INFO(row.other->case_key);
    const bool is_pair = row.base != nullptr;
    CHECK(row.base == (row.other->status == Status::ok ? contexts.of(*row.other).baseline : nullptr));
    CHECK(is_pair == std::isfinite(row.speed_ratio.middle));
    CHECK((is_pair || (row.verdict == Verdict::unsure && !row.note.empty())));
    CHECK_FALSE((is_pair && after_pairs));
    after_pairs = !is_pair;
    pairs += is_pair;
  }
  CHECK(pairs > 0);
  CHECK(pairs < others);
}

TEST_CASE("within one set sizes are compared with the smallest of the baseline codec, without a speed") {
  RecordSet records;
  records.cases = {of_codec("raw", "r1", 1, 100), of_codec("raw", "r2", 1, 90), of_codec("a", "a", 1, 60)};
  for (CaseRecord& record : records.cases) record.time = {}, record.kernel.op = "size";
  const ComparisonResult result = compare_with_baseline(records, "raw");
  REQUIRE(result.rows.size() == 1);
  CHECK(result.rows[0].base->case_key == "r2");
  CHECK(result.rows[0].stored_bytes_change == -30);
  CHECK(std::isnan(result.rows[0].speed_ratio.middle));
}

TEST_CASE("what has no time is never the same: sizes are smaller, larger or equal, and failures are not ok") {
  CaseRecord base = timed("k", {}), other = timed("k", {});
  base.kernel.op = other.kernel.op = "size";
  CHECK(compare_cases(base, other).verdict == Verdict::same_size);
  other.size.stored_bytes = 101;
  CHECK(compare_cases(base, other).verdict == Verdict::larger);
  CHECK(compare_cases(other, base).verdict == Verdict::smaller);
  base.status = other.status = Status::refused;
  CHECK(compare_cases(base, other).verdict == Verdict::not_ok);
}

TEST_CASE("a summary counts verdicts and takes the geometric mean of ratios; what is in one set only can be left out") {
  const std::vector<double> one = {1.000, 1.001, 1.002, 1.003, 1.004, 1.005, 1.006};
  std::vector<double> twice = one, half = one;
  for (double& s : twice) s *= 2;
  for (double& s : half) s /= 2;
  RecordSet base, other;
  base.cases = {timed("a", one), timed("b", one), timed("gone", one)};
  other.cases = {timed("a", twice), timed("b", half), timed("new", one)};
  const ComparisonResult result = compare(base, other);
  const ComparisonSummary summary = summary_of(result);
  CHECK(summary.ratios == 2);
  CHECK_THAT(summary.mean_ratio, WithinRel(1.0, 1e-6));
  CHECK(to_string(summary) ==
        "4 cases: 1 SLOWER, 1 LOST, 1 FASTER, 1 ADDED; geometric mean of 2 speed ratios: 1.000 ×");
  CHECK(comparison_table(result).rows.size() == 4);
  CHECK(comparison_table(result, false).rows.size() == 2);
}

TEST_CASE("a baseline that is not there, or with which nothing can be compared, is an error") {
  RecordSet records;
  records.cases = {of_codec("raw", "r", 1), of_codec("a", "a", 1)};
  CHECK_THROWS_WITH(compare_with_baseline(records, "rwa"), "no case has the codec rwa; the records have a, raw");
  CHECK(compare_with_baseline(records, "rwa,raw").rows.size() == 1);  // any of several, as in reports
  records.cases[1].data.hash = "other";
  CHECK_THROWS_WITH(compare_with_baseline(records, "raw"), ContainsSubstring("nothing to compare"));
  records.cases.pop_back();
  CHECK_THROWS_WITH(compare_with_baseline(records, "raw"), ContainsSubstring("nothing to compare"));
}

TEST_CASE("a disturbed case decides nothing, however far apart the numbers are") {
  CaseRecord quiet = timed("k", std::vector<double>(9, 1.0)), busy = timed("k", std::vector<double>(9, 3.0));
  CHECK_FALSE(is_disturbed(quiet));
  CHECK(compare_cases(quiet, busy).verdict == Verdict::slower);
  busy.time.disturbed_samples = {4};  // more than a tenth of nine
  CHECK(is_disturbed(busy));
  for (const auto& [a, b] : {std::pair(&quiet, &busy), std::pair(&busy, &quiet), std::pair(&busy, &busy)}) {
    const Comparison found = compare_cases(*a, *b);
    CHECK(found.verdict == Verdict::unsure);
    CHECK_THAT(found.note, ContainsSubstring("disturbed"));
    CHECK(std::isfinite(found.speed_ratio.middle));  // the numbers stay
  }
  busy.time.disturbed_samples.clear();
  busy.host.other_cores = 0.5;
  CHECK(is_disturbed(busy));
  busy.kernel.compute_units = 132;  // a GPU does not share the CPU's cores
  CHECK_FALSE(is_disturbed(busy));
}

TEST_CASE("unsteady cores disturb like other programs, and what is said tells them apart") {
  CaseRecord quiet = timed("k", std::vector<double>(9, 1.0)), slow = timed("k", std::vector<double>(9, 3.0));
  slow.time.unsteady_samples = {7};
  CHECK(is_disturbed(slow));
  CHECK(compare_cases(quiet, slow).verdict == Verdict::unsure);
  CHECK(compare_cases(quiet, slow).note == "disturbed: unsteady cores were in the way");
  CaseRecord busy = quiet;
  busy.time.disturbed_samples = {3};
  CHECK(compare_cases(busy, slow).note == "disturbed: other programs and unsteady cores were in the way");
  // One sample of twenty is no tenth, the same one marked twice neither; two different ones are a tenth, three are
  // more.
  CaseRecord long_run = timed("k", std::vector<double>(20, 1.0));
  long_run.time.disturbed_samples = {4, 5};
  long_run.time.unsteady_samples = {5};
  CHECK_FALSE(is_disturbed(long_run));
  long_run.time.unsteady_samples = {6};
  CHECK(is_disturbed(long_run));
}

TEST_CASE("what a record says of disturbances is read back") {
  CaseRecord record = of_codec("a", "k", 1);
  record.time.disturbed_samples = {0, 3};
  record.time.unsteady_samples = {1};
  record.host = {1.5, 0.25, 0.125, 42, 0.75, 0.5, 8e8, 2.1e9, 3};
  const auto read = std::get<CaseRecord>(parse_record(to_json_line(record)));
  CHECK(read.time.disturbed_samples == record.time.disturbed_samples);
  CHECK(read.host.other_cores == 1.5);
  CHECK(read.host.stolen_share == 0.25);
  CHECK(read.host.waiting_share == 0.125);
  CHECK(read.host.involuntary_switches == 42);
  CHECK(read.time.unsteady_samples == record.time.unsteady_samples);
  CHECK(read.host.clock_share == 0.75);
  CHECK(read.host.throughput_share == 0.5);
  CHECK(read.host.dependent_ops_per_s == 8e8);
  CHECK(read.host.clock_hz == 2.1e9);
  CHECK(read.host.throttle_events == 3);
  const auto old = std::get<CaseRecord>(parse_record(to_json_line(of_codec("a", "k", 1))));
  CHECK(std::isnan(old.host.other_cores));
  CHECK_FALSE(is_disturbed(old));
}

TEST_CASE("the speed-up over raw has a colour only where the interval decides") {
  RecordSet records;
  records.cases = {of_codec("plain", "1", 1.0), of_codec("fast", "2", 0.5), of_codec("alike", "3", 0.995),
                   of_codec("busy", "4", 0.4)};
  records.cases[3].host.other_cores = 2;
  const Contexts contexts(records, "plain");
  const Table table = results_tables(records, contexts).at(0);
  const auto column = [&](std::string_view id) {
    return static_cast<std::size_t>(
        std::ranges::find(table.columns, id, [](const Column& c) { return std::string_view(c.id); }) -
        table.columns.begin());
  };
  std::map<std::string, Cell> speedups, speeds;
  for (const auto& row : table.rows) {
    speedups[row[column("codec")].text] = row[column("speedup_vs_raw")];
    speeds[row[column("codec")].text] = row[column("elements_per_s")];
  }
  CHECK(speedups["fast"].tone == Cell::Tone::good);
  CHECK(speedups["alike"].tone == Cell::Tone::plain);
  CHECK(speedups["busy"].tone == Cell::Tone::plain);
  CHECK_THAT(speedups["busy"].note, ContainsSubstring("disturbed"));
  CHECK(speedups["fast"].text == "2.00 ± 0.01");
  CHECK_THAT(speedups["fast"].note, ContainsSubstring("95 % interval 1.99 … 2.01"));
  CHECK(speeds["busy"].text.ends_with("!"));
  CHECK_FALSE(speeds["fast"].text.ends_with("!"));
}

TEST_CASE("weights that lay in another folder are the same data, and other content is not") {
  RecordSet before = fixture("sweep.jsonl"), now = before;
  for (auto* records : {&before, &now})
    for (CaseRecord& record : records->cases)
      record.data.parameters["file"] = std::string(records == &before ? "w.safetensors" : "/data/models/w.safetensors");
  for (CaseRecord& record : now.cases) record.case_key = "elsewhere " + record.case_key;
  const ComparisonResult found = compare(before, now);
  CHECK(found.rows.size() == before.cases.size());
  for (const Comparison& row : found.rows) CHECK((row.base != nullptr && row.other != nullptr));
  for (CaseRecord& record : now.cases) record.data.hash = "other";
  CHECK_THROWS_WITH(compare(before, now), Catch::Matchers::ContainsSubstring("one has matvec/") &&
                                              Catch::Matchers::ContainsSubstring("the other matvec/"));
}
