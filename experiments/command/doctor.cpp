// ecmv doctor: finds whatever disturbs measurements on this machine or is missing.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backends/backend.h"
#include "backends/cpu/cpu_info.h"
#include "backends/cpu/memory_limits.h"
#include "backends/cpu/team.h"
#include "codecs/loaded/library.h"
#include "codecs/registry.h"
#include "experiments/command/command.h"
#include "experiments/command/doctor.h"
#include "experiments/config/expand.h"
#include "experiments/output/own_stdout.h"
#include "experiments/output/table_json.h"
#include "experiments/run/run_record.h"
#include "reports/fields.h"

namespace ecmv::experiments {
namespace {

using Level = Finding::Level;

// Whether a program of this name is on the PATH.
bool on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty() && access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void check_clocks(std::vector<Finding>& findings) {
  std::set<std::string> governors;
  for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); ++cpu)
    if (const std::string line = first_line(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor", cpu));
        !line.empty())
      governors.insert(line);
  const std::string found = fmt::format("{}", fmt::join(governors, ", "));
  if (governors.empty())
    findings.push_back({Level::note, "governor", "not readable (a virtual machine?)",
                        "clocks may change during a run; check the spread of the samples"});
  else if (governors != std::set<std::string>{"performance"})
    findings.push_back({Level::warning, "governor", found, "sudo cpupower frequency-set -g performance"});
  else
    findings.push_back({Level::fine, "governor", found, ""});

  const std::string no_turbo = first_line("/sys/devices/system/cpu/intel_pstate/no_turbo"),
                    boost = first_line("/sys/devices/system/cpu/cpufreq/boost");
  if (no_turbo.empty() && boost.empty())
    findings.push_back({Level::note, "turbo", "not readable", ""});
  else if (no_turbo == "0" || boost == "1")
    findings.push_back({Level::warning, "turbo", "on: the clock depends on temperature and on busy cores",
                        no_turbo.empty() ? "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
                                         : "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"});
  else
    findings.push_back({Level::fine, "turbo", "off", ""});

  const std::string smt = first_line("/sys/devices/system/cpu/smt/active");
  if (smt == "1")
    findings.push_back(
        {Level::note, "SMT", "on: two threads share a core", "compare with --threads set to the number of cores"});
  else
    findings.push_back({Level::fine, "SMT", smt == "0" ? "off" : "not readable", ""});
}

void check_load(std::vector<Finding>& findings) {
  const backends::DeviceInfo cpu = backends::cpu::describe_cpu();
  const long cores = sysconf(_SC_NPROCESSORS_ONLN), allowed = backends::cpu::affinity_cores();
  findings.push_back({Level::fine, "CPU",
                      fmt::format("{}, {} logical CPUs{}", cpu.name, cores,
                                  allowed > 0 && allowed < cores
                                      ? fmt::format(", of which this process may use {} (taskset, cpuset)", allowed)
                                      : ""),
                      ""});
  if (const double quota = backends::cpu::cpu_quota_cores(); quota > 0)
    findings.push_back({quota < 1 ? Level::warning : Level::note, "quota",
                        fmt::format("the control group may use {:.3g} cores, so 'all' threads are {}", quota,
                                    backends::cpu::Team::available_threads()),
                        "measure where no quota stops threads, or read times as those of such a share"});
  std::string targets;
  for (const backends::Backend& backend : backends::all_backends())
    for (const backends::DeviceInfo& info : backend.devices())
      if (!info.simd_target.empty() && info.unavailable.empty() && info.wave_size == 0)
        targets += (targets.empty() ? "" : ", ") + info.simd_target;
  findings.push_back(
      {targets.empty() ? Level::warning : Level::fine, "instruction sets", targets.empty() ? "none" : targets, ""});
  double load = 0;
  std::istringstream(first_line("/proc/loadavg")) >> load;
  const bool busy = load > 0.3;
  findings.push_back({busy ? Level::warning : Level::fine, "load", fmt::format("{:.2f} in the last minute", load),
                      busy ? "other programs use this machine: wait, or pin with taskset" : ""});
  const int64_t available = backends::cpu::available_memory_bytes();
  const bool scarce = available > 0 && available < int64_t{4} << 30;
  findings.push_back({scarce ? Level::warning : Level::fine, "memory",
                      fmt::format("{} available of {}", reports::bytes_text(static_cast<double>(available)),
                                  reports::bytes_text(static_cast<double>(cpu.memory_bytes))),
                      scarce ? "10 matrices of 8192 x 8192 need about 2.5 GiB" : ""});
  const std::string pages = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const bool never = pages.find("[never]") != std::string::npos;
  findings.push_back({never ? Level::warning : Level::fine, "transparent huge pages",
                      pages.empty() ? "not readable" : pages,
                      never ? "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled" : ""});
}

// Loads the libraries that the environment names, so that their codecs are listed too.
void check_codec_libraries(std::vector<Finding>& findings) {
  const char* path = std::getenv(codecs::kCodecPathVariable);
  if (path == nullptr) return;
  std::string wrong;
  try {
    codecs::load_codecs_of_environment();
  } catch (const codecs::LibraryError& e) {
    wrong = e.what();
  }
  findings.push_back({wrong.empty() ? Level::fine : Level::warning, codecs::kCodecPathVariable, path, wrong});
}

void check_build(std::vector<Finding>& findings) {
  const reports::RunRecord build = make_run_record({}, {});
  const bool release = build.build_type == "Release";
  findings.push_back({release ? Level::fine : Level::warning, "build",
                      fmt::format("{}, {} ({})", build.build_type, build.compiler, build.compiler_flags),
                      release ? "" : "build for measuring with cmake --preset cpu"});
  findings.push_back({build.git_revision.empty() || build.git_dirty ? Level::note : Level::fine, "revision",
                      build.git_revision.empty()
                          ? "unknown"
                          : build.git_revision + (build.git_dirty ? ", with uncommitted changes" : ""),
                      build.git_dirty ? "commit before measuring: records name the revision" : ""});
  std::string ids;
  for (const codecs::CodecEntry& entry : codecs::all_codecs()) ids += (ids.empty() ? "" : ", ") + std::string(entry.id);
  findings.push_back({ids.empty() ? Level::warning : Level::fine, "codecs", ids, ""});
}

std::string gigahertz(double hz) { return hz > 0 ? fmt::format("{:.3g} GHz", hz / 1e9) : "unknown"; }

// Reports the device's present state, whether something slows it down and whether others use it.
void check_gpu_state(std::vector<Finding>& findings, const std::string& id, const backends::DeviceState& state) {
  if (state.clock_hz <= 0) {
    findings.push_back({Level::note, id + " now", "clocks are not readable",
                        "records hold no clocks, and decode rates use the highest clock"});
    return;
  }
  const bool slowed =
      !state.throttle_reasons.empty() && state.throttle_reasons != "none" && state.throttle_reasons != "idle";
  findings.push_back(
      {slowed ? Level::warning : Level::fine, id + " now",
       fmt::format("{}, memory {}, {:.0f} W, {:.0f} degrees, throttle reasons: {}", gigahertz(state.clock_hz),
                   gigahertz(state.memory_clock_hz), state.power_w, state.temperature_c,
                   state.throttle_reasons.empty() ? "unknown" : state.throttle_reasons),
       slowed ? "the device runs below its clock: check power limit, cooling and clock settings" : ""});
  if (state.processes >= 0)
    findings.push_back({state.processes > 0 ? Level::warning : Level::fine, id + " users",
                        fmt::format("{} processes use it", state.processes),
                        state.processes > 0 ? "wait until it is free: they share its bandwidth" : ""});
}

void check_gpus(std::vector<Finding>& findings) {
  for (const backends::Backend& backend : backends::all_backends()) {
    if (on_host(backend.id)) continue;
    if (backend.id == "emulator") {
      findings.push_back(emulator(backend.devices().front().unavailable));
      continue;
    }
    int index = 0;
    for (const backends::DeviceInfo& info : backend.devices()) {
      const std::string id = fmt::format("{}:{}", backend.id, index++);
      if (!info.unavailable.empty()) {
        findings.push_back(missing_gpu(std::string(backend.id), info.unavailable));
      } else {
        findings.push_back(
            {Level::fine, id,
             fmt::format("{}, {}, {} compute units up to {}, memory {} at {}, L2 {}, {}", info.name, info.simd_target,
                         info.compute_units, gigahertz(info.clock_hz),
                         reports::bytes_text(static_cast<double>(info.memory_bytes)), gigahertz(info.memory_clock_hz),
                         reports::bytes_text(static_cast<double>(info.l2_bytes)), info.driver),
             ""});
        check_gpu_state(findings, id, backend.open({.index = index - 1})->state());
      }
    }
  }
}

void check_programs(std::vector<Finding>& findings) {
  struct Program {
    const char *name, *what_for, *package;
  };
  static constexpr Program kPrograms[] = {{"gnuplot", "figures of `ecmv report`", "gnuplot-nox"},
                                          {"g++", "building", "g++"},
                                          {"cmake", "building", "cmake"},
                                          {"ninja", "building", "ninja-build"},
                                          {"make", "the front doors `make bench` and `make test`", "make"},
                                          {"git", "the revision in records", "git"},
                                          {"aarch64-linux-gnu-g++", "`make test-neon`", "g++-aarch64-linux-gnu"},
                                          {"qemu-aarch64", "`make test-neon`", "qemu-user"}};
  for (const Program& program : kPrograms) {
    const bool there = on_path(program.name);
    findings.push_back({there ? Level::fine : Level::note, program.name,
                        there ? "found" : fmt::format("missing; needed for {}", program.what_for),
                        there ? "" : fmt::format("sudo apt-get install {}", program.package)});
  }
}

}  // namespace

void add_doctor(CLI::App& app, CommandLine& line) {
  auto json = std::make_shared<bool>(false);
  CLI::App* verb =
      app.add_subcommand("doctor", "checks this machine for what disturbs measurements and what is missing");
  verb->add_flag("--json", *json, "JSON on stdout");
  verb->callback([json, &line] {
    line.action = [json] {
      std::vector<Finding> findings;
      check_load(findings);
      check_clocks(findings);
      check_codec_libraries(findings);
      check_gpus(findings);
      check_build(findings);
      check_programs(findings);
      static constexpr const char* kLevels[] = {"ok", "note", "WARNING"};
      auto list = nlohmann::ordered_json::array();
      for (const Finding& finding : findings) {
        const char* level = kLevels[static_cast<int>(finding.level)];
        if (*json)
          list.push_back(
              {{"level", level}, {"what", finding.what}, {"found", finding.found}, {"advice", finding.advice}});
        else
          OwnStdout::stream() << fmt::format("{:8} {}: {}{}\n", level, finding.what, finding.found,
                                             finding.advice.empty() ? "" : "\n         -> " + finding.advice);
      }
      if (*json) OwnStdout::stream() << json_text(list) << "\n";
      return static_cast<int>(kFine);
    };
  });
}

}  // namespace ecmv::experiments
