// See pattern.h.
#include "datasets/pattern.h"

#include <regex>

namespace ecmv::datasets {

struct Pattern::Compiled {
  std::regex regex;
};

Pattern::Pattern(const std::string& expression) try : compiled_(new Compiled{std::regex(expression)}) {
} catch (const std::regex_error& error) {
  throw PatternError(error.what());
}

bool Pattern::found_in(const std::string& text) const { return std::regex_search(text, compiled_->regex); }

}  // namespace ecmv::datasets
