// ecmv verify: everything is checked and nothing is timed. With configs (or none: the built-in smoke config) every case
// at small size; with other files, chain files of other programs.
#include <fstream>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "backends/cpu/guarded_buffer.h"
#include "ecmv_texts.h"
#include "experiments/command.h"
#include "experiments/corrupt.h"
#include "experiments/fill_record.h"
#include "experiments/junit.h"
#include "experiments/outcome.h"
#include "experiments/run.h"
#include "experiments/running_case.h"
#include "experiments/verify_files.h"

namespace ecmv::experiments {
namespace {

struct VerifyVerbOptions {
  std::vector<std::string> what;
  Selection selection;
  bool full_size = false, corrupt = false;
  int flips = 100;
  std::string junit;
};

bool is_config(const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

Experiment experiment_of(const VerifyVerbOptions& options, const std::string& config) {
  const auto codecs = codecs::all_codecs();
  Experiment experiment =
      config.empty() ? parse_experiment(kSmokeConfig, "the built-in smoke config", options.selection.edits, codecs)
                     : load_experiment(config, options.selection.edits, codecs);
  if (!options.full_size) shrink_to_smoke(experiment);
  filter_cases(experiment, options.selection.filter, options.selection.exclude);
  return experiment;
}

// The worse of two exit codes: an interruption, then a failed verification, then a failed case, then nothing at all.
int worse(int a, int b) {
  for (const int code : {kInterrupted, kUsage, kUnverified, kFailedCase, kNothingRan})
    if (a == code || b == code) return code;
  return kFine;
}

class Verification {
 public:
  explicit Verification(const VerifyVerbOptions& options) : options_(options) {}

  int config(const std::string& file) {
    const Experiment experiment = experiment_of(options_, file);
    if (experiment.cases.empty()) {
      std::cerr << "ecmv: no case is left to verify.\n";
      return kNothingRan;
    }
    RunOptions run;
    run.time = false;
    run.interrupted = interrupted;
    run.progress = &std::cerr;
    std::map<std::string, std::string> names;
    for (const Case& one : experiment.cases) names[one.key()] = one.name();
    run.on_case = [&](const reports::CaseRecord& record) {
      using Result = JunitCase::Result;
      const bool skipped = record.status == reports::Status::refused || record.status == reports::Status::unavailable;
      add(record.codec.id, names[record.case_key],
          record.status == reports::Status::ok ? Result::passed
          : skipped                            ? Result::skipped
                                               : Result::failed,
          fmt::format("{}: {}", reports::to_string(record.status), record.reason));
    };
    const RunSummary summary = run_experiment(experiment, run);
    int code = summary.exit_code();
    if (options_.corrupt && code != kInterrupted) code = worse(code, corrupt(experiment));
    return interrupted() ? static_cast<int>(kInterrupted) : code;
  }

  int file(const std::string& path) {
    const FileVerification verification = verify_file(path);
    print_verification(verification, std::cout);
    if (!verification.unreadable.empty()) add(path, "file", JunitCase::Result::failed, verification.unreadable);
    for (const FileCheck& check : verification.checks)
      add(path, check.what,
          check.result == FileCheck::Result::ok        ? JunitCase::Result::passed
          : check.result == FileCheck::Result::refused ? JunitCase::Result::skipped
                                                       : JunitCase::Result::failed,
          check.detail);
    if (!verification.unreadable.empty()) return kUsage;
    return verification.passed() ? kFine : kUnverified;
  }

  const std::vector<JunitCase>& cases() const { return cases_; }

 private:
  void add(std::string group, std::string name, JunitCase::Result result, std::string message) {
    cases_.push_back({std::move(group), std::move(name), result, std::move(message)});
  }

  // Every codec with each of its settings once, on the first dataset that it accepts.
  int corrupt(const Experiment& experiment) {
    std::set<std::string> seen;
    int code = kFine;
    DataSpec loaded;
    datasets::Dataset dataset;
    for (const Case& one : experiment.cases) {
      if (interrupted()) return kInterrupted;
      if (seen.contains(one.codec.name())) continue;
      if (dataset.layers.empty() || loaded != one.data) dataset = load_dataset(loaded = one.data);
      if (dataset.layers.empty()) continue;
      const codecs::CodecEntry* entry = codecs::find_codec(one.codec.id);
      // Before it begins: a decoder that a damaged stream makes crash leaves nothing else.
      if (entry->loaded()) std::cerr << fmt::format("decoding damaged streams of {}\n", one.codec.name());
      CorruptionResult result;
      const Outcome outcome = guarded([&] {
        result =
            decode_damaged_streams(*entry, dataset.layers.front(), one.codec.settings, options_.flips, interrupted);
      });
      if (!outcome.fine()) result.other = 1, result.first_other = outcome.reason;
      if (!result.refused.empty()) continue;
      seen.insert(one.codec.name());
      if (!result.not_encoded.empty()) {
        add("damaged streams", one.codec.name(), JunitCase::Result::failed, result.not_encoded);
        code = worse(code, kFailedCase);
        continue;
      }
      std::cout << fmt::format("damaged streams: {}: {} refused, {} decoded to something, {} ended otherwise{}\n",
                               one.codec.name(), result.threw, result.returned, result.other,
                               result.fine() ? "" : " (" + result.first_other + ")");
      add("damaged streams", one.codec.name(), result.fine() ? JunitCase::Result::passed : JunitCase::Result::failed,
          result.first_other);
      if (!result.fine()) code = worse(code, kUnverified);
    }
    return seen.empty() ? static_cast<int>(kUnverified) : code;
  }

  const VerifyVerbOptions& options_;
  std::vector<JunitCase> cases_;
};

int verify(const VerifyVerbOptions& options) {
  catch_interrupts();
  // Reading past the end shows here, and only here: buffers that end where memory ends cost time to make.
  backends::cpu::GuardedBuffer::fence(true);
  catch_crashes("Verification ends here.\n", kUnverified);
  Verification verification(options);
  int code = kFine;
  if (options.what.empty()) code = verification.config("");
  for (const std::string& what : options.what) {
    if (interrupted()) break;
    code = worse(code, is_config(what) ? verification.config(what) : verification.file(what));
  }
  if (interrupted()) code = kInterrupted;
  using Result = JunitCase::Result;
  int counts[3] = {};
  for (const JunitCase& one : verification.cases()) {
    ++counts[static_cast<int>(one.result)];
    if (one.result == Result::failed) std::cout << fmt::format("FAILED {} {}: {}\n", one.group, one.name, one.message);
  }
  std::cout << fmt::format("{} verified, {} failed, {} refused or unavailable\n", counts[0], counts[1], counts[2]);
  if (!options.junit.empty())
    write_output(options.junit, [&](std::ostream& out) { write_junit("ecmv verify", verification.cases(), out); });
  if (code != kFine || counts[0] > 0) return code;
  std::cerr << "ecmv: nothing was verified.\n";
  return kUnverified;
}

}  // namespace

void add_verify(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<VerifyVerbOptions>();
  CLI::App* verb = app.add_subcommand(
      "verify", "checks every codec and kernel at small sizes, or chain files of other programs; no timing");
  verb->add_option("what", options->what,
                   "CONFIG.yaml... (files, or names of 'ecmv list configs') or chain files (MatVANS); nothing: the "
                   "built-in smoke config");
  add_selection(*verb, options->selection);
  add_codec_libraries(*verb, line);
  verb->add_flag("--full-size", options->full_size, "the config's own sizes instead of at most 512 x 512 and 2 layers");
  verb->add_flag("--corrupt", options->corrupt, "also decodes damaged streams with the reference decoders");
  verb->add_option("--flips", options->flips, "damaged copies of each section (100)")->check(CLI::Range(1, 1'000'000));
  verb->add_option("--junit", options->junit, "results as JUnit XML to FILE, or - for stdout");
  verb->callback([options, &line] { line.action = [options] { return verify(*options); }; });
}

}  // namespace ecmv::experiments
