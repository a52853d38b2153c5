#include "tests/rooms/definitions.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <sstream>

namespace ecmv::tests {
namespace {

// Marks that replace directives, which decide which braces match.
constexpr char kIf = '\1', kElse = '\2', kEndif = '\3';

// Copies a source with comments, the insides of literals and directives as spaces. Lines stay where they are.
class Blanking {
 public:
  explicit Blanking(const std::string& text) : text_(text), out_(text.size(), ' ') {}

  std::string run() {
    while (at_ < text_.size()) step();
    return std::move(out_);
  }

 private:
  bool follows(const char* what) const { return text_.compare(at_, std::string(what).size(), what) == 0; }
  void skip() {
    if (text_[at_] == '\n') out_[at_] = '\n', line_begins_ = true;
    ++at_;
  }
  void skip_to(size_t end) {
    while (at_ < std::min(end, text_.size())) skip();
  }
  // The position after the next `what`.
  size_t end_of(const std::string& what, size_t from) const {
    const size_t found = text_.find(what, from);
    return found == std::string::npos ? text_.size() : found + what.size();
  }

  void directive() {
    const size_t name = text_.find_first_not_of(" \t", at_ + 1);
    const auto is = [&](const char* word) { return text_.compare(name, std::string(word).size(), word) == 0; };
    out_[at_] = is("if") ? kIf : is("el") ? kElse : is("endif") ? kEndif : ' ';
    size_t end = text_.find('\n', at_);
    while (end != std::string::npos && text_[end - 1] == '\\') end = text_.find('\n', end + 1);
    skip_to(end);
  }

  void literal(char quote) {
    out_[at_] = quote;
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    skip_to(end);
    if (at_ < text_.size()) out_[at_++] = quote;
  }

  void step() {
    const char now = text_[at_];
    if (now == '\n' || now == ' ') return skip();
    if (now == '#' && line_begins_) return directive();
    line_begins_ = false;
    if (follows("//")) return skip_to(text_.find('\n', at_));
    if (follows("/*")) return skip_to(end_of("*/", at_ + 2));
    if (follows("R\"")) {
      const std::string delimiter = text_.substr(at_ + 2, text_.find('(', at_) - at_ - 2);
      return skip_to(end_of(")" + delimiter + "\"", at_ + 2));
    }
    const bool separates_digits = at_ > 0 && std::isxdigit(static_cast<unsigned char>(text_[at_ - 1]));
    if (now == '"' || (now == '\'' && !separates_digits)) return literal(now);
    out_[at_] = now;
    ++at_;
  }

  const std::string& text_;
  std::string out_;
  size_t at_ = 0;
  bool line_begins_ = true;
};

enum class Scope { kNamespace, kClass, kFunction, kOther };

// The kind of thing that a brace opens, told by the words before it: everything since the last ; or brace of the same
// scope.
struct Opening {
  Scope scope = Scope::kOther;
  std::string name;
  bool has_a_first_definition = false;  // a specialisation, or a class that another declares: no name of its own
};

// The position after the template parameters that begin at `at`.
size_t end_of_template(const std::string& words, size_t at) {
  int angles = 0, parentheses = 0;
  for (at = words.find('<', at); at < words.size(); ++at) {
    parentheses += (words[at] == '(') - (words[at] == ')');
    if (parentheses > 0) continue;
    angles += (words[at] == '<') - (words[at] == '>');
    if (angles == 0) return at + 1;
  }
  return words.size();
}

Opening opening_of(std::string words) {
  static const std::regex label(R"(\b(public|private|protected)\s*:)");
  static const std::regex attribute(
      R"((alignas|__align__|__launch_bounds__|ECMV_\w+)\s*\([^()]*(\([^()]*\))?[^()]*\)|\[\[.*?\]\])");
  static const std::regex class_name(
      R"(^\s*(?:typedef\s+|static\s+|inline\s+)*(?:struct|class|union)\b(?:\s+[A-Z_]+(?=\s+\w))?\s*(\w*)\s*(<|::)?)");
  static const std::regex space(R"(^\s*(inline\s+)?namespace\b|^\s*extern\s+"\s*"\s*$)");
  static const std::regex function_name(R"((operator\s*\S+|[\w:~]+)\s*\()");
  words = std::regex_replace(std::regex_replace(words, label, ""), attribute, "");
  for (size_t at; (at = words.find_first_not_of(" \n")) != std::string::npos && words.compare(at, 8, "template") == 0;)
    words = words.substr(end_of_template(words, at));
  std::smatch match;
  if (std::regex_search(words, space)) return {Scope::kNamespace, ""};
  const size_t parenthesis = words.find('(');
  if (std::regex_search(words, match, class_name) && parenthesis >= words.find(':'))
    return {Scope::kClass, match[1], match[2] != ""};
  if (parenthesis == std::string::npos || std::regex_search(words, std::regex(R"(^\s*enum\b)"))) return {};
  static const std::regex assignment(R"([^=!<>+\-*/|&^]=(?!=))");
  const std::string before = words.substr(0, parenthesis);
  if (before.find("operator") == std::string::npos && std::regex_search(before, assignment)) return {};
  if (!std::regex_search(words, match, function_name)) return {};
  return {Scope::kFunction, match[1]};
}

// The braces of a blanked source.
class Scan {
 public:
  explicit Scan(const std::string& text) : text_(text) {}

  std::vector<Definition> run() {
    for (at_ = 0; at_ < text_.size(); ++at_) step();
    return std::move(found_);
  }

 private:
  struct Open {
    Scope scope;
    bool ends_words;  // something new begins after its closing brace
    Definition definition;
    int parentheses;
  };
  struct State {
    std::vector<Open> open;
    std::string words;
    int first_line = 0, parentheses = 0;
  };

  bool declares() const {
    return state_.open.empty() || state_.open.back().scope == Scope::kNamespace ||
           state_.open.back().scope == Scope::kClass;
  }
  void forget_words() { state_.words.clear(), state_.first_line = 0, state_.parentheses = 0; }

  void open() {
    Open next{Scope::kOther, false, {}, state_.parentheses};
    const bool initialises = at_ > 0 && text_[at_ - 1] != ' ' && text_[at_ - 1] != '\n';
    if (declares() && state_.parentheses == 0 && !initialises) {
      const Opening opening = opening_of(state_.words);
      next.scope = opening.scope;
      next.ends_words = opening.scope != Scope::kOther;
      const bool nested = std::any_of(state_.open.begin(), state_.open.end(),
                                      [](const Open& outer) { return outer.scope == Scope::kClass; });
      next.definition = {opening.has_a_first_definition ? "" : opening.name, opening.scope == Scope::kClass, nested,
                         state_.first_line, 0};
    }
    state_.open.push_back(next);
    if (next.ends_words) forget_words();
  }

  void close() {
    if (state_.open.empty()) return;
    Open last = state_.open.back();
    state_.open.pop_back();
    last.definition.last_line = line_;
    if (last.scope == Scope::kFunction || last.scope == Scope::kClass) found_.push_back(last.definition);
    state_.parentheses = last.parentheses;
    if (last.ends_words) forget_words();
  }

  void branch(char mark) {
    if (mark == kIf) branches_.push_back(state_);
    if (branches_.empty()) return;
    if (mark == kElse) state_ = branches_.back();
    if (mark == kEndif) branches_.pop_back();
  }

  void step() {
    const char now = text_[at_];
    if (now == '\n') ++line_;
    if (now == kIf || now == kElse || now == kEndif) return branch(now);
    if (now == '{') return open();
    if (now == '}') return close();
    if (!declares()) return;
    if (now == ';' && state_.parentheses == 0) return forget_words();
    if (now == '(') ++state_.parentheses;
    if (now == ')') --state_.parentheses;
    if (state_.first_line == 0 && now != ' ' && now != '\n') state_.first_line = line_;
    state_.words += now;
    if (state_.words.ends_with("public:") || state_.words.ends_with("private:") || state_.words.ends_with("protected:"))
      forget_words();
  }

  const std::string& text_;
  size_t at_ = 0;
  int line_ = 1;
  State state_;
  std::vector<State> branches_;
  std::vector<Definition> found_;
};

std::vector<Comment> comments_of(const std::string& text, const std::string& mark) {
  std::vector<Comment> out;
  bool goes_on = false;
  int number = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const size_t first = line.find_first_not_of(' ');
    const bool alone = first != std::string::npos && line.compare(first, mark.size(), mark) == 0;
    size_t at = alone ? first : line.find("  " + mark + " ");
    if (at != std::string::npos && !(alone && goes_on)) {
      at = line.find(mark, at) + mark.size();
      out.push_back({line.substr(std::min(line.find_first_not_of(' ', at), line.size())), number});
    }
    goes_on = alone;
  }
  return out;
}

}  // namespace

std::vector<Definition> definitions_in(const std::string& text) {
  const std::string blanked = Blanking(text).run();
  return Scan(blanked).run();
}

std::vector<Definition> python_functions_in(const std::string& text) {
  static const std::regex definition(R"(^( *)(?:async )?def (\w+))");
  std::vector<Definition> out;
  std::vector<std::pair<size_t, Definition>> open;  // with the column of `def`
  int number = 0, last_filled = 0;
  const auto close_from = [&](size_t column) {
    while (!open.empty() && open.back().first >= column) {
      open.back().second.last_line = last_filled;
      out.push_back(open.back().second);
      open.pop_back();
    }
  };
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const size_t column = line.find_first_not_of(' ');
    if (column == std::string::npos) continue;
    if (line[column] != ')') close_from(column);
    std::smatch match;
    if (std::regex_search(line, match, definition)) open.push_back({column, {match[2], false, false, number, 0}});
    last_filled = number;
  }
  close_from(0);
  return out;
}

std::vector<Comment> comments_in(const std::string& text) { return comments_of(text, "//"); }
std::vector<Comment> hash_comments_in(const std::string& text) { return comments_of(text, "#"); }

}  // namespace ecmv::tests
