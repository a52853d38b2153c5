// The libraries that these tests load, and the switch that makes variants.c do something wrong.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <string>

#include "codecs/loaded/library.h"
#include "codecs/registry.h"

namespace ecmv::tests {

// Sanitizers have handlers of their own for crashes.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// While it lives, variants.c is this variant.
class Variant {
 public:
  explicit Variant(const std::string& name) { setenv("ECMV_TEST_VARIANT", name.c_str(), 1); }
  Variant(const Variant&) = delete;
  ~Variant() { unsetenv("ECMV_TEST_VARIANT"); }
};

inline const codecs::CodecEntry& loaded_codec(const std::string& file, const std::string& id) {
  codecs::load_codec_library(file);
  const codecs::CodecEntry* entry = codecs::find_codec(id);
  REQUIRE(entry != nullptr);
  return *entry;
}
inline const codecs::CodecEntry& example_codec() { return loaded_codec(ECMV_EXAMPLE_LIBRARY, "example_codec"); }
inline const codecs::CodecEntry& variant_codec() { return loaded_codec(ECMV_VARIANTS_LIBRARY, "variant_codec"); }

}  // namespace ecmv::tests
