// Whether a kernel reads what was stored. A copy that it keeps (on the heap, in a file, made when it was bound or
// later) gives right results however few bytes it reads in a timed pass. So its payload is inverted, and then its
// results must be others.
#pragma once

#include <memory>
#include <vector>

#include "backends/pass.h"
#include "experiments/check/check.h"

namespace ecmv::experiments {

// Whether the layer has the same results when its payload is inverted, or about 64 bytes of it, from a byte on that
// `first` draws. Leaves it inverted.
bool is_same_with_other_bytes(backends::Pass& pass, const backends::UploadedMatrix& stored, backends::Op op, int layer,
                              const datasets::Matrix& matrix, size_t first);

// Asks a kernel of the host, in a forked process: damaged streams may make it crash or run for ever, which are other
// results as well. `estimate_s`: of one pass.
Outcome check_stored_bytes(backends::Pass& pass, const std::vector<const backends::UploadedMatrix*>& layers,
                           backends::Op op, const Reference& reference, double estimate_s);

}  // namespace ecmv::experiments
