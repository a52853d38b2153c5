// The whole report from records: page, tables, macros and figures in one folder, without running anything.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reports/figures/figures.h"
#include "reports/record.h"

namespace ecmv::reports {

struct ReportOptions {
  std::string baseline_codec;           // ids of the uncompressed codecs, "a,b"; "" : no comparisons with it
  std::string title;                    // "": the experiments' names
  std::string gnuplot = "gnuplot";      // program, found on PATH
  int gnuplot_seconds = 60;             // for one drawing; after a timeout no more are drawn
  std::vector<XySpec> more_figures;     // from --x --y --series --facet
  std::vector<std::string> columns;     // of results.csv and of the results in results.md; empty: all of the first
  std::vector<std::string> paper_rows;  // keys (keys.h) for the rows of results.tex; empty: the fastest of each codec
};

struct WrittenReport {
  std::vector<std::filesystem::path> files;
  std::vector<std::string> warnings;  // full sentences; also on the page
  std::string terminal_text;          // the answer, failures, the tables of fastest kernels
};

// Writes report.html, results.md, results.csv, results.tex, macros.tex and figures/*.{svg,pdf,gp,dat,tex} into
// `directory` (created). A case that failed and was ok when tried again (same case key and machine) is shown as ok, and
// a warning gives the number of such cases. Throws ReportError if there is no case at all or a file cannot be written.
WrittenReport write_report(const RecordSet& records, const ReportOptions& options,
                           const std::filesystem::path& directory);

// Leaves out records that a later ok record of the same case and machine supersedes.
RecordSet without_superseded(const RecordSet& records, std::int64_t& superseded);

// The number of cases of each status, failures first, ok last; statuses without a case are left out, except ok.
std::vector<std::pair<Status, std::int64_t>> count_statuses(const RecordSet& records);

}  // namespace ecmv::reports
