// Checks shared objects before they are loaded. The dynamic linker maps what their headers promise and ends the process
// with SIGBUS where the file is shorter, say because a build or a copy was interrupted.
#pragma once

#include <filesystem>
#include <string>

namespace ecmv::backends {

// Why this file cannot be a whole shared object for this machine, as the end of a sentence ("is cut short: ...."); ""
// if the file has everything that its headers promise.
std::string why_not_loadable(const std::filesystem::path& file);

// How loading it ends a process of its own that tries it, as the end of a sentence; "" if it does not. Headers may be
// right while what they point to is damaged.
std::string why_it_crashes(const std::filesystem::path& file);

}  // namespace ecmv::backends
