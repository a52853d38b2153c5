// Central checking of codec settings.
#include <algorithm>
#include <charconv>
#include <optional>

#include "codecs/codec.h"
#include "codecs/did_you_mean.h"

namespace ecmv::codecs {
namespace {

std::optional<int64_t> parse_integer(const std::string& text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Compares texts, so numbers in a list must be written in one way.
void check_listed(const SettingInfo& info, const std::vector<std::string>& listed, const std::string& text,
                  Settings& settings, std::vector<std::string>& errors) {
  const std::string name(info.name);
  const auto found = std::find(listed.begin(), listed.end(), text);
  if (found != listed.end()) {
    if (info.values.empty())
      settings.set(name, text);
    else
      settings.set(name, info.values[static_cast<size_t>(found - listed.begin())]);
    return;
  }
  std::string choices;
  for (const std::string& choice : listed) choices += (choices.empty() ? "" : ", ") + choice;
  errors.push_back("Setting '" + name + "' must be one of " + choices + ", not '" + text + "'.");
}

void check_one(const SettingInfo& info, const std::string& text, Settings& settings, std::vector<std::string>& errors) {
  if (const std::vector<std::string> listed = listed_values(info); !listed.empty())
    return check_listed(info, listed, text, settings, errors);
  const std::string name(info.name);
  const std::optional<int64_t> value = parse_integer(text);
  if (!value)
    errors.push_back("Setting '" + name + "' must be an integer, not '" + text + "'.");
  else if (*value < info.min || *value > info.max)
    errors.push_back("Setting '" + name + "' must lie between " + std::to_string(info.min) + " and " +
                     std::to_string(info.max) + ", not " + text + ".");
  else
    settings.set(name, *value);
}

}  // namespace

std::vector<std::string> listed_values(const SettingInfo& info) {
  std::vector<std::string> out(info.choices.begin(), info.choices.end());
  for (const int64_t value : info.values) out.push_back(std::to_string(value));
  return out;
}

Settings resolve_settings(std::span<const SettingInfo> infos, const std::map<std::string, std::string>& given,
                          std::vector<std::string>& errors) {
  Settings settings;
  for (const SettingInfo& info : infos) settings.set(std::string(info.name), info.default_value);
  const auto info_of = [&](std::string_view name) { return std::ranges::find(infos, name, &SettingInfo::name); };
  for (const auto& [name, text] : given) {
    const auto it = info_of(name);
    if (it != infos.end()) {
      check_one(*it, text, settings, errors);
      for (const Companion& other : it->brings)
        if (other.value == text && !given.contains(std::string(other.setting)))
          check_one(*info_of(other.setting), std::string(other.its_value), settings, errors);
      continue;
    }
    std::vector<std::string_view> known;
    for (const SettingInfo& info : infos) known.push_back(info.name);
    errors.push_back("There is no setting '" + name + "'." + did_you_mean(name, known));
  }
  return settings;
}

Settings default_settings(const Codec& codec) {
  std::vector<std::string> errors;
  return resolve_settings(codec.settings, {}, errors);
}

CompressedMatrix make_compressed(datasets::MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed;
  compressed.settings = settings;
  compressed.shape = matrix.shape;
  compressed.type = matrix.type;
  compressed.source_hash = datasets::content_hash(matrix);
  return compressed;
}

}  // namespace ecmv::codecs
