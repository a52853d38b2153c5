// See axes.h.
#include "experiments/config/axes.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/backend.h"

namespace ecmv::experiments {
namespace {

using backends::Activations;
using reports::CaseRecord;

constexpr int64_t kMostThreads = 4096;
constexpr int64_t kMostDevices = 64;  // each is a process

std::vector<std::string> backend_names(const KernelChoice&) {
  std::vector<std::string> names;
  for (const backends::Backend& backend : backends::all_backends()) names.emplace_back(backend.id);
  return names;
}

// The instruction sets whose names can be checked; none if a backend has no device, since its cases then give the
// reason.
std::vector<std::string> instruction_sets(const KernelChoice& choice) {
  std::vector<std::string> names;
  for (const backends::Backend& backend : backends::all_backends()) {
    bool usable = false;
    for (const backends::DeviceInfo& info : backend.devices()) {
      usable = usable || info.unavailable.empty();
      if (!info.simd_target.empty()) names.push_back(info.simd_target);
    }
    if (!usable && std::ranges::find(choice.backends, backend.id) != choice.backends.end()) return {};
  }
  return names;
}

std::string number_or(int64_t number, int64_t word_number, const char* word) {
  return number == word_number ? word : std::to_string(number);
}

std::string activations_of(const KernelSpec& k) {
  return k.takes_tokens() ? std::string(backends::activations_name(k.activations)) : "";
}

bool on_gpu(const KernelSpec& k) { return !k.backend.empty() && !on_host(k.backend); }

bool shared_by_gpus(const KernelSpec& k) { return k.ranks > 1 && !k.engine.empty(); }

std::string split_of(const KernelSpec& k) { return k.ranks <= 1 ? "" : k.pairs ? "pairs" : "rows"; }

std::vector<std::string_view> task_names() {
  std::vector<std::string_view> names;
  for (const TaskEntry& task : kTasks) names.push_back(task.name);
  return names;
}

const KernelAxis kTable[] = {
    {.key = "backend",
     .help = "best (simd where there is such a kernel, else scalar), or ids of ecmv list backends",
     .fallback = "best",
     .field = &KernelChoice::backends,
     .words = {"best"},
     .names = backend_names,
     .name_part = [](const KernelSpec& k) { return k.backend; },
     .value = [](const KernelSpec& k) { return k.backend; },
     .record = [](const KernelSpec& k, CaseRecord& r) { r.kernel.backend = k.backend; }},
    {.key = "simd_target",
     .help = "instruction sets: best, all, or names of ecmv list devices",
     .fallback = "best",
     .field = &KernelChoice::simd_targets,
     .words = {"best", "all"},
     .names = instruction_sets,
     .name_part = [](const KernelSpec& k) { return k.simd_target.empty() ? "" : ":" + k.simd_target; },
     .value = [](const KernelSpec& k) { return k.simd_target; },
     .record = [](const KernelSpec& k, CaseRecord& r) { r.kernel.simd_target = k.simd_target; }},
    {.key = "threads",
     .help = "CPUs: threads, or all",
     .fallback = "all",
     .field = &KernelChoice::threads,
     .words = {"all"},
     .most = kMostThreads,
     .name_part = [](const KernelSpec& k) { return k.threads > 0 ? fmt::format(":t{}", k.threads) : ""; },
     .value = [](const KernelSpec& k) { return on_host(k.backend) ? number_or(k.threads, 0, "all") : ""; },
     .record = [](const KernelSpec& k, CaseRecord& r) { r.kernel.threads = k.threads; }},
    {.key = "ranks",
     .help = "CPUs, with --mpi: processes that share a product, or all",
     .fallback = "all",
     .field = &KernelChoice::ranks,
     .words = {"all"},
     .most = kMostThreads,
     .name_part =
         [](const KernelSpec& k) {
           return k.ranks > 1 && !shared_by_gpus(k) ? fmt::format(":r{}", k.ranks) : std::string();
         },
     .value = [](const KernelSpec& k) { return on_host(k.backend) ? std::to_string(k.ranks) : ""; },
     .record = [](const KernelSpec& k, CaseRecord& r) { r.ranks.count = k.ranks; }},
    {.key = "devices",
     .help = "GPUs that share a product; all: those of the launcher, without one a single device",
     .fallback = "all",
     .field = &KernelChoice::shared_devices,
     .words = {"all"},
     .most = kMostDevices,
     .name_part =
         [](const KernelSpec& k) { return shared_by_gpus(k) ? fmt::format(":devices{}", k.ranks) : std::string(); },
     .value = [](const KernelSpec& k) { return !on_gpu(k) ? "" : std::to_string(k.ranks); }},
    {.key = "engine",
     .help = "how these devices exchange vectors; all: every engine of their backend",
     .fallback = "all",
     .field = &KernelChoice::engines,
     .words = {"all", "nccl", "rccl", "peer"},
     .name_part = [](const KernelSpec& k) { return shared_by_gpus(k) ? ":" + k.engine : ""; },
     .value = [](const KernelSpec& k) { return k.engine; },
     .record = [](const KernelSpec& k, CaseRecord& r) { r.ranks.engine = k.engine; }},
    {.key = "split",
     .help = "how ranks or devices share float products: by rows, or in pairs of layers",
     .fallback = "rows",
     .field = &KernelChoice::splits,
     .words = {"rows", "pairs"},
     .name_part = [](const KernelSpec& k) { return std::string(k.pairs ? ":pairs" : ""); },
     .value = split_of,
     .record = [](const KernelSpec& k, CaseRecord& r) { r.ranks.split = split_of(k); }},
    {.key = "device",
     .help = "GPUs: first, or numbers of ecmv list devices",
     .fallback = "first",
     .field = &KernelChoice::devices,
     .words = {"first"},
     .word_number = -1,
     .least = 0,
     .most = 1023,
     .name_part = [](const KernelSpec& k) { return k.device >= 0 ? fmt::format(":device{}", k.device) : ""; },
     .value = [](const KernelSpec& k) { return !on_gpu(k) ? "" : number_or(k.device, -1, "first"); }},
    {.key = "op",
     .help = "matvec: int8 products; matmul: float products; step: a whole model; decode; size: no run",
     .fallback = "matvec",
     .field = &KernelChoice::tasks,
     .words = task_names(),
     .name_part = [](const KernelSpec& k) { return fmt::format("/{}", task_name(k.task)); },
     .value = [](const KernelSpec& k) { return std::string(task_name(k.task)); },
     .record = [](const KernelSpec& k, CaseRecord& r) { r.kernel.op = task_name(k.task); }},
    {.key = "batch",
     .help = "tokens of a matmul or a step",
     .fallback = "1",
     .field = &KernelChoice::batches,
     .most = backends::kMostTokens,
     .tasks = {Task::matmul, Task::step},
     .of_tasks = "counts the tokens of a matmul or a step",
     .name_part = [](const KernelSpec& k) { return k.takes_tokens() ? fmt::format(":b{}", k.batch) : ""; },
     .value = [](const KernelSpec& k) { return k.takes_tokens() ? std::to_string(k.batch) : ""; },
     .record = [](const KernelSpec& k, CaseRecord& r) { r.kernel.batch = k.batch; }},
    {.key = "activations",
     .help = "type of the tokens of a matmul or a step",
     .fallback = "f32",
     .field = &KernelChoice::activations,
     .words = {"f32", "bf16"},
     .tasks = {Task::matmul, Task::step},
     .of_tasks = "are the tokens of a matmul or a step",
     .name_part = [](const KernelSpec& k) { return std::string(k.activations == Activations::bf16 ? ":bf16" : ""); },
     .value = activations_of,
     .record =
         [](const KernelSpec& k, CaseRecord& r) {
           if (k.takes_tokens()) r.kernel.activations = activations_of(k);
         }},
    {.key = "repeat",
     .help = "copies of each block of a step in memory",
     .fallback = "1",
     .field = &KernelChoice::repeats,
     .most = 1000,
     .tasks = {Task::step},
     .of_tasks = "counts the copies of each block of a step",
     .name_part = [](const KernelSpec& k) { return k.repeat > 1 ? fmt::format(":x{}", k.repeat) : ""; },
     .value = [](const KernelSpec& k) { return k.task == Task::step ? std::to_string(k.repeat) : ""; }},
    {.key = "unfused",
     .help = "decode, then the harness's product: where there is no fused kernel (auto), always, never",
     .fallback = "auto",
     .field = &KernelChoice::unfused,
     .words = {"auto", "always", "never"},
     .name_part = [](const KernelSpec& k) { return std::string(k.unfused ? "/unfused_" : "/"); },
     .record = [](const KernelSpec& k, CaseRecord& r) { r.kernel.unfused = k.unfused; }},
    {.key = "variant",
     .help = "kernel variants: all, first, auto (a case by what the library would take), or names",
     .fallback = "all",
     .field = &KernelChoice::variants,
     .name_part = [](const KernelSpec& k) { return k.variant; },
     .value = [](const KernelSpec& k) { return k.variant; },
     .record = [](const KernelSpec& k, CaseRecord& r) { r.kernel.variant = k.variant; }},
    {.key = "policy",
     .help = "policies of a kernel: all, first, auto (the kernel's own choice), or names",
     .fallback = "all",
     .field = &KernelChoice::policies,
     .name_part =
         [](const KernelSpec& k) {
           return (k.task == Task::step || k.automatic()) && k.policy == k.variant ? "" : "/" + k.policy;
         },
     .value = [](const KernelSpec& k) { return k.policy; },
     .record = [](const KernelSpec& k, CaseRecord& r) { r.kernel.policy = k.policy; },
     .old_key = "tuning"},
    {.key = "launch",
     .help = "GPUs: graph, which a pass replays as captured once, or plain launches",
     .fallback = "graph",
     .field = &KernelChoice::launches,
     .words = {"graph", "plain"},
     .name_part = [](const KernelSpec& k) { return std::string(k.launch == "plain" ? "/plain_launches" : ""); },
     .value = [](const KernelSpec& k) { return k.launch; },
     .record = [](const KernelSpec& k, CaseRecord& r) { r.kernel.launch = k.launch; }},
};

}  // namespace

std::span<const KernelAxis> kernel_axes() { return kTable; }

const KernelAxis* find_kernel_axis(std::string_view key) {
  const auto axis = std::ranges::find_if(
      kTable, [&](const KernelAxis& one) { return one.key == key || (!one.old_key.empty() && one.old_key == key); });
  return axis == std::end(kTable) ? nullptr : &*axis;
}

std::string flag_of(const KernelAxis& axis) {
  std::string flag = "--" + std::string(axis.key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

}  // namespace ecmv::experiments
