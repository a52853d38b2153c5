// Stored matrices, under the names that codecs use. `backends` defines the types, because it uploads them.
#pragma once

#include "backends/compressed_matrix.h"

namespace ecmv::codecs {

using backends::CompressedMatrix;
using backends::CompressedView;
using backends::kHostCopyBytes;
using backends::Role;
using backends::role_name;
using backends::Section;
using backends::SectionView;
using backends::Settings;
using backends::SettingValue;

}  // namespace ecmv::codecs
