// The product of a tile's rows and tokens by a lane group that multiplies (pipeline_gpu.h): 16 rows, in pieces of a
// step or half of one. While a piece is multiplied, the next one's elements are made.
#pragma once

#include "codecs/packed_exponents/record_patches_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

// The lines of a lane group's rows, three a row, or two in the last group of columns if it has no more. A box has two
// lines a row of 128 bytes, and rows g and g + 8 of the matrix units are rows 2 g and 2 g + 1 of the matrix: so the
// same piece of eight rows lies in different banks.
struct DealtFields {
  // Where piece `piece` of a line lies.
  static ECMV_GPU_DEVICE int place(int line, int piece) {
    const int row = line / 2;
    return row * gpu::kBlockTokenBytes + ((line % 2 * 4 + piece) ^ (row & 7)) * 16;
  }
  // Lines of rows that begin with line `first` of the box; rows past the last one repeat it.
  static ECMV_GPU_DEVICE void load(gpu::Pointer<const std::byte> box, int lines_of_row, int first, int last_row,
                                   gpu::uint4 (&rows)[2][3]) {
    const int lane = LaneGroup::lane();
    for (int below = 0; below < 2; ++below)
      for (int i = 0; i < 3; ++i) {
        const auto place_of = [&](int row, int piece) {
          const int of_block = 2 * row + below;
          return place(first + (of_block < last_row ? of_block : last_row) * lines_of_row + i, piece);
        };
        rows[below][i] = gpu::load_dealt(box, place_of(lane % 8, lane / 8), place_of);
      }
  }

  // Whole blocks: rows 2 r and 2 r + 1 take lines 6 r to 6 r + 5, and lines 2 n and 2 n + 1 lie 64 bytes from each
  // other. Places come through a shuffle, because ptxas would compute them again in every step.
  int places[3];
  ECMV_GPU_DEVICE DealtFields() {
    const int lane = LaneGroup::lane();
    ECMV_GPU_UNROLL
    for (int i = 0; i < 3; ++i) {
      places[i] = LaneGroup::shuffle(place(6 * (lane % 8) + 2 * i, lane / 8), lane);
    }
  }
  ECMV_GPU_DEVICE void load(gpu::Pointer<const std::byte> box, gpu::uint4 (&rows)[2][3]) const {
    ECMV_GPU_UNROLL
    for (int i = 0; i < 6; ++i)
      rows[i / 3][i % 3] = gpu::load_dealt(box, places[i / 2] ^ (i % 2 * 64),
                                           [&](int row, int piece) { return place(6 * row + i, piece); });
  }
};

// Elements as they are, made before whatever follows.
ECMV_GPU_DEVICE void keep(gpu::uint4& elements) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(elements.x), "+r"(elements.y), "+r"(elements.z), "+r"(elements.w)::"memory");
#else
  (void)elements;
#endif
}

template <int kTokenTiles>
class TileProduct {
 public:
  using Records = RecordPatches<2 * halves_at_once(kTokenTiles)>;
  float sums[kTokenTiles][4];

  // Lane group number `own` of the block.
  ECMV_GPU_DEVICE TileProduct(const FieldsOnGpu& matrix, const RaisedElements& elements, const Stages& fields,
                              const Stages& tokens, int own)
      : matrix_(matrix), elements_(elements), fields_(fields), tokens_(tokens), own_(own) {}

  // `records`: of the tile's rows; they are on the way.
  ECMV_GPU_DEVICE void run(const PipelineTile& tile, Records& records) {
    const int64_t block = tile.first_block + own_, last_block = (matrix_.rows - 1) / kBlockRows;
    last_row_ = block < last_block ? kBlockRows - 1 : static_cast<int>(matrix_.rows - 1 - last_block * kBlockRows);
    end_ = tile.first_group + tile.groups;
    whole_end_ = last_row_ == kBlockRows - 1 ? (matrix_.cols + kGroupColumns / 2 - 1) / kGroupColumns : 0;
    ECMV_GPU_UNROLL
    for (float(&of_tokens)[4] : sums) {
      ECMV_GPU_UNROLL
      for (float& sum : of_tokens) sum = 0;
    }
    Piece pieces[2];
    fields_there_ = false;
    load(tile.first_group);
    make_elements(0, pieces[0]);
    records.sort(elements_);
    found_ = records.of_piece(tile.first_group * 2 / kHalves);
    finish(tile.first_group, 0, pieces[0], records);
    ECMV_GPU_NO_UNROLL
    for (int group = tile.first_group; group < end_; group += kHalves) {
      multiply(pieces[0], pieces[1], kHalves == 1 ? group : group + 1, 2 - kHalves, records);
      if (kHalves == 2 && group + 1 == end_) break;
      multiply(pieces[1], pieces[0], group + kHalves, 0, records);
    }
    ECMV_GPU_UNROLL
    for (float(&of_tokens)[4] : sums) {
      ECMV_GPU_UNROLL
      for (float& sum : of_tokens) sum *= elements_.restore;
    }
  }

 private:
  static constexpr int kHalves = halves_at_once(kTokenTiles);
  struct Piece {
    gpu::uint4 units[kHalves * gpu::kUnitsOfBlock];
  };

  const FieldsOnGpu& matrix_;
  const RaisedElements& elements_;
  const Stages &fields_, &tokens_;
  const DealtFields whole_;
  int own_, last_row_ = 0, end_ = 0, whole_end_ = 0;  // groups from whole_end_ on have not all lines
  Stages::Turn field_turn_, token_turn_;
  gpu::uint4 lines_[2][3];
  typename Records::Found found_;
  bool fields_there_ = false, tokens_there_ = false;

  ECMV_GPU_DEVICE void load(int group) {
    fields_.wait_full(field_turn_, fields_there_);
    const gpu::Pointer<std::byte> box = fields_.place(field_turn_) + own_ * kBlockFieldBytes;
    if (group < whole_end_)
      whole_.load(box, lines_);
    else  // with an odd number of rows, a group's first line may lie in the middle of a box's row
      DealtFields::load(box, matrix_.cols - group * kGroupColumns > kGroupColumns / 2 ? 3 : 2,
                        (last_row_ + 1) & group & 1, last_row_, lines_);
  }
  // Makes the elements of a piece, of a step's halves from `half` on.
  ECMV_GPU_DEVICE void make_elements(int half, Piece& piece) const {
    ECMV_GPU_UNROLL
    for (int i = 0; i < 2 * kHalves; ++i) {
      const int strip = 2 * half + i;
      gpu::uint4 units[2];
      ExponentElements::operands(elements_.chunk(lines_[0], strip), elements_.chunk(lines_[1], strip), 0, units);
      piece.units[2 * i] = units[0], piece.units[2 * i + 1] = units[1];
    }
  }
  // Puts records into them. After a step's last piece the next step's fields come.
  ECMV_GPU_DEVICE void finish(int group, int half, Piece& piece, const Records& records) {
    const int number = (2 * group + half) / kHalves;
    if (found_.any()) records.patch(elements_, number, found_, piece.units);
    found_ = records.of_piece(number + 1);
    // The place of this step's fields is free once elements were made of them: an arrival does not wait for loads
    // (ldmatrix) that were only begun, and right after those some blocks of 16 rows were wrong (NOTES.md).
    if (half + kHalves == 2) {
      ECMV_GPU_UNROLL
      for (gpu::uint4& unit : piece.units) keep(unit);
      fields_.leave(field_turn_);
      if (group + 1 < end_) load(group + 1);
    }
  }
  // Multiplies a piece, and makes the next one meanwhile, of `group` from `half` on, if that is in the tile. Products
  // are waited for before the next ones begin: where elements of products under way are made in branches, ptxas waits
  // for every single one (C7513).
  ECMV_GPU_DEVICE void multiply(const Piece& piece, Piece& next, int group, int half, const Records& records) {
    tokens_.wait_full(token_turn_, tokens_there_);
    const gpu::SharedBlocks boxes(tokens_.place(token_turn_));
    gpu::begin_products();
    ECMV_GPU_UNROLL
    for (int i = 0; i < kHalves; ++i) {
      ECMV_GPU_UNROLL
      for (int unit = 0; unit < gpu::kUnitsOfBlock; ++unit)
        gpu::multiply_block(piece.units[i * gpu::kUnitsOfBlock + unit], boxes,
                            i * (8 * kTokenTiles * gpu::kBlockTokenBytes), unit, sums);
    }
    gpu::commit_products();
    // Asked now, answers are there when they are needed.
    tokens_there_ = tokens_.is_full(token_turn_.next());
    fields_there_ = fields_.is_full(field_turn_.next());
    if (group < end_) {
      make_elements(half, next);
      finish(group, half, next, records);
    }
    gpu::wait_for_products();
    tokens_.leave(token_turn_);
  }
};

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
