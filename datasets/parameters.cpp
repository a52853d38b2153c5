// Checks parameters; see parameters.h.
#include "datasets/parameters.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <sstream>
#include <utility>

namespace ecmv::datasets {
namespace {

std::string shown(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string known_names(std::span<const ParameterInfo> infos) {
  std::string names;
  for (const ParameterInfo& info : infos) {
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  }
  return names.empty() ? "it has none" : "it has " + names;
}

std::string capitalised(std::string text) {
  text[0] = char(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

const ParameterInfo& find_info(const std::string& owner, std::span<const ParameterInfo> infos,
                               const std::string& name) {
  const auto info = std::ranges::find(infos, name, &ParameterInfo::name);
  if (info == infos.end())
    throw DatasetError(capitalised(owner) + " has no parameter \"" + name + "\"; " + known_names(infos) + ".");
  return *info;
}

void check_number(const std::string& where, const ParameterInfo& info, double value) {
  if (info.is_text) throw DatasetError(where + " is a text, but a number was given.");
  if (!std::isfinite(value)) {
    throw DatasetError(where + " must be a finite number, not " + shown(value) + ".");
  }
  if (info.min && value < *info.min) {
    throw DatasetError(where + " must be at least " + shown(*info.min) + ", not " + shown(value) + ".");
  }
  if (info.max && value > *info.max) {
    throw DatasetError(where + " must be at most " + shown(*info.max) + ", not " + shown(value) + ".");
  }
  if (info.is_integer && value != std::floor(value)) {
    throw DatasetError(where + " must be an integer, not " + shown(value) + ".");
  }
}

}  // namespace

Parameters::Parameters(const DataSource& source, const SourceRequest& request)
    : Parameters("the source " + std::string(source.id), source.parameters, request.numbers, request.texts) {}

Parameters::Parameters(std::string owner, std::span<const ParameterInfo> infos,
                       const std::map<std::string, double>& numbers, const std::map<std::string, std::string>& texts)
    : owner_(std::move(owner)) {
  const auto where = [&](std::string_view name) { return "The parameter \"" + std::string(name) + "\" of " + owner_; };
  for (const auto& [name, value] : numbers) {
    check_number(where(name), find_info(owner_, infos, name), value);
    numbers_[name] = value;
  }
  for (const auto& [name, value] : texts) {
    if (!find_info(owner_, infos, name).is_text) {
      throw DatasetError(where(name) + " is a number, but the text \"" + value + "\" was given.");
    }
    texts_[name] = value;
  }
  for (const ParameterInfo& info : infos) {
    if (has(info.name)) continue;
    if (info.required) throw DatasetError(where(info.name) + " is missing: " + std::string(info.help) + ".");
    if (info.default_value) numbers_.emplace(info.name, *info.default_value);
    if (!info.default_text.empty()) texts_.emplace(info.name, info.default_text);
  }
}

bool Parameters::has(std::string_view name) const { return numbers_.contains(name) || texts_.contains(name); }

double Parameters::number(std::string_view name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) {
    throw DatasetError("The parameter \"" + std::string(name) + "\" of " + owner_ + " is missing.");
  }
  return found->second;
}

int Parameters::integer(std::string_view name) const { return int(number(name)); }

const std::string& Parameters::text(std::string_view name) const {
  static const std::string kNone;
  const auto found = texts_.find(name);
  return found == texts_.end() ? kNone : found->second;
}

std::string_view Parameters::exactly_one(std::string_view first, std::string_view second) const {
  if (has(first) == has(second)) {
    throw DatasetError(capitalised(owner_) + " needs exactly one of \"" + std::string(first) + "\" and \"" +
                       std::string(second) + "\"; " + (has(first) ? "both were given." : "none was given."));
  }
  return has(first) ? first : second;
}

}  // namespace ecmv::datasets
