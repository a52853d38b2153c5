// The safetensors container: 8 bytes little-endian length of the header, the header (a JSON object: name -> dtype,
// shape, data_offsets; optionally "__metadata__": name -> text), then the tensors' bytes without gaps. The reader is
// strict, and everything it returns lies inside the given bytes. The writer is deterministic.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "datasets/tensor.h"

namespace ecmv::datasets {

struct Safetensors {
  std::vector<TensorView> tensors;  // in the order of their bytes in the file (empty ones by name)
  std::map<std::string, std::string> metadata;
  std::vector<uint32_t> by_name;  // places in `tensors`

  const TensorView* find(std::string_view name) const;  // nullptr: no such tensor
};

// True if the bytes begin like such a container: a length that fits and '{', maybe after spaces. The rest may still be
// wrong.
bool looks_like_safetensors(std::span<const std::byte> bytes);

// Views into `bytes`, which must outlive them. Throws DatasetError for: truncation, a header over 100 MB or of more
// than 200000 tensors, bad JSON or UTF-8, doubled or missing fields, sizes that
// overflow or do not match the offsets, offsets out of bounds, overlaps, holes, bytes after the last tensor, metadata
// that is not text.
Safetensors parse_safetensors(std::span<const std::byte> bytes);

// Writes tensors in the given order. Spaces pad the header to a multiple of 8 bytes, so the data start aligned. Throws
// DatasetError for duplicate or non-UTF-8 names and for bytes that do not match dtype and shape.
std::vector<std::byte> write_safetensors(std::span<const TensorView> tensors,
                                         const std::map<std::string, std::string>& metadata = {});

}  // namespace ecmv::datasets
