// See read_block.h.
#include "experiments/config/read_block.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/backend.h"
#include "codecs/did_you_mean.h"
#include "datasets/files/file_bytes.h"
#include "datasets/quantisers/quantisers.h"
#include "experiments/config/axes.h"
#include "experiments/config/expand.h"
#include "experiments/config/read_codecs.h"
#include "experiments/config/read_quantisers.h"

namespace ecmv::experiments {
namespace {

constexpr std::string_view kBlockKeys[] = {"data", "codecs", "kernels", "exclude"};
// A former parameter of sources, which `quantise` has replaced.
constexpr const char* kGivenUp = "quantise_bits";
constexpr const char* kInsteadOfGivenUp =
    "'data' has no key 'quantise_bits' any more: for 'quantise_bits: N', 'quantise: {absmax: {bits: N + 1, group: "
    "tensor}}' makes such integers, whose scale is stored with them.";
// A value of `layers`: as many as exceed the caches (expand.h).
constexpr std::string_view kStreamed = "streamed";
constexpr int64_t kMaxDimension = int64_t{1} << 24;
// More rules are surely a mistake.
constexpr size_t kMostRules = 1000;
// Sources check parameters by making a matrix with them. Beyond this many different ones the run does it.
constexpr size_t kMostChecked = 1000;

// "shapes: [[4096, 11008], ...]": a list of pairs, or one pair.
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

// The value in `data` that a sentence quotes, by key or value; else all of `data`.
YAML::Node culprit(const YAML::Node& data, const std::string& sentence) {
  for (const auto& pair : data)
    for (const YAML::Node& node : {pair.first, pair.second})
      if (node.IsScalar() && sentence.find('"' + node.Scalar() + '"') != std::string::npos) return pair.second;
  return data;
}

// What a source says about its file; nothing for drawn data and unreadable files, since loading reports the error.
datasets::SourceFacts facts_of(const DataSpec& data) {
  const datasets::DataSource& source = *datasets::find_source(data.source);
  if (source.check == nullptr) return {};
  try {
    return source.check({data.shape, data.layers, data.seed, data.numbers, data.texts});
  } catch (const datasets::DatasetError&) {
    return {};
  }
}

// Lets the source check its parameters: it makes a matrix of one element, or opens its file without the elements.
void check_parameters(const datasets::DataSource& source, const DataSpec& spec, const YAML::Node& where,
                      std::set<std::string>& checked, YamlErrors& errors) {
  DataSpec parameters = spec;
  parameters.shape = {};
  if (checked.size() >= kMostChecked || !checked.insert(parameters.name()).second) return;
  try {
    const datasets::SourceRequest request{{1, 1}, 1, spec.seed, spec.numbers, spec.texts};
    if (source.check != nullptr)
      for (const std::string& remark : source.check(request).remarks) errors.remark(remark);
    else if (const datasets::Dataset dataset = source.load(request); !spec.quantiser.id.empty())
      for (const datasets::Matrix& matrix : dataset.layers) datasets::expect_floats(matrix);
  } catch (const std::exception& e) {
    const auto& known = errors.messages();
    if (known.empty() || !known.back().ends_with(e.what())) errors.add(culprit(where, e.what()), e.what());
  }
}

// Whether the codec refuses a matrix of zeros of this type.
bool refuses_type(const CodecSpec& codec, const datasets::SourceFacts::OfType& type,
                  std::span<const codecs::CodecEntry> codecs) {
  const auto entry = std::ranges::find(codecs, codec.id, &codecs::CodecEntry::id);
  if (entry == codecs.end() || entry->codec->refuses == nullptr) return false;
  const std::vector<std::byte> zeros(static_cast<size_t>(type.cols * datasets::element_bytes(type.type)));
  try {
    return !entry->codec->refuses({{1, type.cols}, type.type, zeros}, codec.settings).empty();
  } catch (const std::exception&) {
    return true;
  }
}

// A dataset and the codecs that run on it.
struct DataCodecs {
  DataSpec data;
  std::vector<CodecSpec> codecs;
};

// A codec that takes some of a file's element types only gets the matrices of each type as data of their own, so that
// no table of bytes keeps it from the weights. Codecs that take all types, and mixes, get the file as it is.
std::vector<DataCodecs> by_type(const DataSpec& data, const std::vector<CodecSpec>& specs,
                                std::span<const codecs::CodecEntry> codecs) {
  const std::vector<datasets::SourceFacts::OfType> types =
      data.quantiser.id.empty() ? facts_of(data).types : std::vector<datasets::SourceFacts::OfType>();
  if (types.size() < 2) return {{data, specs}};
  DataCodecs whole{data, {}}, parts{data, {}};
  for (const CodecSpec& spec : specs) {
    const auto refused = [&](const auto& type) { return refuses_type(spec, type, codecs); };
    (!spec.is_mix() && std::ranges::any_of(types, refused) ? parts : whole).codecs.push_back(spec);
  }
  std::vector<DataCodecs> out;
  if (!whole.codecs.empty()) out.push_back(whole);
  for (const datasets::SourceFacts::OfType& type : types) {
    if (parts.codecs.empty()) break;
    parts.data = data;
    parts.data.texts["elements"] = datasets::element_type_name(type.type);
    out.push_back(parts);
  }
  return out;
}

// How many columns of a row share a scale, from a quantiser or a file; 0: the whole row.
int64_t group_cols_of(const DataSpec& data) {
  return data.quantiser.id.empty() ? facts_of(data).group_cols : datasets::group_cols(data.quantiser);
}

// Keys of `data`; none for an unknown source.
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

// One combination of the axes of `data`.
DataSpec data_spec(const std::map<std::string, YAML::Node>& values, const datasets::DataSource& source, uint64_t seed,
                   int64_t cache_bytes, const NamedQuantisers& quantisers, YamlErrors& errors) {
  DataSpec spec;
  spec.source = source.id;
  spec.seed = seed;
  if (!source.uses_shape) spec.layers = 0;
  bool streamed = false;
  for (const auto& [key, value] : values) {
    if (key == "d") {
      spec.shape.rows = spec.shape.cols = read_integer(value, "d", 1, kMaxDimension, errors).value_or(0);
    } else if (key == "shapes") {
      spec.shape.rows = read_integer(value[0], "rows", 1, kMaxDimension, errors).value_or(0);
      spec.shape.cols = read_integer(value[1], "cols", 1, kMaxDimension, errors).value_or(0);
    } else if (key == "layers" && value.Scalar() == kStreamed) {
      streamed = true;
    } else if (key == "layers") {
      spec.layers = static_cast<int>(read_integer(value, "layers", 1, 100'000, errors).value_or(1));
    } else if (key == "seed") {
      spec.seed = static_cast<uint64_t>(read_integer(value, "seed", 0, INT64_MAX, errors).value_or(1));
    } else if (key == "quantise") {
      spec.quantiser = quantisers.at(value.Scalar());
    } else {
      const auto parameter = std::ranges::find(source.parameters, key, &datasets::ParameterInfo::name);
      if (parameter->is_text)
        spec.texts[key] = read_text(value, key, errors).value_or("");
      else
        spec.numbers[key] = read_number(value, key, errors).value_or(0);
    }
  }
  if (streamed) spec.layers = streamed_layers(spec, cache_bytes);
  return spec;
}

// Fills in what the spec's path leads to. Models may have the name of a shape instead.
void find_content(DataSpec& spec, std::map<std::string, std::string>& known) {
  for (const char* key : {"file", "model"}) {
    const auto path = spec.texts.find(key);
    if (path == spec.texts.end() || datasets::find_source(spec.source)->uses_shape) continue;
    const auto [content, is_new] = known.try_emplace(path->second);
    if (is_new) content->second = datasets::content_name(path->second);
    spec.content = content->second;
  }
}

// The datasets of a block. `cache_bytes`: of the devices that run its kernels.
std::vector<DataSpec> read_data(const YAML::Node& block, uint64_t seed, int64_t cache_bytes, YamlErrors& errors) {
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
    read.emplace_back(kGivenUp);  // one error about it is enough
  }
  if (!check_map(node, "data", read, errors)) return {};

  const size_t problems = errors.count();
  std::vector<ListedAxis> axes;
  NamedQuantisers quantisers;
  for (const auto& pair : node) {
    const std::string key = pair.first.IsScalar() ? pair.first.Scalar() : "";
    const bool known = std::find(keys.begin(), keys.end(), key) != keys.end();
    const bool again = std::any_of(axes.begin(), axes.end(), [&](const ListedAxis& a) { return a.key == key; });
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
  std::map<std::string, std::string> contents;
  std::vector<DataSpec> out;
  for (const auto& values : product(axes, zip)) {
    const size_t before = errors.count();
    out.push_back(data_spec(values, *source, seed, cache_bytes, quantisers, errors));
    find_content(out.back(), contents);
    if (errors.count() == before) check_parameters(*source, out.back(), node, checked, errors);
  }
  return out;
}

std::vector<std::string_view> kernel_keys() {
  std::vector<std::string_view> keys;
  for (const KernelAxis& axis : kernel_axes()) {
    keys.push_back(axis.key);
    if (!axis.old_key.empty()) keys.push_back(axis.old_key);
  }
  return keys;
}

// The axis's value in `kernels` or in a rule, under its key or its old key; undefined if there is none.
YAML::Node axis_value(const YAML::Node& map, const KernelAxis& axis, YamlErrors& errors) {
  const YAML::Node value = child(map, axis.key);
  if (axis.old_key.empty()) return value;
  const YAML::Node old = child(map, axis.old_key);
  if (old.IsDefined() && value.IsDefined())
    errors.add(old,
               fmt::format("'{}' is the old word for '{}': only one of them can stand here.", axis.old_key, axis.key));
  return value.IsDefined() ? value : old;
}

// Words that the axis knows; empty: any.
std::vector<std::string> known_words(const KernelAxis& axis, const KernelChoice& choice) {
  std::vector<std::string> known(axis.words.begin(), axis.words.end());
  if (axis.names == nullptr) return known;
  const std::vector<std::string> names = axis.names(choice);
  if (names.empty()) return {};
  known.insert(known.end(), names.begin(), names.end());
  return known;
}

// The word that was probably meant, else what there is.
std::string hint_for(std::string_view word, std::span<const std::string_view> known) {
  const std::string near = codecs::did_you_mean(word, known);
  return near.empty() ? fmt::format(" It knows {}.", fmt::join(known, ", ")) : near;
}

std::vector<std::string> read_words(const YAML::Node& node, const KernelAxis& axis, const KernelChoice& choice,
                                    YamlErrors& errors) {
  const std::vector<std::string> known = known_words(axis, choice);
  const std::vector<std::string_view> views(known.begin(), known.end());
  std::vector<std::string> words;
  for (const YAML::Node& value : read_axis(node, axis.key, errors)) {
    const std::string word = read_text(value, axis.key, errors).value_or("");
    if (known.empty() || std::ranges::find(known, word) != known.end())
      words.push_back(word);
    else
      errors.add(node, fmt::format("'{}' does not know '{}'.{}", axis.key, word, hint_for(word, views)));
  }
  return words;
}

// One overload for each kind of list in KernelChoice.
void read_values(const YAML::Node& node, const KernelAxis& axis, std::vector<std::string> KernelChoice::*field,
                 KernelChoice& choice, YamlErrors& errors) {
  choice.*field = read_words(node, axis, choice, errors);
}
void read_values(const YAML::Node& node, const KernelAxis& axis, std::string KernelChoice::*field, KernelChoice& choice,
                 YamlErrors& errors) {
  const std::vector<std::string> words = read_words(node, axis, choice, errors);
  if (words.size() == 1)
    choice.*field = words[0];
  else if (words.size() > 1)
    errors.add(node, fmt::format("'{}' takes one word, not a list.", axis.key));
}
void read_values(const YAML::Node& node, const KernelAxis& axis, std::vector<int64_t> KernelChoice::*field,
                 KernelChoice& choice, YamlErrors& errors) {
  std::vector<int64_t> numbers;
  for (const YAML::Node& value : read_axis(node, axis.key, errors)) {
    const bool is_word = value.IsScalar() && std::ranges::find(axis.words, value.Scalar()) != axis.words.end();
    numbers.push_back(is_word ? axis.word_number
                              : read_integer(value, axis.key, axis.least, axis.most, errors).value_or(axis.least));
  }
  choice.*field = numbers;
}
template <typename Enum>
void read_values(const YAML::Node& node, const KernelAxis& axis, std::vector<Enum> KernelChoice::*field,
                 KernelChoice& choice, YamlErrors& errors) {
  (choice.*field).clear();
  for (const std::string& word : read_words(node, axis, choice, errors))
    (choice.*field).push_back(static_cast<Enum>(std::ranges::find(axis.words, word) - axis.words.begin()));
}

KernelChoice read_kernels(const YAML::Node& node, YamlErrors& errors) {
  KernelChoice choice;
  if (!check_map(node, "kernels", kernel_keys(), errors)) return choice;
  for (const KernelAxis& axis : kernel_axes())
    if (const YAML::Node value = axis_value(node, axis, errors); value.IsDefined())
      std::visit([&](const auto field) { read_values(value, axis, field, choice, errors); }, axis.field);
  const auto asked = [&](Task task) { return choice.asks_for(task); };
  for (const KernelAxis& axis : kernel_axes())
    if (const YAML::Node value = child(node, axis.key);
        value.IsDefined() && !axis.tasks.empty() && std::ranges::none_of(axis.tasks, asked))
      errors.add(value, fmt::format("'{}' {}, and 'op' asks for none.", axis.key, axis.of_tasks));
  return choice;
}

// The most places at which a choice may run kernels; words that are given twice count twice.
size_t places_of_choice(const KernelChoice& choice) {
  size_t places = 1;
  for (const size_t count :
       {choice.backends.size(), choice.simd_targets.size(), choice.tasks.size(), choice.batches.size(),
        choice.activations.size(), choice.repeats.size(),
        std::max(choice.ranks.size(), choice.shared_devices.size() * choice.engines.size() * 2), choice.splits.size(),
        choice.threads.size() + choice.devices.size() * choice.launches.size()})
    places = std::min<size_t>(places, SIZE_MAX / 1'000'000) * std::min<size_t>(count, 1'000'000);
  return places;
}

// Keys of a rule besides the axes of `kernels`, parameters of sources and settings of codecs.
constexpr std::string_view kExcludeKeys[] = {"source", "codec", "d", "rows", "cols", "layers", "seed", "quantise"};

std::vector<std::string_view> exclude_keys(std::span<const codecs::CodecEntry> codecs) {
  std::vector<std::string_view> keys(std::begin(kExcludeKeys), std::end(kExcludeKeys));
  for (const std::string_view key : kernel_keys())
    if (find_kernel_axis(key)->value != nullptr) keys.push_back(key);
  for (const datasets::DataSource& source : datasets::all_sources())
    for (const datasets::ParameterInfo& parameter : source.parameters) keys.push_back(parameter.name);
  for (const codecs::CodecEntry& entry : codecs)
    for (const codecs::SettingInfo& setting : entry.codec->settings) keys.push_back(setting.name);
  return keys;
}

struct ExcludeRule {
  YAML::Node node;
  CaseRule values;
  bool matched = false;
  // A machine or a build may lack what it names, and then nothing matches it.
  bool names_kernels() const {
    return std::ranges::any_of(values, [](const auto& entry) { return find_kernel_axis(entry.first) != nullptr; });
  }
};

bool excluded(const Case& one, std::vector<ExcludeRule>& rules) {
  bool any = false;
  for (ExcludeRule& rule : rules)
    if (matches(one, rule.values)) any = rule.matched = true;
  return any;
}

std::vector<ExcludeRule> read_exclude(const YAML::Node& node, std::span<const codecs::CodecEntry> codecs,
                                      YamlErrors& errors) {
  std::vector<ExcludeRule> rules;
  if (!node.IsDefined()) return rules;
  if (!node.IsSequence()) errors.add(node, "'exclude' is a list of maps.");
  if (node.size() > kMostRules) {
    errors.add(node, fmt::format("'exclude' has {} rules, and at most {} are read.", node.size(), kMostRules));
    return rules;
  }
  const std::vector<std::string_view> keys = exclude_keys(codecs);
  for (const YAML::Node& rule : node) {
    if (!check_map(rule, "exclude", keys, errors)) continue;
    CaseRule values;
    for (const std::string_view key : keys)
      if (const YAML::Node value = child(rule, key); value.IsDefined() && values[std::string(key)].empty())
        for (const YAML::Node& one : read_axis(value, key, errors))
          values[std::string(key)].push_back(read_text(one, key, errors).value_or(""));
    if (rule.size() == 0) errors.add(rule, "A rule of 'exclude' has at least one key.");
    if (!values.empty()) rules.push_back({rule, values});
  }
  return rules;
}

// A rule that matched no case is an error. Where the config was `edited` it leaves the config instead, so that the
// resolved one, which nobody edits, means the same.
void check_rules(YAML::Node block, const std::vector<ExcludeRule>& rules, bool edited, YamlErrors& errors) {
  YAML::Node used(YAML::NodeType::Sequence);
  for (const ExcludeRule& rule : rules) {
    if (rule.matched || rule.names_kernels())
      used.push_back(rule.node);
    else if (!edited)
      errors.add(rule.node, "This rule of 'exclude' matches no case of its block.");
  }
  if (!edited || used.size() == rules.size()) return;
  if (used.size() == 0)
    block.remove("exclude");
  else
    block["exclude"] = used;
}

}  // namespace

void read_block(const YAML::Node& block, uint64_t seed, std::span<const codecs::CodecEntry> codecs, bool edited,
                std::vector<Case>& cases, YamlErrors& errors) {
  if (block.IsNull())
    return errors.add(block, "A block is a map with 'data', 'codecs' and 'kernels', and this one is empty.");
  if (!check_map(block, "experiments", kBlockKeys, errors)) return;
  const size_t problems = errors.count();
  const KernelChoice choice = read_kernels(child(block, "kernels"), errors);
  const std::vector<DataSpec> data = read_data(block, seed, largest_cache(choice.backends), errors);
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
  const auto of_files = [](const DataSpec& one) { return !datasets::find_source(one.source)->uses_shape; };
  if (choice.asks_for(Task::step) && !std::ranges::all_of(data, of_files))
    errors.add(child(block, "data"),
               "The op 'step' is a decoding step of a model: it takes 'source: model', or a file.");
  const auto takes_mix = [](Task task) { return task == Task::step || task == Task::size; };
  if (std::ranges::any_of(specs, &CodecSpec::is_mix) && !std::ranges::all_of(choice.tasks, takes_mix))
    errors.add(list, "A mix of codecs by kind of layer is for the ops 'step' and 'size'.");
  std::vector<ExcludeRule> rules = read_exclude(child(block, "exclude"), codecs, errors);
  if (errors.count() > problems) return;
  const auto too_many = [&](double count) {
    if (count <= static_cast<double>(kMostCases)) return false;
    errors.add(block, fmt::format("The config has {:.6g} cases or more; at most {} are run.", count, kMostCases));
    return true;
  };
  if (too_many(static_cast<double>(places_of_choice(choice)))) return;
  std::vector<DataCodecs> all;
  for (const DataSpec& one : data) std::ranges::move(by_type(one, specs, codecs), std::back_inserter(all));
  const bool multiplies = choice.asks_for(Task::matmul);
  std::map<std::string, int64_t> group_cols;  // columns that share a scale, by data; only for products
  for (const DataCodecs& one : all)
    if (const auto [known, is_new] = group_cols.try_emplace(one.data.name(), 0); is_new && multiplies)
      known->second = group_cols_of(one.data);
  std::map<std::pair<std::string, int64_t>, std::vector<KernelSpec>> expanded;  // by codec and group_cols
  const auto kernels = [&](const DataSpec& one_data, const CodecSpec& codec) -> const std::vector<KernelSpec>& {
    const int64_t cols = group_cols.at(one_data.name());
    const auto [known, is_new] = expanded.try_emplace({codec.is_mix() ? codec.name() : codec.id, cols});
    if (!is_new) return known->second;
    std::vector<const codecs::CodecEntry*> entries;
    for (const CodecSpec& one : codec.is_mix() ? codec.of_kinds : std::vector{codec})
      entries.push_back(&*std::ranges::find(codecs, one.id, &codecs::CodecEntry::id));
    if (!codec.is_mix()) known->second = expand_kernels(choice, *entries.front(), cols);
    if (codec.is_mix() && choice.asks_for(Task::size)) known->second.push_back({.task = Task::size});
    if (choice.asks_for(Task::step))
      std::ranges::copy(expand_steps(choice, entries), std::back_inserter(known->second));
    return known->second;
  };
  double count = 0;  // before exclusions
  for (const DataCodecs& one : all)
    for (const CodecSpec& codec : one.codecs) count += static_cast<double>(kernels(one.data, codec).size());
  if (too_many(count + static_cast<double>(cases.size()))) return;
  for (const DataCodecs& some : all)
    for (const CodecSpec& codec : some.codecs)
      for (const KernelSpec& kernel : kernels(some.data, codec)) {
        Case one{some.data, codec, kernel, {}};
        if (!excluded(one, rules)) cases.push_back(std::move(one));
      }
  if (count > 0) check_rules(block, rules, edited, errors);
}

bool set_axis(YAML::Node block, const std::string& axis, const YAML::Node& values) {
  if (axis == "codecs" || axis == "codec") {
    block["codecs"] = values;
  } else if (const KernelAxis* known = find_kernel_axis(axis); known != nullptr) {
    const YAML::Node op = child(child(block, "kernels"), "op");
    const auto asked = [&](Task task) {
      const auto is_it = [&](const YAML::Node& node) { return node.IsScalar() && node.Scalar() == task_name(task); };
      return is_it(op) || (op.IsSequence() && std::any_of(op.begin(), op.end(), is_it));
    };
    if (!known->tasks.empty() && std::ranges::none_of(known->tasks, asked)) return false;
    if (!known->old_key.empty()) block["kernels"].remove(std::string(known->old_key));
    block["kernels"][std::string(known->key)] = values;
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
  if (const KernelAxis* known = find_kernel_axis(axis); known != nullptr && !known->tasks.empty())
    return fmt::format(" '{}' {}, and no 'op' asks for one.", known->key, known->of_tasks);
  std::vector<std::string_view> known = kernel_keys();
  known.push_back("codecs");
  for (const YAML::Node& block : root["experiments"])
    for (const std::string_view key : data_keys(source_of(block))) known.push_back(key);
  return codecs::did_you_mean(axis, known);
}

}  // namespace ecmv::experiments
