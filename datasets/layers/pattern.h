// A regular expression (ECMAScript) for sources and filters. The library's matcher takes seconds to compile, so only
// one source includes it. It recurses once a level of the expression and once a character of the text, so both are
// bounded. An expression without back references is matched in all ways at once, so none takes for ever.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

namespace ecmv::datasets {

struct PatternError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct CompiledPattern;  // in pattern.cpp

class Pattern {
 public:
  explicit Pattern(const std::string& expression);  // throws PatternError
  bool found_in(const std::string& text) const;     // throws PatternError for a text that is too long

 private:
  std::shared_ptr<const CompiledPattern> compiled_;
};

}  // namespace ecmv::datasets
