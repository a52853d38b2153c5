// A figure as data: everything to draw, with all ranges, ticks and labels decided, but no drawing language. figures.cpp
// makes figures from records; gnuplot.cpp and pgfplots.cpp write them, so that every output shows the same choice.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "reports/record.h"

namespace ecmv::reports {

struct Tick {
  double at;
  std::string text;
};

struct PlotAxis {
  std::string label;  // with the unit
  bool log = false;
  bool from_zero = true;  // linear axes only
  double min = 0, max = 1;
  std::vector<Tick> ticks;
  bool categories = false;  // ticks are names, and none may be left out
};

// Colours are positions in a colour-blind-safe palette; kInk is the text colour, used for the uncompressed
// baseline.
inline constexpr int kInk = -1;

struct Point {
  double x, y;
  double low = kUnknown, high = kUnknown;  // spread of y
  std::string letter = "";                 // drawn beside the point
  std::string mark = "";                   // after the letter: "!" or "!!" for disturbed times
};

struct Series {
  std::string label;   // in the legend
  std::string detail;  // after it, smaller
  int color = 0;
  bool hollow = false;                                                       // resident cases
  enum class Style { line, points, staircase, dashes } style = Style::line;  // staircase: the Pareto front
  std::vector<Point> points;                                                 // in order of x
};

struct Guide {  // a labelled straight line
  double at;
  std::string label;
};

struct XyPlot {
  PlotAxis x, y;
  std::vector<Series> series;
  std::vector<Guide> vertical, horizontal;
  std::vector<std::string> legend_notes;  // below the legend
};

struct Bar {
  std::string label;
  std::string text;           // right of the label
  std::vector<double> parts;  // stacked; negative ones to the left of zero
  int color = 0;              // if there is one part
};

struct BarPlot {  // horizontal bars, the first on top
  PlotAxis x;
  std::vector<std::string> part_names;  // if there is one, bars have their own colours
  std::vector<Bar> bars;
  std::vector<Guide> vertical;
};

struct HeatMap {
  std::string x_label, y_label;
  std::vector<std::string> x_names, y_names;
  std::vector<std::vector<double>> values;  // [y][x], NaN if not measured
  double neutral = 1;                       // the middle of the colours; a line separates cells on its two sides
  std::string value_label;
  std::map<std::pair<std::size_t, std::size_t>, std::string> marks = {};  // of {y, x}: "!" or "!!" for disturbed times
  std::string text(std::size_t y, std::size_t x) const;                   // of a cell: the number with its mark
};

struct Figure {
  std::string id;        // file name without extension
  std::string title;     // the subject
  std::string subtitle;  // the cases
  std::string caption;   // how to read it, sentences
  std::variant<XyPlot, BarPlot, HeatMap> plot;
  std::vector<const CaseRecord*> cases = {};  // the cases to choose from
};

// Sets the range around the data and ticks at 1, 2, 5 times powers of ten, with SI prefixes. Linear axes
// begin at 0.
void choose_ticks(PlotAxis& axis, double data_min, double data_max);

}  // namespace ecmv::reports
