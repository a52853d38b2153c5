// ecmv tune: searches values for open settings of codecs and keeps them in a file.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "backends/backend.h"
#include "experiments/command/ad_hoc.h"
#include "experiments/command/command.h"
#include "experiments/output/own_stdout.h"
#include "experiments/output/run_summary.h"
#include "experiments/output/terminal_table.h"
#include "experiments/plan/plan.h"
#include "experiments/run/run.h"
#include "experiments/run/run_record.h"
#include "experiments/tune/search.h"
#include "reports/fields.h"
#include "reports/tables/table.h"

namespace ecmv::experiments {
namespace {

struct TuneVerbOptions {
  std::string config;
  AdHoc ad_hoc;
  Selection selection;
  SearchOptions search;
  std::string output = "tuned.yaml", records;
  bool dry_run = false;
};

Experiment experiment_of(const TuneVerbOptions& options, const CommandLine& line) {
  expect_config_or_codec(!options.config.empty(), options.ad_hoc.given(), "tune", line);
  expect_no_flag_of_others(!options.config.empty(), options.ad_hoc.first_flag());
  Experiment experiment = options.config.empty()
                              ? ad_hoc_experiment(options.ad_hoc, options.selection.edits)
                              : load_experiment(options.config, options.selection.edits, codecs::all_codecs());
  const std::string nothing_left = filter_cases(experiment, options.selection.filter, options.selection.exclude);
  if (!nothing_left.empty()) throw NothingRuns(nothing_left);
  experiment.measure.bandwidth = false;
  return experiment;
}

TuneSearch search_of(const Experiment& experiment, const SearchOptions& options) {
  try {
    return {experiment.cases, codecs::all_codecs(), options};
  } catch (const std::invalid_argument& e) {
    throw UsageError(e.what());
  }
}

// Runs cases in the ordinary way and keeps their records.
class Measurer {
 public:
  Measurer(Experiment experiment, const std::filesystem::path& records, const CommandLine& line)
      : experiment_(std::move(experiment)), writer_(records, reports::Existing::set_aside) {
    const reports::RunRecord run = make_run_record(experiment_, line.arguments);
    options_.run_id = run.run;
    options_.interrupted = interrupted;
    options_.progress = &std::cerr;
    writer_.write(run);
  }

  std::map<std::string, MeasuredCase> operator()(std::vector<Case> cases) {
    std::map<std::string, MeasuredCase> measured;
    options_.on_case = [&](const reports::CaseRecord& record) {
      writer_.write(record);
      if (record.status != reports::Status::ok || !std::isfinite(record.time.median_s)) return;
      const bool one_shape = record.data.shapes.empty();
      measured[record.case_key] = {
          .seconds = record.time.median_s / static_cast<double>(std::max<int64_t>(1, record.data.layers)),
          .bits = record.size.bits_per_element,
          .type = record.data.type,
          .shape = one_shape ? datasets::Shape{record.data.rows, record.data.cols} : datasets::Shape{}};
      any_disturbed_ |= reports::is_disturbed(record);
    };
    experiment_.cases = std::move(cases);
    std::cerr << fmt::format("Stage {}: {} cases\n", ++stage_, experiment_.cases.size());
    const RunSummary summary = run_experiment(experiment_, options_);
    print_failures(summary.failures, "; the records have them all", std::cerr);
    if (const int code = summary.exit_code(); code == kUnverified || (code == kFailedCase && code_ == kFine))
      code_ = code;
    return measured;
  }

  int code() const { return code_; }  // of wrong and failed cases
  bool any_disturbed() const { return any_disturbed_; }

 private:
  Experiment experiment_;
  RunOptions options_;
  reports::RecordWriter writer_;
  int stage_ = 0, code_ = kFine;
  bool any_disturbed_ = false;
};

std::string settings_text(const GivenSettings& settings) {
  std::string text;
  for (const auto& [name, value] : settings) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
  return text;
}

reports::Table table_of(const std::vector<TunedResult>& results) {
  constexpr auto kRight = reports::Column::Align::right;
  reports::Table table;
  table.id = "tuned";
  table.columns = {{"shape", "shape", ""},
                   {"op", "op", ""},
                   {"open_us", "open, µs a layer", "", kRight},
                   {"found_us", "found", "", kRight},
                   {"model_off", "model off", "", kRight},
                   {"open_bits", "open, bits", "", kRight},
                   {"found_bits", "found", "", kRight},
                   {"codec", "codec", ""},
                   {"settings", "found settings", ""}};
  for (const TunedResult& one : results) {
    const TunedKey& key = one.entry.key;
    const auto us = [](double s) { return reports::number_cell(1e6 * s, fmt::format("{:.4g}", 1e6 * s)); };
    const auto fixed = [](double number) { return reports::number_cell(number, fmt::format("{:.3f}", number)); };
    table.rows.push_back(
        {reports::text_cell(fmt::format("{} x {} {}", key.shape.rows, key.shape.cols, key.type)),
         reports::text_cell(key.op + (key.activations.empty() ? "" : " of " + key.activations)), us(one.open_s),
         us(one.found_s), fixed(one.entry.model_off), fixed(one.open_bits), fixed(one.found_bits),
         reports::text_cell(key.codec + (key.asked.empty() ? "" : ":" + settings_text(key.asked))),
         reports::text_cell(one.entry.found.empty() ? "as they are" : settings_text(one.entry.found))});
  }
  return table;
}

void print_results(const std::vector<TunedResult>& results) {
  OwnStdout::stream() << fitted_text(table_of(results), terminal_columns(120));
  double worst = 1, sum = 0;
  for (const TunedResult& one : results) {
    worst = std::max(worst, one.entry.model_off);
    sum += std::log(one.entry.model_off);
  }
  OwnStdout::stream() << fmt::format(
      "The open settings took {:.3f} times as long as the found ones at worst, {:.3f} times as the geometric mean.\n",
      worst, std::exp(sum / static_cast<double>(results.size())));
}

// Entries of other keys stay in the file.
void keep(const std::vector<TunedResult>& results, std::vector<TunedEntry> entries, const std::string& file) {
  for (const TunedResult& one : results) {
    std::erase_if(entries, [&](const TunedEntry& old) { return old.key == one.entry.key; });
    entries.push_back(one.entry);
  }
  write_output(file, [&](std::ostream& out) { out << tuned_text(entries); });
  std::cerr << fmt::format("Settings for {} key{} in {}; take them with --tuned {}\n", entries.size(),
                           entries.size() == 1 ? "" : "s", file, shell_word(file));
}

// Devices that are verified but never timed give nothing to compare.
void expect_times(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    const backends::Backend* const backend = backends::find_backend(one.kernel.backend);
    if (backend == nullptr || !backend->devices().front().emulated) return;
  }
  throw NothingRuns(
      fmt::format("'ecmv tune' compares times, and the backend '{}' is never timed.", cases.front().kernel.backend));
}

int tune(const TuneVerbOptions& options, const CommandLine& line) {
  Experiment experiment = experiment_of(options, line);
  TuneSearch search = search_of(experiment, options.search);
  for (const std::string& remark : experiment.remarks) std::cerr << remark << "\n";
  std::cerr << fmt::format("{} search{} of at most {} cases in all.\n", search.searches(),
                           search.searches() == 1 ? "" : "es", search.most_cases());
  if (options.dry_run) {
    experiment.cases = search.first_cases();
    return print_plan(experiment, codecs::all_codecs(), OwnStdout::stream()) > 0 ? kFine : kNothingRan;
  }
  expect_times(experiment.cases);
  std::vector<TunedEntry> known;
  if (std::filesystem::exists(options.output)) known = read_tuned(options.output, codecs::all_codecs());
  const std::filesystem::path records = options.records.empty()
                                            ? std::filesystem::path(options.output).replace_extension(".records.jsonl")
                                            : std::filesystem::path(options.records);
  const std::filesystem::path folder = std::filesystem::path(options.output).parent_path();
  if (!options.records.empty() && !folder.empty() && !std::filesystem::is_directory(folder))
    throw UsageError(
        fmt::format("The file {} cannot be written: there is no folder {}.", options.output, folder.string()));
  if (options.records == options.output) throw UsageError("The found settings and the records need a file each.");
  catch_interrupts();
  Measurer measurer(experiment, records, line);
  const std::vector<TunedResult> results =
      search.run([&](std::vector<Case> cases) { return measurer(std::move(cases)); }, interrupted);
  if (interrupted()) {
    std::cerr << fmt::format("ecmv: interrupted; nothing was kept but the records in {}.\n", records.string());
    return kInterrupted;
  }
  for (const std::string& remark : search.remarks()) std::cerr << remark << "\n";
  if (results.empty()) {
    std::cerr << "ecmv: nothing was found, since no case was timed.\n";
    return measurer.code() != kFine ? measurer.code() : kNothingRan;
  }
  print_results(results);
  if (measurer.any_disturbed()) std::cerr << "DISTURBED: measure again when the machine is quiet.\n";
  keep(results, std::move(known), options.output);
  return measurer.code();
}

}  // namespace

void add_tune(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<TuneVerbOptions>();
  CLI::App* verb = app.add_subcommand(
      "tune",
      "searches the fastest values of open settings for shapes and devices, keeps them in a file for --tuned, "
      "and says how far the codec's own choice was off");
  verb->add_option("config", options->config, "YAML config: a file, or the name of one of 'ecmv list configs'");
  verb->add_option("-o,--output", options->output,
                   "the file of found settings (tuned.yaml); other keys in it are kept");
  verb->add_option("--records", options->records, "record file of all measurements (beside the output)");
  verb->add_flag("--dry-run", options->dry_run, "shows the cases of the first round, and runs nothing");
  verb->add_option("--whole-grid", options->search.whole_grid,
                   "tries all combinations of values where they are at most so many, else a setting at a time (64)")
      ->check(CLI::Range(0, 4096));
  verb->add_option("--rounds", options->search.rounds, "how often each setting has its turn (2)")
      ->check(CLI::Range(1, 10));
  verb->add_option("--most-bits", options->search.most_bits,
                   "stored bits that settings may take, over those of the open settings (1.1)")
      ->check(CLI::PositiveNumber);
  add_selection(*verb, options->selection);
  add_codec_libraries(*verb, line);
  add_ad_hoc(*verb, options->ad_hoc);
  verb->footer("Several batches, seeds and threads count by the geometric mean of their times.");
  verb->callback([options, &line] { line.action = [options, &line] { return tune(*options, line); }; });
}

}  // namespace ecmv::experiments
