// What the products of a context share: executors, memory while they run, and readers of the caller's sections.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backends/executor.h"
#include "experiments/library/handles.h"
#include "experiments/library/product/section_readers.h"

namespace ecmv::library {

// Memory that products use while they run: tokens and sums in the kernels' form, and scratch. Those with one workspace
// take turns.
class Workspace {
 public:
  // A device with its executor. The devices of one workspace use the same memory.
  struct Engine {
    explicit Engine(std::shared_ptr<backends::Device> of) : device(std::move(of)), executor(device->executor(false)) {}
    std::shared_ptr<backends::Device> device;
    std::unique_ptr<backends::Executor> executor;
  };
  struct Needs {
    int64_t tokens = 0, sums = 0, scratch = 0;  // bytes; scratch of every worker
    bool operator==(const Needs&) const = default;
    Needs with(const Needs& other) const {
      return {std::max(tokens, other.tokens), std::max(sums, other.sums), std::max(scratch, other.scratch)};
    }
  };
  // It stays where it is while a product or the workspace holds it, since graphs keep its addresses.
  struct Piece {
    Needs size;
    std::unique_ptr<backends::Buffer> tokens, sums;
    std::vector<std::unique_ptr<backends::Buffer>> scratch;
    std::vector<std::byte*> scratch_places;
    int64_t bytes() const;
  };

  explicit Workspace(Devices of);
  // A piece that is large enough: the last one, or a larger one.
  std::shared_ptr<Piece> piece_for(const Needs& needs);
  std::shared_ptr<Piece> make_piece(const Needs& size);
  int64_t bytes() const { return last_ == nullptr ? 0 : last_->bytes(); }
  // Waits for all work of the devices.
  void wait();
  // Whether this text comes for the first time.
  bool is_first(const std::string& text) { return known_.insert(text).second; }

  const Devices devices;
  std::deque<Engine> engines;
  SectionReaders readers;
  std::mutex mutex;  // the turn on a CPU

 private:
  std::shared_ptr<Piece> last_;
  std::set<std::string> known_;
};

// Throws Failure.
void expect_aligned(const std::byte* place, int64_t alignment, const std::string& what);

}  // namespace ecmv::library
