// Settings from the file of `ecmv tune`.
#pragma once

#include <string>

#include "backends/kernel.h"
#include "codecs/registry.h"

namespace ecmv::library {

// What the settings are wanted for; `op` as in the file: "matvec".
struct TunedRequest {
  std::string backend, device, op;
  std::string type;
  datasets::Shape shape;
};

// "tile_cols=640,symbol_cols=8": found for these settings, or these themselves where the file has none. Throws Failure.
std::string tuned_settings(const std::string& file, const TunedRequest& request, const codecs::CodecEntry& entry,
                           const backends::Settings& asked);

}  // namespace ecmv::library
