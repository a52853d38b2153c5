// The tables that a library hands out, copied to structs of this program's size and checked.
#pragma once

#include <string>
#include <vector>

#include "codecs/ecmv_codec.h"

namespace ecmv::codecs::loaded {

// Strings and arrays inside still are the library's, which is never unloaded.
struct CodecTables {
  ecmv_codec codec = {};
  std::vector<ecmv_setting> settings;
  std::vector<ecmv_kernel> kernels;
};

// Throws LibraryError for the first thing that is wrong; `file` begins the sentence. Calls none of the functions in the
// tables.
std::vector<CodecTables> read_tables(const ecmv_codec_library* library, const std::string& file);

}  // namespace ecmv::codecs::loaded
