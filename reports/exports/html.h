// The report as one self-contained HTML page: the answer first, then inline SVG and sortable tables, with the records
// embedded as JSON. It needs no network, works from a file and follows the reader's light or dark setting.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reports/figures/figure.h"
#include "reports/record.h"
#include "reports/tables/table.h"

namespace ecmv::reports {

struct PageFigure {
  const Figure* figure;
  std::string svg;  // as drawn; empty if drawing failed
};

// A part of the page below the first screen; a folded one opens on a click.
struct PageSection {
  std::string id, title;
  bool folded = true;
  std::vector<Table> tables = {};
  std::vector<PageFigure> figures = {};
  std::vector<std::pair<std::string, std::string>> texts = {};  // title, preformatted text
};

// The first screen is title, answer and at most two figures; the sections follow in their order.
struct Page {
  std::string title, question;
  std::string answer, more;                             // Markdown with **bold** only
  std::vector<std::pair<Status, std::int64_t>> counts;  // of cases, every status
  std::vector<std::string> warnings;
  std::vector<PageFigure> lead_figures;
  std::vector<PageSection> sections;
  std::vector<std::string> json_lines;  // the records
};

std::string to_html(const Page& page);
std::string html_escaped(const std::string& text);
// An SVG file as a piece of a page: no prologue, no name spaces (HTML knows SVG), ids made unique by `prefix`, and no
// background, so that the page's shows through.
std::string inline_svg(const std::string& svg, const std::string& prefix);

}  // namespace ecmv::reports
