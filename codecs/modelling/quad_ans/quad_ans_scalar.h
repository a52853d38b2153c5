// Portable loop over the quads of a queue, for the scalar kernels of both layouts. The 32 coders depend on each other
// only through the count of words drawn, so an out-of-order core overlaps several of them. Nothing in the loop
// branches, because whether a coder needs a word is a coin toss (about every second quad at 4 bits an element).
#pragma once

#include <algorithm>

#include "codecs/modelling/quad_ans/quad_ans_matrix.h"

namespace ecmv::codecs::modelling {

// One load gives everything about a slot: symbol | position inside the symbol << 8 | probability << 16.
using QuadSlotTable = std::array<uint32_t, kQuadSlots>;

inline QuadSlotTable quad_slot_table(const QuadMatrix& matrix) {
  QuadSlotTable table;
  for (int slot = 0; slot < kQuadSlots; ++slot) {
    const auto at = [&](const std::byte* bytes) { return static_cast<uint32_t>(bytes[slot]); };
    table[slot] = at(matrix.symbol) | (slot - at(matrix.cum)) << 8 | at(matrix.prob) << 16;
  }
  return table;
}

// Calls sink(chunk, lane, symbols) for every quad of the queue in the order of decoding; symbols[i] in bits 8i..8i+7.
template <class Sink>
void for_each_quad(const QuadMatrix& matrix, const QuadSlotTable& table, int64_t queue, const Sink& sink) {
  const int64_t chunks = matrix.layout.chunks;
  if (chunks == 0) return;
  const int64_t begin = int64_t{quad_u32(matrix.offsets, queue)} * kQuadOffsetWords;
  const auto words = matrix.payload.subspan(static_cast<size_t>(begin) * 4);
  const int64_t last_word = static_cast<int64_t>(words.size() / 4) - 1;
  uint64_t states[kQuadFormatLanes];
  for (int lane = 0; lane < kQuadFormatLanes; ++lane)
    states[lane] = quad_u32(words, quad_state_position(lane)) | uint64_t{quad_u32(words, quad_state_position(lane) + 1)}
                                                                    << 32;
  int64_t used = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    for (int lane = 0; lane < kQuadFormatLanes; ++lane) {
      uint64_t state = states[lane];
      // The word is read whether needed or not. After the last queue's last word there is none.
      const uint64_t word = quad_u32(words, std::min(quad_word_position(used), last_word));
      const bool refill = state >> 32 == 0;
      state = refill ? state << 32 | word : state;
      used += refill;
      uint64_t next = state >> 28;
      uint32_t symbols = 0;
      for (int i = 3; i >= 0; --i) {
        const uint32_t entry = table[(state >> (kQuadModelBits * i)) & (kQuadSlots - 1)];
        next = next * (entry >> 16) + (entry >> 8 & 0xFF);
        symbols = symbols << 8 | (entry & 0xFF);
      }
      states[lane] = next;
      sink(chunk, lane, symbols);
    }
  }
}

// Dot product of a quad with four neighbouring elements of x.
inline int32_t quad_dot(uint32_t symbols, const int8_t* x) {
  int32_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<int8_t>(symbols >> (8 * i)) * x[i];
  return sum;
}

// `Body` holds a QuadMatrix and nothing else. A block is the rows of a queue.
template <typename Body, QuadLayoutOf kLayoutOf, int64_t kQueueRows>
backends::BoundKernel bind_quads(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return {Body{quad_matrix(*layers[0].matrix, kLayoutOf)}, {.rows_per_block = kQueueRows}};
}

}  // namespace ecmv::codecs::modelling
