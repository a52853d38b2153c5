// Strict reading over yaml-cpp, which accepts duplicate keys silently, knows no unknown keys and gives missing ones no
// position. Every problem is collected as "place: sentence", so that all are shown at once; the place is
// "file:line:column", or the flag that a value came from.
#pragma once

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
  // What to call the place of a line and column, both from 0, and -1 where nothing is known of it.
  using Place = std::function<std::string(int line, int column)>;
  explicit YamlErrors(Place place) : place_(std::move(place)) {}
  void add(const YAML::Node& where, const std::string& sentence);
  // Each once, the first hundred, and a sentence about the others.
  const std::vector<std::string>& messages() const { return messages_; }
  size_t count() const { return count_; }

 private:
  Place place_;
  std::vector<std::string> messages_;
  size_t count_ = 0, hidden_ = 0;
};

// The one document of a text. Throws YAML::Exception for no YAML and for several documents. YAML::LoadAll would never
// return from some texts, in which the parser finds documents without end.
YAML::Node load_document(const std::string& text);

// Throws YAML::Exception unless the tree can be walked and copied: an alias may lead back into itself, and aliases of
// aliases grow without bound. Call it with whatever was parsed before anything else is done with it.
void expect_finite(const YAML::Node& root);

// A scalar as if it had been read at this place: a cloned node would lose it.
YAML::Node scalar_at(const YAML::Mark& mark, const std::string& text);

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

// More is a slip of the pen, and would fill the memory before it could be seen.
inline constexpr size_t kMostCases = 100'000;

// One axis of a product: a key and the values it takes.
struct ListedAxis {
  std::string key;
  std::vector<YAML::Node> values;
};

// The value of `zip`: names of axes of one length.
std::vector<std::string> read_zip(const YAML::Node& node, const std::vector<ListedAxis>& axes, YamlErrors& errors);

// Whether there are more combinations than a config may have; then that is an error.
bool too_many(const std::vector<ListedAxis>& axes, const std::vector<std::string>& zip, std::string_view what,
              const YAML::Node& where, YamlErrors& errors);

// Every combination of the axes, the first axis slowest. Axes named in `zip` advance together.
std::vector<std::map<std::string, YAML::Node>> product(const std::vector<ListedAxis>& axes,
                                                       const std::vector<std::string>& zip);

}  // namespace ecmv::experiments
