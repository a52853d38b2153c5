// An experiment from options instead of a file. The options are written as the equivalent YAML, which is then read like
// every config.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"

namespace CLI {
class App;
}

namespace ecmv::experiments {

// Texts as typed. Empty lists and texts are left out, so the config's own defaults hold.
struct AdHoc {
  std::vector<std::string> codecs;  // "rans:lanes=32,prob_bits=12"
  std::string source = "gaussian";
  std::vector<std::string> d, shapes, layers, seeds, sigma, entropy_bits;
  std::vector<std::string> parameters;                                   // NAME=VALUE of the source
  std::vector<std::string> quantisers;                                   // ID or ID:NAME=VALUE,...
  std::map<std::string, std::vector<std::string>, std::less<>> kernels;  // by the axis's key (config/axes.h)
  std::string repetitions, min_time;
  // Whether the user wants a run without a config.
  bool given() const { return !codecs.empty(); }
  // The first flag given, or "".
  std::function<std::string()> first_flag = [] { return std::string(); };
};

void add_ad_hoc(CLI::App& verb, AdHoc& options);

// Throws UsageError for an option that cannot be written as YAML ("--shape 12"), and ConfigError, which names flags.
Experiment ad_hoc_experiment(const AdHoc& options, const ConfigEdits& edits);

}  // namespace ecmv::experiments
