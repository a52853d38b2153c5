// The renderers of Table. Widths count code points, which is right for the signs in use (σ, ×, –, µ).
#include "reports/tables/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "reports/fields.h"

namespace ecmv::reports {
namespace {

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string pad(const std::string& text, std::size_t to, Column::Align align) {
  const std::string spaces(to - std::min(to, width(text)), ' ');
  return align == Column::Align::right ? spaces + text : text + spaces;
}

std::string heading(const Column& column) {
  return column.unit.empty() ? column.name : fmt::format("{} [{}]", column.name, column.unit);
}

// Spreadsheets evaluate cells that begin like this, even from a file.
bool is_formula(const Cell& cell) {
  const auto* text = std::get_if<std::string>(&cell.value);
  return text != nullptr && !text->empty() &&
         std::string_view("=+-@\t\r").find(text->front()) != std::string_view::npos;
}

std::vector<std::size_t> widths_of(const Table& table) {
  std::vector<std::size_t> widths;
  for (const Column& column : table.columns) widths.push_back(width(heading(column)));
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(markdown_escaped(row[i].text)));
  }
  return widths;
}

}  // namespace

// A backslash before a bar would undo the bar's own.
std::string markdown_escaped(std::string_view text) {
  const std::string line = one_line(text);
  std::string escaped;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '<') {
      escaped += "&lt;";  // pages that show Markdown take tags as such
      continue;
    }
    if (line[i] == '|' || (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|')) escaped += '\\';
    escaped += line[i];
  }
  return escaped;
}

Cell text_cell(std::string text) { return {text, text}; }

Cell count_cell(std::int64_t count) { return {fmt::format("{}", count), count}; }

Cell number_cell(double value, std::string text) {
  if (!std::isfinite(value)) return {"–", std::monostate{}, "", Cell::Tone::quiet};
  return {std::move(text), value};
}

namespace {

// Digits after the point for two significant ones.
int significant(double number) {
  const double size = std::abs(number);
  return size > 0 && size < 1e30 ? std::clamp(1 - static_cast<int>(std::floor(std::log10(size))), 0, 12) : 0;
}

}  // namespace

Cell interval_cell(double value, Ends ends, double unit, int digits) {
  digits = std::max(digits, significant(value / unit));
  Cell cell = number_cell(value, fixed_text(value / unit, digits));
  if (!std::isfinite(value) || !std::isfinite(ends.low) || !std::isfinite(ends.high)) return cell;
  cell.note = fixed_text(ends.low / unit, digits) + " … " + fixed_text(ends.high / unit, digits);
  const double distance = std::max({ends.high - value, value - ends.low, 0.0});
  // Around a wide interval ± would claim numbers below zero, or a symmetry that is not there.
  if (distance > 0.5 * std::abs(value))
    cell.text = fixed_text(ends.low / unit, significant(ends.low / unit)) + " … " +
                fixed_text(ends.high / unit, significant(ends.high / unit));
  else
    cell.text += " ± " + fixed_text(distance / unit, digits);
  return cell;
}

const std::string* Table::heading_before(std::size_t row) const {
  for (const Group& group : groups)
    if (group.first_row == row) return &group.heading;
  return nullptr;
}

std::string value_text(const Cell& cell) {
  struct Writer {
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
    std::string operator()(double value) const { return fmt::format("{}", value); }
    std::string operator()(const std::string& value) const { return value; }
  };
  return std::visit(Writer{}, cell.value);
}

std::string to_markdown(const Table& table) {
  const auto widths = widths_of(table);
  std::string text = fmt::format("### {}\n\n", markdown_escaped(table.title));
  if (!table.caption.empty()) text += markdown_escaped(table.caption) + "\n\n";
  text += "|";
  for (std::size_t i = 0; i < widths.size(); ++i) {
    text += fmt::format(" {} |", pad(markdown_escaped(heading(table.columns[i])), widths[i], table.columns[i].align));
  }
  text += "\n|";
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const bool right = table.columns[i].align == Column::Align::right;
    text += fmt::format("{}{}|", std::string(widths[i] + 1, '-'), right ? ':' : '-');
  }
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    if (const std::string* heading = table.heading_before(r)) {
      text += fmt::format("\n| **{}** |", markdown_escaped(*heading));
      for (std::size_t i = 1; i < widths.size(); ++i) text += " |";
    }
    const auto& row = table.rows[r];
    text += "\n|";
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += fmt::format(" {} |", pad(markdown_escaped(row[i].text), widths[i], table.columns[i].align));
    }
  }
  return text + "\n";
}

std::string to_csv(const Table& table) {
  auto quoted = [](const std::string& field) {
    if (field.find_first_of(",\"\n\r") == std::string::npos) return field;
    std::string result = "\"";
    for (char c : field) result += c == '"' ? std::string("\"\"") : std::string(1, c);
    return result + "\"";
  };
  std::string text;
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    text.append(i ? "," : "").append(quoted(one_line(table.columns[i].id)));
  text += "\n";
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text.append(i ? "," : "").append(quoted((is_formula(row[i]) ? "'" : "") + one_line(value_text(row[i]))));
    text += "\n";
  }
  return text;
}

std::string to_text(const Table& table) {
  auto widths = widths_of(table);
  if (!table.groups.empty() && !widths.empty()) widths.front() += 2;  // rows are indented below their heading
  std::string text = one_line(table.title) + "\n";
  auto add_line = [&](auto cell_text) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      line += (i ? "  " : "") + pad(cell_text(i), widths[i], table.columns[i].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](std::size_t i) { return heading(table.columns[i]); });
  add_line([&](std::size_t i) { return std::string(widths[i], '-'); });
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    if (const std::string* heading = table.heading_before(r)) text += one_line(*heading) + "\n";
    const std::string indent = table.groups.empty() ? "" : "  ";
    add_line([&](std::size_t i) { return (i == 0 ? indent : "") + one_line(table.rows[r][i].text); });
  }
  return text;
}

}  // namespace ecmv::reports
