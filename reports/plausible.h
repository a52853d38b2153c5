// Checks a line of a record file before it is used, since anybody may have edited it.
#pragma once

#include <string_view>

#include "reports/record.h"

namespace ecmv::reports {

// Throws for JSON nested so deeply that recursive functions would exhaust the stack, and for JSON that would take half
// a gigabyte as a tree.
void expect_shallow(std::string_view text);

// Whether a value is larger or smaller than any measurement, so that figures and ratios of it would overflow.
bool is_beyond_measure(double value);

// Throws ReportError for a negative count or one of more than `bits` bits, so that sums and products of counts do not
// overflow.
void expect_count(const char* name, std::int64_t count, int bits);

// Throws ReportError for times that no run can have written.
void expect_plausible(const CaseRecord& record);

}  // namespace ecmv::reports
