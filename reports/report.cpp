// Everything a report consists of, in the order of its making: 1. the cases that count, 2. tables, 3.
// figures, 4. files.
#include "reports/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "reports/block_tables.h"
#include "reports/fields.h"
#include "reports/gnuplot.h"
#include "reports/html.h"
#include "reports/latex.h"
#include "reports/pgfplots.h"
#include "reports/tables.h"

namespace ecmv::reports {
namespace {

constexpr std::size_t kMostCases = 30'000;  // a page of 100 MB

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The last record of each run.
std::map<std::string_view, const RunRecord*> runs_by_id(const RecordSet& records) {
  std::map<std::string_view, const RunRecord*> runs;
  for (const RunRecord& run : records.runs) runs[run.run] = &run;
  return runs;
}

// Distinct values in order of appearance, joined.
template <class Range, class Text>
std::string distinct(const Range& range, Text text_of) {
  std::string joined;
  std::set<std::string> seen;
  for (const auto& item : range) {
    const std::string text = text_of(item);
    if (!text.empty() && seen.insert(text).second) joined += (joined.empty() ? "" : ", ") + text;
  }
  return joined;
}

}  // namespace

RecordSet without_superseded(const RecordSet& records, std::int64_t& superseded) {
  RecordSet kept;
  kept.runs = records.runs, kept.bandwidths = records.bandwidths, kept.notes = records.notes;
  superseded = 0;
  const auto runs = runs_by_id(records);
  std::set<std::string> ok_later;
  for (auto record = records.cases.rbegin(); record != records.cases.rend(); ++record) {
    const auto run = runs.find(record->run);
    const std::string key = record->case_key + "|" +
                            (run == runs.end() ? record->run
                                               : fmt::format("{} {} {}", run->second->cpu_model, run->second->cores,
                                                             run->second->memory_bytes));
    if (record->status == Status::ok)
      ok_later.insert(key);
    else if (!record->case_key.empty() && ok_later.contains(key)) {
      ++superseded;
      continue;
    }
    kept.cases.push_back(*record);
  }
  std::reverse(kept.cases.begin(), kept.cases.end());
  return kept;
}

std::vector<std::pair<Status, std::int64_t>> count_statuses(const RecordSet& records) {
  std::map<Status, std::int64_t> counts;
  for (const CaseRecord& record : records.cases) ++counts[record.status];
  std::vector<std::pair<Status, std::int64_t>> list;
  for (Status status : {Status::incorrect, Status::error, Status::out_of_memory, Status::timed_out, Status::unavailable,
                        Status::refused}) {
    if (counts[status] > 0) list.emplace_back(status, counts[status]);
  }
  list.emplace_back(Status::ok, counts[Status::ok]);
  return list;
}

WrittenReport write_report(const RecordSet& all_records, const ReportOptions& options,
                           const std::filesystem::path& directory) {
  WrittenReport report;
  // 1. The cases that count.
  if (all_records.cases.empty()) {
    throw ReportError("there is no case in these records: nothing was measured, so there is nothing to report");
  }
  if (all_records.cases.size() > kMostCases)
    throw ReportError(fmt::format("these records have {} cases, and a report has room for {}: give fewer files",
                                  all_records.cases.size(), kMostCases));
  std::int64_t superseded = 0;
  const RecordSet records = without_superseded(all_records, superseded);
  const Contexts contexts(records, options.baseline_codec);
  const auto disturbed = std::count_if(records.cases.begin(), records.cases.end(), is_disturbed);
  if (disturbed > 0)
    report.warnings.push_back(fmt::format(
        "DISTURBED: other programs were in the way of {} of {} cases. Their times are marked with an exclamation mark "
        "and decide nothing.",
        disturbed, records.cases.size()));
  report.warnings.insert(report.warnings.end(), records.notes.begin(), records.notes.end());
  if (superseded > 0) {
    report.warnings.push_back(
        fmt::format("{} earlier records are left out because the same case was ok when tried again", superseded));
  }
  for (const std::string& sentence : contradictions(records)) report.warnings.push_back(sentence);
  for (const RunRecord& run : records.runs) {
    if (run.git_dirty)
      report.warnings.push_back(fmt::format("run {} was built from a source tree with local changes", run.run));
  }
  const auto known_runs = runs_by_id(records);
  std::set<std::string> runs_without_provenance;
  for (const CaseRecord& record : records.cases) {
    if (!known_runs.contains(record.run) && runs_without_provenance.insert(record.run).second) {
      report.warnings.push_back(
          fmt::format("there is no run record for the cases of run \"{}\": machine and build are unknown", record.run));
    }
  }
  constexpr std::size_t kShown = 100;
  if (report.warnings.size() > kShown) {
    const std::size_t more = report.warnings.size() - kShown;
    report.warnings.resize(kShown);
    report.warnings.push_back(fmt::format("{} more sentences like these are not shown", more));
  }

  // 2. Tables.
  Page page;
  const std::string experiments = distinct(records.cases, [](const CaseRecord& r) { return r.experiment; });
  page.title = !options.title.empty() ? options.title : !experiments.empty() ? experiments : "Report";
  page.question = distinct(records.runs, [](const RunRecord& r) { return r.question; });
  page.counts = count_statuses(records);
  for (Table& table : std::vector<Table>{failures_table(records), refusals_table(records)}) {
    if (!table.rows.empty()) page.problems.push_back(std::move(table));
  }
  const std::vector<Table> fastest = fastest_tables(records, contexts), all = results_tables(records, contexts);
  page.results = fastest;
  page.results.insert(page.results.end(), all.begin(), all.end());
  for (Table& table : block_tables(records)) page.sizes.push_back(std::move(table));
  page.sizes.push_back(coverage_table(records));
  const Table libraries = library_table(records);
  if (!libraries.rows.empty()) page.sizes.push_back(libraries);
  if (!records.bandwidths.empty()) page.sizes.push_back(bandwidth_table(records));
  page.glossary.push_back(metrics_table());
  if (!records.runs.empty()) page.provenance.push_back(provenance_table(records));
  for (const RunRecord& run : records.runs) {
    if (!run.config_text.empty())
      page.texts.emplace_back(fmt::format("Configuration of run {}", run.run), run.config_text);
  }
  for (const RunRecord& run : all_records.runs) page.json_lines.push_back(to_json_line(run));
  for (const BandwidthRecord& bandwidth : all_records.bandwidths) page.json_lines.push_back(to_json_line(bandwidth));
  for (const CaseRecord& record : all_records.cases) page.json_lines.push_back(to_json_line(record));

  // 3. Figures.
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) throw ReportError(fmt::format("cannot create {}: {}", directory.string(), failure.message()));
  const FigureMaker maker(records, contexts);
  std::vector<Figure> figures;
  for (const XySpec& spec : options.more_figures) {
    std::vector<Figure> made = maker.xy(spec);
    if (made.empty())
      report.warnings.push_back(fmt::format("no figure of {} over {}: no facet has two x values", spec.y, spec.x));
    std::move(made.begin(), made.end(), std::back_inserter(figures));
  }
  for (Figure& figure : maker.all()) figures.push_back(std::move(figure));
  for (Figure& figure : block_figures(records)) figures.push_back(std::move(figure));
  for (const DrawnFigure& drawn :
       draw(figures, directory / "figures", {options.gnuplot, options.gnuplot_seconds}, report.warnings)) {
    page.figures.push_back({drawn.figure, drawn.svg.empty() ? "" : read_file(drawn.svg)});
    for (const char* kind : {".dat", ".gp"}) report.files.push_back(directory / "figures" / (drawn.figure->id + kind));
    for (const auto& file : {drawn.svg, drawn.pdf}) {
      if (!file.empty()) report.files.push_back(file);
    }
  }
  page.warnings = report.warnings;

  // 4. Files.
  auto write = [&](const char* name, const std::string& text) {
    const std::filesystem::path path = directory / name;
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file) throw ReportError(fmt::format("cannot write {}", path.string()));
    report.files.push_back(path);
  };
  std::string markdown = fmt::format("# {}\n\n", one_line(page.title));
  if (!page.question.empty()) markdown += one_line(page.question) + "\n\n";
  for (const auto& [status, count] : page.counts) markdown += fmt::format("* {}: {}\n", to_string(status), count);
  for (const std::string& warning : page.warnings) markdown += fmt::format("* Note: {}\n", one_line(warning));
  std::string latex = "% Needs \\usepackage{booktabs,longtable}.\n";
  for (const auto* tables : {&page.problems, &page.results, &page.sizes, &page.provenance}) {
    for (const Table& table : *tables) {
      markdown.append("\n").append(to_markdown(table));
      latex.append("\n").append(to_latex(table));
    }
  }
  write("report.html", to_html(page));
  write("results.md", markdown);
  write("results.csv", to_csv(flat_table(records, contexts)));
  write("results.tex", latex);
  write("macros.tex", to_macros(all));
  write("plots.tex", to_pgfplots(figures));

  for (const Table& table : page.problems) report.terminal_text += to_text(table) + "\n";
  for (const Table& table : fastest.empty() ? summary_tables(records, contexts) : fastest)
    report.terminal_text += to_text(table) + "\n";
  if (!libraries.rows.empty()) report.terminal_text += to_text(libraries) + "\n";
  return report;
}

}  // namespace ecmv::reports
