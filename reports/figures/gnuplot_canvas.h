// The parts that writers of gnuplot scripts share: the canvas, harmless texts, axes and headings. Within this room
// only.
//
// All places are computed, not left to gnuplot: the legend stands below the axes, and letters and labels keep clear of
// points and of one another. The canvas is narrow, so that two figures fit side by side on a page and the text is
// legible on a phone. It is in pixels (SVG) and 1/100 inch (PDF), with the same numbers for both.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "reports/figures/figure.h"

namespace ecmv::reports::gnuplot {

inline constexpr std::string_view kInkColor = "#24292f", kQuietColor = "#6e7781", kGridColor = "#d8dee4";

// Font sizes in pixels: titles, axes and legends, small print.
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

// Makes a text one line that neither ends a comment nor runs anything; and the same as a string of gnuplot.
std::string harmless(const std::string& text);
std::string quoted(const std::string& text);
// The label of a tick, which is a format.
std::string quoted_tick(const std::string& text);
// The first `most` characters, then … if there were more.
std::string shortened(const std::string& text, std::size_t most);

// A value's position along an axis, 0 to 1.
double place(const PlotAxis& axis, double value);
double width_and_gap(const std::string& tick);
// Range, ticks and scale; a tick whose text would run into the one before has none. Also sets the name of x; the name
// of y stands above its axis, where it takes no width.
void set_axis(std::string& script, char name, const PlotAxis& axis, const Canvas& canvas);
// Fonts 0, 1 and 2 have the sizes kTitle, kBase and kSmall.
void set_text(std::string& script, const std::string& text, const std::string& at, std::string_view color, int font,
              const char* more = "");

// The height of title and subtitle.
double heading_height(const Figure& figure, const Canvas& canvas);
// Terminals, fonts, margins, title and subtitle.
std::string begin(const Figure& figure, const Canvas& canvas);

std::string xy_script(const Figure& figure, const XyPlot& plot);
std::string bars_script(const Figure& figure, const BarPlot& plot);
std::string heat_script(const Figure& figure, const HeatMap& plot);

}  // namespace ecmv::reports::gnuplot
