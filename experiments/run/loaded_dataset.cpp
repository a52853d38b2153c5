// See loaded_dataset.h.
#include "experiments/run/loaded_dataset.h"

#include <algorithm>

#include "backends/cpu/team.h"
#include "experiments/plan/plan.h"
#include "experiments/run/case_record.h"

namespace ecmv::experiments {

datasets::Dataset load_dataset(const DataSpec& data) {
  const datasets::DataSource* source = datasets::find_source(data.source);
  if (source == nullptr) throw datasets::DatasetError("There is no data source '" + data.source + "'.");
  datasets::Dataset dataset = source->load({data.shape, data.layers, data.seed, data.numbers, data.texts});
  return data.quantiser.id.empty() ? dataset : datasets::quantise(std::move(dataset), data.quantiser);
}

datasets::Distortion LoadedDataset::distortion_of(const std::vector<datasets::Matrix>& decoded) const {
  const bool quantised = !dataset->sources.empty();
  datasets::Distortion sum;
  for (size_t i = 0; i < decoded.size(); ++i) {
    const datasets::Matrix& source = quantised ? dataset->sources[i] : dataset->layers[i];
    const datasets::Scales scales = dataset->scales_of(i);
    sum += datasets::distortion(source.view(), decoded[i].view(), scales, quantised ? datasets::Scales{} : scales);
  }
  return sum;
}

namespace {

// Order-0 entropy of the elements of each layer; goes through all of them.
std::vector<double> entropies_of(const datasets::Dataset& dataset) {
  std::vector<double> entropies(dataset.layers.size());
  backends::cpu::Team::for_each(std::ssize(entropies), [&](int64_t layer) {
    const auto number = static_cast<size_t>(layer);
    entropies[number] = datasets::entropy_bits_per_element(dataset.layers[number].view());
  });
  return entropies;
}

}  // namespace

LoadedDataset load_for(std::span<const Case* const> cases) {
  const DataSpec& data = cases.front()->data;
  int most_copies = 1;  // in the host's memory
  for (const Case* one : cases)
    if (on_host(one->kernel.backend)) most_copies = std::max(most_copies, one->kernel.repeat);
  if (const std::string reason = lacks_memory(data, most_copies); !reason.empty()) throw backends::OutOfMemory(reason);
  const auto dataset = std::make_shared<const datasets::Dataset>(load_dataset(data));
  LoadedDataset loaded;
  loaded.dataset = dataset;
  loaded.no_product = why_no_product(*dataset);
  if (!dataset->sources.empty()) loaded.distortion = loaded.distortion_of(dataset->layers);
  bool chain_wanted = false;
  int largest_batch = 0;
  for (const Case* one : cases) {
    chain_wanted = chain_wanted || one->kernel.task == Task::matvec;
    if (one->kernel.takes_tokens()) largest_batch = std::max(largest_batch, one->kernel.batch);
  }
  const bool chain_defined = chain_wanted && loaded.no_product.empty();
  loaded.reference.matrices = {dataset, &dataset->layers};
  loaded.reference.chain =
      std::make_shared<const ReferenceChain>(chain_defined ? compute_reference_chain(*dataset) : ReferenceChain{});
  const auto floats = [&](backends::Activations activations) {
    return std::make_shared<FloatReference>(
        loaded.reference.matrices, std::shared_ptr<const std::vector<datasets::Scales>>(dataset, &dataset->scales),
        data.seed, largest_batch, activations);
  };
  loaded.reference.floats = floats(backends::Activations::f32);
  loaded.reference.bf16 = floats(backends::Activations::bf16);
  loaded.description = describe_data(data, *dataset);
  loaded.entropies = entropies_of(*dataset);
  return loaded;
}

}  // namespace ecmv::experiments
