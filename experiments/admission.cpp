// See admission.h.
#include "experiments/admission.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/block_counts.h"
#include "experiments/fill_record.h"
#include "experiments/rank_team.h"
#include "experiments/running_case.h"

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
}

AdmittedCase Admission::admit(const Case& one, reports::CaseRecord record) {
  set_running_case(one.key(), one.name());
  AdmittedCase admitted{.one = &one, .record = std::move(record), .reference = reference_};
  admitted.outcome = guarded([&] {
    const EncodedLayers& encoded = encoded_for(one);
    Outcome outcome = fill_stored(one, encoded, admitted.record);
    if (!outcome.fine() || one.kernel.op == Op::size) return outcome;
    backends::PassPlan plan;
    outcome = prepare(admitted, encoded, plan);
    if (outcome.fine()) outcome = check(admitted, plan);
    if (outcome.fine()) outcome = estimate(admitted);
    return outcome;
  });
  if (!admitted.outcome.fine()) admitted.pass.reset();
  return admitted;
}

const EncodedLayers& Admission::encoded_for(const Case& one) {
  const int ranks = one.kernel.ranks;
  if (ranks <= 1 || !encoded_.outcome.fine()) return encoded_;
  if (const auto known = encoded_parts_.find(ranks); known != encoded_parts_.end()) return known->second;
  set_running_case({}, {});  // encoders are no kernels
  const std::vector<datasets::Matrix> parts = split_rows(dataset_.layers(), ranks);
  EncodedLayers& encoded = encoded_parts_[ranks];
  encoded = std::move(encode_and_check({&codec_, 1}, parts, options_.interrupted).front());
  set_running_case(one.key(), one.name());
  return encoded;
}

// What the encoded layers say by themselves.
Outcome Admission::fill_stored(const Case& one, const EncodedLayers& encoded, reports::CaseRecord& record) const {
  if (encoded.outcome.status == Status::incorrect) record.check.decode = encoded.outcome.reason;
  if (!encoded.outcome.fine()) return encoded.outcome;
  record.check.decode = encoded.decode;
  fill_size(record, dataset_.entropy_bits_per_element, encoded.layers, dataset_.scales());
  if (distortion_) fill_distortion(record, *distortion_);
  record.size.ideal_bits_per_element = encoded.ideal_bits_per_element;
  if (one.kernel.op == Op::size) {
    for (const datasets::Matrix& matrix : dataset_.layers()) record.time.elements += matrix.shape.elements();
    const std::string wrong = fill_blocks(record, codec_, dataset_.layers(), encoded.layers);
    if (!wrong.empty()) return {Status::incorrect, wrong};
  }
  if (one.kernel.op == Op::matvec && !dataset_.no_product.empty()) return {Status::refused, dataset_.no_product};
  if (one.kernel.op == Op::matvec && encoded.decoded != nullptr)
    return {Status::refused, "Products are compared with those of the source, which a lossy codec does not keep."};
  return {};
}

// From the device to the pass.
Outcome Admission::prepare(AdmittedCase& admitted, const EncodedLayers& encoded, backends::PassPlan& plan) {
  const KernelSpec& kernel = admitted.one->kernel;
  admitted.device = devices_.find(kernel);
  if (admitted.device == nullptr) return {Status::unavailable, devices_.reason(kernel)};
  backends::Device& device = *admitted.device;
  device.select();
  fill_device(admitted.record, device);
  plan = plan_for(kernel, *codec_.entry, *reference_.chain);
  if (kernel.op == Op::matmul) {
    const ReferenceProducts& products = reference_.floats->products();
    if (!products.refused.empty()) return {Status::refused, products.refused};
    plan.chained = false;
    plan.tokens = products.first_tokens(kernel.batch);
    for (const datasets::Scales& scales : reference_.floats->scales()) {
      if (!scales.one_a_row() && !kernel.unfused)
        return {Status::refused,
                "A fused product has one sum a row, and groups of columns have scales of their own here; an "
                "unfused one applies them to what it decoded."};
      plan.weight_scales.push_back(&scales);
    }
  }
  if (plan.kernel != nullptr)
    for (const codecs::CompressedMatrix& layer : encoded.layers)
      if (const std::string reason = plan.kernel->refuses(layer.view(), device.info(), *plan.policy); !reason.empty())
        return {Status::refused, reason};
  admitted.upload = upload_to(device, encoded);
  if (auto* ranks = dynamic_cast<RankDevice*>(&device)) {
    fill_ranks(admitted.record, *ranks, dataset_.layers());
    admitted.pass = ranks->prepare(*admitted.one, *reference_.chain, *admitted.upload, dataset_.layers());
    return {};
  }
  for (const auto& matrix : *admitted.upload) plan.layers.push_back(matrix.get());
  admitted.pass = options_.prepare(device, plan);
  return {};
}

// Tier 2a.
Outcome Admission::check(AdmittedCase& admitted, const backends::PassPlan& plan) const {
  OutputCheck found = check_every_layer(*admitted.pass, plan.op, reference_);
  if (found.fine() && plan.op == Op::matmul) {
    const double used = found.bound_used;
    found = check_probes(options_.prepare, *admitted.device, plan, reference_.floats->probes());
    found.bound_used = std::max(found.bound_used, used);
  }
  admitted.bound_used = found.bound_used;
  fill_check(admitted.record, found);
  return found.outcome();
}

// One pass; of a case that is not timed nothing is left.
Outcome Admission::estimate(AdmittedCase& admitted) const {
  const MeasureSpec& measure = experiment_.measure;
  if (!options_.time || admitted.device->info().emulated) {
    admitted.pass.reset();
    return {};
  }
  if (!is_single_pass(measure)) admitted.estimate_s = admitted.pass->run();
  if (admitted.estimate_s <= measure.max_seconds) return {};
  return {Status::timed_out, fmt::format("One pass takes {:.3g} s, more than the {:.3g} s that a case may take.",
                                         admitted.estimate_s, measure.max_seconds)};
}

std::shared_ptr<const Upload> Admission::upload_to(backends::Device& device, const EncodedLayers& encoded) {
  std::shared_ptr<const Upload>& slot = uploads_[std::string(device.memory())];
  if (slot == nullptr) {
    Upload fresh;
    const auto layers = std::span(encoded.layers);
    auto* ranks = dynamic_cast<RankDevice*>(&device);
    const size_t parts = ranks == nullptr ? 1 : static_cast<size_t>(ranks->ranks());
    for (size_t i = 0; i < layers.size(); i += parts)
      fresh.push_back(ranks == nullptr ? device.upload(layers[i]) : ranks->upload_parts(layers.subspan(i, parts)));
    slot = std::make_shared<const Upload>(std::move(fresh));
  }
  return slot;
}

}  // namespace ecmv::experiments
