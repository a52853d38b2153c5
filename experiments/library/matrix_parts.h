// A compressed matrix and its parts: what makes it, and the way back with all checks. For sections.cpp and
// matrix_file.cpp.
#pragma once

#include <memory>
#include <span>
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
// This takes a matrix whose sections are elsewhere, with the hash of the bytes of each.
uint64_t hash_of(const backends::CompressedMatrix& matrix, std::span<const uint64_t> sections);

// Whether the codec's reference decoder must take the sections, or whether they are known to be what an encoder made;
// `elsewhere`: they are, and the matrix gets none of their bytes, which are not in the host's memory.
enum class Trust { none, known, elsewhere };
// Throws Failure: ECMV_MALFORMED where the codec does not take them.
std::unique_ptr<ecmv_compressed_matrix> join(const MatrixParts& parts, Trust trust = Trust::none);

// Sizes of the first versions of these structs.
inline constexpr size_t kFirstSectionBytes = 56, kFirstDescriptionBytes = 56, kDescriptionWithHashBytes = 64;
static_assert(sizeof(ecmv_stored_section) >= kFirstSectionBytes && sizeof(ecmv_description) >= kFirstDescriptionBytes);
// The parts in the caller's structs, whose texts and bytes they show; null places are refused. Throws Failure.
MatrixParts parts_of(const ecmv_description& description, const ecmv_stored_section* sections, size_t count);
// Whether the caller knows the field `hash`, and what it says; 0: none.
bool knows_hash(const ecmv_description& description);
uint64_t known_hash(const ecmv_description& description);

}  // namespace ecmv::library
