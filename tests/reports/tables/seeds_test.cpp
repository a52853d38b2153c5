// Claims about seeds: they are repetitions, so no output shows the luckiest, or compares one with another's baseline.
#include "reports/tables/seeds.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>

#include "reports/compare.h"
#include "reports/exports/latex.h"
#include "reports/fields.h"
#include "reports/figures/figures.h"
#include "reports/keys.h"
#include "reports/tables/answer.h"
#include "reports/tables/tables.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;

namespace {

// Cases of one codec with a time and stored bytes for each seed, from 1 on.
void add(RecordSet& records, const std::string& codec, const std::vector<double>& seconds,
         const std::vector<std::int64_t>& bytes) {
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    CaseRecord r;
    r.status = Status::ok;
    r.case_key = codec + std::to_string(i);
    r.run = "r";
    r.data.source = "gaussian";
    r.data.rows = r.data.cols = 1000;
    r.data.type = "i8";
    r.data.sigma = 4;
    r.data.parameters["sigma"] = 4.0;
    r.data.seed = i + 1;
    r.data.hash = "hash of seed " + std::to_string(i);
    r.codec.id = codec;
    r.codec.non_default = std::vector<std::string>{};
    r.size.stored_bytes = r.size.payload_bytes = bytes[i];
    r.size.bits_per_element = 8e-6 * static_cast<double>(bytes[i]);
    r.size.entropy_bits_per_element = 4;
    r.kernel.backend = "simd", r.kernel.op = "matvec", r.kernel.variant = "rows";
    r.kernel.threads = 2, r.kernel.device = "Test CPU";
    for (int sample = 0; sample < 5; ++sample) r.time.samples_s.push_back(seconds[i] * (1 + 0.001 * sample));
    r.time.median_s = r.time.samples_s[2], r.time.p10_s = r.time.samples_s[0], r.time.p90_s = r.time.samples_s[4];
    r.time.elements = 1'000'000;
    r.time.cache = "streamed";
    r.check = {"exact", "exact", "intact"};
    records.cases.push_back(std::move(r));
  }
}

// A codec that is quick for one seed of three, and a baseline that is quick for another.
RecordSet three_seeds() {
  RecordSet records;
  add(records, "plain", {2e-3, 2e-3, 1e-3}, {1'000'000, 1'000'000, 1'000'000});
  add(records, "coder", {0.5e-3, 4e-3, 4e-3}, {500'000, 600'000, 700'000});
  return records;
}

}  // namespace

TEST_CASE("seeds of a case become one case with all samples, and sizes are their means") {
  const RecordSet each = three_seeds();
  const PooledSeeds pooled = pooled_seeds(each);
  REQUIRE(pooled.records.cases.size() == 2);
  CHECK(pooled.place_of == std::vector<std::size_t>{0, 0, 0, 1, 1, 1});
  const CaseRecord& coder = pooled.records.cases[1];
  CHECK(coder.time.samples_s.size() == 15);
  CHECK(std::abs(coder.time.median_s - 4e-3) < 1e-4);
  CHECK(coder.size.stored_bytes == 600'000);
  CHECK(std::abs(coder.size.bits_per_element - 4.8) < 1e-9);
  CHECK(std::abs(coder.pooled.least_bits - 4) < 1e-9);
  CHECK(std::abs(coder.pooled.most_bits - 5.6) < 1e-9);
  CHECK(field_text(coder, "seed") == "1, 2, 3");
  CHECK_THAT(field_text(coder, "data"), ContainsSubstring("seeds 1, 2, 3"));
  CHECK(contradictions(pooled.records).empty());
}

TEST_CASE("tables, answer, LaTeX and figures show neither the best seed nor another seed's baseline") {
  const RecordSet records = pooled_seeds(three_seeds()).records;
  const Contexts contexts(records, "plain");
  const double speedup = find_metric("speedup_vs_raw").value(records.cases[1], contexts.of(records.cases[1]));
  CHECK(std::abs(speedup - 0.5) < 0.01);  // 2 ms over 4 ms; the best seed alone would say 2 to 4
  const Answer found = answer(records, contexts);
  CHECK_THAT(found.sentence, ContainsSubstring("coder") && !ContainsSubstring("beats"));
  const auto tables = fastest_tables(records, contexts);
  REQUIRE(tables.size() == 1);
  REQUIRE(tables[0].rows.size() == 2);
  CHECK_THAT(to_markdown(tables[0]), ContainsSubstring("4.800 ± 0.800"));
  const CaseKeys keys(records);
  CHECK_THAT(to_macros(records, contexts, keys), ContainsSubstring("{speedup}{0.50}"));
}

TEST_CASE("a codec that failed for one seed has no baseline with all of them") {
  RecordSet records = three_seeds();
  records.cases[3].status = Status::error;
  const RecordSet pooled = pooled_seeds(records).records;
  REQUIRE(pooled.cases.size() == 3);
  const Contexts contexts(pooled, "plain");
  for (const CaseRecord& record : pooled.cases)
    if (record.codec.id == "coder" && record.status == Status::ok) CHECK(contexts.of(record).baseline == nullptr);
}

TEST_CASE("cases of one seed, and of different data, stay apart") {
  RecordSet records;
  add(records, "plain", {1e-3}, {1'000'000});
  add(records, "plain", {1e-3}, {1'000'000});  // the same seed again
  CHECK(pooled_seeds(records).records.cases.size() == 2);
  records.cases[1].data.seed = 2;
  CHECK(pooled_seeds(records).records.cases.size() == 1);
  records.cases[1].data.rows = 500;
  CHECK(pooled_seeds(records).records.cases.size() == 2);
}

TEST_CASE("the CSV has a row for each seed with the key that papers use, and figures can stand for seeds") {
  const RecordSet records = three_seeds();
  const Contexts contexts(records, "plain");
  const Table flat = with_columns(flat_table(records, contexts), {"key", "codec", "seed", "speedup_vs_raw"});
  REQUIRE(flat.rows.size() == 6);
  std::set<std::string> keys, seeds;
  for (const auto& row : flat.rows)
    if (row[1].text == "coder") keys.insert(row[0].text), seeds.insert(row[2].text);
  CHECK(keys.size() == 1);
  CHECK(seeds == std::set<std::string>{"1", "2", "3"});
  XySpec spec;
  spec.id = "mine", spec.x = "seed", spec.y = "elements_per_s", spec.asked_for = true;
  const auto figures = FigureMaker(records, contexts).xy(spec);
  REQUIRE(figures.size() == 1);
  CHECK(std::get<XyPlot>(figures[0].plot).series.at(0).points.size() == 3);
}

TEST_CASE("compare names the seed where there are several") {
  const RecordSet records = three_seeds();
  const Table table = comparison_table(compare_with_baseline(records, "plain"));
  REQUIRE(table.rows.size() == 3);
  for (const char* seed : {"seed 1", "seed 2", "seed 3"}) CHECK_THAT(to_markdown(table), ContainsSubstring(seed));
  RecordSet one = records;
  std::erase_if(one.cases, [](const CaseRecord& r) { return r.data.seed != 1; });
  CHECK_THAT(to_markdown(comparison_table(compare_with_baseline(one, "plain"))), !ContainsSubstring("seed 1"));
}
