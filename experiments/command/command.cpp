// See command.h. CLI11 parses; its own exit codes and messages are replaced by ours.
#include "experiments/command/command.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "codecs/did_you_mean.h"
#include "codecs/loaded/library.h"
#include "codecs/registry.h"
#include "datasets/source.h"
#include "experiments/check/timed/device_witness.h"
#include "experiments/command/guard.h"
#include "experiments/output/own_stdout.h"
#include "experiments/output/printable_stream.h"
#include "experiments/run/measure.h"
#include "reports/record.h"

namespace ecmv::experiments {
namespace {

volatile sig_atomic_t signals_caught = 0, seconds_to_end = 0;

void on_signal(int signal) {
  if (signal == SIGALRM) _exit(kInterrupted);
  signals_caught = signals_caught + 1;
  if (seconds_to_end > 0) alarm(static_cast<unsigned>(seconds_to_end));
  if (signals_caught > 1) _exit(kInterrupted);
  static constexpr char kMessage[] = "\necmv: stopping after the current case; interrupt again to stop at once.\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  codecs::tell_calls_of_loaded_codecs();
}

// "--sigma" for "--simga": option names of the verb that was typed.
std::string nearest_option(const CLI::App& app, const std::string& argument) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands())
    for (const CLI::Option* option : verb->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return codecs::did_you_mean(argument.substr(0, argument.find('=')),
                              std::vector<std::string_view>(names.begin(), names.end()));
}

// Advice for `--op decode matvec`: finds the first list option that is followed by further words.
std::string list_advice(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (const CLI::App* verb : app.get_subcommands())
    for (size_t i = 0; i + 2 < arguments.size(); ++i) {
      const CLI::Option* option = arguments[i].starts_with("--") ? verb->get_option_no_throw(arguments[i]) : nullptr;
      if (option == nullptr || option->get_delimiter() != ',') continue;
      std::string values = arguments[i + 1];
      for (size_t k = i + 2; k < arguments.size() && !arguments[k].starts_with('-'); ++k) values += "," + arguments[k];
      if (values != arguments[i + 1])
        return fmt::format("Several values stand in one word: {} {}.", arguments[i], values);
    }
  return {};
}

int usage_error(const std::string& sentence, const CLI::App& app) {
  std::cerr << "ecmv: " << sentence << "\n";
  const auto verbs = app.get_subcommands();
  std::cerr << "See 'ecmv " << (verbs.empty() ? "" : verbs.front()->get_name() + " ") << "--help'.\n";
  return kUsage;
}

// Loads libraries, acts, and maps every exception to an exit code.
int act_here(const CommandLine& line, const std::function<void()>& loaded) {
  try {
    // Load here, while there is one thread: a library is first tried in a forked process.
    for (const std::string& file : line.codec_libraries) codecs::load_codec_library(file);
    if (line.names_codecs) codecs::load_codecs_of_environment();
    const auto codecs = codecs::all_codecs();
    if (std::any_of(codecs.begin(), codecs.end(), [](const codecs::CodecEntry& entry) { return entry.loaded(); }))
      codecs::tell_crashes_of_loaded_codecs();
    std::optional<DeviceWitness> trials;  // while this process has seen no device
    if (std::any_of(codecs.begin(), codecs.end(),
                    [](const codecs::CodecEntry& entry) { return !entry.gpu_kernels.empty(); }))
      trials.emplace(true, false);
    loaded();
    return line.action();
  } catch (const ConfigError& e) {
    std::cerr << e.what() << "\n";
    return kUsage;
  } catch (const UsageError& e) {
    std::cerr << "ecmv: " << e.what() << "\n";
    return kUsage;
  } catch (const NothingRuns& e) {
    std::cerr << "ecmv: " << e.what() << "\n";
    return kNothingRan;
  } catch (const codecs::LibraryError& e) {
    std::cerr << "ecmv: " << e.what() << "\n";
    return kUsage;
  } catch (const reports::ReportError& e) {
    std::cerr << "ecmv: " << e.what() << "\n";
    return kUsage;
  } catch (const datasets::DatasetError& e) {
    std::cerr << "ecmv: " << e.what() << "\n";
    return kUsage;
  } catch (const std::filesystem::filesystem_error& e) {
    std::cerr << fmt::format("ecmv: {}{}{}: {}.\n", e.path1().string(), e.path2().empty() ? "" : " and ",
                             e.path2().string(), e.code().message());
    return kUsage;
  } catch (const std::bad_alloc&) {
    std::cerr << "ecmv: out of memory.\n";
    return kFailedCase;
  } catch (const std::exception& e) {
    std::cerr << "ecmv: internal error: " << e.what() << "\n";
    return kInternal;
  } catch (...) {  // from a codec or a library
    std::cerr << "ecmv: internal error: unknown exception.\n";
    return kInternal;
  }
}

int act(const CommandLine& line) {
  const char* const path = std::getenv(codecs::kCodecPathVariable);
  const bool strangers = !line.codec_libraries.empty() || (line.names_codecs && path != nullptr && *path != '\0');
  if (!strangers) return act_here(line, [] {});
  // Each library is tried and then loaded for good.
  const int seconds = 2 * codecs::kLoadSeconds * static_cast<int>(1 + line.codec_libraries.size());
  return run_guarded(
      [&](const auto& loaded) {
        const OwnStdout own;
        const PrintableStream out(OwnStdout::stream());
        return act_here(line, loaded);
      },
      line.unfinished, seconds);
}

}  // namespace

void catch_interrupts(int seconds) {
  seconds_to_end = seconds;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // no system call of ours needs to be woken up
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  if (seconds > 0) sigaction(SIGALRM, &action, nullptr);
}

bool interrupted() { return signals_caught > 0; }

void add_selection(CLI::App& verb, Selection& selection) {
  verb.add_option(
      "--filter", selection.filter,
      "only cases whose name matches this regular expression, or with KEY=VALUE|VALUE,... of axes and settings");
  verb.add_option("--exclude", selection.exclude,
                  "drops cases whose name (see --dry-run) matches it, or with KEY=VALUE|VALUE,...");
  verb.add_option("-a,--axis", selection.edits.axes,
                  "AXIS=VALUES: replaces an axis in every block, e.g. d=2048,4096 or simd_target=all")
      ->allow_extra_args(false);
  verb.add_option("--set", selection.edits.values,
                  "PATH=VALUE: sets one value of the config, e.g. measure.repetitions=3")
      ->allow_extra_args(false);
}

CLI::Option* add_tuned(CLI::App& verb, std::string& file) {
  return verb.add_option("--tuned", file, "a file of 'ecmv tune', whose values open settings of codecs take")
      ->type_name("FILE");
}

// The option may stand before the verb and after it, and both count.
static void add_library_option(CLI::App& app, CommandLine& line) {
  app.add_option_function<std::vector<std::string>>(
         "--codec-library",
         [&line](const std::vector<std::string>& files) {
           line.codec_libraries.insert(line.codec_libraries.end(), files.begin(), files.end());
         },
         "loads the codecs of a shared object (codecs/ABI.md), besides those in ECMV_CODEC_PATH")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

void add_codec_libraries(CLI::App& verb, CommandLine& line) {
  add_library_option(verb, line);
  verb.parse_complete_callback([&line] { line.names_codecs = true; });
}

void expect_config_or_codec(bool config, bool codec, std::string_view verb, const CommandLine& line) {
  if (config != codec) return;
  if (!config)
    throw UsageError(fmt::format(
        "'ecmv {}' needs a config, of 'ecmv list configs' or a file of yours, or at least --codec without one.", verb));
  throw UsageError("Give either a config or --codec, not both. " +
                   (line.list_advice.empty() ? "-a and --set change a config." : line.list_advice));
}

void expect_no_flag_of_others(bool config, const std::string& flag) {
  if (config && !flag.empty())
    throw UsageError(fmt::format("{} is for runs without a config; -a and --set change a config.", flag));
}

void expect_no_input(std::string_view flag, const std::string& file, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs)
    if (std::error_code error;
        file != "-" && std::filesystem::equivalent(file, input, error) && std::filesystem::is_regular_file(file, error))
      throw UsageError(fmt::format("{} is an input, so {} cannot overwrite it.", file, flag));
}

static bool holds_records(const std::string& file) {
  static constexpr std::string_view kStart = "{\"schema\":1,\"kind\":";
  std::string start(kStart.size(), '\0');
  std::ifstream stream(file, std::ios::binary);
  return stream.read(start.data(), static_cast<std::streamsize>(start.size())) && start == kStart;
}

void expect_folder(std::string_view flag, const std::filesystem::path& file) {
  std::error_code error;
  if (file.has_parent_path() && !std::filesystem::is_directory(file.parent_path(), error))
    throw UsageError(fmt::format("{} {}: there is no folder {}.", flag, file.string(), file.parent_path().string()));
}

void write_output(const std::string& file, const std::function<void(std::ostream&)>& write) {
  if (file == "-") return write(OwnStdout::stream());
  if (holds_records(file)) throw UsageError(fmt::format("The file {} holds records and is not overwritten.", file));
  errno = 0;
  std::ofstream stream(file);
  if (stream) write(stream);
  stream.close();
  const int error = errno != 0 ? errno : EIO;
  if (!stream) throw UsageError(fmt::format("The file {} cannot be written: {}.", file, std::strerror(error)));
}

static int parse_and_act(int argc, char** argv) {
  CLI::App app("ecmv: entropy-coded matrix-vector products, measured and verified.", "ecmv");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("ecmv 0.1.0"));
  app.footer(
      "Exit codes: 0 fine, 1 internal error, 2 usage, config or a file, 3 verification failed or nothing verified,\n"
      "4 compare found a regression, 5 some case failed, 6 nothing ran or a required backend is missing,\n"
      "130 interrupted.");
  CommandLine line;
  add_library_option(app, line);
  for (const auto add : {add_list, add_run, add_verify, add_report, add_compare, add_export, add_inspect, add_advise,
                         add_tune, add_new_codec, add_doctor})
    add(app, line);

  std::vector<std::string> engine_flags;
  if (argc > 0) line.program = argv[0];
  for (int i = 1; i < argc; ++i) {
    line.arguments.push_back(argv[i]);
    if (line.arguments.back().starts_with("--benchmark_")) engine_flags.push_back(argv[i]);
  }
  std::vector<std::string> ours = line.arguments;
  std::erase_if(ours, [](const std::string& argument) { return argument.starts_with("--benchmark_"); });
  if (const auto unknown = initialise_timing(engine_flags); !unknown.empty())
    return usage_error(fmt::format("Google Benchmark does not know {}.", unknown.front()), app);

  if (ours.empty()) {
    std::cerr << app.help();
    return kUsage;
  }
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  if (!ours.front().starts_with('-') && std::find(names.begin(), names.end(), ours.front()) == names.end()) {
    return usage_error(
        fmt::format("There is no verb '{}'.{}", ours.front(),
                    codecs::did_you_mean(ours.front(), std::vector<std::string_view>(names.begin(), names.end()))),
        app);
  }
  try {
    std::vector<std::string> reversed(ours.rbegin(), ours.rend());  // CLI11 takes them from the back
    app.parse(reversed);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
      return app.exit(e, OwnStdout::stream(), std::cerr) == 0 ? kFine : kInternal;
    std::string sentence = e.what();
    if (const std::string advice = list_advice(app, ours);
        dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr && !advice.empty())
      sentence += ". " + advice;
    else if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr)
      for (const std::string& argument : ours)
        if (argument.starts_with("--") && sentence.find(argument) != std::string::npos)
          sentence += "." + nearest_option(app, argument);
    return usage_error(sentence, app);
  }
  line.list_advice = list_advice(app, ours);
  return act(line);
}

// If 0 to 2 are closed, opens substitutes for them, on which writing fails. Otherwise our own files would get these
// numbers, and tables or messages would be written into them.
static void occupy_standard_files() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(file, F_GETFD) < 0 && errno == EBADF) open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int run_command_line(int argc, char** argv) {
  occupy_standard_files();
  signal(SIGXFSZ, SIG_IGN);  // exceeding the file size limit then fails the write, with its sentence
  const PrintableStream out(std::cout), err(std::cerr);
  const int code = parse_and_act(argc, argv);
  std::cout.flush();
  if (std::cout) return code;
  std::cerr << "ecmv: stdout is full or closed; output was lost.\n";
  return code == kFine ? static_cast<int>(kUsage) : code;
}

std::string shell_word(const std::string& argument) {
  const bool plain =
      !argument.empty() &&
      argument.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%") ==
          std::string::npos;
  if (plain) return argument;
  std::string out = "'";
  for (char c : argument) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace ecmv::experiments
