// Signs of life between rank 0 and the others. A thread of each process sends one a second, watches for the other
// side's, and reports when they end. Only this thread sees a rank die while everybody else waits for it, on the host or
// on a device.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backends/sockets/sockets.h"

namespace ecmv::backends::sockets {

class Life {
 public:
  // [ranks] ends, empty where there is nobody to watch. The thread calls `lost(rank, silent)` if the other end is
  // closed without a farewell, or if nothing has come from it for kSilence seconds.
  Life(std::vector<Socket> ends, std::function<void(int rank, bool silent)> lost);
  Life(const Life&) = delete;
  ~Life();
  // Stops watching the others, and stops them from watching this process, which they would otherwise report as lost.
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
