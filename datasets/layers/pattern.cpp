// See pattern.h.
#include "datasets/layers/pattern.h"

#include <algorithm>
#include <regex>

namespace ecmv::datasets {
namespace {

constexpr size_t kLongestExpression = 1000, kLongestText = 4096;
constexpr int kDeepest = 50;

void expect_bounded(const std::string& expression) {
  if (expression.size() > kLongestExpression)
    throw PatternError("it has " + std::to_string(expression.size()) + " characters, more than " +
                       std::to_string(kLongestExpression));
  int depth = 0;
  for (const char c : expression) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth > kDeepest)
      throw PatternError("its parentheses are nested more than " + std::to_string(kDeepest) + " deep");
  }
}

std::regex compile(const std::string& expression) {
  expect_bounded(expression);
#ifdef __GLIBCXX__
  try {
    return std::regex(expression, std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error& error) {
    if (error.code() != std::regex_constants::error_complexity) throw;
  }
#endif
  return std::regex(expression);
}

}  // namespace

struct CompiledPattern {
  std::regex regex;
};

Pattern::Pattern(const std::string& expression) try : compiled_(new CompiledPattern{compile(expression)}) {
} catch (const std::regex_error& error) {
  throw PatternError(error.what());
}

bool Pattern::found_in(const std::string& text) const try {
  if (text.size() > kLongestText)
    throw PatternError("a name of " + std::to_string(text.size()) + " characters is longer than the " +
                       std::to_string(kLongestText) + " that expressions are matched with");
  return std::regex_search(text, compiled_->regex);
} catch (const std::regex_error& error) {
  throw PatternError(error.what());
}

}  // namespace ecmv::datasets
