// ecmv list: what there is. Everything is put into tables first, so that text, JSON and what is shown are the same.
#include <iostream>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backends/backend.h"
#include "codecs/did_you_mean.h"
#include "codecs/registry.h"
#include "datasets/source.h"
#include "experiments/command.h"
#include "experiments/coverage.h"
#include "experiments/known_configs.h"
#include "experiments/table_json.h"
#include "reports/table.h"
#include "reports/tables.h"

namespace ecmv::experiments {
namespace {

using reports::Column;
using reports::count_cell;
using reports::Table;
using reports::text_cell;

Table make_table(const std::string& id, const std::string& title, const std::vector<std::string>& columns) {
  Table table;
  table.id = id;
  table.title = title;
  for (const std::string& column : columns) table.columns.push_back({column, column, "", Column::Align::left});
  return table;
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

std::string kernels_of(const codecs::CodecEntry& entry) {
  std::vector<std::string> words;
  for (const backends::Backend& backend : backends::all_backends())
    for (const backends::Kernel& kernel : entry.kernels(backend.id))
      words.push_back(fmt::format("{}/{}/{}", backend.id, backends::op_name(kernel.op), kernel.variant));
  return words.empty() ? "none: its reference decoder" : joined(words);
}

std::string range_of(const codecs::SettingInfo& info) {
  const std::vector<std::string> listed = codecs::listed_values(info);
  return listed.empty() ? fmt::format("{}..{}", info.min, info.max) : fmt::format("{}", fmt::join(listed, " | "));
}

std::string default_of(const codecs::SettingInfo& info) {
  if (const auto* number = std::get_if<int64_t>(&info.default_value)) return std::to_string(*number);
  return std::get<std::string>(info.default_value);
}

// Marked where the codec is not of this build.
reports::Cell id_cell(const codecs::CodecEntry& entry) {
  reports::Cell cell = text_cell(std::string(entry.id));
  if (entry.loaded()) cell.text += " (loaded)";
  return cell;
}

// What is asked for: all codecs, or those that are named.
using Named = std::span<const std::string>;

std::vector<codecs::CodecEntry> chosen_codecs(Named named) {
  const auto all = codecs::all_codecs();
  if (named.empty()) return {all.begin(), all.end()};
  std::vector<codecs::CodecEntry> chosen;
  std::vector<std::string_view> known;
  for (const codecs::CodecEntry& entry : all) known.push_back(entry.id);
  for (const std::string& id : named) {
    const codecs::CodecEntry* entry = codecs::find_codec(id);
    if (entry == nullptr)
      throw UsageError(fmt::format("There is no codec '{}'.{}", id, codecs::did_you_mean(id, known)));
    chosen.push_back(*entry);
  }
  return chosen;
}

// Where loaded codecs come from; no table without any.
std::vector<Table> library_tables(std::span<const codecs::CodecEntry> chosen) {
  Table libraries = make_table("libraries", "Codecs from shared objects", {"codec", "file", "hash"});
  for (const codecs::CodecEntry& entry : chosen)
    if (entry.loaded())
      libraries.rows.push_back(
          {text_cell(std::string(entry.id)), text_cell(entry.library_path), text_cell(entry.library_hash)});
  return libraries.rows.empty() ? std::vector<Table>{} : std::vector<Table>{libraries};
}

std::vector<Table> codec_tables(Named named) {
  const std::vector<codecs::CodecEntry> chosen = chosen_codecs(named);
  Table codecs =
      make_table("codecs", "Codecs", {"codec", "summary", "source", "lossless", "format_version", "kernels"});
  Table settings =
      make_table("settings", "Settings of codecs", {"codec", "setting", "default", "range", "unit", "help"});
  for (const codecs::CodecEntry& entry : chosen) {
    const codecs::Codec& codec = *entry.codec;
    codecs.rows.push_back({id_cell(entry), text_cell(std::string(codec.summary)), text_cell(std::string(codec.source)),
                           text_cell(codec.lossless ? "yes" : "no"), count_cell(codec.format_version),
                           text_cell(kernels_of(entry))});
    for (const codecs::SettingInfo& info : codec.settings)
      settings.rows.push_back({text_cell(std::string(entry.id)), text_cell(std::string(info.name)),
                               text_cell(default_of(info)), text_cell(range_of(info)),
                               text_cell(std::string(info.unit)), text_cell(std::string(info.help))});
  }
  std::vector<Table> tables = {codecs, settings};
  for (Table& table : library_tables(chosen)) tables.push_back(std::move(table));
  return tables;
}

std::vector<Table> device_tables(bool devices_too) {
  Table backends = make_table("backends", "Backends", {"backend", "summary", "state"});
  Table devices = make_table("devices", "Devices",
                             {"backend", "device", "simd_target", "threads", "units", "clock", "l1d", "l2", "llc",
                              "memory", "driver", "state"});
  const auto mib = [](int64_t bytes) {
    return text_cell(bytes == 0 ? "unknown" : fmt::format("{:.5g} MiB", static_cast<double>(bytes) / (1 << 20)));
  };
  for (const backends::Backend& backend : backends::all_backends()) {
    std::string state = "unavailable: it has no device here";
    for (const backends::DeviceInfo& info : backend.devices()) {
      if (state != "available") state = info.unavailable.empty() ? "available" : "unavailable: " + info.unavailable;
      devices.rows.push_back(
          {text_cell(info.backend), text_cell(info.name), text_cell(info.simd_target), count_cell(info.threads),
           text_cell(info.compute_units == 0 ? "" : std::to_string(info.compute_units)),
           text_cell(info.clock_hz > 0 ? fmt::format("{:.3g} GHz", info.clock_hz / 1e9) : ""), mib(info.l1d_bytes),
           mib(info.l2_bytes), mib(info.llc_bytes), mib(info.memory_bytes), text_cell(info.driver),
           text_cell(info.unavailable.empty() ? "available" : "unavailable: " + info.unavailable)});
    }
    backends.rows.push_back(
        {text_cell(std::string(backend.id)), text_cell(std::string(backend.summary)), text_cell(state)});
  }
  return {devices_too ? devices : backends};
}

std::vector<Table> dataset_tables() {
  Table sources = make_table("datasets", "Data sources", {"source", "summary", "shape"});
  Table parameters = make_table("parameters", "Parameters of data sources",
                                {"source", "parameter", "required", "default", "range", "help"});
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : std::string();
  };
  for (const datasets::DataSource& source : datasets::all_sources()) {
    sources.rows.push_back({text_cell(std::string(source.id)), text_cell(std::string(source.summary)),
                            text_cell(source.uses_shape ? "d or shapes" : "of the file")});
    for (const datasets::ParameterInfo& info : source.parameters)
      parameters.rows.push_back({text_cell(std::string(source.id)), text_cell(std::string(info.name)),
                                 text_cell(info.required ? "yes" : "no"), text_cell(number(info.default_value)),
                                 text_cell(info.is_text           ? "text"
                                           : info.min || info.max ? number(info.min) + ".." + number(info.max)
                                                                  : "number"),
                                 text_cell(std::string(info.help))});
  }
  return {sources, parameters};
}

// One row for each codec, kernel, tuning and instruction set.
std::vector<Table> coverage_tables(Named named) {
  Table table = make_table("coverage", "Kernels on this machine",
                           {"codec", "op", "backend", "simd_target", "variant", "tuning", "unfused", "state"});
  for (const CoverageEntry& entry : coverage(chosen_codecs(named)))
    table.rows.push_back({text_cell(entry.codec), text_cell(entry.op), text_cell(entry.backend),
                          text_cell(entry.simd_target), text_cell(entry.variant), text_cell(entry.tuning),
                          text_cell(entry.unfused ? "yes" : "no"),
                          text_cell(entry.reason.empty() ? entry.status : entry.status + ": " + entry.reason)});
  return {table};
}

std::vector<Table> config_tables() {
  Table table = make_table("configs", "Configs that run and verify know by name", {"config", "question"});
  for (const KnownConfig& config : known_configs())
    table.rows.push_back({text_cell(config.name), text_cell(config.question)});
  return {table};
}

std::vector<Table> metric_tables() { return {reports::metrics_table()}; }

}  // namespace

void add_list(CLI::App& app, CommandLine& line) {
  static const std::map<std::string, std::function<std::vector<Table>(Named)>> kLists = {
      {"codecs", codec_tables},
      {"backends", [](Named) { return device_tables(false); }},
      {"devices", [](Named) { return device_tables(true); }},
      {"datasets", [](Named) { return dataset_tables(); }},
      {"metrics", [](Named) { return metric_tables(); }},
      {"coverage", coverage_tables},
      {"configs", [](Named) { return config_tables(); }},
  };
  struct Options {
    std::string what;
    std::vector<std::string> named;
    bool json = false, coverage = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      app.add_subcommand("list", "codecs, backends, devices, datasets, metrics, coverage, configs: what there is");
  std::vector<std::string> names;
  for (const auto& [name, tables] : kLists) names.push_back(name);
  verb->add_option("what", options->what, joined(names))->check(CLI::IsMember(names));
  verb->add_option("codec", options->named, "of 'codecs' and 'coverage': only these codecs");
  verb->add_flag("--coverage", options->coverage, "the same as 'list coverage': codec x kernel x instruction set");
  verb->add_flag("--json", options->json, "JSON on stdout");
  add_codec_libraries(*verb, line);
  verb->callback([options, &line] {
    line.action = [options] {
      if (options->coverage && options->what.empty()) options->what = "coverage";
      if (options->what.empty())
        throw UsageError(
            "'ecmv list' needs to know what: codecs, backends, devices, datasets, metrics, coverage or configs.");
      if (!options->named.empty() && options->what != "codecs" && options->what != "coverage")
        throw UsageError(fmt::format("'ecmv list {}' takes no names of codecs.", options->what));
      const std::vector<Table> tables = kLists.at(options->what)(options->named);
      if (options->json) {
        nlohmann::ordered_json all;
        for (const Table& table : tables) all[table.id] = table_json(table);
        std::cout << json_text(all) << "\n";
      } else {
        for (const Table& table : tables) std::cout << reports::to_text(table) << "\n";
      }
      return static_cast<int>(kFine);
    };
  });
}

}  // namespace ecmv::experiments
