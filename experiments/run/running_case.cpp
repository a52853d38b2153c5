// See running_case.h.
#include "experiments/run/running_case.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <mutex>
#include <span>
#include <vector>

namespace ecmv::experiments {
namespace {

using Clock = std::chrono::steady_clock;

std::mutex mutex;
Journal::Entry running;
Clock::time_point since;
int journal = -1;

// For the signal handler, which must not wait: text and its end.
std::array<char, 600> shown_name;
std::array<char, 400> shown_advice;
std::atomic<int> crash_exit_code = 1;
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
struct sigaction earlier[std::size(kSignals)];  // a loaded codec's action tells which function it was

void show(std::span<char> place, std::string_view text) {
  const size_t length = std::min(text.size(), place.size() - 1);
  std::copy_n(text.data(), length, place.data());  // an empty text may have no data
  place[length] = '\0';
}

void say(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

void on_crash(int signal) {
  // Threads of a team fail together. The first one reports; with the default action the second would end the process.
  static std::atomic<bool> speaking = false;
  if (speaking.exchange(true))
    while (true) ::pause();
  say("ecmv: ");
  say(shown_name[0] != '\0' ? shown_name.data() : "outside of any kernel");
  say(signal == SIGILL   ? ": illegal instruction.\n"
      : signal == SIGFPE ? ": division by zero or overflow.\n"
                         : ": invalid memory access.\n");
  for (size_t i = 0; i < std::size(kSignals); ++i)
    if (kSignals[i] == signal && earlier[i].sa_handler != SIG_DFL && earlier[i].sa_handler != SIG_IGN)
      earlier[i].sa_handler(signal);
  say(shown_advice.data());
  ::_exit(crash_exit_code);
}

std::filesystem::path journal_path(std::filesystem::path records) { return records += ".running"; }

}  // namespace

void set_running_case(std::string_view key, std::string_view name) {
  const std::scoped_lock lock(mutex);
  since = Clock::now();
  if (running.key == key) return;
  running = {std::string(key), std::string(name)};
  show(shown_name, name);
  if (journal < 0) return;
  const std::string text = running.key.empty() ? "" : running.key + "\n" + running.name + "\n";
  // One write, then the cut: a process that dies between them leaves a tail that nobody reads.
  if (::pwrite(journal, text.data(), text.size(), 0) < 0 || ::ftruncate(journal, static_cast<off_t>(text.size())) < 0)
    return;
}

void catch_crashes(std::string_view advice, int exit_code) {
  show(shown_advice, advice);
  crash_exit_code = exit_code;
  // A separate stack, in case the fault is that the usual one is exhausted.
  static std::vector<char> stack(1 << 16);
  const stack_t alternative{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK;
#if !defined(__SANITIZE_ADDRESS__)  // which says more
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &earlier[i]);
#endif
}

Journal::Journal(const std::filesystem::path& records) : path_(journal_path(records)) {
  const std::scoped_lock lock(mutex);
  journal = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);  // the run works without it, too
}

Journal::~Journal() {
  const std::scoped_lock lock(mutex);
  if (journal >= 0) ::close(journal);
  journal = -1;
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::optional<Journal::Entry> Journal::left_behind(const std::filesystem::path& records) {
  std::ifstream file(journal_path(records));
  Entry entry;
  if (!std::getline(file, entry.key) || !std::getline(file, entry.name) || entry.key.empty()) return std::nullopt;
  return entry;
}

Watchdog::Watchdog(std::chrono::seconds limit, std::function<void(const Journal::Entry&)> on_hang)
    : thread_([limit, on_hang = std::move(on_hang)](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          Journal::Entry hanging;
          {
            const std::scoped_lock lock(mutex);
            if (running.key.empty() || Clock::now() - since < limit) continue;
            hanging = running;
          }
          on_hang(hanging);
          return;
        }
      }) {}

}  // namespace ecmv::experiments
