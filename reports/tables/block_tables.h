// Tables and figures of memory compression, from the records of cases that counted blocks. Only these tables average:
// every mean has a row of its own that names it, below the rows from which it is made.
#pragma once

#include <vector>

#include "reports/figures/figure.h"
#include "reports/record.h"
#include "reports/tables/table.h"

namespace ecmv::reports {

// Without counted blocks none. Otherwise, for each block size:
//  * one table for each accounting, and one for all stored bytes: compression ratios, a row a workload (its element
//    types together), then
//    types pooled, then, of seen workloads, unseen ones and all, the pooled ratio and the arithmetic and geometric mean
//    over workloads;
//  * one table of the time that a workload's blocks take on a link with an eighth of a GPU's memory bandwidth, coded
//    and not.
std::vector<Table> block_tables(const RecordSet& records);

// Workloads x codecs for each block size: a map of the ratios in the table of the accounting `stream`.
std::vector<Figure> block_figures(const RecordSet& records);

}  // namespace ecmv::reports
