// The matrices and the stored streams of cases as safetensors files, so that others can check the stored bytes. Drawn
// in README.md.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

#include "experiments/config/case.h"

namespace ecmv::experiments {

struct ExportOptions {
  std::filesystem::path folder;
  bool replace = false;  // files that are there already; otherwise they are an error
  std::function<bool()> interrupted = [] { return false; };
};

struct ExportSummary {
  int written = 0, refused = 0, incorrect = 0, failed = 0;  // streams, one for each dataset and codec with its settings
  bool interrupted = false;
};

// Encodes every dataset with every codec that the cases name, once each whatever kernels they name, checks the
// reference decode as a run does, and writes the streams that are right. A line for each file goes to `out`, refusals
// and failures to `messages`. Throws std::runtime_error with a sentence where a file cannot be written.
ExportSummary export_cases(const Experiment& experiment, const ExportOptions& options, std::ostream& out,
                           std::ostream& messages);

}  // namespace ecmv::experiments
