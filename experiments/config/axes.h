// Axes: keys with lists of values, and every combination of them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/strict_yaml.h"

namespace ecmv::experiments {

// More is a slip of the pen, and would fill the memory before it could be seen.
inline constexpr size_t kMostCases = 100'000;

// One axis of a product: a key and the values it takes.
struct Axis {
  std::string key;
  std::vector<YAML::Node> values;
};

// The value of `zip`: names of axes of one length.
std::vector<std::string> read_zip(const YAML::Node& node, const std::vector<Axis>& axes, YamlErrors& errors);

// Whether there are more combinations than a config may have; then that is an error.
bool too_many(const std::vector<Axis>& axes, const std::vector<std::string>& zip, std::string_view what,
              const YAML::Node& where, YamlErrors& errors);

// Every combination of the axes, the first axis slowest. Axes named in `zip` advance together.
std::vector<std::map<std::string, YAML::Node>> product(const std::vector<Axis>& axes,
                                                       const std::vector<std::string>& zip);

}  // namespace ecmv::experiments
