// Compares the numbers on a page with the records that they come from. Claims say where each number is from:
//
//   numbers: record=reports/published/NAME/records.jsonl op=matvec rows=16384 sigma=4
//   columns: - | bits_per_element | elements_per_s in T | speedup_vs_raw
//   row: codec=raw_int8
//   row: codec=packed_outliers bits=5
//   text: 0.93 of = bandwidth_fraction codec=raw_int8
//   plain: 4.051
//
// They stand in a comment before their table or paragraph, `<!-- numbers: ... -->`, or in a sidecar of the page: a file
// reports/published/numbers/NAME.txt that begins with `page: README.md` (a path from the root). There `block: WORDS`
// opens the claims of the one paragraph or table that has these words, and lines that begin with `#` are comments.
//
// `key=value` chooses cases: `record` (the file), a field of a case (fields.h), `source`, `rows`, `type`, a setting of
// the codec or a parameter of the data (`model`); a row or a text adds its own to the ones after `numbers`. The fastest
// of the chosen cases counts; all must have the same codec, data set, op, batch, device, thread count and cache class.
// A number is a metric (metrics.h) or `read_bandwidth`, in units of M, G or T where it says so. `A / B` divides two,
// which must be of one run and one cache class; a row `A / B` divides each column so. Columns and rows that are `-` are
// not results. `text` is a piece of the paragraph that begins with its only number, unit included. `plain` lists
// numbers that are no results, such as sizes and settings. In a block with claims every number with a decimal point, T,
// G or % must be one or the other.
//
// `pooled table=ID group=GROUP column=ID` is a number of the tables of memory blocks (block_tables.h) instead: the cell
// in the row that pools the workloads of a group (seen, unseen, all).
//
// A record whose build had local changes supports no number.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace ecmv::reports {

struct CheckedDocument {
  std::vector<std::string> faults;  // sentences; empty: every claimed number agrees with its record
  int numbers = 0;                  // compared numbers
  // Records that are cited although some of their cases beat the bandwidth of their run; and those of which a speed-up
  // is cited although not every uncompressed kernel was in the run, or although nobody knows (older records).
  std::set<std::string> beyond_bandwidth, filtered, of_unknown_entrants;
  // Blocks without claims that have a number with a decimal point, T, G or %, as "HEADING (table)" or "HEADING (text)".
  std::vector<std::string> without_claims;
  // The same, but paragraphs only if they link to reports/published.
  std::vector<std::string> without_records;
};

// `text` is a page in Markdown, `sidecar` the text of its sidecar or empty; files are below `root`.
CheckedDocument check_printed_numbers(const std::string& text, const std::filesystem::path& root,
                                      const std::string& sidecar = "");

// The sidecars in `folder` by page: path of the page -> text of the sidecar. Throws std::runtime_error for a file
// without `page: PATH` and for a second sidecar of a page.
std::map<std::string, std::string> read_sidecars(const std::filesystem::path& folder);

}  // namespace ecmv::reports
