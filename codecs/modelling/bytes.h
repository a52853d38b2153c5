// Little-endian integers in stored bytes, whatever the machine's byte order, for encoders and for reference decoders,
// which have checked that the bytes exist. Kernels load words in one piece.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace ecmv::codecs::modelling {

// The word of `bytes` (1..8) bytes at `offset`, zero-extended.
inline uint64_t load_word(std::span<const std::byte> from, size_t offset, int bytes) {
  uint64_t word = 0;
  for (int i = bytes - 1; i >= 0; --i) word = word << 8 | std::to_integer<uint64_t>(from[offset + i]);
  return word;
}
inline void store_word(std::span<std::byte> to, size_t offset, int bytes, uint64_t word) {
  for (int i = 0; i < bytes; ++i, word >>= 8) to[offset + i] = static_cast<std::byte>(word & 0xff);
}
inline void append_word(std::vector<std::byte>& to, int bytes, uint64_t word) {
  for (int i = 0; i < bytes; ++i, word >>= 8) to.push_back(static_cast<std::byte>(word & 0xff));
}

// The same for a type. Name the type, because it says how many bytes are meant.
template <std::integral Integer>
Integer load(std::span<const std::byte> from, size_t offset) {
  return static_cast<Integer>(load_word(from, offset, sizeof(Integer)));
}
template <std::integral Integer>
void append(std::vector<std::byte>& to, std::type_identity_t<Integer> value) {
  append_word(to, sizeof(Integer), static_cast<uint64_t>(value));
}

// The same for arrays of 32-bit words.
inline uint32_t load_word32(std::span<const std::byte> from, size_t index) { return load<uint32_t>(from, 4 * index); }
inline void store_word32(std::span<std::byte> to, size_t index, uint32_t word) { store_word(to, 4 * index, 4, word); }

inline void append_bytes(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace ecmv::codecs::modelling
