// Which case runs right now, for those who have to say it when something ends that must not: a handler of signals, a
// watchdog, and the run that resumes this one.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace ecmv::experiments {

// Cheap where nothing changes. "" once nothing runs. One thread at a time.
void set_running_case(std::string_view key, std::string_view name);

// Prints the running case and `advice` and ends the process with `exit_code` when a kernel touches memory that is not
// its own, or does what the CPU cannot. Other signals stay as they are.
void catch_crashes(std::string_view advice, int exit_code);

// Keeps the running case in a file beside the records, so that a run that dies leaves its name. Removed by stop().
class Journal {
 public:
  struct Entry {
    std::string key, name;
  };
  explicit Journal(const std::filesystem::path& records);
  ~Journal();
  Journal(const Journal&) = delete;
  // What an earlier run of these records died of; nullopt if it ended by itself.
  static std::optional<Entry> left_behind(const std::filesystem::path& records);

 private:
  std::filesystem::path path_;
};

// Calls `on_hang` from a thread of its own, once, when the running case has not been set again for `limit`.
class Watchdog {
 public:
  Watchdog(std::chrono::seconds limit, std::function<void(const Journal::Entry&)> on_hang);

 private:
  std::jthread thread_;
};

}  // namespace ecmv::experiments
