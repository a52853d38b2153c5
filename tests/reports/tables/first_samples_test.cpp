// Claims about first samples: a report says whether they drift, and none is taken for a drift that chance explains.
#include "reports/tables/first_samples.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>

#include "reports/report.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;

namespace {

// A case whose first sample is `first` times the others, which lie within a hundredth of a millisecond.
void add(RecordSet& records, double first, std::size_t samples = 11) {
  CaseRecord r = fixture("sweep.jsonl").cases.front();
  r.case_key = "case " + std::to_string(records.cases.size());
  r.status = Status::ok;
  r.kernel.op = "matvec", r.kernel.device = "Test CPU", r.time.cache = "streamed";
  r.time.samples_s = {first * 1e-3};
  while (r.time.samples_s.size() < samples)
    r.time.samples_s.push_back(1e-3 + 1e-6 * (static_cast<double>(r.time.samples_s.size() % 11) - 5.5));
  records.cases.push_back(std::move(r));
}

RecordSet cases_with(const std::vector<double>& firsts) {
  RecordSet records;
  for (const double first : firsts) add(records, first);
  return records;
}

}  // namespace

TEST_CASE("first samples like the others are no drift, and a table says so") {
  const RecordSet records = cases_with({1, 1.001, 0.999, 1.3, 0.9998});
  const auto groups = first_samples(records);
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].cases == 5);
  CHECK(groups[0].slower == 1);
  CHECK(groups[0].faster == 0);
  CHECK(std::abs(groups[0].median - 1) < 2e-3);
  CHECK(std::abs(groups[0].most - 1.3) < 2e-3);
  CHECK_FALSE(groups[0].drift());
  CHECK(drifting_first_samples(records).empty());
  const Table table = first_samples_table(records);
  REQUIRE(table.rows.size() == 1);
  CHECK(table.rows[0].back().text == "no drift");
  CHECK(table.rows[0].size() == table.columns.size());
}

TEST_CASE("a first sample that is slower or faster in most cases is a drift, with a sentence") {
  const RecordSet slower = cases_with({1.1, 1.08, 1.2, 1}), faster = cases_with({0.9, 0.92, 1});
  CHECK(first_samples_table(slower).rows[0].back().text == "slower");
  CHECK(first_samples_table(faster).rows[0].back().text == "faster");
  const auto sentences = drifting_first_samples(slower);
  REQUIRE(sentences.size() == 1);
  CHECK_THAT(sentences[0], ContainsSubstring("DRIFT: the first sample of 3 of 4 cases of matvec, streamed, on Test CPU "
                                             "is slower than nine tenths of the others, in the median 1.09 times"));
  CHECK_FALSE(first_samples(cases_with({1.01, 1.01, 1.01}))[0].drift());  // by less than 2 %
}

TEST_CASE("few samples and cases that failed say nothing about first samples") {
  RecordSet records;
  add(records, 2, 4);
  add(records, 2);
  records.cases.back().status = Status::incorrect;
  CHECK(first_samples(records).empty());
  CHECK(first_samples_table(records).rows.empty());
}

TEST_CASE("the page says whether first samples drift, and warns of those that do") {
  const ScratchFolder folder;
  RecordSet records = cases_with({1.1, 1.08, 1.2});
  const auto warned = [&](const RecordSet& of) {
    for (const std::string& warning : write_report(of, {}, folder.path).warnings)
      if (warning.starts_with("DRIFT")) return true;
    return false;
  };
  CHECK(warned(records));
  CHECK_THAT(file_text(folder.path / "results.md"),
             ContainsSubstring("The first sample of each case beside its others"));
  CHECK_FALSE(warned(cases_with({1, 1, 1})));
  CHECK_THAT(file_text(folder.path / "results.md"), ContainsSubstring("no drift"));
}
