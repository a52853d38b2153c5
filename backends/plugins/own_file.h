// Where this code lies: plugins and configs are looked up from there, so an installed tree may be moved.
#pragma once

#include <filesystem>

namespace ecmv::backends {

// The program or the shared library that contains this code, symbolic links followed. Empty if unknown.
const std::filesystem::path& own_file();

}  // namespace ecmv::backends
