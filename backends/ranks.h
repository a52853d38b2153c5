// Ranks: several processes, each with a device of its own, that share a product by the rows or the columns of its
// matrices. Each has its part of every layer. They exchange vectors through this interface. Its engines are MPI or
// sockets between CPUs (world.h), and NCCL, RCCL or memory that devices map from each other between GPUs
// (gpu/host/device_ranks.h). Passes hold it in steps and know nothing else of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace ecmv::backends {

// How ranks divide a layer, and what they exchange after it.
enum class Split : uint8_t {
  rows_gathered,  // each has its rows; the results are gathered on all
  rows_kept,      // matmul: each has its rows and keeps its results, for a layer by columns
  cols            // matmul: each has its columns and those numbers of the tokens; the ranks' sums are added up on all
};

struct LayerSplit {
  Split how = Split::rows_gathered;
  std::vector<int64_t> begins = {};  // rows, or columns, at which the ranks' parts begin, [ranks + 1]
  int ranks() const { return static_cast<int>(begins.size()) - 1; }
};

// A device that several ranks share, as the record describes it.
struct SharedDevice {
  int ranks = 1;
  bool bound = true;                      // every thread has a core to itself
  std::vector<std::string> devices = {};  // GPUs: their names by rank, with the host's where there are several
  std::string links = {};                 // the links between the GPUs, each kind once
  std::string library = {};               // exchanges the vectors: name and version; known after prepare()
};

class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;  // of this process, 0 <= rank < count
  virtual int count() const = 0;
  virtual std::string library() const = 0;  // that exchanges: name and version
  // Gathers `data`, memory of the backend: rank r has [offsets[r], offsets[r + 1]), and afterwards all ranks have all
  // of it. On a GPU this is put on the stream. Engines of the host are done when it returns, and `stream` is null.
  virtual void gather(void* stream, std::byte* data, std::span<const int64_t> offsets) = 0;
  // Adds up data[0, count) over all ranks: afterwards each has the same sums there, bit for bit. An element takes
  // count() - 1 additions of float32, in any order. Stream and memory as above.
  virtual void reduce(void* stream, float* data, int64_t count) = 0;
  // Waits for all ranks: work after it on the stream (GPUs), or after it returns, begins when all are here.
  virtual void meet(void* stream) = 0;
};

// Where the rows of a rank begin: contiguous runs whose lengths differ by one at most. [count + 1] offsets.
inline int64_t first_row_of_rank(int64_t rows, int rank, int count) { return rows * rank / count; }

// Ranks::reduce for engines of the host without a better way: gathers all, and adds in the order of ranks.
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

// Gathers the text of every rank on all ranks. `host` gathers in the host's memory.
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
