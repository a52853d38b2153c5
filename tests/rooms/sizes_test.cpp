// Functions fit a screen, classes a few, and README.md a visit.
#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

#include "tests/rooms/definitions.h"
#include "tests/rooms/tree.h"

using namespace ecmv::tests;

namespace {

constexpr int kMostLinesOfFunction = 80, kMostLinesOfClass = 250;
// This list only shrinks.
const Exceptions kLong = {{"TileLanes", 1}, {"fragment_digits", 1}, {"fragment_tokens", 1}, {"multiply_many", 1}};

constexpr int kMostLinesOfReadme = 150, kMostBytesOfReadme = 9000;

std::vector<std::string> too_long(const std::string& path, const std::string& text) {
  std::vector<std::string> out;
  for (const Definition& found : is_python(path) ? python_functions_in(text) : definitions_in(text)) {
    const int most = found.is_class ? kMostLinesOfClass : kMostLinesOfFunction;
    if (found.lines() > most)
      out.push_back(path + ":" + std::to_string(found.first_line) + ": " + found.name + " has " +
                    std::to_string(found.lines()) + " lines, at most " + std::to_string(most));
  }
  return out;
}

std::vector<std::string> too_long_a_readme(const std::string& text) {
  std::vector<std::string> out;
  const size_t lines = lines_in(text).size();
  if (lines > kMostLinesOfReadme) out.push_back("README.md has " + std::to_string(lines) + " lines");
  if (text.size() > kMostBytesOfReadme) out.push_back("README.md has " + std::to_string(text.size()) + " bytes");
  return out;
}

std::string repeated(const std::string& line, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += line;
  return out;
}

}  // namespace

TEST_CASE("functions have at most 80 lines, classes 250", "[habits]") {
  std::vector<std::string> offenders;
  for (const fs::path& path : files_of_the_tree())
    if (is_source(path) && !is_data(path))
      for (const std::string& offender : too_long(path.string(), text_of(path))) offenders.push_back(offender);
  CHECK(none("functions and classes that are too long", beyond(offenders, kLong)));
}

TEST_CASE("README.md has at most 150 lines and 9 KB", "[habits]") {
  const std::vector<std::string> offenders = too_long_a_readme(text_of("README.md"));
  CHECK(none("README.md", offenders));
}

TEST_CASE("a function and a class with one line too many are found", "[habits]") {
  const std::string statements = repeated("  f();\n", 78);
  CHECK(too_long("a.cpp", "void g() {\n" + statements + "}\n").empty());
  CHECK(too_long("a.cpp", "void g() {\n" + statements + "  f();\n}\n").size() == 1);
  CHECK(too_long("a.cpp", "namespace a {\nstruct B {\n  void g() {\n" + statements + "  f();\n}\n};\n}\n").size() == 1);
  CHECK(too_long("a.cpp", "TEST_CASE(\"a claim\") {\n" + statements + "  f();\n}\n").size() == 1);
  CHECK(too_long("a.cpp", "struct B {\n" + repeated("  int a;\n", 248) + "};\n").empty());
  CHECK(too_long("a.cpp", "struct B {\n" + repeated("  int a;\n", 249) + "};\n").size() == 1);
  CHECK(too_long("a.py", "def g():\n" + repeated("    f()\n", 79)).empty());
  CHECK(too_long("a.py", "def g():\n" + repeated("    f()\n", 80) + "\n\ndef h():\n    pass\n").size() == 1);
  // A table is data, however long.
  CHECK(too_long("a.cpp", "constexpr int kTable[] = {\n" + repeated("    1,\n", 300) + "};\n").empty());
  CHECK(too_long_a_readme(repeated("a\n", 150)).empty());
  CHECK(too_long_a_readme(repeated("a\n", 151)).size() == 1);
  CHECK(too_long_a_readme(repeated("a", 9001)).size() == 1);
}

TEST_CASE("functions and classes are found where they are", "[habits]") {
  const std::string text = R"(#include <a>
namespace a {
// struct NotThis {
template <class T = int, int n = (1 > 0)>
class alignas(16) First : public Base<T> {
 public:
  First(int a = 3, B b = {})
      : a_{a}, b_(b) {
    const char* brace = "}{";
    char c = '{';
    int million = 1'000'000;
  }
  bool operator==(const First&) const = default;
  struct Inner {
    int i = 0;
  };
  std::vector<int> v = {1, 2};

 private:
  int f() const noexcept override { return [] { return 1; }(); }
};
template <>
struct First<char> {};
struct First::Inner {};
enum class E : int { kA };
#if A
int g() {
#else
int g(int a) {
#endif
  if (a) { return 2; }
}
const auto kLambda = [](int a) {
  return a;
};
extern "C" {
struct c_like* made(void) {
  struct Local { int i; };
}
}
}
)";
  std::vector<std::string> found;
  for (const Definition& one : definitions_in(text))
    found.push_back(one.name + (one.is_class ? " class " : " ") + (one.is_nested ? "nested " : "") +
                    std::to_string(one.first_line) + "-" + std::to_string(one.last_line));
  CHECK(found == std::vector<std::string>{"First nested 7-12", "Inner class nested 14-16", "f nested 20-20",
                                          "First class 4-21", " class 22-23", " class 24-24", "g 29-32", "made 37-39"});
}
