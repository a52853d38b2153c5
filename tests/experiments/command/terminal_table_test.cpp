// Claims about texts and tables that must fit a terminal.
#include "experiments/output/terminal_table.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sstream>

using namespace ecmv;
using namespace ecmv::experiments;
using Catch::Matchers::ContainsSubstring;

namespace {

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, shown_width(line));
  return widest;
}

reports::Table table_of(size_t columns, const std::string& text) {
  reports::Table table;
  table.title = "A title";
  for (size_t i = 0; i < columns; ++i) table.columns.push_back({"c" + std::to_string(i), "c" + std::to_string(i), ""});
  table.rows.assign(2, std::vector<reports::Cell>(columns, reports::text_cell(text)));
  return table;
}

}  // namespace

TEST_CASE("what is too long keeps its beginning and its end") {
  CHECK(shortened("short", 5) == "short");
  CHECK(shortened("abcdefghij", 5) == "ab…ij");
  CHECK(shortened("σσσσσσ", 3) == "σ…σ");
  CHECK(shown_width("σ=4 …") == 5);
}

TEST_CASE("text is broken at spaces, and a word that is too long after a separator") {
  CHECK(wrapped("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(wrapped("simd/matvec/rows", 12) == std::vector<std::string>{"simd/matvec/", "rows"});
  CHECK(wrapped("abcdefgh", 3) == std::vector<std::string>{"abc", "def", "gh"});
  CHECK(wrapped("", 3) == std::vector<std::string>{""});
}

TEST_CASE("a table is wrapped to the width, or written row by row where its columns do not fit") {
  const std::string words = "several words that take more than forty columns";
  CHECK(widest_line(fitted_text(table_of(2, words), 200)) == 2 * words.size() + 2);
  for (const size_t width : {60, 80, 120}) {
    INFO(width);
    const std::string text = fitted_text(table_of(2, words), width);
    CHECK(widest_line(text) <= width);
    CHECK_THAT(text, ContainsSubstring("c0") && ContainsSubstring("----") && ContainsSubstring("columns"));
    const std::string blocks = fitted_text(table_of(20, words), width);
    CHECK(widest_line(blocks) <= width);
    CHECK_THAT(blocks, ContainsSubstring("  c19  several words"));
  }
}

TEST_CASE("numbers are never wrapped") {
  reports::Table table = table_of(2, "a long text of many words that can be wrapped where it is needed");
  table.columns[0].align = reports::Column::Align::right;
  for (auto& row : table.rows) row[0] = reports::text_cell("123456789 G");
  CHECK_THAT(fitted_text(table, 40), ContainsSubstring("123456789 G"));
}
