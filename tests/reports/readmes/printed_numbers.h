// Numbers that a document prints, held against the records they come from. A comment before a table or a paragraph
// says where each number is from:
//
//   <!-- numbers: record=reports/published/NAME/records.jsonl op=matvec rows=16384 sigma=4
//   columns: - | bits_per_element | elements_per_s in T | speedup_vs_raw
//   row: codec=raw_int8
//   row: codec=packed_outliers bits=5
//   text: 0.93 of = bandwidth_fraction codec=raw_int8
//   plain: 4.051
//   -->
//
// `key=value` chooses cases: `record` (the file), a field of a case (fields.h), `source`, `rows`, `type`, or a setting
// of the codec; what a row or a text says comes on top of the first line. Of the cases that are left the fastest
// counts; all must be one codec's, of one data set, op, batch, device, thread count and cache class. A number is a
// metric (metrics.h) or `read_bandwidth`, in units of M, G or T where it says so; `A / B` divides two, which must be of
// the same run and the same cache class; a row `A / B` divides each column so. Columns and rows that are `-` are not
// results. `text` is a piece of the paragraph with one number first, its T, G or M behind it. `plain` lists numbers
// that are no results: sizes, settings. Every number with a decimal point, T, G or % must be one or the other.
//
// A record whose build had local changes supports no number.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ecmv::reports {

struct CheckedDocument {
  std::vector<std::string> faults;  // sentences; empty: every number with a comment is its record's
  int numbers = 0;                  // that were compared
  // Headings of tables and paragraphs that have results and no comment. A table counts if a cell of it has a number
  // with a decimal point; a paragraph if it links to reports/published and has one.
  std::vector<std::string> without_records;
};

// `text` is a document in Markdown; files are below `root`.
CheckedDocument check_printed_numbers(const std::string& text, const std::filesystem::path& root);

}  // namespace ecmv::reports
