// See terminal_table.h.
#include "experiments/output/terminal_table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

#include "experiments/output/own_stdout.h"
#include "reports/fields.h"

namespace ecmv::experiments {
namespace {

using reports::Column;
using reports::Table;

constexpr size_t kNarrowest = 24;  // a column of texts keeps its longest word whole up to this width

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Bytes of the first `columns` characters.
size_t bytes_of(std::string_view text, size_t columns) {
  size_t i = 0;
  for (; i < text.size(); ++i)
    if (starts_character(text[i]) && columns-- == 0) break;
  return i;
}

// Where to cut a word that does not fit: after the last separator that fits, if it is not too far left.
size_t cut_of(std::string_view word, size_t columns) {
  const size_t most = bytes_of(word, columns);
  const size_t separator = word.substr(0, most).find_last_of("/,|");
  return separator == std::string_view::npos || separator + 1 < most / 2 ? most : separator + 1;
}

size_t longest_word(std::string_view text) {
  size_t longest = 0, length = 0;
  for (const char c : text) {
    length = c == ' ' ? 0 : length + starts_character(c);
    longest = std::max(longest, length);
  }
  return longest;
}

std::string heading(const Column& column) {
  return column.unit.empty() ? column.name : fmt::format("{} [{}]", column.name, column.unit);
}

// The width of every column; empty if they do not fit side by side.
std::vector<size_t> widths_of(const Table& table, size_t columns) {
  std::vector<size_t> widths, least;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    size_t width = shown_width(heading(table.columns[i])), words = width;
    for (const auto& row : table.rows) {
      const std::string text = reports::one_line(row[i].text);
      width = std::max(width, shown_width(text));
      words = std::max(words, std::min(kNarrowest, longest_word(text)));
    }
    widths.push_back(width);
    least.push_back(table.columns[i].align == Column::Align::right ? width : words);
  }
  const size_t gaps = widths.empty() ? 0 : 2 * (widths.size() - 1);
  while (std::accumulate(widths.begin(), widths.end(), gaps) > columns) {
    size_t widest = widths.size();
    for (size_t i = 0; i < widths.size(); ++i)
      if (widths[i] > least[i] && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
    if (widest == widths.size()) return {};
    --widths[widest];
  }
  return widths;
}

std::string aligned(const std::vector<std::string>& cells, const std::vector<size_t>& widths, const Table& table) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string spaces(widths[i] - std::min(widths[i], shown_width(cells[i])), ' ');
    line += i > 0 ? "  " : "";
    line += table.columns[i].align == Column::Align::right ? spaces + cells[i] : cells[i] + spaces;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// A block for each row: its first cell, and below it the other columns' names with their texts.
std::string blocks(const Table& table, size_t columns) {
  size_t names = 0;
  for (const Column& column : table.columns) names = std::max(names, shown_width(heading(column)));
  std::string text;
  for (const auto& row : table.rows) {
    text += reports::one_line(row.at(0).text) + "\n";
    for (size_t i = 1; i < row.size(); ++i) {
      if (row[i].text.empty()) continue;
      std::string name = heading(table.columns[i]);
      name.append(names - shown_width(name), ' ');
      const size_t room = std::max(kNarrowest, columns - std::min(columns, names + 4));
      for (const std::string& line : wrapped(reports::one_line(row[i].text), room)) {
        text += fmt::format("  {}  {}\n", name, line);
        name.assign(names, ' ');
      }
    }
  }
  return text;
}

}  // namespace

size_t terminal_columns(size_t otherwise) {
  size_t columns = 0;
  if (const char* variable = std::getenv("COLUMNS")) {
    const std::string_view text = variable;
    std::from_chars(text.data(), text.data() + text.size(), columns);
  }
  winsize size{};
  if (columns == 0 && ioctl(OwnStdout::file(), TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return columns == 0 ? otherwise : std::clamp<size_t>(columns, 40, 1000);
}

size_t shown_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string shortened(const std::string& text, size_t columns) {
  const size_t width = shown_width(text);
  if (width <= columns) return text;
  if (columns == 0) return {};
  const size_t head = (columns - 1) / 2, tail = columns - 1 - head;
  return text.substr(0, bytes_of(text, head)) + "…" + text.substr(bytes_of(text, width - tail));
}

std::vector<std::string> wrapped(const std::string& text, size_t columns) {
  std::vector<std::string> lines;
  std::string line;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t space = rest.find(' ');
    std::string_view word = rest.substr(0, space);
    rest = space == std::string_view::npos ? std::string_view() : rest.substr(space + 1);
    if (!line.empty() && shown_width(line) + 1 + shown_width(word) > columns) {
      lines.push_back(line);
      line.clear();
    }
    for (; shown_width(word) > columns; word.remove_prefix(cut_of(word, columns)))
      lines.emplace_back(word.substr(0, cut_of(word, columns)));
    line += line.empty() ? std::string(word) : " " + std::string(word);
  }
  if (!line.empty() || lines.empty()) lines.push_back(line);
  return lines;
}

std::string fitted_text(const Table& table, size_t columns) {
  std::string text;
  for (const std::string& line : wrapped(reports::one_line(table.title), columns)) text += line + "\n";
  const std::vector<size_t> widths = widths_of(table, columns);
  if (widths.empty()) return text + blocks(table, columns);
  std::vector<std::string> cells, rules;
  for (size_t i = 0; i < widths.size(); ++i) {
    cells.push_back(heading(table.columns[i]));
    rules.emplace_back(widths[i], '-');
  }
  text += aligned(cells, widths, table) + aligned(rules, widths, table);
  for (const auto& row : table.rows) {
    std::vector<std::vector<std::string>> lines;
    size_t height = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      lines.push_back(wrapped(reports::one_line(row[i].text), widths[i]));
      height = std::max(height, lines.back().size());
    }
    for (size_t k = 0; k < height; ++k) {
      for (size_t i = 0; i < row.size(); ++i) cells[i] = k < lines[i].size() ? lines[i][k] : "";
      text += aligned(cells, widths, table);
    }
  }
  return text;
}

}  // namespace ecmv::experiments
