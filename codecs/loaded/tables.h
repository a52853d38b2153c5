// A library's tables, checked and copied to structs of this program's size.
#pragma once

#include <string>
#include <vector>

#include "codecs/ecmv_codec.h"

namespace ecmv::codecs::loaded {

// Strings and arrays in them still belong to the library, which is never unloaded.
struct CodecTables {
  ecmv_codec codec = {};
  std::vector<ecmv_setting> settings;
  std::vector<ecmv_kernel> kernels;
  std::vector<ecmv_gpu_kernel> gpu_kernels;
};

// Throws LibraryError for the first error; `file` begins the sentence. Calls no function of the tables.
std::vector<CodecTables> read_tables(const ecmv_codec_library* library, const std::string& file);

}  // namespace ecmv::codecs::loaded
