// Remembers the running case for those who must name it after an abnormal end: a signal handler, a watchdog, and the
// run that resumes this one.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace ecmv::experiments {

// Cheap if nothing changes. "" means that nothing runs. One thread at a time.
void set_running_case(std::string_view key, std::string_view name);

// When a kernel touches foreign memory or executes an illegal instruction, prints the running case and `advice` and
// ends the process with `exit_code`. Other signals keep their actions.
void catch_crashes(std::string_view advice, int exit_code);

// Keeps the running case in a file beside the records, so that a run that dies leaves its name. stop() removes it.
class Journal {
 public:
  struct Entry {
    std::string key, name;
  };
  explicit Journal(const std::filesystem::path& records);
  ~Journal();
  Journal(const Journal&) = delete;
  // The case in which an earlier run of these records died; nullopt if it ended normally.
  static std::optional<Entry> left_behind(const std::filesystem::path& records);

 private:
  std::filesystem::path path_;
};

// Calls `on_hang` once, from a thread of its own, if the running case has not been set again for `limit`.
class Watchdog {
 public:
  Watchdog(std::chrono::seconds limit, std::function<void(const Journal::Entry&)> on_hang);

 private:
  std::jthread thread_;
};

}  // namespace ecmv::experiments
