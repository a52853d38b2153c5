// See run_record.h.
#include "experiments/run/run_record.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string_view>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "backends/cpu/cpu_info.h"
#include "backends/cpu/crew.h"
#include "ecmv_build.h"
#include "ecmv_revision.h"

namespace ecmv::experiments {
namespace {

std::string governor() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  std::string line;
  std::getline(file, line);
  return line;
}

std::string operating_system() {
  utsname name{};
  if (uname(&name) != 0) return {};
  std::string pretty;
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("PRETTY_NAME=")) pretty = line.substr(13, line.size() - 14);
  return fmt::format("{} (Linux {}, {})", pretty, name.release, name.machine);
}

std::vector<reports::GpuRecord> describe_gpus() {
  std::vector<reports::GpuRecord> gpus;
  for (const backends::Backend& backend : backends::all_backends()) {
    int index = 0;
    for (const backends::DeviceInfo& info : backend.devices()) {
      const std::string id = fmt::format("{}:{}", backend.id, index++);
      if (!info.unavailable.empty() || info.wave_size == 0 || info.emulated) continue;
      reports::GpuRecord gpu;
      gpu.id = id;
      gpu.name = info.name;
      gpu.architecture = info.simd_target;
      gpu.driver = info.driver;
      gpu.compute_units = info.compute_units;
      gpu.wave_size = info.wave_size;
      gpu.memory_bytes = info.memory_bytes;
      gpu.l2_bytes = info.l2_bytes;
      gpu.shared_bytes = info.shared_bytes;
      if (info.clock_hz > 0) gpu.highest_clock_hz = info.clock_hz;
      if (info.memory_clock_hz > 0) gpu.memory_clock_hz = info.memory_clock_hz;
      gpus.push_back(gpu);
    }
  }
  return gpus;
}

std::string host_name() {
  utsname names{};
  return uname(&names) == 0 ? names.nodename : "";
}

// Variables that change how many threads run, and where.
std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    const size_t equals = line.find('=');
    const std::string_view name = line.substr(0, equals);
    if (equals == std::string_view::npos) continue;
    if (name.starts_with("OMP_") || name.starts_with("GOMP_") || name.starts_with("KMP_") ||
        name == "CUDA_VISIBLE_DEVICES" || name == "HIP_VISIBLE_DEVICES" || name == "ROCR_VISIBLE_DEVICES")
      found.emplace(name, line.substr(equals + 1));
  }
  return found;
}

}  // namespace

reports::RunRecord make_run_record(const Experiment& experiment, const std::vector<std::string>& arguments) {
  reports::RunRecord record;
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  record.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
  record.run = fmt::format("{:%Y%m%dT%H%M%SZ}-{:08x}", fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                           std::random_device{}());
  record.experiment = experiment.name;
  record.question = experiment.question;
  record.git_revision = ECMV_GIT_REVISION;
  record.git_dirty = ECMV_GIT_DIRTY;
  record.compiler = ECMV_COMPILER;
  record.compiler_flags = ECMV_COMPILER_FLAGS;
  record.build_type = ECMV_BUILD_TYPE;
  record.libraries = {{"highway", ECMV_HIGHWAY_VERSION},
                      {"benchmark", ECMV_BENCHMARK_VERSION},
                      {"yaml-cpp", ECMV_YAML_CPP_VERSION},
                      {"fmt", ECMV_FMT_VERSION},
                      {"nlohmann-json", ECMV_NLOHMANN_JSON_VERSION}};
  const backends::DeviceInfo cpu = backends::cpu::describe_cpu();
  record.cpu_model = cpu.name;
  record.os = operating_system();
  record.governor = governor();
  record.cores = sysconf(_SC_NPROCESSORS_ONLN);
  record.host = host_name();
  record.allowed_cores = backends::cpu::Crew::available_cores();
  if (const double quota = backends::cpu::cpu_quota_cores(); quota > 0) record.cpu_quota_cores = quota;
  record.environment = environment();
  record.l1d_bytes = cpu.l1d_bytes;
  record.l2_bytes = cpu.l2_bytes;
  record.llc_bytes = cpu.llc_bytes;
  record.memory_bytes = cpu.memory_bytes;
  for (const backends::Backend& backend : backends::all_backends())
    for (const backends::DeviceInfo& info : backend.devices()) {
      if (info.unavailable.empty() && !info.simd_target.empty() && info.wave_size == 0)
        record.simd_targets.push_back(info.simd_target);
      if (info.unavailable.empty()) record.threads = std::max<int64_t>(record.threads, info.threads);
    }
  record.gpus = describe_gpus();
  record.config_name = experiment.config_name;
  record.config_text = experiment.config_text;
  record.config_hash =
      fmt::format("{:016x}", datasets::content_hash({{1, static_cast<int64_t>(experiment.config_text.size())},
                                                     datasets::ElementType::u8,
                                                     std::as_bytes(std::span(experiment.config_text))}));
  if (!experiment.cases.empty()) record.seed = experiment.cases.front().data.seed;
  record.arguments = arguments;
  if (experiment.shard) record.shard = experiment.shard->name();
  return record;
}

}  // namespace ecmv::experiments
