// ecmv export: writes matrices and stored streams as files that others can read.
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "experiments/command/ad_hoc.h"
#include "experiments/command/command.h"
#include "experiments/output/export_cases.h"
#include "experiments/output/own_stdout.h"

namespace ecmv::experiments {
namespace {

struct ExportVerbOptions {
  std::vector<std::string> configs;
  AdHoc ad_hoc;
  Selection selection;
  std::string folder;
  bool force = false;
};

std::vector<Experiment> experiments_of(const ExportVerbOptions& options, const CommandLine& line) {
  expect_config_or_codec(!options.configs.empty(), options.ad_hoc.given(), "export", line);
  expect_no_flag_of_others(!options.configs.empty(), options.ad_hoc.first_flag());
  const auto codecs = codecs::all_codecs();
  std::vector<Experiment> experiments;
  if (options.configs.empty()) experiments.push_back(ad_hoc_experiment(options.ad_hoc, options.selection.edits));
  for (const std::string& config : options.configs)
    experiments.push_back(load_experiment(config, options.selection.edits, codecs));
  for (Experiment& experiment : experiments)
    if (const std::string nothing_left = filter_cases(experiment, options.selection.filter, options.selection.exclude);
        !nothing_left.empty())
      std::cerr << "ecmv: " << nothing_left << "\n";
  return experiments;
}

int export_all(const ExportVerbOptions& options, const CommandLine& line) {
  const std::vector<Experiment> experiments = experiments_of(options, line);
  catch_interrupts();
  const ExportOptions to{options.folder, options.force, interrupted};
  ExportSummary all;
  for (const Experiment& experiment : experiments) {
    ExportSummary one;
    try {
      one = export_cases(experiment, to, OwnStdout::stream(), std::cerr);
    } catch (const std::runtime_error& error) {
      throw UsageError(error.what());
    }
    all.written += one.written, all.refused += one.refused;
    all.incorrect += one.incorrect, all.failed += one.failed;
    all.interrupted = one.interrupted;
    if (all.interrupted) break;
  }
  std::cerr << fmt::format("{} stream{} written, {} refused, {} incorrect, {} failed\n", all.written,
                           all.written == 1 ? "" : "s", all.refused, all.incorrect, all.failed);
  if (all.interrupted) return kInterrupted;
  if (all.incorrect > 0) return kUnverified;
  if (all.failed > 0) return kFailedCase;
  return all.written > 0 ? kFine : kNothingRan;
}

}  // namespace

void add_export(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<ExportVerbOptions>();
  CLI::App* verb = app.add_subcommand(
      "export", "writes the matrices and the stored sections of cases as safetensors files, for others to check");
  verb->add_option("config", options->configs, "YAML configs: files, or names of 'ecmv list configs'");
  verb->add_option("-o,--output", options->folder, "folder for the files")->required();
  verb->add_flag("--force", options->force, "replaces files that are there");
  add_selection(*verb, options->selection);
  add_codec_libraries(*verb, line);
  add_ad_hoc(*verb, options->ad_hoc);
  verb->footer(
      "One file of matrices for each dataset, and one stream for each codec with its settings, whatever kernels\n"
      "the cases name. Only what the reference decoder gives back is written.");
  verb->callback([options, &line] { line.action = [options, &line] { return export_all(*options, line); }; });
}

}  // namespace ecmv::experiments
