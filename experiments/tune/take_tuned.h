// Cases with open settings take what a file of `ecmv tune` has for them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codecs/registry.h"
#include "experiments/config/case.h"
#include "experiments/tune/tuned_file.h"

namespace ecmv::experiments {

// The model of the device that runs this kernel; "" if there is none.
std::string device_model(const KernelSpec& kernel);

// The pass of this kernel, as keys name it.
struct TunedPass {
  std::string op, activations;
};
TunedPass tuned_pass(const KernelSpec& kernel);

// Fills in CodecSpec::tuned. Data with a shape get the entries of that shape, files those of all. Remarks tell of each
// device for which the file has nothing. Throws ConfigError.
void take_tuned(std::vector<Case>& cases, const std::string& file, std::span<const codecs::CodecEntry> codecs,
                std::vector<std::string>& remarks);

}  // namespace ecmv::experiments
