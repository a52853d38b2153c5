// The key `quantise` of a block's data: quantisers, each an id or 'id: {parameter: values}', whose values are axes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "datasets/quantisers/quantisers.h"
#include "experiments/config/strict_yaml.h"

namespace ecmv::experiments {

// Quantisers by the names that they have as values of an axis.
using NamedQuantisers = std::map<std::string, datasets::QuantiserChoice>;

// The values of the axis: one name for every quantiser with one choice of parameters, which is added to `known`. `none`
// leaves the data unchanged.
std::vector<YAML::Node> read_quantisers(const YAML::Node& node, NamedQuantisers& known, YamlErrors& errors);

}  // namespace ecmv::experiments
