// What the writers of gnuplot scripts share: the canvas, harmless texts, axes and headings. Within this room only.
//
// All places are computed, not left to gnuplot: the legend stands below the axes, letters and labels keep clear of
// points and of one another. The canvas is narrow, so that a figure fits beside another on a page and its text is
// legible on a phone; it is in pixels (SVG) and 1/100 inch (PDF), the same numbers for both.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "reports/figures/figure.h"

namespace ecmv::reports::gnuplot {

inline constexpr std::string_view kInkColor = "#24292f", kQuietColor = "#6e7781", kGridColor = "#d8dee4";

// Sizes of fonts in pixels: titles, axes and legends, small print.
inline constexpr double kTitle = 16, kBase = 14, kSmall = 13;

struct Canvas {
  double width = 500, height = 0;
  double left = 58, right = 16, top = 0, bottom = 0;  // margins
  double plot_width() const { return width - left - right; }
  double plot_height() const { return height - top - bottom; }
  // A place on the canvas, y from above.
  std::string at(double x, double y) const {
    return fmt::format("screen {:.4f}, screen {:.4f}", x / width, 1 - y / height);
  }
};

// One line that neither ends a comment nor runs anything, and the same as a string of gnuplot.
std::string harmless(const std::string& text);
std::string quoted(const std::string& text);
// The label of a tick, which is a format.
std::string quoted_tick(const std::string& text);
// The first `most` characters, and … where there were more.
std::string shortened(const std::string& text, std::size_t most);

// Where a value lies along an axis, 0 to 1.
double place(const PlotAxis& axis, double value);
double width_and_gap(const std::string& tick);
// Range, ticks and scale; a tick whose text would run into the one before has none. Of x also the name: that of y is
// written above the axis, where it takes no width.
void set_axis(std::string& script, char name, const PlotAxis& axis, const Canvas& canvas);
// Fonts 0, 1 and 2 have the sizes kTitle, kBase and kSmall.
void set_text(std::string& script, const std::string& text, const std::string& at, std::string_view color, int font,
              const char* more = "");

// How far title and subtitle reach.
double heading_height(const Figure& figure, const Canvas& canvas);
// Terminals, fonts, margins, title and subtitle.
std::string begin(const Figure& figure, const Canvas& canvas);

std::string xy_script(const Figure& figure, const XyPlot& plot);
std::string bars_script(const Figure& figure, const BarPlot& plot);
std::string heat_script(const Figure& figure, const HeatMap& plot);

}  // namespace ecmv::reports::gnuplot
