// content_hash() of elements that come in pieces.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "datasets/matrix.h"

namespace ecmv::datasets {

class ContentHash {
 public:
  ContentHash(ElementType type, Shape shape);
  // All pieces but the last have a multiple of 32 bytes.
  void add(std::span<const std::byte> piece);
  uint64_t value() const;

 private:
  uint64_t hash_;
  std::array<uint64_t, 4> lane_;
  std::vector<std::byte> rest_;  // of the last piece
};

}  // namespace ecmv::datasets
