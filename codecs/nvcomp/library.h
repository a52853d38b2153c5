// nvCOMP's C interface for batches of chunks, opened at run time, written from its documentation for version 6; none
// of its headers is used. Every method has the same functions under its own name and differs in a structure of 64
// bytes, its options (options.h). Versions before have other parameters.
//
// The program (for encoding) and each GPU plugin (for its kernel) open the library separately and get the same one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "backends/plugins/installed_library.h"

namespace ecmv::codecs::nvcomp {

enum class Method : uint8_t { ans, bitcomp, gdeflate, lz4, zstd };
struct MethodName {
  std::string_view setting, of_library;
};
inline constexpr std::array<MethodName, 5> kMethods = {
    {{"ans", "ANS"}, {"bitcomp", "Bitcomp"}, {"gdeflate", "Gdeflate"}, {"lz4", "LZ4"}, {"zstd", "Zstd"}}};

// The options, passed by value as the platform passes large structures; which fields they have does not matter for
// that.
struct alignas(8) Options {
  std::array<std::byte, 64> bytes = {};
};
struct Alignments {
  size_t input = 1, output = 1, temp = 1;
};

inline constexpr int kMajor = 6, kThousand = 1000;  // 6.1.2 is 6102

// The functions of one method. All pointers but the last of the first three functions are to the device's memory.
// Results are statuses, 0 for success. `compress` and `decompress` return before their work is done.
struct Calls {
  using MostBytes = int (*)(size_t chunk_bytes, Options, size_t* bytes);
  using AlignmentsOf = int (*)(Options, Alignments*);
  using TempBytes = int (*)(size_t chunks, size_t chunk_bytes, Options, size_t* temp_bytes, size_t bytes, void* stream);
  using Compress = int (*)(const void* const* chunks, const size_t* sizes, size_t largest, size_t count, void* temp,
                           size_t temp_bytes, void* const* compressed, size_t* compressed_sizes, Options, int* statuses,
                           void* stream);
  using Decompress = int (*)(const void* const* compressed, const size_t* compressed_sizes, const size_t* room,
                             size_t* sizes, size_t count, void* temp, size_t temp_bytes, void* const* chunks, Options,
                             int* statuses, void* stream);
  MostBytes most_bytes = nullptr;
  AlignmentsOf compress_alignments = nullptr, decompress_alignments = nullptr;
  TempBytes compress_temp = nullptr, decompress_temp = nullptr;
  Compress compress = nullptr;
  Decompress decompress = nullptr;
  std::string missing;  // why the method cannot be used, as a sentence
};

class NvcompLibrary : public backends::InstalledLibrary {
 public:
  int version = 0;       // 6000 is 6.0.0
  bool on_host = false;  // it works on the host's memory, without a device: no real one does

  NvcompLibrary() : InstalledLibrary("nvCOMP") {
    constexpr const char* kFiles[] = {"libnvcomp.so.6", "libnvcomp.so"};
    if (const char* named = std::getenv("ECMV_NVCOMP"); named != nullptr && *named != '\0') {
      if (!open_file(named))
        missing = "ECMV_NVCOMP names " + std::string(named) + ", which the loader does not take: " + dlerror() + ".";
    } else if (!open(kFiles)) {
      missing += " ECMV_NVCOMP may name its file.";
    }
    if (!is_open()) return;
    const void* mark = nullptr;
    on_host = find(mark, "ecmv_works_on_host_memory");
    if (find_version())
      for (size_t i = 0; i < kMethods.size(); ++i) find_calls(kMethods[i].of_library, calls_[i]);
  }

  const Calls& calls(Method method) const { return calls_[static_cast<size_t>(method)]; }

  std::string version_text() const {
    return std::to_string(version / kThousand) + "." + std::to_string(version / 100 % 10) + "." +
           std::to_string(version % 100);
  }
  // A function's status as a sentence; `what` completes "nvCOMP did not ...".
  std::string failed(const std::string& what, int status) const {
    const char* text = status_text_ == nullptr ? nullptr : status_text_(status);
    return "nvCOMP " + version_text() + " did not " + what + ": status " + std::to_string(status) +
           (text == nullptr ? "" : ", " + std::string(text)) + ".";
  }

 private:
  bool find_version() {
    struct {
      uint32_t version = 0, runtime = 0;
    } properties;
    int (*get)(void*) = nullptr;
    take(get, "nvcompGetProperties");
    InstalledLibrary::find(status_text_, "nvcompGetStatusString");
    if (get == nullptr) return false;
    if (const int status = get(&properties); status != 0) {
      missing = "The nvCOMP that is installed here does not say its version (status " + std::to_string(status) + ").";
      return false;
    }
    version = static_cast<int>(properties.version);
    if (version / kThousand != kMajor)
      missing = "The nvCOMP that is installed here is version " + version_text() + ", and this program knows " +
                std::to_string(kMajor) + ".";
    return missing.empty();
  }

  // Loads a method's functions.
  void find_calls(std::string_view method, Calls& calls) const {
    const auto name = [&](const char* rest) { return "nvcompBatched" + std::string(method) + rest; };
    take_call(calls.most_bytes, name("CompressGetMaxOutputChunkSize"), calls);
    take_call(calls.compress_alignments, name("CompressGetRequiredAlignments"), calls);
    take_call(calls.decompress_alignments, name("DecompressGetRequiredAlignments"), calls);
    take_call(calls.compress_temp, name("CompressGetTempSize"), calls);
    take_call(calls.decompress_temp, name("DecompressGetTempSize"), calls);
    take_call(calls.compress, name("CompressAsync"), calls);
    take_call(calls.decompress, name("DecompressAsync"), calls);
  }
  template <typename Function>
  void take_call(Function& function, const std::string& name, Calls& calls) const {
    if (!find(function, name)) calls.missing = without(name);
  }

  const char* (*status_text_)(int) = nullptr;
  std::array<Calls, kMethods.size()> calls_;
};

inline const NvcompLibrary& library() {
  static const NvcompLibrary library;
  return library;
}

// Bytes of temporary memory; returns the library's status. `chunk_bytes` is the largest chunk's, `bytes` the sum of
// all. `ask` is the call for compressing or decompressing.
inline int temp_bytes_of(Calls::TempBytes ask, int64_t chunks, int64_t chunk_bytes, int64_t bytes,
                         const Options& options, size_t& temp_bytes) {
  return ask(static_cast<size_t>(chunks), static_cast<size_t>(chunk_bytes), options, &temp_bytes,
             static_cast<size_t>(bytes), nullptr);
}

}  // namespace ecmv::codecs::nvcomp
