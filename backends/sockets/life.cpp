// See life.h. Silence is counted in turns of the thread, not by a clock, so a run that is stopped and continued as a
// whole misses nothing.
#include "backends/sockets/life.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>

namespace ecmv::backends::sockets {
namespace {

constexpr char kAlive = 'a', kFarewell = 'f';

void say(const Socket& end, char word) {
  (void)::send(end.descriptor(), &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);  // others miss a peer that does not read
}

}  // namespace

Life::Life(std::vector<Socket> ends, std::function<void(int, bool)> lost)
    : ends_(std::move(ends)), silent_(ends_.size()), lost_(std::move(lost)), stop_(pair_of_sockets()) {
  thread_ = std::thread([this] { watch(); });
}

Life::~Life() { stop(); }

void Life::farewell() {
  stop();
  for (const Socket& end : ends_)
    if (end) say(end, kFarewell);
}

void Life::stop() {
  stop_.second.close();
  if (thread_.joinable()) thread_.join();
}

void Life::watch() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kTurn{1000};
  auto turn_ends = Clock::now() + kTurn;
  while (true) {
    std::vector<pollfd> looked_at = {{stop_.first.descriptor(), POLLIN, 0}};
    std::vector<size_t> ranks = {0};
    for (size_t rank = 0; rank < ends_.size(); ++rank)
      if (ends_[rank]) {
        looked_at.push_back({ends_[rank].descriptor(), POLLIN, 0});
        ranks.push_back(rank);
      }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(turn_ends - Clock::now()).count();
    const int found = ::poll(looked_at.data(), looked_at.size(), left > 0 ? static_cast<int>(left) : 0);
    if (found > 0 && looked_at[0].revents != 0) return;
    for (size_t i = 1; found > 0 && i < ranks.size(); ++i)
      if (looked_at[i].revents != 0) look(ranks[i]);
    if (Clock::now() < turn_ends) continue;
    turn_ends = Clock::now() + kTurn;
    for (size_t rank = 0; rank < ends_.size(); ++rank) {
      if (!ends_[rank]) continue;
      say(ends_[rank], kAlive);
      if (++silent_[rank] > kSilence) lost_(static_cast<int>(rank), true);
    }
  }
}

void Life::look(size_t rank) {
  char words[64];
  const ssize_t count = ::recv(ends_[rank].descriptor(), words, sizeof(words), MSG_DONTWAIT);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  silent_[rank] = 0;
  for (ssize_t i = 0; i < count; ++i)
    if (words[i] == kFarewell) return ends_[rank].close();
  if (count > 0) return;
  ends_[rank].close();
  lost_(static_cast<int>(rank), false);
}

}  // namespace ecmv::backends::sockets
