// What the tests of libecmv share: handles that free themselves, small matrices, and the form of an error.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "experiments/library/ecmv.h"

namespace ecmv::tests {

struct Free {
  void operator()(ecmv_compressed_matrix* matrix) const { ecmv_free_matrix(matrix); }
  void operator()(ecmv_context* context) const { ecmv_close(context); }
  void operator()(ecmv_pass* pass) const { ecmv_free_pass(pass); }
};
using Matrix = std::unique_ptr<ecmv_compressed_matrix, Free>;
using Context = std::unique_ptr<ecmv_context, Free>;
using Pass = std::unique_ptr<ecmv_pass, Free>;

// "" or what ecmv_last_error() says.
inline std::string error_of(ecmv_status status) { return status == ECMV_OK ? "" : ecmv_last_error(); }

inline constexpr int64_t kRows = 64, kCols = 512;

// A file of its own, which the test writes.
struct File {
  File() {
    std::string name = (std::filesystem::temp_directory_path() / "ecmv_library_XXXXXX").string();
    const int file = mkstemp(name.data());
    REQUIRE(file >= 0);
    close(file);
    path = name;
  }
  File(const File&) = delete;
  ~File() {
    std::error_code gone;
    std::filesystem::remove(path, gone);
  }
  std::string path;
};

// Numbers that are more often small than large.
inline std::vector<int8_t> some_numbers(int64_t count, uint32_t seed) {
  std::vector<int8_t> numbers;
  for (int64_t i = 0; i < count; ++i) {
    int sum = 0;
    for (int term = 0; term < 4; ++term) {
      seed = seed * 1664525u + 1013904223u;
      sum += static_cast<int>(seed >> 28) - 8;
    }
    numbers.push_back(static_cast<int8_t>(sum / 2));
  }
  return numbers;
}

inline const std::vector<int8_t>& weights() {
  static const std::vector<int8_t> all = some_numbers(kRows * kCols, 1);
  return all;
}

// Small integers and their bits as bf16.
inline std::vector<uint16_t> as_bf16(const std::vector<int8_t>& numbers) {
  std::vector<uint16_t> out;
  for (const int8_t number : numbers) {
    const float value = number;
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    out.push_back(static_cast<uint16_t>(bits >> 16));
  }
  return out;
}

inline Matrix encode(const char* codec, const char* type, const void* elements, int64_t rows = kRows,
                     int64_t cols = kCols, const char* settings = nullptr) {
  ecmv_compressed_matrix* matrix = nullptr;
  const ecmv_status status = ecmv_encode(codec, settings, type, rows, cols, elements, &matrix);
  INFO(codec << ": " << error_of(status));
  REQUIRE((status == ECMV_OK || status == ECMV_REFUSED));
  return Matrix(matrix);
}

// Ends the test as skipped where the build lacks the codec.
inline void need_codec(const std::string& id) {
  for (size_t i = 0; ecmv_codec_id(i) != nullptr; ++i)
    if (ecmv_codec_id(i) == id) return;
  SKIP("The codec " << id << " is not part of this build.");
}

inline Context open(const char* backend, int threads = 2) {
  ecmv_context* context = nullptr;
  const ecmv_status status = ecmv_open(backend, threads, -1, &context);
  INFO(error_of(status));
  REQUIRE(status == ECMV_OK);
  return Context(context);
}

// Expects this status and this sentence.
inline void expect(ecmv_status got, ecmv_status wanted, const char* sentence) {
  INFO(sentence);
  CHECK(got == wanted);
  CHECK_THAT(ecmv_last_error(), Catch::Matchers::ContainsSubstring(sentence));
  const char last = std::string(ecmv_last_error()).back();
  CHECK((last == '.' || last == '?'));
}

}  // namespace ecmv::tests
