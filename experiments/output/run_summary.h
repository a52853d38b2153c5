// The end of a run's output: the fastest kernel of each codec, failures, counts of refusals, and what to type next.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reports/record.h"
#include "reports/tables/table.h"

namespace ecmv::experiments {

// The fastest ok case of every codec with its settings, numbers first: a table for each dataset, op, cache class and
// device. Sizes have tables of their own, the smallest first. If the settings do not fit a screen, only each codec's
// fastest one is shown, and the title says so. Seeds are repetitions of one case.
std::vector<reports::Table> fastest_cases(const reports::RecordSet& records, const std::string& baseline_codecs);

// Prints "37 refused, for 3 reasons (each case has its own in the records):" and the most frequent reasons.
void print_refusals(const std::map<std::string, int>& refusals, const std::string& where, std::ostream& out);

// Prints names and reasons, each reason once and as many as fit a screen.
void print_failures(const std::vector<std::pair<std::string, std::string>>& failures, const std::string& where,
                    std::ostream& out);

}  // namespace ecmv::experiments
