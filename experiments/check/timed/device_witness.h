// Another process runs kernels of GPUs where they may end all that their process does on a device: when they meet
// damaged streams (the question of stored_bytes.h), and when they come from a loaded library and run for the first time
// (trial.h). It was forked before this one saw a device: a driver works in no process that was forked later.
#pragma once

#include <map>
#include <set>
#include <string>

#include "experiments/check/outcome.h"
#include "experiments/config/case.h"
#include "experiments/ranks/message_pipe.h"

namespace ecmv::experiments {

class DeviceWitness {
 public:
  // Forks the process where there is a backend of GPUs, or `always`. With `asks` off it is there for trials alone.
  explicit DeviceWitness(bool always = false, bool asks = true);
  ~DeviceWitness();
  DeviceWitness(const DeviceWitness&) = delete;
  // The one of the command, or null.
  static DeviceWitness* current();

  // Whether a kernel gives other results for inverted payload, or the same ones. `none`: it could not be run there, or
  // ended the process.
  enum class Answer { other, same, none };
  // The kernel is bound anew to this layer, on the device with this number.
  Answer answer(const KernelSpec& kernel, const backends::CompressedMatrix& layer, const backends::DeviceInfo& device);
  // Runs the kernel once. An outcome that is not fine: it said that it failed, left an error on the device, ended the
  // process, or did not return within these seconds. The same trial is made once, and none of a kernel that hung.
  Outcome try_out(const KernelSpec& kernel, const backends::CompressedMatrix& layer, const backends::DeviceInfo& device,
                  double seconds);
  // Asks about the kernel once for each codec and way to run it, and fails it if the results are the same.
  Outcome ask(const KernelSpec& kernel, const backends::CompressedMatrix& layer, const backends::DeviceInfo& device);

 private:
  nlohmann::json send(const nlohmann::json& question, double seconds);
  MessagePipe pipe_;
  bool asks_;
  std::set<std::string> asked_;
  std::map<std::string, Outcome> tried_;
};

}  // namespace ecmv::experiments
