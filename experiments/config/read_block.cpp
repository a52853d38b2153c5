// See read_block.h.
#include "experiments/config/read_block.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "backends/backend.h"
#include "codecs/did_you_mean.h"
#include "datasets/quantisers/quantisers.h"
#include "experiments/config/axes.h"
#include "experiments/config/expand.h"
#include "experiments/config/read_codecs.h"
#include "experiments/config/read_quantisers.h"

namespace ecmv::experiments {
namespace {

constexpr std::string_view kBlockKeys[] = {"data", "codecs", "kernels", "exclude"};
constexpr std::string_view kKernelKeys[] = {"backend",     "simd_target", "threads", "op",     "batch", "variant",
                                            "tuning",      "unfused",     "launch",  "device", "ranks", "repeat",
                                            "activations", "devices",     "engine",  "split"};
constexpr std::string_view kExcludeKeys[] = {"source", "d",       "codec",  "backend",     "op",
                                             "batch",  "variant", "tuning", "simd_target", "activations"};
// A parameter of sources until `quantise` could do the same.
constexpr const char* kGivenUp = "quantise_bits";
constexpr const char* kInsteadOfGivenUp =
    "'data' has no key 'quantise_bits' any more: for 'quantise_bits: N', 'quantise: {absmax: {bits: N + 1, group: "
    "tensor}}' makes such integers, whose scale is stored with them.";
constexpr int64_t kMaxDimension = int64_t{1} << 24;
// Each is a process.
constexpr int64_t kMostDevices = 64;
// More is a slip of the pen.
constexpr size_t kMostRules = 1000;
// Sources check parameters by making a matrix with them; beyond so many different ones that is left to the run.
constexpr size_t kMostChecked = 1000;

// "shapes: [[4096, 11008], ...]": a list of pairs; one pair alone is allowed too.
std::vector<YAML::Node> read_shapes(const YAML::Node& node, YamlErrors& errors) {
  if (node.IsSequence() && node.size() == 2 && node[0].IsScalar()) return {node};
  std::vector<YAML::Node> out;
  if (node.IsSequence())
    for (const YAML::Node& shape : node) out.push_back(shape);
  for (const YAML::Node& shape : out)
    if (!shape.IsSequence() || shape.size() != 2) errors.add(shape, "A shape is a pair [rows, cols].");
  if (out.empty()) errors.add(node, "'shapes' must be a list of pairs [rows, cols].");
  std::erase_if(out, [](const YAML::Node& shape) { return !shape.IsSequence() || shape.size() != 2; });
  return out;
}

// The value in `data` that a sentence is about: its key or itself stands there in quotes. Else all of it.
YAML::Node culprit(const YAML::Node& data, const std::string& sentence) {
  for (const auto& pair : data)
    for (const YAML::Node& node : {pair.first, pair.second})
      if (node.IsScalar() && sentence.find('"' + node.Scalar() + '"') != std::string::npos) return pair.second;
  return data;
}

// A source checks its parameters itself: it is asked for a matrix of one element, or for its file without the elements.
void check_parameters(const datasets::DataSource& source, const DataSpec& spec, const YAML::Node& where,
                      std::set<std::string>& checked, YamlErrors& errors) {
  DataSpec parameters = spec;
  parameters.shape = {};
  if (checked.size() >= kMostChecked || !checked.insert(parameters.name()).second) return;
  try {
    const datasets::SourceRequest request{{1, 1}, 1, spec.seed, spec.numbers, spec.texts};
    if (source.check != nullptr)
      source.check(request);
    else if (const datasets::Dataset dataset = source.load(request); !spec.quantiser.id.empty())
      for (const datasets::Matrix& matrix : dataset.layers) datasets::expect_floats(matrix);
  } catch (const std::exception& e) {
    const auto& known = errors.messages();
    if (known.empty() || !known.back().ends_with(e.what())) errors.add(culprit(where, e.what()), e.what());
  }
}

// Columns of a row that share a scale of their own, made by a quantiser or stored in a file; 0: all of a row do. Of a file
// that cannot be read 0: loading says what is wrong with it.
int64_t group_cols_of(const DataSpec& data) {
  if (!data.quantiser.id.empty()) return datasets::group_cols(data.quantiser);
  const datasets::DataSource& source = *datasets::find_source(data.source);
  if (source.check == nullptr) return 0;
  try {
    return source.check({data.shape, data.layers, data.seed, data.numbers, data.texts}).group_cols;
  } catch (const datasets::DatasetError&) {
    return 0;
  }
}

// Keys of `data`; none for a source that is not known.
std::vector<std::string_view> data_keys(const datasets::DataSource* source) {
  if (source == nullptr) return {};
  std::vector<std::string_view> keys = {"source", "quantise", "zip"};
  if (source->uses_shape) keys.insert(keys.end(), {"d", "shapes", "layers", "seed"});
  for (const datasets::ParameterInfo& parameter : source->parameters) keys.push_back(parameter.name);
  return keys;
}

const datasets::DataSource* source_of(const YAML::Node& block) {
  const YAML::Node id = child(child(block, "data"), "source");
  return id.IsDefined() && id.IsScalar() ? datasets::find_source(id.Scalar()) : nullptr;
}

// The datasets of a block.
std::vector<DataSpec> read_data(const YAML::Node& block, uint64_t seed, YamlErrors& errors) {
  const YAML::Node node = child(block, "data");
  if (!node.IsDefined() || !node.IsMap()) {
    errors.add(node.IsDefined() ? node : block, "A block needs 'data', a map with 'source' and its parameters.");
    return {};
  }
  if (!child(node, "source").IsDefined()) {
    errors.add(node, "'data' needs a 'source'.");
    return {};
  }
  const std::string id = read_text(child(node, "source"), "source", errors).value_or("");
  const datasets::DataSource* source = datasets::find_source(id);
  if (source == nullptr) {
    std::vector<std::string_view> known;
    for (const datasets::DataSource& s : datasets::all_sources()) known.push_back(s.id);
    if (!id.empty())
      errors.add(child(node, "source"),
                 fmt::format("There is no data source '{}'.{}", id, codecs::did_you_mean(id, known)));
    return {};
  }
  const std::vector<std::string_view> keys = data_keys(source);
  std::vector<std::string_view> read = keys;
  if (const YAML::Node old = child(node, kGivenUp); old.IsDefined()) {
    errors.add(old, kInsteadOfGivenUp);
    read.emplace_back(kGivenUp);  // one sentence about it is enough
  }
  if (!check_map(node, "data", read, errors)) return {};

  const size_t problems = errors.count();
  std::vector<Axis> axes;
  NamedQuantisers quantisers;
  for (const auto& pair : node) {
    const std::string key = pair.first.IsScalar() ? pair.first.Scalar() : "";
    const bool known = std::find(keys.begin(), keys.end(), key) != keys.end();
    const bool again = std::any_of(axes.begin(), axes.end(), [&](const Axis& a) { return a.key == key; });
    if (!known || again || key == "source" || key == "zip") continue;
    axes.push_back({key, key == "shapes"     ? read_shapes(pair.second, errors)
                         : key == "quantise" ? read_quantisers(pair.second, quantisers, errors)
                                             : read_axis(pair.second, key, errors)});
  }
  if (source->uses_shape && child(node, "d").IsDefined() == child(node, "shapes").IsDefined())
    errors.add(node, "'data' takes either 'd' (square matrices) or 'shapes' (pairs [rows, cols]).");
  if (errors.count() > problems) return {};
  const std::vector<std::string> zip = read_zip(child(node, "zip"), axes, errors);
  if (too_many(axes, zip, "data", node, errors)) return {};
  std::set<std::string> checked;
  std::vector<DataSpec> out;
  for (const auto& values : product(axes, zip)) {
    const size_t before = errors.count();
    DataSpec spec;
    spec.source = id;
    spec.seed = seed;
    if (!source->uses_shape) spec.layers = 0;
    for (const auto& [key, value] : values) {
      if (key == "d") {
        spec.shape.rows = spec.shape.cols = read_integer(value, "d", 1, kMaxDimension, errors).value_or(0);
      } else if (key == "shapes") {
        spec.shape.rows = read_integer(value[0], "rows", 1, kMaxDimension, errors).value_or(0);
        spec.shape.cols = read_integer(value[1], "cols", 1, kMaxDimension, errors).value_or(0);
      } else if (key == "layers") {
        spec.layers = static_cast<int>(read_integer(value, "layers", 1, 100'000, errors).value_or(1));
      } else if (key == "seed") {
        spec.seed = static_cast<uint64_t>(read_integer(value, "seed", 0, INT64_MAX, errors).value_or(1));
      } else if (key == "quantise") {
        spec.quantiser = quantisers[value.Scalar()];
      } else {
        const auto parameter = std::ranges::find(source->parameters, key, &datasets::ParameterInfo::name);
        if (parameter->is_text)
          spec.texts[key] = read_text(value, key, errors).value_or("");
        else
          spec.numbers[key] = read_number(value, key, errors).value_or(0);
      }
    }
    if (errors.count() == before) check_parameters(*source, spec, node, checked, errors);
    out.push_back(spec);
  }
  return out;
}

std::vector<std::string> read_words(const YAML::Node& node, std::string_view key,
                                    const std::vector<std::string>& fallback, YamlErrors& errors) {
  if (!node.IsDefined()) return fallback;
  std::vector<std::string> words;
  for (const YAML::Node& value : read_axis(node, key, errors))
    words.push_back(read_text(value, key, errors).value_or(""));
  return words;
}

void check_words(const YAML::Node& node, std::string_view key, const std::vector<std::string>& words,
                 const std::vector<std::string_view>& known, YamlErrors& errors) {
  for (const std::string& word : words)
    if (std::find(known.begin(), known.end(), word) == known.end())
      errors.add(node, fmt::format("'{}' does not know '{}'.{}", key, word, codecs::did_you_mean(word, known)));
}

KernelChoice read_kernels(const YAML::Node& node, YamlErrors& errors) {
  KernelChoice choice;
  if (!check_map(node, "kernels", kKernelKeys, errors)) return choice;
  choice.backends = read_words(child(node, "backend"), "backend", choice.backends, errors);
  std::vector<std::string_view> backends = {"best"};
  for (const backends::Backend& backend : backends::all_backends()) backends.push_back(backend.id);
  check_words(child(node, "backend"), "backend", choice.backends, backends, errors);

  choice.simd_targets = read_words(child(node, "simd_target"), "simd_target", choice.simd_targets, errors);
  std::vector<std::string> names;
  for (const backends::Backend& backend : backends::all_backends())
    for (const backends::DeviceInfo& info : backend.devices())
      if (!info.simd_target.empty()) names.push_back(info.simd_target);
  std::vector<std::string_view> targets = {"best", "all"};
  targets.insert(targets.end(), names.begin(), names.end());
  // A backend without a device has no names to check against; its cases say that it has none, and why.
  const bool have_devices = std::all_of(choice.backends.begin(), choice.backends.end(), [](const std::string& id) {
    const backends::Backend* backend = backends::find_backend(id);
    if (backend == nullptr) return true;
    const std::vector<backends::DeviceInfo> devices = backend->devices();
    return std::any_of(devices.begin(), devices.end(),
                       [](const backends::DeviceInfo& info) { return info.unavailable.empty(); });
  });
  if (have_devices) check_words(child(node, "simd_target"), "simd_target", choice.simd_targets, targets, errors);

  const auto read_counts = [&](const char* key, int64_t most, std::vector<int64_t>& numbers) {
    const YAML::Node axis = child(node, key);
    if (!axis.IsDefined()) return;
    numbers.clear();
    for (const YAML::Node& value : read_axis(axis, key, errors))
      numbers.push_back(
          value.IsScalar() && value.Scalar() == "all" ? 0 : read_integer(value, key, 1, most, errors).value_or(1));
  };
  read_counts("threads", 4096, choice.threads);
  read_counts("ranks", 4096, choice.ranks);
  read_counts("devices", kMostDevices, choice.shared_devices);
  choice.engines = read_words(child(node, "engine"), "engine", choice.engines, errors);
  check_words(child(node, "engine"), "engine", choice.engines, {"all", "nccl", "rccl", "peer"}, errors);
  choice.splits = read_words(child(node, "split"), "split", choice.splits, errors);
  check_words(child(node, "split"), "split", choice.splits, {"rows", "pairs"}, errors);
  const auto ops = read_words(child(node, "op"), "op", {"matvec"}, errors);
  check_words(child(node, "op"), "op", ops, {"decode", "matvec", "matmul", "step", "size"}, errors);
  choice.ops.clear();
  choice.steps = std::ranges::find(ops, "step") != ops.end();
  for (const std::string& op : ops)
    for (const backends::Op known :
         {backends::Op::decode, backends::Op::matvec, backends::Op::matmul, backends::Op::size})
      if (op == backends::op_name(known)) choice.ops.push_back(known);
  if (const YAML::Node batches = child(node, "batch"); batches.IsDefined()) {
    if (!choice.steps && std::find(ops.begin(), ops.end(), "matmul") == ops.end())
      errors.add(batches, "'batch' counts the tokens of a matmul or a step, and 'op' asks for none.");
    choice.batches.clear();
    for (const YAML::Node& value : read_axis(batches, "batch", errors))
      choice.batches.push_back(read_integer(value, "batch", 1, backends::kMaxBatch, errors).value_or(1));
  }
  if (const YAML::Node activations = child(node, "activations"); activations.IsDefined()) {
    if (std::find(ops.begin(), ops.end(), "matmul") == ops.end() && !choice.steps)
      errors.add(activations, "'activations' are the tokens of a matmul or a step, and 'op' asks for none.");
    const auto names = read_words(activations, "activations", {"f32"}, errors);
    check_words(activations, "activations", names, {"f32", "bf16"}, errors);
    choice.activations.clear();
    for (const std::string& name : names)
      choice.activations.push_back(name == "bf16" ? backends::Activations::bf16 : backends::Activations::f32);
  }
  if (const YAML::Node repeats = child(node, "repeat"); repeats.IsDefined()) {
    if (!choice.steps)
      errors.add(repeats, "'repeat' counts the copies of each block of a step, and 'op' asks for none.");
    choice.repeats.clear();
    for (const YAML::Node& value : read_axis(repeats, "repeat", errors))
      choice.repeats.push_back(read_integer(value, "repeat", 1, 1000, errors).value_or(1));
  }
  choice.variants = read_words(child(node, "variant"), "variant", choice.variants, errors);
  choice.tunings = read_words(child(node, "tuning"), "tuning", choice.tunings, errors);
  const auto unfused = read_words(child(node, "unfused"), "unfused", {choice.unfused}, errors);
  check_words(child(node, "unfused"), "unfused", unfused, {"auto", "always", "never"}, errors);
  if (unfused.size() == 1) choice.unfused = unfused[0];
  choice.launches = read_words(child(node, "launch"), "launch", choice.launches, errors);
  check_words(child(node, "launch"), "launch", choice.launches, {"graph", "plain"}, errors);
  if (const YAML::Node devices = child(node, "device"); devices.IsDefined()) {
    choice.devices.clear();
    for (const YAML::Node& value : read_axis(devices, "device", errors))
      choice.devices.push_back(value.IsScalar() && value.Scalar() == "first"
                                   ? -1
                                   : read_integer(value, "device", 0, 1023, errors).value_or(0));
  }
  return choice;
}

// Where and how a choice may run kernels at most; words that are given twice count twice.
size_t places_of_choice(const KernelChoice& choice) {
  size_t places = 1;
  for (const size_t count :
       {choice.backends.size(), choice.simd_targets.size(), choice.ops.size() + choice.steps, choice.batches.size(),
        choice.activations.size(), choice.repeats.size(),
        std::max(choice.ranks.size(), choice.shared_devices.size() * choice.engines.size() * 2), choice.splits.size(),
        choice.threads.size() + choice.devices.size() * choice.launches.size()})
    places = std::min<size_t>(places, SIZE_MAX / 1'000'000) * std::min<size_t>(count, 1'000'000);
  return places;
}

// A partial match: every key given must be equal.
bool excluded(const Case& one, const std::vector<std::map<std::string, std::string>>& rules) {
  const std::map<std::string, std::string> values = {
      {"source", one.data.source},
      {"d", one.data.shape.rows == one.data.shape.cols ? std::to_string(one.data.shape.rows) : ""},
      {"codec", one.codec.id},
      {"backend", one.kernel.backend},
      {"op", std::string(one.kernel.op_name())},
      {"batch", one.kernel.op == backends::Op::matmul ? std::to_string(one.kernel.batch) : ""},
      {"activations",
       one.kernel.op == backends::Op::matmul ? std::string(backends::activations_name(one.kernel.activations)) : ""},
      {"variant", one.kernel.variant},
      {"tuning", one.kernel.tuning},
      {"simd_target", one.kernel.simd_target}};
  return std::any_of(rules.begin(), rules.end(), [&](const auto& rule) {
    return std::all_of(rule.begin(), rule.end(),
                       [&](const auto& pair) { return values.at(pair.first) == pair.second; });
  });
}

std::vector<std::map<std::string, std::string>> read_exclude(const YAML::Node& node, YamlErrors& errors) {
  std::vector<std::map<std::string, std::string>> rules;
  if (!node.IsDefined()) return rules;
  if (!node.IsSequence()) errors.add(node, "'exclude' is a list of maps.");
  if (node.size() > kMostRules) {
    errors.add(node, fmt::format("'exclude' has {} rules, and at most {} are read.", node.size(), kMostRules));
    return rules;
  }
  for (const YAML::Node& rule : node) {
    if (!check_map(rule, "exclude", kExcludeKeys, errors)) continue;
    std::map<std::string, std::string> values;
    for (const std::string_view key : kExcludeKeys)
      if (const YAML::Node value = child(rule, key); value.IsDefined())
        values[std::string(key)] = read_text(value, key, errors).value_or("");
    if (rule.size() == 0) errors.add(rule, "A rule of 'exclude' has at least one key.");
    if (!values.empty()) rules.push_back(values);
  }
  return rules;
}

}  // namespace

void read_block(const YAML::Node& block, uint64_t seed, std::span<const codecs::CodecEntry> codecs,
                std::vector<Case>& cases, YamlErrors& errors) {
  if (block.IsNull())
    return errors.add(block, "A block is a map with 'data', 'codecs' and 'kernels', and this one is empty.");
  if (!check_map(block, "experiments", kBlockKeys, errors)) return;
  const size_t problems = errors.count();
  const std::vector<DataSpec> data = read_data(block, seed, errors);
  std::vector<CodecSpec> specs;
  const YAML::Node list = child(block, "codecs");
  if (!list.IsDefined() || list.IsNull())
    errors.add(block, "A block needs 'codecs', a list of ids.");
  else if (!list.IsSequence())
    read_codec(list, codecs, specs, errors);
  else if (list.size() == 0)
    errors.add(list, "The list 'codecs' is empty.");
  else
    for (const YAML::Node& node : list) read_codec(node, codecs, specs, errors);
  const KernelChoice choice = read_kernels(child(block, "kernels"), errors);
  const auto of_files = [](const DataSpec& one) { return !datasets::find_source(one.source)->uses_shape; };
  if (choice.steps && !std::ranges::all_of(data, of_files))
    errors.add(child(block, "data"),
               "The op 'step' is a decoding step of a model: it takes 'source: model', or a file.");
  const auto stays = [](const backends::Op op) { return op == backends::Op::size; };
  if (std::ranges::any_of(specs, &CodecSpec::is_mix) && !std::ranges::all_of(choice.ops, stays))
    errors.add(list, "A mix of codecs by kind of layer is for the ops 'step' and 'size'.");
  const auto rules = read_exclude(child(block, "exclude"), errors);
  if (errors.count() > problems) return;
  const auto too_many = [&](double count) {
    if (count <= static_cast<double>(kMostCases)) return false;
    errors.add(block, fmt::format("The config has {:.6g} cases or more; at most {} are run.", count, kMostCases));
    return true;
  };
  if (too_many(static_cast<double>(places_of_choice(choice)))) return;
  const bool multiplies = std::ranges::find(choice.ops, backends::Op::matmul) != choice.ops.end();
  std::map<std::string, int64_t> group_cols;  // columns that share a scale, by data; only a product asks
  for (const DataSpec& one : data)
    if (const auto [known, is_new] = group_cols.try_emplace(one.name(), 0); is_new && multiplies)
      known->second = group_cols_of(one);
  std::map<std::pair<std::string, int64_t>, std::vector<KernelSpec>> expanded;  // by codec, and those
  const auto kernels = [&](const DataSpec& one_data, const CodecSpec& codec) -> const std::vector<KernelSpec>& {
    const int64_t cols = group_cols.at(one_data.name());
    const auto [known, is_new] = expanded.try_emplace({codec.is_mix() ? codec.name() : codec.id, cols});
    if (!is_new) return known->second;
    std::vector<const codecs::CodecEntry*> entries;
    for (const CodecSpec& one : codec.is_mix() ? codec.of_kinds : std::vector{codec})
      entries.push_back(&*std::ranges::find(codecs, one.id, &codecs::CodecEntry::id));
    if (!codec.is_mix()) known->second = expand_kernels(choice, *entries.front(), cols);
    if (codec.is_mix() && std::ranges::find(choice.ops, backends::Op::size) != choice.ops.end())
      known->second.emplace_back().op = backends::Op::size;
    if (choice.steps) std::ranges::copy(expand_steps(choice, entries), std::back_inserter(known->second));
    return known->second;
  };
  double count = 0;  // before anything is excluded
  for (const DataSpec& one_data : data)
    for (const CodecSpec& codec : specs) count += static_cast<double>(kernels(one_data, codec).size());
  if (too_many(count + static_cast<double>(cases.size()))) return;
  for (const DataSpec& one_data : data)
    for (const CodecSpec& codec : specs)
      for (const KernelSpec& kernel : kernels(one_data, codec)) {
        Case one{one_data, codec, kernel, {}};
        if (!excluded(one, rules)) cases.push_back(std::move(one));
      }
}

bool set_axis(YAML::Node block, const std::string& axis, const YAML::Node& values) {
  if (axis == "codecs" || axis == "codec") {
    block["codecs"] = values;
  } else if (std::find(std::begin(kKernelKeys), std::end(kKernelKeys), axis) != std::end(kKernelKeys)) {
    const YAML::Node op = child(child(block, "kernels"), "op");
    const auto asked = [&](const char* name) {
      const auto is_it = [&](const YAML::Node& node) { return node.IsScalar() && node.Scalar() == name; };
      return is_it(op) || (op.IsSequence() && std::any_of(op.begin(), op.end(), is_it));
    };
    if ((axis == "batch" || axis == "activations") && !asked("matmul") && !asked("step")) return false;
    if (axis == "repeat" && !asked("step")) return false;
    block["kernels"][axis] = values;
  } else {
    const std::vector<std::string_view> keys = data_keys(source_of(block));
    if (!keys.empty() && std::find(keys.begin(), keys.end(), axis) == keys.end()) return false;
    if (axis == "d") block["data"].remove("shapes");
    if (axis == "shapes") block["data"].remove("d");
    block["data"][axis] = values;
  }
  return true;
}

std::string nearest_axis(const YAML::Node& root, const std::string& axis) {
  if (axis == kGivenUp) return std::string(" ") + kInsteadOfGivenUp;
  if (axis == "batch") return " It counts the tokens of a matmul or a step, and no 'op' asks for one.";
  if (axis == "repeat") return " It counts the copies of each block of a step, and no 'op' asks for one.";
  if (axis == "activations") return " They are the tokens of a matmul or a step, and no 'op' asks for one.";
  std::vector<std::string_view> known(std::begin(kKernelKeys), std::end(kKernelKeys));
  known.push_back("codecs");
  for (const YAML::Node& block : root["experiments"])
    for (const std::string_view key : data_keys(source_of(block))) known.push_back(key);
  return codecs::did_you_mean(axis, known);
}

}  // namespace ecmv::experiments
