// The matrices of a dataset, with the references of its cases and the facts for their records.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "experiments/check/check.h"
#include "experiments/config/case.h"
#include "reports/record.h"

namespace ecmv::experiments {

// Loads or generates, and quantises. Throws datasets::DatasetError.
datasets::Dataset load_dataset(const DataSpec& data);

struct LoadedDataset {
  Reference reference;  // for the source
  std::shared_ptr<const datasets::Dataset> dataset;
  std::string no_product;                                // why these matrices have no int8 products; else ""
  std::optional<reports::CaseRecord::Data> description;  // absent if loading failed
  std::vector<double> entropies;                         // order 0, of each layer, bits an element
  std::optional<datasets::Distortion> distortion = {};   // of quantised layers, from the original numbers

  const std::vector<datasets::Matrix>& layers() const { return dataset->layers; }
  std::span<const datasets::Scales> scales() const { return dataset->scales; }
  // The distance of a lossy codec's layers from the numbers that a quantiser or the source had.
  datasets::Distortion distortion_of(const std::vector<datasets::Matrix>& decoded) const;
};

// The dataset of these cases, at least one, without the parts that none of them needs. Throws backends::OutOfMemory if
// it does not fit.
LoadedDataset load_for(std::span<const Case* const> cases);

}  // namespace ecmv::experiments
