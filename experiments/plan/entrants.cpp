// See entrants.h.
#include "experiments/plan/entrants.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace ecmv::experiments {
namespace {

std::string ids_of(const CodecSpec& codec) {
  std::string ids = codec.id;
  for (const CodecSpec& one : codec.of_kinds) ids += "+" + one.id;
  return ids;
}

std::string field_of(const Case& one) {
  const KernelSpec& k = one.kernel;
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", ids_of(one.codec), task_name(k.task), k.backend, k.batch,
                     backends::activations_name(k.activations), k.threads, k.ranks, k.device, k.repeat, k.unfused,
                     k.chosen.kernel != nullptr && k.chosen.kernel->group_cols != 0);
}

// Kernels with each of their policies that could do the work of this case.
int64_t known_kernels(const Case& one, const codecs::CodecEntry& entry) {
  const KernelSpec& k = one.kernel;
  const backends::Op op = k.unfused ? backends::Op::decode : k.op();
  const bool groups = k.chosen.kernel != nullptr && k.chosen.kernel->group_cols != 0;
  int64_t count = 0;
  for (const backends::Kernel& kernel : entry.kernels(k.backend))
    if (kernel.op == op && (kernel.group_cols != 0) == groups &&
        (op != backends::Op::matmul || kernel.activations == k.activations))
      count += std::max<int64_t>(1, static_cast<int64_t>(kernel.policies.size()));
  return std::max<int64_t>(1, count);  // the reference decoder
}

}  // namespace

Entrants::Entrants(std::span<const Case> cases, std::span<const codecs::CodecEntry> codecs) {
  std::map<std::string, std::pair<std::set<std::string>, std::set<std::string>>> kernels_and_settings;
  for (const Case& one : cases) {
    if (one.kernel.task == Task::size) continue;
    const std::string field = field_of(one);
    auto& [kernels, settings] = kernels_and_settings[field];
    settings.insert(one.codec.name());
    if (!one.kernel.automatic()) kernels.insert(one.kernel.variant + "/" + one.kernel.policy);  // it is one of them
    reports::CaseRecord::Entrants& found = found_[field];
    found.kernels = std::max<int64_t>(1, static_cast<int64_t>(kernels.size()));
    found.settings = static_cast<int64_t>(settings.size());
    if (found.known_kernels > 0) continue;
    for (const CodecSpec& codec : one.codec.is_mix() ? one.codec.of_kinds : std::vector{one.codec})
      if (const auto entry = std::ranges::find(codecs, codec.id, &codecs::CodecEntry::id); entry != codecs.end())
        found.known_kernels += known_kernels(one, *entry);
  }
  for (auto& [field, found] : found_)  // a step chooses among all of them
    if (const auto& kernels = kernels_and_settings[field].first; kernels.contains("best/best"))
      found.kernels = found.known_kernels;
}

reports::CaseRecord::Entrants Entrants::of(const Case& one) const {
  const auto found = found_.find(one.kernel.task == Task::size ? "" : field_of(one));
  return found == found_.end() ? reports::CaseRecord::Entrants{} : found->second;
}

}  // namespace ecmv::experiments
