// See loaded_dataset.h.
#include "experiments/loaded_dataset.h"

#include <algorithm>

#include "experiments/fill_record.h"
#include "experiments/plan.h"

namespace ecmv::experiments {

LoadedDataset load_for(std::span<const Case* const> cases) {
  const DataSpec& data = cases.front()->data;
  if (const std::string reason = lacks_memory(data); !reason.empty()) throw backends::OutOfMemory(reason);
  const auto dataset = std::make_shared<const datasets::Dataset>(load_dataset(data));
  LoadedDataset loaded;
  loaded.no_product = why_no_product(dataset->layers);
  bool chain_wanted = false;
  int largest_batch = 0;
  for (const Case* one : cases) {
    chain_wanted = chain_wanted || one->kernel.op == backends::Op::matvec;
    if (one->kernel.op == backends::Op::matmul) largest_batch = std::max(largest_batch, one->kernel.batch);
  }
  const bool chain_defined = chain_wanted && loaded.no_product.empty();
  loaded.reference.matrices = {dataset, &dataset->layers};
  loaded.reference.chain =
      std::make_shared<const ReferenceChain>(chain_defined ? compute_reference_chain(*dataset) : ReferenceChain{});
  loaded.reference.floats = std::make_shared<FloatReference>(loaded.reference.matrices, data.seed, largest_batch);
  loaded.description = describe_data(data, *dataset);
  loaded.entropy_bits_per_element = entropy_of(*dataset);
  return loaded;
}

}  // namespace ecmv::experiments
