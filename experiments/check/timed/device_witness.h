// The question of stored_bytes.h for kernels of GPUs. A kernel that meets damaged streams may end all that its process
// does on a device. So another process asks, which was forked before this one saw a device: a driver works in no
// process that was forked later.
#pragma once

#include <set>
#include <string>

#include "experiments/check/outcome.h"
#include "experiments/config/case.h"
#include "experiments/ranks/message_pipe.h"

namespace ecmv::experiments {

class DeviceWitness {
 public:
  // Forks the process where there is a backend of GPUs, or `always`.
  explicit DeviceWitness(bool always = false);
  ~DeviceWitness();
  DeviceWitness(const DeviceWitness&) = delete;
  // The one of the command, or null.
  static DeviceWitness* current();

  // Whether a kernel gives other results for inverted payload, or the same ones. `none`: it could not be run there, or
  // ended the process.
  enum class Answer { other, same, none };
  // The kernel is bound anew to this layer, on the device with this number.
  Answer answer(const KernelSpec& kernel, const backends::CompressedMatrix& layer, const backends::DeviceInfo& device);
  // Asks about the kernel once for each codec and way to run it, and fails it if the results are the same.
  Outcome ask(const KernelSpec& kernel, const backends::CompressedMatrix& layer, const backends::DeviceInfo& device);

 private:
  Answer send(const nlohmann::json& question);
  MessagePipe pipe_;
  std::set<std::string> asked_;
};

}  // namespace ecmv::experiments
