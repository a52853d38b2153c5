// Loads codecs from shared objects that speak codecs/ecmv_codec.h; ABI.md describes them for their authors. A process
// of its own loads and checks a library first, so that one that crashes or hangs ends in a sentence; then this process
// loads it, for good.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace ecmv::codecs {

// A library that cannot be used; the sentence names its file.
struct LibraryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr const char* kCodecPathVariable = "ECMV_CODEC_PATH";
inline constexpr int kLoadSeconds = 10;  // a library that takes longer to load hangs

// Appends the library's codecs to all_codecs(), unless the file is loaded already. No other thread may use the registry
// meanwhile.
void load_codec_library(const std::string& file, int seconds = kLoadSeconds);

// Loads files and folders, separated by ':'. In a folder it takes every *.so, in alphabetical order; a folder without
// any is an error.
void load_codec_path(std::string_view path);
// Loads what the environment variable names, if it is set.
void load_codecs_of_environment();

// For the program that a user runs, called after loading: from then on stderr names function and codec when a crash or
// an exit happens inside a loaded codec, and such an exit is a failure.
void tell_crashes_of_loaded_codecs();
// Names on stderr the functions of loaded codecs that are running. Signal handlers may call it.
void tell_calls_of_loaded_codecs();

}  // namespace ecmv::codecs
