// Claims about marks: a number from disturbed times bears its mark in every output, by how much; a speed-up says how
// many uncompressed kernels ran; a run above its own bandwidth is named.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "reports/compare.h"
#include "reports/exports/latex.h"
#include "reports/exports/pgfplots.h"
#include "reports/figures/figures.h"
#include "reports/figures/gnuplot.h"
#include "reports/keys.h"
#include "reports/report.h"
#include "reports/tables/answer.h"
#include "reports/tables/tables.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;

namespace {

CaseRecord* first_timed(RecordSet& records, const std::string& codec) {
  for (CaseRecord& record : records.cases)
    if (record.codec.id == codec && record.status == Status::ok && !record.time.samples_s.empty()) return &record;
  throw ReportError("no such case");
}

}  // namespace

TEST_CASE("disturbance is graded by the noise that was measured") {
  CaseRecord r;
  r.status = Status::ok;
  r.time.samples_s = std::vector<double>(10, 1.0);
  r.time.median_s = 1, r.time.p10_s = 0.99, r.time.p90_s = 1.03;
  CHECK(disturbance_of(r) == Disturbance::none);
  r.host.other_cores = 0.5;
  CHECK(disturbance_of(r) == Disturbance::slight);
  CHECK(mark_of(disturbance_of(r)) == " !");
  r.time.p90_s = 1.3;
  CHECK(disturbance_of(r) == Disturbance::ruined);
  CHECK(mark_of(disturbance_of(r)) == " !!");
  r.time.p90_s = 1.03, r.host.waiting_share = 0.3;
  CHECK(disturbance_of(r) == Disturbance::ruined);
  r.host.waiting_share = 0.1, r.host.clock_share = 0.7;
  CHECK(disturbance_of(r) == Disturbance::ruined);
}

TEST_CASE("the mark stands beside the number in tables, LaTeX, macros, figures, CSV and on the terminal") {
  RecordSet records = fixture("sweep.jsonl");
  for (CaseRecord& record : records.cases)
    if (record.codec.id == "coder")
      record.time.disturbed_samples = {0, 1, 2}, record.time.p90_s = 2 * record.time.median_s;
  const Contexts contexts(records, "plain");
  const auto tables = fastest_tables(records, contexts);
  std::size_t speed = 0, ratio = 0;
  for (std::size_t i = 0; i < tables.at(0).columns.size(); ++i) {
    if (tables[0].columns[i].id == "elements_per_s") speed = i;
    if (tables[0].columns[i].id == "speedup_vs_raw") ratio = i;
  }
  for (const auto& row : tables[0].rows) {
    INFO(row[0].text);
    CHECK(row[speed].text.ends_with(" !!") == (row[0].text == "coder"));
    CHECK(row[ratio].text.ends_with(" !!") == (row[0].text == "coder"));
  }
  const CaseKeys keys(records);
  for (const Table& table : paper_tables(records, contexts, keys, {}))
    for (const auto& row : table.rows) CHECK(row.back().text.ends_with("!!") == (row[0].text == "coder"));
  const std::string macros = to_macros(records, contexts, keys);
  CHECK_THAT(macros, ContainsSubstring("{disturbed}{ruined}") && ContainsSubstring("{disturbed}{none}") &&
                         ContainsSubstring("\\PackageWarning{ecmv}"));
  CHECK_THAT(to_csv(flat_table(records, contexts)), ContainsSubstring("ruined"));
  for (const char* kind : {"throughput", "pareto", "sigma", "map_coder", "roofline", "break_even"}) {
    INFO(kind);
    for (const Figure& figure : FigureMaker(records, contexts).all())
      if (figure.id.starts_with(kind)) {
        CHECK_THAT(gnuplot_script(figure), ContainsSubstring("!!"));
        CHECK_THAT(to_pgfplots(figure), ContainsSubstring("!!"));
        break;
      }
  }
}

TEST_CASE("a speed-up bears the mark of its baseline, too") {
  RecordSet records = fixture("sweep.jsonl");
  for (CaseRecord& record : records.cases)
    if (record.codec.id == "plain") record.host.other_cores = 1;
  const Contexts contexts(records, "plain");
  const CaseRecord& coder = *first_timed(records, "coder");
  CHECK(disturbance_of(coder) == Disturbance::none);
  CHECK(disturbance_of(coder, contexts.of(coder)) == Disturbance::slight);
}

TEST_CASE("tables, answer, LaTeX and macros say how many uncompressed kernels ran, and \"best\" only if all did") {
  RecordSet records = fixture("sweep.jsonl");
  for (CaseRecord& record : records.cases) record.entrants = {3, 13, 1};
  const auto outputs = [&] {
    const Contexts contexts(records, "plain");
    std::string text = answer(records, contexts).sentence;
    for (const Table& table : fastest_tables(records, contexts)) text += to_markdown(table);
    for (const Table& table : paper_tables(records, contexts, CaseKeys(records), {})) text += to_latex(table);
    return text + to_macros(records, contexts, CaseKeys(records));
  };
  const std::string filtered = outputs();
  CHECK_THAT(filtered, ContainsSubstring("; only 3 of 13 uncompressed kernels ran") &&
                           ContainsSubstring(" · 3 of 13 uncompressed kernels ran**") && ContainsSubstring("\\emph{") &&
                           ContainsSubstring("{raw-kernels}{3}") && ContainsSubstring("{raw-kernels-known}{13}") &&
                           !ContainsSubstring("best of"));
  CHECK_THAT(to_markdown(coverage_table(records)), ContainsSubstring("; 3 of 13 kernels, 1 setting"));
  for (CaseRecord& record : records.cases) record.entrants = {13, 13, 1};
  CHECK_THAT(outputs(), ContainsSubstring("plain is the best of 13 uncompressed kernels") &&
                            !ContainsSubstring("of 13 uncompressed kernels ran"));
  for (CaseRecord& record : records.cases) record.entrants = {};  // an older record
  CHECK_THAT(outputs(), !ContainsSubstring("kernels ran") && !ContainsSubstring("the best of"));
  CHECK_THAT(to_markdown(coverage_table(records)), !ContainsSubstring("kernels,"));
}

TEST_CASE("the kernels of a run survive their record") {
  CaseRecord record = fixture("sweep.jsonl").cases.front();
  record.entrants = {3, 13, 2};
  record.time.energy_j = 0.25;
  const AnyRecord read = parse_record(to_json_line(record));
  const auto& back = std::get<CaseRecord>(read);
  CHECK(back.entrants.kernels == 3);
  CHECK(back.entrants.known_kernels == 13);
  CHECK(back.entrants.settings == 2);
  CHECK(back.time.energy_j == 0.25);
}

TEST_CASE("a run with streamed cases more than 5 % above its read bandwidth is named") {
  RecordSet records = fixture("sweep.jsonl");
  const auto sentences = [&] {
    const Contexts contexts(records, "plain");
    return runs_beyond_bandwidth(records, contexts);
  };
  double most = 0;
  for (const CaseRecord& record : records.cases)
    if (record.time.cache == "streamed" && record.time.median_s > 0)
      most = std::max(most, static_cast<double>(record.size.stored_bytes) / record.time.median_s);
  for (BandwidthRecord& bandwidth : records.bandwidths) bandwidth.read_bytes_per_s = most / 1.04;
  CHECK(sentences().empty());
  for (BandwidthRecord& bandwidth : records.bandwidths) bandwidth.read_bytes_per_s = most / 1.06;
  REQUIRE(sentences().size() == 1);
  CHECK_THAT(sentences()[0], ContainsSubstring("BANDWIDTH: ") && ContainsSubstring("of run r1") &&
                                 ContainsSubstring("up to 1.06 times"));
  const ScratchFolder folder;
  ReportOptions options;
  options.baseline_codec = "plain", options.gnuplot = "no-such-gnuplot";
  write_report(records, options, folder.path);
  CHECK_THAT(file_text(folder.path / "results.md"), ContainsSubstring("BANDWIDTH: "));
}
