// ecmv list: shows codecs, backends, devices and the like. Everything is first put into JSON with real booleans,
// numbers and lists; the tables for people are made from that.
#include <iostream>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "backends/backend.h"
#include "codecs/did_you_mean.h"
#include "codecs/registry.h"
#include "datasets/quantisers/quantisers.h"
#include "experiments/command/command.h"
#include "experiments/config/known_configs.h"
#include "experiments/output/own_stdout.h"
#include "experiments/output/table_json.h"
#include "experiments/output/terminal_table.h"
#include "experiments/plan/coverage.h"
#include "reports/fields.h"
#include "reports/tables/tables.h"

namespace ecmv::experiments {
namespace {

using Json = nlohmann::ordered_json;
using reports::Column;
using reports::Table;

// The codecs to list; empty: all.
using Named = std::span<const std::string>;

std::vector<codecs::CodecEntry> chosen_codecs(Named named) {
  const auto all = codecs::all_codecs();
  if (named.empty() || (named.size() == 1 && named[0] == "all")) return {all.begin(), all.end()};
  std::vector<codecs::CodecEntry> chosen;
  std::vector<std::string_view> known;
  for (const codecs::CodecEntry& entry : all) known.push_back(entry.id);
  for (const std::string& id : named) {
    const codecs::CodecEntry* entry = codecs::find_codec(id);
    if (entry == nullptr)
      throw UsageError(fmt::format("There is no codec '{}'.{} 'ecmv list codecs' has them all.", id,
                                   codecs::did_you_mean(id, known)));
    chosen.push_back(*entry);
  }
  return chosen;
}

Json json_of(const backends::SettingValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Json json_of(const codecs::SettingInfo& info) {
  Json setting = {{"setting", info.name}, {"default", json_of(info.default_value)}};
  if (!info.choices.empty())
    setting["values"] = info.choices;
  else if (!info.values.empty())
    setting["values"] = info.values;
  else
    setting["min"] = info.min, setting["max"] = info.max;
  if (!info.open.empty()) setting["open"] = info.open;
  setting["unit"] = info.unit;
  setting["help"] = info.help;
  return setting;
}

Json json_of(const codecs::CodecEntry& entry) {
  const codecs::Codec& codec = *entry.codec;
  Json kernels = Json::array(), settings = Json::array();
  for (const backends::Backend& backend : backends::all_backends())
    for (const backends::Kernel& kernel : entry.kernels(backend.id)) {
      Json policies = Json::array();
      for (const backends::Policy& policy : kernel.policies) policies.push_back(policy.name);
      kernels.push_back({{"backend", backend.id},
                         {"op", backends::op_name(kernel.op)},
                         {"variant", kernel.variant},
                         {"policies", policies}});
    }
  for (const codecs::SettingInfo& info : codec.settings) settings.push_back(json_of(info));
  Json json = {{"codec", entry.id},
               {"summary", codec.summary},
               {"source", codec.source},
               {"lossless", codec.lossless},
               {"format_version", codec.format_version},
               {"loaded", entry.loaded()},
               {"settings", settings},
               {"kernels", kernels}};
  if (codec.unavailable != nullptr)
    if (const std::string reason = codec.unavailable(); !reason.empty()) json["unavailable"] = reason;
  if (entry.loaded()) json["library"] = {{"path", entry.library_path}, {"hash", entry.library_hash}};
  return json;
}

Json codecs_json(Named named) {
  Json codecs = Json::array();
  for (const codecs::CodecEntry& entry : chosen_codecs(named)) codecs.push_back(json_of(entry));
  return {{"codecs", codecs}};
}

Json devices_json(bool devices_too) {
  Json backends = Json::array(), devices = Json::array();
  const auto known = [](int64_t number) { return number == 0 ? Json(nullptr) : Json(number); };
  for (const backends::Backend& backend : backends::all_backends()) {
    bool available = false;
    std::string reason = "no device found";
    for (const backends::DeviceInfo& info : backend.devices()) {
      if (!available) reason = info.unavailable;
      available |= info.unavailable.empty();
      devices.push_back({{"backend", info.backend},
                         {"device", info.name},
                         {"simd_target", info.simd_target},
                         {"available", info.unavailable.empty()},
                         {"reason", info.unavailable},
                         {"threads", info.threads},
                         {"units", known(info.compute_units)},
                         {"clock_hz", info.clock_hz > 0 ? Json(info.clock_hz) : Json(nullptr)},
                         {"l1d_bytes", known(info.l1d_bytes)},
                         {"l2_bytes", known(info.l2_bytes)},
                         {"llc_bytes", known(info.llc_bytes)},
                         {"memory_bytes", known(info.memory_bytes)},
                         {"driver", info.driver}});
    }
    backends.push_back(
        {{"backend", backend.id}, {"summary", backend.summary}, {"available", available}, {"reason", reason}});
  }
  return devices_too ? Json{{"devices", devices}} : Json{{"backends", backends}};
}

Json datasets_json() {
  Json sources = Json::array(), parameters = Json::array(), quantisers = Json::array(),
       quantiser_parameters = Json::array();
  const auto known = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  const auto add_parameters = [&](Json& list, const char* key, const auto& owner) {
    for (const datasets::ParameterInfo& info : owner.parameters)
      list.push_back({{key, owner.id},
                      {"parameter", info.name},
                      {"type", info.is_text      ? "text"
                               : info.is_integer ? "integer"
                                                 : "number"},
                      {"required", info.required},
                      {"default", info.default_text.empty() ? known(info.default_value) : Json(info.default_text)},
                      {"min", known(info.min)},
                      {"max", known(info.max)},
                      {"help", info.help}});
  };
  for (const datasets::DataSource& source : datasets::all_sources()) {
    sources.push_back({{"source", source.id},
                       {"summary", source.summary},
                       {"shape", source.uses_shape ? "d or shapes" : "of the file"}});
    add_parameters(parameters, "source", source);
  }
  for (const datasets::Quantiser& quantiser : datasets::all_quantisers()) {
    quantisers.push_back({{"quantiser", quantiser.id}, {"summary", quantiser.summary}});
    add_parameters(quantiser_parameters, "quantiser", quantiser);
  }
  return {{"datasets", sources},
          {"parameters", parameters},
          {"quantisers", quantisers},
          {"quantiser_parameters", quantiser_parameters}};
}

// One row for each codec, kernel, policy and instruction set.
Json coverage_json(Named named) {
  Json rows = Json::array();
  for (const CoverageEntry& entry : coverage(chosen_codecs(named)))
    rows.push_back({{"codec", entry.codec},
                    {"loaded", codecs::find_codec(entry.codec)->loaded()},
                    {"op", entry.op},
                    {"backend", entry.backend},
                    {"simd_target", entry.simd_target},
                    {"activations", entry.activations},
                    {"variant", entry.variant},
                    {"policy", entry.policy},
                    {"unfused", entry.unfused},
                    {"state", entry.status},
                    {"reason", entry.reason}});
  return {{"coverage", rows}};
}

Json configs_json() {
  Json configs = Json::array();
  for (const KnownConfig& config : known_configs())
    configs.push_back({{"config", config.name}, {"question", config.question}});
  return {{"configs", configs}};
}

Json metrics_json() { return {{"metrics", table_json(reports::metrics_table())}}; }

// --- for people ------------------------------------------------------------------------------------------------------

std::string text_of(const std::string& key, const Json& value) {
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return value.get<std::string>();
  if (key.ends_with("_bytes")) return reports::bytes_text(value.get<double>());
  if (key.ends_with("_hz")) return fmt::format("{:.3g} GHz", value.get<double>() / 1e9);
  if (!value.is_array()) return fmt::format("{}", value.get<double>());
  std::string list;
  for (const Json& item : value) list += (list.empty() ? "" : ", ") + text_of(key, item);
  return list;
}

// Leaves out empty columns.
Table table_of(const std::string& title, const Json& rows) {
  Table table;
  table.title = title;
  std::vector<std::string> keys;
  for (const auto& [key, first] : rows.at(0).items()) {
    bool any = false, numbers = true;
    for (const Json& row : rows) {
      any |= !text_of(key, row.at(key)).empty();
      numbers &= row.at(key).is_number() || row.at(key).is_null();
    }
    if (!any) continue;
    keys.push_back(key);
    table.columns.push_back({key, key, "", numbers ? Column::Align::right : Column::Align::left});
  }
  for (const Json& row : rows) {
    std::vector<reports::Cell>& cells = table.rows.emplace_back();
    for (const std::string& key : keys) cells.push_back(reports::text_cell(text_of(key, row.at(key))));
  }
  return table;
}

std::string marked_name(const Json& codec) {
  return codec["codec"].get<std::string>() + (codec["loaded"].get<bool>() ? " (loaded)" : "");
}

// Prints a line each.
void print_codecs(const Json& codecs, size_t columns, std::ostream& out) {
  size_t names = 0, places = 0;
  std::vector<std::string> backends;
  for (const Json& codec : codecs) {
    std::string& list = backends.emplace_back();
    for (const Json& kernel : codec["kernels"])
      if (const std::string backend = kernel["backend"]; list.find(backend) == std::string::npos)
        list += (list.empty() ? "" : " ") + backend;
    names = std::max(names, marked_name(codec).size());
    places = std::max(places, list.size());
  }
  out << fmt::format("{} codecs and the backends that run them\n", codecs.size());
  for (size_t i = 0; i < codecs.size(); ++i) {
    std::string line = fmt::format("{:{}}  {:{}}  {}", marked_name(codecs[i]), names, backends[i], places,
                                   codecs[i]["summary"].get<std::string>());
    if (shown_width(line) > columns) line = wrapped(line, columns - 1).front() + "…";
    out << line << "\n";
  }
  for (const Json& codec : codecs)
    if (codec["loaded"].get<bool>())
      out << fmt::format("{} is from {}\n", codec["codec"].get<std::string>(),
                         codec["library"]["path"].get<std::string>());
  out << "For settings and kernels of a codec: ecmv list codecs NAME\n";
}

void print_codec(const Json& codec, size_t columns, std::ostream& out) {
  const auto line = [&](const std::string& name, const std::string& text, size_t indent) {
    const size_t room = columns - std::min(columns / 2, indent);
    std::string head = name + std::string(indent - std::min(indent, shown_width(name)), ' ');
    for (const std::string& part : wrapped(text, room)) {
      const std::string whole = head + part;
      out << whole.substr(0, whole.find_last_not_of(' ') + 1) << "\n";
      head.assign(indent, ' ');
    }
  };
  line(marked_name(codec) + ": ", codec["summary"], marked_name(codec).size() + 2);
  line("  source", codec["source"], 12);
  line("  stored",
       fmt::format("{}, format version {}", codec["lossless"].get<bool>() ? "lossless" : "lossy",
                   codec["format_version"].get<int>()),
       12);
  if (codec.contains("unavailable")) line("  unavailable", codec["unavailable"], 15);
  if (codec["loaded"].get<bool>())  // paths are not broken, so that they can be copied
    out << fmt::format("  library   {}\n            hash {}\n", codec["library"]["path"].get<std::string>(),
                       codec["library"]["hash"].get<std::string>());
  out << (codec["settings"].empty() ? "  no settings\n" : "  settings, the default first\n");
  for (const Json& setting : codec["settings"]) {
    const std::string range = setting.contains("values") ? "of " + text_of("", setting["values"])
                                                         : fmt::format("{} to {}", setting["min"].get<int64_t>(),
                                                                       setting["max"].get<int64_t>());
    const std::string unit = setting["unit"].get<std::string>();
    line(fmt::format("    {}={}  ", setting["setting"].get<std::string>(), text_of("", setting["default"])),
         fmt::format("{}{}", range, unit.empty() ? "" : " " + unit), 30);
    line("", setting["help"], 8);
  }
  out << (codec["kernels"].empty() ? "  no kernels: the reference decoder, then the harness's product\n"
                                   : "  kernels\n");
  for (const Json& kernel : codec["kernels"]) {
    const std::string policies = text_of("", kernel["policies"]);
    line(fmt::format("    {} {} {}  ", kernel["backend"].get<std::string>(), kernel["op"].get<std::string>(),
                     kernel["variant"].get<std::string>()),
         policies == "default" ? " " : policies, 30);
  }
}

// Joins the parts of a kernel's name, as in names of cases.
void print_coverage(const Json& rows, size_t columns, std::ostream& out) {
  Json shown = Json::array();
  for (const Json& row : rows) {
    const auto part = [&](const char* key) { return row[key].get<std::string>(); };
    const std::string target = part("simd_target").empty() ? "" : ":" + part("simd_target");
    shown.push_back(
        {{"codec", marked_name(row)},
         {"kernel", fmt::format("{}{}/{}{}/{}{}/{}", part("backend"), target, part("op"),
                                part("activations") == "bf16" ? ":bf16" : "",
                                row["unfused"].get<bool>() ? "unfused_" : "", part("variant"), part("policy"))},
         {"state", part("state")},
         {"reason", part("reason")}});
  }
  if (!shown.empty()) out << fitted_text(table_of("Kernels on this machine", shown), columns) << "\n";
}

void print_list(const std::string& what, const Json& json, bool named) {
  const size_t columns = terminal_columns();
  if (what == "codecs") {
    if (!named) return print_codecs(json["codecs"], columns, OwnStdout::stream());
    for (const Json& codec : json["codecs"]) print_codec(codec, columns, OwnStdout::stream());
    return;
  }
  if (what == "coverage") return print_coverage(json["coverage"], columns, OwnStdout::stream());
  static const std::map<std::string, std::string> kTitles = {{"backends", "Backends"},
                                                             {"configs", "Built-in configs of run and verify"},
                                                             {"datasets", "Data sources"},
                                                             {"devices", "Devices"},
                                                             {"metrics", "What the metrics mean"},
                                                             {"quantisers", "Quantisers of float sources"},
                                                             {"quantiser_parameters", "Parameters of quantisers"},
                                                             {"parameters", "Parameters of data sources"}};
  for (const auto& [id, rows] : json.items())
    if (!rows.empty()) OwnStdout::stream() << fitted_text(table_of(kTitles.at(id), rows), columns) << "\n";
}

}  // namespace

void add_list(CLI::App& app, CommandLine& line) {
  static const std::map<std::string, std::function<Json(Named)>> kLists = {
      {"codecs", codecs_json},
      {"backends", [](Named) { return devices_json(false); }},
      {"devices", [](Named) { return devices_json(true); }},
      {"datasets", [](Named) { return datasets_json(); }},
      {"metrics", [](Named) { return metrics_json(); }},
      {"coverage", coverage_json},
      {"configs", [](Named) { return configs_json(); }},
  };
  struct Options {
    std::string what;
    std::vector<std::string> named;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb =
      app.add_subcommand("list", "lists codecs, backends, devices, datasets, metrics, coverage or configs");
  std::vector<std::string_view> names;
  for (const auto& [name, json] : kLists) names.push_back(name);
  const std::string known = fmt::format("{}", fmt::join(names, ", "));
  verb->add_option("what", options->what, known);
  verb->add_option("codec", options->named, "of 'codecs' and 'coverage': these codecs, in full; 'all'");
  verb->add_flag("--json", options->json, "JSON on stdout");
  add_codec_libraries(*verb, line);
  verb->callback([options, names, known, &line] {
    line.action = [options, names, known] {
      if (options->what.empty()) throw UsageError(fmt::format("'ecmv list' needs to know what: {}.", known));
      if (!kLists.contains(options->what))
        throw UsageError(fmt::format("There is no list '{}'; the lists are {}.{}", options->what, known,
                                     codecs::did_you_mean(options->what, names)));
      if (!options->named.empty() && options->what != "codecs" && options->what != "coverage")
        throw UsageError(fmt::format("'ecmv list {}' takes no codec names.", options->what));
      const Json json = kLists.at(options->what)(options->named);
      if (options->json)
        OwnStdout::stream() << json_text(json) << "\n";
      else
        print_list(options->what, json, !options->named.empty());
      return static_cast<int>(kFine);
    };
  });
}

}  // namespace ecmv::experiments
