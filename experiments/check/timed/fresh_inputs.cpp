// See fresh_inputs.h.
#include "experiments/check/timed/fresh_inputs.h"

#include <algorithm>
#include <random>

#include "backends/cpu/memory_limits.h"

namespace ecmv::experiments {
namespace {

std::shared_ptr<const ReferenceChain> fresh_chain(const Reference& reference, std::mt19937_64& random) {
  int64_t longest = 0;
  for (const datasets::Matrix& matrix : *reference.matrices) longest = std::max(longest, matrix.shape.cols);
  std::vector<int8_t> initial(static_cast<size_t>(longest));
  for (int8_t& x : initial) x = static_cast<int8_t>(random());
  return std::make_shared<const ReferenceChain>(continue_chain(*reference.chain, *reference.matrices, initial));
}

// Columns that change: enough that results of the old numbers are far outside of what any kernel may be off.
std::vector<int64_t> some_columns(int64_t cols, std::mt19937_64& random) {
  const int64_t count = std::min(std::max<int64_t>(cols / 256, 16), std::max<int64_t>(1, cols / 2));
  std::vector<int64_t> columns = {cols - 1};
  while (static_cast<int64_t>(columns.size()) < count)
    columns.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(cols)));
  std::ranges::sort(columns);
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  return columns;
}

ReferenceProducts fresh_products(FloatReference& reference, const std::vector<datasets::Matrix>& matrices, int batch,
                                 std::mt19937_64& random) {
  const ReferenceProducts& base = reference.products();
  ReferenceProducts fresh;
  fresh.batch = batch;
  fresh.refused = base.refused;
  const std::vector<std::vector<float>> tokens = base.first_tokens(batch);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < base.layers.size(); ++i) {
    const int64_t cols = base.layers[i].shape.cols;
    const int first = static_cast<int>(random() % static_cast<uint64_t>(batch));
    const bool negated = random() % 2 == 0;
    std::vector<int> places;
    std::vector<float>& numbers = fresh.tokens.emplace_back();
    for (int place = 0; place < batch; ++place) {
      places.push_back((first + place) % batch);
      const auto token = tokens[i].begin() + places.back() * cols;
      numbers.insert(numbers.end(), token, token + cols);
    }
    backends::ExactProduct exact = backends::chosen_tokens(base.layers[i], places);
    if (negated) {
      for (float& number : numbers) number = -number;
      for (double& sum : exact.sums) sum = -sum;
    }
    if (cols > 0) {
      const std::vector<int64_t> columns = some_columns(cols, random);
      std::vector<float> values(columns.size() * static_cast<size_t>(batch));
      for (float& value : values) value = reference.rounded(normal(random));
      const auto scales = reference.scales();
      backends::change_columns(exact, matrices[i].view(), numbers, columns, values,
                               scales.empty() ? nullptr : &scales[i]);
    }
    fresh.layers.push_back(std::move(exact));
  }
  return fresh;
}

}  // namespace

FreshInputs::FreshInputs() : seed_(uint64_t{std::random_device{}()} << 32 | std::random_device{}()) {}

Reference FreshInputs::of(const Reference& reference, backends::Op op, int batch, int number) {
  Reference fresh = reference;
  std::mt19937_64 random(seed_ + static_cast<uint64_t>(number));
  if (op == backends::Op::matvec) {
    std::shared_ptr<const ReferenceChain>& chain = chains_[{reference.chain.get(), number}];
    if (chain == nullptr) chain = fresh_chain(reference, random);
    fresh.chain = chain;
  } else if (op == backends::Op::matmul) {
    const void* const of = reference.floats.get();
    const auto known = std::ranges::find_if(
        floats_, [&](const Floats& one) { return one.of == of && one.tokens == batch && one.sample == number; });
    if (known != floats_.end())
      floats_.splice(floats_.begin(), floats_, known);
    else
      add(of, batch, number,
          reference.floats->with(fresh_products(*reference.floats, *reference.matrices, batch, random)));
    fresh.floats = floats_.front().fresh;
  }
  return fresh;
}

void FreshInputs::add(const void* of, int batch, int number, std::shared_ptr<FloatReference> fresh) {
  int64_t bytes = 0;
  for (const backends::ExactProduct& exact : fresh->products().layers)
    bytes += static_cast<int64_t>(3 * sizeof(double) * exact.sums.size() +
                                  sizeof(float) * static_cast<size_t>(batch * exact.shape.cols));
  floats_.push_front({of, batch, number, std::move(fresh), bytes});
  const int64_t most = std::min(kMostBytes, backends::cpu::available_memory_bytes() / 8);
  int64_t all = 0;
  for (auto one = floats_.begin(); one != floats_.end();) {
    all += one->bytes;
    one = all > most && one != floats_.begin() ? floats_.erase(one) : std::next(one);
  }
}

}  // namespace ecmv::experiments
