// The steps that all synthetic sources share once they have their table: check the shape, draw every layer and the
// initial vector, name and hash the matrices.
#pragma once

#include "datasets/source.h"
#include "datasets/sources/discrete_sampler.h"

namespace ecmv::datasets {

// Layers of i8 elements drawn independently from `table`. Layer i uses the stream (seed, i), so it does not depend on
// the number of layers. Throws DatasetError for shapes without elements or too large to address.
Dataset draw_dataset(const DataSource& source, const SourceRequest& request, const CumulativeTable& table);

// Throws DatasetError for shapes without elements or too large to address, and for no layers.
void check_request(const DataSource& source, const SourceRequest& request);

// [length] elements of N(0, 4^2), rounded and clipped to +-127 as in the MatVANS experiments, from a stream of the seed
// that no matrix uses.
std::vector<int8_t> draw_initial_vector(uint64_t seed, int64_t length);

}  // namespace ecmv::datasets
