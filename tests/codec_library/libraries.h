// The libraries that these tests load, and the switch that makes variants.c do something wrong.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <span>
#include <string>

#include <fmt/format.h>

#include "codecs/loaded/library.h"
#include "codecs/registry.h"
#include "datasets/matrix.h"
#include "tests/run_command.h"

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

// As records and lists show it.
inline std::string content_hash_of(const std::string& file) {
  const std::string bytes = text_of(file);
  return fmt::format("{:016x}", datasets::content_hash({{1, static_cast<int64_t>(bytes.size())},
                                                        datasets::ElementType::u8,
                                                        std::as_bytes(std::span(bytes))}));
}

inline const codecs::CodecEntry& loaded_codec(const std::string& file, const std::string& id) {
  codecs::load_codec_library(file);
  const codecs::CodecEntry* entry = codecs::find_codec(id);
  REQUIRE(entry != nullptr);
  return *entry;
}
inline const codecs::CodecEntry& example_codec() { return loaded_codec(ECMV_EXAMPLE_LIBRARY, "example_codec"); }
inline const codecs::CodecEntry& variant_codec() { return loaded_codec(ECMV_VARIANTS_LIBRARY, "variant_codec"); }

}  // namespace ecmv::tests
