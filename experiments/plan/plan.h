// What a run would do, without doing it: `ecmv run --dry-run`.
#pragma once

#include <iosfwd>
#include <span>

#include "codecs/registry.h"
#include "experiments/config/case.h"

namespace ecmv::experiments {

// Prints every dataset with its bytes and the memory it needs, every case, and the refusals and absences that are known
// before anything is encoded (codecs are asked with the first layer; kernels see their streams only in the run). The
// time at the end is a lower bound: the samples alone. Returns the number of cases that would be tried.
int print_plan(const Experiment& experiment, std::span<const codecs::CodecEntry> codecs, std::ostream& out);

// Bytes of memory that a dataset takes: its matrices, one encoded copy, its upload and a decoded one. 0 for
// files that cannot be read.
int64_t memory_needed_bytes(const DataSpec& data);
// "" or why this dataset cannot be run in the memory that is available now, with the numbers.
// `copies`: of the encoded matrices.
std::string lacks_memory(const DataSpec& data, int copies = 1);

}  // namespace ecmv::experiments
