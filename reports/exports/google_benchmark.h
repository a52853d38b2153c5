// Writes times in Google Benchmark's format, for its tools: compare.py pairs two files by the names of cases and tests
// their samples.
#pragma once

#include <string>

#include "reports/record.h"

namespace ecmv::reports {

// One entry, in nanoseconds, for each sample of each timed ok case. Names are full_name (keys.h). CPU time was not
// measured: cpu_time repeats real_time, and the context says so.
std::string to_google_benchmark(const RecordSet& records);

}  // namespace ecmv::reports
