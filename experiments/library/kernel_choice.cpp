// See kernel_choice.h.
#include "experiments/library/kernel_choice.h"

#include "experiments/library/handles.h"

namespace ecmv::library {
namespace {

class Choice {
 public:
  Choice(const codecs::CodecEntry& entry, const backends::CompressedMatrix& matrix, backends::PassPlan plan)
      : entry_(entry), matrix_(matrix.view()), plan_(std::move(plan)) {}

  // Tries the kernels of that op on one device. True: there is a pass.
  bool try_kernels(backends::Device& device, backends::Op op) {
    for (const backends::Kernel& kernel : entry_.kernels(device.info().backend)) {
      // A single layer is no chain, and its elements have no scales.
      if (kernel.op != op || kernel.whole_chain || kernel.group_cols != 0) continue;
      if (op == backends::Op::matmul && kernel.activations != plan_.activations) continue;
      device.select();
      const backends::Policy& chosen = backends::chosen_policy(kernel, matrix_, device.info(), plan_.batch);
      if (try_one(device, kernel, chosen)) return true;
      for (const backends::Policy& policy : kernel.policies)
        if (&policy != &chosen && try_one(device, kernel, policy)) return true;
    }
    return false;
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
  const backends::Op op = plan.op;
  Choice choice(entry, matrix, std::move(plan));
  for (const auto& device : devices)
    if (choice.try_kernels(*device, op)) return choice.take();
  for (const auto& device : devices)
    if (op != backends::Op::decode && choice.try_kernels(*device, backends::Op::decode)) return choice.take();
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
