// See experiment.h. The steps are: parse, apply edits, check, and expand the axes of every block. Nothing is sorted;
// blocks append.
#include "experiments/config/experiment.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>

#include "backends/backend.h"
#include "codecs/did_you_mean.h"
#include "datasets/layers/pattern.h"
#include "datasets/source.h"
#include "experiments/config/axes.h"
#include "experiments/config/known_configs.h"
#include "experiments/config/read_block.h"
#include "experiments/config/strict_yaml.h"
#include "experiments/tune/take_tuned.h"

namespace ecmv::experiments {
namespace {

constexpr int64_t kMostConfigBytes = 1 << 20;  // its tree takes some 200 times as much memory

std::string join(const std::vector<std::string>& messages) {
  std::string all;
  for (const std::string& message : messages) all += (all.empty() ? "" : "\n") + message;
  return all;
}

// The library calls too deep a nesting "bad file".
std::string words_of(const YAML::Exception& error) {
  return dynamic_cast<const YAML::DeepRecursion*>(&error) != nullptr ? "it is nested too deeply" : error.msg;
}

// The edits of the flags -a and --set. Their values are parsed as if each stood on a line of its own below the file, so
// errors can name the flag.
class Edits {
 public:
  Edits(const ConfigEdits& edits, const std::string& text)
      : first_line_(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1) {
    for (const std::string& edit : edits.values) add("--set", edit);
    for (const std::string& edit : edits.axes) add("-a", edit);
  }

  // The flag of a line; empty for lines of the file.
  std::string flag_of(int line) const {
    const auto index = static_cast<size_t>(std::max(line, 0)) - first_line_;
    return index < flags_.size() ? flags_[index] : "";
  }

  void apply(YAML::Node root, YamlErrors& errors) const {
    for (size_t i = 0; i < flags_.size(); ++i) {
      const YAML::Node flag = positioned(i, "flag");
      const auto& [path, value] = edits_[i];
      if (path.empty())
        errors.add(flag, flags_[i].starts_with("-a") ? "-a takes axis=values." : "--set takes path=value.");
      else if (flags_[i].starts_with("-a"))
        set_axis_of_blocks(root, path, value_of(i), flag, errors);
      else if (!set_path(root, path, value_of(i)))
        errors.add(flag, "The config has no such place.");
    }
  }

 private:
  void add(const std::string& flag, const std::string& edit) {
    const size_t equals = edit.find('=');
    flags_.push_back(flag + " " + edit);
    edits_.emplace_back(equals == std::string::npos ? "" : edit.substr(0, equals),
                        equals == std::string::npos ? "" : edit.substr(equals + 1));
  }
  YAML::Node positioned(size_t index, const std::string& text) const {
    YAML::Node value = load_document(std::string(first_line_ + index, '\n') + text);
    expect_finite(value);
    return value;
  }
  // "a,b" -> [a, b]; a value that is YAML already ("{pow2: [8, 10]}", "[1, 2]") is kept.
  YAML::Node value_of(size_t index) const {
    const std::string& text = edits_[index].second;
    if (text.starts_with('{') || text.starts_with('[')) return positioned(index, text);
    if (text.find(',') != std::string::npos) return positioned(index, "[" + text + "]");
    return scalar_at(positioned(index, "x").Mark(), text);
  }
  static bool set_path(YAML::Node node, const std::string& path, const YAML::Node& value);
  // Sets it in the blocks that have the axis, since sources have parameters of their own.
  static void set_axis_of_blocks(YAML::Node root, const std::string& axis, const YAML::Node& value,
                                 const YAML::Node& flag, YamlErrors& errors) {
    if (!root["experiments"] || !root["experiments"].IsSequence()) return;
    bool any = false;
    for (YAML::Node block : root["experiments"])
      if (block.IsMap()) any |= set_axis(block, axis, value);
    if (!any) errors.add(flag, fmt::format("No block has an axis '{}'.{}", axis, nearest_axis(root, axis)));
  }

  size_t first_line_;
  std::vector<std::string> flags_;
  std::vector<std::pair<std::string, std::string>> edits_;
};

// "experiments.0.data.sigma": keys, and positions from 0 in lists. False if part of the path does not exist; the last
// key may be new.
bool Edits::set_path(YAML::Node node, const std::string& path, const YAML::Node& value) {
  constexpr int kLongestPath = 16;  // in keys
  if (std::count(path.begin(), path.end(), '.') >= kLongestPath) return false;
  const size_t dot = path.find('.');
  const std::string key = path.substr(0, dot);
  if (key.empty()) return false;
  if (node.IsSequence()) {
    const bool is_index = key.size() < 9 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!is_index || std::stoul(key) >= node.size()) return false;
    const size_t index = std::stoul(key);
    if (dot != std::string::npos) return set_path(node[index], path.substr(dot + 1), value);
    node[index] = value;
    return true;
  }
  if (!node.IsMap() && !node.IsNull() && node.IsDefined()) return false;
  const bool is_last = dot == std::string::npos;
  if (child(node, key).IsDefined()) {
    if (!is_last) return set_path(node[key], path.substr(dot + 1), value);
    node[key] = value;
    return true;
  }
  node.force_insert(scalar_at(value.Mark(), key),  // a new key gets its value's place
                    is_last ? value : YAML::Node(YAML::NodeType::Map));
  return is_last || set_path(node[key], path.substr(dot + 1), value);
}

MeasureSpec read_measure(const YAML::Node& node, YamlErrors& errors) {
  static constexpr std::string_view kKeys[] = {"repetitions", "min_time",    "max_seconds",
                                               "warm_up",     "until_noise", "bandwidth"};
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
  if (const YAML::Node value = child(node, "until_noise"); value.IsDefined())
    if (const auto noise = read_number(value, "until_noise", errors)) {
      if (*noise >= 0 && *noise < 1)
        measure.until_noise = *noise;
      else
        errors.add(value, "'until_noise' is a part of the median, at least 0 (off) and below 1.");
    }
  if (const YAML::Node value = child(node, "bandwidth"); value.IsDefined()) {
    const std::string text = read_text(value, "bandwidth", errors).value_or("true");
    if (text != "true" && text != "false") errors.add(value, "'bandwidth' is true or false.");
    measure.bandwidth = text == "true";
  }
  return measure;
}

// Writes defaults into the config, so that the stored text holds every value.
void write_defaults(YAML::Node root, int64_t seed, const Experiment& experiment) {
  const auto fill = [](YAML::Node map, const std::string& key, const auto& value) {
    if (!map[key].IsDefined()) map[key] = value;
  };
  const MeasureSpec& measure = experiment.measure;
  fill(root, "seed", seed);
  fill(root, "verify", experiment.verify_each ? "each" : "once");
  fill(root["measure"], "repetitions", measure.repetitions);
  fill(root["measure"], "min_time", fmt::format("{}", measure.min_time_s));  // YAML-CPP writes 0.10000000000000001
  fill(root["measure"], "max_seconds", fmt::format("{}", measure.max_seconds));
  fill(root["measure"], "warm_up", measure.warm_up);
  if (measure.until_noise > 0) fill(root["measure"], "until_noise", measure.until_noise);
  if (!measure.bandwidth) fill(root["measure"], "bandwidth", measure.bandwidth);
  for (YAML::Node block : root["experiments"]) {
    const YAML::Node kernels = block["kernels"];
    for (const KernelAxis& axis : kernel_axes())  // one of other tasks is not allowed there
      if (axis.tasks.empty() && (axis.old_key.empty() || !kernels[std::string(axis.old_key)].IsDefined()))
        fill(kernels, std::string(axis.key), std::string(axis.fallback));
  }
}

void read_schema(const YAML::Node& node, YamlErrors& errors) {
  if (const auto schema = read_integer(node, "schema", 1, INT64_MAX, errors); schema && *schema != 1)
    errors.add(node, fmt::format("This program reads configs of schema 1, and this one has {}.", *schema));
}

std::set<std::string> named_backends(const YAML::Node& root) {
  std::set<std::string> names;
  for (const YAML::Node& block : child(root, "experiments")) {
    const YAML::Node named = child(child(block, "kernels"), "backend");
    if (named.IsScalar()) names.insert(named.Scalar());
    for (const YAML::Node& one : named)
      if (one.IsScalar()) names.insert(one.Scalar());
  }
  return names;
}

// Paths in a config are relative to it. One that does not lie there is taken as it stands.
void find_files_below(const std::filesystem::path& folder, YAML::Node root) {
  const auto found = [&](const YAML::Node& node) {
    const std::filesystem::path path = node.IsScalar() ? node.Scalar() : "";
    std::error_code none;
    const bool is_there = !path.empty() && path.is_relative() && std::filesystem::exists(folder / path, none);
    return is_there ? scalar_at(node.Mark(), (folder / path).lexically_normal().string()) : node;
  };
  const YAML::Node blocks = child(root, "experiments");
  if (folder.empty() || !blocks.IsDefined() || !blocks.IsSequence()) return;
  for (YAML::Node block : blocks) {
    YAML::Node data = child(block, "data");
    const YAML::Node file = child(data, "file");
    if (!file.IsDefined()) continue;
    if (!file.IsSequence()) {
      data["file"] = found(file);
      continue;
    }
    YAML::Node list(YAML::NodeType::Sequence);
    for (const YAML::Node& one : file) list.push_back(found(one));
    data["file"] = list;
  }
}

// The file of tuned settings, "" for none. A path in the config is relative to it.
std::string tuned_file(YAML::Node root, const std::string& flag, const std::filesystem::path& folder,
                       YamlErrors& errors) {
  if (!flag.empty()) root["tuned"] = flag;
  const YAML::Node node = child(root, "tuned");
  if (!node.IsDefined() || !flag.empty()) return flag;
  const std::string file = read_text(node, "tuned", errors).value_or("");
  std::error_code none;
  if (file.empty() || folder.empty() || !std::filesystem::exists(folder / file, none)) return file;
  root["tuned"] = (folder / file).lexically_normal().string();
  return (folder / file).lexically_normal().string();
}

// At most 512 rows and columns, of about the same aspect. Multiples of 64 stay such, because some layouts need them.
datasets::Shape shrunk(datasets::Shape shape) {
  const int64_t largest = std::max(shape.rows, shape.cols);
  if (largest <= 512) return shape;
  const auto shrink = [&](int64_t length) {
    const int64_t shorter = std::max<int64_t>(1, length * 512 / largest);
    return length % 64 == 0 ? std::max<int64_t>(64, shorter / 64 * 64) : shorter;
  };
  return {shrink(shape.rows), shrink(shape.cols)};
}

}  // namespace

std::vector<Case> together(std::vector<Case> cases) {
  std::unordered_set<std::string> names;
  std::erase_if(cases, [&](const Case& one) { return !names.insert(one.name()).second; });
  std::unordered_map<std::string, size_t> data, codecs;  // to the order of appearance
  struct Place {
    size_t data, codec, index;
    auto operator<=>(const Place&) const = default;
  };
  std::vector<Place> places;
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string name = cases[i].data.name();
    places.push_back({data.try_emplace(name, data.size()).first->second,
                      codecs.try_emplace(name + "/" + cases[i].codec.name(), codecs.size()).first->second, i});
  }
  std::sort(places.begin(), places.end());
  std::vector<Case> sorted;
  for (const Place& place : places) sorted.push_back(std::move(cases[place.index]));
  return sorted;
}

ConfigError::ConfigError(std::vector<std::string> all) : std::runtime_error(join(all)), messages(std::move(all)) {}

Experiment parse_experiment(const std::string& text, const std::string& file, const ConfigEdits& edits,
                            std::span<const codecs::CodecEntry> codecs, const std::vector<std::string>& flags,
                            const std::filesystem::path& folder) {
  static constexpr std::string_view kKeys[] = {"schema",  "name",   "question", "seed",
                                               "measure", "verify", "tuned",    "experiments"};
  if (static_cast<int64_t>(text.size()) > kMostConfigBytes)
    throw ConfigError(
        {fmt::format("{}: it has more bytes than the {} that a config may have.", file, kMostConfigBytes)});
  const Edits changes(edits, text);
  YamlErrors errors([&](int line, int column) {
    if (line < 0) return file;
    if (const std::string flag = changes.flag_of(line); !flag.empty()) return flag;
    if (flags.empty()) return fmt::format("{}:{}:{}", file, line + 1, column + 1);
    const auto index = static_cast<size_t>(line);
    return index < flags.size() && !flags[index].empty() ? flags[index] : file;
  });
  YAML::Node root;
  try {
    root = load_document(text);
    expect_finite(root);
  } catch (const YAML::Exception& e) {
    throw ConfigError({fmt::format("{}:{}:{}: {}.", file, e.mark.line + 1, e.mark.column + 1, words_of(e))});
  }
  if (!root.IsMap()) throw ConfigError({fmt::format("{}: a config is a map that begins with 'schema: 1'.", file)});
  find_files_below(folder, root);
  try {
    changes.apply(root, errors);
  } catch (const YAML::Exception& e) {
    throw ConfigError({fmt::format("{}: a value of --set or -a is no YAML: {}.", file, words_of(e))});
  }
  Experiment experiment;
  experiment.config_name = file;
  check_map(root, "the config", kKeys, errors);
  if (const YAML::Node schema = child(root, "schema"); !schema.IsDefined())
    errors.add(root, "The config must begin with 'schema: 1'.");
  else
    read_schema(schema, errors);
  if (const YAML::Node name = child(root, "name"); !name.IsDefined())
    errors.add(root, "The config needs a 'name'.");
  else
    experiment.name = read_text(name, "name", errors).value_or("");
  if (experiment.name.find('/') != std::string::npos || experiment.name.starts_with('.'))
    errors.add(child(root, "name"), "'name' names a folder, so it must not hold a '/' or begin with a '.'.");
  if (const YAML::Node question = child(root, "question"); question.IsDefined())
    experiment.question = read_text(question, "question", errors).value_or("");
  int64_t seed = 1;
  if (const YAML::Node node = child(root, "seed"); node.IsDefined())
    seed = read_integer(node, "seed", 0, INT64_MAX, errors).value_or(1);
  experiment.measure = read_measure(child(root, "measure"), errors);
  if (const YAML::Node verify = child(root, "verify"); verify.IsDefined()) {
    const std::string value = read_text(verify, "verify", errors).value_or("each");
    if (value != "once" && value != "each") errors.add(verify, "'verify' is 'once' or 'each'.");
    experiment.verify_each = value == "each";
  }
  const std::string tuned = tuned_file(root, edits.tuned, folder, errors);
  const YAML::Node blocks = child(root, "experiments");
  if (!blocks.IsDefined() || !blocks.IsSequence() || blocks.size() == 0)
    errors.add(blocks.IsDefined() ? blocks : root, "'experiments' must be a list of at least one block.");
  else
    for (const YAML::Node& block : blocks)
      read_block(block, static_cast<uint64_t>(seed), codecs, !edits.axes.empty() || !edits.values.empty(),
                 experiment.cases, errors);
  if (!errors.messages().empty()) throw ConfigError(errors.messages());

  experiment.remarks = errors.remarks();
  if (!tuned.empty()) take_tuned(experiment.cases, tuned, codecs, experiment.remarks);
  experiment.cases = together(std::move(experiment.cases));
  write_defaults(root, seed, experiment);
  experiment.backends = named_backends(root);
  YAML::Emitter emitter;
  emitter << root;
  experiment.config_text = std::string(emitter.c_str()) + "\n";
  return experiment;
}

Experiment load_experiment(const std::string& config, const ConfigEdits& edits,
                           std::span<const codecs::CodecEntry> codecs) {
  const std::string path = find_config(config);
  std::ifstream file(path);
  std::string text(static_cast<size_t>(kMostConfigBytes) + 1, '\0');  // not all of an endless file
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (!file.is_open() || file.bad() || (file.fail() && !file.eof()))
    throw ConfigError({fmt::format("{}: the file cannot be read.{}", path, nearest_config(config))});
  return parse_experiment(text, path, edits, codecs, {}, std::filesystem::path(path).parent_path());
}

namespace {

// "codec=rans,lanes=16|32", if every key is one of some case.
std::optional<CaseRule> rule_of(const std::string& text, const std::vector<Case>& cases) {
  static const std::regex part(R"(([a-z][a-z0-9_]*)=([A-Za-z0-9_.:|+-]+)(,|$))");
  CaseRule rule;
  auto at = text.begin();
  for (std::smatch found; at != text.end(); at = found[0].second) {
    if (!std::regex_search(at, text.end(), found, part, std::regex_constants::match_continuous)) return std::nullopt;
    const std::string key = found[1];
    if (std::ranges::none_of(cases, [&](const Case& one) { return one.value_of(key).has_value(); }))
      return std::nullopt;
    std::istringstream values(found[2].str());
    for (std::string value; std::getline(values, value, '|');) rule[key].push_back(value);
  }
  return rule.empty() ? std::nullopt : std::optional(rule);
}

std::string why_no_case(const Experiment& experiment) {
  std::string why = "The config has no case: none of its kernels exists here, or its 'exclude' leaves none.";
  for (const backends::Backend& backend : backends::all_backends())
    if (experiment.backends.contains(std::string(backend.id)))
      if (const std::string reason = backends::why_unavailable(backend); !reason.empty())
        why += fmt::format("\nThe backend '{}' is unavailable: {}", backend.id, reason);
  return why;
}

}  // namespace

std::string filter_cases(Experiment& experiment, const std::string& filter, const std::string& exclude) {
  const size_t all = experiment.cases.size();
  const std::string example = all > 0 ? experiment.cases.front().short_name() : "";
  try {
    const datasets::Pattern keep(filter), drop(exclude);
    const std::optional<CaseRule> kept = rule_of(filter, experiment.cases),
                                  dropped = rule_of(exclude, experiment.cases);
    const auto is_dropped = [&](const Case& one) {
      return !exclude.empty() && (dropped ? matches(one, *dropped) : drop.found_in(one.short_name()));
    };
    if (!exclude.empty() && all > 0 && std::ranges::none_of(experiment.cases, is_dropped))
      throw ConfigError(
          {fmt::format("--exclude '{}' matches none of {} cases. One of them is {}", exclude, all, example)});
    std::erase_if(experiment.cases, [&](const Case& one) {
      const bool is_kept =
          filter.empty() || (kept ? matches(one, *kept) : keep.found_in(one.short_name()) || keep.found_in(one.name()));
      return !is_kept || is_dropped(one);
    });
  } catch (const datasets::PatternError& e) {
    throw ConfigError({fmt::format("The expression of --filter or --exclude cannot be used: {}.", e.what())});
  }
  if (!experiment.cases.empty()) return {};
  if (all == 0) return why_no_case(experiment);
  const std::string flags =
      (filter.empty() ? "" : " --filter '" + filter + "'") + (exclude.empty() ? "" : " --exclude '" + exclude + "'");
  return fmt::format("0 of {} cases match{}. One of them is {}", all, flags, example);
}

void measure_once(Experiment& experiment) {
  experiment.measure = {.repetitions = 1, .min_time_s = 1e-9, .max_seconds = 600, .warm_up = 0};
}

void shrink_to_smoke(Experiment& experiment) {
  measure_once(experiment);
  for (Case& one : experiment.cases) {
    one.data.shape = shrunk(one.data.shape);
    one.data.layers = std::min(one.data.layers, 2);
    if (one.data.source == "model") {
      one.data.numbers["blocks"] = 1;
      one.data.numbers.try_emplace("rows", 512);
      one.kernel.repeat = std::min(one.kernel.repeat, 2);
    }
  }
  // Sizes that became equal are joined.
  experiment.cases = together(std::move(experiment.cases));
}

}  // namespace ecmv::experiments
