// From YAML to the flat list of cases. A config is a list of blocks, each a product of axes (see
// experiments/README.md). Anything unknown, doubled or out of range is an error, and all errors are reported at once.
#pragma once

#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "codecs/registry.h"
#include "experiments/config/case.h"

namespace ecmv::experiments {

struct ConfigError : std::runtime_error {
  explicit ConfigError(std::vector<std::string> messages);
  std::vector<std::string> messages;
};

// Changes to a config before it is read.
struct ConfigEdits {
  std::vector<std::string> axes = {};    // "d=2048,4096": replaces that axis in every block
  std::vector<std::string> values = {};  // "measure.repetitions=3": sets one value by its path
  std::string tuned = {};                // a file of `ecmv tune` in place of the config's
};

// `file` names the config in messages. A text made from flags has no lines to look at, so messages show the flag of
// each line ("" for none) instead. Throws ConfigError.
// Files of data that lie below `folder` are found there.
Experiment parse_experiment(const std::string& text, const std::string& file, const ConfigEdits& edits,
                            std::span<const codecs::CodecEntry> codecs, const std::vector<std::string>& flags = {},
                            const std::filesystem::path& folder = {});
// Loads a file, or a config that comes with the program (known_configs.h).
Experiment load_experiment(const std::string& config, const ConfigEdits& edits,
                           std::span<const codecs::CodecEntry> codecs);

// Keeps cases that `filter` matches (all if empty) and `exclude` does not (none if empty). Either is a rule, as
// "codec=rans,lanes=16|32" (CaseRule; every key that some case has), or an ECMAScript regex: `filter` for names and
// short names, `exclude` for short names. The full name also says a case's defaults, so excluding by it would drop
// cases that nobody meant. Returns "", or, if no case is left, a sentence that shows a name. An `exclude` that matches
// nothing is a ConfigError.
std::string filter_cases(Experiment& experiment, const std::string& filter, const std::string& exclude);

// Each case once, and cases that share a dataset or a codec joined, in the order in which these are first named.
std::vector<Case> together(std::vector<Case> cases);

// Measures one sample of one pass for every case: no estimate, no warm-up, no repetition.
void measure_once(Experiment& experiment);

// Makes every case small, and runs it once: 512 x 512 elements, 2 layers, for models a block of 512 rows; one sample of
// one pass.
void shrink_to_smoke(Experiment& experiment);

}  // namespace ecmv::experiments
