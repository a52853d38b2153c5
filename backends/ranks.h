// Ranks: several processes, or several devices of one, that share a product by its rows. Each has its part of every
// layer and all of every vector. What they exchange goes through this interface, of which an engine (MPI for CPUs; NCCL
// for GPUs has the same operations) is one implementation; passes hold it in steps and know nothing else of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ecmv::backends {

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;  // of this one, 0 <= rank < count
  virtual int count() const = 0;
  // `data` is memory of the backend. Rank r has [offsets[r], offsets[r + 1]) of it; afterwards all have all of it. On a
  // GPU it is put on the stream; engines of the host are done when it returns, and `stream` is null.
  virtual void gather(void* stream, std::byte* data, std::span<const int64_t> offsets) = 0;
  // Returns when all ranks are here.
  virtual void meet() = 0;
};

// The rows of a rank: contiguous runs that differ by one at most. [count + 1] offsets.
inline int64_t first_row_of_rank(int64_t rows, int rank, int count) { return rows * rank / count; }

}  // namespace ecmv::backends
