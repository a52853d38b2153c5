// Figures as gnuplot scripts. All places are computed here, not left to gnuplot: legends stand at the right
// of the lines they name, moved apart until none overlap, which gnuplot cannot do. The canvas is in pixels
// (SVG) and 1/125 inch (PDF), the same numbers for both.
#include "reports/gnuplot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "reports/fields.h"

namespace ecmv::reports {
namespace {

constexpr std::string_view kInkColor = "#24292f", kQuietColor = "#6e7781", kGridColor = "#d8dee4";

// Twelve colours that stay apart for the common kinds of colour blindness (Okabe-Ito, then Tol's muted ones),
// dark enough for text and bright enough for a dark page.
constexpr std::array<std::string_view, 12> kPalette = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                       "#e69f00", "#56b4e9", "#aa4499", "#999933",
                                                       "#6a5acd", "#44aa99", "#b0413e", "#8c6d31"};
constexpr std::array<int, 6> kFilledPoints = {7, 5, 9, 11, 13, 15};  // the hollow ones are one less

struct Canvas {
  double width = 1000, height = 560;
  double left = 92, right = 330, top = 74, bottom = 66;  // margins
  double plot_height() const { return height - top - bottom; }
};

// gnuplot runs what stands in back quotes, even within double quotes; a newline would end a comment, and a text ends
// at a NUL.
std::string harmless(const std::string& text) {
  std::string line = one_line(text);
  std::replace(line.begin(), line.end(), '`', '\'');
  return line;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : harmless(text)) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

// The label of a tick, which is a format.
std::string quoted_tick(const std::string& text) {
  std::string format;
  for (char c : text) format.append(c == '%' ? 2 : 1, c);
  return quoted(std::as_const(format));
}

std::string shortened(const std::string& text, std::size_t most) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continue;
    if (++count > most) return text.substr(0, i) + "…";
  }
  return text;
}

// Where a value lies along an axis, 0 to 1.
double place(const Axis& axis, double value) {
  return axis.log ? std::log(value / axis.min) / std::log(axis.max / axis.min)
                  : (value - axis.min) / (axis.max - axis.min);
}

std::string ticks_text(const Axis& axis) {
  std::string list;
  for (const Tick& tick : axis.ticks)
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", quoted_tick(tick.text), tick.at);
  return list;
}

void set_axis(std::string& script, char name, const Axis& axis) {
  script += fmt::format("set {0}label {1} textcolor rgb \"{2}\"\nset {0}range [{3}:{4}]\nset {0}tics ({5})\n", name,
                        quoted(axis.label), kInkColor, axis.min, axis.max, ticks_text(axis));
  if (axis.log) script += fmt::format("set logscale {}\n", name);
}

void set_text(std::string& script, const std::string& text, const std::string& at, std::string_view color, int size,
              const char* more = "") {
  script +=
      fmt::format("set label {} at {} textcolor rgb \"{}\" font font{} {}\n", quoted(text), at, color, size, more);
}

std::string begin(const Figure& figure, const Canvas& canvas) {
  std::string script = fmt::format(
      "# {0}. {1}\n# Draws {2}.dat; run gnuplot in this folder.\n"
      "if (!exists(\"format\")) format = \"svg\"\n"
      "if (format eq \"svg\") {{\n"
      "  set terminal svg size {3:.0f},{4:.0f} dynamic noenhanced font \"Helvetica,13\" background "
      "\"#ffffff\"\n"
      "}} else {{\n"
      "  set terminal pdfcairo size {5}in,{6}in noenhanced font \"Helvetica,9.4\"\n}}\n"
      "pt = (format eq \"svg\") ? 1.0 : 0.72\n"
      "font0 = (format eq \"svg\") ? \",17\" : \",12.2\"\nfont1 = (format eq \"svg\") ? \",13\" : \",9.4\"\n"
      "font2 = (format eq \"svg\") ? \",11\" : \",7.9\"\nfont3 = (format eq \"svg\") ? \",12.5\" : \",9\"\n"
      "set output \"{2}.\".format\nset encoding utf8\nunset key\n"
      "set lmargin at screen {7:.4f}\nset rmargin at screen {8:.4f}\nset tmargin at screen {9:.4f}\nset "
      "bmargin at screen {10:.4f}\n"
      "set border 3 linecolor rgb \"{11}\"\nset tics nomirror scale 0.5 textcolor rgb \"{12}\"\n"
      "set grid xtics ytics linecolor rgb \"{13}\" linewidth 0.6 linetype 1\n",
      harmless(figure.title), harmless(figure.subtitle), figure.id, canvas.width, canvas.height, canvas.width / 100,
      canvas.height / 100, canvas.left / canvas.width, 1 - canvas.right / canvas.width, 1 - canvas.top / canvas.height,
      canvas.bottom / canvas.height, kQuietColor, kInkColor, kGridColor);
  set_text(script, figure.title, fmt::format("screen {:.4f}, screen {:.4f}", 24 / canvas.width, 1 - 22 / canvas.height),
           kInkColor, 0);
  set_text(script, figure.subtitle,
           fmt::format("screen {:.4f}, screen {:.4f}", 24 / canvas.width, 1 - 44 / canvas.height), kQuietColor, 1);
  return script;
}

void add_guides(std::string& script, const std::vector<Guide>& vertical, const Axis& x) {
  std::vector<double> row_ends;  // where the last label of each row of labels ends, along the axis
  for (const Guide& guide : vertical) {
    script += fmt::format(
        "set arrow from {0}, graph 0 to {0}, graph 1 nohead linecolor rgb \"{1}\" dashtype 2 linewidth 1.2 "
        "back\n",
        guide.at, kQuietColor);
    const double at = place(x, guide.at);
    const bool left = at > 0.7;
    const double width = 0.0115 * static_cast<double>(guide.label.size());
    const double begin = left ? at - width : at, end = left ? at : at + width;
    std::size_t row = 0;  // a label that would run into another goes below it
    while (row < row_ends.size() && begin < row_ends[row]) ++row;
    row_ends.resize(std::max(row_ends.size(), row + 1));
    row_ends[row] = end + 0.02;
    set_text(script, guide.label, fmt::format("{}, graph {:.4f}", guide.at, 0.975 - 0.04 * static_cast<double>(row)),
             kQuietColor, 2, left ? "right offset -0.6,0 front" : "left offset 0.6,0 front");
  }
}

// Where along x, 0 to 1, a label just above the horizontal line at y is furthest from all points and lines
// near it.
double free_place(const XyPlot& plot, double y) {
  auto is_near = [](double above) { return above > -0.05 && above < 0.1; };
  double best = 0.7, most = -1;
  for (double at = 0.03; at < 0.95; at += 0.03) {
    double distance = 1;
    for (const Series& series : plot.series) {
      for (std::size_t i = 0; i < series.points.size(); ++i) {
        const double x1 = place(plot.x, series.points[i].x), y1 = place(plot.y, series.points[i].y) - place(plot.y, y);
        if (is_near(y1)) distance = std::min(distance, std::abs(x1 - at));
        if (i == 0 || series.style == Series::Style::points) continue;
        const double x0 = place(plot.x, series.points[i - 1].x);
        const double y0 = place(plot.y, series.points[i - 1].y) - place(plot.y, y);
        if (x0 < at && at < x1 && is_near(y0 + (y1 - y0) * (at - x0) / (x1 - x0))) distance = 0;
      }
    }
    if (distance > most) most = distance, best = at;
  }
  return best;
}

// Moves places apart to at least `gap`, within 0 and 1, keeping their order and each as near to where it
// wants to be as the others allow: neighbours that are too close become a cluster around the mean of its
// members' preferences.
std::vector<double> spread(const std::vector<double>& wanted, double gap) {
  struct Cluster {
    double sum;  // of preferred places, each less its place within the cluster
    std::size_t count;
    double low, high;  // allowed centres of the first member
    double first(double g) const {
      return std::clamp(sum / static_cast<double>(count), low,
                        std::max(low, high - g * static_cast<double>(count - 1)));
    }
  };
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return wanted[a] < wanted[b]; });
  std::vector<Cluster> clusters;
  for (std::size_t i : order) {
    clusters.push_back({wanted[i], 1, gap / 2, 1 - gap / 2});
    while (clusters.size() > 1) {
      Cluster& last = clusters.back();
      Cluster& before = clusters[clusters.size() - 2];
      const double shift = gap * static_cast<double>(before.count);
      if (last.first(gap) >= before.first(gap) + shift) break;
      before.sum += last.sum - shift * static_cast<double>(last.count);
      before.count += last.count;
      clusters.pop_back();
    }
  }
  std::vector<double> places(wanted.size());
  auto next = order.begin();
  for (const Cluster& cluster : clusters) {
    for (std::size_t i = 0; i < cluster.count; ++i) places[*next++] = cluster.first(gap) + gap * static_cast<double>(i);
  }
  return places;
}

std::string xy_script(const Figure& figure, const XyPlot& plot) {
  Canvas canvas;
  // Hollow twins and the front have no legend entry or share one; each labelled series has one.
  std::vector<std::size_t> labelled;
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    if (!plot.series[i].label.empty() && !plot.series[i].points.empty()) labelled.push_back(i);
  }
  const bool two_lines = labelled.size() <= 13;
  const double line = 15, entry = two_lines ? 2 * line + 4 : line + 3;
  const double needed =
      static_cast<double>(labelled.size()) * entry + line * static_cast<double>(plot.legend_notes.size() + 1);
  canvas.height = std::max(canvas.height, needed + canvas.top + canvas.bottom);
  std::string script = begin(figure, canvas);
  set_axis(script, 'x', plot.x);
  set_axis(script, 'y', plot.y);
  add_guides(script, plot.vertical, plot.x);
  for (const Guide& guide : plot.horizontal) {
    script += fmt::format(
        "set arrow from graph 0, first {0} to graph 1, first {0} nohead linecolor rgb \"{1}\" dashtype 2 "
        "linewidth 1.2 back\n",
        guide.at, kQuietColor);
    set_text(script, guide.label, fmt::format("graph {:.2f}, first {}", free_place(plot, guide.at), guide.at),
             kQuietColor, 2, "center offset 0,0.55 front");
  }

  const double height = canvas.plot_height();
  const double notes =
      line * static_cast<double>(plot.legend_notes.size() + (plot.legend_notes.empty() ? 0 : 1)) / height;
  std::vector<double> wanted;
  for (std::size_t i : labelled) {
    const Series& series = plot.series[i];
    wanted.push_back((place(plot.y, series.points.back().y) - notes) / (1 - notes));
  }
  const auto places = spread(wanted, entry / height / (1 - notes));
  for (std::size_t n = 0; n < labelled.size(); ++n) {
    const Series& series = plot.series[labelled[n]];
    const std::string color = color_text(series.color);
    const double y = notes + places[n] * (1 - notes);
    if (series.style == Series::Style::line) {
      script += fmt::format(
          "set arrow from {}, {} to graph 1.025, graph {:.4f} nohead linecolor rgb \"{}\" linewidth 0.5 "
          "back\n",
          series.points.back().x, series.points.back().y, y, color);
    }
    if (series.style == Series::Style::line || series.style == Series::Style::points) {
      script += fmt::format(
          "set label \"\" at graph 1.035, graph {:.4f} point pointtype {} pointsize 0.9*pt linecolor rgb "
          "\"{}\" front\n",
          y, kFilledPoints[static_cast<std::size_t>(series.color + 1) % kFilledPoints.size()] - (series.hollow ? 1 : 0),
          color);
    } else {
      script += fmt::format(
          "set arrow from graph 1.02, graph {0:.4f} to graph 1.05, graph {0:.4f} nohead linecolor rgb "
          "\"{1}\" linewidth 1.6 {2} front\n",
          y, color, series.style == Series::Style::dashes ? "dashtype 3" : "");
    }
    const bool second = two_lines && !series.detail.empty();
    const double half = second ? line / 2 / height : 0;
    set_text(script, shortened(series.label, 40), fmt::format("graph 1.06, graph {:.4f}", y + half), color, 3,
             "left front");
    if (second) {
      set_text(script, shortened(series.detail, 44), fmt::format("graph 1.06, graph {:.4f}", y - half), kQuietColor, 2,
               "left front");
    }
  }
  double note_y = notes - line / height;
  for (const std::string& note : plot.legend_notes) {
    set_text(script, shortened(note, 48), fmt::format("graph 1.02, graph {:.4f}", note_y), kQuietColor, 2,
             "left front");
    note_y -= line / height;
  }
  for (const Series& series : plot.series) {
    for (const Point& point : series.points) {
      if (point.letter.empty()) continue;
      set_text(script, point.letter, fmt::format("{}, {}", point.x, point.y), kInkColor, 3,
               "right offset -0.7,0.55 front");
    }
  }

  std::string plots;
  auto add = [&](const std::string& what) { plots += (plots.empty() ? "" : ", \\\n     ") + what; };
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const Series& series = plot.series[i];
    const std::string color = color_text(series.color);
    const std::string data = fmt::format("\"{}.dat\" index {}", figure.id, i);
    const int point =
        kFilledPoints[static_cast<std::size_t>(series.color + 1) % kFilledPoints.size()] - (series.hollow ? 1 : 0);
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

double add_positive(double sum, double part) { return sum + std::max(part, 0.0); }

std::string bars_script(const Figure& figure, const BarPlot& plot) {
  Canvas canvas;
  std::size_t longest = 10;
  for (const Bar& bar : plot.bars) longest = std::max(longest, bar.label.size());
  canvas.left = std::min(430.0, 30 + 6.9 * static_cast<double>(std::min<std::size_t>(longest, 58)));
  canvas.right = 270;
  canvas.top = plot.part_names.size() > 1 ? 98 : 74;
  const auto count = static_cast<double>(plot.bars.size());
  canvas.height = canvas.top + canvas.bottom + std::max(3.0, count) * 26;
  std::string script = begin(figure, canvas);
  set_axis(script, 'x', plot.x);
  script += fmt::format("set yrange [{}:-0.6]\nset grid noytics\n", count - 0.4);
  std::string labels;
  for (std::size_t i = 0; i < plot.bars.size(); ++i) {
    labels += fmt::format("{}{} {}", i ? ", " : "", quoted_tick(shortened(plot.bars[i].label, 58)), i);
    const double total = std::accumulate(plot.bars[i].parts.begin(), plot.bars[i].parts.end(), 0.0, add_positive);
    set_text(script, plot.bars[i].text, fmt::format("{}, {}", total, i), kInkColor, 2, "left offset 0.6,0 front");
  }
  script += fmt::format("set ytics ({}) font font2 scale 0\n", labels);
  for (const Guide& guide : plot.vertical) {
    script += fmt::format(
        "set arrow from {0}, graph 0 to {0}, graph 1 nohead linecolor rgb \"{1}\" dashtype 2 linewidth 1.4 "
        "front\n",
        guide.at, kInkColor);
    set_text(script, guide.label, fmt::format("{}, graph 1", guide.at), kInkColor, 2, "center offset 0,0.6 front");
  }
  std::string plots;
  const std::string file = quoted(figure.id + ".dat");
  if (plot.part_names.size() <= 1) {
    plots = fmt::format("{} using 1:2:3:4:5:6:7 with boxxyerror linecolor rgb variable fillstyle solid 0.85 noborder",
                        file);
  } else {
    double at = 0;
    for (std::size_t part = 0; part < plot.part_names.size(); ++part) {
      const std::string color = color_text(static_cast<int>(part));
      plots += fmt::format(
          "{}{} index {} using 1:2:3:4:5:6 with boxxyerror linecolor rgb \"{}\" fillstyle solid 0.9 noborder",
          part ? ", \\\n     " : "", file, part, color);
      set_text(script, "■ " + plot.part_names[part],
               fmt::format("graph {:.4f}, screen {:.4f}", at, 1 - 68 / canvas.height), color, 3, "left");
      at +=
          (30.0 + 8 * static_cast<double>(plot.part_names[part].size())) / (canvas.width - canvas.left - canvas.right);
    }
  }
  return script + "plot " + plots + "\n";
}

std::string heat_script(const Figure& figure, const HeatMap& plot) {
  Canvas canvas;
  std::size_t longest = 0;
  for (const std::string& name : plot.y_names) longest = std::max(longest, name.size());
  canvas.left = std::max(110.0, 50 + 8 * static_cast<double>(longest));
  canvas.right = 150;
  canvas.height =
      canvas.top + canvas.bottom + (plot.y_names.size() > 12 ? 28 : 64) * static_cast<double>(plot.y_names.size());
  std::string script = begin(figure, canvas);
  double furthest = 0.1;  // of the neutral value, in the logarithm
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
      "unset grid\nset xrange [-0.5:{}]\nset yrange [-0.5:{}]\nset xtics ({}) scale 0\nset ytics ({}) scale "
      "0\n"
      "set xlabel {}\nset ylabel {}\nset cblabel {}\nset logscale cb\nset cbrange [{}:{}]\nset cbtics ({})\n"
      "set palette defined (-1 \"#b35806\", -0.5 \"#f1a340\", 0 \"#f7f7f7\", 0.5 \"#998ec3\", 1 "
      "\"#542788\")\n",
      static_cast<double>(plot.x_names.size()) - 0.5, static_cast<double>(plot.y_names.size()) - 0.5,
      names(plot.x_names), names(plot.y_names), quoted(plot.x_label), quoted(plot.y_label), quoted(plot.value_label),
      low, high,
      fmt::format("\"{:.2f}\" {}, \"{:.2f}\" {}, \"{:.2f}\" {}", low, low, plot.neutral, plot.neutral, high, high));
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
      set_text(script, fixed_text(plot.values[y][x], 2), fmt::format("{},{}", cx, cy), dark ? "#fefefe" : "#111111", 3,
               "center front");
    }
  }
  return script + fmt::format("plot \"{}.dat\" using 1:2:3 with image pixels\n", figure.id);
}

}  // namespace

std::string color_text(int color) {
  return std::string(color == kInk ? kInkColor : kPalette[static_cast<std::size_t>(color) % kPalette.size()]);
}

std::string gnuplot_script(const Figure& figure) {
  if (auto* xy = std::get_if<XyPlot>(&figure.plot)) return xy_script(figure, *xy);
  if (auto* bars = std::get_if<BarPlot>(&figure.plot)) return bars_script(figure, *bars);
  return heat_script(figure, std::get<HeatMap>(figure.plot));
}

}  // namespace ecmv::reports
