// Writes the matrices and the stored streams of cases as safetensors files, so that others can check the stored bytes.
// README.md draws them.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

#include "experiments/config/case.h"

namespace ecmv::experiments {

struct ExportOptions {
  std::filesystem::path folder;
  bool replace = false;  // existing files; otherwise they are an error
  std::function<bool()> interrupted = [] { return false; };
};

struct ExportSummary {
  int written = 0, refused = 0, incorrect = 0, failed = 0;  // streams, one for each dataset and codec with its settings
  bool interrupted = false;
};

// Encodes every dataset once with every codec that the cases name, whatever their kernels, checks the reference decode
// as a run does, and writes the correct streams. `out` gets a line for each file, `messages` refusals and failures.
// Throws std::runtime_error with a sentence if a file cannot be written.
ExportSummary export_cases(const Experiment& experiment, const ExportOptions& options, std::ostream& out,
                           std::ostream& messages);

}  // namespace ecmv::experiments
