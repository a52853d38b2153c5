// See tuned_entry.h.
#include "experiments/tune/tuned_entry.h"

#include <algorithm>

namespace ecmv::experiments {

std::string setting_text(const backends::SettingValue& value) {
  const auto* const integer = std::get_if<int64_t>(&value);
  return integer == nullptr ? std::get<std::string>(value) : std::to_string(*integer);
}

const codecs::CodecEntry* codec_of(const TunedKey& key, std::span<const codecs::CodecEntry> codecs) {
  const auto entry = std::ranges::find(codecs, key.codec, &codecs::CodecEntry::id);
  return entry == codecs.end() || entry->codec->format_version != key.format_version ? nullptr : &*entry;
}

GivenSettings found_over_asked(const TunedEntry& tuned) {
  GivenSettings all = tuned.found;
  all.insert(tuned.key.asked.begin(), tuned.key.asked.end());
  return all;
}

GivenSettings given_settings(const codecs::CodecEntry& entry, const backends::Settings& settings) {
  GivenSettings given;
  const backends::Settings defaults = codecs::default_settings(*entry.codec);
  for (const auto& [name, value] : settings.values())
    if (defaults.values().at(name) != value) given[name] = setting_text(value);
  return given;
}

std::optional<backends::Settings> settings_of(const TunedEntry& tuned, const codecs::CodecEntry& entry,
                                              const backends::Settings& asked) {
  if (codec_of(tuned.key, {&entry, 1}) == nullptr || given_settings(entry, asked) != tuned.key.asked)
    return std::nullopt;
  std::vector<std::string> refused;
  backends::Settings settings = codecs::resolve_settings(entry.codec->settings, found_over_asked(tuned), refused);
  return refused.empty() ? std::optional(std::move(settings)) : std::nullopt;
}

}  // namespace ecmv::experiments
