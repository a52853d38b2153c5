// See axes.h.
#include "experiments/config/axes.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace ecmv::experiments {

bool too_many(const std::vector<Axis>& axes, const std::vector<std::string>& zip, std::string_view what,
              const YAML::Node& where, YamlErrors& errors) {
  double count = 1;
  for (const Axis& axis : axes)
    if (std::find(zip.begin(), zip.end(), axis.key) == zip.end() || axis.key == zip.front())
      count *= static_cast<double>(axis.values.size());
  if (count <= static_cast<double>(kMostCases)) return false;
  errors.add(where,
             fmt::format("'{}' has {:.6g} combinations; a config may have at most {} cases.", what, count, kMostCases));
  return true;
}

std::vector<std::map<std::string, YAML::Node>> product(const std::vector<Axis>& axes,
                                                       const std::vector<std::string>& zip) {
  std::vector<std::map<std::string, YAML::Node>> out = {{}};
  bool zipped_done = false;
  for (const Axis& axis : axes) {
    const bool zipped = std::find(zip.begin(), zip.end(), axis.key) != zip.end();
    if (zipped && zipped_done) continue;
    std::vector<std::map<std::string, YAML::Node>> next;
    for (const auto& partial : out)
      for (size_t i = 0; i < axis.values.size(); ++i) {
        next.push_back(partial);
        next.back()[axis.key] = axis.values[i];
        if (!zipped) continue;
        for (const Axis& other : axes)
          if (std::find(zip.begin(), zip.end(), other.key) != zip.end()) next.back()[other.key] = other.values[i];
      }
    zipped_done = zipped_done || zipped;
    out = std::move(next);
  }
  return out;
}

std::vector<std::string> read_zip(const YAML::Node& node, const std::vector<Axis>& axes, YamlErrors& errors) {
  std::vector<std::string> zip;
  if (!node.IsDefined()) return zip;
  std::optional<size_t> length;
  for (const YAML::Node& key : read_axis(node, "zip", errors)) {
    const std::string name = read_text(key, "zip", errors).value_or("");
    const auto axis = std::find_if(axes.begin(), axes.end(), [&](const Axis& a) { return a.key == name; });
    if (axis == axes.end())
      errors.add(key, fmt::format("'zip' names '{}', which is no axis of this block.", name));
    else if (length && *length != axis->values.size())
      errors.add(key, fmt::format("The axes in 'zip' must be of one length: '{}' has {} values, another one {}.", name,
                                  axis->values.size(), *length));
    else
      length = axis->values.size(), zip.push_back(name);
  }
  return zip;
}

}  // namespace ecmv::experiments
