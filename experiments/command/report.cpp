// ecmv report: makes tables, figures and the page from stored records; runs nothing.
#include <algorithm>
#include <iostream>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "codecs/did_you_mean.h"
#include "experiments/command/command.h"
#include "experiments/output/own_stdout.h"
#include "experiments/output/result_files.h"
#include "reports/exports/google_benchmark.h"
#include "reports/fields.h"
#include "reports/metrics.h"
#include "reports/report.h"

namespace ecmv::experiments {

namespace {

// Throws UsageError unless this is a metric or a field of a case.
void expect_known(const std::string& flag, const std::string& name, bool number) {
  std::vector<std::string_view> known;
  if (number) {
    for (const reports::Metric& metric : reports::all_metrics()) known.push_back(metric.id);
    if (reports::is_number(name)) return;
  } else {
    known = reports::field_names();
    if (flag == "--x")
      for (const reports::Metric& metric : reports::all_metrics()) known.push_back(metric.id);
    if (name.starts_with("setting.") || reports::is_field(name) || (flag == "--x" && reports::is_number(name))) return;
  }
  if (std::ranges::find(known, name) != known.end()) return;
  std::string hint = codecs::did_you_mean(name, known);
  if (hint.empty() && !number) hint = fmt::format(" The fields are {}.", fmt::join(reports::field_names(), ", "));
  throw UsageError(fmt::format("{} {}: there is no such {}.{}{}", flag, name,
                               number          ? "metric or numeric field"
                               : flag == "--x" ? "metric or field"
                                               : "field",
                               hint, number || flag == "--x" ? " 'ecmv list metrics' has the metrics." : ""));
}

// A figure for each pair of x and y.
std::vector<reports::XySpec> figures_of(const std::vector<std::string>& xs, std::vector<std::string> ys,
                                        const std::vector<std::string>& linear) {
  std::vector<reports::XySpec> figures;
  if (ys.empty()) ys = {"elements_per_s"};
  const auto is_linear = [&](const char* axis) { return std::ranges::find(linear, axis) != linear.end(); };
  for (const std::string& x : xs)
    for (const std::string& y : ys) {
      reports::XySpec& figure = figures.emplace_back();
      figure.id = xs.size() * ys.size() == 1 ? "asked_for" : fmt::format("asked_for {} {}", y, x);
      figure.x = x, figure.y = y;
      figure.log_x = !is_linear("x"), figure.log_y = !is_linear("y");
      figure.asked_for = true;
    }
  return figures;
}

}  // namespace

// At least one of the codecs must be there, or every comparison would be missing without a reason.
static void expect_baseline(const std::string& baseline, const reports::RecordSet& records) {
  const std::vector<std::string> wanted = CLI::detail::split(baseline, ',');
  std::set<std::string> there;
  for (const reports::CaseRecord& record : records.cases) there.insert(record.codec.id);
  if (std::ranges::none_of(wanted, [&](const std::string& id) { return there.contains(id); }))
    throw UsageError(fmt::format("No record has the codec '{}' of --baseline; the records have {}.", baseline,
                                 fmt::join(there, ", ")));
}

void add_report(CLI::App& app, CommandLine& line) {
  struct Options {
    std::vector<std::string> records, facets, rows, x, y, linear, columns;
    std::string directory, google_benchmark, title, series = "codec", gnuplot = "gnuplot";
    std::string baseline{kDefaultBaseline};
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("report", "tables, figures and a page from stored records");
  verb->add_option("records", options->records, "RECORDS...: record files, merged")->required();
  verb->add_option("-o,--output", options->directory, "folder to write to");
  verb->add_option("--google-benchmark", options->google_benchmark,
                   "FILE: the samples as Google Benchmark writes them, for its compare.py; '-' is stdout");
  CLI::Option* baseline = verb->add_option(
      "--baseline", options->baseline, "codecs to compare the others with (" + options->baseline + "); '' for none");
  verb->add_option("--title", options->title, "title of the page");
  verb->add_option("--row", options->rows,
                   "KEY: a row of results.tex, may be repeated; keys stand in results.csv (the fastest of each codec)")
      ->allow_extra_args(false);
  verb->add_option("--columns", options->columns,
                   "columns of results.csv, for it and for the results in results.md instead of all")
      ->delimiter(',')
      ->allow_extra_args(false);
  CLI::Option* x = verb->add_option("--x", options->x,
                                    "adds a figure: metric, field or setting.NAME on the x axis; several add several")
                       ->delimiter(',')
                       ->allow_extra_args(false);
  verb->add_option("--y", options->y,
                   "metric or numeric field on its y axis (elements_per_s); several, several figures")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(x);
  verb->add_option("--linear", options->linear, "x, y or both: these axes are not logarithmic")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"x", "y"}))
      ->needs(x);
  verb->add_option("--series", options->series, "field of its lines (codec)")->needs(x);
  verb->add_option("--facet", options->facets, "fields; one figure for each combination")->delimiter(',')->needs(x);
  verb->add_option("--gnuplot", options->gnuplot, "the gnuplot program");
  verb->callback([options, baseline, &line] {
    line.action = [options, baseline] {
      for (const std::string& x : options->x) expect_known("--x", x, false);
      for (const std::string& y : options->y) expect_known("--y", y, true);
      expect_known("--series", options->series, false);
      for (const std::string& facet : options->facets) expect_known("--facet", facet, false);
      reports::RecordSet records;
      for (const std::string& file : options->records) records.append(reports::read_records(file));
      if (records.cases.empty())  // then these lines are why
        for (const std::string& note : records.notes) std::cerr << "ecmv: " << note << "\n";
      if (baseline->count() > 0 && !options->baseline.empty()) expect_baseline(options->baseline, records);
      if (options->directory.empty() && options->google_benchmark.empty())
        throw UsageError("Give -o FOLDER for the report, or --google-benchmark FILE.");
      if (!options->google_benchmark.empty())
        write_output(options->google_benchmark,
                     [&](std::ostream& file) { file << reports::to_google_benchmark(records); });
      if (options->directory.empty()) return static_cast<int>(kFine);
      reports::ReportOptions report;
      report.baseline_codec = options->baseline;
      report.title = options->title;
      report.paper_rows = options->rows;
      report.gnuplot = options->gnuplot;
      report.columns = options->columns;
      report.more_figures = figures_of(options->x, options->y, options->linear);
      for (reports::XySpec& figure : report.more_figures)
        figure.series = options->series, figure.facets = options->facets;
      const reports::WrittenReport written = reports::write_report(records, report, options->directory);
      (options->google_benchmark == "-" ? std::cerr : OwnStdout::stream()) << written.terminal_text;
      for (const std::string& warning : written.warnings) std::cerr << "ecmv: " << warning << "\n";
      std::cerr << fmt::format("{} files in {}, the page is {}/report.html\n", written.files.size(), options->directory,
                               options->directory);
      return static_cast<int>(kFine);
    };
  });
}

}  // namespace ecmv::experiments
