// Which tables a report has. One row a case, nothing averaged; resident and streamed cases, and different
// ops, are never in one table; what failed or was refused has tables of its own, with the reasons.
#pragma once

#include <vector>

#include "reports/metrics.h"
#include "reports/record.h"
#include "reports/tables/table.h"

namespace ecmv::reports {

// The results: one table for each op and cache class that has ok cases, in the order product before decode before
// sizes, streamed before resident. Rows are grouped by data, batch and device, in each group the fastest first, sizes
// smallest first; numbers stand before the names of kernels.
std::vector<Table> results_tables(const RecordSet& records, const Contexts& contexts);
// What the layers of each decoding step take, by kind: a row for each kind, codec and kernel of the ok cases.
Table steps_table(const RecordSet& records);
// Products that ranks or devices shared, of every codec and settings with the fastest kernel by each number and engine.
// Strong scaling: beside one rank on the same data. Weak scaling: beside one rank that had as many elements as each of
// several has. No rows without such cases.
Table strong_scaling_table(const RecordSet& records, const Contexts& contexts);
Table weak_scaling_table(const RecordSet& records);
// What 4, 8 and 16 devices would take, by a model of what 1 and 2 took.
Table scaling_model_table(const RecordSet& records, const Contexts& contexts);
// The same with fewer columns and of each codec and settings only the fastest kernel and tuning on each backend and
// device.
std::vector<Table> fastest_tables(const RecordSet& records, const Contexts& contexts);
// All kernels with fewer columns, for the terminal.
std::vector<Table> summary_tables(const RecordSet& records, const Contexts& contexts);

// Cases that went wrong (incorrect, error, timed_out, out_of_memory), one row each, worst first.
Table failures_table(const RecordSet& records);
// Cases that were refused or unavailable, those with the same reason in one row with their number.
Table refusals_table(const RecordSet& records);

// Codec x (backend, instruction set, op): which statuses occurred; reasons as notes.
Table coverage_table(const RecordSet& records);

// One row a case with every field and every metric, whatever its status: the CSV.
Table flat_table(const RecordSet& records, const Contexts& contexts);

// Which files codecs with a † came from; no rows without such codecs.
Table library_table(const RecordSet& records);
Table bandwidth_table(const RecordSet& records);
Table metrics_table();                             // glossary
Table provenance_table(const RecordSet& records);  // one column a run

// Cases sorted by data (source, sigma, shape), then by elements/s, fastest first.
std::vector<const CaseRecord*> sorted_cases(const RecordSet& records);

}  // namespace ecmv::reports
