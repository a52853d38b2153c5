// Signs of life between rank 0 and the others: a thread of each process sends one a second, looks for those of the
// other side, and says so when they end. It is the only one that sees a rank die while everybody else waits for it, on
// the host or on a device.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backends/sockets/sockets.h"

namespace ecmv::backends::sockets {

class Life {
 public:
  // [ranks], empty where there is nobody to look for. `lost(rank, silent)` comes from the thread: the other end is
  // closed without a farewell, or nothing has come from it for kSilence seconds.
  Life(std::vector<Socket> ends, std::function<void(int rank, bool silent)> lost);
  Life(const Life&) = delete;
  ~Life();
  // From now on nobody is missed, and the other ends do not miss this one, which without it is lost.
  void farewell();

  static constexpr int kSilence = 15;

 private:
  void stop();
  void watch();
  void look(size_t rank);
  std::vector<Socket> ends_;
  std::vector<int> silent_;  // seconds in which nothing came
  std::function<void(int, bool)> lost_;
  std::pair<Socket, Socket> stop_;  // closed to end the thread
  std::thread thread_;
};

}  // namespace ecmv::backends::sockets
