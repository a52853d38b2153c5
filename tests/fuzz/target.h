// A fuzz target: a test of an input, and the inputs to start from. Every target is linked twice: with libFuzzer, which
// searches (libfuzzer.cpp, `make fuzz`), and with a driver for all compilers, which repeats the findings (replay.cpp,
// ctest).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <span>
#include <string>
#include <vector>

namespace ecmv::tests::fuzz {

using Bytes = std::vector<uint8_t>;

std::vector<Bytes> seeds();

// Returns for all bytes. It catches the errors expected of damaged input; any other exception ends the process, as a
// sanitizer does, and so does broken().
void try_input(std::span<const uint8_t> input);

// A claim that an input has disproved.
[[noreturn]] inline void broken(const std::string& claim) {
  std::cerr << "BROKEN: " << claim << "\n";
  std::abort();
}

}  // namespace ecmv::tests::fuzz
