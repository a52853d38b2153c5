// Texts and tables that fit a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reports/tables/table.h"

namespace ecmv::experiments {

// What one line of a run may take, wherever it goes: people read logs of runs in files, too.
inline constexpr size_t kLineColumns = 120;

// COLUMNS where that is set, else the width of the terminal that stdout is, else `otherwise`.
size_t terminal_columns(size_t otherwise = 80);

size_t shown_width(std::string_view text);  // in code points

// At most `columns` wide: the middle of a longer text gives way to "…".
std::string shortened(const std::string& text, size_t columns);

// Lines of at most `columns`, broken at spaces; a word that is longer, after a '/' or ',' in it where there is one.
std::vector<std::string> wrapped(const std::string& text, size_t columns);

// As reports::to_text, but wide columns of texts are wrapped. Where the columns do not fit side by side each row is
// written as a block of its own, a line a column.
std::string fitted_text(const reports::Table& table, size_t columns);

}  // namespace ecmv::experiments
