// ecmv compare: two sets of records, case by case, or the codecs of one set with a baseline.
#include <algorithm>
#include <iostream>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "experiments/command.h"
#include "experiments/table_json.h"
#include "experiments/terminal_table.h"
#include "reports/compare.h"
#include "reports/report.h"

namespace ecmv::experiments {
namespace {

// The ID of "codec=ID".
std::string codecs_of(const std::string& baseline) {
  constexpr std::string_view kKey = "codec=";
  if (!baseline.starts_with(kKey) || baseline.size() == kKey.size())
    throw UsageError(fmt::format("--baseline takes codec=ID, not '{}'.", baseline));
  return baseline.substr(kKey.size());
}

// As wide as a terminal: what can be left out is in --json and --md.
reports::Table for_terminal(const reports::Table& table) {
  static const std::set<std::string> kElsewhere = {"base_stored_bytes", "stored_bytes"};
  reports::Table shown{table.id, table.title, "", {}, {}};
  shown.rows.resize(table.rows.size());
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const bool empty = std::ranges::all_of(table.rows, [&](const auto& row) { return row[i].text.empty(); });
    if (empty || kElsewhere.contains(table.columns[i].id)) continue;
    shown.columns.push_back(table.columns[i]);
    for (size_t k = 0; k < table.rows.size(); ++k) shown.rows[k].push_back(table.rows[k][i]);
  }
  return shown;
}

nlohmann::ordered_json json_of(const reports::ComparisonResult& result) {
  const reports::ComparisonSummary summary = reports::summary_of(result);
  nlohmann::ordered_json counts = nlohmann::ordered_json::object();
  for (const auto& [verdict, count] : summary.counts) counts[std::string(reports::to_string(verdict))] = count;
  return {{"summary",
           {{"cases", result.rows.size()},
            {"verdicts", counts},
            {"speed_ratios", summary.ratios},
            {"speed_geometric_mean",
             summary.ratios > 0 ? nlohmann::ordered_json(summary.mean_ratio) : nlohmann::ordered_json(nullptr)},
            {"regression", result.regression}}},
          {"cases", table_json(reports::comparison_table(result))}};
}

}  // namespace

void add_compare(CLI::App& app, CommandLine& line) {
  struct Options {
    std::string base, other, baseline, markdown, json;
    bool all = false;
    reports::CompareOptions limits;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "compare",
      "speed and size of the cases of two record files (exit code 4 on a regression), or of one with --baseline");
  verb->add_option("base", options->base, "record file of before")->required();
  verb->add_option("new", options->other, "record file of now");
  verb->add_option(
      "--baseline", options->baseline,
      "codec=ID: within the one file, every case of other codecs against the fastest of this codec (or of ID,ID,...) "
      "with the same run, "
      "data, backend, device, op, batch, threads and cache class; slower is no regression, the exit code is 0");
  verb->add_option("--confidence", options->limits.confidence, "of the intervals (0.95)")
      ->check(CLI::Range(0.5, 0.9999));
  verb->add_option("--smallest-change", options->limits.smallest_change,
                   "fraction below which a difference counts as none (0.02)")
      ->check(CLI::Range(0.0, 1.0));
  verb->add_option("--md", options->markdown, "the table as Markdown to FILE, or - for stdout");
  verb->add_option("--json", options->json, "summary and every case as JSON to FILE, or - for stdout")
      ->expected(0, 1)
      ->default_str("-");
  verb->add_flag("--all", options->all, "also lists cases that are in one file only (LOST, ADDED) or ok in neither");
  verb->callback([options, &line] {
    line.action = [options] {
      if (options->other.empty() == options->baseline.empty())
        throw UsageError("'ecmv compare' takes two record files, or one and --baseline codec=ID.");
      reports::RecordSet base = reports::read_records(options->base), other;
      reports::ComparisonResult result;
      if (options->baseline.empty()) {
        other = reports::read_records(options->other);
        result = reports::compare(base, other, options->limits);
      } else {
        std::int64_t superseded = 0;  // cases count as in a report
        base = reports::without_superseded(base, superseded);
        result = reports::compare_with_baseline(base, codecs_of(options->baseline), options->limits);
      }
      for (const auto* notes : {&base.notes, &other.notes})
        for (const std::string& note : *notes) std::cerr << "ecmv: " << note << "\n";
      const reports::Table table = reports::comparison_table(result, options->all);
      if (options->json != "-" && options->markdown != "-") {
        if (!table.rows.empty()) std::cout << fitted_text(for_terminal(table), terminal_columns(kLineColumns));
        std::cout << reports::to_string(reports::summary_of(result)) << "\n";
        if (table.rows.size() < result.rows.size())
          std::cout << fmt::format("{} of them are not listed (--all does).\n", result.rows.size() - table.rows.size());
      }
      if (!options->json.empty())
        write_output(options->json, [&](std::ostream& out) { out << json_text(json_of(result)) << "\n"; });
      if (!options->markdown.empty())
        write_output(options->markdown, [&](std::ostream& out) {
          out << reports::to_markdown(table) << "\n" << reports::to_string(reports::summary_of(result)) << "\n";
        });
      if (result.regression) std::cerr << "ecmv: there is a regression.\n";
      return static_cast<int>(result.regression ? kRegression : kFine);
    };
  });
}

}  // namespace ecmv::experiments
