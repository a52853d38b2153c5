// The quad coder of MatVANS with its 7-bit model, which the layouts ans_warp_rows and ans_warp_stripes share. 32 ANS
// coders (64-bit states, 32-bit words) take turns on quads of four symbols and draw their words from one queue. The
// layouts differ only in which quad belongs to which coder, which three strides describe (QuadLayout). Method and
// stored bytes are from the MatVANS white paper (Ludwig, Bamler); the README of ans_warp_rows has a drawing.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "codecs/codec.h"

namespace ecmv::codecs::modelling {

inline constexpr int kQuadFormatLanes = 32;  // coders that share a queue
inline constexpr int kQuadModelBits = 7;     // probabilities are multiples of 1/128
inline constexpr int kQuadSlots = 1 << kQuadModelBits;
inline constexpr int kQuadGroupWords = 128;  // words of one load of all lanes, [lane][4]
inline constexpr int kQuadOffsetWords = 4;   // unit of the stored offsets, 16 bytes
inline constexpr int kQuadWordsBeforeStates = 64;

// Section numbers. All words are little-endian.
enum QuadSection : int {
  kQuadCompressed,   // payload: u32 words of all queues, one after the other, each a multiple of kQuadGroupWords
  kQuadWarpOffsets,  // index: u32[queues], where a queue begins, in units of kQuadOffsetWords words
  kQuadPpf,          // table: int8[128], slot -> symbol
  kQuadPpfCum,       // table: u8[128], slot -> first slot of that symbol
  kQuadPpfProb,      // table: u8[128], slot -> number of slots of that symbol
  kQuadSections,
};

// Element (queue q, chunk c, lane l, i = 0..3) is number q * queue_stride + c * chunk_stride + l * lane_stride + i of
// the matrix.
struct QuadLayout {
  std::string_view codec;  // id, for messages
  int64_t queues = 0;      // rows of the matrix, or stripes of 32 rows
  int64_t chunks = 0;      // chunks of 32 quads in a queue
  int64_t queue_stride = 0, chunk_stride = 0, lane_stride = 0;
};
using QuadLayoutOf = QuadLayout (*)(datasets::Shape);  // of a [rows, cols] matrix

// The place of a queue's word j, in words from the start of the queue's groups. The 64 words of the states follow word
// 63. Words are transposed inside a group, so that a lane's four lie side by side.
constexpr int64_t quad_word_position(int64_t j) {
  j += j < kQuadWordsBeforeStates ? 0 : kQuadGroupWords - kQuadWordsBeforeStates;
  return j / kQuadGroupWords * kQuadGroupWords + j % kQuadFormatLanes * 4 + j % kQuadGroupWords / kQuadFormatLanes;
}

// The place of the low word of a lane's first state; the high word is the next one.
constexpr int64_t quad_state_position(int lane) { return lane * 4 + 2; }

// The number of words of a queue's groups if its coders emitted `words`.
constexpr int64_t quad_stored_words(int64_t words) {
  return (words + kQuadWordsBeforeStates + kQuadGroupWords - 1) / kQuadGroupWords * kQuadGroupWords;
}

// A decoder's look-up result for each of the 128 slots.
struct QuadTables {
  std::array<int8_t, kQuadSlots> symbol;
  std::array<uint8_t, kQuadSlots> cum, prob;
};

// The original encoder's model: probabilities round(128 p) of the values that occur, but at least 1; an excess is taken
// from the largest, and a lack is given to it. Float32 steps round correctly everywhere, so the result is the same on
// every platform. The matrix must not be empty and have at most 128 distinct values.
QuadTables fit_quad_model(std::span<const int8_t> elements);

// "" if the model can hold the matrix and the offsets can hold its queues, otherwise the reason.
std::string refuses_quads(datasets::MatrixView matrix, const QuadLayout& layout);

CompressedMatrix encode_quads(datasets::MatrixView matrix, const Settings& settings, const QuadLayout& layout);

// The reference checks every read, the tables and each coder's last state. Throws MalformedStream.
void decode_quads(const CompressedView& compressed, const QuadLayout& layout, std::span<std::byte> out);

// A coder emits at most one word a quad.
int64_t max_quad_stored_bytes(const QuadLayout& layout);

inline uint32_t quad_u32(std::span<const std::byte> words, int64_t index) {
  uint32_t value;
  std::memcpy(&value, words.data() + index * 4, 4);
  return value;
}

}  // namespace ecmv::codecs::modelling
