// A compressed matrix and its parts: what makes it, and the way back with all checks. For sections.cpp and
// matrix_file.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiments/library/handles.h"

namespace ecmv::library {

struct MatrixParts {
  std::string codec, settings, element_type;  // settings as for ecmv_encode
  uint32_t format_version = 0;
  datasets::Shape shape;
  struct Part {
    std::string name, role;
    int64_t align_bytes = 64, padding_bytes = 0;
    std::span<const std::byte> bytes;
  };
  std::vector<Part> sections;
};

// Over everything that makes the matrix; never 0.
uint64_t hash_of(const backends::CompressedMatrix& matrix);

// Whether the codec's reference decoder must take the sections, or whether they are known to be what an encoder made.
enum class Trust { none, known };
// Throws Failure: ECMV_MALFORMED where the codec does not take them.
std::unique_ptr<ecmv_compressed_matrix> join(const MatrixParts& parts, Trust trust = Trust::none);

}  // namespace ecmv::library
