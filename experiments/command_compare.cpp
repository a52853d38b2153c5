// ecmv compare: two sets of records, case by case, or the codecs of one set with a baseline.
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "experiments/command.h"
#include "experiments/table_json.h"
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

}  // namespace

void add_compare(CLI::App& app, CommandLine& line) {
  struct Options {
    std::string base, other, baseline, markdown;
    bool json = false;
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
  verb->add_flag("--json", options->json, "the table as JSON on stdout");
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
      const reports::Table table = reports::comparison_table(result);
      if (options->json)
        std::cout << json_text(table_json(table)) << "\n";
      else if (options->markdown != "-")
        std::cout << reports::to_text(table);
      if (!options->markdown.empty())
        write_output(options->markdown, [&](std::ostream& out) { out << reports::to_markdown(table); });
      if (result.regression) std::cerr << "ecmv: there is a regression.\n";
      return static_cast<int>(result.regression ? kRegression : kFine);
    };
  });
}

}  // namespace ecmv::experiments
