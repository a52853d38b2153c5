// A whole file in memory, read-only. It is mapped, so only the pages that are read cost anything, and small machines
// can inspect files of 100 GB. The bytes live as long as the object.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace ecmv::datasets {

class FileBytes {
 public:
  // Throws DatasetError with the path and the system's reason: missing, unreadable, a folder, a device.
  explicit FileBytes(const std::string& path);
  ~FileBytes();
  FileBytes(FileBytes&& other) noexcept;
  FileBytes& operator=(FileBytes&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Names what a file or folder of weights holds, wherever it lies: a hash of sizes and of pieces all over the bytes,
// with the name of a file. "" for what cannot be read.
std::string content_name(const std::string& path);

}  // namespace ecmv::datasets
