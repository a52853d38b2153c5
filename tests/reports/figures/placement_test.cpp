// Claims about the places of letters, labels and legends in figures: they keep clear of one another.
#include "reports/figures/placement.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <regex>

#include "reports/figures/gnuplot.h"

using namespace ecmv::reports;

namespace {

// Left-justified texts of a script, with their places on a canvas of the script's own size.
struct Placed {
  std::string text;
  double x, y;
};

std::vector<Placed> labels_of(const std::string& script) {
  static const std::regex size("terminal svg size ([0-9]+),([0-9]+)");
  static const std::regex label("set label \"([^\"]+)\" at screen ([0-9.]+), screen ([0-9.]+)");
  std::smatch canvas;
  REQUIRE(std::regex_search(script, canvas, size));
  std::vector<Placed> labels;
  for (std::sregex_iterator i(script.begin(), script.end(), label), end; i != end; ++i)
    labels.push_back(
        {(*i)[1], std::stod((*i)[2]) * std::stod(canvas[1]), (1 - std::stod((*i)[3])) * std::stod(canvas[2])});
  return labels;
}

XyPlot plot_of(std::vector<Series> series) {
  XyPlot plot;
  plot.x = {"x", false, true, 0, 1, {}};
  plot.y = {"y", false, true, 0, 1, {}};
  plot.series = std::move(series);
  return plot;
}

}  // namespace

TEST_CASE("a text takes the first free place, or the one that covers least") {
  Occupied occupied({0, 0, 100, 100});
  occupied.add({0, 0, 50, 50});
  const std::vector<Box> places = {{10, 10, 20, 20}, {60, 10, 70, 20}, {80, 10, 90, 20}};
  CHECK(occupied.take(places) == 1);
  CHECK(occupied.take(places) == 2);
  CHECK(occupied.overlap({60, 10, 70, 20}) == 100);
  CHECK(occupied.take({{45, 45, 55, 55}, {48, 48, 58, 58}, {95, 95, 120, 120}}) == 1);
}

TEST_CASE("lines are parted at blanks and nothing is lost") {
  CHECK(wrapped("", 12, 100) == std::vector<std::string>{""});
  CHECK(wrapped("one two", 12, 1000) == std::vector<std::string>{"one two"});
  std::string again;
  for (const std::string& line : wrapped("gaussian σ=4, 16384 × 16384 · streamed · a device", 12, 120)) {
    CHECK(text_width(line, 12) <= 120);
    again += (again.empty() ? "" : " ") + line;
  }
  CHECK(again == "gaussian σ=4, 16384 × 16384 · streamed · a device");
}

TEST_CASE("letters of points that lie close together do not meet") {
  Series points{"codec", "", 0, false, Series::Style::points, {}};
  for (int i = 0; i < 12; ++i)
    points.points.push_back({0.5 + 0.004 * i, 0.5 + 0.006 * i, 0.45, 0.6, std::string(1, static_cast<char>('a' + i))});
  XyPlot plot = plot_of({points});
  plot.vertical.push_back({0.52, "entropy"});
  plot.horizontal.push_back({0.53, "raw, 2 G/s"});
  std::vector<Placed> letters;
  for (const Placed& label : labels_of(gnuplot_script({"id", "title", "", "", plot})))
    if (label.text.size() == 1 && label.text != "y") letters.push_back(label);
  REQUIRE(letters.size() == 12);
  for (std::size_t a = 0; a < letters.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      INFO(letters[a].text << " and " << letters[b].text);
      const bool apart = std::abs(letters[a].x - letters[b].x) >= 9 || std::abs(letters[a].y - letters[b].y) >= 13;
      CHECK(apart);
    }
}

TEST_CASE("a legend of many lines has room for each, within the canvas") {
  std::vector<Series> lines;
  for (int i = 0; i < 14; ++i)
    lines.push_back({"a codec with a long name " + std::to_string(10 + i),
                     "its kernel",
                     i,
                     false,
                     Series::Style::line,
                     {{0, 0.5}, {1, 0.5}}});
  const std::string script = gnuplot_script({"id", "title", "subtitle", "", plot_of(lines)});
  std::vector<Placed> labels = labels_of(script);
  std::erase_if(labels, [](const Placed& label) { return !label.text.starts_with("a codec"); });
  REQUIRE(labels.size() == 14);
  for (std::size_t a = 0; a < labels.size(); ++a) {
    CHECK(labels[a].x + text_width(labels[a].text, 13) <= 500);
    for (std::size_t b = 0; b < a; ++b) {
      const bool same_line = std::abs(labels[a].y - labels[b].y) < 14;
      if (same_line) CHECK(std::abs(labels[a].x - labels[b].x) >= text_width(labels[a].text, 13));
    }
  }
}

TEST_CASE("ticks whose texts would meet stay without text, names of things never do") {
  XyPlot plot = plot_of({{"l", "", 0, false, Series::Style::line, {{0, 0.5}, {1, 0.5}}}});
  for (int i = 0; i <= 40; ++i) plot.x.ticks.push_back({i / 40.0, std::to_string(16384 + i)});
  const auto texts = [&] {
    const std::string script = gnuplot_script({"id", "title", "", "", plot});
    static const std::regex tick("\"163[0-9]+\"|\"164[0-9]+\"");
    return std::distance(std::sregex_iterator(script.begin(), script.end(), tick), std::sregex_iterator());
  };
  CHECK(texts() >= 5);
  CHECK(texts() <= 12);
  plot.x.categories = true;
  CHECK(texts() == 41);
}
