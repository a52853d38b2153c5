// The workloads of the source `workload`, and which of their blocks may train a codec. Training tools and tests read
// this; experiments use the source.
#pragma once

#include "datasets/workloads/memory_image.h"

namespace ecmv::datasets {

// A choice of a workload's blocks. For seen workloads `train` is four fifths of their cache lines, drawn at random, and
// `test` the others. Unseen ones have only `all`.
enum class WorkloadPart { all, train, test };

std::vector<Workload> all_workloads();                 // in alphabetical order
const Workload* find_workload(std::string_view name);  // nullptr: no such workload

// The bytes of all arrays of that type, one after the other; only the lines of the part.
std::vector<std::byte> workload_bytes(const Workload& workload, const MemoryImage& image, ElementType type,
                                      WorkloadPart part);

// Order-0 entropy, in bits a byte, of the 32-byte blocks of an image that are neither zero nor one repeated 32-bit
// word. Workloads are sorted by it to choose the unseen ones.
double image_entropy(const MemoryImage& image);

}  // namespace ecmv::datasets
