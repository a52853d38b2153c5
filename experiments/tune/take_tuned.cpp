// See take_tuned.h.
#include "experiments/tune/take_tuned.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "backends/backend.h"

namespace ecmv::experiments {
namespace {

class Taker {
 public:
  Taker(const std::string& file, std::span<const codecs::CodecEntry> codecs)
      : entries_(read_tuned(file, codecs)), codecs_(codecs) {}

  void take(Case& one) {
    if (one.kernel.task == Task::size) return;
    const std::string& device = model_of(one.kernel);
    one.codec.tuned = tuned_for(one, one.codec, device);
    for (CodecSpec& part : one.codec.of_kinds) part.tuned = tuned_for(one, part, device);
  }

  // The devices of cases, of which the file knows none.
  std::set<std::string> strangers() const {
    std::set<std::string> names;
    for (const auto& model : models_) {
      const std::string &backend = std::get<0>(model.first), &device = model.second;
      const auto is_known = [&](const TunedEntry& entry) {
        return entry.key.backend == backend && entry.key.device == device;
      };
      if (!device.empty() && std::ranges::none_of(entries_, is_known)) names.insert(device);
    }
    return names;
  }

 private:
  const std::string& model_of(const KernelSpec& kernel) {
    const auto [model, is_new] = models_.try_emplace({kernel.backend, kernel.device, kernel.simd_target});
    if (is_new) model->second = device_model(kernel);
    return model->second;
  }

  std::vector<TunedSettings> tuned_for(const Case& one, const CodecSpec& codec, const std::string& device) const {
    std::vector<TunedSettings> tuned;
    const auto entry = std::ranges::find(codecs_, codec.id, &codecs::CodecEntry::id);
    const TunedPass pass = tuned_pass(one.kernel);
    for (const TunedEntry& known : entries_) {
      const TunedKey& key = known.key;
      if (entry == codecs_.end() || key.backend != one.kernel.backend || key.device != device || key.op != pass.op ||
          key.activations != pass.activations || (one.data.shape.elements() > 0 && key.shape != one.data.shape))
        continue;
      if (const auto settings = settings_of(known, *entry, codec.settings))
        tuned.push_back({key.type, key.shape, *settings});
    }
    return tuned;
  }

  std::vector<TunedEntry> entries_;
  std::span<const codecs::CodecEntry> codecs_;
  std::map<std::tuple<std::string, int, std::string>, std::string> models_;
};

}  // namespace

std::string device_model(const KernelSpec& kernel) {
  const backends::Backend* const backend = backends::find_backend(kernel.backend);
  if (backend == nullptr) return {};
  const std::vector<backends::DeviceInfo> devices = backend->devices();
  if (kernel.device >= 0)
    return static_cast<size_t>(kernel.device) < devices.size() ? devices[static_cast<size_t>(kernel.device)].name : "";
  const auto works = [&](const backends::DeviceInfo& info) {
    return info.unavailable.empty() && (kernel.simd_target.empty() || info.simd_target == kernel.simd_target);
  };
  const auto first = std::ranges::find_if(devices, works);
  return first == devices.end() ? "" : first->name;
}

TunedPass tuned_pass(const KernelSpec& kernel) {
  const backends::Op op = kernel.op();
  return {std::string(backends::op_name(op)),
          op == backends::Op::matmul ? std::string(backends::activations_name(kernel.activations)) : ""};
}

void take_tuned(std::vector<Case>& cases, const std::string& file, std::span<const codecs::CodecEntry> codecs,
                std::vector<std::string>& remarks) {
  Taker taker(file, codecs);
  for (Case& one : cases) taker.take(one);
  for (const std::string& device : taker.strangers())
    remarks.push_back(
        fmt::format("{} has nothing for {}: codecs choose their open settings there by themselves.", file, device));
}

}  // namespace ecmv::experiments
