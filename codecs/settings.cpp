// Central checking of codec settings.
#include <algorithm>
#include <charconv>

#include "codecs/codec.h"
#include "codecs/did_you_mean.h"

namespace ecmv::codecs {
namespace {

void check_one(const SettingInfo& info, const std::string& text, Settings& settings, std::vector<std::string>& errors) {
  const std::string name(info.name);
  if (std::holds_alternative<int64_t>(info.default_value)) {
    int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || end != text.data() + text.size())
      errors.push_back("Setting '" + name + "' must be an integer, not '" + text + "'.");
    else if (value < info.min || value > info.max)
      errors.push_back("Setting '" + name + "' must lie between " + std::to_string(info.min) + " and " +
                       std::to_string(info.max) + ", not " + text + ".");
    else
      settings.set(name, value);
    return;
  }
  if (std::find(info.choices.begin(), info.choices.end(), text) != info.choices.end()) {
    settings.set(name, text);
    return;
  }
  std::string choices;
  for (std::string_view choice : info.choices) choices += (choices.empty() ? "" : ", ") + std::string(choice);
  errors.push_back("Setting '" + name + "' must be one of " + choices + ", not '" + text + "'.");
}

}  // namespace

Settings resolve_settings(std::span<const SettingInfo> infos, const std::map<std::string, std::string>& given,
                          std::vector<std::string>& errors) {
  Settings settings;
  for (const SettingInfo& info : infos) settings.set(std::string(info.name), info.default_value);
  for (const auto& [name, text] : given) {
    const auto it =
        std::find_if(infos.begin(), infos.end(), [&](const SettingInfo& info) { return info.name == name; });
    if (it != infos.end()) {
      check_one(*it, text, settings, errors);
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
