// Figures as pgfplots source with the numbers inside, for papers that use their own fonts. As wide as the column.
#pragma once

#include <string>

#include "reports/figures/figure.h"

namespace ecmv::reports {

// One tikzpicture to be \input, after a comment with its title and subtitle. Needs \usepackage{pgfplots}.
std::string to_pgfplots(const Figure& figure);

}  // namespace ecmv::reports
