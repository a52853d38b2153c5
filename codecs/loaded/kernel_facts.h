// What is checked of every kernel of a library, on CPUs and GPUs: its sentences, and the facts that bind() states.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "codecs/loaded/tables.h"
#include "codecs/loaded/text.h"

namespace ecmv::codecs::loaded {

// A kernel by its name, which begins every sentence about it.
struct NamedKernel {
  const CodecTables& tables;
  const char* variant;

  std::string text() const {
    return "The kernel '" + std::string(variant) + "' of the codec '" + std::string(tables.codec.id) + "'";
  }
  // Throws the sentence that a function returned.
  void check(const char* returned) const {
    if (returned != nullptr) throw std::runtime_error(text() + ": " + sentence(returned));
  }
  void require(bool holds, const std::string& rest) const {
    if (!holds) throw std::runtime_error(text() + " " + rest);
  }
  void check_scratch(int64_t bytes, int64_t most) const {
    require(bytes >= 0 && bytes <= most, "asks for " + std::to_string(bytes) + " bytes of scratch.");
  }
  void check_requantises(uint32_t requantises, bool is_matvec) const {
    require(requantises <= 1, "sets 'requantises' to " + std::to_string(requantises) + "; 0 or 1 is possible.");
    require(requantises == 0 || is_matvec, "requantises, but is no matvec.");
  }
  struct Rounding {
    uint32_t more_roundings;
    double offset, narrowing;
  };
  void check_rounding(const Rounding& rounding) const {
    require(rounding.more_roundings <= 1'000'000 && rounding.offset >= 0 && rounding.narrowing >= 0 &&
                std::isfinite(rounding.offset + rounding.narrowing),
            "says of its rounding what cannot be.");
  }
};

}  // namespace ecmv::codecs::loaded
