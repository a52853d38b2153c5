// The parts of the command `ecmv` that its verbs share. Each verb is one file command_<verb>.cpp that declares its
// options and its action; parsing, messages and exit codes are in command.cpp. Data goes to stdout, messages and
// progress to stderr.
#pragma once

#include <functional>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/experiment.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ecmv::experiments {

enum ExitCode : int {
  kFine = 0,          // refusals allowed
  kInternal = 1,      // a defect of ecmv
  kUsage = 2,         // command line, config, or a file; all errors at once
  kUnverified = 3,    // verification failed or was not performed
  kRegression = 4,    // compare
  kFailedCase = 5,    // some case failed
  kNothingRan = 6,    // no case ran, or a required backend is missing
  kInterrupted = 130  // results so far are valid
};

// Ends the command with kUsage and this sentence.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Ends the command with kNothingRan and this sentence.
struct NothingRuns : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct CommandLine {
  std::string program = "ecmv";        // as typed
  std::vector<std::string> arguments;  // after it
  // Advice for words after the value of a list option (--op decode matvec), or "".
  std::string list_advice;
  std::function<int()> action;  // the verb's action; returns an exit code
  // Whether the verb names codecs. Then libraries (--codec-library, ECMV_CODEC_PATH) are loaded before it acts.
  bool names_codecs = false;
  std::vector<std::string> codec_libraries;
  ExitCode unfinished = kFailedCase;  // if a library's code ends the process before the verb has ended
};

void add_list(CLI::App& app, CommandLine& line);
void add_run(CLI::App& app, CommandLine& line);
void add_verify(CLI::App& app, CommandLine& line);
void add_report(CLI::App& app, CommandLine& line);
void add_compare(CLI::App& app, CommandLine& line);
void add_export(CLI::App& app, CommandLine& line);
void add_inspect(CLI::App& app, CommandLine& line);
void add_advise(CLI::App& app, CommandLine& line);
void add_tune(CLI::App& app, CommandLine& line);
void add_new_codec(CLI::App& app, CommandLine& line);
void add_doctor(CLI::App& app, CommandLine& line);

// Parses the arguments, acts, and maps every exception to an exit code.
int run_command_line(int argc, char** argv);

// From now on the first SIGINT or SIGTERM makes interrupted() true, and the second ends the process with kInterrupted.
// So does a call that goes on for these seconds after the first (0: none).
void catch_interrupts(int seconds = 0);
bool interrupted();

// Makes a verb one that names codecs.
void add_codec_libraries(CLI::App& verb, CommandLine& line);

// Selects cases of a config: options of `run` and `verify`.
struct Selection {
  ConfigEdits edits;
  std::string filter, exclude;
};
void add_selection(CLI::App& verb, Selection& selection);
// --tuned FILE, for verbs that encode.
CLI::Option* add_tuned(CLI::App& verb, std::string& file);

// Throws UsageError unless exactly one of the two is given, with a guess at what was meant.
void expect_config_or_codec(bool config, bool codec, std::string_view verb, const CommandLine& line);
// Throws UsageError if a config is given together with `flag`, a flag for runs without one, which would be ignored.
void expect_no_flag_of_others(bool config, const std::string& flag);

// Quotes an argument for a shell.
std::string shell_word(const std::string& argument);

// Throws UsageError if the output of `flag` would replace one of the input files.
void expect_no_input(std::string_view flag, const std::string& file, const std::vector<std::string>& inputs);

// Throws UsageError if the folder of a file that `flag` names is missing: before the work, not after it.
void expect_folder(std::string_view flag, const std::filesystem::path& file);

// Calls write with a file, or with stdout for "-". Throws UsageError if the file cannot be written or holds records.
void write_output(const std::string& file, const std::function<void(std::ostream&)>& write);

}  // namespace ecmv::experiments
