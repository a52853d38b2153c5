// Ranks: several processes, each with a device of its own, that share a product by the rows or the columns of its
// matrices. Each has its part of every layer. What they exchange goes through this interface, of which an engine is one
// implementation: MPI or sockets between CPUs (world.h), NCCL, RCCL or memory that devices map from each other between
// GPUs (gpu/device_ranks.h). Passes hold it in steps and know nothing else of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace ecmv::backends {

// What ranks have of a layer, and what they exchange after it.
enum class Split : uint8_t {
  rows_gathered,  // each has its rows; the results are gathered on all
  rows_kept,      // matmul: each has its rows and keeps what they give, for a layer by columns
  cols            // matmul: each has its columns and those numbers of the tokens; the ranks' sums are added up on all
};

struct LayerSplit {
  Split how = Split::rows_gathered;
  std::vector<int64_t> begins = {};  // rows, or columns, at which the ranks' parts begin, [ranks + 1]
  int ranks() const { return static_cast<int>(begins.size()) - 1; }
};

// What the record says of a device that several ranks share.
struct SharedDevice {
  int ranks = 1;
  bool bound = true;                      // every thread has a core to itself
  std::vector<std::string> devices = {};  // GPUs: their names by rank, with the host's where there are several
  std::string links = {};                 // GPUs: what links them, each kind once
  std::string library = {};               // what exchanges the vectors: name and version; known after prepare()
};

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;  // of this one, 0 <= rank < count
  virtual int count() const = 0;
  virtual std::string library() const = 0;  // what it exchanges by: name and version
  // `data` is memory of the backend. Rank r has [offsets[r], offsets[r + 1]) of it; afterwards all have all of it. On a
  // GPU it is put on the stream; engines of the host are done when it returns, and `stream` is null.
  virtual void gather(void* stream, std::byte* data, std::span<const int64_t> offsets) = 0;
  // Adds up what all ranks have at data[0, count): afterwards each has the same sums there, bit for bit. An element
  // takes count() - 1 additions of float32, in whatever order. Stream and memory as above.
  virtual void reduce(void* stream, float* data, int64_t count) = 0;
  // What comes after it begins when all ranks are here: on a GPU what is on the stream after it, else when it returns.
  virtual void meet(void* stream) = 0;
};

// The rows of a rank: contiguous runs that differ by one at most. [count + 1] offsets.
inline int64_t first_row_of_rank(int64_t rows, int rank, int count) { return rows * rank / count; }

// Ranks::reduce for engines of the host that have no better way: gathers all, and adds in the order of ranks.
inline void reduce_by_gathering(Ranks& host, float* data, int64_t count) {
  const auto ranks = static_cast<size_t>(host.count()), numbers = static_cast<size_t>(count);
  std::vector<float> all(ranks * numbers);
  std::vector<int64_t> offsets;
  for (size_t r = 0; r <= ranks; ++r) offsets.push_back(static_cast<int64_t>(r * numbers * sizeof(float)));
  if (count > 0) std::memcpy(all.data() + static_cast<size_t>(host.rank()) * numbers, data, numbers * sizeof(float));
  host.gather(nullptr, reinterpret_cast<std::byte*>(all.data()), offsets);
  for (size_t i = 0; i < numbers; ++i) {
    float sum = all[i];
    for (size_t r = 1; r < ranks; ++r) sum += all[r * numbers + i];
    data[i] = sum;
  }
}

// What every rank says, on all ranks. `host` gathers in the host's memory.
inline std::vector<std::string> said_by_all(Ranks& host, const std::string& own) {
  const auto count = static_cast<size_t>(host.count()), rank = static_cast<size_t>(host.rank());
  std::vector<int64_t> sizes(count), offsets(count + 1);
  sizes[rank] = static_cast<int64_t>(own.size());
  for (size_t r = 0; r <= count; ++r) offsets[r] = static_cast<int64_t>(r * sizeof(int64_t));
  host.gather(nullptr, reinterpret_cast<std::byte*>(sizes.data()), offsets);
  for (size_t r = 0; r < count; ++r) offsets[r + 1] = offsets[r] + sizes[r];
  std::string all(static_cast<size_t>(offsets[count]), '\0');
  std::memcpy(all.data() + offsets[rank], own.data(), own.size());
  host.gather(nullptr, reinterpret_cast<std::byte*>(all.data()), offsets);
  std::vector<std::string> said;
  for (size_t r = 0; r < count; ++r)
    said.push_back(all.substr(static_cast<size_t>(offsets[r]), static_cast<size_t>(sizes[r])));
  return said;
}

}  // namespace ecmv::backends
