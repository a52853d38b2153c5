// Draws a whole data set; see synthetic.h. Threads share the layers one after the other in fixed chunks.
#include "datasets/sources/synthetic.h"

#include <limits>
#include <new>

#include "datasets/sources/distributions.h"
#include "datasets/tensor.h"

namespace ecmv::datasets {
namespace {

constexpr double kInitialVectorSigma = 4;

}  // namespace

void check_request(const DataSource& source, const SourceRequest& request) {
  const auto [rows, cols] = request.shape;
  const std::string shape = shape_text({rows, cols});
  const std::string who = "The source " + std::string(source.id);
  if (rows < 1 || cols < 1) {
    throw DatasetError(who + " needs a shape with at least one row and one column, not " + shape + ".");
  }
  if (request.layers < 1) {
    throw DatasetError(who + " needs at least one layer, not " + std::to_string(request.layers) + ".");
  }
  if (rows > std::numeric_limits<int64_t>::max() / cols / request.layers) {
    throw DatasetError(who + " cannot make " + std::to_string(request.layers) + " layers of shape " + shape +
                       ": the number of elements exceeds 2^63 - 1.");
  }
}

std::vector<int8_t> draw_initial_vector(uint64_t seed, int64_t length) {
  static const DiscreteSampler sampler(gaussian_table(kInitialVectorSigma));
  std::vector<int8_t> vector(static_cast<size_t>(length));
  sampler.draw_parallel({seed, 0, RandomStream::Purpose::initial_vector}, vector);
  return vector;
}

Dataset draw_dataset(const DataSource& source, const SourceRequest& request, const CumulativeTable& table) {
  check_request(source, request);
  const DiscreteSampler sampler(table);
  const int64_t elements = request.shape.elements();
  Dataset dataset;
  try {
    for (int layer = 0; layer < request.layers; ++layer) {
      Matrix& matrix = dataset.layers.emplace_back();
      matrix.name = "layer_" + std::to_string(layer);
      matrix.shape = request.shape;
      matrix.elements.resize(static_cast<size_t>(elements));
      sampler.draw_parallel({request.seed, uint32_t(layer), RandomStream::Purpose::matrix},
                            {reinterpret_cast<int8_t*>(matrix.elements.data()), matrix.elements.size()});
      matrix.content_hash = content_hash(matrix.view());
    }
    dataset.initial_vector = draw_initial_vector(request.seed, request.shape.cols);
  } catch (const std::bad_alloc&) {
    throw DatasetError("The source " + std::string(source.id) + " could not get the memory for " +
                       std::to_string(request.layers) + " layers of " + std::to_string(elements) + " bytes.");
  } catch (const std::length_error&) {
    throw DatasetError("The source " + std::string(source.id) + " cannot hold a matrix of " + std::to_string(elements) +
                       " bytes in memory.");
  }
  return dataset;
}

}  // namespace ecmv::datasets
