// GPU backends are shared objects, libecmv_ID.so, loaded at first use, so a program built with every toolkit starts on
// a machine with no driver at all. They come from the folder that the environment variable ECMV_PLUGIN_DIR names.
// Without it they come from the folder of the program or library with this code, from ecmv/ beside it (the installed
// libecmv.so), or from lib/ecmv of the program's tree. A plugin that is missing, does not load or was built otherwise
// becomes a backend whose only device is unavailable, with the reason.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "backends/backend.h"
#include "backends/kernel.h"

namespace ecmv::backends {

// Raised whenever a type of backend.h, executor.h, kernel.h, ranks.h or compressed_matrix.h changes.
inline constexpr uint32_t kPluginVersion = 15;
// Types cross the border unchanged, so both sides must come from one compiler.
inline constexpr std::string_view kPluginCompiler = __VERSION__;

struct CodecKernels {
  std::string_view codec;
  std::span<const Kernel> kernels;
};

// The result of a plugin's `extern "C" const ecmv::backends::Plugin* ecmv_backend_plugin()`.
struct Plugin {
  uint32_t version = kPluginVersion;
  std::string_view compiler = kPluginCompiler;
  Backend backend;
  std::span<const CodecKernels> codecs;
};

// The shared object libecmv_ID.so; null where it cannot be opened, with the reason as a sentence about `what`.
void* open_plugin(std::string_view id, const std::string& what, std::string& reason);

// Whether there is such a shared object, which may not load.
bool has_plugin(std::string_view id);

// One entry for each GPU backend that the project knows, loaded or not.
std::span<const Backend> plugin_backends();

// The kernels of a codec in the plugin of a backend; empty if there is no such plugin or it has none.
std::span<const Kernel> plugin_kernels(std::string_view backend, std::string_view codec);

}  // namespace ecmv::backends
