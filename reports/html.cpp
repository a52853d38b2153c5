// The page's skeleton, style and script. Colours of figures are turned for dark pages by attribute selectors
// on the three greys that gnuplot.cpp draws with; palette colours are bright enough for both.
#include "reports/html.h"

#include <fmt/format.h>

#include <algorithm>

namespace ecmv::reports {
namespace {

constexpr std::string_view kStyle = R"css(
:root{--paper:#fff;--ink:#24292f;--quiet:#59636e;--line:#d8dee4;--band:#f6f8fa;--good:#1a7f37;--bad:#cf222e;--caution:#9a6700}
@media (prefers-color-scheme:dark){:root{--paper:#0d1117;--ink:#e6edf3;--quiet:#9198a1;--line:#30363d;--band:#161b22;--good:#3fb950;--bad:#f85149;--caution:#d29922}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1560px;padding:1.5rem;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
h1{font-size:1.7rem;margin:0}h2{font-size:1.25rem;margin:2.4rem 0 .6rem;padding-bottom:.25rem;border-bottom:1px solid var(--line)}
h3{font-size:1.02rem;margin:1.5rem 0 .3rem}
p{margin:.3rem 0;max-width:75ch}.question{font-size:1.1rem;color:var(--quiet)}.caption{color:var(--quiet);font-size:.9rem}
nav{margin:.8rem 0}nav a{margin-right:1.1rem}a{color:inherit;text-underline-offset:3px}
.counts{display:flex;flex-wrap:wrap;gap:.6rem;margin:1rem 0}.count{border:1px solid var(--line);border-radius:6px;padding:.35rem .8rem;color:var(--quiet)}
.count b{font-size:1.2rem;margin-right:.35rem;color:var(--ink)}.count.good b{color:var(--good)}.count.bad{border-color:var(--bad)}.count.bad b{color:var(--bad)}.count.caution b{color:var(--caution)}
.warnings{list-style:none;border-left:3px solid var(--caution);background:var(--band);padding:.5rem 1rem;margin:1rem 0}.warnings li{margin:.15rem 0}
.scroll{overflow:auto;max-height:36rem;border:1px solid var(--line);border-radius:6px;margin:.4rem 0 1rem}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th{position:sticky;top:0;background:var(--band);text-align:left;cursor:pointer;font-weight:600;vertical-align:bottom}
th small{font-weight:400;color:var(--quiet);white-space:nowrap}th[aria-sort=ascending]::after{content:" \25B4"}th[aria-sort=descending]::after{content:" \25BE"}
th,td{padding:.28rem .6rem;border-bottom:1px solid var(--line)}tr:last-child td{border-bottom:0}tbody tr:hover{background:var(--band)}
.r{text-align:right;white-space:nowrap}td.n{white-space:nowrap}.good{color:var(--good)}.bad{color:var(--bad)}.caution{color:var(--caution)}.quiet{color:var(--quiet)}[title]{text-decoration:underline dotted var(--line);text-underline-offset:3px}
input[type=search]{font:inherit;font-size:13px;padding:.25rem .6rem;border:1px solid var(--line);border-radius:6px;background:var(--paper);color:inherit;width:22rem;max-width:100%}
figure{margin:1.2rem 0 2rem}figure svg{width:100%;max-width:1000px;height:auto;display:block}figcaption{color:var(--quiet);font-size:.9rem;max-width:85ch}
svg text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
details{margin:.6rem 0}summary{cursor:pointer;color:var(--quiet)}pre{background:var(--band);border:1px solid var(--line);border-radius:6px;padding:.8rem;overflow:auto;font-size:12.5px}
footer{margin-top:3rem}
)css";

constexpr std::string_view kScript = R"js(
// Sorting: by data-v (the raw value) where there is one, else by text; empty cells always last.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const sort = () => {
      const up = head.getAttribute("aria-sort") === "descending" || (head.className !== "r" && !head.hasAttribute("aria-sort"));
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = row => {
        const cell = row.cells[column];
        return cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.textContent;
      };
      const empty = value => value === "" || value === "–";
      const rows = [...body.rows].map(row => [key(row), row]);
      rows.sort(([a], [b]) => {
        if (empty(a) || empty(b)) return empty(a) - empty(b);
        const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true});
        return up ? order : -order;
      });
      body.append(...rows.map(([, row]) => row));
    };
    head.tabIndex = 0;
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });
}
// Filtering: a row stays when it contains every word.
for (const field of document.querySelectorAll("input[type=search]")) {
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.getElementById(field.dataset.table).tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
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

std::string table_html(const Table& table, bool sortable = true) {
  std::string html = fmt::format("<h3 id=\"{}-title\">{}</h3>\n", table.id, html_escaped(table.title));
  if (!table.caption.empty()) html += fmt::format("<p class=\"caption\">{}</p>\n", html_escaped(table.caption));
  if (sortable && table.rows.size() > 12) {
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
  for (const auto& row : table.rows) {
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

// "</" must not end the script element early; "<\/" is the same in JSON.
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

// "rgb( 36,  41,  47)" -> "var(--ink)", and so on; gnuplot writes the same colour with and without spaces.
void use_page_colors(std::string& text) {
  for (std::size_t at = text.find("rgb("); at != std::string::npos; at = text.find("rgb(", at + 4)) {
    const auto end = text.find(')', at);
    if (end == std::string::npos) return;
    std::string color = text.substr(at, end + 1 - at);
    std::erase(color, ' ');
    const char* name = color == "rgb(36,41,47)"      ? "var(--ink)"
                       : color == "rgb(110,119,129)" ? "var(--quiet)"
                       : color == "rgb(216,222,228)" ? "var(--line)"
                                                     : nullptr;
    if (name) text.replace(at, end + 1 - at, name);
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

std::string to_html(const Page& page) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{}</title>\n<style>{}</style></head><body>\n<header><h1>{}</h1>\n<p "
      "class=\"question\">{}</p>\n",
      html_escaped(page.title), kStyle, html_escaped(page.title), html_escaped(page.question));
  html += "<div class=\"counts\">";
  for (const auto& [status, count] : page.counts) {
    const bool caution = status == Status::refused || status == Status::unavailable;
    const char* tone = count == 0 ? "" : status == Status::ok ? "good" : caution ? "caution" : "bad";
    html += fmt::format("<span class=\"count {}\"><b>{}</b>{}</span>", tone, count, to_string(status));
  }
  html += "</div>\n<nav>";
  if (!page.problems.empty()) html += "<a href=\"#problems\">Failed and refused</a>";
  html +=
      "<a href=\"#results\">Results</a><a href=\"#figures\">Figures</a><a "
      "href=\"#coverage-title\">Coverage</a>"
      "<a href=\"#glossary\">Metrics</a><a href=\"#provenance-part\">Provenance</a></nav></header>\n";
  if (!page.warnings.empty()) {
    html += "<ul class=\"warnings\">";
    for (const std::string& warning : page.warnings) html += fmt::format("<li>{}</li>", html_escaped(warning));
    html += "</ul>\n";
  }
  auto section = [&](const char* id, const char* title, const std::vector<Table>& tables) {
    if (tables.empty()) return;
    html += fmt::format("<section id=\"{}\"><h2>{}</h2>\n", id, title);
    for (const Table& table : tables) html += table_html(table);
    html += "</section>\n";
  };
  section("problems", "Failed and refused", page.problems);
  section("results", "Results: verified cases", page.results);
  html += "<section id=\"figures\"><h2>Figures</h2>\n";
  for (const PageFigure& drawn : page.figures) {
    const Figure& figure = *drawn.figure;
    html += fmt::format("<figure id=\"figure-{}\" aria-label=\"{}: {}\">", figure.id, html_escaped(figure.title),
                        html_escaped(figure.subtitle));
    html += drawn.svg.empty() ? fmt::format(
                                    "<p class=\"quiet\">{} ({}): not drawn, see the warnings; its data are "
                                    "in figures/{}.dat</p>",
                                    html_escaped(figure.title), html_escaped(figure.subtitle), figure.id)
                              : inline_svg(drawn.svg, figure.id);
    html += fmt::format("<figcaption>{}</figcaption></figure>\n", html_escaped(figure.caption));
  }
  if (page.figures.empty()) html += "<p class=\"quiet\">There are too few verified cases for a figure.</p>\n";
  html += "</section>\n";
  section("sizes", "Sizes and coverage", page.sizes);
  html += "<section id=\"glossary\"><h2>Metrics</h2>\n";
  for (const Table& table : page.glossary) html += table_html(table);
  html += "</section>\n<footer id=\"provenance-part\"><h2>Provenance</h2>\n";
  for (const Table& table : page.provenance) html += table_html(table, false);
  for (const auto& [title, text] : page.texts) {
    html +=
        fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n", html_escaped(title), html_escaped(text));
  }
  html += "</footer>\n<script type=\"application/json\" id=\"records\">[";
  for (std::size_t i = 0; i < page.json_lines.size(); ++i)
    html += (i ? ",\n" : "\n") + json_escaped(page.json_lines[i]);
  html += fmt::format("\n]</script>\n<script>{}</script>\n</body></html>\n", kScript);
  return html;
}

}  // namespace ecmv::reports
