// See expand.h.
#include "experiments/config/expand.h"

#include <algorithm>

#include "backends/backend.h"
#include "backends/cpu/memory_limits.h"
#include "datasets/source.h"
#include "experiments/ranks/rank_team.h"

namespace ecmv::experiments {

namespace {

using backends::Activations;
using backends::Op;

constexpr std::string_view kBest = "best";

using Words = std::vector<std::string>;

bool has(const Words& words, std::string_view word) { return std::ranges::find(words, word) != words.end(); }

bool names_it(const Words& words, std::string_view name, bool is_first) {
  return std::ranges::any_of(
      words, [&](const std::string& word) { return word == "all" || (word == "first" && is_first) || word == name; });
}

bool does(const backends::Kernel& kernel, const Work& work) {
  return kernel.op == work.op && (work.op != Op::matmul || (kernel.activations == work.activations &&
                                                            backends::takes_groups(kernel, work.group_cols)));
}

bool has_kernel(const codecs::CodecEntry& entry, std::string_view backend, const Work& work) {
  return std::ranges::any_of(entry.kernels(backend), [&](const auto& kernel) { return does(kernel, work); });
}

std::vector<backends::ChosenKernel> kernels_among(const codecs::CodecEntry& entry, std::string_view backend,
                                                  const Work& work, const Words& variants, const Words& policies) {
  std::vector<backends::ChosenKernel> found;
  bool is_first = true;
  for (const backends::Kernel& kernel : entry.kernels(backend)) {
    if (!does(kernel, work) || !names_it(variants, kernel.variant, is_first)) continue;
    is_first = false;
    if (has(policies, kAuto)) found.push_back({&kernel, nullptr});
    for (const backends::Policy& policy : kernel.policies)
      if (names_it(policies, policy.name, &policy == &kernel.policies[0])) found.push_back({&kernel, &policy});
  }
  return found;
}

// Appends the kernels for a place that lacks only kernel and policy.
void append_kernels(const KernelChoice& choice, const codecs::CodecEntry& entry, KernelSpec place, int64_t group_cols,
                    std::vector<KernelSpec>& out) {
  Work work{place.op(), place.activations, group_cols};
  const bool fused = has_kernel(entry, place.backend, work);
  if (place.takes_tokens() && has(choice.variants, kAuto) &&
      (fused || has_kernel(entry, place.backend, {Op::decode}))) {
    KernelSpec& spec = out.emplace_back(place);
    spec.variant = spec.policy = kAuto;
  }
  // If no kernel takes the scales and `unfused` is forbidden, the kernels give the reason themselves.
  if (!fused && choice.unfused == "never") work.group_cols = 0;
  const auto append = [&](const Work& one, bool unfused) {
    for (const auto& chosen : kernels_among(entry, place.backend, one, choice.variants, choice.policies)) {
      KernelSpec& spec = out.emplace_back(place);
      spec.variant = chosen.kernel->variant;
      spec.policy = chosen.policy == nullptr ? kAuto : chosen.policy->name;
      spec.chosen = chosen;
      spec.unfused = unfused;
    }
  };
  append(work, false);
  const bool wants_unfused = choice.unfused == "always" || (choice.unfused == "auto" && !fused);
  if (work.op != Op::decode && wants_unfused) append({Op::decode}, true);
  // The reference decoder works for a codec that has no kernel at all.
  if (place.backend == "scalar" && !has_kernel(entry, "scalar", {Op::decode}) &&
      (work.op == Op::decode || (!fused && wants_unfused))) {
    place.variant = "reference";
    place.policy = "default";
    place.unfused = work.op != Op::decode;
    out.push_back(place);
  }
}

// The named instruction sets that this backend has, "" for its best device. A backend with none of them uses its best
// device, except `simd`, which then has nothing to do.
std::vector<std::string> targets_of(const std::string& backend, const std::vector<std::string>& names) {
  if (backend == "scalar") return {""};
  const backends::Backend* found = backends::find_backend(backend);
  const std::vector<backends::DeviceInfo> devices =
      found == nullptr ? std::vector<backends::DeviceInfo>() : found->devices();
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (name == "best") {
      out.push_back("");
      continue;
    }
    for (const backends::DeviceInfo& info : devices)
      if ((name == "all" ? info.unavailable.empty() : name == info.simd_target) &&
          std::find(out.begin(), out.end(), info.simd_target) == out.end())
        out.push_back(info.simd_target);  // the first of two equal devices
  }
  if (out.empty() && backend != "simd") out.push_back("");
  return out;
}

int ranks_of(int64_t wanted) {
  if (wanted > 0) return static_cast<int>(wanted);
  const RankTeam* team = RankTeam::get();
  return team == nullptr || team->for_devices() ? 1 : team->size();
}

std::vector<std::string> engines_of(const std::string& backend, const std::vector<std::string>& names) {
  std::vector<std::string> out;
  const auto add = [&](const std::string& name) {
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  };
  for (const std::string& name : names) {
    if (name != "all") {
      add(name);
      continue;
    }
    if (backend == "cuda") add("nccl");
    if (backend == "hip") add("rccl");
    add("peer");
  }
  return out;
}

// The ways to share a product at this place: how many ranks, by which engine, with which split.
std::vector<KernelSpec> shared(const KernelChoice& choice, KernelSpec place) {
  const bool host = on_host(place.backend);
  std::vector<KernelSpec> out;
  for (const int64_t wanted : host ? choice.ranks : choice.shared_devices) {
    place.ranks = ranks_of(wanted);
    place.engine.clear();
    place.pairs = false;
    if (place.ranks == 1) {
      out.push_back(place);
      continue;
    }
    for (const std::string& engine : host ? std::vector{std::string()} : engines_of(place.backend, choice.engines))
      for (const std::string& split : choice.splits) {
        place.engine = engine;
        place.pairs = split == "pairs";
        out.push_back(place);
      }
  }
  return out;
}

// Where a backend's kernels run and how they start: CPUs have the axis `threads`, GPUs `device` and `launch`.
std::vector<KernelSpec> places_of(const KernelChoice& choice, const std::string& backend) {
  std::vector<KernelSpec> out;
  for (const std::string& target : targets_of(backend, choice.simd_targets)) {
    KernelSpec place;
    place.backend = backend;
    place.simd_target = target;
    if (on_host(backend))
      for (const int64_t threads : choice.threads) {
        place.threads = static_cast<int>(threads);
        out.push_back(place);
      }
    else
      for (const int64_t device : choice.devices)
        for (const std::string& launch : choice.launches) {
          place.device = static_cast<int>(device);
          place.launch = launch;
          out.push_back(place);
        }
  }
  return out;
}

std::vector<KernelSpec> with_tokens(const KernelChoice& choice, KernelSpec place) {
  std::vector<KernelSpec> out;
  for (const int64_t batch : choice.batches)
    for (const Activations activations : choice.activations) {
      place.batch = static_cast<int>(batch);
      place.activations = activations;
      out.push_back(place);
    }
  return out;
}

// `simd` if the codec has a kernel for it there, fused or, if need be, unfused.
std::string best_backend(const KernelChoice& choice, const codecs::CodecEntry& entry, Task task, int64_t group_cols) {
  const Op op = KernelSpec{.task = task}.op();
  const bool may_unfuse = choice.unfused != "never";
  const Work work{op, Activations::f32, op == Op::matmul && may_unfuse ? group_cols : 0};
  if (has_kernel(entry, "simd", work)) return "simd";
  const bool unfused = op != Op::decode && may_unfuse && !has_kernel(entry, "scalar", work);
  return unfused && has_kernel(entry, "simd", {Op::decode}) ? "simd" : "scalar";
}

}  // namespace

std::vector<KernelSpec> expand_kernels(const KernelChoice& choice, const codecs::CodecEntry& entry,
                                       int64_t group_cols) {
  std::vector<KernelSpec> out;
  if (choice.asks_for(Task::size)) out.push_back({.task = Task::size});
  for (const std::string& wanted : choice.backends)
    for (const Task task : choice.tasks) {
      if (task == Task::size || task == Task::step) continue;
      const std::string backend = wanted == kBest ? best_backend(choice, entry, task, group_cols) : wanted;
      for (KernelSpec& place : places_of(choice, backend)) {
        place.task = task;
        for (const KernelSpec& tokens : place.takes_tokens() ? with_tokens(choice, place) : std::vector{place})
          for (const KernelSpec& one : task == Task::decode ? std::vector{tokens} : shared(choice, tokens))
            append_kernels(choice, entry, one, group_cols, out);
      }
    }
  return out;
}

std::vector<KernelSpec> expand_steps(const KernelChoice& choice, std::span<const codecs::CodecEntry* const> entries) {
  const auto all_have = [&](std::string_view backend, Op op) {
    return std::ranges::all_of(entries,
                               [&](const codecs::CodecEntry* entry) { return has_kernel(*entry, backend, {op}); });
  };
  const auto runs = [&](std::string_view backend) {
    return std::ranges::all_of(entries, [&](const codecs::CodecEntry* entry) {
      return (choice.unfused != "always" && has_kernel(*entry, backend, {Op::matmul})) ||
             (choice.unfused != "never" && has_kernel(*entry, backend, {Op::decode}));
    });
  };
  const auto word_of = [](const std::string& word) { return word == "all" ? std::string(kBest) : word; };
  std::vector<KernelSpec> out;
  for (const std::string& wanted : choice.backends) {
    const bool simd = all_have("simd", Op::matmul) || (!all_have("scalar", Op::matmul) && runs("simd"));
    const std::string backend = wanted == kBest ? (simd ? "simd" : "scalar") : wanted;
    if (!runs(backend)) continue;
    for (KernelSpec& place : places_of(choice, backend)) {
      place.task = Task::step;
      place.unfused = choice.unfused == "always";
      for (KernelSpec& step : with_tokens(choice, place))
        for (const int64_t repeat : choice.repeats)
          for (const std::string& variant : choice.variants)
            for (const std::string& policy : variant == kAuto ? Words{variant} : choice.policies) {
              step.repeat = static_cast<int>(repeat);
              step.variant = word_of(variant);
              step.policy = word_of(policy);
              for (const KernelSpec& one : shared(choice, step)) out.push_back(one);
            }
    }
  }
  return out;
}

std::vector<backends::ChosenKernel> kernels_for(const codecs::CodecEntry& entry, std::string_view backend,
                                                const Work& work, std::string_view variant, std::string_view policy) {
  const auto words = [](std::string_view word) { return Words{std::string(word == kBest ? "all" : word)}; };
  return kernels_among(entry, backend, work, words(variant), words(policy));
}

int64_t largest_cache(std::span<const std::string> backends) {
  int64_t bytes = 0;
  for (const std::string& id : backends)
    if (const backends::Backend* backend = backends::find_backend(id == kBest ? "simd" : id); backend != nullptr)
      for (const backends::DeviceInfo& info : backend->devices()) bytes = std::max(bytes, info.llc_bytes);
  return bytes;
}

int streamed_layers(const DataSpec& data, int64_t cache_bytes) {
  constexpr int64_t kCacheIfUnknown = int64_t{32} << 20;
  constexpr int64_t kMemoryForElements = 4;  // a run holds elements, codes, results and references: plan/plan.h
  const datasets::DataSource* source = datasets::find_source(data.source);
  const int64_t layer = std::max<int64_t>(1, data.shape.elements() * (source == nullptr ? 1 : source->element_bytes));
  const int64_t wanted = 2 * 4 * (cache_bytes > 0 ? cache_bytes : kCacheIfUnknown);
  int64_t most = kMostStreamedBytes;
  if (const int64_t available = backends::cpu::available_memory_bytes(); available > 0)
    most = std::min(most, available / 2 / kMemoryForElements);
  return static_cast<int>(std::clamp<int64_t>((wanted + layer - 1) / layer, 1, std::max<int64_t>(1, most / layer)));
}

}  // namespace ecmv::experiments
