// Overlaps of rectangles. A figure has some hundreds of them.
#include "reports/figures/placement.h"

#include <algorithm>
#include <cmath>

namespace ecmv::reports {
namespace {

double common_area(const Box& a, const Box& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  return width > 0 && height > 0 ? width * height : 0;
}

}  // namespace

double text_width(const std::string& text, double font_size) {
  const auto characters =
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return 0.54 * font_size * static_cast<double>(characters);
}

std::vector<std::string> wrapped(const std::string& text, double font_size, double width) {
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    std::string& line = lines.back();
    if (line.empty())
      line = word;
    else if (text_width(line + " " + word, font_size) <= width)
      line += " " + word;
    else
      lines.push_back(word);
    at = end + 1;
  }
  return lines;
}

void Occupied::add_line(double x0, double y0, double x1, double y1) {
  const double length = std::hypot(x1 - x0, y1 - y0);
  if (!std::isfinite(length)) return;
  const int steps = 1 + static_cast<int>(std::min(length, 4000.0) / 6);
  for (int i = 0; i <= steps; ++i) {
    const double x = x0 + (x1 - x0) * i / steps, y = y0 + (y1 - y0) * i / steps;
    add({x - 2, y - 2, x + 2, y + 2});
  }
}

double Occupied::overlap(const Box& box) const {
  double covered = 0;
  for (const Box& taken : boxes_) covered += common_area(box, taken);
  const double area = (box.right - box.left) * (box.bottom - box.top);
  return covered + 2 * (area - common_area(box, within_));
}

std::size_t Occupied::take(const std::vector<Box>& places) {
  std::size_t best = 0;
  double least = INFINITY;
  for (std::size_t i = 0; i < places.size() && least > 0; ++i)
    if (const double covered = overlap(places[i]); covered < least) least = covered, best = i;
  if (!places.empty()) add(places[best]);
  return best;
}

}  // namespace ecmv::reports
