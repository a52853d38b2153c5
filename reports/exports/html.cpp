// The page's skeleton, style and script. For dark pages, attribute selectors change the three greys that gnuplot.cpp
// draws with; palette colours are bright enough for both.
#include "reports/exports/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "reports/figures/gnuplot.h"

namespace ecmv::reports {
namespace {

constexpr std::string_view kStyle = R"css(
:root{--paper:#fff;--ink:#24292f;--quiet:#59636e;--line:#d8dee4;--band:#f6f8fa;--good:#1a7f37;--bad:#cf222e;
  --caution:#9a6700}
@media (prefers-color-scheme:dark){:root{--paper:#0d1117;--ink:#e6edf3;--quiet:#9198a1;--line:#30363d;
  --band:#161b22;--good:#3fb950;--bad:#f85149;--caution:#d29922}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1320px;padding:1.1rem 1.5rem 3rem;background:var(--paper);color:var(--ink);
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;-webkit-text-size-adjust:100%}
header>div{display:flex;flex-wrap:wrap;align-items:baseline;gap:.3rem 1rem}
h1{font-size:1.35rem;margin:0}h2{font-size:1.15rem;margin:1.6rem 0 .2rem}h3{font-size:1rem;margin:1.1rem 0 .2rem}
p{margin:.25rem 0;max-width:85ch}.question,.more,.caption{color:var(--quiet)}.caption{font-size:.87rem}
.question{max-width:none}.answer{font-size:1.3rem;line-height:1.4;margin:.5rem 0 .2rem;max-width:none}
.more{max-width:none}
.counts{display:flex;flex-wrap:wrap;gap:.2rem .9rem;color:var(--quiet)}.count b{color:var(--ink)}
.count.good b{color:var(--good)}.count.bad,.count.bad b{color:var(--bad)}.count.caution b{color:var(--caution)}
.warnings{border-left:3px solid var(--caution);background:var(--band);padding:.35rem .9rem;margin:.6rem 0;
  font-size:.9rem}.warnings p{max-width:none;margin:.1rem 0}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:.5rem 2rem;
  margin:.8rem 0}
figure{margin:0}figure svg{width:100%;max-width:600px;height:auto;display:block}
figcaption{color:var(--quiet);font-size:.87rem;max-width:600px}
svg text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
.scroll{overflow:auto;max-height:66rem;border:1px solid var(--line);border-radius:6px;margin:.4rem 0 .8rem}
table{border-collapse:collapse;width:100%;font-size:13.5px;line-height:1.35;font-variant-numeric:tabular-nums}
thead th{position:sticky;top:0;background:var(--band);text-align:left;font-weight:600;vertical-align:bottom;
  z-index:1}.sortable thead th{cursor:pointer}
th small{font-weight:400;color:var(--quiet);white-space:nowrap}th[aria-sort=ascending]::after{content:" \25B4"}
th[aria-sort=descending]::after{content:" \25BE"}
th,td{padding:.2rem .6rem;border-bottom:1px solid var(--line)}tbody:last-child tr:last-child td{border-bottom:0}
tbody tr:hover td{background:var(--band)}
.group th{text-align:left;font-weight:600;padding-top:.5rem}.group span{position:sticky;left:.6rem;
  display:inline-block;max-width:calc(100vw - 3rem);white-space:normal}
tbody td:first-child{position:sticky;left:0;background:var(--paper)}
tbody tr:hover td:first-child{background:var(--band)}
th.r,td.r{text-align:right;white-space:nowrap}td.n{white-space:nowrap}.good{color:var(--good)}.bad{color:var(--bad)}
.caution{color:var(--caution)}.quiet{color:var(--quiet)}
td [title]{text-decoration:underline dotted var(--line);text-underline-offset:3px}
input[type=search]{font:inherit;font-size:16px;padding:.2rem .6rem;border:1px solid var(--line);border-radius:6px;
  background:var(--paper);color:inherit;width:22rem;max-width:100%}
details{border-top:1px solid var(--line)}details+details{margin-top:0}
details:last-of-type{border-bottom:1px solid var(--line)}
summary{cursor:pointer;padding:.45rem 0;font-weight:600}summary small{font-weight:400;color:var(--quiet)}
.warnings details{border:0}.warnings summary{padding:0;font-weight:400}
pre{background:var(--band);border:1px solid var(--line);border-radius:6px;padding:.8rem;overflow:auto;
  font-size:12.5px}
section{margin-bottom:1rem}
@media (max-width:600px){body{padding:.8rem .75rem 2rem}.question{max-width:none}.answer{font-size:1.12rem}
  th,td{padding:.25rem .45rem}}
)css";

constexpr std::string_view kScript = R"js(
// Sorting, within each group: by data-v (the raw value) where there is one, else by text; empty cells always last.
for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const sort = () => {
      const up = head.getAttribute("aria-sort") === "descending" ||
        (head.className !== "r" && !head.hasAttribute("aria-sort"));
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = row => {
        const cell = row.cells[column];
        return cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.textContent;
      };
      const empty = value => value === "" || value === "–";
      for (const body of table.tBodies) {
        const rows = [...body.rows].filter(row => row.className !== "group").map(row => [key(row), row]);
        rows.sort(([a], [b]) => {
          if (empty(a) || empty(b)) return empty(a) - empty(b);
          const order = typeof a === "number" && typeof b === "number" ? a - b
            : String(a).localeCompare(String(b), "en", {numeric: true});
          return up ? order : -order;
        });
        body.append(...rows.map(([, row]) => row));
      }
    };
    head.tabIndex = 0;
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });
}
// Filtering: a row stays when it or its group's heading contains every word.
for (const field of document.querySelectorAll("input[type=search]")) {
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const body of document.getElementById(field.dataset.table).tBodies) {
      const heading = body.rows[0]?.className === "group" ? body.rows[0] : null;
      let any = false;
      for (const row of body.rows) {
        if (row === heading) continue;
        const text = ((heading?.textContent ?? "") + " " + row.textContent).toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
        any ||= !row.hidden;
      }
      if (heading) heading.hidden = !any;
    }
  });
}
)js";

const char* tone_class(Cell::Tone tone) {
  switch (tone) {
    case Cell::Tone::good: return "good";
    case Cell::Tone::bad: return "bad";
    case Cell::Tone::caution: return "caution";
    case Cell::Tone::quiet: return "quiet";
    case Cell::Tone::plain: break;
  }
  return "";
}

// Leaves out the table's title if the section has the same.
std::string table_html(const Table& table, const std::string& section_title) {
  const bool sortable = table.id != "provenance";
  std::string html;
  if (table.title != section_title) html = fmt::format("<h3>{}</h3>\n", html_escaped(table.title));
  if (!table.caption.empty()) html += fmt::format("<p class=\"caption\">{}</p>\n", html_escaped(table.caption));
  if (sortable && table.rows.size() > 30) {
    html += fmt::format(
        "<input type=\"search\" data-table=\"{}\" placeholder=\"filter {} rows\" aria-label=\"filter "
        "rows\">\n",
        table.id, table.rows.size());
  }
  html += fmt::format("<div class=\"scroll\"><table id=\"{}\"{}><thead><tr>", table.id,
                      sortable ? " class=\"sortable\"" : "");
  for (const Column& column : table.columns) {
    const char* align = column.align == Column::Align::right ? " class=\"r\"" : "";
    const std::string unit = column.unit.empty() ? "" : fmt::format("<br><small>{}</small>", html_escaped(column.unit));
    html += fmt::format("<th{}>{}{}</th>", align, html_escaped(column.name), unit);
  }
  html += "</tr></thead><tbody>\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const auto& row = table.rows[r];
    if (const std::string* heading = table.heading_before(r))
      html += fmt::format("{}<tr class=\"group\"><th colspan=\"{}\" scope=\"rowgroup\"><span>{}</span></th></tr>\n",
                          r > 0 ? "</tbody><tbody>\n" : "", table.columns.size(), html_escaped(*heading));
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Cell& cell = row[i];
      std::string classes = table.columns[i].align == Column::Align::right ? "r" : cell.text.size() < 48 ? "n" : "";
      if (*tone_class(cell.tone)) classes += std::string(classes.empty() ? "" : " ") + tone_class(cell.tone);
      html += "<td";
      if (!classes.empty()) html += fmt::format(" class=\"{}\"", classes);
      const bool is_number =
          std::holds_alternative<double>(cell.value) || std::holds_alternative<std::int64_t>(cell.value);
      if (is_number) html += fmt::format(" data-v=\"{}\"", value_text(cell));
      if (cell.note.empty())
        html += fmt::format(">{}</td>", html_escaped(cell.text));
      else
        html += fmt::format("><span title=\"{}\">{}</span></td>", html_escaped(cell.note), html_escaped(cell.text));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

// "</" must not end the script element early; "<\/" means the same in JSON.
std::string json_escaped(const std::string& line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    text += line[i];
    if (line[i] == '<' && i + 1 < line.size() && (line[i + 1] == '/' || line[i + 1] == '!')) {
      text.pop_back();
      text += "\\u003c";
    }
  }
  return text;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

void erase_between(std::string& text, const std::string& begin, const std::string& end) {
  const auto from = text.find(begin);
  if (from == std::string::npos) return;
  const auto to = text.find(end, from + begin.size());
  if (to != std::string::npos) text.erase(from, to + end.size() - from);
}

constexpr int kColors = 12;  // of the palette

// "#0072b2" -> "rgb(0,114,178)".
std::string rgb(const std::string& color) {
  const long value = std::stol(color.substr(1), nullptr, 16);
  return fmt::format("rgb({},{},{})", value >> 16, value >> 8 & 255, value & 255);
}

// The figures' colours as variables; dark pages mix them with white.
std::string palette_style() {
  std::string light = ":root{", dark = "@media (prefers-color-scheme:dark){:root{";
  for (int color = 0; color < kColors; ++color) {
    light += fmt::format("--c{}:{};", color, color_text(color));
    dark += fmt::format("--c{}:color-mix(in srgb,{} 66%,white);", color, color_text(color));
  }
  return light + "}\n" + dark + "}}\n";
}

// "rgb( 36,  41,  47)" -> "var(--ink)", and so on; gnuplot writes the same colour with and without spaces.
void use_page_colors(std::string& text) {
  std::map<std::string, std::string> names = {
      {"rgb(36,41,47)", "var(--ink)"}, {"rgb(110,119,129)", "var(--quiet)"}, {"rgb(216,222,228)", "var(--line)"}};
  for (int color = 0; color < kColors; ++color) names[rgb(color_text(color))] = fmt::format("var(--c{})", color);
  for (std::size_t at = text.find("rgb("); at != std::string::npos; at = text.find("rgb(", at + 4)) {
    const auto end = text.find(')', at);
    if (end == std::string::npos) return;
    std::string color = text.substr(at, end + 1 - at);
    std::erase(color, ' ');
    if (const auto name = names.find(color); name != names.end()) text.replace(at, end + 1 - at, name->second);
  }
}

}  // namespace

std::string html_escaped(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') c = ' ';
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string inline_svg(const std::string& svg, const std::string& prefix) {
  const auto begin = svg.find("<svg");
  if (begin == std::string::npos) return "";
  std::string text = svg.substr(begin);
  erase_between(text, "xmlns=\"", "\"");
  erase_between(text, "xmlns:xlink=\"", "\"");
  erase_between(text, "<title>", "</title>");
  erase_between(text, "<desc>", "</desc>");
  const auto background = text.find("fill=\"#ffffff\"");
  if (background != std::string::npos) text.replace(background, 14, "fill=\"none\"");
  use_page_colors(text);
  replace_all(text, "color=\"black\"", "color=\"var(--ink)\"");
  replace_all(text, "xlink:href", "href");
  for (const char* quote : {"'", "\""}) {
    replace_all(text, fmt::format(" id={}", quote), fmt::format(" id={}{}-", quote, prefix));
    replace_all(text, fmt::format("href={}#", quote), fmt::format("href={}#{}-", quote, prefix));
  }
  replace_all(text, "url(#", "url(#" + prefix + "-");
  return text;
}

namespace {

// Converts Markdown that has only **bold**.
std::string bold_html(const std::string& text) {
  std::string html = html_escaped(text);
  bool open = true;
  for (std::size_t at = html.find("**"); at != std::string::npos; at = html.find("**", at)) {
    html.replace(at, 2, open ? "<strong>" : "</strong>");
    open = !open;
  }
  return html;
}

std::string figure_html(const PageFigure& drawn) {
  const Figure& figure = *drawn.figure;
  const std::string title = html_escaped(figure.title), subtitle = html_escaped(figure.subtitle);
  std::string html = fmt::format("<figure id=\"figure-{}\" aria-label=\"{}: {}\">", figure.id, title, subtitle);
  if (drawn.svg.empty())
    html += fmt::format("<p class=\"quiet\">{} ({}): not drawn, see the notes; its data are in figures/{}.dat</p>",
                        title, subtitle, figure.id);
  else
    html += inline_svg(drawn.svg, figure.id);
  return html + fmt::format("<figcaption>{}</figcaption></figure>\n", html_escaped(figure.caption));
}

std::string figures_html(const std::vector<PageFigure>& figures) {
  if (figures.empty()) return "";
  std::string html = "<div class=\"figures\">\n";
  for (const PageFigure& figure : figures) html += figure_html(figure);
  return html + "</div>\n";
}

// Always shows that other programs disturbed the run, or that its bandwidth is wrong; folds more than two other
// warnings.
std::string warnings_html(const std::vector<std::string>& warnings) {
  if (warnings.empty()) return "";
  std::string shown, list;
  std::size_t listed = 0;
  for (const std::string& warning : warnings) {
    if (warning.starts_with("DISTURBED") || warning.starts_with("BANDWIDTH"))
      shown += fmt::format("<p>{}</p>", html_escaped(warning));
    else
      list += fmt::format("<p>{}</p>", html_escaped(warning)), ++listed;
  }
  if (listed > 2)
    list = fmt::format("<details><summary>{} notes about these records</summary>{}</details>", listed, list);
  return fmt::format("<div class=\"warnings\">{}{}</div>\n", shown, list);
}

std::string section_html(const PageSection& section) {
  std::size_t rows = 0;
  for (const Table& table : section.tables) rows += table.rows.size();
  const std::string count = rows > 0                  ? fmt::format("{} rows", rows)
                            : section.figures.empty() ? ""
                                                      : fmt::format("{} figure{}", section.figures.size(),
                                                                    section.figures.size() == 1 ? "" : "s");
  std::string html = section.folded
                         ? fmt::format("<details id=\"{}\"><summary>{} <small>{}</small></summary>\n", section.id,
                                       html_escaped(section.title), count)
                         : fmt::format("<section id=\"{}\"><h2>{}</h2>\n", section.id, html_escaped(section.title));
  html += figures_html(section.figures);
  for (const Table& table : section.tables) html += table_html(table, section.title);
  for (const auto& [title, text] : section.texts)
    html += fmt::format("<h3>{}</h3><pre>{}</pre>\n", html_escaped(title), html_escaped(text));
  return html + (section.folded ? "</details>\n" : "</section>\n");
}

}  // namespace

std::string to_html(const Page& page) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{}</title>\n<style>{}{}</style></head><body>\n<header><div><h1>{}</h1>\n<div class=\"counts\">",
      html_escaped(page.title), kStyle, palette_style(), html_escaped(page.title));
  for (const auto& [status, count] : page.counts) {
    const bool caution = status == Status::refused || status == Status::unavailable;
    const char* tone = count == 0 ? "" : status == Status::ok ? "good" : caution ? "caution" : "bad";
    html += fmt::format("<span class=\"count {}\"><b>{}</b> {}</span>", tone, count, to_string(status));
  }
  html += fmt::format("</div></div>\n<p class=\"question\">{}</p>\n<p class=\"answer\" id=\"answer\">{}</p>\n",
                      html_escaped(page.question), bold_html(page.answer));
  if (!page.more.empty()) html += fmt::format("<p class=\"more\">{}</p>\n", bold_html(page.more));
  html += "</header>\n" + warnings_html(page.warnings) + figures_html(page.lead_figures);
  if (page.lead_figures.empty()) html += "<p class=\"quiet\">There are too few verified cases for a figure.</p>\n";
  for (const PageSection& section : page.sections) html += section_html(section);
  html += "<script type=\"application/json\" id=\"records\">[";
  for (std::size_t i = 0; i < page.json_lines.size(); ++i)
    html += (i ? ",\n" : "\n") + json_escaped(page.json_lines[i]);
  html += fmt::format("\n]</script>\n<script>{}</script>\n</body></html>\n", kScript);
  return html;
}

}  // namespace ecmv::reports
