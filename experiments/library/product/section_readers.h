// Reads sections in the memory of a context piece by piece. A CPU's are read where they are.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/executor.h"
#include "experiments/library/handles.h"

namespace ecmv::library {

// Several threads may read at once, without the turn of products.
class SectionReaders {
 public:
  explicit SectionReaders(Devices devices) : devices_(std::move(devices)) {}

  // take(piece) for all pieces in their order; all but the last have a multiple of 32 bytes, for hashes.
  template <typename Take>
  void read(std::span<const std::byte> section, Take take) {
    if (!is_gpu(*devices_.front())) return take(section);
    Lease lease{this, lend()};
    for (size_t at = 0; at < section.size(); at += kPieceBytes)
      take(lease.reader->read(section.subspan(at, std::min(kPieceBytes, section.size() - at))));
  }

 private:
  // A thread does not copy beside its own work on a piece: other threads do. (11.3 GB in 129 matrices, H200, 16
  // threads: loading and binding took 3.4 s, loading 16.1 GB of uncompressed weights 2.5. No other size was tried.)
  static constexpr size_t kPieceBytes = size_t{4} << 20;

  // Host memory for one piece, and a stream of its own.
  class Reader {
   public:
    explicit Reader(backends::Device& device)
        : executor_(device.executor(false)), host_(executor_->allocate_host(int64_t{kPieceBytes})) {}
    std::span<const std::byte> read(std::span<const std::byte> piece) {
      const backends::Step step = backends::Download{piece.data(), host_, static_cast<int64_t>(piece.size())};
      executor_->run({&step, 1});
      return {host_, piece.size()};
    }

   private:
    std::unique_ptr<backends::Executor> executor_;
    std::byte* host_;
  };
  struct Lease {
    SectionReaders* owner;
    std::unique_ptr<Reader> reader;
    ~Lease() {
      const std::scoped_lock lock(owner->mutex_);
      owner->idle_.push_back(std::move(reader));
    }
  };

  std::unique_ptr<Reader> lend() {
    {
      const std::scoped_lock lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Reader> reader = std::move(idle_.back());
        idle_.pop_back();
        return reader;
      }
    }
    const auto lock = lock_gpu(devices_);
    return std::make_unique<Reader>(*devices_.front());
  }

  const Devices devices_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Reader>> idle_;
};

}  // namespace ecmv::library
