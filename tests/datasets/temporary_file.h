// A file that exists as long as the object, and other small helpers of the tests of `datasets`.
#pragma once

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/source.h"

namespace ecmv::tests {

inline std::vector<std::byte> to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class TemporaryFile {
 public:
  explicit TemporaryFile(std::span<const std::byte> content, const std::string& extension = "") {
    static int count = 0;
    path_ = (std::filesystem::temp_directory_path() /
             ("ecmv_test_" + std::to_string(::getpid()) + "_" + std::to_string(count++) + extension))
                .string();
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(content.data()), std::streamsize(content.size()));
    REQUIRE(file.good());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline datasets::Dataset load(std::string_view source, const datasets::SourceRequest& request) {
  const datasets::DataSource* found = datasets::find_source(source);
  REQUIRE(found != nullptr);
  return found->load(request);
}

// Claims that the expression throws a DatasetError whose sentence contains `part`.
#define REQUIRE_DATASET_ERROR(expression, part)                      \
  REQUIRE_THROWS_MATCHES(expression, ::ecmv::datasets::DatasetError, \
                         Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring(part)))

}  // namespace ecmv::tests
