// The experiment of `ecmv advise`: a sample of weights that is measured in less than two minutes.
#pragma once

#include <string>
#include <vector>

#include "datasets/layers/weight_layers.h"
#include "experiments/config/case.h"

namespace ecmv::experiments {

struct SampleRequest {
  std::string path;  // of the weights, or the name of a shape
  std::string backend = "best";
  std::string device = {}, threads = {};  // "": the first, all
  std::string batch = "1";
  std::string elements = {};                 // "": weights of all types
  std::string activations = {};              // the tokens' type: f32, bf16; "": f32
  std::vector<std::string> codecs = {};      // as --codec; empty: those with kernels built for speed
  std::string tuned = {};                    // a file of `ecmv tune`; its codecs are sampled, too
  std::vector<std::string> quantisers = {};  // as --quantise, besides the unquantised weights
};

// An experiment with decoding steps of the first block and of the layers outside of blocks. The block stands in memory
// until caches do not hold it, but at most as often as the model has blocks. Large matrices are cut to their first
// rows. Floats of more than 16 bits are rounded to bf16. Throws ConfigError.
Experiment sample_experiment(const SampleRequest& request, const datasets::WeightLayers& weights);

// The type of the measured elements: "bf16", "i8"; "" for blocks, packed codes and types that are not read.
std::string measured_type(const std::string& dtype);

}  // namespace ecmv::experiments
