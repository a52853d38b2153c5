// Claims about tables. The golden texts lie in fixtures/golden_*. To change them, run with ECMV_WRITE_GOLDEN=1 and
// review the difference.
#include "reports/tables/tables.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdlib>
#include <set>

#include "reports/exports/latex.h"
#include "reports/fields.h"
#include "reports/figures/figures.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;

namespace {

void check_golden(const std::string& name, const std::string& text) {
  const auto path = fixture_path("golden_" + name);
  if (std::getenv("ECMV_WRITE_GOLDEN")) std::ofstream(path, std::ios::binary) << text;
  CHECK(text == file_text(path));
}

std::string all_markdown(const std::vector<Table>& tables) {
  std::string text;
  for (const Table& table : tables) text += to_markdown(table) + "\n";
  return text;
}

}  // namespace

TEST_CASE("the tables of the mixed fixture are the golden ones") {
  const RecordSet records = fixture("mixed.jsonl");
  const Contexts contexts(records, "plain");
  const auto results = results_tables(records, contexts);
  check_golden("results.md", all_markdown(results));
  check_golden("problems.md",
               all_markdown({failures_table(records), refusals_table(records), coverage_table(records)}));
  check_golden("cases.csv", to_csv(flat_table(records, contexts)));
  const CaseKeys keys(records);
  std::string latex;
  for (const Table& table : paper_tables(records, contexts, keys, {})) latex += to_latex(table);
  check_golden("results.tex", latex);
  check_golden("macros.tex", to_macros(records, contexts, keys));
}

TEST_CASE("codecs from shared objects bear a mark, and a table says which files they are") {
  RecordSet records = fixture("mixed.jsonl");
  CHECK(library_table(records).rows.empty());
  REQUIRE(records.cases[0].status == Status::ok);
  const std::string id = records.cases[0].codec.id;
  records.cases[0].codec.library_path = "/home/me/libcoder.so";
  records.cases[0].codec.library_hash = "ab12";
  const Contexts contexts(records, "plain");
  CHECK_THAT(all_markdown(results_tables(records, contexts)), ContainsSubstring(id + "†"));
  CHECK_THAT(all_markdown({coverage_table(records)}), ContainsSubstring(id + "†"));
  const Table table = library_table(records);
  REQUIRE(table.rows.size() == 1);
  CHECK(table.rows[0][0].text == id + "†");
  CHECK(table.rows[0][1].text == "/home/me/libcoder.so");
  CHECK(table.rows[0][2].text == "ab12");
  CHECK_THAT(to_latex(table), ContainsSubstring("\\textdagger{}"));
  CHECK(field_text(records.cases[0], "codec") == id);
  CHECK(field_text(records.cases[0], "codec_library") == "/home/me/libcoder.so");
}

TEST_CASE("sizes have a table of their own, without speeds, the smallest first") {
  RecordSet records = fixture("mixed.jsonl");
  for (CaseRecord& record : records.cases) {
    record.kernel = {};
    record.kernel.op = "size";
    record.time = {};
  }
  const auto tables = results_tables(records, Contexts(records, "plain"));
  REQUIRE(tables.size() == 1);
  CHECK(tables[0].id == "results_size");
  std::set<std::string> ids;
  size_t bits = 0;
  for (size_t i = 0; i < tables[0].columns.size(); ++i) {
    ids.insert(tables[0].columns[i].id);
    if (tables[0].columns[i].id == "bits_per_element") bits = i;
  }
  CHECK(ids.contains("ideal_bits_per_element"));
  CHECK(ids.contains("compression_ratio"));
  CHECK_FALSE(ids.contains("elements_per_s"));
  CHECK_FALSE(ids.contains("kernel"));
  for (size_t row = 1; row < tables[0].rows.size(); ++row)
    if (tables[0].heading_before(row) == nullptr)
      CHECK(std::stod(tables[0].rows[row][bits].text) >= std::stod(tables[0].rows[row - 1][bits].text));
  CHECK(coverage_table(records).columns.at(1).name == "size");
}

TEST_CASE("tables with a GPU's case show its decode rate and break-even bandwidth, other tables do not") {
  RecordSet records = fixture("mixed.jsonl");
  const auto columns = [&] {
    std::set<std::string> ids;
    const auto tables = results_tables(records, Contexts(records, "plain"));
    for (const Column& column : tables.at(0).columns) ids.insert(column.id);
    return ids;
  };
  CHECK_FALSE(columns().contains("elements_per_clock_and_unit"));
  for (CaseRecord& record : records.cases) {
    record.kernel.compute_units = 10;
    record.kernel.highest_clock_hz = 1e9;
  }
  CHECK(columns().contains("elements_per_clock_and_unit"));
  CHECK(columns().contains("break_even_bandwidth_bytes_per_s"));
  // 2.5e9 elements/s on 10 units at 1 GHz.
  CHECK_THAT(to_markdown(results_tables(records, Contexts(records, "plain")).at(0)), ContainsSubstring("0.25"));
  const Contexts contexts(records, "plain");
  const auto figures = FigureMaker(records, contexts).decode_rate();
  REQUIRE(figures.size() == 1);
  CHECK(figures[0].id == "decode_rate");
}

TEST_CASE("the tables of fastest kernels hold one row for each codec and settings") {
  const RecordSet records = fixture("mixed.jsonl");
  const Contexts contexts(records, "plain");
  const auto all = results_tables(records, contexts), fastest = fastest_tables(records, contexts);
  REQUIRE(fastest.size() == all.size());
  CHECK(all[0].rows.size() == 4);
  CHECK(fastest[0].rows.size() == 3);  // two kernels of the uncompressed codec
  CHECK(fastest[0].id == "fastest_matvec_streamed");
  CHECK(fastest[0].columns.size() < all[0].columns.size());
}

TEST_CASE("rows stand in groups by data and device, codec and kernel before the numbers") {
  const RecordSet records = fixture("sweep.jsonl");
  const auto tables = fastest_tables(records, Contexts(records, "plain"));
  REQUIRE(tables.size() == 1);
  const Table& table = tables[0];
  REQUIRE(table.groups.size() == 4);  // two sizes of two sigmas
  CHECK(table.groups[0].first_row == 0);
  CHECK(table.groups[0].heading == "gaussian σ=2, 1000 × 1000 (4 layers) · entropy 4.800 bits · cpu0, 2 threads");
  CHECK(table.rows.size() == 12);
  for (const Table::Group& group : table.groups) CHECK(group.first_row % 3 == 0);
  CHECK(table.columns.front().id == "codec");
  CHECK(table.columns[1].id == "kernel");
  CHECK(table.columns[2].id == "speedup_vs_raw");
  for (const Column& column : table.columns) CHECK(column.id != "data");
  CHECK_THAT(to_markdown(table), ContainsSubstring("| **gaussian σ=2, 1000 × 1000 (4 layers)"));
  CHECK_THAT(to_text(table),
             ContainsSubstring("\ngaussian σ=2, 1000 × 1000 (4 layers)") && ContainsSubstring("\n  plain"));
}

TEST_CASE("labels show the settings that are not defaults, of older records those that are not switched off") {
  CaseRecord record;
  record.codec.id = "coder";
  record.codec.settings = {{"lanes", std::int64_t{32}}, {"patches", std::int64_t{0}}, {"mode", std::string("fast")}};
  CHECK(codec_label(record) == "coder[lanes=32,mode=fast]");
  record.codec.non_default = {"patches"};
  CHECK(codec_label(record) == "coder[patches=0]");
  record.codec.non_default->clear();
  CHECK(codec_label(record) == "coder");
}

TEST_CASE("± is the larger distance to an end of the interval, and the note has both ends") {
  const Cell cell = interval_cell(2e9, {1.9e9, 2.25e9}, 1e9, 2);
  CHECK(cell.text == "2.00 ± 0.25");
  CHECK(cell.note == "1.90 … 2.25");
  CHECK(std::get<double>(cell.value) == 2e9);
  CHECK(interval_cell(2, {kUnknown, INFINITY}, 1, 1).text == "2.0");
  CHECK(interval_cell(kUnknown, {1, 2}, 1, 1).text == "–");
}

TEST_CASE("a wide interval shows its ends, and a small number two significant digits") {
  CHECK(interval_cell(0.82, {0.1, 19.53}, 1, 2).text == "0.10 … 20");
  CHECK(interval_cell(0.0031, {0.003, 0.0033}, 1, 2).text == "0.0031 ± 0.0002");
  CHECK(interval_cell(0.00312, {kUnknown, kUnknown}, 1, 2).text == "0.0031");
  CHECK(interval_cell(12.3, {12, 13}, 1, 2).text == "12.30 ± 0.70");
}

TEST_CASE("the kernel is the second column, and tables of sizes do not speak of kernels") {
  const RecordSet records = fixture("mixed.jsonl");
  for (const Table& table : results_tables(records, Contexts(records, "plain"))) {
    INFO(table.title);
    if (table.title == "sizes") continue;
    CHECK(table.columns[1].id == "kernel");
  }
  RecordSet sizes = records;
  for (CaseRecord& record : sizes.cases) record.kernel.op = "size", record.time = {};
  for (const Table& table : fastest_tables(sizes, Contexts(sizes, "plain"))) CHECK(table.title == "sizes");
}

TEST_CASE("resident and streamed cases, and different ops, never share a table") {
  const RecordSet records = fixture("mixed.jsonl");
  const auto tables = results_tables(records, Contexts(records, "plain"));
  REQUIRE(tables.size() == 3);
  CHECK(tables[0].title == "matvec, streamed");
  CHECK(tables[1].title == "matvec, resident");
  CHECK(tables[2].title == "decode, streamed");
  CHECK(tables[0].rows.size() == 4);
  CHECK(tables[1].rows.size() == 1);
  CHECK(tables[2].rows.size() == 1);
}

TEST_CASE("cases that are not ok are in no results table, but in those of failures and refusals") {
  const RecordSet records = fixture("mixed.jsonl");
  for (const Table& table : results_tables(records, Contexts(records, "plain"))) {
    CHECK(to_markdown(table).find("wrong") == std::string::npos);
  }
  CHECK_THAT(to_markdown(failures_table(records)), ContainsSubstring("the reference says 13"));
  const Table refusals = refusals_table(records);
  REQUIRE(refusals.rows.size() == 1);  // two cases, one reason
  CHECK(std::get<std::int64_t>(refusals.rows[0].back().value) == 2);
}

TEST_CASE("a missing value is a dash for people, an empty CSV field, and carries the reason") {
  const RecordSet records = fixture("no_baseline.jsonl");
  const Contexts contexts(records, "plain");
  const Table table = results_tables(records, contexts).at(0);
  const auto column = std::find_if(table.columns.begin(), table.columns.end(),
                                   [](const Column& c) { return c.id == "speedup_vs_raw"; });
  const Cell& cell = table.rows.at(0).at(static_cast<std::size_t>(column - table.columns.begin()));
  CHECK(cell.text == "–");
  CHECK(value_text(cell).empty());
  CHECK_THAT(cell.note, ContainsSubstring("did not run"));
}

TEST_CASE("coverage tells ok, refused with reason, failed and untried apart") {
  const RecordSet records = fixture("mixed.jsonl");
  const Table table = coverage_table(records);
  const std::string text = to_text(table);
  CHECK_THAT(text, ContainsSubstring("incorrect"));
  bool reason_is_note = false, untried = false;
  for (const auto& row : table.rows) {
    for (const Cell& cell : row) {
      reason_is_note |= cell.note.find("lanes must divide") != std::string::npos;
      untried |= cell.note == "nothing was tried";
    }
  }
  CHECK(reason_is_note);
  CHECK(untried);
}

TEST_CASE("special characters are escaped for each format") {
  Table table{"t", "a_b & 5 %", "", {{"x", "σ_1", "µs"}}, {{text_cell("a|b, \"c\" {d} \\ ×2")}}};
  CHECK_THAT(to_markdown(table), ContainsSubstring("a\\|b"));
  CHECK(to_csv(table) == "x\n\"a|b, \"\"c\"\" {d} \\ ×2\"\n");
  CHECK_THAT(to_latex(table), ContainsSubstring("a\\_b \\& 5 \\%") && ContainsSubstring("$\\sigma$\\_1") &&
                                  ContainsSubstring("\\{d\\} \\textbackslash{} $\\times$2"));
}
