// Central checking of codec settings.
#include <algorithm>
#include <charconv>
#include <numeric>

#include "codecs/codec.h"

namespace ecmv::codecs {
namespace {

// Levenshtein distance, for the did-you-mean.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

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
    const auto it = std::find_if(infos.begin(), infos.end(), [&](const SettingInfo& info) { return info.name == name; });
    if (it != infos.end()) {
      check_one(*it, text, settings, errors);
      continue;
    }
    std::string message = "There is no setting '" + name + "'.";
    const auto nearest = std::min_element(infos.begin(), infos.end(), [&](const SettingInfo& a, const SettingInfo& b) {
      return edit_distance(a.name, name) < edit_distance(b.name, name);
    });
    if (nearest != infos.end() && edit_distance(nearest->name, name) <= 3)
      message += " Did you mean '" + std::string(nearest->name) + "'?";
    errors.push_back(message);
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
