// Lines fit a page, and comments begin with their subject.
#include <catch2/catch_test_macros.hpp>

#include <set>
#include <string>
#include <vector>

#include "tests/rooms/definitions.h"
#include "tests/rooms/tree.h"

using namespace ecmv::tests;

namespace {

constexpr int kColumns = 120;

bool has_hash_comments(const fs::path& path) {
  static const std::set<std::string> extensions = {".py", ".yaml", ".yml", ".sh", ".cmake", ".sbatch"};
  static const std::set<std::string> names = {"CMakeLists.txt", "Makefile",    "run",
                                              ".clang-format",  ".clang-tidy", ".gitlab-ci.yml"};
  return extensions.contains(path.extension()) || names.contains(path.filename());
}

// Files that people write and read; records, streams and tables of numbers are not.
bool is_text(const fs::path& path) {
  if (is_data(path)) return false;
  const std::string name = path.string();
  if (name.starts_with("tests/reports/fixtures/")) return false;
  if (name.starts_with("reports/published/") && path.filename() != "README.md") return false;
  return is_source(path) || has_hash_comments(path) || path.extension() == ".md" || path.extension() == ".in";
}

int columns(const std::string& line) {
  int out = 0;
  for (const char c : line) out += (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // UTF-8's later bytes
  return out;
}

std::vector<std::string> too_wide(const std::string& path, const std::string& text) {
  std::vector<std::string> out;
  int number = 0;
  for (const std::string& line : lines_in(text)) {
    ++number;
    if (columns(line) > kColumns)
      out.push_back(path + ":" + std::to_string(number) + ": " + std::to_string(columns(line)) + " columns");
  }
  return out;
}

std::vector<std::string> without_subject(const std::string& path, const std::string& text) {
  std::vector<std::string> out;
  for (const Comment& comment : is_cpp(path) ? comments_in(text) : hash_comments_in(text))
    for (const char* opening : {"Of ", "The same of ", "Behind "})
      if (comment.opening.starts_with(opening))
        out.push_back(path + ":" + std::to_string(comment.line) + ": " + comment.opening);
  return out;
}

}  // namespace

TEST_CASE("lines have at most 120 columns", "[habits]") {
  std::vector<std::string> offenders;
  for (const fs::path& path : files_of_the_tree())
    if (is_text(path))
      for (const std::string& offender : too_wide(path.string(), text_of(path))) offenders.push_back(offender);
  CHECK(none("lines over 120 columns", offenders));
}

TEST_CASE("no comment opens with \"Of\", \"The same of\" or \"Behind\"", "[habits]") {
  std::vector<std::string> offenders;
  for (const fs::path& path : files_of_the_tree())
    if (is_text(path) && (is_cpp(path) || has_hash_comments(path)))
      for (const std::string& offender : without_subject(path.string(), text_of(path))) offenders.push_back(offender);
  CHECK(none("comments without a subject", offenders));
}

TEST_CASE("a line too wide and a comment without a subject are found", "[habits]") {
  CHECK(too_wide("a.md", std::string(120, 'a') + "\n").empty());
  CHECK(too_wide("a.md", "b\n" + std::string(121, 'a')) == std::vector<std::string>{"a.md:2: 121 columns"});
  std::string micro;
  for (int i = 0; i < 120; ++i) micro += "µ";
  CHECK(too_wide("a.md", micro).empty());
  for (const char* path : {"README.md", "codecs/a/cpu.cpp", "tests/lint/a.sh", "experiments/configs/a.yaml", ".ci/run",
                           "CMakeLists.txt", "reports/published/README.md"})
    CHECK(is_text(path));
  for (const char* path :
       {"reports/published/a/records.jsonl", "reports/published/a/table.md", "codecs/a/a_models.inc"})
    CHECK_FALSE(is_text(path));

  const auto found = [](const char* path, const std::string& text) { return without_subject(path, text).size(); };
  CHECK(found("a.h", "// Of a row, its sum.\nint f();\n") == 1);
  CHECK(found("a.h",
              "int a;  //"
              " Behind the end\n") == 1);
  CHECK(found("a.h",
              "  //"
              " The same of columns.\n") == 1);
  CHECK(found("a.py", "# Of a row\n") == 1);
  CHECK(found("a.h", "// The sum\n// Of a row.\nint of;  // Official\n") == 0);
}
