// Whether the first sample of a case drifts from the others: caches that were cold, clocks that still rose, or memory
// that was touched for the first time show there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/record.h"
#include "reports/tables/table.h"

namespace ecmv::reports {

// The ok cases of one op, cache class and device that have at least 5 samples, compared with each other's.
struct FirstSamples {
  std::string op, cache, device;
  std::int64_t cases = 0, slower = 0, faster = 0;  // beyond the 90th and 10th percentile of the case's other samples
  double median = 0, least = 0, most = 0;          // first sample / median of the others, over the cases

  // In most cases beyond that percentile on one side, and by more than 2 % in the median. Chance does that to a tenth
  // of the cases on each side.
  bool drift() const;
};
std::vector<FirstSamples> first_samples(const RecordSet& records);

// A row for each, with the verdict; no rows without such cases.
Table first_samples_table(const RecordSet& records);

// A sentence for each that drifts.
std::vector<std::string> drifting_first_samples(const RecordSet& records);

}  // namespace ecmv::reports
