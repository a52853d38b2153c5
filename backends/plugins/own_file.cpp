// See own_file.h. The dynamic linker knows which file an address came from, but the program itself has an empty name
// there.
#include "backends/plugins/own_file.h"

#include <dlfcn.h>
#include <link.h>

#include <system_error>

namespace ecmv::backends {
namespace {

std::filesystem::path find_own_file() {
  Dl_info info = {};
  void* extra = nullptr;
  const bool found =
      dladdr1(reinterpret_cast<const void*>(&own_file), &info, &extra, RTLD_DL_LINKMAP) != 0 && extra != nullptr;
  const char* name = found ? static_cast<const link_map*>(extra)->l_name : nullptr;
  std::error_code error;
  std::filesystem::path file =
      std::filesystem::canonical(name == nullptr || *name == 0 ? "/proc/self/exe" : name, error);
  return error ? std::filesystem::path() : file;
}

}  // namespace

const std::filesystem::path& own_file() {
  static const std::filesystem::path file = find_own_file();
  return file;
}

}  // namespace ecmv::backends
