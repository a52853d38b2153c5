// The stored bytes of nvcomp: the matrix's bytes in row-major order, cut into chunks of chunk_kib KiB (the last may be
// shorter), each as nvCOMP compresses it.
//
//   payload  the compressed chunks, each from a multiple of kChunkAlignBytes on, where nvCOMP reads; zeros between
//   ends     uint64 a chunk: one past its last byte in the payload
//   hash     uint64: hash_of() of both
//
// nvCOMP decides how long a chunk is. Its end tells its size and where the next one begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codecs/codec.h"

namespace ecmv::codecs::nvcomp {

// Section numbers.
inline constexpr int kPayload = 0, kEnds = 1, kHash = 2;

inline constexpr int64_t kChunkAlignBytes = 16;
// Matrices and scratch begin at multiples of this at least, and so does every chunk of a matrix.
inline constexpr int64_t kBufferAlignBytes = 256;

constexpr int64_t round_up(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

// The cut of a matrix of `bytes` bytes.
struct Cut {
  int64_t bytes = 0, chunk_bytes = 1;
  Cut(int64_t bytes, const Settings& settings) : bytes(bytes), chunk_bytes(settings.integer("chunk_kib") * 1024) {}
  int64_t chunks() const { return (bytes + chunk_bytes - 1) / chunk_bytes; }
  // Bytes of the longest chunk.
  int64_t most() const { return bytes < chunk_bytes ? bytes : chunk_bytes; }
  int64_t size(int64_t chunk) const {
    const int64_t left = bytes - chunk * chunk_bytes;
    return left < chunk_bytes ? left : chunk_bytes;
  }
};

// Some methods' decoders only handle bytes that their encoders wrote (README.md), so damage has to be found before they
// run.
inline uint64_t hash_of(std::span<const std::byte> payload, std::span<const std::byte> ends) {
  const auto hash = [](std::span<const std::byte> bytes) {
    return datasets::content_hash({{1, static_cast<int64_t>(bytes.size())}, datasets::ElementType::u8, bytes});
  };
  return hash(payload) * 0x9E3779B97F4A7C15u ^ hash(ends);
}

}  // namespace ecmv::codecs::nvcomp
