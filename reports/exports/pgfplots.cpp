// Lines, points and stacked bars; a heat map becomes a matrix plot.
#include "reports/exports/pgfplots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reports/exports/latex.h"
#include "reports/fields.h"
#include "reports/figures/gnuplot.h"

namespace ecmv::reports {
namespace {

std::string color_name(int color) {
  return color == kInk ? "black" : fmt::format("ecmv{}", static_cast<char>('A' + color % 12));
}

std::string axis_options(const char* name, const PlotAxis& axis) {
  std::string at, labels;
  for (const Tick& tick : axis.ticks) {
    at += fmt::format("{}{}", at.empty() ? "" : ",", tick.at);
    labels += fmt::format("{}{{{}}}", labels.empty() ? "" : ",", latex_escaped(tick.text));
  }
  return fmt::format(
      "{0}label={{{1}}}, {0}mode={2}, {0}min={3}, {0}max={4},\n  {0}tick={{{5}}}, {0}ticklabels={{{6}}},\n", name,
      latex_escaped(axis.label), axis.log ? "log" : "linear", axis.min, axis.max, at, labels);
}

// A column of a paper must hold the axes with their labels.
constexpr std::string_view kShape =
    "scale only axis, width=0.8\\linewidth, height=0.55\\linewidth, tick label style={font=\\scriptsize}, "
    "label style={font=\\scriptsize}, xlabel style={text width=0.8\\linewidth, align=center}, ";

// The legend stands below the axes: two short entries a line, else each entry on its own lines.
std::string legend_options(const XyPlot& plot) {
  const bool is_long = std::any_of(plot.series.begin(), plot.series.end(),
                                   [](const Series& series) { return series.label.size() > 16; });
  return fmt::format(
      "legend columns={}, legend cell align=left, legend style={{at={{(0.45,-4em)}}, anchor=north, font=\\scriptsize, "
      "draw=none{}}}",
      is_long ? 1 : 2, is_long ? ", cells={text width=0.75\\linewidth, align=left}" : "");
}

// Orange below the neutral value, white at it, violet above; `share` is -1 to 1.
std::string heat_color(double share) {
  constexpr std::array<double, 3> kBelow = {179, 88, 6}, kAbove = {84, 39, 136};
  std::string color;
  for (std::size_t i = 0; i < 3; ++i) {
    const double end = share < 0 ? kBelow[i] : kAbove[i];
    color += fmt::format("{}{:.0f}", i ? "," : "", 247 + (end - 247) * std::min(1.0, std::abs(share)));
  }
  return color;
}

bool has_spread(const Point& point) { return std::isfinite(point.low) && std::isfinite(point.high); }

// The same shapes as gnuplot's points (kFilledPoints in gnuplot_xy.cpp).
std::string marker_options(const Series& series) {
  constexpr std::array<std::string_view, 6> kMarks = {"*",         "square*",  "triangle*",
                                                      "triangle*", "diamond*", "pentagon*"};
  const auto shape = static_cast<std::size_t>(series.color + 1) % kMarks.size();
  std::string mark(kMarks[shape]);
  if (series.hollow) mark = shape == 0 ? "o" : mark.substr(0, mark.size() - 1);
  return fmt::format(", mark={}, mark options={{solid{}}}", mark, shape == 3 ? ", rotate=180" : "");
}

// The name of a straight line, at its end.
std::string guide_label(const Guide& guide, std::string_view options) {
  return guide.label.empty()
             ? ";"
             : fmt::format(" node[pos=1, {}, font=\\tiny, inner sep=1pt] {{{}}};", options, latex_escaped(guide.label));
}

struct Writer {
  std::string operator()(const XyPlot& plot) const {
    std::string text = "\\begin{axis}[" + std::string(kShape) + legend_options(plot) + ",\n  " +
                       axis_options("x", plot.x) + "  " + axis_options("y", plot.y) + "]\n";
    for (const Guide& guide : plot.vertical) {
      text += fmt::format("\\addplot[gray, dashed, forget plot] coordinates {{({0},{1}) ({0},{2})}}{3}\n", guide.at,
                          plot.y.min, plot.y.max, guide_label(guide, "rotate=90, anchor=north east"));
    }
    for (const Guide& guide : plot.horizontal) {
      text += fmt::format("\\addplot[gray, dashed, forget plot] coordinates {{({1},{0}) ({2},{0})}}{3}\n", guide.at,
                          plot.x.min, plot.x.max, guide_label(guide, "anchor=south east"));
    }
    for (const Series& series : plot.series) {
      std::string style = color_name(series.color);
      switch (series.style) {
        case Series::Style::line: style += (series.hollow ? ", dashed" : "") + marker_options(series); break;
        case Series::Style::points: style += ", only marks" + marker_options(series); break;
        case Series::Style::staircase: style += ", const plot, no marks"; break;
        case Series::Style::dashes: style += ", dashed, no marks"; break;
      }
      const bool any_spread = std::any_of(series.points.begin(), series.points.end(), has_spread);
      if (any_spread) style += ", error bars/.cd, y dir=both, y explicit, error bar style=solid";
      text += fmt::format("\\addplot[{}{}] coordinates {{", series.label.empty() ? "forget plot, " : "", style);
      for (const Point& point : series.points) {
        text += fmt::format("({},{}) ", point.x, point.y);
        if (has_spread(point)) text += fmt::format("+= (0,{}) -= (0,{}) ", point.high - point.y, point.y - point.low);
      }
      text += "};\n";
      if (!series.label.empty()) text += fmt::format("\\addlegendentry{{{}}}\n", latex_label(series.label));
    }
    for (const Series& series : plot.series)
      for (const Point& point : series.points)
        if (const std::string letter = point.letter + point.mark; !letter.empty())
          text += fmt::format("\\node[font=\\tiny, anchor=south west, inner sep=1pt] at (axis cs:{},{}) {{{}}};\n",
                              point.x, point.y, latex_escaped(letter));
    for (const std::string& note : plot.legend_notes)
      text += fmt::format("\\addlegendimage{{empty legend}}\\addlegendentry{{{}}}\n", latex_label(note));
    return text + "\\end{axis}\n";
  }
  std::string operator()(const BarPlot& plot) const {
    std::string positions, labels;
    for (std::size_t i = 0; i < plot.bars.size(); ++i) {
      positions += fmt::format("{}{}", i ? "," : "", i);
      labels += fmt::format("{}{{{}}}", i ? "," : "", latex_label(plot.bars[i].label + " " + plot.bars[i].text));
    }
    std::string text = fmt::format(
        "\\begin{{axis}}[xbar stacked, scale only axis, width=0.52\\linewidth, y=5mm, bar width=3mm, enlarge y "
        "limits={{abs=4mm}}, y dir=reverse,\n  ytick={{{}}}, yticklabels={{{}}}, yticklabel style={{font=\\tiny, "
        "text width=0.38\\linewidth, align=right}}, tick label style={{font=\\scriptsize}},\n  label "
        "style={{font=\\scriptsize}}, xlabel style={{text width=0.52\\linewidth, align=center}}, legend columns=2, "
        "legend style={{at={{(0.3,-4em)}}, anchor=north, "
        "font=\\scriptsize, draw=none}},\n  {}]\n",
        positions, labels, axis_options("x", plot.x));
    const std::size_t parts = std::max<std::size_t>(1, plot.part_names.size());
    for (std::size_t part = 0; part < parts; ++part) {
      text += fmt::format("\\addplot[fill={}, draw=none] coordinates {{", color_name(static_cast<int>(part)));
      for (std::size_t i = 0; i < plot.bars.size(); ++i) text += fmt::format("({},{}) ", plot.bars[i].parts[part], i);
      text += "};\n";
      if (parts > 1) text += fmt::format("\\addlegendentry{{{}}}\n", latex_escaped(plot.part_names[part]));
    }
    return text + "\\end{axis}\n";
  }
  // Draws cells as rectangles with their numbers, like the other figures.
  std::string operator()(const HeatMap& plot) const {
    std::string x_positions, x_labels, y_positions, y_labels;
    std::size_t longest_x = 0, longest_y = 0;
    for (std::size_t i = 0; i < plot.x_names.size(); ++i) {
      x_positions += fmt::format("{}{}", i ? "," : "", i);
      x_labels += fmt::format("{}{{{}}}", i ? "," : "", latex_escaped(plot.x_names[i]));
      longest_x = std::max(longest_x, plot.x_names[i].size());
    }
    for (std::size_t i = 0; i < plot.y_names.size(); ++i) {
      y_positions += fmt::format("{}{}", i ? "," : "", i);
      y_labels += fmt::format("{}{{{}}}", i ? "," : "", latex_label(plot.y_names[i]));
      longest_y = std::max(longest_y, plot.y_names[i].size());
    }
    std::string text = fmt::format(
        "\\begin{{axis}}[scale only axis, width=0.6\\linewidth, y=6mm, xlabel={{{}}}, ylabel={{{}}}, tick "
        "label style={{font=\\scriptsize}},\n  label style={{font=\\scriptsize}}, tick style={{draw=none}}, xmin=-0.5, "
        "xmax={}, ymin=-0.5, ymax={},\n  xtick={{{}}}, xticklabels={{{}}}, ytick={{{}}}, yticklabels={{{}}}{}{}]\n",
        latex_escaped(plot.x_label), latex_escaped(plot.y_label), static_cast<double>(plot.x_names.size()) - 0.5,
        static_cast<double>(plot.y_names.size()) - 0.5, x_positions, x_labels, y_positions, y_labels,
        longest_x > 8 ? ", xticklabel style={rotate=90}" : "",
        longest_y > 8 ? ", ylabel={}, yticklabel style={font=\\tiny, text width=0.3\\linewidth, align=right}" : "");
    double furthest = 0.1;  // from the neutral value, in the logarithm
    for (const auto& row : plot.values)
      for (const double value : row)
        if (value > 0 && std::isfinite(value)) furthest = std::max(furthest, std::abs(std::log2(value / plot.neutral)));
    for (std::size_t y = 0; y < plot.values.size(); ++y) {
      for (std::size_t x = 0; x < plot.values[y].size(); ++x) {
        const double value = plot.values[y][x], share = std::log2(value / plot.neutral) / furthest;
        if (!(value > 0) || !std::isfinite(value)) continue;
        const double left = static_cast<double>(x) - 0.5, bottom = static_cast<double>(y) - 0.5;
        text += fmt::format(
            "\\definecolor{{ecmvcell}}{{RGB}}{{{}}}\\fill[ecmvcell] (axis cs:{},{}) rectangle (axis cs:{},{});\n",
            heat_color(share), left, bottom, left + 1, bottom + 1);
        text += fmt::format("\\node[font=\\tiny, text={}] at (axis cs:{},{}) {{{}}};\n",
                            std::abs(share) > 0.7 ? "white" : "black", x, y, plot.text(y, x));
      }
    }
    return text + "\\end{axis}\n";
  }
};

}  // namespace

std::string to_pgfplots(const Figure& figure) {
  std::string text = fmt::format("% {}: {} ({})\n% Needs \\usepackage{{pgfplots}} \\pgfplotsset{{compat=1.16}}.\n",
                                 figure.id, one_line(figure.title), one_line(figure.subtitle));
  for (int color = 0; color < 12; ++color)
    text += fmt::format("\\definecolor{{{}}}{{HTML}}{{{}}}\n", color_name(color), color_text(color).substr(1));
  return text + fmt::format("\\begin{{tikzpicture}}\n{}\\end{{tikzpicture}}\n", std::visit(Writer{}, figure.plot));
}

}  // namespace ecmv::reports
