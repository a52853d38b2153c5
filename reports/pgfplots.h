// Figures as pgfplots source with the numbers inside: for papers that want their own fonts.
#pragma once

#include <string>
#include <vector>

#include "reports/figure.h"

namespace ecmv::reports {

// One tikzpicture a figure, each after a comment with its title and subtitle. Needs \usepackage{pgfplots}.
std::string to_pgfplots(const std::vector<Figure>& figures);

}  // namespace ecmv::reports
