// See world.h.
#include "backends/world.h"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

#include "backends/plugins/plugins.h"

namespace ecmv::backends {

std::unique_ptr<World> join_world() {
  std::string reason;
  void* handle = open_plugin("mpi", "MPI", reason);
  if (handle == nullptr) throw WorldError(reason);
  using Entry = const WorldPlugin* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, "ecmv_world_plugin"));
  if (entry == nullptr) throw WorldError("The file libecmv_mpi.so is no plugin of this project.");
  const WorldPlugin* plugin = entry();
  if (plugin->version != kWorldVersion || plugin->compiler != kPluginCompiler)
    throw WorldError("The plugin libecmv_mpi.so is not of this build.");
  try {
    return plugin->join();
  } catch (const std::runtime_error& e) {
    throw WorldError(e.what());
  }
}

int launched_ranks() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"})
    if (const char* text = std::getenv(name); text != nullptr && std::atoi(text) > 0) return std::atoi(text);
  return 1;
}

}  // namespace ecmv::backends
