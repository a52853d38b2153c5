// Turns outlooks into advice for a user, in English.
#pragma once

#include <string>
#include <vector>

#include "experiments/advise/outlook.h"

namespace ecmv::experiments {

struct Advice {
  std::string verdict;             // what to do, with the numbers that support it
  std::vector<std::string> notes;  // other facts worth knowing
};

// `memory_bytes` is the device's, 0 if unknown. Speeds within kLevel of each other count as level.
inline constexpr double kLevel = 0.03;
Advice advice(const std::vector<Outlook>& outlooks, const std::string& type, double memory_bytes);

// For GGUF blocks, which no kernel here multiplies: the most that an ideal code could save.
Advice advice_for_blocks(double stored_bytes, double minimum_bytes);

// "16.1 GB", "85.3 MB".
std::string decimal_bytes(double bytes);

}  // namespace ecmv::experiments
