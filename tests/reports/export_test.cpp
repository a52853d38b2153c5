// Claims about formats that other programs read: CSV, Google Benchmark's JSON, LaTeX. Tests whose program is missing
// are skipped.
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "reports/exports/google_benchmark.h"
#include "reports/exports/latex.h"
#include "reports/exports/pgfplots.h"
#include "reports/figures/figures.h"
#include "reports/keys.h"
#include "reports/report.h"
#include "reports/tables/tables.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Ended {
  int status = -1;
  std::string output;
};

Ended run(const std::string& command) {
  Ended ended;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ended;
  std::array<char, 4096> buffer;
  for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    ended.output.append(buffer.data(), got);
  const int status = ::pclose(pipe);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

// Rows of fields, quotes resolved.
std::vector<std::vector<std::string>> csv_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, {""});
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string& field = rows.back().back();
    if (quoted && text[i] == '"' && i + 1 < text.size() && text[i + 1] == '"')
      field += text[i++];
    else if (text[i] == '"')
      quoted = !quoted;
    else if (!quoted && text[i] == ',')
      rows.back().emplace_back();
    else if (!quoted && text[i] == '\n')
      rows.push_back({""});
    else
      field += text[i];
  }
  rows.pop_back();
  return rows;
}

RecordSet all_fixtures() {
  RecordSet records = fixture("mixed.jsonl");
  records.append(fixture("sweep.jsonl"));
  return records;
}

}  // namespace

TEST_CASE("the CSV is tidy: a row a case, plain names, numbers or nothing") {
  RecordSet records = all_fixtures();
  records.cases[0].codec.library_path = "lib.so";  // a † elsewhere
  const auto rows = csv_of(to_csv(flat_table(records, Contexts(records, "plain"))));
  REQUIRE(rows.size() == records.cases.size() + 1);
  static const std::regex name("[a-z][a-z0-9_.]*"), number("-?[0-9]+(\\.[0-9]+)?(e[+-]?[0-9]+)?");
  std::map<std::string, std::size_t> columns;
  for (std::size_t i = 0; i < rows[0].size(); ++i) {
    INFO(rows[0][i]);
    CHECK(std::regex_match(rows[0][i], name));
    CHECK(columns.emplace(rows[0][i], i).second);
  }
  for (const char* column : {"key", "codec", "setting.lanes", "sigma", "rows", "threads", "elements_per_s", "median_s",
                             "speedup_vs_raw", "speedup_vs_raw_low", "disturbed", "cache"}) {
    INFO(column);
    CHECK(columns.contains(column));
  }
  std::vector<std::string> numeric = {"sigma", "rows", "cols", "threads", "stored_bytes", "median_s", "p10_s"};
  for (const Metric& metric : all_metrics()) numeric.emplace_back(metric.id);
  std::size_t numbers = 0;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    REQUIRE(rows[r].size() == rows[0].size());
    for (const std::string& column : numeric) {
      const std::string& cell = rows[r][columns.at(column)];
      INFO(column << ": " << cell);
      CHECK((cell.empty() || std::regex_match(cell, number)));
      numbers += !cell.empty();
    }
    for (const std::string& cell : rows[r])
      for (const char* sign : {"†", "×", "±", "σ", "–"}) CHECK(cell.find(sign) == std::string::npos);
  }
  CHECK(numbers > 200);
}

TEST_CASE("keys are short, name each ok case once, and survive TeX") {
  const RecordSet records = all_fixtures();
  const CaseKeys keys(records);
  static const std::regex allowed("[A-Za-z0-9.=+,/-]+");
  std::set<std::string> seen;
  for (const CaseRecord& record : records.cases) {
    if (record.status != Status::ok) continue;
    INFO(keys.of(record));
    CHECK(std::regex_match(keys.of(record), allowed));
    CHECK(seen.insert(keys.of(record)).second);
    CHECK(keys.find(keys.of(record)) == &record);
  }
  CHECK(keys.of(case_of(records, "aaaa0001")) == "plain/s4/1000");
  CHECK(keys.of(case_of(records, "aaaa0002")).starts_with("plain/s4/1000/simd,loop"));  // a slower kernel
  CHECK(keys.find("nobody") == nullptr);
}

TEST_CASE("Google Benchmark's JSON has an entry a sample, named alike in every run") {
  const RecordSet records = fixture("mixed.jsonl");
  const auto json = nlohmann::json::parse(to_google_benchmark(records));
  CHECK(json.at("context").is_object());
  CHECK(json.at("context").at("date") == "2025-01-02T03:04:05Z");
  std::size_t samples = 0;
  for (const CaseRecord& record : records.cases)
    if (record.status == Status::ok) samples += record.time.samples_s.size();
  REQUIRE(json.at("benchmarks").size() == samples);
  const auto& first = json.at("benchmarks").at(0);
  CHECK(first.at("name") == "matvec/plain/s4/1000,layers=4/simd,rows,AVX2,t2");
  CHECK(first.at("run_name") == first.at("name"));
  CHECK(first.at("run_type") == "iteration");
  CHECK(first.at("repetitions") == 3);
  CHECK(first.at("repetition_index") == 0);
  CHECK(first.at("threads") == 2);
  CHECK(first.at("iterations") == 3);
  CHECK(std::abs(first.at("real_time").get<double>() - 1.9e6) < 1);
  CHECK(first.at("cpu_time") == first.at("real_time"));
  CHECK(first.at("time_unit") == "ns");
  // A faster kernel in another run changes no name.
  RecordSet other = records;
  for (CaseRecord& record : other.cases)
    if (record.kernel.variant == "loop") record.time.median_s = 1e-6;
  const auto again = nlohmann::json::parse(to_google_benchmark(other));
  for (std::size_t i = 0; i < samples; ++i)
    CHECK(again.at("benchmarks")[i].at("name") == json.at("benchmarks")[i].at("name"));
}

TEST_CASE("Google Benchmark's compare.py reads two exports") {
  const char* given = std::getenv("ECMV_COMPARE_PY");
  const std::string script = given != nullptr ? given : "/usr/share/benchmark/compare.py";
  if (!std::filesystem::exists(script))
    SKIP("There is no " + script + " (Debian and Ubuntu: libbenchmark-tools); ECMV_COMPARE_PY may name another.");
  const ScratchFolder folder;
  RecordSet records = fixture("sweep.jsonl");
  std::ofstream(folder.path / "base.json") << to_google_benchmark(records);
  for (CaseRecord& record : records.cases)
    for (double& sample : record.time.samples_s) sample *= 2;
  std::ofstream(folder.path / "new.json") << to_google_benchmark(records);
  const Ended compared = run("python3 '" + script + "' --no-color benchmarks '" + (folder.path / "base.json").string() +
                             "' '" + (folder.path / "new.json").string() + "'");
  if (compared.output.find("ModuleNotFoundError") != std::string::npos)
    SKIP("compare.py lacks a module: " + compared.output);
  INFO(compared.output);
  CHECK(compared.status == 0);
  CHECK_THAT(compared.output, ContainsSubstring("matvec/coder") && ContainsSubstring("+1.0000"));
}

TEST_CASE("every value of an ok case has a macro by its key, with the table's digits") {
  const RecordSet records = fixture("mixed.jsonl");
  const Contexts contexts(records, "plain");
  const std::string macros = to_macros(records, contexts, CaseKeys(records));
  CHECK_THAT(macros, ContainsSubstring("\\ecmv@def{plain/s4/1000}{speed}{2.000}"));
  CHECK_THAT(macros, ContainsSubstring("\\ecmv@def{plain/s4/1000}{bits}{8.000}"));
  CHECK_THAT(macros, ContainsSubstring("\\ecmv@def{plain/s4/1000}{speedup}{1.00}"));
  std::set<std::string> names;
  static const std::regex line("\\\\ecmv@def\\{[A-Za-z0-9.=+,/-]+\\}\\{[a-z-]+\\}");
  std::istringstream lines(macros);
  for (std::string text; std::getline(lines, text);) {
    std::smatch match;
    if (text.starts_with("\\ecmv@def{") && std::regex_search(text, match, line)) CHECK(names.insert(match[0]).second);
  }
  CHECK(names.size() > 20);
}

TEST_CASE("a paper's table has the rows that are asked for, and an unknown key is an error") {
  const RecordSet records = fixture("sweep.jsonl");
  const Contexts contexts(records, "plain");
  const CaseKeys keys(records);
  const auto all = paper_tables(records, contexts, keys, {});
  REQUIRE(all.size() == 1);
  CHECK(all[0].rows.size() == 12);
  CHECK(all[0].groups.size() == 4);
  const auto chosen = paper_tables(records, contexts, keys, {"plain/s4/1000", "plain/s2/1000"});
  REQUIRE(chosen.size() == 1);
  CHECK(chosen[0].rows.size() == 2);
  CHECK_THAT(chosen[0].groups.at(0).heading, ContainsSubstring("σ=4"));
  CHECK_THROWS_AS(paper_tables(records, contexts, keys, {"plain/s4/1001"}), ReportError);
  RecordSet many = records;  // a table too long for a page is split
  for (int sigma = 5; sigma < 40; ++sigma)
    for (std::size_t i = 0; i < 12; ++i) {
      CaseRecord record = records.cases[i];
      record.data.sigma = sigma;
      many.cases.push_back(record);
    }
  for (const Table& table : paper_tables(many, Contexts(many, "plain"), CaseKeys(many), {}))
    CHECK(table.rows.size() + table.groups.size() <= 37);
}

TEST_CASE("pgfplots source has balanced braces, error bars and the width of the column") {
  const RecordSet records = fixture("sweep.jsonl");
  const Contexts contexts(records, "plain");
  bool any_bars = false;
  for (const Figure& figure : FigureMaker(records, contexts).all()) {
    const std::string source = to_pgfplots(figure);
    INFO(source);
    CHECK(std::count(source.begin(), source.end(), '{') == std::count(source.begin(), source.end(), '}'));
    CHECK(source.find("\\textwidth") == std::string::npos);
    CHECK_THAT(source, ContainsSubstring("\\begin{tikzpicture}") && ContainsSubstring("\\linewidth"));
    any_bars |= source.find("error bars/.cd") != std::string::npos && source.find("+= (0,") != std::string::npos;
  }
  CHECK(any_bars);
}

TEST_CASE("a paper of two columns with the tables, a macro and every figure has no overfull box") {
  if (run("pdflatex --version").status != 0) SKIP("pdflatex is not installed.");
  if (run("kpsewhich pgfplots.sty booktabs.sty").status != 0) SKIP("pdflatex lacks pgfplots or booktabs.");
  const ScratchFolder folder;
  RecordSet records = all_fixtures();
  for (CaseRecord& record : records.cases) {  // as long as names get
    record.kernel.device = "Intel(R) Xeon(R) Processor";
    if (record.codec.id != "coder") continue;
    record.codec.id = "rans_byte_planes";
    record.codec.settings = {{"block_elements", std::int64_t{262144}}, {"layout", std::string("single_level")}};
  }
  ReportOptions options;
  options.baseline_codec = "plain";
  options.gnuplot = "none";
  const WrittenReport report = write_report(records, options, folder.path);
  std::string figures;
  for (const auto& file : report.files)
    if (file.extension() == ".tex" && file.parent_path().filename() == "figures")
      figures += "\\begin{figure}\\input{figures/" + file.filename().string() + "}\\caption{A figure.}\\end{figure}\n";
  REQUIRE_FALSE(figures.empty());
  std::ofstream(folder.path / "paper.tex")
      << "\\documentclass[twocolumn]{article}\n\\usepackage[utf8]{inputenc}\\usepackage[T1]{fontenc}\n"
         "\\usepackage{array,booktabs,pgfplots}\\pgfplotsset{compat=1.16}\\extrafloats{100}\n"
         "\\begin{document}\n\\input{macros}\n"
         "The code is \\ecmvval{plain/s4/1000}{speedup} times as fast.\n\\input{results}\n"
      << figures << "\\end{document}\n";
  const Ended compiled =
      run("cd '" + folder.path.string() + "' && timeout 300 pdflatex -interaction=nonstopmode paper.tex");
  INFO(compiled.output);
  CHECK(compiled.status == 0);
  CHECK(compiled.output.find("Overfull") == std::string::npos);
  CHECK(std::filesystem::exists(folder.path / "paper.pdf"));
}
