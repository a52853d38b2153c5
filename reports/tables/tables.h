// The tables of a report. One row a case, nothing averaged. Resident and streamed cases, and different ops, are never
// in one table. Failures and refusals have tables of their own, with the reasons.
#pragma once

#include <vector>

#include "reports/metrics.h"
#include "reports/record.h"
#include "reports/tables/table.h"

namespace ecmv::reports {

// The results: one table for each op and cache class with ok cases, in the order product before decode before sizes,
// streamed before resident. Rows are grouped by data, batch and device, in each group the fastest first, sizes smallest
// first.
std::vector<Table> results_tables(const RecordSet& records, const Contexts& contexts);
// The bytes and times of each decoding step's layers, with a row for each kind, codec and kernel of the ok cases.
Table steps_table(const RecordSet& records);
// The bytes that a step's weights take and leave of a device's memory, where that is known.
Table step_memory_table(const RecordSet& records);
// Products that ranks or devices shared, for every codec and settings with the fastest kernel for each number and
// engine. Strong scaling: beside one rank on the same data. Weak scaling: beside one rank with as many elements as each
// of several has. No rows without such cases.
Table strong_scaling_table(const RecordSet& records, const Contexts& contexts);
Table weak_scaling_table(const RecordSet& records);
// What one and two ranks or devices let expect of more, beside what these were measured to take.
Table forecast_table(const RecordSet& records);
// The results with fewer columns, and for each codec and settings only the fastest kernel and policy on each backend
// and device.
std::vector<Table> fastest_tables(const RecordSet& records, const Contexts& contexts);

// How the gain of each codec and settings over uncompressed weights holds over shapes: geometric mean, least and most.
// No rows for less than three shapes.
Table shapes_table(const RecordSet& records, const Contexts& contexts);

// Failed cases (incorrect, error, timed_out, out_of_memory), one row each, worst first.
Table failures_table(const RecordSet& records);
// Refused or unavailable cases; cases with the same reason share a row with their number.
Table refusals_table(const RecordSet& records);

// Codec x (backend, instruction set, op): the statuses that occurred, with reasons as notes.
Table coverage_table(const RecordSet& records);

// One row a case with every field and every metric, whatever its status: the CSV.
Table flat_table(const RecordSet& records, const Contexts& contexts);

// The columns with these ids, in that order, with the values as texts. Throws ReportError for an unknown one.
Table with_columns(const Table& table, const std::vector<std::string>& ids);

// The files of codecs with a †; no rows without such codecs.
Table library_table(const RecordSet& records);
Table bandwidth_table(const RecordSet& records);
Table metrics_table();                             // glossary
Table provenance_table(const RecordSet& records);  // one column a run

// A number from disturbed times bears their mark wherever it stands.
void mark_cell(Cell& cell, Disturbance disturbance);

// Cases sorted by data (source, sigma, shape), then by elements/s, fastest first.
std::vector<const CaseRecord*> sorted_cases(const RecordSet& records);

}  // namespace ecmv::reports
