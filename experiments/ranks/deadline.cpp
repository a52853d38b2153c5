// See deadline.h.
#include "experiments/ranks/deadline.h"

#include <condition_variable>
#include <utility>

namespace ecmv::experiments {

Deadline::Deadline(std::function<void(const std::string&)> on_end) : on_end_(std::move(on_end)) {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex asleep;
    std::condition_variable_any woken;
    std::unique_lock lock(asleep);
    while (!woken.wait_for(lock, stop, std::chrono::milliseconds(500), [&] { return stop.stop_requested(); })) {
      std::string sentence;
      {
        const std::lock_guard guard(mutex_);
        if (!end_ || Clock::now() < *end_) continue;
        end_.reset();
        sentence = std::move(sentence_);
      }
      on_end_(sentence);
    }
  });
}

void Deadline::set(std::chrono::duration<double> from_now, std::string sentence) {
  const std::lock_guard guard(mutex_);
  end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(from_now);
  sentence_ = std::move(sentence);
}

void Deadline::lift() {
  const std::lock_guard guard(mutex_);
  end_.reset();
}

}  // namespace ecmv::experiments
