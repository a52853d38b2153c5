// Lines and points as gnuplot scripts: guides, letters and the legend with all their places.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "reports/figures/gnuplot.h"
#include "reports/figures/gnuplot_canvas.h"
#include "reports/figures/placement.h"

namespace ecmv::reports::gnuplot {
namespace {

constexpr std::array<int, 6> kFilledPoints = {7, 5, 9, 11, 13, 15};  // hollow ones are one less

// Pixels of a point of the plot.
struct Pixel {
  double x, y;
};

Pixel pixel(const Canvas& canvas, const XyPlot& plot, double x, double y) {
  return {canvas.left + place(plot.x, x) * canvas.plot_width(),
          canvas.top + (1 - place(plot.y, y)) * canvas.plot_height()};
}

// Everything that labels must keep clear of.
Occupied drawn_things(const Canvas& canvas, const XyPlot& plot) {
  Occupied occupied({canvas.left, canvas.top, canvas.width - 4, canvas.height - canvas.bottom});
  for (const Series& series : plot.series) {
    for (std::size_t i = 0; i < series.points.size(); ++i) {
      const Point& point = series.points[i];
      const auto [x, y] = pixel(canvas, plot, point.x, point.y);
      if (series.style == Series::Style::points || series.style == Series::Style::line)
        occupied.add({x - 6, y - 6, x + 6, y + 6});
      if (std::isfinite(point.low) && std::isfinite(point.high) && (!plot.y.log || point.low > 0))
        occupied.add_line(x, pixel(canvas, plot, point.x, point.low).y, x, pixel(canvas, plot, point.x, point.high).y);
      if (i == 0 || series.style == Series::Style::points) continue;
      const auto [x0, y0] = pixel(canvas, plot, series.points[i - 1].x, series.points[i - 1].y);
      if (series.style == Series::Style::staircase) {
        occupied.add_line(x0, y0, x, y0);
        occupied.add_line(x, y0, x, y);
      } else {
        occupied.add_line(x0, y0, x, y);
      }
    }
  }
  return occupied;
}

// Straight lines with their labels, each placed where it covers least.
void add_guides(std::string& script, const Canvas& canvas, const XyPlot& plot, Occupied& occupied) {
  for (const Guide& guide : plot.vertical) {
    script += fmt::format(
        "set arrow from {0}, graph 0 to {0}, graph 1 nohead linecolor rgb \"{1}\" dashtype 2 linewidth 1.2 back\n",
        guide.at, kQuietColor);
    const double x = canvas.left + place(plot.x, guide.at) * canvas.plot_width();
    occupied.add_line(x, canvas.top, x, canvas.height - canvas.bottom);
  }
  for (const Guide& guide : plot.horizontal) {
    script += fmt::format(
        "set arrow from graph 0, first {0} to graph 1, first {0} nohead linecolor rgb \"{1}\" dashtype 2 "
        "linewidth 1.2 back\n",
        guide.at, kQuietColor);
    const double y = canvas.top + (1 - place(plot.y, guide.at)) * canvas.plot_height();
    occupied.add_line(canvas.left, y, canvas.width - canvas.right, y);
  }
  const auto put = [&](const Guide& guide, const std::vector<Box>& places) {
    const Box& box = places[occupied.take(places)];
    set_text(script, guide.label, canvas.at(box.left + 2, (box.top + box.bottom) / 2), kQuietColor, 2, "left front");
  };
  for (const Guide& guide : plot.vertical) {
    const double x = canvas.left + place(plot.x, guide.at) * canvas.plot_width();
    const double width = text_width(guide.label, kSmall) + 4;
    std::vector<Box> places;
    for (double y = canvas.top + 1; y < canvas.height - canvas.bottom - 16; y += 16)
      for (const double left : {x + 4, x - 4 - width}) places.push_back({left, y, left + width, y + 15});
    put(guide, places);
  }
  for (const Guide& guide : plot.horizontal) {
    const double y = canvas.top + (1 - place(plot.y, guide.at)) * canvas.plot_height();
    const double width = text_width(guide.label, kSmall) + 4;
    std::vector<Box> places;
    for (double left = canvas.width - canvas.right - width; left >= canvas.left + 2; left -= 12)
      for (const double top : {y - 17, y + 3}) places.push_back({left, top, left + width, top + 14});
    if (!places.empty()) put(guide, places);
  }
}

// Letters and marks beside their points; a letter far from its point gets a line to it.
void add_letters(std::string& script, const Canvas& canvas, const XyPlot& plot, Occupied& occupied) {
  constexpr std::array<std::pair<double, double>, 8> kDirections = {
      {{-0.7, -0.7}, {0, -1}, {0.7, -0.7}, {-1, 0}, {1, 0}, {-0.7, 0.7}, {0, 1}, {0.7, 0.7}}};
  for (const Series& series : plot.series) {
    for (const Point& point : series.points) {
      const std::string letter = point.letter + point.mark;
      if (letter.empty()) continue;
      const auto [x, y] = pixel(canvas, plot, point.x, point.y);
      std::vector<Box> places;
      for (const double radius : {14.0, 20.0, 28.0, 38.0, 50.0})
        for (const auto& [dx, dy] : kDirections) {
          const double at_x = x + radius * dx, at_y = y + radius * dy;
          places.push_back({at_x - 5, at_y - 7, at_x + 5, at_y + 7});
        }
      const Box& box = places[occupied.take(places)];
      const double at_x = (box.left + box.right) / 2, at_y = (box.top + box.bottom) / 2;
      const double distance = std::hypot(at_x - x, at_y - y);
      if (distance > 16)
        script +=
            fmt::format("set arrow from {} to {} nohead linecolor rgb \"{}\" linewidth 0.6 front\n",
                        canvas.at(x + 6 * (at_x - x) / distance, y + 6 * (at_y - y) / distance),
                        canvas.at(at_x - 7 * (at_x - x) / distance, at_y - 7 * (at_y - y) / distance), kQuietColor);
      set_text(script, letter, canvas.at(at_x, at_y), kInkColor, 1, "center front");
    }
  }
}

int point_type(const Series& series) {
  return kFilledPoints[static_cast<std::size_t>(series.color + 1) % kFilledPoints.size()] - (series.hollow ? 1 : 0);
}

// An entry of the legend or a note below it, with its place: x, and the line.
struct LegendEntry {
  const Series* series = nullptr;  // null: a note
  std::string label, detail;
  double x = 0, line = 0;
  bool alone = false;  // on its line
};

constexpr double kLegendLine = 18;

// Places entries from left to right, then on the next line; series come first, the fastest on top as in the plot.
std::vector<LegendEntry> legend_of(const XyPlot& plot, const Canvas& canvas, double& lines, bool with_details = true) {
  std::vector<LegendEntry> entries;
  for (const Series& series : plot.series)
    if (!series.label.empty() && !series.points.empty())
      entries.push_back({&series, shortened(harmless(series.label), 60), with_details ? harmless(series.detail) : ""});
  std::stable_sort(entries.begin(), entries.end(), [](const LegendEntry& a, const LegendEntry& b) {
    return a.series->points.back().y > b.series->points.back().y;
  });
  const double room = canvas.width - 28;
  for (const std::string& note : plot.legend_notes) {
    std::string text = harmless(note);
    if (text_width(text, kSmall) > room)  // lists of settings may break after their commas
      for (std::size_t at = text.find(','); at != std::string::npos; at = text.find(',', at + 1))
        text.insert(at + 1, " ");
    const std::vector<std::string> parts = wrapped(text, kSmall, room);
    for (const std::string& part : parts) entries.push_back({nullptr, part, "", 0, 0, parts.size() > 1});
  }
  double x = 0;
  lines = 0;
  bool after_series = false, after_alone = false;
  for (LegendEntry& entry : entries) {
    const double mark = entry.series ? 24 : 0, font = entry.series ? kBase : kSmall;
    const double name = text_width(entry.label, font);
    while (!entry.detail.empty() && mark + name + 8 + text_width(entry.detail, kSmall) > room) {
      std::size_t characters = 0;
      for (const char c : entry.detail) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
      if (characters < 12)
        entry.detail.clear();
      else
        entry.detail = shortened(entry.detail, characters - 6);
    }
    const double width = mark + name + (entry.detail.empty() ? 0 : 8 + text_width(entry.detail, kSmall)) + 18;
    const bool breaks = (!entry.series && after_series) || entry.alone || after_alone;
    if (x > 0 && (x + width - 18 > room || breaks)) x = 0, ++lines;
    entry.x = 14 + x, entry.line = lines;
    x += width;
    after_series = entry.series != nullptr, after_alone = entry.alone;
  }
  if (!entries.empty()) ++lines;
  constexpr double kMostLines = 4;  // for details
  return with_details && lines > kMostLines ? legend_of(plot, canvas, lines, false) : entries;
}

void add_legend(std::string& script, const Canvas& canvas, const std::vector<LegendEntry>& entries, double top) {
  for (const LegendEntry& entry : entries) {
    const double y = top + kLegendLine * entry.line;
    if (entry.series == nullptr) {
      set_text(script, entry.label, canvas.at(entry.x, y), kQuietColor, 2, "left front");
      continue;
    }
    const Series& series = *entry.series;
    const std::string color = color_text(series.color);
    if (series.style != Series::Style::points)
      script += fmt::format("set arrow from {} to {} nohead linecolor rgb \"{}\" linewidth 1.6 {} front\n",
                            canvas.at(entry.x, y), canvas.at(entry.x + 18, y), color,
                            series.style == Series::Style::dashes ? "dashtype 3" : "");
    if (series.style == Series::Style::line || series.style == Series::Style::points)
      script += fmt::format("set label \"\" at {} point pointtype {} pointsize 0.8*pt linecolor rgb \"{}\" front\n",
                            canvas.at(entry.x + 9, y), point_type(series), color);
    set_text(script, entry.label, canvas.at(entry.x + 24, y), color, 1, "left front");
    if (!entry.detail.empty())
      set_text(script, entry.detail, canvas.at(entry.x + 32 + text_width(entry.label, kBase), y), kQuietColor, 2,
               "left front");
  }
}

}  // namespace

std::string xy_script(const Figure& figure, const XyPlot& plot) {
  Canvas canvas;
  double widest = 0;
  for (const Tick& tick : plot.y.ticks) widest = std::max(widest, text_width(tick.text, kBase));
  canvas.left = std::clamp(widest + 16, 34.0, 120.0);
  canvas.top = heading_height(figure, canvas) + 22;  // plus the name of the y axis
  double lines = 0, names = 0, widths = 0;
  const std::vector<LegendEntry> legend = legend_of(plot, canvas, lines);
  for (const Tick& tick : plot.x.ticks) {
    widths += width_and_gap(tick.text);
    names = std::max(names, text_width(tick.text, kBase));
  }
  const bool rotated = plot.x.categories && widths > canvas.plot_width();
  const double axis_bottom = rotated ? 58 + 0.5 * names : 64;
  canvas.bottom = axis_bottom + kLegendLine * lines + 6;
  canvas.height = canvas.top + 272 + canvas.bottom;
  std::string script = begin(figure, canvas);
  set_axis(script, 'x', plot.x, canvas);
  set_axis(script, 'y', plot.y, canvas);
  if (rotated) script += fmt::format("set xtics rotate by 30 right\nset xlabel offset 0,-{:.1f}\n", 0.025 * names);
  set_text(script, plot.y.label, canvas.at(14, canvas.top - 12), kInkColor, 1);
  Occupied occupied = drawn_things(canvas, plot);
  add_guides(script, canvas, plot, occupied);
  add_letters(script, canvas, plot, occupied);
  add_legend(script, canvas, legend, canvas.height - canvas.bottom + axis_bottom + 8);

  std::string plots;
  auto add = [&](const std::string& what) { plots += (plots.empty() ? "" : ", \\\n     ") + what; };
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const Series& series = plot.series[i];
    const std::string color = color_text(series.color);
    const std::string data = fmt::format("\"{}.dat\" index {}", figure.id, i);
    const int point = point_type(series);
    const double width = series.color == kInk ? 2.2 : 1.7;
    if (series.style == Series::Style::staircase) {
      add(fmt::format("{} using 1:2 with steps linecolor rgb \"{}\" linewidth 1.6", data, color));
      continue;
    }
    if (series.style == Series::Style::dashes) {
      add(fmt::format("{} using 1:2 with lines linecolor rgb \"{}\" linewidth 1.4 dashtype 3", data, color));
      continue;
    }
    if (series.style == Series::Style::line) {
      add(fmt::format("{} using 1:2 with lines linecolor rgb \"{}\" linewidth {}{}", data, color, width,
                      series.hollow ? " dashtype 4" : ""));
    }
    const bool any_spread =
        std::any_of(series.points.begin(), series.points.end(), [](const Point& p) { return std::isfinite(p.low); });
    if (any_spread) {
      add(fmt::format("{} using 1:3:(0):($4-$3) with vectors nohead linecolor rgb \"{}\" linewidth 1.2", data, color));
    }
    add(fmt::format("{} using 1:2 with points pointtype {} pointsize 0.9*pt linecolor rgb \"{}\"", data, point, color));
  }
  return script + "plot " + plots + "\n";
}

}  // namespace ecmv::reports::gnuplot
