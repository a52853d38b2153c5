// See kernel_choice.h.
#include "experiments/library/kernel_choice.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/kernel_order.h"
#include "experiments/library/handles.h"

namespace ecmv::library {
namespace {

class Choice {
 public:
  Choice(const codecs::CodecEntry& entry, const backends::CompressedMatrix& matrix, backends::PassPlan plan)
      : entry_(entry), matrix_(matrix.view()), plan_(std::move(plan)) {}

  // Tries the kernels of these devices. True: there is a pass.
  bool try_kernels(std::span<const std::shared_ptr<backends::Device>> devices) {
    std::vector<std::pair<backends::Device*, backends::ChosenKernel>> all;
    for (const auto& device : devices) {
      device->select();
      const backends::WantedKernel wanted{
          .op = plan_.op,
          .batch = plan_.batch,
          .tokens = plan_.activations,
          .blas = backends::multiplies_by_blas(*device, matrix_, false, plan_.activations)};
      for (const auto& one : kernels_in_order(entry_.kernels(device->info().backend), matrix_, device->info(), wanted))
        all.emplace_back(device.get(), one);
    }
    // Several are backends of one CPU.
    if (devices.size() > 1)
      std::ranges::stable_partition(all, [&](const auto& one) { return one.second.kernel->op == plan_.op; });
    return std::ranges::any_of(
        all, [&](const auto& one) { return try_one(*one.first, *one.second.kernel, *one.second.policy); });
  }

  void use_reference(backends::Device& device) {
    plan_.kernel = nullptr;
    plan_.reference_decode = entry_.codec->decode;
    chosen_ = {backends::prepare(device, plan_), device.info().backend + "/reference"};
  }

  ChosenPass take() { return std::move(chosen_); }
  const std::string& first_reason() const { return first_reason_; }

 private:
  bool try_one(backends::Device& device, const backends::Kernel& kernel, const backends::Policy& policy) {
    device.select();
    std::string reason = kernel.refuses(matrix_, device.info(), policy);
    if (reason.empty()) try {
        plan_.kernel = &kernel;
        plan_.policy = &policy;
        chosen_.pass = backends::prepare(device, plan_);
        chosen_.kernel = device.info().backend + "/" + std::string(backends::op_name(kernel.op)) + "/" +
                         std::string(kernel.variant) + "/" + std::string(policy.name) +
                         (kernel.op == plan_.op ? "" : ", unfused");
        return true;
      } catch (const backends::Refused& refused) {
        reason = refused.what();
      }
    if (first_reason_.empty()) first_reason_ = reason;
    return false;
  }

  const codecs::CodecEntry& entry_;
  const backends::CompressedView matrix_;
  backends::PassPlan plan_;
  ChosenPass chosen_;
  std::string first_reason_;
};

}  // namespace

ChosenPass prepare_first(std::span<const std::shared_ptr<backends::Device>> devices, const codecs::CodecEntry& entry,
                         const backends::CompressedMatrix& matrix, backends::PassPlan plan) {
  Choice choice(entry, matrix, std::move(plan));
  if (choice.try_kernels(devices)) return choice.take();
  backends::Device& first = *devices.front();
  if (first.memory() == "host") {
    choice.use_reference(first);
    return choice.take();
  }
  const std::string& reason = choice.first_reason();
  throw Failure(ECMV_REFUSED, reason.empty()
                                  ? "The codec '" + std::string(entry.id) + "' has no kernel for it on the backend '" +
                                        first.info().backend + "'."
                                  : reason);
}

}  // namespace ecmv::library
