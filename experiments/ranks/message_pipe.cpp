// See message_pipe.h.
#include "experiments/ranks/message_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "experiments/ranks/messages.h"

namespace ecmv::experiments {
namespace {

template <typename Transfer>
bool all_of(std::byte* data, size_t bytes, const Transfer& transfer) {
  while (bytes > 0) {
    const ssize_t done = transfer(data, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

// Writing to a process that has ended is an error of this thread, and no signal.
class NoSignal {
 public:
  NoSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSignal() {
    const timespec now{};
    while (sigtimedwait(&pipe_, nullptr, &now) > 0) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_, before_;
};

}  // namespace

MessagePipe::MessagePipe(MessagePipe&& other) noexcept
    : to_(std::exchange(other.to_, -1)), from_(std::exchange(other.from_, -1)) {}

MessagePipe& MessagePipe::operator=(MessagePipe&& other) noexcept {
  std::swap(to_, other.to_);
  std::swap(from_, other.from_);
  return *this;
}

MessagePipe::~MessagePipe() {
  for (const int file : {to_, from_})
    if (file >= 0) close(file);
}

std::optional<std::pair<MessagePipe, MessagePipe>> MessagePipe::make() {
  int there[2], back[2];
  if (pipe2(there, O_CLOEXEC) != 0) return {};
  if (pipe2(back, O_CLOEXEC) != 0) {
    for (const int end : there) close(end);
    return {};
  }
  return std::pair(MessagePipe(there[1], back[0]), MessagePipe(back[1], there[0]));
}

void MessagePipe::keep_alone() const {
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, standard);
  std::vector<int> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error))
    files.push_back(std::atoi(entry.path().filename().c_str()));
  for (const int file : files)
    if (file > STDERR_FILENO && file != to_ && file != from_) close(file);
}

bool MessagePipe::send(const nlohmann::json& message) const {
  const NoSignal quiet;
  std::vector<std::byte> bytes = to_message(message);
  size_t size = bytes.size();
  const auto put = [&](std::byte* data, size_t count) { return ::write(to_, data, count); };
  return all_of(reinterpret_cast<std::byte*>(&size), sizeof(size), put) && all_of(bytes.data(), size, put);
}

MessagePipe::Received MessagePipe::receive(nlohmann::json& message, std::optional<double> seconds) const {
  pollfd ready{from_, POLLIN, 0};
  int polled = 1;
  while (seconds && (polled = poll(&ready, 1, static_cast<int>(1000 * std::min(*seconds, 1e6)))) < 0 && errno == EINTR)
    continue;
  if (polled == 0) return Received::nothing;
  size_t size = 0;
  const auto get = [&](std::byte* data, size_t count) { return ::read(from_, data, count); };
  if (!all_of(reinterpret_cast<std::byte*>(&size), sizeof(size), get)) return Received::end;
  std::vector<std::byte> bytes(size);
  if (!all_of(bytes.data(), size, get)) return Received::end;
  message = from_message(bytes);
  return Received::message;
}

}  // namespace ecmv::experiments
