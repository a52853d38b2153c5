// ecmv run: runs an experiment from a config, or from options alone.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "backends/backend.h"
#include "backends/cpu/core_speed.h"
#include "backends/cpu/crew.h"
#include "backends/cpu/host_load.h"
#include "backends/world.h"
#include "codecs/did_you_mean.h"
#include "experiments/command/ad_hoc.h"
#include "experiments/command/command.h"
#include "experiments/output/own_stdout.h"
#include "experiments/output/result_files.h"
#include "experiments/output/run_summary.h"
#include "experiments/plan/plan.h"
#include "experiments/plan/shard.h"
#include "experiments/ranks/rank_team.h"
#include "experiments/run/case_record.h"
#include "experiments/run/run.h"
#include "experiments/run/running_case.h"

namespace ecmv::experiments {
namespace {

struct RunVerbOptions {
  std::string config;
  AdHoc ad_hoc;
  Selection selection;
  bool mpi = false, torchrun = false, print_config = false, dry_run = false, smoke = false, profile = false,
       resume = false, force = false;
  std::vector<std::string> required_backends;
  std::string output;
  std::optional<std::string> shard;
  TableFiles tables;
};

// If there is no case, `nothing_left` says why.
Experiment experiment_of(const RunVerbOptions& options, const CommandLine& line, std::string& nothing_left) {
  expect_config_or_codec(!options.config.empty(), options.ad_hoc.given(), "run", line);
  expect_no_flag_of_others(!options.config.empty(), options.ad_hoc.first_flag());
  Experiment experiment = options.config.empty()
                              ? ad_hoc_experiment(options.ad_hoc, options.selection.edits)
                              : load_experiment(options.config, options.selection.edits, codecs::all_codecs());
  if (options.smoke) shrink_to_smoke(experiment);
  if (options.profile) measure_once(experiment);
  nothing_left = filter_cases(experiment, options.selection.filter, options.selection.exclude);
  const std::optional<Shard> shard = options.shard ? parse_shard(*options.shard, "--shard") : shard_of_environment();
  if (shard && nothing_left.empty() && !options.print_config) std::cerr << keep_shard(experiment, *shard) << "\n";
  return experiment;
}

// Why a backend of --require-backend is missing before anything runs; "" if none is.
std::string missing_backend(const std::vector<std::string>& required) {
  for (const std::string& id : required) {
    const backends::Backend* backend = backends::find_backend(id);
    std::vector<std::string_view> known;
    for (const backends::Backend& one : backends::all_backends()) known.push_back(one.id);
    if (backend == nullptr)
      return fmt::format("The required backend '{}' is not part of this build.{}", id, codecs::did_you_mean(id, known));
    if (const std::string reason = backends::why_unavailable(*backend); !reason.empty())
      return fmt::format("The required backend '{}' is unavailable: {}", id, reason);
  }
  return {};
}

// Names the shard even if the environment chose it, since the command may be typed elsewhere.
std::string resume_command(const CommandLine& line, const RunVerbOptions& options, const Experiment& experiment) {
  std::string command = shell_word(line.program);
  bool resumes = false;
  for (const std::string& argument : line.arguments) {
    if (argument == "--force") continue;
    resumes = resumes || argument == "--resume";
    command += " " + shell_word(argument);
  }
  if (experiment.shard && !options.shard) command += " --shard " + experiment.shard->name();
  return resumes ? command : command + " --resume";
}

// "records.jsonl", for a shard "records.3-of-8.jsonl".
std::string records_name(const std::string& part) { return fmt::format("records{}.jsonl", part); }
std::string shard_part(const Shard& shard) { return fmt::format(".{}-of-{}", shard.index, shard.count); }

// The report goes beside the records, into a folder of their name unless that is the usual one; for a shard, one report
// covers all shards.
std::string report_command(const CommandLine& line, const std::filesystem::path& records,
                           const std::optional<Shard>& shard) {
  if (shard && records.filename() == records_name(shard_part(*shard))) {
    const std::string folder = shell_word(records.parent_path().empty() ? "." : records.parent_path().string());
    return fmt::format("{} report {}/{} -o {}", shell_word(line.program), folder,
                       records_name(fmt::format(".*-of-{}", shard->count)), folder);
  }
  const std::filesystem::path folder =
      records.filename() == "records.jsonl"
          ? (records.has_parent_path() ? records.parent_path() : std::filesystem::path("."))
          : records.parent_path() / (records.stem().string() + "_report");
  return fmt::format("{} report {} -o {}", shell_word(line.program), shell_word(records.string()),
                     shell_word(folder.string()));
}

void print_summary(const RunSummary& summary, const std::filesystem::path& records) {
  print_failures(summary.failures, "; the records have them all", std::cerr);
  print_refusals(summary.refusals, "; the records have each case's", std::cerr);
  std::string counts;
  for (const auto& [status, count] : summary.counts)
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, reports::to_string(status));
  if (summary.skipped > 0) counts += fmt::format("{}{} done before", counts.empty() ? "" : ", ", summary.skipped);
  std::cerr << fmt::format("{}; records in {}\n", counts.empty() ? "No case ran" : counts, records.string());
}

// Warns at the start of a run if the machine is not quiet, or its cores do not keep their speed from one moment to the
// next.
void warn_of_load(backends::cpu::CoreWatch& cores) {
  const backends::cpu::HostLoad before = backends::cpu::read_host_load();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const backends::cpu::Disturbance found = backends::cpu::between(before, backends::cpu::read_host_load());
  if (found.other_cores > 0.25 || found.stolen_share > 0.02)
    std::cerr << fmt::format(
        "DISTURBED: other programs use {:.1f} cores of this machine{}. Times will be marked.\n", found.other_cores,
        found.stolen_share > 0.02 ? fmt::format(", its host takes {:.0f} % of it", 100 * found.stolen_share) : "");
  const backends::cpu::CoreState worst = cores.start();
  if (!worst.steady())
    std::cerr << fmt::format(
        "DISTURBED: from one moment to the next the cores of this machine have {:.2f} of their clock and {:.2f} of "
        "their "
        "throughput{}. Times will be marked.\n",
        worst.clock_share, worst.throughput_share,
        worst.throttle_events.value_or(0) > 0 ? ", and the kernel counted throttling" : "");
}

// More threads than cores wait for each other at every layer.
void warn_of_threads(const Experiment& experiment) {
  int most = 0;
  for (const Case& one : experiment.cases) most = std::max(most, one.kernel.threads);
  const int cores = backends::cpu::Crew::available_cores();
  if (most > cores)
    std::cerr << fmt::format("ecmv: {} threads share the {} core{} that this process may use: they take turns.\n", most,
                             cores, cores == 1 ? "" : "s");
}

// Whether the experiment has a case on this backend, even in another shard.
bool asks_for(const Experiment& experiment, const std::string& backend) {
  return !experiment.shard ||
         std::ranges::any_of(experiment.cases, [&](const Case& one) { return one.kernel.backend == backend; });
}

// The exit code if the run ends before any case: another action was asked for, or nothing can run.
std::optional<int> ended_before_cases(const RunVerbOptions& options, const Experiment& experiment,
                                      const std::string& nothing_left) {
  if (options.print_config) {
    OwnStdout::stream() << experiment.config_text;
    return kFine;
  }
  if (experiment.cases.empty() && experiment.shard) {
    std::cerr << "There are more shards than datasets; this shard is empty.\n";
    return kFine;
  }
  if (experiment.cases.empty()) {
    std::cerr << "ecmv: " << nothing_left << "\n";
    return kNothingRan;
  }
  for (const std::string& remark : experiment.remarks) std::cerr << remark << "\n";
  if (options.dry_run)
    return print_plan(experiment, codecs::all_codecs(), OwnStdout::stream()) > 0 ? kFine : kNothingRan;
  if (const std::string missing = missing_backend(options.required_backends); !missing.empty()) {
    std::cerr << "ecmv: " << missing << "\n";
    return kNothingRan;
  }
  return std::nullopt;
}

std::filesystem::path records_path(const RunVerbOptions& options, const Experiment& experiment) {
  if (options.output == "-" || options.output == "/dev/stdout")
    return OwnStdout::file() == STDOUT_FILENO ? "/dev/stdout" : fmt::format("/dev/fd/{}", OwnStdout::file());
  if (!options.output.empty()) return options.output;
  return std::filesystem::path("out") / experiment.name /
         records_name(experiment.shard ? shard_part(*experiment.shard) : "");
}

// Cases that ended the process or never end. Such a case gets a record with its reason, and the others run.
class GivenUpCases {
 public:
  GivenUpCases(const Experiment& experiment, ResultFile& results, std::set<std::string>& done)
      : experiment_(experiment), results_(results), done_(done) {}

  void add(const Journal::Entry& entry, reports::Status status, const std::string& reason) {
    const auto one = std::ranges::find(experiment_.cases, entry.key, &Case::key);
    if (one == experiment_.cases.end() || results_.done().contains(entry.key)) return;
    reports::CaseRecord record = describe_case(*one, experiment_.name, results_.run_id());
    record.status = status;
    record.reason = reason;
    results_.write(record);
    done_.insert(entry.key);
    ++counts_[status];
    std::cerr << fmt::format("ecmv: {}: {}\n", one->name(), reason);
  }
  // The run counted them as done before.
  void count_in(RunSummary& summary) const {
    for (const auto& [status, count] : counts_) {
      summary.counts[status] += count;
      summary.skipped -= count;
    }
  }

 private:
  const Experiment& experiment_;
  ResultFile& results_;
  std::set<std::string>& done_;
  std::map<reports::Status, int> counts_;
};

// Prints tables and sentences about a finished run and returns its exit code. `backends`: those with an ok case.
int conclude(const RunSummary& summary, const RunVerbOptions& options, const CommandLine& line,
             const Experiment& experiment, const ResultFile& results, const std::set<std::string>& backends) {
  const std::filesystem::path path = records_path(options, experiment);
  const TableFiles& tables = options.tables;
  // A table that goes to stdout stands there alone.
  const bool stdout_taken = tables.json == "-" || tables.csv == "-" || tables.markdown == "-";
  if (!results.is_stream()) write_tables(path, experiment, tables, stdout_taken ? nullptr : &OwnStdout::stream());
  print_summary(summary, path);
  const auto ok = summary.counts.find(reports::Status::ok);
  if (summary.disturbed > 0)
    std::cerr << fmt::format(
        "DISTURBED: {} were in the way of {} of {} cases, marked with !. Measure again when it is quiet.\n",
        summary.disturbers.text(), summary.disturbed, ok == summary.counts.end() ? 0 : ok->second);
  if (!results.is_stream() && !summary.interrupted && ok != summary.counts.end())
    std::cerr << "Tables and figures: " << report_command(line, path, experiment.shard) << "\n";
  if (summary.interrupted)
    std::cerr << "Interrupted. Continue with: " << resume_command(line, options, experiment) << "\n";
  if (const int code = summary.exit_code(); code != kFine) return code;
  for (const std::string& id : options.required_backends)
    if (!backends.contains(id) && asks_for(experiment, id)) {
      std::cerr << fmt::format("ecmv: no case ran on the required backend '{}'.\n", id);
      return kNothingRan;
    }
  return kFine;
}

void expect_no_tables(const TableFiles& tables, const std::filesystem::path& stream) {
  if (!(tables.json + tables.csv + tables.markdown).empty())
    throw UsageError(fmt::format("Tables need a record file, and {} is a stream.", stream.string()));
}

void end_without_others(const std::string& sentence);

int run_cases(const RunVerbOptions& options, const CommandLine& line) {
  std::string nothing_left;
  const Experiment experiment = experiment_of(options, line, nothing_left);
  if (const auto code = ended_before_cases(options, experiment, nothing_left)) return *code;
  catch_interrupts();
  std::optional<RankTeam> team;
  if (const int processes = processes_for(experiment.cases); processes > 1 && RankTeam::get() == nullptr)
    team.emplace(backends::start_world(processes, line.arguments, end_without_others), end_without_others, true);
  const std::filesystem::path path = records_path(options, experiment);
  const TableFiles& tables = options.tables;
  check_places(path, experiment, tables);
  if (options.output == "-") expect_no_tables(tables, path);
  const std::optional<Journal::Entry> died = options.resume ? Journal::left_behind(path) : std::nullopt;
  const WhenThere when_there = options.resume  ? WhenThere::resume
                               : options.force ? WhenThere::replace
                                               : WhenThere::set_aside;
  ResultFile results(path, experiment, line.arguments, when_there, std::cerr);
  if (results.is_stream()) expect_no_tables(tables, path);
  std::optional<Journal> journal;
  if (!results.is_stream()) journal.emplace(path);
  std::set<std::string> backends = results.done_backends();
  RunOptions run_options;
  run_options.done = results.done();
  run_options.run_id = results.run_id();
  run_options.interrupted = interrupted;
  run_options.progress = &std::cerr;
  run_options.on_case = [&](const reports::CaseRecord& record) {
    if (record.status == reports::Status::ok) backends.insert(record.kernel.backend);
    results.write(record);
  };
  const bool measures = !options.smoke && !options.profile;
  if (measures) run_options.on_bandwidth = [&](const reports::BandwidthRecord& record) { results.write(record); };
  if (!experiment.question.empty()) std::cerr << experiment.name << ": " << experiment.question << "\n";
  GivenUpCases given_up(experiment, results, run_options.done);
  if (died)
    given_up.add(*died, reports::Status::error,
                 "The previous run ended during this case: a crash, a kill or a power failure. It is skipped.");
  catch_crashes("Earlier records are kept; --resume continues without that case.\n", kFailedCase);
  const auto limit = std::chrono::seconds(600 + static_cast<int64_t>(10 * experiment.measure.max_seconds));
  const Watchdog watchdog(limit, [&](const Journal::Entry& entry) {
    given_up.add(entry, reports::Status::timed_out, fmt::format("A call did not return within {} s.", limit.count()));
    std::cerr << "Continue with: " << resume_command(line, options, experiment) << "\n" << std::flush;
    ::_exit(kFailedCase);
  });
  warn_of_threads(experiment);
  std::optional<backends::cpu::CoreWatch> cores;
  if (measures) {
    warn_of_load(cores.emplace());
    run_options.cores = &*cores;
  }
  RunSummary summary = run_experiment(experiment, run_options);
  given_up.count_in(summary);
  if (team) team->finish();
  results.sync();
  return conclude(summary, options, line, experiment, results, backends);
}

// This process ends if a rank is gone for which others wait, or rank 0 is gone.
void end_without_others(const std::string& sentence) {
  if (!sentence.empty())
    std::cerr << fmt::format("ecmv: {} The run ends; --resume continues without the case that ran.\n", sentence)
              << std::flush;
  ::_exit(kFailedCase);
}

// Rank 0 runs the cases; the others follow its commands.
int run_together(std::unique_ptr<backends::World> world, const RunVerbOptions& options, const CommandLine& line) {
  if (world->rank() > 0) {
    follow(*world, end_without_others);
    return kFine;
  }
  RankTeam team(std::move(world), end_without_others, false);
  const int code = run_cases(options, line);
  team.finish();
  return code;
}

int run(const RunVerbOptions& options, const CommandLine& line) try {
  if (auto world = backends::join_starter(end_without_others)) return run_together(std::move(world), options, line);
  if (options.mpi) return run_together(backends::join_world(), options, line);
  if (options.torchrun) return run_together(backends::join_by_environment(end_without_others), options, line);
  if (const int ranks = backends::launched_ranks(); ranks > 1 && !options.shard)
    throw UsageError(fmt::format(
        "This is one of {} processes that a launcher started. With --mpi they share each product, with --shard I/N "
        "the cases.",
        ranks));
  return run_cases(options, line);
} catch (const backends::WorldError& e) {
  throw UsageError(e.what());
}

}  // namespace

void add_run(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<RunVerbOptions>();
  CLI::App* verb = app.add_subcommand("run", "runs an experiment: verifies, measures, writes records");
  verb->add_option("config", options->config, "YAML config: a file, or the name of one of 'ecmv list configs'");
  verb->add_flag("--print-config", options->print_config, "the resolved config on stdout, nothing else");
  add_selection(*verb, options->selection);
  add_tuned(*verb, options->selection.edits.tuned);
  add_codec_libraries(*verb, line);
  CLI::Option* mpi = verb->add_flag(
      "--mpi", options->mpi,
      "under mpirun: the processes share each product (ranks, split), the first one does everything else");
  verb->add_flag("--torchrun", options->torchrun,
                 "the same under torchrun, or what sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as it does")
      ->excludes(mpi);
  verb->add_flag("--dry-run", options->dry_run,
                 "shows cases, bytes, known refusals and the minimum time, and runs nothing");
  verb->add_flag("--smoke", options->smoke, "every case once, at most 512 x 512 elements and 2 layers");
  verb->add_flag("--profile", options->profile,
                 "every case is measured by one pass: no bandwidth, warm-up or repetition; for profilers");
  verb->add_option(
          "--shard", options->shard,
          "I/N, from 0/N on: only every N-th dataset with all of its cases, so that N processes share a sweep; by "
          "default what SLURM_ARRAY_TASK_ID or TEST_SHARD_INDEX say")
      ->type_name("I/N");
  CLI::Option* resume =
      verb->add_flag("--resume", options->resume, "continues the record file and skips cases that are ok in it");
  verb->add_flag("--force", options->force,
                 "replaces the record file; without --resume or --force an old one is set aside")
      ->excludes(resume);
  verb->add_option("--require-backend", options->required_backends, "exit code 6 unless a case ran on this backend")
      ->allow_extra_args(false);
  verb->add_option("-o,--output", options->output, "record file (out/<name>/records.jsonl)");
  verb->add_option("--json", options->tables.json, "every case and metric as JSON to FILE, or - for stdout");
  verb->add_option("--csv", options->tables.csv, "the same as CSV");
  verb->add_option("--md", options->tables.markdown, "tables as Markdown");
  verb->add_option("--columns", options->tables.columns, "of --json, --csv and --md: these columns of results.csv")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_ad_hoc(*verb, options->ad_hoc);
  verb->footer("Flags of Google Benchmark (--benchmark_...) are passed on.");
  verb->callback([options, &line] { line.action = [options, &line] { return run(*options, line); }; });
}

}  // namespace ecmv::experiments
