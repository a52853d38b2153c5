// See coverage.h. Lists the cases of a config with `backend: [scalar, simd], simd_target: all, op: [decode, matvec,
// matmul]`, and also the instruction sets that this CPU lacks.
#include "experiments/plan/coverage.h"

#include <optional>

#include "backends/backend.h"
#include "datasets/source.h"
#include "experiments/check/chain.h"
#include "experiments/check/outcome.h"
#include "experiments/config/expand.h"
#include "experiments/plan/device_pool.h"
#include "experiments/run/loaded_dataset.h"

namespace ecmv::experiments {
namespace {

KernelChoice everything() {
  KernelChoice choice;
  choice.backends.clear();
  choice.simd_targets.clear();
  for (const backends::Backend& backend : backends::all_backends()) {
    choice.backends.emplace_back(backend.id);
    for (const backends::DeviceInfo& info : backend.devices())
      if (!info.simd_target.empty()) choice.simd_targets.push_back(info.simd_target);
  }
  choice.tasks = {Task::decode, Task::matvec, Task::matmul};
  return choice;
}

// The fused and unfused kernels with tokens of float32, then the fused ones with tokens of bf16, with and without
// scales of groups.
std::vector<KernelSpec> kernels_of(const codecs::CodecEntry& entry) {
  constexpr int64_t kAnyGroup = int64_t{1} << 20;  // so many columns that each kernel for groups takes them
  KernelChoice choice = everything();
  std::vector<KernelSpec> kernels = expand_kernels(choice, entry);
  choice.tasks = {Task::matmul};
  choice.activations = {backends::Activations::bf16};
  for (const int64_t group_cols : {int64_t{0}, kAnyGroup})
    for (const KernelSpec& spec : expand_kernels(choice, entry, group_cols))
      if (!spec.unfused) kernels.push_back(spec);
  return kernels;
}

// Fills in status and reason. `layer` is absent if the codec refused the sample; `refused` says why.
void ask(const KernelSpec& spec, const std::optional<backends::CompressedMatrix>& layer, const std::string& refused,
         DevicePool& devices, CoverageEntry& answer) {
  backends::Device* device = devices.find(spec);
  if (device == nullptr) {
    answer.status = "unavailable";
    answer.reason = devices.reason(spec);
    return;
  }
  answer.reason = refused;
  if (answer.reason.empty() && layer && spec.chosen.kernel != nullptr) {
    device->select();
    answer.reason = spec.chosen.kernel->refuses(layer->view(), device->info(), *spec.chosen.policy);
  }
  answer.status = answer.reason.empty() ? "available" : "refused";
}

}  // namespace

std::vector<CoverageEntry> coverage(std::span<const codecs::CodecEntry> codecs) {
  std::vector<CoverageEntry> entries;
  DevicePool devices;
  DataSpec data;
  data.source = "gaussian";
  data.shape = {64, 512};
  data.layers = 1;
  data.numbers["sigma"] = 4;
  DataSpec floats;
  floats.source = "llm_like";
  floats.shape = data.shape;
  floats.layers = 1;
  const std::vector<datasets::Matrix> samples = {load_dataset(data).layers.front(),
                                                 load_dataset(floats).layers.front()};
  for (const codecs::CodecEntry& entry : codecs) {
    const backends::Settings settings = codecs::default_settings(*entry.codec);
    std::optional<backends::CompressedMatrix> layer;
    std::string refused, no_matvec;
    for (const datasets::Matrix& sample : samples) try {
        const std::string reason = entry.codec->refuses(sample.view(), settings);
        if (refused.empty()) refused = reason;
        if (!reason.empty()) continue;
        layer = codecs::encode_matrix(entry, sample.view(), settings);
        no_matvec = why_no_product(std::span(&sample, 1));
        refused.clear();
        break;
      } catch (...) {
        refused = outcome_of_exception().reason;
      }
    for (const KernelSpec& spec : kernels_of(entry)) {
      CoverageEntry answer{std::string(entry.id),
                           spec.backend,
                           spec.simd_target,
                           std::string(task_name(spec.task)),
                           spec.takes_tokens() ? std::string(backends::activations_name(spec.activations)) : "",
                           spec.variant,
                           spec.policy,
                           spec.unfused,
                           "",
                           ""};
      ask(spec, layer, spec.task == Task::matvec && refused.empty() ? no_matvec : refused, devices, answer);
      entries.push_back(std::move(answer));
    }
  }
  return entries;
}

}  // namespace ecmv::experiments
