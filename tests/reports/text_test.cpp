// Claims about texts from outside (names of files, reasons, titles): no output takes their content for a part of
// itself.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <sstream>

#include "reports/exports/html.h"
#include "reports/exports/latex.h"
#include "reports/exports/pgfplots.h"
#include "reports/fields.h"
#include "reports/figures/gnuplot.h"
#include "reports/tables/table.h"
#include "tests/reports/fixtures.h"

using namespace ecmv::reports;
using Catch::Matchers::ContainsSubstring;

namespace {

Table table_of(const std::vector<std::string>& texts) {
  Table table{"t", "title", "", {{"name", "name", ""}, {"other", "other", ""}}, {}};
  for (const std::string& text : texts) table.rows.push_back({text_cell(text), text_cell("x")});
  return table;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A line with two ticks, a guide and a label of this text.
Figure figure_of(const std::string& text) {
  XyPlot plot;
  plot.x = {text, false, true, 0, 1, {{0.25, text}, {0.75, text}}};
  plot.y = {text, false, true, 0, 1, {{0.5, text}}};
  plot.vertical.push_back({0.5, text});
  plot.legend_notes.push_back(text);
  plot.series.push_back({text, text, 0, false, Series::Style::line, {{0, 0.5}, {1, 0.5}}});
  return {"f", text, text, text, plot};
}

const std::string kHostile[] = {"50 %",
                                "%s %d %f %",
                                std::string("a\0b", 3),
                                "a\x01\x1b[31mb\x7f",
                                "two\nlines\r",
                                "\xff\xfe\xc3(",
                                "#comment 'x' \"y\" \\",
                                "`touch ran`",
                                "]]> <svg>",
                                "\xed\xa0\x80\xf5",
                                "{} $x$ ^_~"};

}  // namespace

TEST_CASE("one line of UTF-8 is made of anything") {
  CHECK(one_line("plain σ × – 漢 😀") == "plain σ × – 漢 😀");
  CHECK(one_line(std::string("a\0b\nc\td\x7f", 8)) == "a b c d ");
  CHECK(one_line("\xff\xc3(\xe2\x82") == "??(??");
  CHECK(one_line("\xc0\xaf\xe0\x80\x80\xed\xa0\x80\xf4\x90\x80\x80") == std::string(12, '?'));  // invalid in Unicode
}

TEST_CASE("a table of Markdown, LaTeX, CSV or plain text has a line for each row") {
  for (const std::string& text : kHostile) {
    INFO(text);
    const Table table = table_of({text, text});
    CHECK(lines_of(to_markdown(table)).size() == 6);  // title, blank, heading, rule, two rows
    CHECK(lines_of(to_text(table)).size() == 5);
    CHECK(lines_of(to_csv(table)).size() == 3);
    CHECK(lines_of(to_latex(table)).size() == lines_of(to_latex(table_of({"x", "x"}))).size());
    for (const std::string& whole : {to_markdown(table), to_text(table), to_csv(table), to_latex(table),
                                     html_escaped(text), to_pgfplots(figure_of(text))})
      for (const char c : whole) CHECK((static_cast<unsigned char>(c) >= 0x20 || c == '\n'));
  }
  // A bar ends a cell unless exactly one backslash of ours stands before it.
  CHECK_THAT(to_markdown(table_of({"a|b"})), ContainsSubstring("a\\|b"));
  Table outside = table_of({"<script>alert(1)</script>"});
  outside.title = outside.caption = outside.columns[0].name = "<script>x</script>";
  CHECK_THAT(to_markdown(outside), ContainsSubstring("&lt;script>alert") && !ContainsSubstring("<script"));
  outside.columns[0].id = std::string("setting.a\0b\rc", 13);
  CHECK(lines_of(to_csv(outside)).front() == "setting.a b c,other");
  CHECK_THAT(to_markdown(table_of({"a\\|b"})), ContainsSubstring("a\\\\\\|b"));
}

TEST_CASE("a row of LaTeX is not taken for an option of the line before") {
  for (const char* text : {"[2ex] x", "*", "[", "*[1ex]"}) {
    const std::string latex = to_latex(table_of({text}));
    CHECK_THAT(latex, ContainsSubstring(std::string("\n{}") + text));
  }
  CHECK_THAT(to_latex(table_of({"x[1]"})), ContainsSubstring("\nx[1] &"));
}

TEST_CASE("a text of CSV is no formula, and a number stays one") {
  Table table = table_of({"=1+1", "+1", "-x", "@sum", "\t=1", "a=1", ""});
  table.rows.push_back({number_cell(-2.5, "-2.5"), count_cell(-3)});
  CHECK(to_csv(table) == "name,other\n'=1+1,x\n'+1,x\n'-x,x\n'@sum,x\n' =1,x\na=1,x\n,x\n-2.5,-3\n");
}

TEST_CASE("gnuplot draws figures with any text in them, and the pictures are XML") {
  const ScratchFolder folder;
  for (const std::string& text : kHostile) {
    INFO(text);
    std::vector<std::string> warnings;
    const std::vector<Figure> figures = {figure_of(text)};
    const auto drawn = draw(figures, folder.path, {}, warnings);
    if (!warnings.empty() && warnings[0].find("was not found") != std::string::npos) SKIP("gnuplot is not installed");
    CHECK(warnings == std::vector<std::string>{});
    const std::string svg = file_text(drawn.at(0).svg);
    CHECK_THAT(svg, ContainsSubstring("</svg>"));
    for (const char c : svg) CHECK((static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t'));
    CHECK(one_line(svg).find('?') == svg.find('?'));  // UTF-8
    if (text == "50 %") CHECK_THAT(svg, ContainsSubstring(">50 %<"));
  }
  CHECK_FALSE(std::filesystem::exists(folder.path / "ran"));
}

TEST_CASE("a gnuplot that does not end is ended, with what it started, and is not asked again") {
  const ScratchFolder folder;
  const auto program = folder.path / "slow";
  std::ofstream(program) << "#!/bin/sh\nsleep 1000 & echo $! >>" << (folder.path / "started").string()
                         << "\ntrap '' TERM\nwhile :; do sleep 1000; done\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  std::vector<std::string> warnings;
  const std::vector<Figure> figures = {figure_of("a"), figure_of("b")};
  const auto begin = std::chrono::steady_clock::now();
  draw(figures, folder.path, {program.string(), 1}, warnings);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], ContainsSubstring("had not drawn f.svg after 1 s"));
  CHECK(lines_of(file_text(folder.path / "started")).size() == 1);
}

TEST_CASE("a gnuplot that prints without end costs no memory") {
  const ScratchFolder folder;
  const auto program = folder.path / "loud";
  std::ofstream(program) << "#!/bin/sh\nhead -c 200000000 /dev/zero\nexit 1\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  std::vector<std::string> warnings;
  draw({figure_of("a")}, folder.path, {program.string(), 60}, warnings);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].size() < 5000);
  CHECK_THAT(warnings[0], ContainsSubstring("could not draw f.svg"));
}
