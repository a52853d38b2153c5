// SHA-256 (FIPS 180-4), to name files in records: `sha256sum` gives the same.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ecmv::codecs {

std::string sha256(std::span<const std::byte> bytes);  // 64 hexadecimal digits

}  // namespace ecmv::codecs
