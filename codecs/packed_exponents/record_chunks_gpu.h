// Records in products with many tokens (pipeline_gpu.h).
#pragma once

#include "codecs/packed_exponents/pipeline_stages_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {

// Records of a tile, 32 at a time, as 64 more columns: for each record the element and, taken away again, what stands
// in for it, beside its token's number, twice. Two lane groups look records up and gather their tokens while others
// multiply, and those multiply the chunk as they do steps. (H200, 16384 x 16384, 128 tokens: 154 us; where the lane
// groups that multiply looked records up, 181 to 226, on other devices. NOTES.md has more.)
class RecordChunk {
 public:
  static constexpr int kRecords = 32, kListBytes = kRecords * 8, kGatherers = 2, kGatesBytes = 2 * gpu::kGateBytes;
  // Bytes of a chunk's tokens, then the list.
  ECMV_GPU_BOTH static constexpr int bytes(int token_tiles) {
    return token_tiles * 8 * gpu::kBlockTokenBytes + kListBytes;
  }
  ECMV_GPU_DEVICE RecordChunk(gpu::Pointer<std::byte> tokens, gpu::Pointer<std::byte> list,
                              gpu::Pointer<std::byte> gates)
      : tokens_(tokens), list_(list), gates_(gates) {}
  ECMV_GPU_DEVICE void init(uint32_t readers) const {
    full().init(kGatherers);
    free().init(readers);
  }
  // Chunks of a share of `records`.
  static ECMV_GPU_DEVICE int count(uint32_t records, int share, int shares) {
    const int all = static_cast<int>((records + kRecords - 1) / kRecords);
    return (all - share + shares - 1) / shares;
  }

  // A lane group that gathers, number `gatherer`, writes its part of the next chunk, this lane one record.
  // numbers_of(i) are its column's of tokens 8 i to 8 i + 7.
  template <int kTokenTiles, int kAtOnce, typename NumbersOf>
  ECMV_GPU_DEVICE void write(int gatherer, int row, uint32_t numbers, NumbersOf numbers_of) {
    constexpr int kParts = kTokenTiles / kGatherers;
    static_assert(kParts % kAtOnce == 0);
    const int lane = LaneGroup::lane();
    ECMV_GPU_NO_UNROLL
    for (int begin = 0; begin < kParts; begin += kAtOnce) {
      const int first = gatherer * kParts + begin;
      gpu::uint4 parts[kAtOnce];
      ECMV_GPU_UNROLL
      for (int i = 0; i < kAtOnce; ++i) parts[i] = numbers_of(first + i);
      if (begin == 0) {
        free().wait(phase_ ^ 1);
        if (gatherer == 0) *gpu::cast<gpu::uint2>(list_ + lane * 8) = gpu::uint2{static_cast<uint32_t>(row), numbers};
      }
      ECMV_GPU_UNROLL
      for (int i = 0; i < kAtOnce; ++i) {
        ECMV_GPU_UNROLL
        for (int k = 0; k < 8; ++k) {
          const uint32_t x = gpu::word_of(parts[i], k / 2) >> (k % 2 * 16) & 0xFFFFu, number = numbers != 0 ? x : 0u;
          // An infinite x makes what stands in infinite with the element's sign, and must not take it away.
          *gpu::cast<uint32_t>(tokens_ + gpu::pair_place(8 * (first + i) + k, lane)) =
              (number & 0x7FFFu) == 0x7F80u ? number : number * 0x10001u;
        }
      }
    }
    gpu::order_before_units();
    LaneGroup::sync();
    if (lane == 0) full().arrive();
    phase_ ^= 1;
  }
  // Lane group number `own` of the block adds the next chunk to its rows' sums; nothing else is multiplied meanwhile.
  template <int kTokenTiles>
  ECMV_GPU_DEVICE void multiply(int own, float (&sums)[kTokenTiles][4]) {
    const int lane = LaneGroup::lane(), t = lane % 4;
    const uint32_t row = static_cast<uint32_t>(own * kBlockRows + 2 * (lane / 4));
    full().wait(phase_);
    gpu::uint4 a[gpu::kUnitsOfBlock];
    ECMV_GPU_UNROLL
    for (int unit = 0; unit < gpu::kUnitsOfBlock; ++unit) {
      const auto record = [&](int k) { return *gpu::cast<const gpu::uint2>(list_ + (8 * unit + 4 * k + t) * 8); };
      const gpu::uint2 first = record(0), second = record(1);
      const auto in_row = [](const gpu::uint2& of, uint32_t wanted) { return of.x == wanted ? of.y : 0u; };
      a[unit] = {in_row(first, row), in_row(first, row + 1), in_row(second, row), in_row(second, row + 1)};
    }
    gpu::begin_products();
    ECMV_GPU_UNROLL
    for (int unit = 0; unit < gpu::kUnitsOfBlock; ++unit)
      gpu::multiply_block(a[unit], gpu::SharedBlocks(tokens_), 0, unit, sums);
    gpu::commit_products();
    gpu::wait_for_products();
    LaneGroup::sync();
    if (lane == 0) free().arrive();
    phase_ ^= 1;
  }

 private:
  gpu::Pointer<std::byte> tokens_, list_, gates_;
  int phase_ = 0;
  ECMV_GPU_DEVICE gpu::Gate full() const { return gpu::Gate(gates_); }
  ECMV_GPU_DEVICE gpu::Gate free() const { return gpu::Gate(gates_ + gpu::kGateBytes); }
};

// Number of a tile's first record, or of its last block's end.
ECMV_GPU_DEVICE uint64_t record_bound(const FieldsOnGpu& matrix, int64_t block) {
  const int64_t blocks = (matrix.rows + kBlockRows - 1) / kBlockRows;
  return matrix.blocks[block < blocks ? block : blocks];
}

// A column's numbers of a block of tokens, eight at a time, from the tokens as they are: a sector of 32 bytes for each.
// Loads without a condition are under way together. Where there is no token, the last one again, as zero.
struct ColumnOfRows {
  gpu::Pointer<const uint16_t> column;  // of the block's first token
  int64_t stride;
  int last;  // token of the block

  ECMV_GPU_DEVICE gpu::uint4 operator()(int part) const {
    uint32_t pairs[4];
    ECMV_GPU_UNROLL
    for (int k = 0; k < 4; ++k) {
      const auto number = [&](int token) {
        const uint32_t x = column[(token < last ? token : last) * stride];
        return token <= last ? x : 0u;
      };
      pairs[k] = number(8 * part + 2 * k) | number(8 * part + 2 * k + 1) << 16;
    }
    return {pairs[0], pairs[1], pairs[2], pairs[3]};
  }
};

// A lane group that gathers: all of its lanes call this.
template <int kTokenTiles>
ECMV_GPU_DEVICE void gather_records(const FieldsOnGpu& matrix, const PipelinePlan& plan, RecordChunk chunk,
                                    const gpu::Bf16Tokens& tokens, int gatherer) {
  const int lane = LaneGroup::lane(), blocks = plan.warpgroups * gpu::kWarpgroup;
  gpu::wait_for_previous();
  for (int number = first_tile(); number < plan.tiles; number += next_tile()) {
    const PipelineTile tile(plan, number);
    const uint64_t begin = record_bound(matrix, tile.first_block);
    // Lane l has the end of block l of the tile.
    const auto own_end =
        static_cast<uint32_t>(record_bound(matrix, tile.first_block + (lane < blocks ? lane : blocks - 1) + 1) - begin);
    const uint32_t count = LaneGroup::pick(own_end, blocks - 1);
    const int chunks = RecordChunk::count(count, tile.share, plan.shares);
    // A record, then the words that have its element, then its tokens: the first two are asked for while those of the
    // chunks before are on their way.
    const auto number_of = [&](int i) {
      return static_cast<uint32_t>((tile.share + i * plan.shares) * RecordChunk::kRecords + lane);
    };
    const auto record_of = [&](int i) {
      return number_of(i) < count ? matrix.records[static_cast<int64_t>(begin + number_of(i))] : 0u;
    };
    struct Found {
      int block = 0;
      uint32_t record = 0;
      BlockPlace::ElementWords words{};
    };
    const auto find = [&](int i, uint32_t record) {
      Found found{.record = record};
      for (int k = 0; k < blocks; ++k) found.block += LaneGroup::shuffle(own_end, k) <= number_of(i) ? 1 : 0;
      const Outlier outlier(record);
      if (number_of(i) < count)
        found.words = BlockPlace(matrix, tile.first_block + found.block).load(outlier.row, outlier.col);
      return found;
    };
    if (chunks == 0) continue;
    Found next = find(0, record_of(0));
    uint32_t record = record_of(1);
    for (int i = 0; i < chunks; ++i) {
      const Found found = next;
      next = find(i + 1, record);
      record = record_of(i + 2);
      const Outlier outlier(found.record);
      uint32_t numbers = 0;
      if (number_of(i) < count) {
        const uint32_t stored = BlockPlace(matrix, tile.first_block + found.block).stored(found.words, outlier.col);
        numbers = outlier.element(stored) | (stored ^ 0x8000u) << 16;
      }
      LaneGroup::sync();
      const int row = numbers != 0 ? found.block * kBlockRows + outlier.row : -1;
      if (plan.transposes) {
        const int64_t column = int64_t{tile.token_block} * matrix.cols + outlier.col;
        const auto from = gpu::cast<const gpu::uint4>(tokens.blocks + column * (kTokenTiles * 16));
        chunk.template write<kTokenTiles, 4>(gatherer, row, numbers, [&](int part) { return from[part]; });
      } else {
        const int first = tile.token_block * 8 * kTokenTiles;
        chunk.template write<kTokenTiles, 2>(gatherer, row, numbers,
                                             ColumnOfRows{tokens.x + (first * tokens.x_stride + outlier.col),
                                                          tokens.x_stride, tokens.batch - first - 1});
      }
    }
  }
}

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
