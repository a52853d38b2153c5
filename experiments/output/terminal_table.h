// Fits texts and tables to a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reports/tables/table.h"

namespace ecmv::experiments {

// The widest line of a run, wherever it goes: people also read logs in files.
inline constexpr size_t kLineColumns = 120;

// COLUMNS if set, else the width of stdout's terminal, else `otherwise`.
size_t terminal_columns(size_t otherwise = 80);

size_t shown_width(std::string_view text);  // in code points

// At most `columns` wide: "…" replaces the middle of a longer text.
std::string shortened(const std::string& text, size_t columns);

// Lines of at most `columns`, broken at spaces; a longer word is broken after a '/' or ',' if it has one.
std::vector<std::string> wrapped(const std::string& text, size_t columns);

// As reports::to_text, but wide columns of texts are wrapped. If the columns do not fit side by side, each row becomes
// a block, a line a column.
std::string fitted_text(const reports::Table& table, size_t columns);

}  // namespace ecmv::experiments
