// The tested settings of a codec: the defaults, then each setting alone at every listed value, or at its least, its
// greatest and some middle values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codecs/registry.h"

namespace ecmv::tests {

inline std::vector<backends::Settings> settings_to_test(const codecs::Codec& codec) {
  std::vector<backends::Settings> out = {codecs::default_settings(codec)};
  const auto add = [&](std::string_view name, const std::string& value) {
    std::vector<std::string> errors;
    backends::Settings settings = codecs::resolve_settings(codec.settings, {{std::string(name), value}}, errors);
    if (errors.empty() && settings != out.front()) out.push_back(std::move(settings));
  };
  for (const codecs::SettingInfo& info : codec.settings) {
    const std::vector<std::string> listed = codecs::listed_values(info);
    for (const std::string& value : listed) add(info.name, value);
    if (!listed.empty()) continue;
    add(info.name, std::to_string(info.min));
    // Lane counts are powers of two; narrow ranges are tried completely.
    for (int64_t value = 1; value < info.max; value *= 2)
      if (value > info.min) add(info.name, std::to_string(value));
    if (info.max - info.min <= 8)
      for (int64_t value = info.min + 1; value < info.max; ++value)
        if ((value & (value - 1)) != 0) add(info.name, std::to_string(value));
    add(info.name, std::to_string(info.max));
  }
  return out;
}

}  // namespace ecmv::tests
