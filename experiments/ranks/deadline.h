// Deadlines watched by a thread, for calls that wait for other processes and cannot be told to stop.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace ecmv::experiments {

class Deadline {
 public:
  // The thread calls `on_end` with the sentence of the deadline that has passed.
  explicit Deadline(std::function<void(const std::string&)> on_end);
  Deadline(const Deadline&) = delete;
  // Cheap. Replaces an earlier one.
  void set(std::chrono::duration<double> from_now, std::string sentence);
  void lift();

 private:
  using Clock = std::chrono::steady_clock;
  std::function<void(const std::string&)> on_end_;
  std::mutex mutex_;
  std::optional<Clock::time_point> end_;
  std::string sentence_;
  std::jthread thread_;  // looks twice a second
};

}  // namespace ecmv::experiments
