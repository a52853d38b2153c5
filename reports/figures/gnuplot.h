// Writes figures as gnuplot scripts with their data beside them, and runs the external program gnuplot on them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/figures/figure.h"

namespace ecmv::reports {

// The data file (blocks separated by two empty lines) and the script, which draws ID.dat as ID.svg and
// ID.pdf.
std::string gnuplot_data(const Figure& figure);
std::string gnuplot_script(const Figure& figure);

struct DrawnFigure {
  const Figure* figure;
  std::filesystem::path svg, pdf;  // empty if drawing failed
};

struct Gnuplot {
  std::string program = "gnuplot";  // found on PATH
  int seconds = 60;                 // limit for one drawing
};

// Writes ID.dat and ID.gp of every figure into `directory` and runs gnuplot there. Without the program, or after a
// drawing that took too long, it only writes the files and adds a sentence to `warnings`.
std::vector<DrawnFigure> draw(const std::vector<Figure>& figures, const std::filesystem::path& directory,
                              const Gnuplot& gnuplot, std::vector<std::string>& warnings);

// "#rrggbb" of a palette position.
std::string color_text(int color);

}  // namespace ecmv::reports
