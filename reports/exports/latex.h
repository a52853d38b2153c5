// LaTeX output that fits a column of a two-column paper: tables of chosen rows, and every value by a key, so that a
// paper cannot misquote a number.
#pragma once

#include <string>
#include <vector>

#include "reports/keys.h"
#include "reports/metrics.h"
#include "reports/tables/table.h"

namespace ecmv::reports {

// Escapes LaTeX's special characters and the few non-ASCII signs of our labels.
std::string latex_escaped(const std::string& raw);

// The same, for names of codecs with their settings: lines may break after their punctuation.
std::string latex_label(const std::string& raw);

// A table float as wide as the column, with booktabs rules; the first column breaks its lines, so nothing overflows.
// The caption is the table's title, the label tab:ID.
std::string to_latex(const Table& table);

// The rows for a paper: the cases with the keys in `chosen`; if it is empty, the fastest settings and kernel of each
// codec on each data. Columns are codec, bits, excess, speed and speed-up. There is one table for each op and cache
// class, split where it would not fit a page. Throws ReportError for a key that no case has.
std::vector<Table> paper_tables(const RecordSet& records, const Contexts& contexts, const CaseKeys& keys,
                                const std::vector<std::string>& chosen);

// \\ecmvval{KEY}{NAME} for every ok case and each of its values. The head of the file lists the names with units. An
// unknown key or name is an error of LaTeX, not a blank.
std::string to_macros(const RecordSet& records, const Contexts& contexts, const CaseKeys& keys);

}  // namespace ecmv::reports
