// A small table: columns with units, and cells with the text for people and the value for machines. It renders as
// Markdown, CSV (values, not texts) and terminal text; LaTeX is in latex.h, HTML in html.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ecmv::reports {

struct Column {
  std::string id;    // snake_case, ends in its unit: the CSV heading
  std::string name;  // heading for people
  std::string unit;  // of the texts, "" if there is none
  enum class Align { left, right } align = Align::left;
};

struct Cell {
  std::string text;
  std::variant<std::monostate, std::int64_t, double, std::string> value;  // CSV, sorting, macros
  std::string note = "";                                                  // tooltip
  enum class Tone { plain, good, bad, caution, quiet } tone = Tone::plain;
};

Cell text_cell(std::string text);
Cell count_cell(std::int64_t count);
// `value` is the raw number, `text` its rounded form; a NaN shows as "–" and is an empty CSV field.
Cell number_cell(double value, std::string text);
// "4.34 ± 0.05" in multiples of `unit`: ± is the larger distance to the ends of the interval, and the note has both. An
// end more than half of the value away gives "0.10 … 20". There are two significant digits at least, and `digits`
// after the point; without an interval only the number.
struct Ends {
  double low, high;
};
Cell interval_cell(double value, Ends ends, double unit, int digits);

struct Table {
  std::string id;       // slug
  std::string title;    // one line
  std::string caption;  // sentences, may be empty
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // each as long as columns
  // Rows that belong together have a heading before the first of them. Without headings the rows are one group.
  struct Group {
    std::size_t first_row;
    std::string heading;
  };
  std::vector<Group> groups = {};
  // The heading before this row, or nullptr.
  const std::string* heading_before(std::size_t row) const;
};

std::string markdown_escaped(std::string_view text);  // one line, without tags and ends of cells
std::string to_markdown(const Table& table);
std::string to_csv(const Table& table);   // RFC 4180, one heading line, shortest digits that read back the same
std::string to_text(const Table& table);  // aligned columns for a terminal
std::string value_text(const Cell& cell);

}  // namespace ecmv::reports
