// See sample_check.h.
#include "experiments/check/sample_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/run/case_record.h"
#include "experiments/run/running_case.h"

namespace ecmv::experiments {

const Outcome& UploadChecks::of(const Upload& upload) {
  if (const auto known = known_.find(&upload); known != known_.end()) return known->second;
  Outcome outcome;
  for (const auto& matrix : upload)
    if (const std::string changed = matrix->changed_sections(); outcome.fine() && !changed.empty())
      outcome = {reports::Status::incorrect, changed};
  return known_.emplace(&upload, std::move(outcome)).first->second;
}

void SampleCheck::before_sample() {
  kept_.emplace();
  set_running_case(key_, name_);
  const KernelSpec& kernel = admitted_.one->kernel;
  ++samples_;
  if (!one_pass_) set_inputs(*admitted_.pass, kernel.op(), reference_now(), kernel.batch);
  admitted_.pass->poison_outputs(samples_ % 2);
  admitted_.device->reset_persisting_lines();
}

Reference SampleCheck::reference_now() {
  const KernelSpec& kernel = admitted_.one->kernel;
  return one_pass_ || samples_ == 0 ? admitted_.reference
                                    : fresh_.of(admitted_.reference, kernel.op(), kernel.batch, samples_);
}

void SampleCheck::before_pass() {
  set_running_case(key_, name_);
  if (one_pass_) return;
  round_ = static_cast<int>(random_() % 128);
  wiped_ = passes_++ % kWipeEvery == kWipeEvery - 1;
  if (wiped_)
    admitted_.pass->poison_outputs(round_ % 2);
  else
    admitted_.pass->mark_outputs(round_);
}

Outcome SampleCheck::after_pass() {
  left_layers_ = admitted_.reference.layers();
  if (one_pass_) return {};
  const Outcome result = check_result(*admitted_.pass, admitted_.one->kernel.op(), reference_now(), round_);
  if (result.fine()) return wiped_ && every_ ? compare(left_layers_, false) : result;
  const Outcome where = compare(left_layers_);  // says more, if the pass still shows the error
  return where.fine() ? result : where;
}

Outcome SampleCheck::after_sample(int64_t passes, bool last) {
  kept_.reset();
  if (!every_ || one_pass_) return {};
  Outcome outcome = compare(left_layers_, samples_ == 1 || last);
  // If a sample is a pass or two, a partial pass after each would take a third of the time.
  const size_t layers = admitted_.reference.layers();
  if (!outcome.fine() || layers < 2 || !admitted_.pass->has_parts() || (passes < 4 && samples_ % 4 != 1))
    return outcome;
  const size_t part = 1 + static_cast<size_t>(samples_ * 7 + 3) % (layers - 1);
  admitted_.pass->poison_outputs(samples_ % 2);
  admitted_.pass->run_first(static_cast<int>(part));
  left_layers_ = part;
  return compare(part, false);
}

Outcome SampleCheck::finish() {
  if (Outcome outcome = compare(left_layers_); !outcome.fine()) return outcome;
  if (Outcome outcome = one_pass_ ? Outcome() : check_copies(admitted_); !outcome.fine()) return outcome;
  return uploads_.of(*admitted_.upload);
}

std::optional<int64_t> SampleCheck::difference_on_device(size_t layers) const {
  if (admitted_.one->kernel.task != Task::decode || layers == 0) return {};
  const Reference& reference = admitted_.reference;
  const datasets::Matrix& matrix = (*reference.matrices)[reference.matrix_of(layers - 1)];
  const backends::Buffer* const expected = copies_.of(*admitted_.device, matrix.elements);
  if (expected == nullptr) return {};
  return admitted_.pass->first_difference(*expected);
}

Outcome SampleCheck::compare(size_t layers, bool on_host) {
  const std::optional<int64_t> wrong_byte = difference_on_device(layers);
  OutputCheck found;
  if (!on_host && wrong_byte == -1)
    found.guards = admitted_.pass->broken_guards();
  else
    found = check_last_pass(*admitted_.pass, admitted_.one->kernel.op(), reference_now(), layers);
  if (wrong_byte && *wrong_byte >= 0 && found.outputs.empty())
    found.outputs = fmt::format(
        "layer {}: by the comparison on the device byte {} of the decoded matrix is wrong, and by "
        "that on the host none is",
        layers - 1, *wrong_byte);
  else if (wrong_byte == -1 && !found.outputs.empty())
    found.outputs += "; the comparison on the device did not find it";
  admitted_.bound_used = found.bound_used = std::max(found.bound_used, admitted_.bound_used);
  fill_check(admitted_.record, found);
  return found.outcome();
}

}  // namespace ecmv::experiments
