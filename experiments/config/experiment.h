// From YAML to the flat list of cases. A config is a list of blocks, each a product of axes (see
// experiments/README.md); everything unknown, doubled or out of range is an error, and all errors come at once.
#pragma once

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
};

// `file` names the config in messages. Of a text that was made from flags, the flag of each line ("" for none) stands
// there instead of places that nobody can look at. Throws ConfigError.
Experiment parse_experiment(const std::string& text, const std::string& file, const ConfigEdits& edits,
                            std::span<const codecs::CodecEntry> codecs, const std::vector<std::string>& flags = {});
// A file, or the name of a config that comes along (known_configs.h).
Experiment load_experiment(const std::string& config, const ConfigEdits& edits,
                           std::span<const codecs::CodecEntry> codecs);

// Keeps cases whose name or short name matches `filter` (all if empty) and whose short name does not match `exclude`
// (none if empty): what a case has by default, which only its name says, would drop cases that nobody meant. ECMAScript
// regexes. Returns "", or where none is left a sentence that shows a name.
std::string filter_cases(Experiment& experiment, const std::string& filter, const std::string& exclude);

// One sample of one pass for every case: no estimate, no warm-up, no repetition.
void measure_once(Experiment& experiment);

// Every case once and small: 512 x 512 elements, 2 layers, of models a block of 512 rows; one sample of one pass.
void shrink_to_smoke(Experiment& experiment);

}  // namespace ecmv::experiments
