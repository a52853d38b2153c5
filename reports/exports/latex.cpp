// LaTeX renderers, and the choice of rows for a paper.
#include "reports/exports/latex.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "reports/compare.h"
#include "reports/fields.h"
#include "reports/tables/tables.h"

namespace ecmv::reports {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 22> kEscapes = {{
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
    {"±", "$\\pm$"},
    {"−", "$-$"},
}};

struct PaperValue {
  std::string_view name, meaning;
  std::string (*text)(const CaseRecord&, const Context&);  // "" if there is none
};

std::string rounded(const char* metric, const CaseRecord& r, const Context& c, double unit, int digits) {
  const double value = find_metric(metric).value(r, c);
  return std::isfinite(value) ? fixed_text(value / unit, digits) : "";
}

std::string rounded_speed(const char* metric, const CaseRecord& r, const Context& c) {
  const double giga = find_metric(metric).value(r, c) / 1e9;
  return std::isfinite(giga) ? fixed_text(giga, giga < 10 ? 3 : giga < 100 ? 2 : giga < 1000 ? 1 : 0) : "";
}

std::string count(std::int64_t number) { return number > 0 ? fmt::format("{}", number) : ""; }

std::string speedup_end(const CaseRecord& r, const Context& c, double Interval::*end) {
  if (!c.baseline || c.baseline == &r) return "";
  const Interval ratio = compare_cases(*c.baseline, r).speed_ratio;
  return ratio.low > 0 ? fixed_text(ratio.*end, 2) : "";
}

constexpr PaperValue kValues[] = {
    {"speed", "elements a second, in G", [](auto& r, auto& c) { return rounded_speed("elements_per_s", r, c); }},
    {"speed-low", "its slow end: nine passes in ten were faster",
     [](auto& r, auto& c) { return rounded_speed("elements_per_s_p10", r, c); }},
    {"speed-high", "its fast end: one pass in ten was faster",
     [](auto& r, auto& c) { return rounded_speed("elements_per_s_p90", r, c); }},
    {"time", "a pass, in ms",
     [](auto& r, auto&) { return r.time.median_s > 0 ? fixed_text(1e3 * r.time.median_s, 4) : std::string(); }},
    {"speedup", "speed over that of the uncompressed codec",
     [](auto& r, auto& c) { return rounded("speedup_vs_raw", r, c, 1, 2); }},
    {"speedup-low", "95 % interval of it, from", [](auto& r, auto& c) { return speedup_end(r, c, &Interval::low); }},
    {"speedup-high", "and to", [](auto& r, auto& c) { return speedup_end(r, c, &Interval::high); }},
    {"bits", "stored bits an element", [](auto& r, auto& c) { return rounded("bits_per_element", r, c, 1, 3); }},
    {"entropy", "entropy of the elements, in bits",
     [](auto& r, auto& c) { return rounded("entropy_bits_per_element", r, c, 1, 3); }},
    {"excess", "stored bits above the entropy, in %",
     [](auto& r, auto& c) { return rounded("excess_over_entropy_percent", r, c, 1, 1); }},
    {"ratio", "bits of the element type over stored bits",
     [](auto& r, auto& c) { return rounded("compression_ratio", r, c, 1, 3); }},
    {"bandwidth", "share of the measured read bandwidth",
     [](auto& r, auto& c) { return rounded("bandwidth_fraction", r, c, 1, 2); }},
    {"disturbed", "none, slight or ruined: whether other load was in the way of its times",
     [](auto& r, auto& c) { return std::string(to_string(disturbance_of(r, c))); }},
    {"raw-kernels", "uncompressed kernels in the run", [](auto&, auto& c) { return count(c.raw_kernels); }},
    {"raw-kernels-known", "and in the build", [](auto&, auto& c) { return count(c.known_raw_kernels); }},
};

Cell marked(Cell cell, Disturbance disturbance) {
  mark_cell(cell, disturbance);
  return cell;
}

Cell speed_cell(const CaseRecord& r, const Context& c) {
  const double low = find_metric("elements_per_s_p10").value(r, c),
               high = find_metric("elements_per_s_p90").value(r, c);
  const double speed = find_metric("elements_per_s").value(r, c);
  return marked(interval_cell(speed, {low, high}, 1e9,
                              speed < 1e10   ? 3
                              : speed < 1e11 ? 2
                              : speed < 1e12 ? 1
                                             : 0),
                disturbance_of(r));
}

Cell speedup_cell(const CaseRecord& r, const Context& c) {
  const double speedup = find_metric("speedup_vs_raw").value(r, c);
  if (!c.baseline || c.baseline == &r) return marked(number_cell(speedup, fixed_text(speedup, 2)), disturbance_of(r));
  const Interval ratio = compare_cases(*c.baseline, r).speed_ratio;
  return marked(interval_cell(speedup, {ratio.low > 0 ? ratio.low : kUnknown, ratio.high}, 1, 2), disturbance_of(r, c));
}

Cell metric_cell(const char* metric, int digits, const CaseRecord& r, const Context& c) {
  const double value = find_metric(metric).value(r, c);
  return number_cell(value, fixed_text(value, digits));
}

std::string group_heading(const CaseRecord& r, const Context& c) {
  std::string heading = field_text(r, "data");
  if (has_tokens(r)) heading += ", " + tokens_text(r);
  if (const std::string device = device_label(r); !device.empty()) heading += ", " + device;
  if (const std::string filtered = c.raw_text(); !filtered.empty()) heading += "; " + filtered;
  return heading;
}

// "Left out, not verified: a, b." or nothing.
std::string codecs_left_out(const RecordSet& records) {
  std::set<std::string> left_out, shown;
  for (const CaseRecord& r : records.cases) (r.status == Status::ok ? shown : left_out).insert(codec_name(r));
  for (const std::string& codec : shown) left_out.erase(codec);
  return left_out.empty() ? "" : fmt::format("Left out, not verified: {}.", fmt::join(left_out, ", "));
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

std::string latex_label(const std::string& raw) {
  std::string text;
  for (const char c : latex_escaped(raw)) {
    text += c;
    if (std::string_view("_,=").find(c) != std::string_view::npos) text += "\\allowbreak{}";
  }
  return text;
}

std::string to_latex(const Table& table) {
  std::string headings, units;
  bool any_unit = false;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    headings += (i ? " & " : "") + latex_escaped(column.name);
    units += (i ? " & " : "") + (column.unit.empty() ? "" : "{[" + latex_escaped(column.unit) + "]}");
    any_unit |= !column.unit.empty();
  }
  std::string columns;
  for (std::size_t i = 1; i < table.columns.size(); ++i)
    columns += table.columns[i].align == Column::Align::right ? 'r' : 'l';
  std::string text = fmt::format(
      "\\begin{{table}}\n\\caption{{{}}}\\label{{tab:{}}}\n\\footnotesize\\setlength{{\\tabcolsep}}{{2pt}}\n"
      "\\begin{{tabular*}}{{\\linewidth}}{{@{{\\extracolsep{{\\fill}}}}>{{\\raggedright\\arraybackslash}}p{{0."
      "31\\linewidth}}"
      "{}@{{}}}}\n\\toprule\n{} \\\\\n",
      latex_escaped(table.title + (table.caption.empty() ? "" : ". " + table.caption)), table.id, columns, headings);
  if (any_unit) text += units + " \\\\\n";
  text += "\\midrule\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    if (const std::string* heading = table.heading_before(r))
      text += fmt::format(
          "{}\\multicolumn{{{}}}{{@{{}}l@{{}}}}{{\\makebox[0pt][l]{{\\parbox[t]{{\\linewidth}}"
          "{{\\raggedright\\emph{{{}}}\\strut}}}}}} \\\\\n",
          r > 0 ? "\\addlinespace\n" : "", table.columns.size(), latex_escaped(*heading));
    const auto& row = table.rows[r];
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = i == 0 ? latex_label(row[i].text) : latex_escaped(row[i].text);
      // Otherwise the end of the line before would take them as its own.
      if (i == 0 && (cell.starts_with('[') || cell.starts_with('*'))) text += "{}";
      text += (i ? " & " : "") + cell;
    }
    text += " \\\\\n";
  }
  return text + "\\bottomrule\n\\end{tabular*}\n\\end{table}\n";
}

std::vector<Table> paper_tables(const RecordSet& records, const Contexts& contexts, const CaseKeys& keys,
                                const std::vector<std::string>& chosen) {
  std::vector<const CaseRecord*> cases;
  std::set<std::string> seen;  // keeps the first case of each codec on each data, which is the fastest
  for (const CaseRecord* r : sorted_cases(records)) {
    if (!chosen.empty() || r->status != Status::ok) continue;
    if (seen.insert(fmt::format("{}|{}|{}|{}", r->codec.id, r->kernel.op, r->time.cache,
                                group_heading(*r, contexts.of(*r))))
            .second)
      cases.push_back(r);
  }
  for (const std::string& key : chosen) {
    const CaseRecord* found = keys.find(key);
    if (found == nullptr)
      throw ReportError(
          fmt::format("no verified case has the key \"{}\"; the column \"key\" of results.csv has them all", key));
    cases.push_back(found);
  }
  const std::string left_out = chosen.empty() ? codecs_left_out(records) : "";
  std::map<std::pair<std::string, std::string>, std::vector<const CaseRecord*>> by_class;
  std::vector<std::pair<std::string, std::string>> order;
  for (const CaseRecord* r : cases) {
    auto& members = by_class[{r->kernel.op, r->time.cache}];
    if (members.empty()) order.emplace_back(r->kernel.op, r->time.cache);
    members.push_back(r);
  }
  const auto rank = [](const auto& op_and_cache) {
    const auto& [op, cache] = op_and_cache;
    return std::pair(op == "size" ? 2 : op == "decode" ? 1 : 0, cache != "streamed");
  };
  if (chosen.empty())
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  constexpr std::size_t kMostRows = 36;  // with the headings of groups they fill a page's column
  std::vector<Table> tables;
  for (const auto& [op, cache] : order) {
    const bool timed = op != "size";
    int part = 0;
    std::string heading;
    for (const CaseRecord* r : by_class[{op, cache}]) {
      if (part == 0 || tables.back().rows.size() + tables.back().groups.size() >= kMostRows) {
        ++part;
        heading.clear();
        Table& table = tables.emplace_back();
        table.id =
            fmt::format("{}{}{}", op, cache.empty() ? "" : "-" + cache, part > 1 ? fmt::format("-{}", part) : "");
        table.title = timed ? fmt::format("{}, {}{}", op, cache, part > 1 ? ", continued" : "") : "Stored sizes";
        table.caption = left_out;
        table.columns = {{"codec", "codec", ""},
                         {"bits", "bits", "bit", Column::Align::right},
                         {"excess", "excess", "%", Column::Align::right}};
        if (timed) {
          table.columns.push_back({"speed", "elements/s", "G/s", Column::Align::right});
          table.columns.push_back({"speedup", "vs raw", "×", Column::Align::right});
        } else {
          table.columns.push_back({"ratio", "ratio", "×", Column::Align::right});
        }
      }
      Table& table = tables.back();
      const Context context = contexts.of(*r);
      if (const std::string next = group_heading(*r, context); next != heading)
        table.groups.push_back({table.rows.size(), heading = next});
      std::vector<Cell>& row = table.rows.emplace_back();
      row = {text_cell(codec_label(*r)), metric_cell("bits_per_element", 3, *r, context),
             metric_cell("excess_over_entropy_percent", 1, *r, context)};
      if (timed) {
        row.push_back(speed_cell(*r, context));
        row.push_back(speedup_cell(*r, context));
      } else {
        row.push_back(metric_cell("compression_ratio", 3, *r, context));
      }
    }
  }
  return tables;
}

std::string to_macros(const RecordSet& records, const Contexts& contexts, const CaseKeys& keys) {
  std::string text =
      "% \\ecmvval{KEY}{NAME} is a value of a case, as text without its unit. A wrong key or name is an error.\n% "
      "Names:\n";
  for (const PaperValue& value : kValues) text += fmt::format("%   {:<13} {}\n", value.name, value.meaning);
  text +=
      "\\makeatletter\n"
      "\\def\\ecmv@none{none}\n"
      "\\providecommand{\\ecmvval}[2]{\\ifcsname ecmv@#1@disturbed\\endcsname\\expandafter\\ifx"
      "\\csname ecmv@#1@disturbed\\endcsname\\ecmv@none\\else\\protect\\PackageWarning{ecmv}{The times of '#1' were "
      "disturbed: "
      "\\csname ecmv@#1@disturbed\\endcsname}\\fi\\fi"
      "\\ifcsname ecmv@#1@#2\\endcsname\\csname ecmv@#1@#2\\endcsname\\else"
      "\\PackageError{ecmv}{There is no value '#2' of '#1'}{The keys and names stand in macros.tex.}\\fi}\n"
      "\\def\\ecmv@def#1#2#3{\\expandafter\\def\\csname ecmv@#1@#2\\endcsname{#3}}\n";
  for (const CaseRecord* record : sorted_cases(records)) {
    if (record->status != Status::ok) continue;
    const Context context = contexts.of(*record);
    for (const PaperValue& value : kValues)
      if (const std::string number = value.text(*record, context); !number.empty())
        text += fmt::format("\\ecmv@def{{{}}}{{{}}}{{{}}}\n", keys.of(*record), value.name, number);
  }
  return text + "\\makeatother\n";
}

}  // namespace ecmv::reports
