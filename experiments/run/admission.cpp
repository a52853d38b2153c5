// See admission.h.
#include "experiments/run/admission.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "backends/cpu/foreign/surroundings.h"
#include "backends/cpu/foreign/write_protection.h"
#include "experiments/check/block_counts.h"
#include "experiments/check/timed/device_witness.h"
#include "experiments/check/timed/stored_bytes.h"
#include "experiments/check/timed/trial.h"
#include "experiments/plan/step.h"
#include "experiments/ranks/rank_team.h"
#include "experiments/run/case_record.h"
#include "experiments/run/running_case.h"
#include "reports/fields.h"

namespace ecmv::experiments {

using backends::Op;
using reports::Status;

Admission::Admission(const Experiment& experiment, const RunOptions& options, const LoadedDataset& dataset,
                     DevicePool& devices, const CodecChoice& codec, const EncodedLayers& encoded)
    : experiment_(experiment),
      options_(options),
      dataset_(dataset),
      devices_(devices),
      codec_(codec),
      encoded_(encoded),
      reference_(dataset.reference),
      distortion_(dataset.distortion) {
  if (encoded.decoded == nullptr || !encoded.outcome.fine()) return;
  distortion_ = dataset.distortion_of(*encoded.decoded);
  reference_.matrices = encoded.decoded;
  reference_.floats = dataset.reference.floats->of(encoded.decoded);
  reference_.bf16 = dataset.reference.bf16->of(encoded.decoded);
}

AdmittedCase Admission::admit(const Case& one, reports::CaseRecord record) {
  set_running_case(one.key(), one.name());
  AdmittedCase admitted{.one = &one, .record = std::move(record), .reference = reference_.of(one.kernel.activations)};
  backends::cpu::WriteProtection::install();
  const backends::cpu::Surroundings kept;
  admitted.outcome = guarded([&] {
    const LayersOrParts layers = layers_for(one);
    Outcome outcome = fill_stored(one, *layers.encoded, admitted.record);
    if (!outcome.fine() || one.kernel.task == Task::size) return outcome;
    backends::PassPlan plan;
    outcome = prepare(admitted, layers, plan);
    if (outcome.fine()) outcome = check(admitted, plan);
    if (outcome.fine()) outcome = estimate(admitted);
    return outcome;
  });
  if (!admitted.outcome.fine()) admitted.pass.reset();
  return admitted;
}

LayersOrParts Admission::layers_for(const Case& one) {
  const KernelSpec& kernel = one.kernel;
  if (kernel.ranks <= 1 || !encoded_.outcome.fine()) return {&encoded_};
  std::vector<LayerSplit> splits = split_layers(dataset_.layers(), kernel);
  if (kernel.pairs && encoded_.decoded != nullptr)
    throw backends::Refused(
        "A lossy codec may keep other numbers of some columns alone than of all, and products are compared with those "
        "of all.");
  // Which layers form pairs depends on the op.
  const std::tuple key(kernel.ranks, kernel.pairs, kernel.pairs && kernel.task == Task::step);
  auto known = parts_.find(key);
  if (known == parts_.end()) {
    set_running_case({}, {});  // encoders are no kernels
    const std::vector<datasets::Matrix> parts = parts_of(dataset_.layers(), splits);
    EncodedLayers encoded = std::move(encode_and_check({&codec_, 1}, parts, options_.interrupted).front());
    known = parts_.emplace(key, Parts{std::move(splits), std::move(encoded)}).first;
    set_running_case(one.key(), one.name());
  }
  return {&known->second.encoded, known->second.splits};
}

// Fills in the facts that follow from the encoded layers alone.
Outcome Admission::fill_stored(const Case& one, const EncodedLayers& encoded, reports::CaseRecord& record) const {
  if (encoded.outcome.status == Status::incorrect) record.check.decode = encoded.outcome.reason;
  if (!encoded.outcome.fine()) return encoded.outcome;
  record.check.decode = encoded.decode;
  const std::vector<int64_t> copies =
      one.kernel.task == Task::step ? step_layers(dataset_.layers(), one.kernel.repeat).copies : std::vector<int64_t>();
  fill_tuned(record, one.codec, encoded.layers);
  fill_size(record, dataset_.entropies, encoded.layers, dataset_.scales(), copies);
  if (distortion_) fill_distortion(record, *distortion_);
  if (one.kernel.repeat == 1) record.size.ideal_bits_per_element = encoded.ideal_bits_per_element;
  if (one.kernel.task == Task::size) {
    for (const datasets::Matrix& matrix : dataset_.layers()) record.time.elements += matrix.shape.elements();
    const std::string wrong = fill_blocks(record, codec_, dataset_.layers(), encoded.layers);
    if (!wrong.empty()) return {Status::incorrect, wrong};
  }
  if (one.kernel.task == Task::matvec && !dataset_.no_product.empty()) return {Status::refused, dataset_.no_product};
  if (one.kernel.task == Task::matvec && encoded.decoded != nullptr)
    return {Status::refused, "Products are compared with those of the source, which a lossy codec does not keep."};
  return {};
}

namespace {

// The pass of one kernel, still without its layers and tokens.
backends::PassPlan plan_of(const KernelSpec& kernel, const codecs::Codec& codec, const ReferenceChain& chain) {
  backends::PassPlan plan;
  static_cast<backends::ChosenKernel&>(plan) = kernel.chosen;
  if (kernel.chosen.kernel == nullptr) {
    if (kernel.variant == "reference")
      plan.reference_decode = codec.decode;
    else if (!kernel.automatic())
      throw std::invalid_argument("No kernel was chosen for " + kernel.name() + ".");
  }
  plan.op = kernel.op();
  plan.chained = chain.chained;
  plan.inputs = chain.inputs;
  plan.scales = chain.scales;
  plan.batch = kernel.batch;
  plan.activations = kernel.activations;
  plan.graph = kernel.launch != "plain";
  return plan;
}

const backends::Policy& policy_for(const backends::PassPlan& plan, const backends::CompressedView& layer,
                                   const backends::DeviceInfo& device) {
  return plan.policy == nullptr ? backends::chosen_policy(*plan.kernel, layer, device, plan.batch) : *plan.policy;
}

// The kernel with the policies that it chooses.
std::string names_of_policies(const backends::PassPlan& plan, std::span<const backends::CompressedMatrix> layers,
                              const backends::DeviceInfo& device) {
  std::vector<backends::ChosenKernel> kernels;
  for (const backends::CompressedMatrix& layer : layers)
    kernels.push_back({plan.kernel, &policy_for(plan, layer.view(), device)});
  return kernel_names(kernels, plan.op);
}

std::string refusal_of(const backends::PassPlan& plan, const backends::CompressedView& layer,
                       const backends::DeviceInfo& device) {
  return plan.kernel->refuses(layer, device, policy_for(plan, layer, device));
}

}  // namespace

namespace {

size_t count_of(const LayersOrParts& layers) {
  return layers.splits.empty() ? layers.encoded->layers.size() : layers.splits.size();
}

// Bytes of the layers in the memory of the device that has most of them; `copies` of each, or one.
int64_t most_bytes(const LayersOrParts& layers, std::span<const int64_t> copies) {
  const size_t count = count_of(layers), parts = count == 0 ? 0 : layers.encoded->layers.size() / count;
  int64_t most = 0;
  for (size_t rank = 0; rank < parts; ++rank) {
    int64_t bytes = 0;
    for (size_t layer = 0; layer < count; ++layer)
      bytes += (copies.empty() ? 1 : copies[layer]) * layers.encoded->layers[layer * parts + rank].stored_bytes();
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace

// Goes from the device to the pass.
Outcome Admission::prepare(AdmittedCase& admitted, const LayersOrParts& layers, backends::PassPlan& plan) {
  const KernelSpec& kernel = admitted.one->kernel;
  admitted.device = devices_.find(kernel);
  if (admitted.device == nullptr) return {Status::unavailable, devices_.reason(kernel)};
  backends::Device& device = *admitted.device;
  device.select();
  fill_device(admitted.record, device);
  if (kernel.task == Task::step) return prepare_step(admitted, layers, plan);
  plan = plan_of(kernel, *codec_.entry->codec, *reference_.chain);
  if (kernel.takes_tokens()) {
    const ReferenceProducts& products = admitted.reference.floats->products();
    if (!products.refused.empty()) return {Status::refused, products.refused};
    plan.chained = false;
    plan.tokens = products.first_tokens(kernel.batch);
    for (const datasets::Scales& scales : admitted.reference.floats->scales()) {
      if (plan.kernel != nullptr && plan.kernel->op == Op::matmul && !backends::takes_scales(*plan.kernel, scales))
        return {Status::refused,
                plan.kernel->group_cols == 0
                    ? "The kernel gives one sum a row, and groups of columns have scales of their own "
                      "here; an unfused product applies them to what it decoded."
                    : fmt::format("The kernel takes bf16 scales of groups of {} columns, twice as many, and so on.",
                                  plan.kernel->group_cols)};
      plan.weight_scales.push_back(&scales);
    }
  }
  if (plan.kernel != nullptr)
    for (const backends::CompressedMatrix& layer : layers.encoded->layers)
      if (const std::string reason = refusal_of(plan, layer.view(), device.info()); !reason.empty())
        return {Status::refused, reason};
  if (Outcome tried = try_loaded_kernel(kernel, plan, *codec_.entry, layers.encoded->layers, device.info(),
                                        experiment_.measure.max_seconds);
      !tried.fine())
    return tried;
  if (plan.kernel != nullptr && kernel.ranks > 1 && !layers.encoded->layers.empty())  // ranks are told a name
    plan.policy = &policy_for(plan, layers.encoded->layers.front().view(), device.info());
  admitted.upload = upload_to(device, layers, kernel.pairs);
  for (const auto& matrix : *admitted.upload) plan.layers.push_back(matrix.get());
  if (kernel.automatic()) {
    if (Outcome chosen = choose(admitted, layers, plan); !chosen.fine()) return chosen;
    admitted.record.kernel.chosen = kernel_names(plan.kernels, plan.op);
  } else if (kernel.policy == kAuto) {
    admitted.record.kernel.chosen = names_of_policies(plan, layers.encoded->layers, device.info());
  }
  admitted.pass = options_.prepare(device, plan);
  fill_memory(admitted.record, device, most_bytes(layers, {}));
  if (const backends::SharedDevice* shared = device.shared())
    fill_ranks(admitted.record, *shared, layers.splits, admitted.reference);
  return {};
}

// A step's layers may be copies, each with its own memory, tokens and results.
Outcome Admission::prepare_step(AdmittedCase& admitted, const LayersOrParts& layers, backends::PassPlan& plan) {
  const KernelSpec& kernel = admitted.one->kernel;
  const ReferenceProducts& products = admitted.reference.floats->products();
  if (!products.refused.empty()) return {Status::refused, products.refused};
  const StepLayers step = step_layers(dataset_.layers(), kernel.repeat);
  admitted.reference.order = step.order;
  admitted.upload = upload_copies(*admitted.device, layers, kernel.pairs, admitted.reference.order);
  plan.op = Op::matmul;
  plan.chained = false;
  plan.batch = kernel.batch;
  plan.activations = kernel.activations;
  plan.graph = kernel.launch != "plain";
  const std::vector<std::vector<float>> tokens = products.first_tokens(kernel.batch);
  for (size_t layer = 0; layer < admitted.reference.layers(); ++layer) {
    const size_t matrix = admitted.reference.matrix_of(layer);
    plan.layers.push_back((*admitted.upload)[layer].get());
    plan.tokens.push_back(tokens[matrix]);
    if (!dataset_.scales().empty()) plan.weight_scales.push_back(&dataset_.scales()[matrix]);
  }
  if (Outcome chosen = choose(admitted, layers, plan); !chosen.fine()) return chosen;
  admitted.pass = options_.prepare(*admitted.device, plan);
  fill_memory(admitted.record, *admitted.device, most_bytes(layers, step.copies));
  if (const backends::SharedDevice* shared = admitted.device->shared())
    fill_ranks(admitted.record, *shared, layers.splits, admitted.reference);
  return {};
}

// Chooses a kernel for each layer of the plan, which lacks nothing else.
Outcome Admission::choose(AdmittedCase& admitted, const LayersOrParts& layers, backends::PassPlan& plan) const {
  const KernelSpec& kernel = admitted.one->kernel;
  const StepTask task{
      kernel, codec_, layers.encoded->layers, layers.splits, admitted.reference, plan, experiment_.measure.max_seconds};
  const bool timed = options_.time && !admitted.device->info().emulated;
  StepKernels chosen = choose_kernels(task, *admitted.device, options_.prepare, timed);
  if (!chosen.outcome.fine()) return chosen.outcome;
  if (kernel.task == Task::step) admitted.record.step.parts = step_parts(task, chosen);
  admitted.record.kernel.unfused = std::ranges::any_of(
      chosen.kernels, [](const backends::ChosenKernel& one) { return one.kernel->op == Op::decode; });
  plan.kernels = std::move(chosen.kernels);
  return {};
}

// Tier 2a.
Outcome Admission::check(AdmittedCase& admitted, const backends::PassPlan& plan) const {
  OutputCheck found = check_every_layer(*admitted.pass, plan.op, admitted.reference);
  if (found.fine() && plan.op == Op::matmul) {
    const double used = found.bound_used;
    found = check_probes(options_.prepare, *admitted.device, plan, admitted.reference);
    found.bound_used = std::max(found.bound_used, used);
  }
  if (found.fine() && plan.op == Op::matmul)
    if (OutputCheck subnormal = check_subnormal_tokens(options_.prepare, *admitted.device, plan, admitted.reference);
        !subnormal.fine())
      found = std::move(subnormal);
  if (found.fine() && plan.op == Op::matvec)
    found = check_extremes(options_.prepare, *admitted.device, plan, admitted.reference);
  admitted.bound_used = found.bound_used;
  fill_check(admitted.record, found);
  if (!found.fine()) return found.outcome();
  if (Outcome outcome = check_copies(admitted); !outcome.fine()) return outcome;
  return ask_witness(admitted, plan);
}

// Kernels of GPUs are asked about the smallest layer, once for each codec.
Outcome Admission::ask_witness(const AdmittedCase& admitted, const backends::PassPlan& plan) const {
  const backends::Device& device = *admitted.device;
  const bool elsewhere = device.memory() != "host" && !device.info().emulated && device.shared() == nullptr;
  if (DeviceWitness::current() == nullptr || !elsewhere || encoded_.layers.empty()) return {};
  const auto smallest = std::ranges::min_element(
      encoded_.layers, {}, [](const backends::CompressedMatrix& layer) { return layer.shape.elements(); });
  KernelSpec kernel = admitted.one->kernel;
  if (kernel.automatic() && kernel.task == Task::matmul)
    kernel.chosen = plan.kernels.at(static_cast<size_t>(smallest - encoded_.layers.begin()));
  return DeviceWitness::current()->ask(kernel, *smallest, device.info());
}

// Times one pass. A case that is not timed keeps nothing.
Outcome Admission::estimate(AdmittedCase& admitted) const {
  const MeasureSpec& measure = experiment_.measure;
  if (!options_.time || admitted.device->info().emulated) {
    admitted.pass.reset();
    return {};
  }
  if (!is_single_pass(measure)) admitted.estimate_s = admitted.pass->run();
  if (admitted.estimate_s <= measure.max_seconds) return {};
  return {Status::timed_out,
          fmt::format("One pass takes {:.3g} s; a case may take {:.3g} s.", admitted.estimate_s, measure.max_seconds)};
}

Outcome check_copies(const AdmittedCase& admitted) {
  const backends::Device& device = *admitted.device;
  if (device.memory() != "host" || device.info().emulated || device.shared() != nullptr) return {};
  std::vector<const backends::UploadedMatrix*> layers;
  for (const auto& layer : *admitted.upload) layers.push_back(layer.get());
  return check_stored_bytes(*admitted.pass, layers, admitted.one->kernel.op(), admitted.reference, admitted.estimate_s);
}

namespace {

Upload upload_layer(backends::Device& device, const LayersOrParts& layers, size_t layer, size_t copies) {
  const std::span<const backends::CompressedMatrix> encoded = layers.encoded->layers;
  if (layers.splits.empty()) return device.upload_layer(encoded.subspan(layer, 1), {}, copies);
  const LayerSplit& split = layers.splits[layer];
  const auto count = static_cast<size_t>(split.ranks());  // of each layer, one after the other
  return device.upload_layer(encoded.subspan(layer * count, count), split, copies);
}

// Asks before anything is uploaded, which for a large model takes minutes. Throws OutOfMemory.
void expect_room(backends::Device& device, int64_t bytes) {
  const int64_t free = device.free_memory();
  if (free < 0 || bytes <= free) return;
  const auto text = [](int64_t count) { return reports::bytes_text(static_cast<double>(count)); };
  const backends::SharedDevice* const shared = device.shared();
  const std::string on = shared == nullptr ? "on the device" : fmt::format("on each of {} devices", shared->ranks);
  throw backends::OutOfMemory(fmt::format("The stored weights take {} {}, where {} of {} are free.", text(bytes), on,
                                          text(free), text(device.info().memory_bytes)));
}

std::string place_of_uploads(const backends::Device& device, bool pairs) {
  return fmt::format("{}{}", device.memory(), pairs ? " in pairs" : "");
}

}  // namespace

bool Admission::forget_uploads() {
  const bool any = std::ranges::any_of(uploads_, [](const auto& upload) { return upload.second != nullptr; });
  uploads_.clear();
  return any;
}

std::shared_ptr<const Upload> Admission::upload_to(backends::Device& device, const LayersOrParts& layers, bool pairs) {
  std::shared_ptr<const Upload>& slot = uploads_[place_of_uploads(device, pairs)];
  if (slot == nullptr) {
    expect_room(device, most_bytes(layers, {}));
    Upload fresh;
    for (size_t i = 0; i < count_of(layers); ++i)
      fresh.push_back(std::move(upload_layer(device, layers, i, 1).front()));
    slot = std::make_shared<const Upload>(std::move(fresh));
  }
  return slot;
}

// A separate copy for each layer, kept for cases with the same layers.
std::shared_ptr<const Upload> Admission::upload_copies(backends::Device& device, const LayersOrParts& layers,
                                                       bool pairs, const std::vector<size_t>& order) {
  std::shared_ptr<const Upload>& slot = uploads_[fmt::format("{} x{}", place_of_uploads(device, pairs), order.size())];
  if (slot == nullptr) {
    std::vector<std::vector<size_t>> places(count_of(layers));
    for (size_t layer = 0; layer < order.size(); ++layer) places[order[layer]].push_back(layer);
    std::vector<int64_t> counts;
    for (const std::vector<size_t>& of_matrix : places) counts.push_back(static_cast<int64_t>(of_matrix.size()));
    expect_room(device, most_bytes(layers, counts));
    Upload fresh(order.size());
    for (size_t matrix = 0; matrix < places.size(); ++matrix) {
      if (places[matrix].empty()) continue;
      Upload copies = upload_layer(device, layers, matrix, places[matrix].size());
      for (size_t copy = 0; copy < copies.size(); ++copy) fresh[places[matrix][copy]] = std::move(copies[copy]);
    }
    slot = std::make_shared<const Upload>(std::move(fresh));
  }
  return slot;
}

}  // namespace ecmv::experiments
