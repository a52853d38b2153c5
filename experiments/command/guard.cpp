// See guard.h.
#include "experiments/command/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "experiments/command/command.h"

namespace ecmv::experiments {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kLoaded = 'L', kEnd = 'E';  // the child's messages; the exit code follows the second one

// A launcher may send a signal to the process and to its group: what comes this soon is the same one.
constexpr std::chrono::milliseconds kSameSignal{20};
constexpr std::chrono::seconds kGrace{2};

class Guard {
 public:
  Guard(pid_t child, int pipe, int unfinished, int load_seconds)
      : child_(child), pipe_(pipe), unfinished_(unfinished), load_seconds_(load_seconds) {
    kill_at_ = Clock::now() + std::chrono::seconds(load_seconds);
  }

  int watch(const sigset_t& signals) {
    int status = 0;
    while (true) {
      siginfo_t info{};
      const timespec soon{0, 100'000'000};
      const int signal = sigtimedwait(&signals, &info, &soon);
      if (signal > 0 && signal != SIGCHLD) pass_on(signal);
      read_messages();
      if (kill_at_ && Clock::now() > *kill_at_) ::kill(-child_, SIGKILL);
      const pid_t ended = waitpid(child_, &status, WNOHANG);
      if (ended == child_ || (ended < 0 && errno == ECHILD)) break;
    }
    ::kill(-child_, SIGKILL);  // what it left behind
    read_messages();
    return code_of(status);
  }

 private:
  void pass_on(int signal) {
    if (signal == SIGTSTP) {
      ::kill(-child_, SIGSTOP);
      raise(SIGSTOP);
      ::kill(-child_, SIGCONT);
      return;
    }
    if (last_signal_ && Clock::now() - *last_signal_ < kSameSignal) return;
    last_signal_ = Clock::now();
    ::kill(child_, signal);
    if (++asked_ == 2) kill_at_ = Clock::now() + kGrace;
  }

  void read_messages() {
    char message = 0;
    while (::read(pipe_, &message, 1) == 1) {
      if (message == kLoaded && asked_ < 2) kill_at_.reset();
      loaded_ = loaded_ || message == kLoaded;
      unsigned char code = 0;
      if (message == kEnd && ::read(pipe_, &code, 1) == 1) end_ = code;
    }
  }

  int code_of(int status) const {
    const bool exited = WIFEXITED(status);
    if (end_ && (*end_ != kFine || exited)) return *end_ != kFine ? *end_ : WEXITSTATUS(status);
    if (asked_ >= 2) return kInterrupted;
    if (exited && WEXITSTATUS(status) != 0 && loaded_) return WEXITSTATUS(status);  // it has said why
    const std::string how = exited ? fmt::format("with exit status {}", WEXITSTATUS(status))
                                   : fmt::format("by the signal {}", strsignal(WTERMSIG(status)));
    const bool hung = !loaded_ && !exited && kill_at_ && Clock::now() > *kill_at_;
    if (hung)
      std::cerr << fmt::format("ecmv: A codec library did not load within {} s.\n", load_seconds_);
    else if (!loaded_)
      std::cerr << fmt::format("ecmv: A codec library ended the process {} while it was loaded.\n", how);
    else
      std::cerr << fmt::format("ecmv: The process ended {} before the command did: the code of a codec library ended "
                               "it. What it had not recorded is not measured or verified.\n",
                               how);
    return loaded_ ? unfinished_ : static_cast<int>(kUsage);
  }

  pid_t child_;
  int pipe_, unfinished_, load_seconds_;
  bool loaded_ = false;
  int asked_ = 0;  // to end
  std::optional<int> end_;
  std::optional<Clock::time_point> kill_at_, last_signal_;
};

void send(int pipe, const char* message, size_t bytes) {
  [[maybe_unused]] const ssize_t written = ::write(pipe, message, bytes);
}

}  // namespace

int run_guarded(const std::function<int(const std::function<void()>& loaded)>& work, int unfinished,
                int load_seconds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return work([] {});
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCHLD}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, &before);
  std::cout.flush();
  const pid_t guard = getpid(), child = fork();
  if (child < 0) {  // no process to spare: unguarded
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return work([] {});
  }
  if (child > 0) {
    setpgid(child, child);
    ::close(ends[1]);
    const int code = Guard(child, ends[0], unfinished, load_seconds).watch(signals);
    ::close(ends[0]);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return code;
  }
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != guard) ::_exit(kInternal);
  ::close(ends[0]);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  const int code = work([&] { send(ends[1], &kLoaded, 1); });
  std::cout.flush();
  const char end[] = {kEnd, static_cast<char>(code)};
  send(ends[1], end, sizeof(end));
  return code;
}

}  // namespace ecmv::experiments
