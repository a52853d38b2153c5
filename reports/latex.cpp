// LaTeX renderers of Table.
#include "reports/latex.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "reports/fields.h"

namespace ecmv::reports {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kEscapes = {{
    {"\\", "\\textbackslash{}"},
    {"&", "\\&"},
    {"%", "\\%"},
    {"$", "\\$"},
    {"#", "\\#"},
    {"_", "\\_"},
    {"{", "\\{"},
    {"}", "\\}"},
    {"~", "\\textasciitilde{}"},
    {"^", "\\textasciicircum{}"},
    {"<", "$<$"},
    {">", "$>$"},
    {"σ", "$\\sigma$"},
    {"×", "$\\times$"},
    {"·", "$\\cdot$"},
    {"–", "--"},
    {"…", "\\ldots{}"},
    {"µ", "$\\mu$"},
    {"|", "\\textbar{}"},
    {"†", "\\textdagger{}"},
}};

// "coder[lanes=32]" -> "CoderLanesThreeTwo".
std::string macro_words(std::string_view text) {
  constexpr std::array<std::string_view, 10> kDigits = {"Zero", "One", "Two",   "Three", "Four",
                                                        "Five", "Six", "Seven", "Eight", "Nine"};
  std::string name;
  bool capital = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (text.substr(i).starts_with("σ"))
      name += "Sigma", ++i, capital = true;
    else if (std::isdigit(c))
      name += kDigits[c - '0'], capital = true;
    else if (c == '.' && i > 0 && std::isdigit(static_cast<unsigned char>(text[i - 1])))
      name += "Point", capital = true;
    else if (c < 128 && std::isalpha(c))
      name += static_cast<char>(capital ? std::toupper(c) : c), capital = false;
    else
      capital = true;
  }
  return name;
}

}  // namespace

std::string latex_escaped(const std::string& raw) {
  const std::string text = one_line(raw);
  std::string escaped;
  for (std::size_t i = 0; i < text.size();) {
    bool found = false;
    for (const auto& [sign, replacement] : kEscapes) {
      if (std::string_view(text).substr(i).starts_with(sign)) {
        escaped += replacement;
        i += sign.size();
        found = true;
        break;
      }
    }
    if (!found) escaped += text[i++];
  }
  return escaped;
}

std::string to_latex(const Table& table) {
  std::string columns, headings, units;
  bool any_unit = false;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    columns += column.align == Column::Align::right ? 'r' : 'l';
    headings += (i ? " & " : "") + latex_escaped(column.name);
    units += (i ? " & " : "") + (column.unit.empty() ? "" : "{[" + latex_escaped(column.unit) + "]}");
    any_unit |= !column.unit.empty();
  }
  std::string text =
      fmt::format("\\begin{{longtable}}{{{}}}\n\\caption{{{}}}\\label{{tab:{}}}\\\\\n\\toprule\n{} \\\\\n", columns,
                  latex_escaped(table.title), table.id, headings);
  if (any_unit) text += units + " \\\\\n";
  text += "\\midrule\n\\endhead\n\\bottomrule\n\\endfoot\n";
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = latex_escaped(row[i].text);
      // The end of the line before would take these for its own.
      if (i == 0 && (cell.starts_with('[') || cell.starts_with('*'))) text += "{}";
      text += (i ? " & " : "") + cell;
    }
    text += " \\\\\n";
  }
  return text + "\\end{longtable}\n";
}

std::string to_macros(const std::vector<Table>& tables) {
  std::string text;
  std::set<std::string> used;
  for (const Table& table : tables) {
    for (const auto& row : table.rows) {
      std::string row_name;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const bool is_label = table.columns[i].align == Column::Align::left;
        if (is_label) row_name += macro_words(row[i].text);
      }
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (!std::holds_alternative<double>(row[i].value) && !std::holds_alternative<std::int64_t>(row[i].value))
          continue;
        const std::string base = "ecmv" + macro_words(table.title) + row_name + macro_words(table.columns[i].id);
        std::string name = base;
        for (int copy = 1; !used.insert(name).second; ++copy) name = base + "Copy" + macro_words(std::to_string(copy));
        text += fmt::format("\\newcommand{{\\{}}}{{{}}}\n", name, latex_escaped(row[i].text));
      }
    }
  }
  return text;
}

}  // namespace ecmv::reports
