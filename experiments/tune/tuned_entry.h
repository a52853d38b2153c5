// What `ecmv tune` found for one key: values in place of a codec's open settings.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codecs/registry.h"
#include "datasets/matrix.h"

namespace ecmv::experiments {

inline constexpr int kTunedSchema = 1;  // of the file

// Settings as configs write them, "tile_cols" -> "640"; without those that have their defaults.
using GivenSettings = std::map<std::string, std::string>;

// Where an entry holds.
struct TunedKey {
  std::string backend, device;  // device: its model
  std::string codec;
  uint32_t format_version = 1;
  GivenSettings asked;  // with open settings
  std::string type;     // of the elements
  datasets::Shape shape;
  std::string op, activations = {};  // of a pass: decode, matvec, matmul; activations of a matmul, else ""
  friend bool operator==(const TunedKey&, const TunedKey&) = default;
};

struct TunedEntry {
  TunedKey key;
  GivenSettings found;            // in place of open ones; empty: the open settings were the fastest
  std::vector<int> batches = {};  // tokens that it was measured with; empty where there are none
  double model_off = 1;           // time with the open settings over the time with the found ones
};

std::string setting_text(const backends::SettingValue& value);  // as configs write it
// The codec of the key; null if there is none of this format.
const codecs::CodecEntry* codec_of(const TunedKey& key, std::span<const codecs::CodecEntry> codecs);
GivenSettings found_over_asked(const TunedEntry& tuned);
GivenSettings given_settings(const codecs::CodecEntry& entry, const backends::Settings& settings);
// What the entry has for these settings of a codec; none if it is for another codec, format or other settings.
std::optional<backends::Settings> settings_of(const TunedEntry& tuned, const codecs::CodecEntry& entry,
                                              const backends::Settings& asked);

}  // namespace ecmv::experiments
