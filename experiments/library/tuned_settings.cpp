// See tuned_settings.h. The file is JSON, which needs no further library here.
#include "experiments/library/tuned_settings.h"

#include <fstream>

#include <nlohmann/json.hpp>

#include "experiments/library/handles.h"
#include "experiments/tune/tuned_entry.h"

namespace ecmv::library {
namespace {

using experiments::TunedEntry;

constexpr size_t kMostBytes = size_t{1} << 20;

std::vector<TunedEntry> entries_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');  // not all of an endless file
  if (stream) stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (!stream.is_open() || stream.bad() || text.size() > kMostBytes)
    throw Failure(ECMV_INVALID_ARGUMENT, "The file of tuned settings " + file + " cannot be read.");
  std::vector<TunedEntry> entries;
  try {
    const nlohmann::json root = nlohmann::json::parse(text);
    if (root.at("schema").get<int64_t>() != experiments::kTunedSchema)
      throw Failure(ECMV_INVALID_ARGUMENT, file + " has another schema than 1, which this library reads.");
    for (const nlohmann::json& one : root.at("entries"))
      entries.push_back({.key = {.backend = one.at("backend"),
                                 .device = one.at("device"),
                                 .codec = one.at("codec"),
                                 .format_version = one.at("format_version"),
                                 .asked = one.at("asked"),
                                 .type = one.at("type"),
                                 .shape = {one.at("rows"), one.at("cols")},
                                 .op = one.at("op"),
                                 .activations = one.value("activations", "")},
                         .found = one.at("found")});
  } catch (const nlohmann::json::exception& error) {
    throw Failure(ECMV_INVALID_ARGUMENT, file + " is not as ecmv tune writes it: " + error.what());
  }
  return entries;
}

}  // namespace

std::string tuned_settings(const std::string& file, const TunedRequest& request, const codecs::CodecEntry& entry,
                           const backends::Settings& asked) {
  backends::Settings settings = asked;
  for (const TunedEntry& tuned : entries_of(file)) {
    const experiments::TunedKey& key = tuned.key;
    const bool fits = key.backend == request.backend && key.device == request.device && key.type == request.type &&
                      key.shape == request.shape && key.op == request.op &&
                      (key.activations.empty() || key.activations == "f32");
    if (!fits) continue;
    if (const auto found = experiments::settings_of(tuned, entry, asked)) settings = *found;
  }
  std::string text;
  for (const auto& [name, value] : experiments::given_settings(entry, settings))
    text += (text.empty() ? "" : ",") + name + "=" + value;
  return text;
}

}  // namespace ecmv::library
