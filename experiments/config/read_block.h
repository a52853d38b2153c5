// Reads one block of a config: `data`, `codecs`, `kernels` and `exclude`. Each axis is a list; the block is their
// product.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codecs/registry.h"
#include "experiments/config/case.h"
#include "experiments/config/strict_yaml.h"

namespace ecmv::experiments {

// Appends the block's cases; errors go to `errors`. A rule of `exclude` that matches nothing is one, unless the config
// was `edited`: then what it named may be gone.
void read_block(const YAML::Node& block, uint64_t seed, std::span<const codecs::CodecEntry> codecs, bool edited,
                std::vector<Case>& cases, YamlErrors& errors);

// Replaces the values of an axis in the part of the block to which the axis belongs ("d" in data, "backend" in kernels,
// "codecs" itself). `d` and `shapes` replace each other. Returns false and does nothing if the block has no such axis:
// its source has no such parameter, or it has no op that takes a batch.
bool set_axis(YAML::Node block, const std::string& axis, const YAML::Node& values);
// "" or " Did you mean 'x'?", from the axes of this config's blocks.
std::string nearest_axis(const YAML::Node& root, const std::string& axis);

}  // namespace ecmv::experiments
