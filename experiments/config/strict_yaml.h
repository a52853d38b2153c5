// Strict reading over yaml-cpp, which accepts duplicate keys silently, does not know unknown keys and gives missing
// ones no position. Every error is collected as "place: sentence", so that all are shown at once; the place is
// "file:line:column", or the flag that a value came from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <yaml-cpp/yaml.h>

namespace ecmv::experiments {

class YamlErrors {
 public:
  // Names the place of a line and column, both from 0; -1 if unknown.
  using Place = std::function<std::string(int line, int column)>;
  explicit YamlErrors(Place place) : place_(std::move(place)) {}
  void add(const YAML::Node& where, const std::string& sentence);
  // Each message once: the first hundred, and a sentence about the others.
  const std::vector<std::string>& messages() const { return messages_; }
  size_t count() const { return count_; }

  // Sentences about what is no error, each once: what a file lacks, or what is left out of it.
  void remark(const std::string& sentence) {
    if (std::ranges::find(remarks_, sentence) == remarks_.end()) remarks_.push_back(sentence);
  }
  const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  Place place_;
  std::vector<std::string> messages_, remarks_;
  size_t count_ = 0, hidden_ = 0;
};

// Loads the only document of a text. Throws YAML::Exception for invalid YAML and for several documents. (YAML::LoadAll
// would never return from some texts, in which the parser finds documents without end.)
YAML::Node load_document(const std::string& text);

// Throws YAML::Exception unless the tree can be walked and copied: an alias may lead back into itself, and aliases of
// aliases grow without bound. Call it first on everything that was parsed.
void expect_finite(const YAML::Node& root);

// A scalar with this place, which a cloned node would lose.
YAML::Node scalar_at(const YAML::Mark& mark, const std::string& text);

// `node` must be a map with keys among `allowed` only, each once. Returns whether it is a map at all, so that a caller
// can go on and find its other errors; it must skip foreign keys, which have been reported. A null node is no map,
// without an error.
bool check_map(const YAML::Node& node, std::string_view what, std::span<const std::string_view> allowed,
               YamlErrors& errors);

// The value of a key, or an undefined node. Use after check_map.
YAML::Node child(const YAML::Node& map, std::string_view key);

// Exact reading: "010" is not 8, "1e6" is not an integer, "yes" is not a number. nullopt and an error otherwise.
std::optional<int64_t> read_integer(const YAML::Node& node, std::string_view what, int64_t min, int64_t max,
                                    YamlErrors& errors);
std::optional<double> read_number(const YAML::Node& node, std::string_view what, YamlErrors& errors);
std::optional<std::string> read_text(const YAML::Node& node, std::string_view what, YamlErrors& errors);

// Reads a list axis: a scalar is a list of one; {pow2: [11, 13]} is 2048, 4096, 8192; {range: [lo, hi, step]} includes
// hi if the steps reach it. Every element stays a scalar node with its position. Empty lists are errors.
std::vector<YAML::Node> read_axis(const YAML::Node& node, std::string_view what, YamlErrors& errors);

// More cases are surely a mistake, and would fill the memory before anybody sees it.
inline constexpr size_t kMostCases = 100'000;

// One axis of a product: a key and its values.
struct ListedAxis {
  std::string key;
  std::vector<YAML::Node> values;
};

// The value of `zip`: names of axes of one length.
std::vector<std::string> read_zip(const YAML::Node& node, const std::vector<ListedAxis>& axes, YamlErrors& errors);

// Whether there are more combinations than a config may have, which is reported as an error.
bool too_many(const std::vector<ListedAxis>& axes, const std::vector<std::string>& zip, std::string_view what,
              const YAML::Node& where, YamlErrors& errors);

// Every combination of the axes, the first axis slowest. Axes named in `zip` advance together.
std::vector<std::map<std::string, YAML::Node>> product(const std::vector<ListedAxis>& axes,
                                                       const std::vector<std::string>& zip);

}  // namespace ecmv::experiments
