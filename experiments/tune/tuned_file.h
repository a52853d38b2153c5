// The file of `ecmv tune`, as YAML that is JSON, too: then every program can read it. experiments/README.md describes
// it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codecs/registry.h"
#include "experiments/tune/tuned_entry.h"

namespace ecmv::experiments {

// Throws ConfigError. Entries of codecs that this build does not have, or has in another format, are not looked at.
std::vector<TunedEntry> read_tuned(const std::string& file, std::span<const codecs::CodecEntry> codecs);
std::string tuned_text(const std::vector<TunedEntry>& entries);

}  // namespace ecmv::experiments
