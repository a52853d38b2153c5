// The one place where the parameters of a request are checked against what a source declares: unknown names,
// texts given as numbers and the reverse, ranges, NaN, fractions, missing ones. A source then only checks
// what concerns several of its parameters at once.
#pragma once

#include <optional>
#include <string>

#include "datasets/source.h"

namespace ecmv::datasets {

// Parameters after the check, defaults filled in.
class Parameters {
 public:
  // Throws DatasetError naming the source and the parameter, with the allowed range and the known names.
  Parameters(const DataSource& source, const SourceRequest& request);

  bool has(std::string_view name) const;
  double number(std::string_view name) const;  // throws if it was not given and has no default
  int integer(std::string_view name) const;
  const std::string& text(std::string_view name) const;  // "" if it was not given

  // Two parameters that say the same: the one that was given. Throws unless it is exactly one.
  std::string_view exactly_one(std::string_view first, std::string_view second) const;

 private:
  std::string source_;
  std::map<std::string, double, std::less<>> numbers_;
  std::map<std::string, std::string, std::less<>> texts_;
};

}  // namespace ecmv::datasets
