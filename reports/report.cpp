// All parts of a report: the cases that count, warnings, tables, figures, files.
#include "reports/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "reports/exports/html.h"
#include "reports/exports/latex.h"
#include "reports/exports/pgfplots.h"
#include "reports/fields.h"
#include "reports/figures/gnuplot.h"
#include "reports/keys.h"
#include "reports/tables/answer.h"
#include "reports/tables/block_tables.h"
#include "reports/tables/first_samples.h"
#include "reports/tables/seeds.h"
#include "reports/tables/tables.h"

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
std::string distinct(const Range& range, const char* separator, Text text_of) {
  std::string joined;
  std::set<std::string> seen;
  for (const auto& item : range) {
    const std::string text = text_of(item);
    if (!text.empty() && seen.insert(text).second) joined += (joined.empty() ? "" : separator) + text;
  }
  return joined;
}

// The two figures of the first screen. Among those that show the answer's case: bits against speed, and one over a
// parameter, or the nearest substitutes.
std::vector<std::size_t> lead_figures(const std::vector<Figure>& figures, const CaseRecord* subject) {
  std::vector<std::size_t> lead;
  auto take = [&](std::string_view kind, bool about_subject) {
    for (std::size_t i = 0; i < figures.size(); ++i) {
      const auto& cases = figures[i].cases;
      const bool shown = !about_subject || std::find(cases.begin(), cases.end(), subject) != cases.end();
      if (!figures[i].id.starts_with(kind) || !shown || std::find(lead.begin(), lead.end(), i) != lead.end()) continue;
      lead.push_back(i);
      return;
    }
  };
  for (const bool about_subject : {true, false})
    for (const char* kind :
         {"asked_for", "pareto", "throughput", "sigma", "batch", "shapes", "break_even", "size", "roofline", "blocks"})
      if (lead.size() < 2) take(kind, about_subject);
  return lead;
}

PageFigure page_figure(const DrawnFigure& drawn) {
  return {drawn.figure, drawn.svg.empty() ? "" : read_file(drawn.svg)};
}

std::string without_bold(std::string text) {
  for (std::size_t at = text.find("**"); at != std::string::npos; at = text.find("**", at)) text.erase(at, 2);
  return one_line(text);
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

namespace {

void expect_cases(const RecordSet& records) {
  if (records.cases.empty()) throw ReportError("the records hold no case, so there is nothing to report");
  if (records.cases.size() > kMostCases)
    throw ReportError(fmt::format("the records have {} cases, a report at most {}: give fewer files",
                                  records.cases.size(), kMostCases));
}

// "DISTURBED: ..." or nothing.
void warn_of_disturbed(const RecordSet& records, std::vector<std::string>& warnings) {
  std::int64_t disturbed = 0, ruined = 0;
  Disturbers disturbers;
  for (const CaseRecord& record : records.cases)
    if (is_disturbed(record)) {
      ++disturbed;
      ruined += disturbance_of(record) == Disturbance::ruined;
      disturbers.add(record);
    }
  if (disturbed > 0)
    warnings.push_back(fmt::format(
        "DISTURBED: {} were in the way of {} of {} cases. Their times are marked with ! and decide nothing{}.",
        disturbers.text(), disturbed, records.cases.size(),
        ruined > 0 ? fmt::format("; {} of them, marked with !!, {} worth nothing", ruined, ruined == 1 ? "is" : "are")
                   : ""));
}

std::vector<std::string> warnings_of(const RecordSet& records, const Contexts& contexts, std::int64_t superseded) {
  std::vector<std::string> warnings;
  warn_of_disturbed(records, warnings);
  for (const std::string& sentence : runs_beyond_bandwidth(records, contexts)) warnings.push_back(sentence);
  for (const std::string& sentence : drifting_first_samples(records)) warnings.push_back(sentence);
  warnings.insert(warnings.end(), records.notes.begin(), records.notes.end());
  if (superseded > 0)
    warnings.push_back(fmt::format("{} earlier records are left out: the case was ok when repeated", superseded));
  for (const std::string& sentence : contradictions(records)) warnings.push_back(sentence);
  for (const RunRecord& run : records.runs)
    if (run.git_dirty)
      warnings.push_back(fmt::format("run {} was built from a source tree with local changes", run.run));
  const auto known_runs = runs_by_id(records);
  std::set<std::string> without_provenance;
  for (const CaseRecord& record : records.cases)
    if (!known_runs.contains(record.run) && without_provenance.insert(record.run).second)
      warnings.push_back(fmt::format("run \"{}\" has no run record: machine and build are unknown", record.run));
  constexpr std::size_t kShown = 100;
  if (warnings.size() > kShown) {
    const std::size_t more = warnings.size() - kShown;
    warnings.resize(kShown);
    warnings.push_back(fmt::format("{} more warnings are not shown", more));
  }
  return warnings;
}

std::vector<Table> filled(std::initializer_list<Table> tables) {
  std::vector<Table> list;
  for (const Table& table : tables)
    if (!table.rows.empty()) list.push_back(table);
  return list;
}

struct ReportTables {
  std::vector<Table> failures, refusals, fastest, all, more, libraries;
};

// `each_seed`: seeds apart, since samples are in their order there.
ReportTables tables_of(const RecordSet& records, const Contexts& contexts, const RecordSet& each_seed) {
  ReportTables tables{filled({failures_table(records)}),
                      filled({refusals_table(records)}),
                      fastest_tables(records, contexts),
                      results_tables(records, contexts),
                      block_tables(records),
                      filled({library_table(records)})};
  for (Table& table :
       filled({shapes_table(records, contexts), steps_table(records), step_memory_table(records),
               strong_scaling_table(records, contexts), weak_scaling_table(records), forecast_table(records)}))
    tables.more.push_back(std::move(table));
  tables.more.push_back(coverage_table(records));
  if (!records.bandwidths.empty()) tables.more.push_back(bandwidth_table(records));
  for (Table& table : filled({first_samples_table(each_seed)})) tables.more.push_back(std::move(table));
  return tables;
}

// A figure over seeds, or with a line or a facet for each, shows them apart.
bool tells_seeds_apart(const XySpec& spec) {
  return spec.x == "seed" || spec.series == "seed" || std::ranges::find(spec.facets, "seed") != spec.facets.end();
}

std::vector<Figure> figures_of(const RecordSet& records, const Contexts& contexts, const FigureMaker& each_seed,
                               const ReportOptions& options, std::vector<std::string>& warnings) {
  const FigureMaker maker(records, contexts);
  std::vector<Figure> figures;
  for (const XySpec& spec : options.more_figures) {
    std::vector<Figure> made = (tells_seeds_apart(spec) ? each_seed : maker).xy(spec);
    if (made.empty())
      warnings.push_back(fmt::format("no figure of {} over {}: no facet has two x values", spec.y, spec.x));
    std::move(made.begin(), made.end(), std::back_inserter(figures));
  }
  for (Figure& figure : maker.all()) figures.push_back(std::move(figure));
  for (Figure& figure : block_figures(records)) figures.push_back(std::move(figure));
  return figures;
}

PageSection provenance_of(const RecordSet& records) {
  PageSection section{"provenance-part", "Machine, build and configuration"};
  if (!records.runs.empty()) section.tables.push_back(provenance_table(records));
  for (const RunRecord& run : records.runs)
    if (!run.config_text.empty())
      section.texts.emplace_back(fmt::format("Configuration of run {}", run.run), run.config_text);
  return section;
}

// Adds failures first, then findings, then everything else, folded.
void add_sections(Page& page, const ReportTables& tables, PageSection more_figures, PageSection provenance) {
  const auto add = [&](PageSection section) {
    const bool any = !section.tables.empty() || !section.figures.empty() || !section.texts.empty();
    if (any) page.sections.push_back(std::move(section));
  };
  add({"problems", "Failed cases", false, tables.failures});
  add({"refused", "Refused and unavailable cases", true, tables.refusals});
  add({"results", "Results", false, tables.fastest});
  const bool sizes = std::ranges::all_of(tables.all, [](const Table& table) {
    return table.id.starts_with("results_size") || table.id.starts_with("blocks");
  });
  add({"kernels", sizes ? "All columns" : "All kernels, all columns", true, tables.all});
  add(std::move(more_figures));
  add({"sizes", sizes ? "Coverage" : "Coverage, bandwidth, first samples", true, tables.more});
  add({"libraries", "Codecs from shared objects", true, tables.libraries});
  add({"glossary", "What the metrics mean", true, {metrics_table()}});
  add(std::move(provenance));
}

// `instead`: what stands in the place of the results, or null.
std::string markdown_of(const Page& page, const Table* instead) {
  std::string markdown = fmt::format("# {}\n\n", markdown_escaped(page.title));
  for (const std::string* text : {&page.question, &page.answer, &page.more})
    if (!text->empty()) markdown += markdown_escaped(*text) + "\n\n";
  for (const auto& [status, count] : page.counts) markdown += fmt::format("* {}: {}\n", to_string(status), count);
  for (const std::string& warning : page.warnings) markdown += fmt::format("* Note: {}\n", markdown_escaped(warning));
  for (const PageFigure& drawn : page.lead_figures)
    if (!drawn.svg.empty())
      markdown += fmt::format("\n![{}](figures/{}.svg)\n", markdown_escaped(drawn.figure->title), drawn.figure->id);
  for (const PageSection& section : page.sections) {
    if (section.tables.empty() || section.id == "glossary") continue;
    if (instead != nullptr && section.id == "kernels") continue;
    markdown += fmt::format("\n## {}\n", section.title);
    if (instead != nullptr && section.id == "results")
      markdown.append("\n").append(to_markdown(*instead));
    else
      for (const Table& table : section.tables) markdown.append("\n").append(to_markdown(table));
  }
  return markdown;
}

std::string terminal_text_of(const Page& page, const ReportTables& tables) {
  std::string text = without_bold(page.answer) + "\n";
  if (!page.more.empty()) text += without_bold(page.more) + "\n";
  for (const auto* list : {&tables.failures, &tables.refusals, &tables.fastest, &tables.libraries})
    for (const Table& table : *list) text += "\n" + to_text(table);
  return text;
}

}  // namespace

WrittenReport write_report(const RecordSet& all_records, const ReportOptions& options,
                           const std::filesystem::path& directory) {
  expect_cases(all_records);
  std::int64_t superseded = 0;
  const RecordSet each_seed = without_superseded(all_records, superseded);
  const Contexts of_each_seed(each_seed, options.baseline_codec);
  const RecordSet records = pooled_seeds(each_seed).records;
  const Contexts contexts(records, options.baseline_codec);
  const CaseKeys keys(records);
  WrittenReport report;
  report.warnings = warnings_of(each_seed, of_each_seed, superseded);

  Page page;
  const std::string experiments = distinct(records.cases, ", ", [](const CaseRecord& r) { return r.experiment; });
  page.title = !options.title.empty() ? options.title : !experiments.empty() ? experiments : "Report";
  page.question = distinct(records.runs, " ", [](const RunRecord& r) { return r.question; });
  const Answer found = answer(records, contexts);
  page.answer = found.sentence, page.more = found.more;
  page.counts = count_statuses(each_seed);
  for (const RunRecord& run : all_records.runs) page.json_lines.push_back(to_json_line(run));
  for (const BandwidthRecord& bandwidth : all_records.bandwidths) page.json_lines.push_back(to_json_line(bandwidth));
  for (const CaseRecord& record : all_records.cases) page.json_lines.push_back(to_json_line(record));

  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) throw ReportError(fmt::format("cannot create {}: {}", directory.string(), failure.message()));
  const std::vector<Figure> figures =
      figures_of(records, contexts, FigureMaker(each_seed, of_each_seed), options, report.warnings);
  const std::vector<std::size_t> lead = lead_figures(figures, found.subject);
  PageSection more_figures{"figures", "More figures"};
  const std::vector<DrawnFigure> all_drawn =
      draw(figures, directory / "figures", {options.gnuplot, options.gnuplot_seconds}, report.warnings);
  for (std::size_t i = 0; i < all_drawn.size(); ++i) {
    const DrawnFigure& drawn = all_drawn[i];
    if (std::find(lead.begin(), lead.end(), i) == lead.end()) more_figures.figures.push_back(page_figure(drawn));
    for (const char* kind : {".dat", ".gp"}) report.files.push_back(directory / "figures" / (drawn.figure->id + kind));
    for (const auto& file : {drawn.svg, drawn.pdf})
      if (!file.empty()) report.files.push_back(file);
  }
  for (const std::size_t i : lead) page.lead_figures.push_back(page_figure(all_drawn[i]));
  page.warnings = report.warnings;
  const ReportTables tables = tables_of(records, contexts, each_seed);
  add_sections(page, tables, std::move(more_figures), provenance_of(records));
  const Table flat = flat_table(each_seed, of_each_seed);
  const Table asked_for = options.columns.empty() ? flat : with_columns(flat, options.columns);

  const auto write = [&](const std::string& name, const std::string& text) {
    const std::filesystem::path path = directory / name;
    errno = 0;
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file)
      throw ReportError(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno != 0 ? errno : EIO)));
    report.files.push_back(path);
  };
  write("report.html", to_html(page));
  write("results.md", markdown_of(page, options.columns.empty() ? nullptr : &asked_for));
  write("results.csv", to_csv(asked_for));
  std::string latex = "% Needs \\usepackage{array,booktabs}.\n";
  for (const Table& table : paper_tables(records, contexts, keys, options.paper_rows))
    latex.append("\n").append(to_latex(table));
  write("results.tex", latex);
  write("macros.tex", to_macros(records, contexts, keys));
  for (const Figure& figure : figures) write("figures/" + figure.id + ".tex", to_pgfplots(figure));
  report.terminal_text = terminal_text_of(page, tables);
  return report;
}

}  // namespace ecmv::reports
