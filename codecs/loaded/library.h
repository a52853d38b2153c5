// Codecs from shared objects that speak codecs/ecmv_codec.h; ABI.md describes them for those who write one. A library
// is first loaded and looked at in a process of its own, so that one that crashes or hangs ends with a sentence; then
// in this one, for good.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace ecmv::codecs {

// A library that cannot be used, as a sentence that names its file.
struct LibraryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr const char* kCodecPathVariable = "ECMV_CODEC_PATH";
inline constexpr int kLoadSeconds = 10;  // a library that takes longer to load hangs

// Appends the library's codecs to all_codecs(); not while another thread uses the registry. A file that is loaded
// already is left alone.
void load_codec_library(const std::string& file, int seconds = kLoadSeconds);

// Files and folders separated by ':'; of a folder every *.so, in alphabetical order; one without any is
// an error.
void load_codec_path(std::string_view path);
// What the variable names, if it is set.
void load_codecs_of_environment();

// For the program that a user runs, after it has loaded libraries: from now on a crash or an exit within a function of
// a loaded codec is told on stderr with the names of both, and an exit there is a failure.
void tell_crashes_of_loaded_codecs();
// Tells on stderr what functions of loaded codecs are running now. For signal handlers, too.
void tell_calls_of_loaded_codecs();

}  // namespace ecmv::codecs
