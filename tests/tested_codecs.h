// The codecs under test: those of the build or, where ECMV_CODEC_PATH names shared objects, the codecs of these
// instead. So the claims about all codecs can be held against one from outside: ECMV_CODEC_PATH=libx.so
// build/test_conformance
#pragma once

#include <span>

#include "codecs/loaded/library.h"
#include "codecs/registry.h"

namespace ecmv::tests {

inline std::span<const codecs::CodecEntry> tested_codecs() {
  static const std::span<const codecs::CodecEntry> tested = [] {
    const size_t built_in = codecs::all_codecs().size();
    codecs::load_codecs_of_environment();
    const auto all = codecs::all_codecs();
    return all.size() > built_in ? all.subspan(built_in) : all;
  }();
  return tested;
}

}  // namespace ecmv::tests
