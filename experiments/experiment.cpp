// See experiment.h. The steps: parse, apply edits, check, expand the axes of every block, sort nothing (blocks append).
#include "experiments/experiment.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include <fmt/format.h>

#include "codecs/did_you_mean.h"
#include "datasets/source.h"
#include "experiments/expand.h"
#include "experiments/read_block.h"
#include "experiments/strict_yaml.h"

namespace ecmv::experiments {
namespace {

std::string join(const std::vector<std::string>& messages) {
  std::string all;
  for (const std::string& message : messages) all += (all.empty() ? "" : "\n") + message;
  return all;
}

// "a,b" -> [a, b]; a value that is YAML already ("{pow2: [8, 10]}", "[1, 2]") stays what it is.
YAML::Node value_of(const std::string& text) {
  if (text.starts_with('{') || text.starts_with('[')) return YAML::Load(text);
  if (text.find(',') == std::string::npos) return YAML::Node(text);
  return YAML::Load("[" + text + "]");
}

void set_path(YAML::Node node, const std::string& path, const YAML::Node& value) {
  const size_t dot = path.find('.');
  if (dot == std::string::npos)
    node[path] = value;
  else
    set_path(node[path.substr(0, dot)], path.substr(dot + 1), value);
}

void apply_edits(YAML::Node root, const ConfigEdits& edits, YamlErrors& errors) {
  for (const std::string& edit : edits.values) {
    const size_t equals = edit.find('=');
    if (equals == std::string::npos || equals == 0)
      errors.add(YAML::Node(), fmt::format("--set takes path=value, not '{}'.", edit));
    else
      set_path(root, edit.substr(0, equals), value_of(edit.substr(equals + 1)));
  }
  for (const std::string& edit : edits.axes) {
    const size_t equals = edit.find('=');
    const std::string axis = edit.substr(0, equals);
    if (equals == std::string::npos || equals == 0) {
      errors.add(YAML::Node(), fmt::format("-a takes axis=values, not '{}'.", edit));
      continue;
    }
    if (!root["experiments"] || !root["experiments"].IsSequence()) continue;
    for (YAML::Node block : root["experiments"]) set_axis(block, axis, value_of(edit.substr(equals + 1)));
  }
}

MeasureSpec read_measure(const YAML::Node& node, YamlErrors& errors) {
  static constexpr std::string_view kKeys[] = {"repetitions", "min_time", "max_seconds", "warm_up"};
  MeasureSpec measure;
  if (!check_map(node, "measure", kKeys, errors)) return measure;
  const auto positive = [&](std::string_view key, double& out) {
    const YAML::Node value = child(node, key);
    if (!value.IsDefined()) return;
    if (const auto number = read_number(value, key, errors)) {
      if (*number > 0)
        out = *number;
      else
        errors.add(value, fmt::format("'{}' must be greater than 0 seconds.", key));
    }
  };
  positive("min_time", measure.min_time_s);
  positive("max_seconds", measure.max_seconds);
  if (const YAML::Node value = child(node, "repetitions"); value.IsDefined())
    measure.repetitions = static_cast<int>(read_integer(value, "repetitions", 1, 10'000, errors).value_or(1));
  if (const YAML::Node value = child(node, "warm_up"); value.IsDefined())
    measure.warm_up = static_cast<int>(read_integer(value, "warm_up", 0, 1000, errors).value_or(0));
  return measure;
}

}  // namespace

ConfigError::ConfigError(std::vector<std::string> all) : std::runtime_error(join(all)), messages(std::move(all)) {}

Experiment parse_experiment(const std::string& text, const std::string& file, const ConfigEdits& edits,
                            std::span<const codecs::CodecEntry> codecs) {
  static constexpr std::string_view kKeys[] = {"schema", "name", "question", "seed", "measure", "verify", "experiments"};
  YamlErrors errors(file);
  YAML::Node root;
  try {
    root = YAML::Load(text);
    apply_edits(root, edits, errors);
  } catch (const YAML::Exception& e) {
    throw ConfigError({fmt::format("{}:{}:{}: {}.", file, e.mark.line + 1, e.mark.column + 1, e.msg)});
  }
  Experiment experiment;
  experiment.config_name = file;
  if (!root.IsMap()) throw ConfigError({fmt::format("{}: a config is a map that begins with 'schema: 1'.", file)});
  check_map(root, "the config", kKeys, errors);
  if (const YAML::Node schema = child(root, "schema"); !schema.IsDefined())
    errors.add(root, "The config must begin with 'schema: 1'.");
  else
    read_integer(schema, "schema", 1, 1, errors);
  experiment.name = read_text(child(root, "name"), "name", errors).value_or("");
  if (experiment.name.find('/') != std::string::npos) errors.add(child(root, "name"), "'name' names files, so it must not hold a '/'.");
  if (const YAML::Node question = child(root, "question"); question.IsDefined())
    experiment.question = read_text(question, "question", errors).value_or("");
  int64_t seed = 1;
  if (const YAML::Node node = child(root, "seed"); node.IsDefined()) seed = read_integer(node, "seed", 0, INT64_MAX, errors).value_or(1);
  experiment.measure = read_measure(child(root, "measure"), errors);
  if (const YAML::Node verify = child(root, "verify"); verify.IsDefined()) {
    const std::string value = read_text(verify, "verify", errors).value_or("once");
    if (value != "once" && value != "each") errors.add(verify, "'verify' is 'once' or 'each'.");
    experiment.verify_each = value == "each";
  }
  const YAML::Node blocks = child(root, "experiments");
  if (!blocks.IsDefined() || !blocks.IsSequence() || blocks.size() == 0)
    errors.add(blocks.IsDefined() ? blocks : root, "'experiments' must be a list of at least one block.");
  else
    for (const YAML::Node& block : blocks) read_block(block, static_cast<uint64_t>(seed), codecs, experiment.cases, errors);
  if (!errors.messages().empty()) throw ConfigError(errors.messages());

  // Blocks may name the same dataset or codec again; cases that share them run together, each once.
  std::vector<Case> cases;
  std::vector<std::string> names;
  for (const Case& one : experiment.cases)
    if (std::find(names.begin(), names.end(), one.name()) == names.end()) {
      names.push_back(one.name());
      auto place = std::find_if(cases.rbegin(), cases.rend(), [&](const Case& c) { return c.data == one.data && c.codec == one.codec; });
      if (place == cases.rend()) place = std::find_if(cases.rbegin(), cases.rend(), [&](const Case& c) { return c.data == one.data; });
      cases.insert(place == cases.rend() ? cases.end() : place.base(), one);
    }
  experiment.cases = std::move(cases);
  YAML::Emitter emitter;
  emitter << root;
  experiment.config_text = std::string(emitter.c_str()) + "\n";
  return experiment;
}

Experiment load_experiment(const std::string& path, const ConfigEdits& edits, std::span<const codecs::CodecEntry> codecs) {
  std::ifstream file(path);
  if (!file) throw ConfigError({fmt::format("{}: the file cannot be opened.", path)});
  std::ostringstream text;
  text << file.rdbuf();
  return parse_experiment(text.str(), path, edits, codecs);
}

void filter_cases(Experiment& experiment, const std::string& filter, const std::string& exclude) {
  try {
    const std::regex keep(filter), drop(exclude);
    std::erase_if(experiment.cases, [&](const Case& one) {
      const std::string name = one.name();
      return (!filter.empty() && !std::regex_search(name, keep)) || (!exclude.empty() && std::regex_search(name, drop));
    });
  } catch (const std::regex_error& e) {
    throw ConfigError({fmt::format("The expression of --filter or --exclude is not a regular expression: {}.", e.what())});
  }
}

void shrink_to_smoke(Experiment& experiment) {
  experiment.measure = {.repetitions = 1, .min_time_s = 1e-9, .max_seconds = 60, .warm_up = 0};
  std::vector<Case> cases;
  std::vector<std::string> names;
  for (Case one : experiment.cases) {
    one.data.shape.rows = std::min<int64_t>(one.data.shape.rows, 512);
    one.data.shape.cols = std::min<int64_t>(one.data.shape.cols, 512);
    one.data.layers = std::min(one.data.layers, 2);
    if (std::find(names.begin(), names.end(), one.name()) != names.end()) continue;
    names.push_back(one.name());
    cases.push_back(one);
  }
  // Sizes that became equal join: cases of the same data and codec must stand together.
  std::stable_sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) {
    return std::pair(a.data.name(), a.codec.name()) < std::pair(b.data.name(), b.codec.name());
  });
  experiment.cases = std::move(cases);
}

}  // namespace ecmv::experiments
