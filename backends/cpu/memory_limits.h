// How much memory this process may still get. Its control groups and its own limits often allow less than the system
// has left, and the system kills a process that takes more without a word.
#pragma once

#include <cstdint>
#include <filesystem>

namespace ecmv::backends::cpu {

// The least of the memory that the system could give out now without swapping, the memory left below the limit of each
// control group (v1 and v2) of the process, and the rest of its address space. 0: unknown. `root` holds /proc and /sys.
int64_t available_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace ecmv::backends::cpu
