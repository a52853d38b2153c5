// A regular expression (ECMAScript) as sources and filters use it. The library's matcher takes seconds to compile, so
// it is in one source.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

namespace ecmv::datasets {

struct PatternError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Pattern {
 public:
  explicit Pattern(const std::string& expression);  // throws PatternError
  bool found_in(const std::string& text) const;     // the library recurses once a character: not for long texts

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace ecmv::datasets
