// The types of weight files whose elements are no whole bytes or words: blocks with scales of their own, and codes that
// are packed alone.
#pragma once

#include <cstdint>
#include <string_view>

#include "datasets/scales.h"

namespace ecmv::datasets {

// What the bits of a code say. `e2m1` is the float of four bits, whose element is the int8 of twice the number: 0, 1,
// 2, 3, 4, 6, 8, 12 and their negatives.
enum class Code : uint8_t { unsigned_number, signed_number, e2m1 };

// The element that a code of `bits` bits stands for.
int8_t element_of_code(Code code, int bits, int value);

// Elements of a row that are stored together with what they share. A block with `bits` begins with its scales, one for
// each run of `scale_cols` elements, in some formats followed by an f16 minimum, and ends with the elements' codes:
// number = scale * (element - zero) * factor, or + minimum.
struct BlockFormat {
  std::string_view name;
  int64_t elements = 32, bytes = 0;  // of a block
  int bits = 0;                      // of an element, 8 or 4; 0: blocks whose size is known, but that are not unpacked
  int zero = 0;
  bool has_minimum = false;
  Code code = Code::unsigned_number;
  ScaleType scale = ScaleType::f16;
  int64_t scale_cols = 32;

  float factor() const { return code == Code::e2m1 ? 0.5f : 1.0f; }
  int64_t scale_width() const { return scale == ScaleType::f16 ? 2 : 1; }
  int64_t scales() const { return elements / scale_cols; }
  int64_t bytes_of_scales() const { return scale_width() * scales() * (has_minimum ? 2 : 1); }
};
const BlockFormat* find_block_format(std::string_view dtype);  // nullptr: no such blocks

// Codes without scales between them, row after row.
struct PackedType {
  std::string_view name;
  int bits = 0;
  Code code = Code::unsigned_number;
  // How they lie: from the lowest bits of the first byte on; the same with the high half of a byte first; or as GPTQ
  // and AWQ pack 32-bit words, whose tensors are [inputs, outputs].
  enum class Order : uint8_t { low_first, high_first, gptq, awq } order = Order::low_first;
};
const PackedType* find_packed_type(std::string_view dtype);  // nullptr: no such codes

}  // namespace ecmv::datasets
