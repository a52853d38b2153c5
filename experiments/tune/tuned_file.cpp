// See tuned_file.h.
#include "experiments/tune/tuned_file.h"

#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backends/kernel.h"
#include "experiments/config/experiment.h"
#include "experiments/config/strict_yaml.h"

namespace ecmv::experiments {
namespace {

constexpr int64_t kMostBytes = 1 << 20, kMostRows = int64_t{1} << 40;
constexpr std::string_view kRootKeys[] = {"schema", "entries"};
constexpr std::string_view kEntryKeys[] = {"backend",  "device", "codec", "format_version", "asked", "type",
                                           "rows",     "cols",   "op",    "activations",    "found", "batches",
                                           "model_off"};

GivenSettings read_settings(const YAML::Node& map, std::string_view key, YamlErrors& errors) {
  GivenSettings settings;
  const YAML::Node node = child(map, key);
  if (!node.IsDefined() || node.IsNull()) return settings;
  if (!node.IsMap()) errors.add(node, fmt::format("'{}' must be a map of settings and values.", key));
  if (node.IsMap())
    for (const auto& pair : node)
      settings[read_text(pair.first, key, errors).value_or("")] = read_text(pair.second, key, errors).value_or("");
  return settings;
}

TunedEntry read_entry(const YAML::Node& node, std::span<const codecs::CodecEntry> codecs, YamlErrors& errors) {
  TunedEntry tuned;
  if (!check_map(node, "entries", kEntryKeys, errors)) {
    errors.add(node, "An entry is a map with a device, a codec, a shape and settings.");
    return tuned;
  }
  const size_t problems = errors.count();
  const auto text = [&](std::string_view key) { return read_text(child(node, key), key, errors).value_or(""); };
  const auto number = [&](std::string_view key, int64_t most) {
    return read_integer(child(node, key), key, 1, most, errors).value_or(1);
  };
  tuned.key = {.backend = text("backend"),
               .device = text("device"),
               .codec = text("codec"),
               .format_version = static_cast<uint32_t>(number("format_version", UINT32_MAX)),
               .asked = read_settings(node, "asked", errors),
               .type = text("type"),
               .shape = {number("rows", kMostRows), number("cols", kMostRows)},
               .op = text("op")};
  if (child(node, "activations").IsDefined()) tuned.key.activations = text("activations");
  tuned.found = read_settings(node, "found", errors);
  if (const YAML::Node batches = child(node, "batches"); batches.IsDefined())
    for (const YAML::Node& batch : read_axis(batches, "batches", errors))
      tuned.batches.push_back(
          static_cast<int>(read_integer(batch, "batches", 1, backends::kMostTokens, errors).value_or(1)));
  tuned.model_off = read_number(child(node, "model_off"), "model_off", errors).value_or(1);
  const codecs::CodecEntry* const entry = codec_of(tuned.key, codecs);
  if (entry == nullptr || errors.count() > problems) return tuned;
  std::vector<std::string> refused;
  codecs::resolve_settings(entry->codec->settings, found_over_asked(tuned), refused);
  for (const std::string& sentence : refused) errors.add(node, fmt::format("Codec '{}': {}", entry->id, sentence));
  return tuned;
}

}  // namespace

std::vector<TunedEntry> read_tuned(const std::string& file, std::span<const codecs::CodecEntry> codecs) {
  YamlErrors errors(
      [&](int line, int column) { return line < 0 ? file : fmt::format("{}:{}:{}", file, line + 1, column + 1); });
  std::ifstream stream(file);
  std::string text(static_cast<size_t>(kMostBytes) + 1, '\0');  // not all of an endless file
  if (stream) stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (!stream.is_open() || stream.bad() || (stream.fail() && !stream.eof()))
    throw ConfigError({fmt::format("{}: the file of tuned settings cannot be read.", file)});
  if (static_cast<int64_t>(text.size()) > kMostBytes)
    throw ConfigError({fmt::format("{}: it has more than the {} bytes that are read.", file, kMostBytes)});
  YAML::Node root;
  try {
    root = load_document(text);
    expect_finite(root);
  } catch (const YAML::Exception& e) {
    throw ConfigError({fmt::format("{}:{}:{}: {}.", file, e.mark.line + 1, e.mark.column + 1, e.msg)});
  }
  if (!root.IsMap() || !child(root, "schema").IsDefined())
    throw ConfigError(
        {fmt::format("{}: a file of ecmv tune is a map that begins with 'schema: {}'.", file, kTunedSchema)});
  if (!read_integer(child(root, "schema"), "schema", kTunedSchema, kTunedSchema, errors))
    throw ConfigError(errors.messages());
  check_map(root, "a file of ecmv tune", kRootKeys, errors);
  std::vector<TunedEntry> entries;
  const YAML::Node list = child(root, "entries");
  if (!list.IsDefined() || !list.IsSequence()) errors.add(list.IsDefined() ? list : root, "'entries' must be a list.");
  for (const YAML::Node& node : list.IsDefined() ? list : YAML::Node())
    entries.push_back(read_entry(node, codecs, errors));
  if (!errors.messages().empty()) throw ConfigError(errors.messages());
  return entries;
}

std::string tuned_text(const std::vector<TunedEntry>& entries) {
  std::string lines;
  for (const TunedEntry& tuned : entries) {
    const TunedKey& key = tuned.key;
    nlohmann::ordered_json line = {{"backend", key.backend},
                                   {"device", key.device},
                                   {"codec", key.codec},
                                   {"format_version", key.format_version},
                                   {"asked", key.asked},
                                   {"type", key.type},
                                   {"rows", key.shape.rows},
                                   {"cols", key.shape.cols},
                                   {"op", key.op}};
    if (!key.activations.empty()) line["activations"] = key.activations;
    line["found"] = tuned.found;
    if (!tuned.batches.empty()) line["batches"] = tuned.batches;
    line["model_off"] = std::round(1e4 * tuned.model_off) / 1e4;
    lines += (lines.empty() ? "" : ",") + std::string("\n  ") + line.dump();
  }
  return fmt::format("{{\"schema\": {}, \"entries\": [{}\n]}}\n", kTunedSchema, lines);
}

}  // namespace ecmv::experiments
