// Strict reading over yaml-cpp, which accepts duplicate keys silently, knows no unknown keys and gives missing ones no
// position. Every problem is collected as "file:line:column: sentence", so that all are shown at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <yaml-cpp/yaml.h>

namespace ecmv::experiments {

class YamlErrors {
 public:
  explicit YamlErrors(std::string file) : file_(std::move(file)) {}
  void add(const YAML::Node& where, const std::string& sentence);
  // The first hundred, and a sentence about the others.
  const std::vector<std::string>& messages() const { return messages_; }
  size_t count() const { return count_; }

 private:
  std::string file_;
  std::vector<std::string> messages_;
  size_t count_ = 0;
};

// The one document of a text. Throws YAML::Exception for no YAML and for several documents. YAML::LoadAll would never
// return from some texts, in which the parser finds documents without end.
YAML::Node load_document(const std::string& text);

// Throws YAML::Exception unless the tree can be walked and copied: an alias may lead back into itself, and aliases of
// aliases grow without bound. Call it with whatever was parsed before anything else is done with it.
void expect_finite(const YAML::Node& root);

// `node` must be a map with keys among `allowed` only, each once. Returns whether it is a map at all, so that a caller
// goes on and finds what else is wrong in it; foreign keys are errors already and must be passed over. A null node is
// no map, without an error.
bool check_map(const YAML::Node& node, std::string_view what, std::span<const std::string_view> allowed,
               YamlErrors& errors);

// The value of a key, or an undefined node. Use after check_map.
YAML::Node child(const YAML::Node& map, std::string_view key);

// Exact reading: "010" is not 8, "1e6" is not an integer, "yes" is not a number. nullopt and an error otherwise.
std::optional<int64_t> read_integer(const YAML::Node& node, std::string_view what, int64_t min, int64_t max,
                                    YamlErrors& errors);
std::optional<double> read_number(const YAML::Node& node, std::string_view what, YamlErrors& errors);
std::optional<std::string> read_text(const YAML::Node& node, std::string_view what, YamlErrors& errors);

// A list axis: a scalar is a list of one; {pow2: [11, 13]} is 2048, 4096, 8192; {range: [lo, hi, step]} includes hi
// where the steps meet it. Every element stays a scalar node with its position. Empty lists are errors.
std::vector<YAML::Node> read_axis(const YAML::Node& node, std::string_view what, YamlErrors& errors);

}  // namespace ecmv::experiments
