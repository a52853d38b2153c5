// LaTeX output: booktabs tables and one macro a value, so that a paper quotes numbers it cannot mistype.
#pragma once

#include <string>
#include <vector>

#include "reports/table.h"

namespace ecmv::reports {

// Escapes what LaTeX treats specially and the few non-ASCII signs of our labels.
std::string latex_escaped(const std::string& raw);

// A longtable with booktabs rules (\usepackage{booktabs,longtable}); the caption is the table's title.
std::string to_latex(const Table& table);

// \newcommand{\ecmv...}{value} for each numeric cell: the name is built from the row's text cells and the
// column id, digits spelled out (macro names may hold letters only); the same text as in the table. Repeated
// names get a letter.
std::string to_macros(const std::vector<Table>& tables);

}  // namespace ecmv::reports
