// The plan of a run, without running it: `ecmv run --dry-run`.
#pragma once

#include <iosfwd>
#include <span>

#include "codecs/registry.h"
#include "experiments/config/case.h"

namespace ecmv::experiments {

// Prints every dataset with its bytes and the memory it needs, every case, and the refusals and absences known before
// anything is encoded (codecs are asked with the first layer; kernels see their streams only in the run). The time at
// the end is a lower bound: the samples alone. Returns the number of cases that would be tried.
int print_plan(const Experiment& experiment, std::span<const codecs::CodecEntry> codecs, std::ostream& out);

// Bytes of memory for a dataset: its matrices, one encoded copy, its upload and a decoded copy. 0 for unreadable files.
int64_t memory_needed_bytes(const DataSpec& data);
// "" or why the available memory is too small for this dataset, with the numbers. `copies`: of the encoded matrices.
std::string lacks_memory(const DataSpec& data, int copies = 1);

}  // namespace ecmv::experiments
