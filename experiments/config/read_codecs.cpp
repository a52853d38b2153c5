// See read_codecs.h.
#include "experiments/config/read_codecs.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "codecs/did_you_mean.h"
#include "experiments/config/mix.h"

namespace ecmv::experiments {
namespace {

// A codec with its defaults, then with each setting alone at other values: every listed value, every value of a narrow
// range, the ends of a wide one. For configs that must not name codecs.
void append_settings(const codecs::CodecEntry& entry, std::vector<CodecSpec>& out) {
  const codecs::Codec& codec = *entry.codec;
  out.push_back(make_codec_spec(entry, codecs::default_settings(codec)));
  const auto append = [&](std::string_view name, const std::string& value) {
    std::vector<std::string> problems;
    backends::Settings settings = codecs::resolve_settings(codec.settings, {{std::string(name), value}}, problems);
    if (!problems.empty()) return;
    CodecSpec spec = make_codec_spec(entry, std::move(settings));
    if (std::find(out.begin(), out.end(), spec) == out.end()) out.push_back(std::move(spec));
  };
  for (const codecs::SettingInfo& info : codec.settings) {
    const std::vector<std::string> listed = codecs::listed_values(info);
    for (const std::string& value : listed) append(info.name, value);
    if (!listed.empty()) continue;
    for (int64_t value = info.min; info.max - info.min <= 6 && value < info.max; ++value)
      append(info.name, std::to_string(value));
    append(info.name, std::to_string(info.min));
    append(info.name, std::to_string(info.max));
  }
}

// Every combination of the codecs given for each kind.
void read_mix(const YAML::Node& node, std::span<const codecs::CodecEntry> codecs, std::vector<CodecSpec>& out,
              YamlErrors& errors) {
  const std::vector<std::string_view> words = kind_words();
  const size_t problems = errors.count();
  if (!node.IsMap() || node.size() == 0)
    return errors.add(node, "A mix names a codec for each kind of layer, as in 'mix: {attention: ID, others: ID}'.");
  if (!check_map(node, kMix, words, errors) || errors.count() > problems) return;
  std::vector<CodecSpec> mixes(1);
  mixes[0].id = kMix;
  for (const auto& pair : node) {
    std::vector<CodecSpec> choices;
    if (pair.second.IsSequence())
      for (const YAML::Node& one : pair.second) read_codec(one, codecs, choices, errors);
    else
      read_codec(pair.second, codecs, choices, errors);
    if (errors.count() == problems && choices.empty()) errors.add(pair.second, "A kind of layers needs a codec.");
    for (const CodecSpec& choice : choices)
      if (choice.is_mix()) errors.add(pair.second, "A kind of layers has one codec, and no mix of its own.");
    if (errors.count() > problems) return;
    if (mixes.size() * choices.size() > kMostCases)
      return errors.add(node, fmt::format("'mix' has more than {} combinations.", kMostCases));
    std::vector<CodecSpec> next;
    for (const CodecSpec& mix : mixes)
      for (const CodecSpec& choice : choices) {
        next.push_back(mix);
        next.back().kinds.push_back(pair.first.Scalar());
        next.back().of_kinds.push_back(choice);
      }
    mixes = std::move(next);
  }
  out.insert(out.end(), mixes.begin(), mixes.end());
}

bool check_former(const codecs::FormerSetting& former, const ListedAxis& given, const std::string& id,
                  const YAML::Node& node, YamlErrors& errors) {
  for (const YAML::Node& value : given.values)
    if (!value.IsScalar() || value.Scalar() != former.value_left) {
      errors.add(node, fmt::format("Codec '{}': {}", id, former.reason));
      return false;
    }
  return true;
}

}  // namespace

void read_codec(const YAML::Node& node, std::span<const codecs::CodecEntry> codecs, std::vector<CodecSpec>& out,
                YamlErrors& errors) {
  if (node.IsScalar() && node.Scalar() == "all") {
    for (const codecs::CodecEntry& entry : codecs)
      out.push_back(make_codec_spec(entry, codecs::default_settings(*entry.codec)));
    return;
  }
  if (node.IsScalar() && node.Scalar() == "all_settings") {
    for (const codecs::CodecEntry& entry : codecs) append_settings(entry, out);
    return;
  }
  const bool is_map = node.IsMap() && node.size() == 1;
  if (is_map && node.begin()->first.Scalar() == kMix) return read_mix(node.begin()->second, codecs, out, errors);
  if (!node.IsScalar() && !is_map) return errors.add(node, "A codec is an id, or 'id: {setting: values}'.");
  const std::string id = is_map ? node.begin()->first.Scalar() : node.Scalar();
  const auto entry =
      std::find_if(codecs.begin(), codecs.end(), [&](const codecs::CodecEntry& e) { return e.id == id; });
  if (entry == codecs.end()) {
    std::vector<std::string_view> known;
    for (const codecs::CodecEntry& e : codecs) known.push_back(e.id);
    std::string hint = codecs::did_you_mean(id, known);
    if (hint.empty()) hint = " See 'ecmv list codecs'; --codec-library and ECMV_CODEC_PATH load others.";
    return errors.add(node, fmt::format("There is no codec '{}'.{}", id, hint));
  }
  std::vector<ListedAxis> axes;
  if (is_map) {
    const YAML::Node settings = node.begin()->second;
    std::vector<std::string_view> keys;
    for (const codecs::SettingInfo& info : entry->codec->settings) keys.push_back(info.name);
    const size_t current = keys.size();
    for (const codecs::FormerSetting& former : entry->codec->former_settings) keys.push_back(former.name);
    if (!settings.IsNull() && !check_map(settings, id, keys, errors)) return;
    if (settings.IsMap())
      for (const auto& pair : settings) {
        const std::string key = pair.first.IsScalar() ? pair.first.Scalar() : "";
        const bool again = std::any_of(axes.begin(), axes.end(), [&](const ListedAxis& a) { return a.key == key; });
        const auto known = std::find(keys.begin(), keys.end(), key) - keys.begin();
        if (again || known == std::ssize(keys)) continue;
        ListedAxis axis{key, read_axis(pair.second, key, errors)};
        if (known < static_cast<ptrdiff_t>(current))
          axes.push_back(std::move(axis));
        else if (!check_former(entry->codec->former_settings[static_cast<size_t>(known) - current], axis, id,
                               pair.second, errors))
          return;
      }
  }
  if (too_many(axes, {}, id, node, errors)) return;
  for (const auto& values : product(axes, {})) {
    std::map<std::string, std::string> given;
    for (const auto& [key, value] : values) given[key] = value.IsScalar() ? value.Scalar() : "";
    std::vector<std::string> problems;
    backends::Settings settings = codecs::resolve_settings(entry->codec->settings, given, problems);
    for (const std::string& problem : problems) {
      const std::string message = fmt::format("Codec '{}': {}", id, problem);
      if (errors.messages().empty() || !errors.messages().back().ends_with(message)) errors.add(node, message);
    }
    if (problems.empty()) out.push_back(make_codec_spec(*entry, std::move(settings)));
  }
}

}  // namespace ecmv::experiments
