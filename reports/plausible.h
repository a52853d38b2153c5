// What a line of a record file must keep before anything is made of it. Whoever has such a line may have edited it.
#pragma once

#include <string_view>

#include "reports/record.h"

namespace ecmv::reports {

// JSON that is nested so deeply that functions which call themselves once a level would exhaust the stack throws, and
// so does JSON that would take half a gigabyte as a tree.
void expect_shallow(std::string_view text);

// Larger or smaller than anything that is measured: figures and ratios of such numbers would be none.
bool is_beyond_measure(double value);

// A count below zero or of more than `bits` bits throws ReportError: sums and products of counts must be numbers.
void expect_count(const char* name, std::int64_t count, int bits);

// Times that no run can have written throw ReportError.
void expect_plausible(const CaseRecord& record);

}  // namespace ecmv::reports
