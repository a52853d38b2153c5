// See read_quantisers.h.
#include "experiments/config/read_quantisers.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "codecs/did_you_mean.h"

namespace ecmv::experiments {
namespace {

constexpr std::string_view kNone = "none";

void read_quantiser(const YAML::Node& node, std::vector<YAML::Node>& values, NamedQuantisers& known,
                    YamlErrors& errors) {
  const bool is_map = node.IsMap() && node.size() == 1 && node.begin()->first.IsScalar();
  if (!node.IsScalar() && !is_map) return errors.add(node, "A quantiser is an id, or 'id: {parameter: values}'.");
  const std::string id = is_map ? node.begin()->first.Scalar() : node.Scalar();
  if (!is_map && id == kNone) {
    known[id] = {};
    return values.push_back(node);
  }
  if (id == kNone)
    return errors.add(node, fmt::format("'{}' leaves the floats as they are and has no parameters.", id));
  const datasets::Quantiser* quantiser = datasets::find_quantiser(id);
  if (quantiser == nullptr) {
    std::vector<std::string_view> ids = {kNone};
    for (const datasets::Quantiser& one : datasets::all_quantisers()) ids.push_back(one.id);
    return errors.add(node, fmt::format("There is no quantiser '{}'.{}", id, codecs::did_you_mean(id, ids)));
  }
  std::vector<ListedAxis> axes;
  if (is_map && !node.begin()->second.IsNull()) {
    const YAML::Node parameters = node.begin()->second;
    std::vector<std::string_view> keys;
    for (const datasets::ParameterInfo& info : quantiser->parameters) keys.push_back(info.name);
    const size_t problems = errors.count();
    if (!check_map(parameters, id, keys, errors) || errors.count() > problems) return;
    for (const auto& pair : parameters)
      axes.push_back({pair.first.Scalar(), read_axis(pair.second, pair.first.Scalar(), errors)});
  }
  if (too_many(axes, {}, id, node, errors)) return;
  for (const auto& combination : product(axes, {})) {
    datasets::QuantiserChoice choice{id};
    const size_t problems = errors.count();
    for (const auto& [key, value] : combination) {
      if (std::ranges::find(quantiser->parameters, key, &datasets::ParameterInfo::name)->is_text)
        choice.texts[key] = read_text(value, key, errors).value_or("");
      else
        choice.numbers[key] = read_number(value, key, errors).value_or(0);
    }
    if (errors.count() > problems) continue;
    try {
      datasets::check_quantiser(choice);
    } catch (const datasets::DatasetError& e) {
      errors.add(node, e.what());
      continue;
    }
    const std::string name = choice.name();
    known[name] = choice;
    values.push_back(scalar_at(node.Mark(), name));
  }
}

}  // namespace

std::vector<YAML::Node> read_quantisers(const YAML::Node& node, NamedQuantisers& known, YamlErrors& errors) {
  std::vector<YAML::Node> values;
  if (!node.IsSequence())
    read_quantiser(node, values, known, errors);
  else
    for (const YAML::Node& one : node) read_quantiser(one, values, known, errors);
  if (values.empty() && (!node.IsSequence() || node.size() == 0) && errors.count() == 0)
    errors.add(node, "'quantise' is a list of quantisers.");
  return values;
}

}  // namespace ecmv::experiments
