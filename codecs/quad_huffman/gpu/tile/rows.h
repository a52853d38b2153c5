// Decoded rows in shared memory. A lane decodes a row, but matrix units and memory want a row from several lanes. So a
// lane group writes decoded rows to a piece of shared memory of its own, 32 rows x kRowBytes bytes, and applies patches
// there. Eight lanes write 16 bytes of eight rows at once, or read those 16 bytes of one row, without bank conflicts.
#pragma once

#include "codecs/quad_huffman/gpu/tile/floats.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Four elements of f8, from exponents in bits 6..3 of bytes. A raw word that has the first column's mantissa in bits
// 2..0 has the next one's in byte 2 and the signs of both in bit 3 of the bytes after these; the other two columns lie
// a nibble above.
ECMV_GPU_DEVICE uint32_t f8_bytes(int quad, uint32_t exponents, uint32_t word) {
  const uint32_t raw = gpu::funnel_shift_right(word, word, static_cast<uint32_t>(4 + quad % 2 * 8)),
                 mantissas = gpu::byte_permute(raw, raw >> 4, 0x6420), signs = gpu::byte_permute(raw << 4, raw, 0x7531);
  return gpu::select_bits(0x78787878u, exponents, gpu::select_bits(0x80808080u, signs, mantissas & 0x07070707u));
}

// Symbols of eight in the same way: join_eights() gives an element's exponent and mantissa from bit 4 on, and its sign
// in bit 15.
ECMV_GPU_DEVICE uint32_t f8_bytes_of_eight(int quad, uint32_t exponents, uint32_t word, uint32_t lowest) {
  const FourFloats four = join_eights<true>(quad, exponents, word, 0);
  const uint32_t rest = gpu::byte_permute(four.first >> 4, four.second >> 4, 0x6420) & 0x7F7F7F7Fu,
                 signs = gpu::byte_permute(four.first, four.second, 0x7531);
  return gpu::select_bits(0x80808080u, signs, rest + lowest);
}

// Bytes of a row that are stored at once, and where 16 of them lie in a piece.
inline constexpr int kStoredBytes = 256;
ECMV_GPU_DEVICE int place_in_piece(int row, int chunk) { return row * kStoredBytes + (chunk ^ (row & 7)) * 16; }

template <typename TileOf>
struct RowsPiece {
  static constexpr bool kFloats = TileOf::kFloats;
  static constexpr int kRowBytes = kStoredBytes, kBytes = kLanes * kRowBytes;
  static constexpr int kElementBytes = kFloats && !TileOf::kF8 ? 2 : 1, kCols = kRowBytes / kElementBytes;
  // A piece is a part of a segment, or some segments.
  static constexpr int kEndCols = kCols < TileOf::kSegmentCols ? kCols : TileOf::kSegmentCols;
  static_assert(TileOf::kSegmentCols % kEndCols == 0 && kCols % kEndCols == 0);

  gpu::Pointer<std::byte> bytes;  // [kBytes] of shared memory, at a multiple of 16
  uint32_t lowest;                // as in_all_elements() makes it

  static ECMV_GPU_DEVICE uint32_t in_all_elements(int lowest) {
    if (TileOf::kF8) return 0x08080808u * static_cast<uint32_t>(lowest);
    return kFloats ? in_both_halves(lowest) : 0x01010101u * (static_cast<uint32_t>(lowest) & 0xFF);
  }

  // Decodes segment s, whose codes must be there. Calls use(first column in the tile, columns) whenever the piece is
  // full, and at the tile's end; all lanes may read it then. `patches` is the tile's walk, from segment to segment.
  template <typename Use>
  ECMV_GPU_DEVICE void decode(TileOf& tile, const Table& table, int s, PatchWalk& patches, Use use) {
    gpu::uint4 chunk{};
    const auto put = [&](int quad) { put_chunk(tile, s, quad, chunk, patches, use); };
    if constexpr (TileOf::kF8) {
      tile.decode_one(table, s, [&](int, int quad, uint32_t exponents, uint32_t signs) {
        set_word(chunk, quad,
                 TileOf::kEights ? f8_bytes_of_eight(quad, exponents, signs, lowest)
                                 : f8_bytes(quad, exponents + lowest, signs));
        if (quad % 4 == 3) put(quad);
      });
    } else if constexpr (kFloats) {
      tile.decode_one(table, s, [&](int, int quad, uint32_t exponents, uint32_t signs) {
        FourFloats four{};
        if constexpr (TileOf::kEights) {
          four = join_eights<false>(quad, exponents, signs, 0);
          four = {four.first + lowest, four.second + lowest};
        } else {
          four = join(exponents, signs, lowest, TileOf::Bytes::kExponentUnit);
        }
        if (quad % 2 == 0) {
          chunk.x = four.first, chunk.y = four.second;
        } else {
          chunk.z = four.first, chunk.w = four.second;
          put(quad);
        }
      });
    } else {
      tile.decode_one(table, s, [&](int, int quad, uint32_t bytes) {
        set_word(chunk, quad, TileOf::Bytes::offsets(bytes, quad));
        if (quad % 4 == 3) put(quad);
      });
    }
  }

 private:
  static ECMV_GPU_DEVICE void set_word(gpu::uint4& chunk, int quad, uint32_t word) {
    if (quad % 4 == 0) chunk.x = word;
    if (quad % 4 == 1) chunk.y = word;
    if (quad % 4 == 2) chunk.z = word;
    if (quad % 4 == 3) chunk.w = word;
  }
  // `quad` is the last one of a chunk.
  template <typename Use>
  ECMV_GPU_DEVICE void put_chunk(TileOf& tile, int s, int quad, gpu::uint4 chunk, PatchWalk& patches, Use use) {
    const int end_col = s * TileOf::kSegmentCols + quad * 4 + 4, in_piece = (end_col - 1) % kCols;
    if (!kFloats && lowest != 0)
      chunk = gpu::uint4{gpu::add_bytes(chunk.x, lowest), gpu::add_bytes(chunk.y, lowest),
                         gpu::add_bytes(chunk.z, lowest), gpu::add_bytes(chunk.w, lowest)};
    *gpu::cast<gpu::uint4>(bytes + place_in_piece(LaneGroup::lane(), in_piece * kElementBytes / 16)) = chunk;
    if ((quad * 4 + 4) % kEndCols != 0) return;
    if (in_piece != kCols - 1 && s + 1 < tile.segments()) return;
    const int cols = in_piece + 1, first_col = end_col - cols;
    LaneGroup::sync();
    tile.apply_patches(patches, end_col, [&](int row, int col, int value) {
      const int in_row = col - first_col;
      const gpu::Pointer<std::byte> at = bytes + place_in_piece(row, in_row * kElementBytes / 16);
      if constexpr (TileOf::kF8) {
        const gpu::Pointer<uint8_t> element = gpu::cast<uint8_t>(at) + in_row % 16;
        *element = static_cast<uint8_t>((*element & 0x87) | value << 3);
      } else if constexpr (kFloats) {
        const gpu::Pointer<uint16_t> element = gpu::cast<uint16_t>(at) + in_row % 8;
        *element = static_cast<uint16_t>((*element & 0x807F) | value << 7);
      } else {
        const gpu::Pointer<int8_t> element = gpu::cast<int8_t>(at) + in_row % 16;
        *element = static_cast<int8_t>(*element + value);
      }
    });
    LaneGroup::sync();
    use(first_col, cols);
    LaneGroup::sync();
  }
};

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
