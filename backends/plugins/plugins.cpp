// See plugins.h.
#include "backends/plugins/plugins.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/plugins/own_file.h"
#include "backends/plugins/shared_object.h"

namespace ecmv::backends {
namespace {

struct Known {
  std::string_view id, summary;
};
constexpr Known kKnown[] = {
    {"cuda", "NVIDIA GPUs through CUDA"},
    {"hip", "AMD GPUs through HIP (or NVIDIA's, by a build option)"},
    {"emulator", "the GPU kernels on the host, lane by lane: verified, never timed"},
};
constexpr size_t kCount = std::size(kKnown);

struct Loaded {
  const Plugin* plugin = nullptr;
  std::string reason;  // why there is none
};

namespace fs = std::filesystem;

// The only folder with plugins, if the variable names one.
std::string asked_folder() {
  const char* folder = std::getenv("ECMV_PLUGIN_DIR");
  return folder == nullptr ? "" : folder;
}

// See plugins.h.
std::vector<fs::path> plugin_folders() {
  if (!asked_folder().empty()) return {asked_folder()};
  if (own_file().empty()) return {};
  const fs::path own = own_file().parent_path();
  return {own, own / "ecmv", own / ECMV_PLUGINS_FROM_PROGRAM};
}

// Empty if there is none.
fs::path find_plugin(const std::string& name) {
  std::error_code error;
  for (const fs::path& folder : plugin_folders())
    if (fs::exists(folder / name, error)) return folder / name;
  return {};
}

Loaded load(std::string_view id) {
  std::string reason;
  void* handle = open_plugin(id, "the backend '" + std::string(id) + "'", reason);
  if (handle == nullptr) return {nullptr, reason};
  using Entry = const Plugin* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, "ecmv_backend_plugin"));
  if (entry == nullptr) return {nullptr, "The file libecmv_" + std::string(id) + ".so is no plugin of this project."};
  const Plugin* plugin = entry();
  if (plugin->version != kPluginVersion)
    return {nullptr, "The plugin has version " + std::to_string(plugin->version) + ", this program needs " +
                         std::to_string(kPluginVersion) + "."};
  if (plugin->compiler != kPluginCompiler)
    return {nullptr, "The plugin was built by the compiler " + std::string(plugin->compiler) + ", this program by " +
                         std::string(kPluginCompiler) + "."};
  if (plugin->backend.id != id)
    return {nullptr, "The file libecmv_" + std::string(id) + ".so is the plugin of the backend '" +
                         std::string(plugin->backend.id) + "'."};
  return {plugin, ""};
}

const Loaded& loaded(size_t index) {
  static const std::vector<Loaded> all = [] {
    std::vector<Loaded> list;
    for (const Known& known : kKnown) list.push_back(load(known.id));
    return list;
  }();
  return all[index];
}

template <size_t kIndex>
std::vector<DeviceInfo> devices() {
  if (const Plugin* plugin = loaded(kIndex).plugin) return plugin->backend.devices();
  DeviceInfo none;
  none.backend = kKnown[kIndex].id;
  none.unavailable = loaded(kIndex).reason;
  return {none};
}

template <size_t kIndex>
std::unique_ptr<Device> open(const DeviceRequest& request) {
  if (const Plugin* plugin = loaded(kIndex).plugin) return plugin->backend.open(request);
  throw std::invalid_argument(loaded(kIndex).reason);
}

template <size_t... kIndex>
std::vector<Backend> entries(std::index_sequence<kIndex...>) {
  return {{kKnown[kIndex].id, kKnown[kIndex].summary, devices<kIndex>, open<kIndex>}...};
}

}  // namespace

void* open_plugin(std::string_view id, const std::string& what, std::string& reason) {
  const std::string name = "libecmv_" + std::string(id) + ".so";
  const fs::path path = find_plugin(name);
  if (path.empty()) {
    reason = "This build has no plugin for " + what + " (" + name +
             (asked_folder().empty() ? " is neither beside the program nor where it would be installed)."
                                     : " is not in " + asked_folder() + ", the folder in ECMV_PLUGIN_DIR).");
    return nullptr;
  }
  if (const std::string broken = why_not_loadable(path); !broken.empty()) {
    reason = "The plugin does not load: the file " + path.string() + " " + broken;
    return nullptr;
  }
  if (const std::string crash = why_it_crashes(path); !crash.empty()) {
    reason = "The plugin does not load: the file " + path.string() + " " + crash;
    return nullptr;
  }
  // Never closed: kernels, devices and exceptions of the plugin live until the program ends.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) reason = "The plugin does not load: " + std::string(dlerror()) + ".";
  return handle;
}

bool has_plugin(std::string_view id) { return !find_plugin("libecmv_" + std::string(id) + ".so").empty(); }

std::span<const Backend> plugin_backends() {
  static const std::vector<Backend> backends = entries(std::make_index_sequence<kCount>());
  return backends;
}

std::span<const Kernel> plugin_kernels(std::string_view backend, std::string_view codec) {
  for (size_t i = 0; i < kCount; ++i) {
    if (kKnown[i].id != backend || loaded(i).plugin == nullptr) continue;
    for (const CodecKernels& entry : loaded(i).plugin->codecs)
      if (entry.codec == codec) return entry.kernels;
  }
  return {};
}

}  // namespace ecmv::backends
