// A short run, for tests of the command.
#pragma once

#include <string>
#include <vector>

#include "codecs/registry.h"

namespace ecmv::tests {

// Builds of a few codecs may lack the one that small() runs.
inline bool lacks_baseline() { return codecs::find_codec("raw_int8") == nullptr; }

// The arguments of a run of one case, then `more`.
inline std::vector<std::string> small(const std::vector<std::string>& more) {
  std::vector<std::string> all = {"run", "--codec", "raw_int8", "--d",       "64",     "--layers",
                                  "2",   "--sigma", "4",        "--backend", "scalar", "--profile"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace ecmv::tests
