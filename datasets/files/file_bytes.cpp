// Maps a file through POSIX; see file_bytes.h.
#include "datasets/files/file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "datasets/source.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace ecmv::datasets {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw DatasetError("The file \"" + path + "\" cannot be read: " + what + ".");
}

// The rest of the mapping's last page can be read but is not part of the file; sanitizers treat it as out of bounds.
size_t rest_of_page(size_t size) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return (page - size % page) % page;
}

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

FileBytes::FileBytes(const std::string& path) {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) fail(path, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.number, &status) != 0) fail(path, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) fail(path, "it is a folder");
  if (!S_ISREG(status.st_mode)) fail(path, "it is not a regular file");
  if (status.st_size == 0) return;  // an empty mapping is an error for the system, not for us
  size_ = size_t(status.st_size);
  void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (mapped == MAP_FAILED) fail(path, std::strerror(errno));
  data_ = static_cast<const std::byte*>(mapped);
  ASAN_POISON_MEMORY_REGION(data_ + size_, rest_of_page(size_));
}

FileBytes::~FileBytes() {
  if (data_ == nullptr) return;
  ASAN_UNPOISON_MEMORY_REGION(data_ + size_, rest_of_page(size_));
  ::munmap(const_cast<std::byte*>(data_), size_);
}

FileBytes::FileBytes(FileBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

FileBytes& FileBytes::operator=(FileBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

namespace {

// FNV-1a over the size and up to 256 pieces of 4 KiB from the first on.
void add_pieces(std::span<const std::byte> bytes, uint64_t& hash) {
  constexpr size_t kPiece = 4096, kPieces = 256;
  const auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001B3u; };
  add(bytes.size());
  const size_t last = bytes.size() > kPiece ? bytes.size() - kPiece : 0;
  const size_t pieces = std::min(kPieces, last / kPiece + 2);
  for (size_t i = 0; i < pieces; ++i) {
    const size_t first = last / (pieces - 1) * i;
    for (const std::byte byte : bytes.subspan(first, std::min(kPiece, bytes.size() - first))) add(uint64_t(byte));
  }
}

}  // namespace

std::string content_name(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  std::vector<fs::path> files = {path};
  if (is_folder) {
    files.clear();
    for (const auto& entry : fs::directory_iterator(path, error))
      if (const std::string kind = entry.path().extension().string(); kind == ".safetensors" || kind == ".json")
        files.push_back(entry.path());
    std::ranges::sort(files);
  }
  uint64_t hash = 0xCBF29CE484222325u;
  try {
    for (const fs::path& file : files) {
      for (const char c : is_folder ? file.filename().string() : std::string())
        hash = (hash ^ uint8_t(c)) * 0x100000001B3u;
      add_pieces(FileBytes(file.string()).bytes(), hash);
    }
  } catch (const DatasetError&) {
    return "";
  }
  std::ostringstream name;
  name << (is_folder ? "" : fs::path(path).filename().string()) << '#' << std::hex << hash;
  return name.str();
}

}  // namespace ecmv::datasets
