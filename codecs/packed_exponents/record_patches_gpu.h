// Records in products with many tokens (pipeline_gpu.h): a lane group puts the exponents of its rows' records into the
// elements that it made, before they are multiplied. A record names an element of one lane, whose sign and mantissa are
// there already, so nothing is looked up and nothing is added to sums afterwards.
#pragma once

#include "codecs/packed_exponents/pipeline_stages_gpu.h"
#include "codecs/packed_exponents/raised_elements_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

// The records of a block of 16 rows. They come by row, and a step needs those of its columns: each step compares the
// first 128 of them, four a lane, and reads the others again. (Of 16384 columns some 26 are outside the window.)
class RecordPatches {
 public:
  // Asks for those of a block; past the last block there are none.
  ECMV_GPU_DEVICE void load(const FieldsOnGpu& matrix, int64_t block) {
    const bool there = block < (matrix.rows + kBlockRows - 1) / kBlockRows;
    const uint64_t begin = there ? matrix.blocks[block] : 0, end = there ? matrix.blocks[block + 1] : 0;
    first_ = matrix.records + static_cast<int64_t>(begin);
    count_ = static_cast<int>(end - begin);
    ECMV_GPU_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      held_[i] = record(32 * i);
      group_[i] = 32 * i + LaneGroup::lane() < count_ ? Outlier(held_[i]).col / kGroupColumns : -1;
    }
  }
  // Whether elements of these 128 columns may be outside.
  ECMV_GPU_DEVICE bool any(int group) const {
    bool found = group_[0] == group;
    if (count_ > 32) {
      ECMV_GPU_UNROLL
      for (int i = 1; i < kHeld; ++i) found |= group_[i] == group;
    }
    return LaneGroup::any(found) || count_ > 32 * kHeld;
  }
  // Patches elements of columns from 32 `strip` on, two units for 32 of them (ExponentElements::operands).
  template <int kUnits>
  ECMV_GPU_DEVICE void patch(const RaisedElements& elements, int strip, gpu::uint4 (&units)[kUnits]) const {
    constexpr int kStripsBits = kUnits == 8 ? 2 : 1;
    static_assert(kUnits == 2 << kStripsBits);
    ECMV_GPU_NO_UNROLL
    for (int first = 0; first < count_; first += 32) {
      uint32_t own = held_[0];
      ECMV_GPU_UNROLL
      for (int i = 1; i < kHeld; ++i) own = first == 32 * i ? held_[i] : own;
      if (first >= 32 * kHeld) own = record(first);
      ECMV_GPU_NO_UNROLL
      for (LaneGroup::Mask left = in(own, first, strip >> kStripsBits, 5 + kStripsBits); left != 0; left &= left - 1) {
        const Outlier outlier(LaneGroup::shuffle(own, gpu::popcount(~left & (left - 1))));
        const int of_units = outlier.col / 32 % (kUnits / 2);
        ECMV_GPU_UNROLL
        for (int i = 0; i < kUnits / 2; ++i)
          if (of_units == i) patch(outlier, elements, units[2 * i], units[2 * i + 1]);
      }
    }
  }

 private:
  static constexpr int kHeld = 4;
  gpu::Pointer<const uint32_t> first_{};
  int count_ = 0;
  uint32_t held_[kHeld] = {};
  int group_[kHeld] = {};  // of 128 columns, of each; -1 where there is none

  ECMV_GPU_DEVICE uint32_t record(int first) const {
    const int i = first + LaneGroup::lane();
    return i < count_ ? first_[i] : 0u;
  }
  // The lanes whose record, number `first` plus the lane, is in columns number `part`, 2^bits of them.
  ECMV_GPU_DEVICE LaneGroup::Mask in(uint32_t record, int first, int part, int bits) const {
    const uint32_t differs = (record ^ static_cast<uint32_t>(part) << bits) & (kMostCols - 1) >> bits << bits;
    return LaneGroup::ballot(differs == 0 && first + LaneGroup::lane() < count_);
  }
  static ECMV_GPU_DEVICE void patch(const Outlier& outlier, const RaisedElements& elements, gpu::uint4& one,
                                    gpu::uint4& two) {
    const bool mine = LaneGroup::lane() == outlier.row / 2 * 4 + outlier.col % 8 / 2;
    const int at = mine ? outlier.row % 2 * 4 + outlier.col % 32 / 8 : -1, shift = outlier.col % 2 * 16;
    uint32_t* const words[8] = {&one.x, &one.z, &two.x, &two.z, &one.y, &one.w, &two.y, &two.w};
    if (elements.keeps_mantissa(outlier)) {
      const uint32_t change = elements.change(outlier) << shift;
      ECMV_GPU_UNROLL
      for (int i = 0; i < 8; ++i) *words[i] ^= at == i ? change : 0u;
      return;
    }
    uint32_t word = 0;
    ECMV_GPU_UNROLL
    for (int i = 0; i < 8; ++i) word = at == i ? *words[i] : word;
    const uint32_t element = elements.element(outlier, word >> shift & 0xFFFFu);
    word = (word & 0xFFFF0000u >> shift) | element << shift;
    ECMV_GPU_UNROLL
    for (int i = 0; i < 8; ++i) *words[i] = at == i ? word : *words[i];
  }
};

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
