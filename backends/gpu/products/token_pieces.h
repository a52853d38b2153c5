// Rows that lanes decode, as operands of products with tokens of bf16. A lane decodes a row, but the matrix unit wants
// a row from four lanes. So a lane group writes its decoded elements to a piece of shared memory of its own, 32 rows x
// 64 bytes, and reads them back as operands. A block has some groups of 32 rows, and several lane groups (`parts`) for
// each, with columns of their own. Their number is part * row_groups + row_group, so lane groups that multiply together
// have the same columns.
#pragma once

#include "backends/gpu/products/token_form.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

inline constexpr int kPieceRows = 32, kPieceRowBytes = 64, kPieceBytes = kPieceRows * kPieceRowBytes;
// Numbers between one token's sums and the next token's.
inline constexpr int kSumsPadding = 4;

// Where 16 bytes of a row lie. Eight lanes write to different banks at once, and lanes that read one row at once read
// different banks.
template <int kRowBytes>
ECMV_GPU_DEVICE int place_in_piece(int row, int chunk) {
  static_assert(kRowBytes == 64 || kRowBytes == 128 || kRowBytes == 256);
  return row * kRowBytes + (chunk ^ (kRowBytes == 64 ? row / 2 & 3 : row & 7)) * 16;
}

// A full piece, which all lanes of the group may read.
template <typename Elements>
struct TokenPiece {
  Pointer<const std::byte> bytes;

  // C += the piece's rows times the tokens' numbers; `tokens` is this lane's place in its token of the first tile.
  template <int kTokenTiles>
  ECMV_GPU_DEVICE void multiply(const Elements& elements, Pointer<const std::byte> tokens, int token_bytes, int batch,
                                float (&sums)[2][kTokenTiles][4]) const {
    const int g = Lanes<kTokenLanes>::lane() / 4;
    uint4 rows[4][1];
    load_rows(rows);
    ECMV_GPU_UNROLL
    for (int eighth = 0; eighth < Elements::kCols / 8; ++eighth) {
      uint4 a[2][2];
      ECMV_GPU_UNROLL
      for (int r = 0; r < 2; ++r) elements.operands(rows[2 * r][0], rows[2 * r + 1][0], eighth, a[r]);
      ECMV_GPU_UNROLL
      for (int tile = 0; tile < kTokenTiles; ++tile) {
        // Lanes whose token does not exist multiply the last one again; nobody stores the results.
        const int token = 8 * tile + g < batch ? 8 * tile + g : batch - 1;
        const uint4 x = *cast<const uint4>(tokens + (token * token_bytes + eighth * 16));
        ECMV_GPU_UNROLL
        for (int r = 0; r < 2; ++r) {
          multiply_tokens(a[r][0], uint2{x.x, x.y}, sums[r][tile]);
          multiply_tokens(a[r][1], uint2{x.z, x.w}, sums[r][tile]);
        }
      }
    }
  }
  // The same by four lane groups, with the blocks of a slice; `col` is the piece's first column in the slice.
  template <int kTokenTiles>
  ECMV_GPU_DEVICE void multiply_together(const Elements& elements, Pointer<const std::byte> slice, int col,
                                         float (&sums)[2][kTokenTiles][4]) const {
    uint4 rows[4][1];
    load_rows(rows);
    TokenForm<Elements, 16, 2, kTokenTiles, 1, true>::multiply_by_warpgroup(elements, rows, slice, col, sums);
  }

 private:
  // Rows g, g + 8, g + 16, g + 24.
  ECMV_GPU_DEVICE void load_rows(uint4 (&rows)[4][1]) const {
    const int lane = Lanes<kTokenLanes>::lane();
    const Pointer<const uint4> own = cast<const uint4>(bytes + place_in_piece<kPieceRowBytes>(lane / 4, lane % 4));
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) rows[i][0] = own[i * (8 * kPieceRowBytes / 16)];
  }
};

// A lane group's place in its block, and the block's place among the blocks with the same rows.
struct PartOfRows {
  int part, parts, row_group, row_groups, share;
  int64_t row_block;
};

// Adds up the parts' sums in order and stores the total row by row. All threads of the block call it when they are done
// with shared memory, where the sums take their place: [parts, batch, rows of the block]. Lanes write different banks
// at once.
template <int kTokenTiles>
ECMV_GPU_DEVICE void store_piece_sums(const float (&sums)[2][kTokenTiles][4], const PartOfRows& of,
                                      const Bf16Tokens& tokens) {
  const int lane = Lanes<kTokenLanes>::lane(), g = lane / 4, t = lane % 4, block_rows = of.row_groups * kPieceRows,
            token_sums = block_rows + kSumsPadding;
  const Pointer<float> all = cast<float>(shared_memory());
  ECMV_GPU_UNROLL
  for (int r = 0; r < 2; ++r) {
    ECMV_GPU_UNROLL
    for (int k = 0; k < kTokenTiles; ++k) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * k + 2 * t + i % 2;
        if (token < tokens.batch)
          all[(of.part * tokens.batch + token) * token_sums + of.row_group * kPieceRows + r * 16 + g + i / 2 * 8] =
              sums[r][k][i];
      }
    }
  }
  sync_block();
  const int64_t block_first = of.row_block * block_rows, rows_left = tokens.rows - block_first;
  const int own_rows = rows_left < block_rows ? static_cast<int>(rows_left) : block_rows;
  Pointer<float> y = tokens.y + (of.share * (tokens.batch * tokens.rows) + block_first);
  for (int token = 0; token < tokens.batch; ++token, y = y + tokens.rows) {
    for (int row = thread_index(); row < own_rows; row += block_size()) {
      float sum = all[token * token_sums + row];
      for (int p = 1; p < of.parts; ++p) sum += all[(p * tokens.batch + token) * token_sums + row];
      y[row] = sum;
    }
  }
}
// Shared memory for those sums.
inline int64_t piece_sums_bytes(int parts, int batch, int row_groups) {
  return int64_t{parts} * batch * (row_groups * kPieceRows + kSumsPadding) * 4;
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
