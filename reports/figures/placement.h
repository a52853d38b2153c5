// Finds places for a figure's texts: it keeps the occupied rectangles and chooses the place that covers least of them.
// In pixels, x to the right and y downwards.
#pragma once

#include <string>
#include <vector>

namespace ecmv::reports {

struct Box {
  double left, top, right, bottom;
};

// An estimate, right within a tenth for sans-serif fonts.
double text_width(const std::string& text, double font_size);
// Lines of at most that width, broken at blanks.
std::vector<std::string> wrapped(const std::string& text, double font_size, double width);

class Occupied {
 public:
  explicit Occupied(Box within) : within_(within) {}
  void add(const Box& box) { boxes_.push_back(box); }
  void add_line(double x0, double y0, double x1, double y1);
  // The occupied area under a box; area outside the canvas counts double.
  double overlap(const Box& box) const;
  // Places are in order of preference. Takes the first that covers nothing, else the one that covers least.
  std::size_t take(const std::vector<Box>& places);

 private:
  Box within_;
  std::vector<Box> boxes_;
};

}  // namespace ecmv::reports
