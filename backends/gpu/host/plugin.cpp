// The only entry point of a plugin. CMake generates the table from the folders codecs/*/gpu.cu.
#include "backends/plugins/plugins.h"

#include "backends/gpu/host/discovery.h"
#include "backends/gpu/host/gpu_device.h"

#include "gpu_codecs.inc"

extern "C" __attribute__((visibility("default"))) const ecmv::backends::Plugin* ecmv_backend_plugin() {
  using namespace ecmv::backends;
  static const std::vector<CodecKernels> codecs = gpu_codecs();
  static const Plugin plugin = {.backend = {ECMV_GPU_NAME, ECMV_GPU_NAME, gpu::discover, gpu::open_device},
                                .codecs = codecs};
  return &plugin;
}
