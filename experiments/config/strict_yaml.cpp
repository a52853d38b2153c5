// See strict_yaml.h.
#include "experiments/config/strict_yaml.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/eventhandler.h>

#include "codecs/did_you_mean.h"
#include "datasets/printable.h"

namespace ecmv::experiments {
namespace {

constexpr int64_t kMaxAxis = 10'000;  // values of one axis; more are surely a mistake

std::vector<YAML::Node> generated(const YAML::Node& node, std::string_view what, YamlErrors& errors) {
  static constexpr std::string_view kAllowed[] = {"pow2", "range"};
  std::vector<YAML::Node> out;
  if (!check_map(node, what, kAllowed, errors)) return out;
  if (node.size() != 1) return errors.add(node, fmt::format("'{}' takes either pow2 or range.", what)), out;
  const YAML::Node pow2 = child(node, "pow2"), range = child(node, "range");
  if (!pow2.IsDefined() && !range.IsDefined()) return out;
  const YAML::Node list = pow2.IsDefined() ? pow2 : range;
  const size_t wanted = pow2.IsDefined() ? 2 : 3;
  if (!list.IsSequence() || list.size() != wanted) {
    errors.add(list,
               pow2.IsDefined() ? "pow2 takes [first exponent, last exponent]." : "range takes [first, last, step].");
    return out;
  }
  if (pow2.IsDefined()) {
    const auto low = read_integer(list[0], "pow2", 0, 40, errors), high = read_integer(list[1], "pow2", 0, 40, errors);
    if (!low || !high) return out;
    if (*low > *high) errors.add(list, "pow2's first exponent is greater than its last.");
    for (int64_t e = *low; e <= *high; ++e) out.push_back(scalar_at(list.Mark(), std::to_string(int64_t{1} << e)));
    return out;
  }
  const auto low = read_number(list[0], "range", errors), high = read_number(list[1], "range", errors),
             step = read_number(list[2], "range", errors);
  if (!low || !high || !step) return out;
  const double count = (*high - *low) / *step;
  if (!(*step > 0) || !(count >= 0) || count > kMaxAxis) {
    errors.add(list, fmt::format("range needs first <= last, step > 0 and at most {} values.", kMaxAxis));
    return out;
  }
  for (int64_t i = 0; i <= static_cast<int64_t>(std::floor(count + 1e-9)); ++i)
    out.push_back(scalar_at(list.Mark(), fmt::format("{}", *low + static_cast<double>(i) * *step)));
  return out;
}

// The keys that a wrong one may stand for; if none is near, all of them, unless they are too many to read.
std::string meant_or_known(std::string_view key, std::span<const std::string_view> allowed) {
  constexpr size_t kReadable = 20;
  const std::string meant = codecs::did_you_mean(key, allowed);
  if (!meant.empty() || allowed.size() > kReadable) return meant;
  return allowed.empty() ? " It has none." : fmt::format(" Its keys are {}.", fmt::join(allowed, ", "));
}

// Only looks where a document begins and whether it is empty.
class Presence final : public YAML::EventHandler {
 public:
  YAML::Mark begin;
  bool something = false;
  void OnDocumentStart(const YAML::Mark& mark) override { begin = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override { something = true; }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {
    something = true;
  }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    something = true;
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    something = true;
  }
  void OnMapEnd() override {}
};

constexpr int kDeepestNode = 64;
constexpr int64_t kMostNodes = 250'000;

void count_nodes(const YAML::Node& node, int depth, int64_t& count) {
  if (depth > kDeepestNode)
    throw YAML::Exception(node.Mark(),
                          fmt::format("it is nested more than {} deep, or an alias contains itself", kDeepestNode));
  if (++count > kMostNodes)
    throw YAML::Exception(node.Mark(), fmt::format("it has more than {} values, aliases written out", kMostNodes));
  if (node.IsSequence())
    for (const YAML::Node& item : node) count_nodes(item, depth + 1, count);
  if (node.IsMap())
    for (const auto& pair : node) {
      count_nodes(pair.first, depth + 1, count);
      count_nodes(pair.second, depth + 1, count);
    }
}

}  // namespace

YAML::Node load_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Presence first, second;
  if (parser.HandleNextDocument(first) && parser.HandleNextDocument(second) && second.something)
    throw YAML::Exception(second.begin, "one YAML document is wanted, and here a second one begins");
  return YAML::Load(text);
}

void expect_finite(const YAML::Node& root) {
  int64_t count = 0;
  count_nodes(root, 0, count);
}

YAML::Node scalar_at(const YAML::Mark& mark, const std::string& text) {
  constexpr int kLines = 10'000;  // beyond, the place is not worth the time
  if (mark.is_null() || mark.line > kLines || mark.column > kLines) return YAML::Node(text);
  YAML::Node node = YAML::Load(std::string(static_cast<size_t>(mark.line), '\n') +
                               std::string(static_cast<size_t>(mark.column), ' ') + "x");
  node = text;
  return node;
}

void YamlErrors::add(const YAML::Node& where, const std::string& sentence) {
  constexpr size_t kShown = 100;
  ++count_;
  const YAML::Mark mark = where.IsDefined() ? where.Mark() : YAML::Mark::null_mark();
  const std::string message = datasets::printable(fmt::format("{}: {}", place_(mark.line, mark.column), sentence));
  if (std::find(messages_.begin(), messages_.end(), message) != messages_.end()) return;
  if (messages_.size() < kShown) return messages_.push_back(message);
  messages_.resize(kShown);
  messages_.push_back(fmt::format("{}: {} more errors are not shown.", place_(-1, -1), ++hidden_));
}

bool check_map(const YAML::Node& node, std::string_view what, std::span<const std::string_view> allowed,
               YamlErrors& errors) {
  if (!node.IsDefined() || node.IsNull()) return false;
  if (!node.IsMap()) {
    errors.add(node, fmt::format("'{}' must be a map of keys and values.", what));
    return false;
  }
  std::set<std::string> seen;
  for (const auto& pair : node) {
    const std::string key = pair.first.IsScalar() ? pair.first.Scalar() : "?";
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) {
      errors.add(pair.first.Mark().is_null() ? pair.second : pair.first,
                 fmt::format("'{}' has no key '{}'.{}", what, key, meant_or_known(key, allowed)));
    } else if (!seen.insert(key).second) {
      errors.add(pair.first, fmt::format("The key '{}' stands twice in '{}'.", key, what));
    }
  }
  return true;
}

YAML::Node child(const YAML::Node& map, std::string_view key) {
  if (map.IsDefined() && map.IsMap())
    for (const auto& pair : map)
      if (pair.first.IsScalar() && pair.first.Scalar() == key) return pair.second;
  return YAML::Node(YAML::NodeType::Undefined);
}

std::optional<int64_t> read_integer(const YAML::Node& node, std::string_view what, int64_t min, int64_t max,
                                    YamlErrors& errors) {
  const std::string text = node.IsDefined() && node.IsScalar() ? node.Scalar() : "";
  const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc::result_out_of_range && end == text.data() + text.size()) {
    errors.add(node, fmt::format("'{}' must lie between {} and {}, not {}.", what, min, max, text));
    return std::nullopt;
  }
  if (text.empty() || code != std::errc() || end != text.data() + text.size() ||
      (digits.size() > 1 && digits[0] == '0')) {
    errors.add(node, fmt::format("'{}' must be an integer in plain decimal digits{}.", what,
                                 text.empty() ? "" : ", not '" + text + "'"));
    return std::nullopt;
  }
  if (value < min || value > max) {
    errors.add(node, fmt::format("'{}' must lie between {} and {}, not {}.", what, min, max, value));
    return std::nullopt;
  }
  return value;
}

std::optional<double> read_number(const YAML::Node& node, std::string_view what, YamlErrors& errors) {
  const std::string text = node.IsDefined() && node.IsScalar() ? node.Scalar() : "";
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    errors.add(node, fmt::format("'{}' must be a number{}.", what, text.empty() ? "" : ", not '" + text + "'"));
    return std::nullopt;
  }
  return value;
}

std::optional<std::string> read_text(const YAML::Node& node, std::string_view what, YamlErrors& errors) {
  if (node.IsDefined() && node.IsScalar() && !node.Scalar().empty()) return node.Scalar();
  errors.add(node, fmt::format("'{}' must be a text.", what));
  return std::nullopt;
}

std::vector<YAML::Node> read_axis(const YAML::Node& node, std::string_view what, YamlErrors& errors) {
  if (!node.IsDefined() || node.IsNull()) {
    errors.add(node, fmt::format("'{}' has no value.", what));
    return {};
  }
  if (node.IsScalar()) return {node};
  if (node.IsMap()) return generated(node, what, errors);
  std::vector<YAML::Node> out;
  for (const YAML::Node& item : node) {
    if (item.IsSequence() || item.IsNull()) {
      errors.add(item, fmt::format("An element of the list '{}' must be a single value.", what));
      out.push_back(YAML::Node(""));
    } else if (item.IsMap()) {
      for (const YAML::Node& value : generated(item, what, errors)) out.push_back(value);
    } else {
      out.push_back(item);
    }
  }
  if (out.empty()) errors.add(node, fmt::format("The list '{}' is empty.", what));
  return out;
}

bool too_many(const std::vector<ListedAxis>& axes, const std::vector<std::string>& zip, std::string_view what,
              const YAML::Node& where, YamlErrors& errors) {
  double count = 1;
  for (const ListedAxis& axis : axes)
    if (std::find(zip.begin(), zip.end(), axis.key) == zip.end() || axis.key == zip.front())
      count *= static_cast<double>(axis.values.size());
  if (count <= static_cast<double>(kMostCases)) return false;
  errors.add(where,
             fmt::format("'{}' has {:.6g} combinations; a config may have at most {} cases.", what, count, kMostCases));
  return true;
}

std::vector<std::map<std::string, YAML::Node>> product(const std::vector<ListedAxis>& axes,
                                                       const std::vector<std::string>& zip) {
  std::vector<std::map<std::string, YAML::Node>> out = {{}};
  bool zipped_done = false;
  for (const ListedAxis& axis : axes) {
    const bool zipped = std::find(zip.begin(), zip.end(), axis.key) != zip.end();
    if (zipped && zipped_done) continue;
    std::vector<std::map<std::string, YAML::Node>> next;
    for (const auto& partial : out)
      for (size_t i = 0; i < axis.values.size(); ++i) {
        next.push_back(partial);
        next.back()[axis.key] = axis.values[i];
        if (!zipped) continue;
        for (const ListedAxis& other : axes)
          if (std::find(zip.begin(), zip.end(), other.key) != zip.end()) next.back()[other.key] = other.values[i];
      }
    zipped_done = zipped_done || zipped;
    out = std::move(next);
  }
  return out;
}

std::vector<std::string> read_zip(const YAML::Node& node, const std::vector<ListedAxis>& axes, YamlErrors& errors) {
  std::vector<std::string> zip;
  if (!node.IsDefined()) return zip;
  std::optional<size_t> length;
  for (const YAML::Node& key : read_axis(node, "zip", errors)) {
    const std::string name = read_text(key, "zip", errors).value_or("");
    const auto axis = std::find_if(axes.begin(), axes.end(), [&](const ListedAxis& a) { return a.key == name; });
    if (axis == axes.end())
      errors.add(key, fmt::format("'zip' names '{}', which is no axis of this block.", name));
    else if (length && *length != axis->values.size())
      errors.add(key, fmt::format("The axes in 'zip' must be of one length: '{}' has {} values, another one {}.", name,
                                  axis->values.size(), *length));
    else
      length = axis->values.size(), zip.push_back(name);
  }
  return zip;
}

}  // namespace ecmv::experiments
