// Records in products with many tokens (pipeline_gpu.h): a lane group puts the exponents of its rows' records into the
// elements that it made, before they are multiplied. A record names an element of one lane, whose sign and mantissa are
// there already, so nothing is looked up and nothing is added to sums afterwards.
#pragma once

#include "codecs/packed_exponents/pipeline_stages_gpu.h"
#include "codecs/packed_exponents/raised_elements_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

// The records of a block of 16 rows. They come by row, and a piece of 32 kStrips columns needs those of its own: it
// compares the first 128 of them, four a lane, and reads the others again. (Of 16384 columns some 26 are outside the
// window.) Four lane groups wait for each other at each product, and three in five steps of 64 rows have a record, so
// what one costs counts: each lane makes keys of its records once, and a key needs few instructions. (4096 x 4096, 128
// tokens, H200: 15.4 us where pieces took records apart, 14.3 with keys, 13.5 with fewer instructions, 12.1 for
// elements without records.)
template <int kStrips>
class RecordPatches {
 public:
  static constexpr int64_t kMostCols = packed_exponents::kMostCols - kGroupCols;
  // Asks where those of a block are; past the last block there are none. Two trips to memory are some 2500 cycles at
  // a product's beginning (4096 x 4096, H200), so find(), load() and sort() are for a caller to spread.
  ECMV_GPU_DEVICE void find(const FieldsOnGpu& matrix, int64_t block) {
    const bool there = block < (matrix.rows + kBlockRows - 1) / kBlockRows;
    begin_ = there ? matrix.blocks[block] : 0, end_ = there ? matrix.blocks[block + 1] : 0;
  }
  // Asks for them.
  ECMV_GPU_DEVICE void load(const FieldsOnGpu& matrix) {
    first_ = matrix.records + static_cast<int64_t>(begin_);
    count_ = static_cast<int>(end_ - begin_);
    ECMV_GPU_UNROLL
    for (int i = 0; i < kHeld; ++i) held_[i] = record(32 * i);
  }
  // Makes keys of them; they are there then.
  ECMV_GPU_DEVICE void sort(const RaisedElements& elements) {
    ECMV_GPU_UNROLL
    for (int i = 0; i < kHeld; ++i)
      if (i == 0 || count_ > 32 * i) held_[i] = key(elements, held_[i], 32 * i);
  }
  // The lanes whose first records are in a piece, and whether others may be.
  struct Found {
    LaneGroup::Mask first = 0;
    bool more = false;
    ECMV_GPU_DEVICE bool any() const { return first != 0 || more; }
  };
  ECMV_GPU_DEVICE Found of_piece(int piece) const {
    Found found{LaneGroup::ballot(in(held_[0], piece)), false};
    if (count_ > 32) {
      bool more = false;
      ECMV_GPU_UNROLL
      for (int i = 1; i < kHeld; ++i) more |= in(held_[i], piece);
      found.more = LaneGroup::any(more) || count_ > 32 * kHeld;
    }
    return found;
  }
  // Patches a piece, two units for 32 columns (ExponentElements::operands).
  ECMV_GPU_DEVICE void patch(const RaisedElements& elements, int piece, Found found,
                             gpu::uint4 (&units)[2 * kStrips]) const {
    uint32_t own = held_[0];
    LaneGroup::Mask left = found.first;
    ECMV_GPU_NO_UNROLL
    for (int first = 0;;) {
      ECMV_GPU_NO_UNROLL
      for (; left != 0; left &= left - 1) {
        const int lane = gpu::popcount(~left & (left - 1));
        patch(elements, LaneGroup::shuffle(own, lane), first + lane, units);
      }
      first += 32;
      if (!found.more || first >= count_) return;
      ECMV_GPU_UNROLL
      for (int i = 1; i < kHeld; ++i) own = first == 32 * i ? held_[i] : own;
      if (first >= 32 * kHeld) own = key(elements, record(first), first);
      left = LaneGroup::ballot(in(own, piece));
    }
  }

 private:
  // A key: the exponent's change, 0 where elements.keeps_mantissa() is false; the word of a lane's eight and the lane;
  // the half of the word; the strip of 32 columns.
  static constexpr int kHeld = 4, kWordBit = 8, kHalfBit = 16, kStripBit = 17,
                       kPieceBit = kStripBit + (kStrips == 4 ? 2 : 1);
  static_assert(kStrips == 4 || kStrips == 2);

  uint64_t begin_ = 0, end_ = 0;
  gpu::Pointer<const uint32_t> first_{};
  int count_ = 0;
  uint32_t held_[kHeld] = {};  // records, and keys once sorted

  ECMV_GPU_DEVICE uint32_t record(int first) const {
    const int i = first + LaneGroup::lane();
    return i < count_ ? first_[i] : 0u;
  }
  // The key of record number `first` plus the lane.
  ECMV_GPU_DEVICE uint32_t key(const RaisedElements& elements, uint32_t record, int first) const {
    if (first + LaneGroup::lane() >= count_) return ~0u;  // of a strip that no matrix of kMostCols has
    const Outlier outlier(record);
    const int lane = outlier.row / 2 * 4 + outlier.col % 8 / 2, word = outlier.row % 2 * 4 + outlier.col % 32 / 8;
    return static_cast<uint32_t>(outlier.col / 32) << kStripBit | static_cast<uint32_t>(outlier.col % 2) << kHalfBit |
           static_cast<uint32_t>(lane * 8 + word) << kWordBit |
           (elements.keeps_mantissa(outlier) ? elements.change(outlier) >> 7 : 0u);
  }
  static ECMV_GPU_DEVICE bool in(uint32_t key, int piece) {
    return (key ^ static_cast<uint32_t>(piece) << kPieceBit) < 1u << kPieceBit;
  }
  // `number`: of the record with this key.
  ECMV_GPU_DEVICE void patch(const RaisedElements& elements, uint32_t key, int number,
                             gpu::uint4 (&units)[2 * kStrips]) const {
    const uint32_t shift = (key >> kHalfBit & 1u) * 16,
                   at = (key >> kWordBit & 0xFFu) ^ static_cast<uint32_t>(LaneGroup::lane() * 8);
    const int strip = static_cast<int>(key >> kStripBit) % kStrips;
    const auto each_word = [&](auto visit) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < kStrips; ++i) {
        if (strip != i) continue;
        gpu::uint4 &one = units[2 * i], &two = units[2 * i + 1];
        uint32_t* const words[8] = {&one.x, &one.z, &two.x, &two.z, &one.y, &one.w, &two.y, &two.w};
        ECMV_GPU_UNROLL
        for (uint32_t k = 0; k < 8; ++k) visit(*words[k], k);
      }
    };
    uint32_t change = (key & 0xFFu) << 7 << shift;
    if (change == 0) {  // whatever it changes
      uint32_t word = 0;
      each_word([&](uint32_t& of, uint32_t k) { word = at == k ? of : word; });
      const uint32_t stored = word >> shift & 0xFFFFu;
      change = (stored ^ elements.element(Outlier(first_[number]), stored)) << shift;
    }
    each_word([&](uint32_t& word, uint32_t k) { xor_if_equal(word, at, k, change); });
  }
  // Two instructions, where the compiler takes three.
  static ECMV_GPU_DEVICE void xor_if_equal(uint32_t& word, uint32_t a, uint32_t b, uint32_t with) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__)
    asm("{\n\t.reg .pred p;\n\tsetp.eq.u32 p, %1, %2;\n\t@p xor.b32 %0, %0, %3;\n\t}"
        : "+r"(word)
        : "r"(a), "r"(b), "r"(with));
#else
    if (a == b) word ^= with;
#endif
  }
};

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
