// Claims about config.schema.json, with which editors check and complete configs: it describes the input of the reader.
#include <sys/wait.h>
#include <algorithm>

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "datasets/source.h"
#include "experiments/config/axes.h"
#include "experiments/config/experiment.h"
#include "tests/experiments/test_codecs.h"

using namespace ecmv;
using namespace ecmv::experiments;

namespace {

namespace fs = std::filesystem;
const fs::path kExperiments = fs::path(ECMV_SOURCE_DIR) / "experiments";

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

using Json = nlohmann::ordered_json;

const fs::path kSchema = kExperiments / "config.schema.json";

nlohmann::json schema() { return nlohmann::json::parse(text_of(kSchema)); }

// The schema of an axis: the words or numbers that the reader takes for it.
Json schema_of(const KernelAxis& axis) {
  Json json = {{"description", axis.help}, {"default", axis.fallback}};
  const auto alone_or_listed = [&](const Json& one, const Json& listed) {
    json["anyOf"] = one;
    json["anyOf"].push_back({{"type", "array"}, {"minItems", 1}, {"items", listed}});
  };
  const Json counts = {{"$ref", "#/$defs/counts"}};
  if (std::holds_alternative<std::vector<int64_t> KernelChoice::*>(axis.field)) {
    if (axis.words.empty()) {
      json.update(counts);
      json["default"] = std::stoi(std::string(axis.fallback));
    } else {
      const Json word = {{"const", axis.words.front()}};
      const Json number = {{"type", "integer"}, {"minimum", axis.least}, {"maximum", axis.most}};
      alone_or_listed({word, counts}, {{"anyOf", {word, number}}});
    }
  } else if (axis.words.empty() || axis.names != nullptr) {
    json["$ref"] = "#/$defs/words";
  } else if (const Json words = {{"enum", axis.words}};
             std::holds_alternative<std::string KernelChoice::*>(axis.field)) {
    json.update(words);
  } else {
    alone_or_listed(Json::array({words}), words);
  }
  return json;
}

// The parts of the schema that follow from the table of axes.
Json kernels_of_the_table() {
  Json properties = Json::object();
  for (const KernelAxis& axis : kernel_axes()) {
    properties[std::string(axis.key)] = schema_of(axis);
    if (axis.old_key.empty()) continue;
    Json& old = properties[std::string(axis.old_key)] = schema_of(axis);
    old["description"] = "The old word for " + std::string(axis.key) + ".";
    old["deprecated"] = true;
  }
  return properties;
}
Json exclude_of_the_table() {
  Json properties = Json::object();
  const Json scalar = {{"$ref", "#/$defs/scalars"}};
  for (const char* key : {"source", "codec", "d", "rows", "cols", "layers", "seed", "quantise"})
    properties[key] = scalar;
  for (const datasets::DataSource& source : datasets::all_sources())
    for (const datasets::ParameterInfo& parameter : source.parameters) properties[std::string(parameter.name)] = scalar;
  for (const KernelAxis& axis : kernel_axes()) {
    if (axis.value == nullptr) continue;
    properties[std::string(axis.key)] = scalar;
    if (!axis.old_key.empty()) properties[std::string(axis.old_key)] = scalar;
  }
  return properties;
}

// A value in one line where it fits 120 columns, else its members in lines of their own.
std::string laid_out(const Json& json, size_t indent, size_t before) {
  std::string line = json.dump(-1, ' ');
  std::string spaced;
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && (i == 0 || line[i - 1] != '\\')) quoted = !quoted;
    spaced += line[i];
    if (!quoted && (line[i] == ',' || line[i] == ':')) spaced += ' ';
  }
  if (!json.is_structured() || json.empty() || indent + before + spaced.size() <= 118) return spaced;
  std::string text;
  for (const auto& [key, value] : json.items()) {
    const std::string name = json.is_object() ? Json(key).dump() + ": " : "";
    text += (text.empty() ? "" : ",") + std::string("\n") + std::string(indent + 2, ' ') + name +
            laid_out(value, indent + 2, name.size());
  }
  return (json.is_object() ? "{" : "[") + text + "\n" + std::string(indent, ' ') + (json.is_object() ? "}" : "]");
}

std::set<std::string> keys_of(const nlohmann::json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.at("properties").items()) keys.insert(key);
  return keys;
}

// Every word that could be a key for the reader of configs: the texts of its sources.
std::set<std::string> words_of_the_reader() {
  static const std::regex quoted("\"([a-z][a-z0-9_]*)\"");
  std::set<std::string> words = {"no_such_key"};
  for (const char* name : {"axes.cpp", "experiment.cpp", "read_block.cpp", "expand.cpp", "strict_yaml.cpp"}) {
    const std::string text = text_of(kExperiments / "config" / name);
    for (std::sregex_iterator i(text.begin(), text.end(), quoted), end; i != end; ++i) words.insert((*i)[1]);
  }
  return words;
}

// A config with one more key in the map of that name.
std::string config_with(const std::string& map, const std::string& key) {
  const auto more = [&](const char* name, const char* before) {
    return map == name ? before + key + ": 1" : std::string();
  };
  return "schema: 1\nname: x\nmeasure: {repetitions: 1" + more("measure", ", ") + "}\n" +
         (map == "root" ? key + ": 1\n" : "") + "experiments:\n  - data: {source: gaussian, d: 4" + more("data", ", ") +
         "}\n    codecs: all\n    kernels: {op: decode" + more("kernels", ", ") + "}\n    exclude: [{codec: none" +
         more("exclude", ", ") + "}]\n" + (map == "block" ? "    " + key + ": 1\n" : "");
}

bool reader_knows(const std::string& map, const std::string& key) {
  static const codecs::Codec plain = tests::make_codec();
  static const std::vector<codecs::CodecEntry> entries = {{"plain", &plain, {}, {}}};
  try {
    parse_experiment(config_with(map, key), "x.yaml", {}, entries);
  } catch (const ConfigError& error) {
    for (const std::string& message : error.messages)
      if (message.find("has no key '" + key + "'") != std::string::npos) return false;
  }
  return true;
}

int run(const std::string& command) {
  const int status = std::system((command + " 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("the schema of configs describes the axes of kernels as their table does") {
  const std::string text = text_of(kSchema);
  Json root = Json::parse(text);
  root["$defs"]["kernels"]["properties"] = kernels_of_the_table();
  root["$defs"]["exclude"]["properties"] = exclude_of_the_table();
  const std::string expected = laid_out(root, 0, 0) + "\n";
  if (std::getenv("ECMV_WRITE_SCHEMA") != nullptr) std::ofstream(kSchema, std::ios::binary) << expected;
  INFO("ECMV_WRITE_SCHEMA=1 writes the file anew.");
  CHECK((text == expected || std::getenv("ECMV_WRITE_SCHEMA") != nullptr));
}

TEST_CASE("a kernel's axes have the defaults that the table tells") {
  const auto config = [](const std::string& kernels) {
    return "schema: 1\nname: x\nexperiments:\n  - data: {source: gaussian, sigma: 4, d: 4}\n    codecs: all\n    "
           "kernels: {" +
           kernels + "}\n";
  };
  static const codecs::Codec plain = tests::make_codec();
  static const std::vector<codecs::CodecEntry> entries = {{"plain", &plain, {}, {}}};
  const auto names = [&](const std::string& kernels) {
    std::vector<std::string> all;
    for (const Case& one : parse_experiment(config(kernels), "x.yaml", {}, entries).cases) all.push_back(one.name());
    return all;
  };
  std::string fallbacks = "op: matmul";
  for (const KernelAxis& axis : kernel_axes())
    if (axis.key != "op" && axis.key != "repeat") fallbacks += fmt::format(", {}: {}", axis.key, axis.fallback);
  CHECK(names(fallbacks) == names("op: matmul"));
  CHECK(names("op: matvec") == names(""));
}

TEST_CASE("the schema of configs has exactly the keys that the reader takes") {
  const nlohmann::json root = schema(), &parts = root.at("$defs");
  const std::map<std::string, nlohmann::json> maps = {{"root", root},
                                                      {"measure", root.at("properties").at("measure")},
                                                      {"block", parts.at("block")},
                                                      {"data", parts.at("data")},
                                                      {"kernels", parts.at("kernels")},
                                                      {"exclude", parts.at("exclude")}};
  const std::set<std::string> words = words_of_the_reader();
  REQUIRE(words.size() > 40);
  for (const auto& [map, object] : maps) {
    INFO("in the map " << map);
    std::set<std::string> known;
    for (const std::string& word : words)
      if (reader_knows(map, word)) known.insert(word);
    CHECK_FALSE(known.contains("no_such_key"));
    // The schema leaves the parameters of sources open.
    if (map == "data")
      for (const auto& parameter : datasets::find_source("gaussian")->parameters)
        known.erase(std::string(parameter.name));
    const std::set<std::string> described = keys_of(object);
    // Rules take parameters of sources, too, whose names the reader does not write out.
    if (map == "exclude")
      CHECK(std::ranges::includes(described, known));
    else
      CHECK(described == known);
    CHECK(object.at("additionalProperties") != true);
  }
}

TEST_CASE("every config that comes along names the schema and keeps it") {
  static const std::regex line("^# yaml-language-server: \\$schema=\\.\\./config\\.schema\\.json\n");
  std::string files;
  for (const auto& entry : fs::directory_iterator(kExperiments / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    INFO(entry.path().string());
    CHECK(std::regex_search(text_of(entry.path()), line));
    files += " '" + entry.path().string() + "'";
  }
  if (run("python3 -c 'import jsonschema, yaml'") != 0)
    SKIP("There is no python3 with jsonschema and yaml, which check configs against the schema.");
  CHECK(run("python3 -c 'import json, sys, yaml, jsonschema\n"
            "schema = json.load(open(sys.argv[1]))\n"
            "jsonschema.Draft202012Validator.check_schema(schema)\n"
            "for name in sys.argv[2:]: jsonschema.validate(yaml.safe_load(open(name)), schema)' '" +
            (kExperiments / "config.schema.json").string() + "'" + files) == 0);
}
