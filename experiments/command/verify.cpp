// ecmv verify: checks everything and times nothing. With configs (or none: the built-in smoke config) it runs every
// case at small size; with other files, it checks chain files of other programs.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "backends/cpu/guarded_buffer.h"
#include "ecmv_texts.h"
#include "experiments/check/corrupt.h"
#include "experiments/check/outcome.h"
#include "experiments/check/timed/device_witness.h"
#include "experiments/check/verify_files.h"
#include "experiments/command/command.h"
#include "experiments/config/known_configs.h"
#include "experiments/output/junit.h"
#include "experiments/output/own_stdout.h"
#include "experiments/output/run_summary.h"
#include "experiments/output/terminal_table.h"
#include "experiments/run/loaded_dataset.h"
#include "experiments/run/run.h"
#include "experiments/run/running_case.h"

namespace ecmv::experiments {
namespace {

struct VerifyVerbOptions {
  std::vector<std::string> what;
  Selection selection;
  bool full_size = false, corrupt = false;
  int flips = 100;
  std::string junit;

  // Tables go to stderr if stdout has the XML.
  std::ostream& text() const { return junit == "-" ? std::cerr : OwnStdout::stream(); }
};

// By its extension, or as the name of a built-in config.
bool is_config(const std::string& path) {
  return path.ends_with(".yaml") || path.ends_with(".yml") || find_config(path) != path;
}

Experiment experiment_of(const VerifyVerbOptions& options, const std::string& config, std::string& nothing_left) {
  const auto codecs = codecs::all_codecs();
  Experiment experiment =
      config.empty() ? parse_experiment(kSmokeConfig, "the built-in smoke config", options.selection.edits, codecs)
                     : load_experiment(config, options.selection.edits, codecs);
  if (!options.full_size) shrink_to_smoke(experiment);
  nothing_left = filter_cases(experiment, options.selection.filter, options.selection.exclude);
  return experiment;
}

// The worse of two exit codes: interruption, failed verification, failed case, then nothing ran.
int worse(int a, int b) {
  for (const int code : {kInterrupted, kUsage, kUnverified, kFailedCase, kNothingRan})
    if (a == code || b == code) return code;
  return kFine;
}

class Verification {
 public:
  explicit Verification(const VerifyVerbOptions& options) : options_(options) {}

  int config(const std::string& file) {
    std::string nothing_left;
    const Experiment experiment = experiment_of(options_, file, nothing_left);
    if (experiment.cases.empty()) {
      std::cerr << fmt::format("ecmv: {}{}{}\n", file, file.empty() ? "" : ": ", nothing_left);
      return kNothingRan;
    }
    RunOptions run;
    run.time = false;
    run.interrupted = interrupted;
    run.progress = &std::cerr;
    run.every_case = false;
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
      CodecCounts& counts = codecs_[record.codec.id];
      ++(record.status == reports::Status::ok ? counts.ok : skipped ? counts.refused : counts.failed);
      if (record.status == reports::Status::ok && record.kernel.op != "size")
        counts.kernels.insert(fmt::format("{}/{}/{}/{}/{}/{}", record.kernel.backend, record.kernel.simd_target,
                                          record.kernel.op, record.kernel.unfused, record.kernel.variant,
                                          record.kernel.policy));
    };
    const RunSummary summary = run_experiment(experiment, run);
    for (const auto& [reason, count] : summary.refusals) refusals_[reason] += count;
    int code = summary.exit_code();
    if (options_.corrupt && code != kInterrupted) code = worse(code, corrupt(experiment));
    return interrupted() ? static_cast<int>(kInterrupted) : code;
  }

  int file(const std::string& path) {
    const FileVerification verification = verify_file(path);
    print_verification(verification, options_.text());
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored))
      if (const std::string hint = nearest_config(path); !hint.empty())
        std::cerr << fmt::format("ecmv: {} is no file and no config.{}\n", path, hint);
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

  void print_codecs(std::ostream& out) const {
    if (codecs_.empty()) return;
    print_refusals(refusals_, "; --junit FILE has each case's", out);
    reports::Table table;
    table.title = "Cases and kernels by codec";
    table.columns = {{"codec", "codec", ""}};
    for (const char* column : {"ok", "refused", "failed", "kernels"})
      table.columns.push_back({column, column, "", reports::Column::Align::right});
    for (const auto& [codec, counts] : codecs_)
      table.rows.push_back({reports::text_cell(codec), reports::count_cell(counts.ok),
                            reports::count_cell(counts.refused), reports::count_cell(counts.failed),
                            reports::count_cell(static_cast<int64_t>(counts.kernels.size()))});
    out << fitted_text(table, kLineColumns);
  }

 private:
  struct CodecCounts {
    int ok = 0, refused = 0, failed = 0;
    std::set<std::string> kernels;  // that gave a right result
  };
  void add(std::string group, std::string name, JunitCase::Result result, std::string message) {
    cases_.push_back({std::move(group), std::move(name), result, std::move(message)});
  }

  // Takes every codec with each of its settings once, on the first dataset that it accepts.
  int corrupt(const Experiment& experiment) {
    std::set<std::string> seen;
    int code = kFine;
    DataSpec loaded;
    datasets::Dataset dataset;
    for (const Case& one : experiment.cases) {
      if (interrupted()) return kInterrupted;
      if (seen.contains(one.codec.name()) || one.codec.is_mix()) continue;  // a mix has no stream of its own
      if (dataset.layers.empty() || loaded != one.data) dataset = load_dataset(loaded = one.data);
      if (dataset.layers.empty()) continue;
      const codecs::CodecEntry* entry = codecs::find_codec(one.codec.id);
      // Say it first: a decoder that crashes on a damaged stream leaves no other trace.
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
      options_.text() << fmt::format("damaged streams: {}: {} refused, {} decoded, {} ended otherwise{}\n",
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
  std::map<std::string, CodecCounts> codecs_;
  std::map<std::string, int> refusals_;
};

int verify(const VerifyVerbOptions& options) {
  expect_no_input("--junit", options.junit, options.what);
  expect_folder("--junit", options.junit);
  const DeviceWitness witness;
  static constexpr int kSecondsToEnd = 10, kLongestCall = 600;
  catch_interrupts(kSecondsToEnd);
  // Only here do reads past the end show: buffers that end where memory ends are slow to make.
  backends::cpu::GuardedBuffer::fence(true);
  catch_crashes("Verification ends here.\n", kUnverified);
  const Watchdog watchdog(std::chrono::seconds(kLongestCall), [](const Journal::Entry& entry) {
    std::cerr << fmt::format("ecmv: {}: a call did not return within {} s. Verification ends here.\n", entry.name,
                             kLongestCall)
              << std::flush;
    ::_exit(kUnverified);
  });
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
  std::vector<std::pair<std::string, std::string>> failures;
  for (const JunitCase& one : verification.cases()) {
    ++counts[static_cast<int>(one.result)];
    if (one.result == Result::failed) failures.emplace_back(one.group + " " + one.name, one.message);
  }
  verification.print_codecs(options.text());
  print_failures(failures, "; --junit FILE has them all", options.text());
  options.text() << fmt::format("{} verified, {} failed, {} refused or unavailable\n", counts[0], counts[1], counts[2]);
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
  verb->add_option(
      "what", options->what,
      "configs (files, or names of 'ecmv list configs'), chain files (MatVANS) or containers of float modules "
      "(DFloat11); default: the built-in smoke config");
  add_selection(*verb, options->selection);
  add_codec_libraries(*verb, line);
  verb->add_flag("--full-size", options->full_size, "the config's own sizes instead of at most 512 x 512 and 2 layers");
  verb->add_flag("--corrupt", options->corrupt, "also decodes damaged streams with the reference decoders");
  verb->add_option("--flips", options->flips, "damaged copies of each section (100)")->check(CLI::Range(1, 1'000'000));
  verb->add_option("--junit", options->junit, "results as JUnit XML to FILE, or - for stdout");
  verb->callback([options, &line] {
    line.unfinished = kUnverified;
    line.action = [options] { return verify(*options); };
  });
}

}  // namespace ecmv::experiments
