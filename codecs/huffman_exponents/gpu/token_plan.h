// Host side of the products with tokens of bf16: divides rows and columns among blocks and their lane groups, lays out
// a block's shared memory, and chooses the kernel for a number of tokens.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/kernel.h"
#include "codecs/huffman_exponents/gpu/tokens.h"

namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE::segments_gpu {

// Lane groups of a block, bits of the table's index, the most blocks that share rows, and whether four lane groups
// multiply as one (gpu/warpgroup_units.h). Each of the first three policies is the fastest for some batch and shape on
// an H100.
struct SegmentTokenPolicy : backends::Policy {
  int lane_groups, bits, shares;
  bool together;
};
inline constexpr SegmentTokenPolicy kTokenPolicies[] = {
    {{"groups16"}, 16, 13, 1, false},
    {{"groups16_bits14"}, 16, 14, 1, false},
    {{"warpgroup16_shares4"}, 16, 13, 4, true},
    {{"groups4_bits12"}, 4, 12, 1, false},  // this one and the next fit 64 KiB, as every supported device has
    {{"warpgroup4_bits12_shares2"}, 4, 12, 2, true},
};
inline constexpr int kMostTokenLaneGroups = 16;
// Tokens at a time where each lane group multiplies by itself.
inline constexpr int kMostTokensAlone = 16;

// Row groups of a block. Each multiprocessor gets one block, whatever the batch.
inline TokenLayout divide_tokens(const SegmentTokenPolicy& policy, datasets::Shape shape, int segment_cols,
                                 int compute_units) {
  const int64_t groups = (shape.rows + kGroupRows - 1) / kGroupRows,
                segments = (shape.cols + segment_cols - 1) / segment_cols,
                most = std::min<int64_t>(policy.shares, segments);
  TokenLayout of{};
  of.bits = policy.bits;
  of.row_groups = policy.together ? gpu::kWarpgroup : 1;
  while (of.row_groups < policy.lane_groups && groups * most > int64_t{of.row_groups} * compute_units)
    of.row_groups *= 2;
  const int64_t row_blocks = (groups + of.row_groups - 1) / of.row_groups,
                shares = std::clamp<int64_t>(compute_units / row_blocks, 1, most),
                share_segments = (segments + shares - 1) / shares,
                parts = std::min<int64_t>(policy.lane_groups / of.row_groups, share_segments);
  of.part_segments = static_cast<int>((share_segments + parts - 1) / parts);
  of.parts = static_cast<int>((share_segments + of.part_segments - 1) / of.part_segments);
  const int64_t of_share = int64_t{of.parts} * of.part_segments;
  of.shares = static_cast<int>((segments + of_share - 1) / of_share);
  return of;
}

struct SizedLayout {
  TokenLayout layout;
  int64_t bytes;  // of shared memory; 0 where the batch does not fit
};

// Slices are as long as fits: all lane groups wait for each other where one ends.
inline SizedLayout place_tokens(const SegmentTokenPolicy& policy, datasets::Shape shape, int segment_cols, int batch,
                                int compute_units, int64_t shared_bytes) {
  if (!policy.together && batch > kMostTokensAlone) return {};
  TokenLayout of = divide_tokens(policy, shape, segment_cols, compute_units);
  const int64_t lane_groups = int64_t{of.row_groups} * of.parts,
                rings_end = (int64_t{4} << of.bits) + lane_groups * kRingBytes,
                pieces_end = rings_end + lane_groups * gpu::kPieceBytes,
                slices = (pieces_end + gpu::kBlockAlignment - 1) / gpu::kBlockAlignment * gpu::kBlockAlignment,
                sums = gpu::piece_sums_bytes(of.parts, batch, of.row_groups);
  of.pieces = static_cast<int>(rings_end);
  of.slices = static_cast<int>(slices);
  for (of.slice_cols = 4 * kStepCols; of.slice_cols >= kStepCols; of.slice_cols /= 2) {
    // The tokens of a tile of eight lie in different banks.
    of.token_bytes = 2 * of.slice_cols + gpu::kTokenPadding<gpu::Bf16Elements>;
    const int64_t part_bytes = policy.together ? int64_t{of.slice_cols / gpu::kBlockCols} * 8 *
                                                     gpu::token_tiles(batch, true) * gpu::kBlockTokenBytes
                                               : int64_t{batch} * of.token_bytes,
                  bytes =
                      std::max(slices + 2 * of.parts * part_bytes, sums) + (policy.together ? gpu::kBlockAlignment : 0);
    if (segment_cols % of.slice_cols == 0 && bytes <= shared_bytes) return {of, bytes};
  }
  return {};
}

using TokenKernel = void (*)(Matrix, TokenLayout, gpu::Bf16Tokens);

template <bool kBf16>
TokenKernel token_kernel(bool together, int batch) {
  constexpr int kMostThreads = kMostTokenLaneGroups * kGroupRows;
  switch (gpu::token_tiles(batch, together)) {
    case 1: return token_product<kBf16, 1, false, kMostThreads>;
    case 2:
      return together ? token_product<kBf16, 2, true, kMostThreads> : token_product<kBf16, 2, false, kMostThreads>;
    default: return token_product<kBf16, 8, true, kMostThreads>;
  }
}

}  // namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE::segments_gpu
