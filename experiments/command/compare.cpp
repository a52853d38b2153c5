// ecmv compare: compares two sets of records case by case, or the codecs of one set with a baseline.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "codecs/did_you_mean.h"
#include "experiments/command/command.h"
#include "experiments/output/own_stdout.h"
#include "experiments/output/table_json.h"
#include "experiments/output/terminal_table.h"
#include "reports/compare.h"
#include "reports/fields.h"
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

// For a terminal: changed sizes only, and of a case its name. --json and --md have the rest.
reports::Table for_terminal(const reports::ComparisonResult& result, bool all) {
  using reports::fixed_text, reports::text_cell;
  constexpr auto kRight = reports::Column::Align::right;
  reports::Table shown;
  shown.title = reports::comparison_table(result).title;
  shown.columns = {{"verdict", "verdict", ""},   {"speed", "speed", "×", kRight},
                   {"interval", "interval", ""}, {"bytes", "bytes changed", "", kRight},
                   {"case", "case", ""},         {"note", "note", ""}};
  for (const reports::Comparison& row : result.rows) {
    if (!all && reports::is_folded(row.verdict)) continue;
    const reports::CaseRecord& record = row.other != nullptr ? *row.other : *row.base;
    const auto& [low, middle, high] = row.speed_ratio;
    const bool pair = row.base != nullptr && row.other != nullptr;
    shown.rows.push_back(
        {text_cell(std::string(reports::to_string(row.verdict))), text_cell(middle > 0 ? fixed_text(middle, 3) : ""),
         text_cell(low > 0 ? fixed_text(low, 3) + " … " + fixed_text(high, 3) : ""),
         text_cell(!pair                          ? ""
                   : row.stored_bytes_change == 0 ? "0"
                                                  : fmt::format("{:+d}", row.stored_bytes_change)),
         text_cell(fmt::format("{} of {}, {}{}", record.kernel.op, reports::codec_label(record), result.data_of(record),
                               record.kernel.op == "size" ? "" : ", " + reports::kernel_label(record))),
         text_cell(row.note)});
  }
  if (std::ranges::all_of(shown.rows, [](const auto& row) { return row.back().text.empty(); })) {
    shown.columns.pop_back();
    for (auto& row : shown.rows) row.pop_back();
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

// Records hold few names, so it can suggest the nearest one.
reports::ComparisonResult with_hint(const reports::RecordSet& records, const std::string& baseline,
                                    const reports::CompareOptions& limits) {
  std::vector<std::string_view> known;
  for (const reports::CaseRecord& record : records.cases) known.push_back(record.codec.id);
  try {
    return reports::compare_with_baseline(records, baseline, limits);
  } catch (const reports::ReportError& error) {
    if (std::ranges::find(known, baseline) != known.end()) throw;
    const std::string hint = codecs::did_you_mean(baseline, known);
    throw UsageError(std::string(error.what()) + (hint.empty() ? "" : "." + hint));
  }
}

// Tells at once which lines were left out, since they may be why there is nothing to compare.
reports::RecordSet read(const std::string& file) {
  reports::RecordSet records = reports::read_records(file);
  for (const std::string& note : records.notes) std::cerr << "ecmv: " << note << "\n";
  return records;
}

std::string not_listed(size_t cases) {
  return fmt::format("{} not listed; --all lists {}.\n", cases == 1 ? "1 case is" : fmt::format("{} cases are", cases),
                     cases == 1 ? "it" : "them");
}

}  // namespace

void add_compare(CLI::App& app, CommandLine& line) {
  struct Options {
    std::string base, baseline, markdown, json;
    std::vector<std::string> others;
    bool all = false;
    reports::CompareOptions limits;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "compare",
      "compares speed and size of two record files (exit code 4 on a regression), or within one (--baseline)");
  verb->add_option("base", options->base, "old record file")->required();
  verb->add_option("new", options->others, "new record file; with --baseline more files of the same run");
  verb->add_option(
      "--baseline", options->baseline,
      "codec=ID: compares every other codec with the fastest case of this codec (or of ID,ID,...) that has the same "
      "run, data, backend, device, op, batch, threads and cache class; a slower codec is no regression");
  verb->add_option("--confidence", options->limits.confidence, "confidence of the intervals (0.95)")
      ->check(CLI::Range(0.5, 0.9999));
  verb->add_option("--smallest-change", options->limits.smallest_change,
                   "smallest difference that counts, as a fraction (0.02)")
      ->check(CLI::Range(0.0, 1.0));
  verb->add_option("--md", options->markdown, "the table as Markdown to FILE, or - for stdout");
  verb->add_option("--json", options->json, "summary and every case as JSON to FILE, or - for stdout")
      ->expected(0, 1)
      ->default_str("-");
  verb->add_flag("--all", options->all, "lists cases in only one file (LOST, ADDED) or ok in neither, too");
  verb->callback([options, &line] {
    line.action = [options] {
      if (options->others.empty() && options->baseline.empty())
        throw UsageError("'ecmv compare' takes two record files, or one or more and --baseline codec=ID.");
      if (options->baseline.empty() && options->others.size() > 1)
        throw UsageError("'ecmv compare' takes two record files. Join the files of several shards with 'cat'.");
      if (options->json == "-" && options->markdown == "-")
        throw UsageError("Only one of --json and --md can go to stdout.");
      if (std::isnan(options->limits.confidence) || std::isnan(options->limits.smallest_change))
        throw UsageError("--confidence and --smallest-change are numbers.");
      reports::RecordSet base = read(options->base), other;
      reports::ComparisonResult result;
      if (options->baseline.empty()) {
        other = read(options->others.front());
        result = reports::compare(base, other, options->limits);
      } else {
        for (const std::string& file : options->others) base.append(read(file));
        std::int64_t superseded = 0;  // cases count as in a report
        base = reports::without_superseded(base, superseded);
        result = with_hint(base, codecs_of(options->baseline), options->limits);
      }
      const reports::Table table = reports::comparison_table(result, options->all);
      if (options->json != "-" && options->markdown != "-") {
        if (!table.rows.empty())
          OwnStdout::stream() << fitted_text(for_terminal(result, options->all), terminal_columns(kLineColumns));
        OwnStdout::stream() << reports::to_string(reports::summary_of(result)) << "\n";
        if (table.rows.size() < result.rows.size())
          OwnStdout::stream() << not_listed(result.rows.size() - table.rows.size());
      }
      if (!options->json.empty())
        write_output(options->json, [&](std::ostream& out) { out << json_text(json_of(result)) << "\n"; });
      if (!options->markdown.empty())
        write_output(options->markdown, [&](std::ostream& out) {
          out << reports::to_markdown(table) << "\n" << reports::to_string(reports::summary_of(result)) << "\n";
        });
      if (result.regression) std::cerr << "ecmv: regression.\n";
      return static_cast<int>(result.regression ? kRegression : kFine);
    };
  });
}

}  // namespace ecmv::experiments
