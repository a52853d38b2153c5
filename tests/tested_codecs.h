// The codecs under test: the build's or, if ECMV_CODEC_PATH names shared objects, only theirs. So a codec from outside
// can be held to the claims about all codecs: ECMV_CODEC_PATH=libx.so build/test_conformance. ECMV_TEST_CODEC=id
// selects one of the build. Codecs whose library or device is missing are left out, unless they are selected so.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "codecs/loaded/library.h"
#include "codecs/registry.h"

namespace ecmv::tests {

inline std::span<const codecs::CodecEntry> tested_codecs() {
  static const std::span<const codecs::CodecEntry> tested = [] {
    const size_t built_in = codecs::all_codecs().size();
    codecs::load_codecs_of_environment();
    const auto all = codecs::all_codecs();
    if (const char* id = std::getenv("ECMV_TEST_CODEC")) {
      const codecs::CodecEntry* one = codecs::find_codec(id);
      if (one == nullptr)
        throw std::runtime_error("ECMV_TEST_CODEC names '" + std::string(id) + "', which is no codec.");
      return std::span(one, 1);
    }
    if (all.size() > built_in) return all.subspan(built_in);
    static std::vector<codecs::CodecEntry> here;
    for (const codecs::CodecEntry& entry : all)
      if (entry.codec->unavailable == nullptr || entry.codec->unavailable().empty()) here.push_back(entry);
    if (here.empty()) SKIP("no codec of this build can work here");
    return std::span<const codecs::CodecEntry>(here);
  }();
  return tested;
}

// The codec under test with this id. Ends the test as skipped where there is none, so that claims about one codec are
// not repeated for each of the others.
inline const codecs::CodecEntry& codec_or_skip(std::string_view id) {
  const auto tested = tested_codecs();
  const auto found = std::ranges::find(tested, id, &codecs::CodecEntry::id);
  if (found == tested.end()) SKIP(std::string(id) + " is not among the codecs under test.");
  return *found;
}

}  // namespace ecmv::tests
