// Are these numbers different? Pairs the cases of two sets of records by case key, or those of one set with a baseline
// codec's, and gives each pair a verdict from the samples themselves, not from two medians.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/record.h"
#include "reports/tables/table.h"

namespace ecmv::reports {

// The first four are for timed cases, the next three for sizes (op `size`), which have no time.
enum class Verdict { same, faster, slower, unsure, same_size, smaller, larger, broken, repaired, not_ok, lost, added };
std::string_view to_string(Verdict verdict);  // "SAME", "FASTER", ..., "SAME SIZE", ...

struct Interval {
  double low, middle, high;
};

// Interval of the ratio base time / new time (above 1: new is faster), by inverting the rank test of Mann and Whitney
// on the logarithms. It covers the ratio with probability >= `confidence` if the two sets of samples are independent
// and differ by a factor. It needs no random numbers and no normal distribution. With too few samples for the
// confidence (fewer than 4 and 4 at 95 %) low is 0 and high is infinite. Throws ReportError for empty or non-positive
// samples.
Interval ratio_interval(const std::vector<double>& base, const std::vector<double>& other, double confidence);

struct CompareOptions {
  double confidence = 0.95;
  double smallest_change = 0.02;  // differences below this fraction count as SAME
};

struct Comparison {
  Verdict verdict;
  const CaseRecord* base;   // nullptr for added, and within one set if there is no pair
  const CaseRecord* other;  // nullptr for lost
  Interval speed_ratio;     // NaN without two timings
  std::int64_t stored_bytes_change = 0;
  std::string note = "";
};

// Compares two records of a case, or of two cases of the same work. UNSURE with a note if either was disturbed
// (is_disturbed): samples of a busy machine do not differ by a single factor.
Comparison compare_cases(const CaseRecord& base, const CaseRecord& other, const CompareOptions& options = {});

// FASTER / SLOWER: the whole interval lies beyond 1 +- smallest_change. SAME: it lies wholly within. UNSURE: else, or
// the two timed different amounts of work or cache classes. Broken: was ok, is not. Repaired: the reverse. Not ok: ok
// in neither. Lost and added: the case is in only one of the sets.
struct ComparisonResult {
  std::vector<Comparison> rows;  // worst first; within one set, by data
  bool regression = false;       // any SLOWER or BROKEN, or more stored bytes; never within one set
  std::string baseline_codecs;   // of a comparison within one set
  bool several_seeds = false;    // of the same data: then names of data have the seed
  std::string data_of(const CaseRecord& record) const;
};

// If a case has several records, the last ok one counts, or else the last. Cases whose data were read from another path
// are paired if the data's content is the same. The sets must outlive the result. Throws ReportError with a name of
// each side if no case is in both, since then nothing was compared.
ComparisonResult compare(const RecordSet& base, const RecordSet& other, const CompareOptions& options = {});

// Compares the other codecs' cases within one set, each with its Context's baseline (metrics.h): ratios above 1 are
// faster than that. Another codec that is slower or larger is no regression. Sorted like the tables of results; cases
// that are not ok or have no baseline come last, UNSURE and with the reason. Throws ReportError if there is no such
// codec or no pair. Retried cases: see without_superseded.
ComparisonResult compare_with_baseline(const RecordSet& records, const std::string& baseline_codecs,
                                       const CompareOptions& options = {});

// The summary of a result.
struct ComparisonSummary {
  std::vector<std::pair<Verdict, std::size_t>> counts;  // of each verdict that occurs, worst first
  std::size_t ratios = 0;                               // the number of cases with two timings
  double mean_ratio = kUnknown;                         // their geometric mean
};
ComparisonSummary summary_of(const ComparisonResult& result);
// "20 cases: 1 SLOWER, 19 SAME; geometric mean of 20 speed ratios: 0.998 ×".
std::string to_string(const ComparisonSummary& summary);

// Whether rows are shown only with `all`: cases that say nothing of a change (in one set only, ok in neither).
bool is_folded(Verdict verdict);
Table comparison_table(const ComparisonResult& result, bool all = true);

}  // namespace ecmv::reports
