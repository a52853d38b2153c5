// See ad_hoc.h.
#include "experiments/command/ad_hoc.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>
#include <CLI/CLI.hpp>

#include "backends/backend.h"
#include "codecs/registry.h"
#include "datasets/source.h"
#include "experiments/command/command.h"
#include "experiments/config/axes.h"

namespace ecmv::experiments {
namespace {

YAML::Node flow_list(const std::vector<std::string>& values) {
  if (values.size() == 1) return YAML::Node(values[0]);
  YAML::Node list(YAML::NodeType::Sequence);
  list.SetStyle(YAML::EmitterStyle::Flow);
  for (const std::string& value : values) list.push_back(value);
  return list;
}

void put(YAML::Node map, std::string_view key, const std::vector<std::string>& values) {
  if (!values.empty()) map[std::string(key)] = flow_list(values);
}

// "id:a=1,b=x" -> id, or {id: {a: 1, b: x}}.
YAML::Node id_with_settings(const std::string& text, const std::string& flag) {
  const size_t colon = text.find(':');
  const std::string id = text.substr(0, colon);
  if (colon == std::string::npos) return YAML::Node(id);
  YAML::Node settings(YAML::NodeType::Map);
  settings.SetStyle(YAML::EmitterStyle::Flow);
  for (const std::string& part : CLI::detail::split(text.substr(colon + 1), ',')) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(fmt::format("{} takes ID or ID:NAME=VALUE,..., not '{}'.", flag, text));
    settings.force_insert(part.substr(0, equals), part.substr(equals + 1));
  }
  YAML::Node codec(YAML::NodeType::Map);
  codec[id] = settings;
  return codec;
}

// "a,b" names two codecs, "a:x=1,y=2" one with its settings.
std::vector<std::string> listed_codecs(const std::string& text) {
  if (text.find(':') != std::string::npos) return {text};
  return CLI::detail::split(text, ',');
}

void expect_required(const datasets::DataSource& source, const std::vector<std::string>& given) {
  for (const datasets::ParameterInfo& parameter : source.parameters) {
    const std::string name = std::string(parameter.name) + "=";
    if (parameter.required &&
        std::none_of(given.begin(), given.end(), [&](const std::string& one) { return one.starts_with(name); }))
      throw UsageError(fmt::format("--source {} needs '{}', {}: add --param {}VALUE.", source.id, parameter.name,
                                   parameter.help, name));
  }
}

// The flag from which each line of the config was made.
std::vector<std::string> flags_of(const std::string& config) {
  static constexpr std::string_view kDataFlags[] = {"source",       "d",       "layers", "seed", "sigma",
                                                    "entropy_bits", "quantise"};
  std::vector<std::string> flags;
  std::string part, flag;
  std::istringstream lines(config);
  for (std::string line; std::getline(lines, line);) {
    std::string key = line.substr(std::min(line.size(), line.find_first_not_of(" -")));
    key = key.substr(0, std::min(key.find(':'), key.size()));
    const bool has_key = line.find(':') != std::string::npos;
    const bool is_item = line.substr(std::min(line.size(), line.find_first_not_of(' '))).starts_with("- ");
    if (key == "data" || key == "codecs" || key == "kernels" || key == "measure")
      part = key, flag = part == "codecs" ? "--codec" : "";
    else if (is_item && flag == "--quantise")
      flag = "--quantise";
    else if (has_key && part == "data" && key == "shapes")
      flag = "--shape";
    else if (has_key && part == "data" && std::ranges::find(kDataFlags, key) == std::end(kDataFlags))
      flag = "--param " + key;
    else if (has_key && part != "codecs")
      flag = part.empty() ? "" : "--" + key;
    std::replace(flag.begin(), flag.end(), '_', '-');
    flags.push_back(flag);
  }
  return flags;
}

YAML::Node shape_list(const std::vector<std::string>& shapes) {
  YAML::Node list(YAML::NodeType::Sequence);
  for (const std::string& shape : shapes) {
    const size_t times = shape.find('x');
    if (times == std::string::npos) throw UsageError(fmt::format("--shape takes ROWSxCOLS, not '{}'.", shape));
    YAML::Node pair = flow_list({shape.substr(0, times), shape.substr(times + 1)});
    list.push_back(pair);
  }
  return list;
}

}  // namespace

void add_ad_hoc(CLI::App& verb, AdHoc& options) {
  static const std::string group = "Without a config file";
  options.first_flag = [&verb] {
    for (const CLI::Option* option : verb.get_options())
      if (option->get_group() == group && option->count() > 0) return option->get_name();
    return std::string();
  };
  const auto list = [&](const char* name, std::vector<std::string>& values, const char* help) {
    verb.add_option(name, values, help)->delimiter(',')->allow_extra_args(false)->group(group);
  };
  verb.add_option("--codec", options.codecs, "ID or ID:SETTING=VALUE,...; may be repeated; 'all'")
      ->allow_extra_args(false)
      ->group(group);
  verb.add_option("--source", options.source, "data source (gaussian)")->group(group);
  list("--d", options.d, "rows and columns of square matrices (4096)");
  list("--shape", options.shapes, "ROWSxCOLS instead of --d");
  list("--layers", options.layers, "matrices of the chain (10)");
  list("--seed", options.seeds, "seed (1)");
  list("--sigma", options.sigma,
       "standard deviation of the elements (4, unless --entropy-bits or another source is given)");
  list("--entropy-bits", options.entropy_bits, "entropy in bits per element");
  verb.add_option("--param", options.parameters, "NAME=VALUE: another parameter of the source, e.g. file=x.safetensors")
      ->allow_extra_args(false)
      ->group(group);
  verb.add_option("--quantise", options.quantisers, "ID or ID:NAME=VALUE,... of a quantiser; may be repeated")
      ->allow_extra_args(false)
      ->group(group);
  std::string backends = "best";
  for (const backends::Backend& backend : backends::all_backends()) backends += ", " + std::string(backend.id);
  for (const KernelAxis& axis : kernel_axes()) {
    std::vector<std::string>& values = options.kernels[std::string(axis.key)];
    const std::string names = axis.key == "backend" ? backends + ": " : "";
    list(flag_of(axis).c_str(), values, fmt::format("{}{} ({})", names, axis.help, axis.fallback).c_str());
    if (!axis.old_key.empty())
      verb.add_option("--" + std::string(axis.old_key), values)->delimiter(',')->allow_extra_args(false)->group("");
  }
  verb.add_option("--repetitions", options.repetitions, "samples of each case (9)")->group(group);
  verb.add_option("--min-time", options.min_time, "seconds of one sample (0.1)")->group(group);
}

static std::string ad_hoc_config(const AdHoc& options) {
  // These are maps from the start: a copy of a node without a type would be a separate node.
  YAML::Node data(YAML::NodeType::Map), kernels(YAML::NodeType::Map), measure(YAML::NodeType::Map),
      codecs(YAML::NodeType::Sequence);
  data["source"] = options.source;
  const bool plain = options.source == "gaussian";
  const datasets::DataSource* source = datasets::find_source(options.source);
  const bool needs_shape = options.d.empty() && options.shapes.empty() && (source == nullptr || source->uses_shape);
  if (source != nullptr) expect_required(*source, options.parameters);
  if (!options.shapes.empty()) data["shapes"] = shape_list(options.shapes);
  put(data, "d", needs_shape ? std::vector<std::string>{"4096"} : options.d);
  put(data, "layers", options.layers);
  put(data, "seed", options.seeds);
  put(data, "sigma",
      plain && options.sigma.empty() && options.entropy_bits.empty() ? std::vector<std::string>{"4"} : options.sigma);
  put(data, "entropy_bits", options.entropy_bits);
  for (const std::string& parameter : options.parameters) {
    const size_t equals = parameter.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UsageError(fmt::format("--param takes NAME=VALUE, not '{}'.", parameter));
    data[parameter.substr(0, equals)] = parameter.substr(equals + 1);
  }
  for (const std::string& quantiser : options.quantisers)
    data["quantise"].push_back(id_with_settings(quantiser, "--quantise"));
  for (const KernelAxis& axis : kernel_axes())
    if (const auto given = options.kernels.find(axis.key); given != options.kernels.end())
      put(kernels, axis.key, given->second);
  if (!options.repetitions.empty()) measure["repetitions"] = options.repetitions;
  if (!options.min_time.empty()) measure["min_time"] = options.min_time;
  for (const std::string& text : options.codecs)
    for (const std::string& codec : listed_codecs(text)) codecs.push_back(id_with_settings(codec, "--codec"));

  YAML::Node block;
  block["data"] = data;
  block["codecs"] = codecs;
  if (kernels.size() > 0) block["kernels"] = kernels;
  YAML::Node root;
  root["schema"] = 1;
  root["name"] = "ad_hoc";
  if (measure.size() > 0) root["measure"] = measure;
  root["experiments"].push_back(block);
  YAML::Emitter emitter;
  emitter << root;
  return std::string(emitter.c_str()) + "\n";
}

Experiment ad_hoc_experiment(const AdHoc& options, const ConfigEdits& edits) {
  const std::string config = ad_hoc_config(options);
  return parse_experiment(config, "the command line", edits, codecs::all_codecs(), flags_of(config));
}

}  // namespace ecmv::experiments
