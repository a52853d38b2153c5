// How much memory this process may still get: what the system has left is more than what its control groups or its own
// limits allow, and who takes more is ended without a word.
#pragma once

#include <cstdint>
#include <filesystem>

namespace ecmv::backends::cpu {

// The least of: memory that the system could give out now without swapping, what is left below the limit of each
// control group (v1 and v2) that the process is in, and what is left of its address space. 0: unknown. `root` holds
// /proc and /sys.
int64_t available_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace ecmv::backends::cpu
