// The one place that checks a request's parameters against the declaration of a source or quantiser: unknown names,
// texts given as numbers and the reverse, ranges, NaN, fractions, missing ones. A source or quantiser itself checks
// only what concerns several of its parameters at once.
#pragma once

#include <optional>
#include <string>

#include "datasets/source.h"

namespace ecmv::datasets {

// Parameters after the check, defaults filled in.
class Parameters {
 public:
  // `owner` is the declaring side, as in "the source gaussian". Throws DatasetError that names it and the parameter,
  // with the allowed range and the known names.
  Parameters(std::string owner, std::span<const ParameterInfo> infos, const std::map<std::string, double>& numbers,
             const std::map<std::string, std::string>& texts);
  Parameters(const DataSource& source, const SourceRequest& request);

  const std::string& owner() const { return owner_; }

  bool has(std::string_view name) const;
  double number(std::string_view name) const;  // throws if it was not given and has no default
  int integer(std::string_view name) const;
  const std::string& text(std::string_view name) const;  // "" if it was not given

  // The one that was given, if two parameters say the same. Throws unless exactly one was.
  std::string_view exactly_one(std::string_view first, std::string_view second) const;

 private:
  std::string owner_;
  std::map<std::string, double, std::less<>> numbers_;
  std::map<std::string, std::string, std::less<>> texts_;
};

}  // namespace ecmv::datasets
