// The key `codecs` of a block: ids, settings as axes, and mixes of codecs by kind of layer.
#pragma once

#include <span>
#include <vector>

#include "codecs/registry.h"
#include "experiments/config/case.h"
#include "experiments/config/strict_yaml.h"

namespace ecmv::experiments {

// One entry of `codecs`: an id, {id: {setting: values}}, {mix: {kind: entry}}, all or all_settings. Appends a codec for
// each combination.
void read_codec(const YAML::Node& node, std::span<const codecs::CodecEntry> codecs, std::vector<CodecSpec>& out,
                YamlErrors& errors);

}  // namespace ecmv::experiments
