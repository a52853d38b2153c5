// Reads little-endian fields one after the other and checks every read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "datasets/source.h"

namespace ecmv::datasets {

class ByteReader {
 public:
  // `no_such_file` begins the sentence about a missing field: "Not a readable GGUF file".
  ByteReader(std::span<const std::byte> bytes, std::string_view no_such_file)
      : left_(bytes), no_such_file_(no_such_file) {}

  size_t left() const { return left_.size(); }
  std::span<const std::byte> take(uint64_t count, std::string_view what) {
    if (count > left_.size()) fail("it ends inside " + std::string(what) + ".");
    const auto taken = left_.first(size_t(count));
    left_ = left_.subspan(size_t(count));
    return taken;
  }
  uint32_t u32(std::string_view what) { return uint32_t(little_endian(take(4, what))); }
  uint64_t little(uint64_t bytes, std::string_view what) { return little_endian(take(bytes, what)); }
  uint64_t u64(std::string_view what) { return little_endian(take(8, what)); }

  [[noreturn]] void fail(const std::string& what) const {
    throw DatasetError(std::string(no_such_file_) + ": " + what);
  }

 private:
  static uint64_t little_endian(std::span<const std::byte> bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) value |= uint64_t(bytes[i]) << (8 * i);
    return value;
  }

  std::span<const std::byte> left_;
  std::string_view no_such_file_;
};

}  // namespace ecmv::datasets
