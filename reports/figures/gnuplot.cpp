// Bars and maps as gnuplot scripts, and the dispatch on the kind of figure.
#include "reports/figures/gnuplot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "reports/fields.h"
#include "reports/figures/gnuplot_canvas.h"
#include "reports/figures/placement.h"

namespace ecmv::reports {
namespace {

// Twelve colours that are distinct for the common kinds of colour blindness (Okabe-Ito, then Tol's muted ones), dark
// enough for text and bright enough for a dark page.
constexpr std::array<std::string_view, 12> kPalette = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                       "#e69f00", "#56b4e9", "#aa4499", "#999933",
                                                       "#6a5acd", "#44aa99", "#b0413e", "#8c6d31"};
}  // namespace

namespace gnuplot {

// A bar's label stands above it, and its value to the right, so that long names need no margin.
std::string bars_script(const Figure& figure, const BarPlot& plot) {
  Canvas canvas;
  canvas.left = 16;
  const bool parts = plot.part_names.size() > 1;
  const double names_at = heading_height(figure, canvas) + 10;
  canvas.top = names_at + (parts ? 18 : 0) + (plot.vertical.empty() ? 0 : 18);
  canvas.bottom = 64;
  const auto count = static_cast<double>(plot.bars.size());
  canvas.height = canvas.top + canvas.bottom + std::max(2.0, count) * 36;
  std::string script = begin(figure, canvas);
  set_axis(script, 'x', plot.x, canvas);
  script += fmt::format("set yrange [{}:-0.5]\nset grid noytics\nunset ytics\nset border 1\n", count - 0.5);
  for (std::size_t i = 0; i < plot.bars.size(); ++i) {
    const Bar& bar = plot.bars[i];
    const double room = canvas.plot_width() - text_width(bar.text, kSmall) - 12;
    const auto most = static_cast<std::size_t>(std::max(8.0, room / text_width("x", kSmall)));
    set_text(script, shortened(bar.label, most), fmt::format("graph 0, first {}", static_cast<double>(i) - 0.22),
             kInkColor, 2, "left front");
    set_text(script, bar.text, fmt::format("graph 1, first {}", static_cast<double>(i) - 0.22), kInkColor, 2,
             "right front");
  }
  for (const Guide& guide : plot.vertical) {
    script += fmt::format(
        "set arrow from {0}, graph 0 to {0}, graph 1 nohead linecolor rgb \"{1}\" dashtype 2 linewidth 1.4 "
        "front\n",
        guide.at, kQuietColor);
    const double half = text_width(guide.label, kSmall) / 2,
                 x = canvas.left + place(plot.x, guide.at) * canvas.plot_width();
    set_text(script, guide.label,
             canvas.at(std::clamp(x, canvas.left + half, canvas.width - canvas.right - half), canvas.top - 9),
             kQuietColor, 2, "center front");
  }
  std::string plots;
  const std::string file = quoted(figure.id + ".dat");
  if (!parts) {
    plots = fmt::format("{} using 1:2:3:4:5:6:7 with boxxyerror linecolor rgb variable fillstyle solid 0.85 noborder",
                        file);
  } else {
    double x = 14;
    for (std::size_t part = 0; part < plot.part_names.size(); ++part) {
      const std::string color = color_text(static_cast<int>(part));
      plots += fmt::format(
          "{}{} index {} using 1:2:3:4:5:6 with boxxyerror linecolor rgb \"{}\" fillstyle solid 0.9 noborder",
          part ? ", \\\n     " : "", file, part, color);
      set_text(script, "■ " + plot.part_names[part], canvas.at(x, names_at), color, 1, "left");
      x += 36 + text_width(plot.part_names[part], kBase);
    }
  }
  return script + "plot " + plots + "\n";
}

std::string heat_script(const Figure& figure, const HeatMap& plot) {
  Canvas canvas;
  double widest = 0, longest = 0;
  for (const std::string& name : plot.y_names) widest = std::max(widest, text_width(name, kBase));
  for (const std::string& name : plot.x_names) longest = std::max(longest, text_width(name, kBase));
  canvas.left = std::max(40.0, 18 + widest);
  canvas.width = std::max(canvas.width, canvas.left + canvas.right + 46 * static_cast<double>(plot.x_names.size()));
  canvas.top = heading_height(figure, canvas) + 22;
  const bool rotated = longest + 6 > canvas.plot_width() / static_cast<double>(plot.x_names.size());
  canvas.bottom = rotated ? 50 + 0.6 * longest : 60;
  canvas.height =
      canvas.top + canvas.bottom + (plot.y_names.size() > 8 ? 26 : 44) * static_cast<double>(plot.y_names.size());
  std::string script = begin(figure, canvas);
  set_text(script, plot.y_label, canvas.at(14, canvas.top - 12), kInkColor, 1);
  double furthest = 0.1;  // from the neutral value, in the logarithm
  for (const auto& row : plot.values) {
    for (double value : row) {
      if (value > 0) furthest = std::max(furthest, std::abs(std::log2(value / plot.neutral)));
    }
  }
  const double high = plot.neutral * std::exp2(furthest), low = plot.neutral / std::exp2(furthest);
  auto names = [](const std::vector<std::string>& list) {
    std::string text;
    for (std::size_t i = 0; i < list.size(); ++i)
      text += fmt::format("{}{} {}", i ? ", " : "", quoted_tick(list[i]), i);
    return text;
  };
  script += fmt::format(
      "unset grid\nunset colorbox\nset xrange [-0.5:{}]\nset yrange [-0.5:{}]\nset xtics ({}) scale 0{}\nset ytics "
      "({}) scale 0\nset xlabel {} offset 0,{}\nset logscale cb\nset cbrange [{}:{}]\n"
      "set palette defined (-1 \"#b35806\", -0.5 \"#f1a340\", 0 \"#f7f7f7\", 0.5 \"#998ec3\", 1 "
      "\"#542788\")\n",
      static_cast<double>(plot.x_names.size()) - 0.5, static_cast<double>(plot.y_names.size()) - 0.5,
      names(plot.x_names), rotated ? " rotate by 35 right" : "", names(plot.y_names), quoted(plot.x_label),
      rotated ? -0.03 * longest : 0.2, low, high);
  // The contour: edges between cells on different sides of the neutral value.
  auto side = [&](std::size_t y, std::size_t x) { return plot.values[y][x] >= plot.neutral; };
  auto known = [&](std::size_t y, std::size_t x) { return std::isfinite(plot.values[y][x]); };
  for (std::size_t y = 0; y < plot.values.size(); ++y) {
    for (std::size_t x = 0; x < plot.values[y].size(); ++x) {
      const double cx = static_cast<double>(x), cy = static_cast<double>(y);
      auto edge = [&](double x0, double y0, double x1, double y1) {
        script += fmt::format("set arrow from {},{} to {},{} nohead linecolor rgb \"{}\" linewidth 3 front\n", x0, y0,
                              x1, y1, kInkColor);
      };
      if (!known(y, x)) continue;
      if (x + 1 < plot.values[y].size() && known(y, x + 1) && side(y, x) != side(y, x + 1))
        edge(cx + 0.5, cy - 0.5, cx + 0.5, cy + 0.5);
      if (y + 1 < plot.values.size() && known(y + 1, x) && side(y, x) != side(y + 1, x))
        edge(cx - 0.5, cy + 0.5, cx + 0.5, cy + 0.5);
      const bool dark = std::abs(std::log2(plot.values[y][x] / plot.neutral)) > 0.7 * furthest;
      set_text(script, plot.text(y, x), fmt::format("{},{}", cx, cy), dark ? "#fefefe" : "#111111", 2, "center front");
    }
  }
  return script + fmt::format("plot \"{}.dat\" using 1:2:3 with image pixels\n", figure.id);
}

}  // namespace gnuplot

std::string color_text(int color) {
  return std::string(color == kInk ? gnuplot::kInkColor : kPalette[static_cast<std::size_t>(color) % kPalette.size()]);
}

std::string gnuplot_script(const Figure& figure) {
  if (auto* xy = std::get_if<XyPlot>(&figure.plot)) return gnuplot::xy_script(figure, *xy);
  if (auto* bars = std::get_if<BarPlot>(&figure.plot)) return gnuplot::bars_script(figure, *bars);
  return gnuplot::heat_script(figure, std::get<HeatMap>(figure.plot));
}

}  // namespace ecmv::reports
