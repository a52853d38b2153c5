// See sample_check.h.
#include "experiments/check/sample_check.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

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
  more_passes_ = 0;
  if (!one_pass_) set_inputs(*admitted_.pass, kernel.op(), reference_now(), kernel.batch);
  admitted_.pass->poison_outputs(samples_ % 2);
  admitted_.device->reset_persisting_lines();
  sample_begun_ = Clock::now();
}

Reference SampleCheck::reference_now() {
  const KernelSpec& kernel = admitted_.one->kernel;
  return one_pass_ || samples_ == 0 ? admitted_.reference
                                    : fresh_.of(admitted_.reference, kernel.op(), kernel.batch, samples_);
}

void SampleCheck::before_pass() {
  set_running_case(key_, name_);
  if (one_pass_) return;
  round_ = static_cast<int>(random_() % (1 << 16));
  whole_ = draws_ && drawn(kWhole);
  if (whole_ && drawn(kWiped))
    admitted_.pass->poison_outputs(round_ % 2);
  else
    admitted_.pass->mark_outputs(round_);
}

Outcome SampleCheck::after_pass() {
  ++passes_;
  left_layers_ = admitted_.reference.layers();
  if (one_pass_) return {};
  const backends::Op op = admitted_.one->kernel.op();
  const Outcome result = check_result(*admitted_.pass, op, reference_now(), round_);
  if (!result.fine()) {
    const Outcome where = compare(left_layers_);  // says more, if the pass still shows the error
    return where.fine() ? result : where;
  }
  if (!every_ || left_layers_ == 0) return result;
  if (op == backends::Op::decode) {
    const Outcome outcome = whole_ ? compare(left_layers_, false) : result;
    return outcome.fine() && left_layers_ > 1 && walks() ? timed_walk() : outcome;
  }
  if (is_near() || compares()) {
    const Clock::time_point begun = Clock::now();
    if (Outcome outcome = compare_products(); !outcome.fine()) return outcome;
    in_compares_ += Clock::now() - begun;
  }
  if (admitted_.device->shared() == nullptr) return {};
  const Outcome outcome = compare_ranks();
  return outcome.fine() && walks() ? timed_walk() : outcome;
}

bool SampleCheck::is_near() const {
  return admitted_.device->memory() == "host" && admitted_.device->shared() == nullptr;
}

// Where results are many beside the matrix, to read them all would leave other bytes in the caches.
bool SampleCheck::compares() {
  return (whole_ || drawn(4)) && in_compares_ <= kShareOfCompares * (in_samples_ + (Clock::now() - sample_begun_));
}

bool SampleCheck::walks() {
  return draws_ && drawn(passes_ < kWalk ? kFirstWalks : kWalk) &&
         in_walks_ <= kShareOfWalks * (in_samples_ + (Clock::now() - sample_begun_));
}

Outcome SampleCheck::timed_walk() {
  const Clock::time_point begun = Clock::now();
  Outcome outcome = admitted_.one->kernel.op() == backends::Op::decode ? walk() : mix_inputs();
  in_walks_ += Clock::now() - begun;
  return outcome;
}

Outcome SampleCheck::compare_products() {
  const KernelSpec& kernel = admitted_.one->kernel;
  const Reference reference = reference_now();
  std::vector<size_t> layers = {random_() % left_layers_};
  const datasets::Shape& shape = (*reference.matrices)[reference.matrix_of(layers[0])].shape;
  if (is_near() && (whole_ || 32 * kernel.batch <= shape.cols)) {
    layers.resize(left_layers_);
    std::iota(layers.begin(), layers.end(), size_t{0});
  }
  for (const size_t layer : layers) {
    const OutputCheck found = check_layer(*admitted_.pass, kernel.op(), reference, layer, !is_near());
    admitted_.bound_used = std::max(admitted_.bound_used, found.bound_used);
    if (found.fine()) continue;
    const Outcome first = compare(left_layers_);  // names the first layer that is wrong
    return first.fine() ? found.outcome() : first;
  }
  return {};
}

Outcome SampleCheck::compare_ranks() {
  constexpr int64_t kMostBytes = int64_t{1} << 20;
  const KernelSpec& kernel = admitted_.one->kernel;
  std::vector<int> order(left_layers_);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end() - 1, random_);
  std::swap(order.front(), order.back());  // the last layer, then any others
  int64_t bytes = 0;
  size_t count = 0;
  while (count < order.size() && (count == 0 || bytes < kMostBytes)) {
    const size_t matrix = admitted_.reference.matrix_of(static_cast<size_t>(order[count++]));
    bytes += (*admitted_.reference.matrices)[matrix].shape.rows * (kernel.takes_tokens() ? 4 * kernel.batch : 1);
  }
  const std::string differs = admitted_.pass->disagreement(std::span(order).first(count));
  return differs.empty() ? Outcome{} : Outcome{reports::Status::incorrect, differs};
}

Outcome SampleCheck::mix_inputs() {
  constexpr size_t kMostLayers = 8;
  const KernelSpec& kernel = admitted_.one->kernel;
  const Reference reference = reference_now();
  const bool floats = kernel.takes_tokens();
  std::vector<size_t> layers(left_layers_);
  std::iota(layers.begin(), layers.end(), size_t{0});
  std::shuffle(layers.begin(), layers.end(), random_);
  layers.resize(std::min(layers.size(), kMostLayers));
  if (!floats && reference.chain->chained) layers = {0};
  const int ranks = admitted_.device->shared()->ranks;
  const int rank = other_rank_ = (other_rank_ < 0 ? static_cast<int>(random_() % 64) : other_rank_ + 1) % ranks;
  std::normal_distribution<float> normal;
  for (const size_t layer : layers) {
    const int64_t cols = (*reference.matrices)[reference.matrix_of(layer)].shape.cols;
    std::vector<std::byte> input(static_cast<size_t>(cols) * (floats ? sizeof(float) * kernel.batch : 1));
    for (size_t i = 0; i < input.size(); i += floats ? sizeof(float) : 1) {
      const float number = floats ? reference.floats->rounded(normal(random_)) : 0;
      if (floats)
        std::memcpy(&input[i], &number, sizeof(number));
      else
        input[i] = static_cast<std::byte>(random_() % 256);
    }
    admitted_.pass->set_input_of_rank(rank, static_cast<int>(layer), input);
  }
  admitted_.pass->mark_outputs(round_);
  admitted_.pass->run();
  Outcome outcome = compare_ranks();
  set_inputs(*admitted_.pass, kernel.op(), reference, kernel.batch);
  if (outcome.fine()) admitted_.pass->run();
  more_passes_ += 2;
  if (!outcome.fine()) outcome.reason += ", where one rank has another input";
  return outcome;
}

Outcome SampleCheck::walk() {
  const size_t layers = admitted_.reference.layers();
  Outcome outcome;
  for (size_t layer = 0; layer < layers && outcome.fine(); ++layer) {
    admitted_.pass->run_layer(static_cast<int>(layer));
    outcome = compare(layer + 1, false);
  }
  if (outcome.fine()) admitted_.pass->run();
  more_passes_ += 2;
  return outcome;
}

Outcome SampleCheck::after_sample(int64_t passes, bool last) {
  kept_.reset();
  in_samples_ += Clock::now() - sample_begun_;
  if (!every_ || one_pass_) return {};
  Outcome outcome = compare(left_layers_, samples_ == 1 || last);
  // If a sample is a pass or two, a partial pass after each would take a third of the time.
  const size_t layers = admitted_.reference.layers();
  if (!outcome.fine() || layers < 2 || !admitted_.pass->has_parts() || (passes < 4 && samples_ % 4 != 1))
    return outcome;
  const size_t number = draws_ ? random_() : static_cast<size_t>(samples_ * 7 + 3);
  const size_t part = 1 + number % (layers - 1);
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
