// See step.h.
#include "experiments/plan/step.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/kernel_order.h"
#include "experiments/check/timed/trial.h"
#include "experiments/config/expand.h"
#include "reports/metrics.h"

namespace ecmv::experiments {
namespace {

using backends::ChosenKernel;
using backends::Op;
using reports::Status;

// Layers that share one choice of kernel.
struct Group {
  const CodecChoice* codec = nullptr;
  std::vector<size_t> layers;  // of the plan
};

const datasets::Matrix& matrix_of(const StepTask& task, size_t layer) {
  return (*task.reference.matrices)[task.reference.matrix_of(layer)];
}

std::vector<Group> groups_of(const StepTask& task) {
  using Key = std::tuple<const CodecChoice*, int64_t, int64_t, datasets::ElementType, backends::Split>;
  std::map<Key, size_t> places;
  std::vector<Group> groups;
  for (size_t layer = 0; layer < task.reference.layers(); ++layer) {
    const datasets::Matrix& matrix = matrix_of(task, layer);
    const CodecChoice* const codec = task.codec.of(matrix);
    const auto [place, is_new] = places.try_emplace(
        {codec, matrix.shape.rows, matrix.shape.cols, matrix.type, task.split_of(task.reference.matrix_of(layer))},
        groups.size());
    if (is_new) groups.push_back({codec, {}});
    groups[place->second].layers.push_back(layer);
  }
  return groups;
}

// The scales of a layer, or null.
const datasets::Scales* scales_of(const StepTask& task, size_t layer) {
  return task.plan.weight_scales.empty() ? nullptr : task.plan.weight_scales[layer];
}
// How many columns of a layer share a scale, if scales differ along a row; else 0.
int64_t group_cols_of(const StepTask& task, size_t layer) {
  const datasets::Scales* scales = scales_of(task, layer);
  return scales == nullptr || scales->empty() || scales->groups == 1 ? 0 : scales->group_cols;
}

// Kernels of the group's codec and an op, as far as the case allows.
std::vector<ChosenKernel> candidates_of(const StepTask& task, const Group& group, Op op) {
  const Work work{op, task.kernel.activations, group_cols_of(task, group.layers.front())};
  return kernels_for(*group.codec->entry, task.kernel.backend, work, task.kernel.variant, task.kernel.policy);
}

// All kernels of the group's codec, in the order in which `auto` takes them.
std::vector<ChosenKernel> automatic_order(const StepTask& task, const Group& group, backends::Device& device) {
  const size_t layer = group.layers.front();
  const backends::CompressedView matrix = task.parts_of(task.reference.matrix_of(layer)).front().view();
  const backends::Activations tokens = task.kernel.activations;
  return backends::kernels_in_order(
      group.codec->entry->kernels(task.kernel.backend), matrix, device.info(),
      {.batch = task.plan.batch,
       .tokens = tokens,
       .scales = scales_of(task, layer),
       .blas = backends::multiplies_by_blas(device, matrix, group_cols_of(task, layer) > 0, tokens)});
}

bool takes_scales_of(const StepTask& task, const Group& group, const backends::Kernel& kernel) {
  return kernel.op != Op::matmul || std::ranges::all_of(group.layers, [&](size_t layer) {
           const datasets::Scales* scales = scales_of(task, layer);
           return scales == nullptr || backends::takes_scales(kernel, *scales);
         });
}

// "" or why the kernel refuses one of the layers.
std::string refusal_of(const StepTask& task, const Group& group, const ChosenKernel& chosen,
                       const backends::DeviceInfo& device) {
  std::set<size_t> asked;  // copies are alike
  for (const size_t layer : group.layers) {
    const size_t matrix = task.reference.matrix_of(layer);
    if (!asked.insert(matrix).second) continue;
    for (const backends::CompressedMatrix& part : task.parts_of(matrix))
      if (std::string reason = chosen.kernel->refuses(part.view(), device, *chosen.policy); !reason.empty())
        return reason;
  }
  return {};
}

int64_t stored_bytes(const StepTask& task, std::span<const size_t> layers) {
  int64_t bytes = 0;
  for (const size_t layer : layers)
    for (const backends::CompressedMatrix& part : task.parts_of(task.reference.matrix_of(layer)))
      bytes += part.stored_bytes();
  return bytes;
}

// The first layers of the group, so many that `bytes` are stored, or all.
backends::PassPlan plan_alone(const StepTask& task, const Group& group, const ChosenKernel& chosen, int64_t bytes) {
  backends::PassPlan alone;
  alone.kernel = chosen.kernel;
  alone.policy = chosen.policy;
  alone.op = Op::matmul;
  alone.chained = false;
  alone.batch = task.plan.batch;
  alone.activations = task.plan.activations;
  alone.graph = task.plan.graph;
  for (const size_t layer : group.layers) {
    alone.layers.push_back(task.plan.layers[layer]);
    alone.tokens.push_back(task.plan.tokens[layer]);
    if (!task.plan.weight_scales.empty()) alone.weight_scales.push_back(task.plan.weight_scales[layer]);
    bytes -= stored_bytes(task, {&layer, 1});
    if (bytes <= 0) break;
  }
  return alone;
}

// Seconds of one layer of the group, in a pass of so many of them that caches do not hold them. If there are fewer, and
// the step as a whole comes from memory, other memory is read before each run.
double time_alone(const StepTask& task, const Group& group, const ChosenKernel& chosen, backends::Device& device,
                  const PreparePass& prepare) {
  constexpr int kMostRuns = 9, kFewestRuns = 3;
  constexpr double kEnough = 0.03;  // seconds
  const backends::PassPlan alone = plan_alone(task, group, chosen, 4 * device.info().llc_bytes);
  const int64_t bytes = stored_bytes(task, std::span(group.layers).first(alone.layers.size()));
  const auto pass = prepare(device, alone);
  std::vector<size_t> all(task.reference.layers());
  std::iota(all.begin(), all.end(), size_t{0});
  const int64_t cache = device.info().llc_bytes;
  const bool cold = bytes < 4 * cache && stored_bytes(task, all) >= 4 * cache;
  std::vector<double> seconds;
  double sum = pass->run();  // warms up
  for (int run = 0; run < (cold ? kFewestRuns : kMostRuns) && (run < kFewestRuns || sum < kEnough); ++run) {
    if (cold) device.time_reads(2 * cache, 1);
    sum += seconds.emplace_back(pass->run());
  }
  return reports::quantile(seconds, 0.5) / static_cast<double>(alone.layers.size());
}

// The choice for one group, or why the last kernel refused.
struct Best {
  ChosenKernel kernel = {};
  double layer_s = reports::kUnknown;
  std::string refused = {};
  bool found() const { return kernel.kernel != nullptr; }
};

// The fastest of the candidates or, untimed, the first that can be bound.
Best best_of(const StepTask& task, const Group& group, const std::vector<ChosenKernel>& candidates,
             backends::Device& device, const PreparePass& prepare, bool time, Best best) {
  const backends::CompressedMatrix& first = task.parts_of(task.reference.matrix_of(group.layers.front())).front();
  for (ChosenKernel candidate : candidates) {
    if (!takes_scales_of(task, group, *candidate.kernel)) continue;
    if (candidate.policy == nullptr)
      candidate.policy = &backends::chosen_policy(*candidate.kernel, first.view(), device.info(), task.plan.batch);
    if (std::string reason = refusal_of(task, group, candidate, device.info()); !reason.empty()) {
      best.refused = std::move(reason);
      continue;
    }
    if (const Outcome tried =
            try_loaded_kernel(task.kernel, candidate, *group.codec->entry, {&first, 1}, device.info(), task.trial_s);
        !tried.fine())
      throw std::runtime_error(tried.reason);
    try {
      if (!time) {
        prepare(device, plan_alone(task, group, candidate, 0));
        return {candidate};
      }
      const double seconds = time_alone(task, group, candidate, device, prepare);
      if (!best.found() || seconds < best.layer_s) best.kernel = candidate, best.layer_s = seconds;
    } catch (const backends::Refused& refused) {
      best.refused = refused.what();
    }
  }
  return best;
}

Best best_for(const StepTask& task, const Group& group, backends::Device& device, const PreparePass& prepare,
              bool time) {
  Best best;
  best.refused = fmt::format("The codec '{}' has no such kernel for the backend '{}'.", group.codec->entry->id,
                             task.kernel.backend);
  const auto among = [&](const std::vector<ChosenKernel>& candidates) {
    if (!best.found()) best = best_of(task, group, candidates, device, prepare, time, best);
  };
  if (task.kernel.automatic()) {
    among(automatic_order(task, group, device));
    return best;
  }
  if (!task.kernel.unfused) among(candidates_of(task, group, Op::matmul));
  among(candidates_of(task, group, Op::decode));
  return best;
}

std::string kernel_name(const ChosenKernel& chosen, Op op) {
  std::string name = chosen.kernel->op == op ? "" : "unfused ";
  name += chosen.kernel->variant;
  if (chosen.policy->name != "default") name += fmt::format(" {}", chosen.policy->name);
  return name;
}

std::string codec_name(const CodecChoice& choice) {
  return make_codec_spec(*choice.entry, choice.settings).short_name();
}

}  // namespace

StepLayers step_layers(const std::vector<datasets::Matrix>& matrices, int repeat) {
  StepLayers step;
  std::set<int64_t> blocks;
  for (const datasets::Matrix& matrix : matrices) {
    const int64_t block = datasets::layer_block(matrix.name);
    if (block >= 0) blocks.insert(block);
    step.copies.push_back(block >= 0 ? repeat : 1);
  }
  step.encoded_blocks = static_cast<int64_t>(blocks.size());
  step.blocks = step.encoded_blocks * repeat;
  for (int round = 0; round < repeat; ++round)
    for (size_t i = 0; i < matrices.size(); ++i)
      if (datasets::layer_block(matrices[i].name) >= 0) step.order.push_back(i);
  for (size_t i = 0; i < matrices.size(); ++i)
    if (datasets::layer_block(matrices[i].name) < 0) step.order.push_back(i);
  return step;
}

StepKernels choose_kernels(const StepTask& task, backends::Device& device, const PreparePass& prepare, bool time) {
  StepKernels chosen;
  chosen.kernels.resize(task.reference.layers());
  chosen.layer_s.assign(task.reference.layers(), reports::kUnknown);
  for (const Group& group : groups_of(task)) {
    const Best best = best_for(task, group, device, prepare, time && !task.kernel.automatic());
    if (!best.found()) {
      const datasets::Shape shape = matrix_of(task, group.layers.front()).shape;
      chosen.outcome = {Status::refused, fmt::format("Layers of {} x {}: {}", shape.rows, shape.cols, best.refused)};
      return chosen;
    }
    for (const size_t layer : group.layers) {
      chosen.kernels[layer] = best.kernel;
      chosen.layer_s[layer] = best.layer_s;
    }
  }
  return chosen;
}

std::string kernel_names(std::span<const ChosenKernel> kernels, Op op) {
  std::vector<std::string> names;
  for (const ChosenKernel& one : kernels)
    if (const std::string name = kernel_name(one, op); std::ranges::find(names, name) == names.end())
      names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<reports::CaseRecord::Step::Part> step_parts(const StepTask& task, const StepKernels& chosen) {
  std::vector<reports::CaseRecord::Step::Part> parts;
  for (size_t layer = 0; layer < task.reference.layers(); ++layer) {
    const datasets::Matrix& matrix = matrix_of(task, layer);
    reports::CaseRecord::Step::Part part{
        .kind = std::string(datasets::layer_kind_name(datasets::layer_kind(matrix.name))),
        .codec = codec_name(*task.codec.of(matrix)),
        .kernel = kernel_name(chosen.kernels[layer], Op::matmul),
        .rows = matrix.shape.rows,
        .cols = matrix.shape.cols,
        .layer_s = chosen.layer_s[layer]};
    const auto same = [&](const reports::CaseRecord::Step::Part& known) {
      return std::tie(known.kind, known.codec, known.kernel, known.rows, known.cols) ==
             std::tie(part.kind, part.codec, part.kernel, part.rows, part.cols);
    };
    auto known = std::ranges::find_if(parts, same);
    if (known == parts.end()) known = parts.insert(parts.end(), part);
    ++known->layers;
    known->stored_bytes += stored_bytes(task, {&layer, 1});
    if (!task.plan.weight_scales.empty())
      known->stored_bytes += static_cast<int64_t>(task.plan.weight_scales[layer]->stored.size());
  }
  return parts;
}

}  // namespace ecmv::experiments
