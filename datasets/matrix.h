// Matrix is the noun every room shares: a dense, row-major matrix of one element type in host memory, with the hash
// that names its content in records. This header is the interface of `datasets`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ecmv::datasets {

// Append new types at the end: content_hash() uses their numbers.
enum class ElementType : uint8_t { i8, u8, bf16, f16, f32, f64, i16, u16, i32, u32, i64, u64, f8_e5m2, f8_e4m3 };

// Bytes of one element, and its name in YAML and records ("i8", "bf16", "f8_e5m2").
int64_t element_bytes(ElementType type);
std::string_view element_type_name(ElementType type);

// [rows, cols]. Zero rows or columns are legal: a matrix without elements.
struct Shape {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t elements() const { return rows * cols; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

// A matrix that something else owns; elements are row-major, [rows, cols], little-endian.
struct MatrixView {
  Shape shape;
  ElementType type = ElementType::i8;
  std::span<const std::byte> elements;

  // The elements of an i8 matrix, or the bytes of any other matrix.
  std::span<const int8_t> i8() const { return {reinterpret_cast<const int8_t*>(elements.data()), elements.size()}; }
};

struct Matrix {
  std::string name;
  Shape shape;
  ElementType type = ElementType::i8;
  std::vector<std::byte> elements;
  uint64_t content_hash = 0;  // content_hash(view()), filled in by every source

  MatrixView view() const { return {shape, type, elements}; }
};

// 64-bit FNV-1a-style hash over type, shape and elements; equal on every platform. It names data in records and does
// not protect against an adversary.
uint64_t content_hash(const MatrixView& matrix);

// Order-0 Shannon entropy of the elements' bit patterns, for types of one and two bytes; bits per element. 0 for no
// elements, NaN for wider types, whose histogram says little because nearly every element is unique.
double entropy_bits_per_element(const MatrixView& matrix);

}  // namespace ecmv::datasets
