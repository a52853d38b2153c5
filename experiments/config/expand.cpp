// See expand.h.
#include "experiments/config/expand.h"

#include <algorithm>

#include "backends/backend.h"
#include "experiments/ranks/rank_team.h"

namespace ecmv::experiments {

bool on_host(std::string_view backend) { return backend == "scalar" || backend == "simd"; }

namespace {

using backends::Activations;
using backends::Op;

constexpr std::string_view kBest = "best";

bool chosen(const std::vector<std::string>& names, std::string_view name, bool is_first) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& n) { return n == "all" || (n == "first" && is_first) || n == name; });
}

// What a kernel shall do. Of a matmul with tokens of which type, and with scales of groups of so many columns (0: none).
struct Task {
  Op op;
  Activations activations = Activations::f32;
  int64_t group_cols = 0;
};

bool does(const backends::Kernel& kernel, const Task& task) {
  return kernel.op == task.op && (task.op != Op::matmul || (kernel.activations == task.activations &&
                                                            backends::takes_groups(kernel, task.group_cols)));
}

bool has_kernel(const codecs::CodecEntry& entry, std::string_view backend, const Task& task) {
  const auto kernels = entry.kernels(backend);
  return std::any_of(kernels.begin(), kernels.end(), [&](const auto& k) { return does(k, task); });
}

void for_each_chosen(const codecs::CodecEntry& entry, std::string_view backend, const Task& task,
                     const std::vector<std::string>& variants, const std::vector<std::string>& tunings,
                     const auto& use) {
  bool is_first = true;
  for (const backends::Kernel& kernel : entry.kernels(backend)) {
    if (!does(kernel, task) || !chosen(variants, kernel.variant, is_first)) continue;
    is_first = false;
    for (const backends::Policy& policy : kernel.policies)
      if (chosen(tunings, policy.name, &policy == &kernel.policies[0])) use(kernel, policy);
  }
}

// Appends the kernels of one backend for one op, `place` holding backend, target, threads, op and batch.
void append_kernels(const KernelChoice& choice, const codecs::CodecEntry& entry, KernelSpec place, int64_t group_cols,
                    std::vector<KernelSpec>& out) {
  Task task{place.op, place.activations, group_cols};
  const bool fused = has_kernel(entry, place.backend, task);
  // Where none takes the scales, those that must do without `unfused` say so themselves.
  if (!fused && choice.unfused == "never") task.group_cols = 0;
  const auto append = [&](const Task& one, bool unfused) {
    const auto add = [&](const backends::Kernel& kernel, const backends::Policy& policy) {
      KernelSpec spec = place;
      spec.variant = kernel.variant;
      spec.tuning = policy.name;
      spec.unfused = unfused;
      out.push_back(spec);
    };
    for_each_chosen(entry, place.backend, one, choice.variants, choice.tunings, add);
  };
  append(task, false);
  const bool wants_unfused = choice.unfused == "always" || (choice.unfused == "auto" && !fused);
  if (place.op != Op::decode && wants_unfused) append({Op::decode}, true);
  // The reference decoder stands in where a codec has no kernel at all.
  if (place.backend == "scalar" && !has_kernel(entry, "scalar", {Op::decode}) &&
      (place.op == Op::decode || (!fused && wants_unfused))) {
    place.variant = "reference";
    place.tuning = "default";
    place.unfused = place.op != Op::decode;
    out.push_back(place);
  }
}

// Those of the names that are this backend's own, "" for its best device. A name of another backend's device says
// nothing about this one, unless it is `simd`, which then has nothing to do.
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
        out.push_back(info.simd_target);  // of two equal devices the first one
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

// How many ranks share a product at this place, by which engine, and how it is split among them.
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

// Where a backend's kernels run and how they are started: CPUs have the axis `threads`, GPUs `device` and `launch`.
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

}  // namespace

std::vector<KernelSpec> expand_kernels(const KernelChoice& choice, const codecs::CodecEntry& entry,
                                       int64_t group_cols) {
  std::vector<KernelSpec> out;
  if (std::find(choice.ops.begin(), choice.ops.end(), Op::size) != choice.ops.end()) {
    KernelSpec size;
    size.op = Op::size;
    out.push_back(size);
  }
  for (const std::string& wanted : choice.backends) {
    for (const Op op : choice.ops) {
      if (op == Op::size) continue;
      std::string backend = wanted;
      if (wanted == "best") {
        const Task task{op, Activations::f32, op == Op::matmul && choice.unfused != "never" ? group_cols : 0};
        const bool simd = has_kernel(entry, "simd", task) ||
                          (op != Op::decode && choice.unfused != "never" && !has_kernel(entry, "scalar", task) &&
                           has_kernel(entry, "simd", {Op::decode}));
        backend = simd ? "simd" : "scalar";
      }
      for (KernelSpec& place : places_of(choice, backend)) {
        place.op = op;
        if (op == Op::matvec)
          for (const KernelSpec& one : shared(choice, place)) append_kernels(choice, entry, one, group_cols, out);
        if (op == Op::decode) append_kernels(choice, entry, place, group_cols, out);
        for (size_t i = 0; op == Op::matmul && i < choice.batches.size(); ++i)
          for (const Activations activations : choice.activations) {
            place.batch = static_cast<int>(choice.batches[i]);
            place.activations = activations;
            for (const KernelSpec& one : shared(choice, place)) append_kernels(choice, entry, one, group_cols, out);
          }
      }
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
      place.op = Op::matmul;
      place.step = true;
      place.unfused = choice.unfused == "always";
      for (const int64_t batch : choice.batches)
        for (const Activations activations : choice.activations)
          for (const int64_t repeat : choice.repeats)
            for (const std::string& variant : choice.variants)
              for (const std::string& tuning : choice.tunings) {
                place.batch = static_cast<int>(batch);
                place.activations = activations;
                place.repeat = static_cast<int>(repeat);
                place.variant = word_of(variant);
                place.tuning = word_of(tuning);
                for (const KernelSpec& one : shared(choice, place)) out.push_back(one);
              }
    }
  }
  return out;
}

void for_each_kernel(const codecs::CodecEntry& entry, std::string_view backend, Op op, Activations activations,
                     int64_t group_cols, std::string_view variant, std::string_view tuning,
                     const std::function<void(const backends::Kernel&, const backends::Policy&)>& use) {
  const auto words = [](std::string_view word) { return std::vector{std::string(word == kBest ? "all" : word)}; };
  for_each_chosen(entry, backend, {op, activations, group_cols}, words(variant), words(tuning), use);
}

}  // namespace ecmv::experiments
