// A matrix as a product uses it: a view of its sections in the memory of a context, in a copy of the library's or where
// the caller has them. Kernels check nothing, so the caller's bytes are read and compared before they are used.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "experiments/library/matrix_parts.h"
#include "experiments/library/product/workspace.h"

namespace ecmv::library {

struct PlacedMatrix {
  const codecs::CodecEntry* entry = nullptr;
  std::unique_ptr<const backends::Settings> settings;  // that the view shows
  std::deque<std::vector<std::byte>> headers;          // that the view shows, of sections on a device
  std::shared_ptr<backends::UploadedMatrix> uploaded;  // the library's copy, if that is used
  backends::CompressedView view;
};

// In the library's copy. Under the lock of GPUs.
PlacedMatrix in_own_copy(const ecmv_compressed_matrix& matrix, backends::Device& device);

// These wait for what the caller does on the device, and must not be called under the lock of GPUs. Throw Failure.
// The matrix's sections in the caller's memory, which must hold the same bytes.
PlacedMatrix in_callers_memory(const ecmv_compressed_matrix& matrix,
                               const std::vector<std::span<const std::byte>>& sections, Workspace& workspace);
// A matrix that is there alone: the bytes of its parts are in the context's memory, and all must have this hash.
PlacedMatrix in_callers_memory(const MatrixParts& parts, uint64_t hash, Workspace& workspace);

}  // namespace ecmv::library
