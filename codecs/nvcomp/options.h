// The options of nvCOMP's methods, made from a stream's settings: bytes at the places where version 6 has their fields.
// All others are zero.
#pragma once

#include <cstring>

#include "codecs/compressed_matrix.h"
#include "codecs/nvcomp/format.h"
#include "codecs/nvcomp/library.h"

namespace ecmv::codecs::nvcomp {

inline Method method_of(const Settings& settings) {
  const std::string& name = settings.text("method");
  for (size_t i = 0; i < kMethods.size(); ++i)
    if (kMethods[i].setting == name) return static_cast<Method>(i);
  throw std::logic_error("There is no method " + name + ".");
}

namespace detail {

// nvCOMP's numbers of element types.
inline constexpr int32_t kChar = 0, kUchar = 1, kShort = 2, kUshort = 3, kInt = 4, kUint = 5, kLong = 6, kUlong = 7,
                         kE4m3 = 9, kHalf = 10, kFloat = 11, kInferred = 0xff;

inline void put(Options& options, size_t at, int32_t value) {
  std::memcpy(options.bytes.data() + at, &value, sizeof(value));
}

// The types that ANS tells apart: bytes, 16-bit numbers with an exponent, e4m3 and float32.
inline int32_t ans_type(datasets::ElementType type) {
  using Type = datasets::ElementType;
  switch (type) {
    case Type::bf16:
    case Type::f16: return kHalf;
    case Type::f8_e4m3: return kE4m3;
    case Type::f32: return kFloat;
    default: return kChar;
  }
}

// Integers of the element's width, signed if it is.
inline int32_t integer_type(datasets::ElementType type) {
  using Type = datasets::ElementType;
  switch (type) {
    case Type::i8: return kChar;
    case Type::u8:
    case Type::f8_e5m2:
    case Type::f8_e4m3: return kUchar;
    case Type::i16: return kShort;
    case Type::u16:
    case Type::bf16:
    case Type::f16: return kUshort;
    case Type::i32: return kInt;
    case Type::u32:
    case Type::f32: return kUint;
    case Type::i64: return kLong;
    case Type::u64:
    case Type::f64: return kUlong;
  }
  return kUchar;
}

inline int32_t type_number(const Settings& settings, datasets::ElementType type) {
  if (method_of(settings) == Method::ans) return ans_type(type);
  // LZ4 has no integers of 8 bytes.
  if (method_of(settings) == Method::lz4 && datasets::element_bytes(type) == 8) return kUchar;
  return integer_type(type);
}

}  // namespace detail

inline Options compress_options(const Settings& settings, datasets::ElementType type) {
  constexpr int32_t kFastest = 1;  // of gdeflate with searching: its library's default
  Options options;
  const int32_t number = detail::type_number(settings, type);
  switch (method_of(settings)) {
    case Method::ans:
      detail::put(options, 4, number);
      options.bytes[9] = static_cast<std::byte>(settings.integer("states"));
      break;
    case Method::bitcomp: detail::put(options, 4, number); break;
    case Method::gdeflate: detail::put(options, 0, kFastest); break;
    case Method::lz4: detail::put(options, 0, number); break;
    case Method::zstd: break;
  }
  return options;
}

// `told`: how the stream was made, instead of reading it off each chunk, and without checks. Only ANS takes it.
inline Options decompress_options(const Settings& settings, datasets::ElementType type, bool told) {
  Options options;
  if (method_of(settings) != Method::ans) return options;
  detail::put(options, 4, told ? detail::type_number(settings, type) : detail::kInferred);
  if (!told) return options;
  options.bytes[9] = static_cast<std::byte>(settings.integer("states"));
  options.bytes[10] = std::byte{1};
  return options;
}

// "" if chunks and buffers of this format lie where the library wants them, otherwise the reason as a sentence.
inline std::string misaligned(const Alignments& required, int64_t input_bytes) {
  if (required.input <= static_cast<size_t>(input_bytes) && required.output <= kBufferAlignBytes &&
      required.temp <= kBufferAlignBytes)
    return "";
  return "This nvCOMP wants its buffers at multiples of " + std::to_string(required.input) + ", " +
         std::to_string(required.output) + " and " + std::to_string(required.temp) +
         " bytes (input, output, temporary), where this format has " + std::to_string(input_bytes) + ", " +
         std::to_string(kBufferAlignBytes) + " and " + std::to_string(kBufferAlignBytes) + ".";
}

}  // namespace ecmv::codecs::nvcomp
