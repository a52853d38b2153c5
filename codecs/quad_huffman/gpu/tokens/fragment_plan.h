// Shared by products of fragments: where tokens lie, how a block's shared memory is divided, and batches in parts.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>

#include "backends/gpu/products/token_parts.h"
#include "backends/gpu/products/token_shares.h"
#include "backends/gpu/products/warpgroup_units.h"
#include "codecs/quad_huffman/fragment_division.h"
#include "codecs/quad_huffman/gpu/takes.h"
#include "codecs/quad_huffman/gpu/tokens/rounding.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Where things lie in shared memory beside table and rings.
struct FragmentsLayout {
  int tokens = 0;   // [units, kUnitTokenBytes], or blocks or slices from gpu::first_block() on
  int facts = 0;    // int8 and f8 elements, [2, tokens, 32]: each token's largest number's bits, and its sum
  int patches = 0;  // fragments_many.cu: [kListedBytes] for each lane group
  int shares = 0, share_tiles = 0;  // blocks with the same rows, and column tiles of each
  bool pairs = false;               // two shares each are a cluster, which adds their sums
};

// The columns of the matrix that some column tiles of fragments cover; `all` of them exist.
ECMV_GPU_DEVICE TileCols matrix_cols(const TileCols& stored, int all) {
  return {2 * stored.first, all, 2 * stored.stored};
}

// --- host -----------------------------------------------------------------------------------------------------------

// The most lane groups that share a row.
inline constexpr int kMostTokenGroups = 16;

// How many tokens are multiplied at a time, and the bytes of a column of all of them in shared memory.
struct FragmentPolicy : RingPolicy {
  int tokens, col_bytes;
  bool warpgroup;  // four lane groups multiply together
  // The tokens' digits are multiplied with bytes of elements. Blocks then have the same number of row groups, and rings
  // are not lean.
  bool digits;
  int least_groups, least_of_rounds;  // as of FewTokens (fragment_division.h)
};

// Takes the columns of the matrix and the tokens last.
using FragmentsKernel = void (*)(Matrix, BlockPlan, FragmentsLayout, Hidden, int, gpu::Bf16Tokens);

struct FragmentsPlan {
  BlockPlan plan = {};  // the facts of tokens and the tokens follow the rings
  FragmentsLayout layout = {};
  int64_t blocks = 0;  // none where nothing fits
  FragmentsKernel kernel = nullptr;
  bool rounds = false;  // the kernel stores results of bf16 where it has whole sums
};
// Shared memory for a block that leaves what the system takes for a block of the launch that adds shares, so that this
// launch and the next product begin early. (H200, bf16, K = 8, T = 12, tiles of 512 columns, 1 and 16 tokens, us,
// without it and with it, the adding launch in blocks of 256 and of 128 threads: 14336 x 4096 25.0, 29.0 and 24.8,
// 28.9; 4096 x 12288 22.8, 25.0 and 22.6, 24.7.)
inline int64_t shared_bytes_beside_adding(const backends::DeviceInfo& device) {
  return device.shared_bytes - kSystemBytes;
}

// Plans a product of up to 16 tokens. `matrix` is the stored one.
inline FragmentsPlan plan_fragments(const FragmentPolicy& policy, const Header& code, datasets::Shape matrix,
                                    const backends::DeviceInfo& device, FragmentsKernel kernel) {
  const int64_t facts = scales_tokens(code.symbol_cols, code.form) ? int64_t{2} * policy.tokens * kLanes * 4 : 0,
                ring_bytes = policy.digits ? kRingBytes : kLeanRingBytes,
                tile_bytes = int64_t{tile_cols_of(code)} * 2 * policy.col_bytes,
                fixed_bytes = facts + (policy.warpgroup ? gpu::kBlockAlignment : 0);
  FragmentsPlan planned{.kernel = kernel};
  BlockPlan& plan = planned.plan;
  const auto division = divide_few(row_groups(matrix.rows), column_tiles(matrix.cols, tile_cols_of(code)),
                                   {.most_groups = policy.lane_groups,
                                    .multiple = policy.warpgroup ? gpu::kWarpgroup : 1,
                                    .least_groups = policy.least_groups,
                                    .least_of_rounds = policy.least_of_rounds,
                                    .equal_rows = policy.digits,
                                    .shared_bytes = shared_bytes_beside_adding(device),
                                    .fixed_bytes = fixed_bytes,
                                    .bytes_of_group = ring_bytes,
                                    .bytes_of_tile = tile_bytes,
                                    .compute_units = device.compute_units},
                                   [&](int64_t bytes) { return copies_of_table(code, policy.copies, bytes); });
  if (!division) return planned;
  const int64_t rings = division->lane_groups * ring_bytes, inputs = fixed_bytes + division->share_tiles * tile_bytes;
  place_table(plan, code, policy.copies, shared_bytes_beside_adding(device) - rings - inputs);
  plan.lane_groups = division->lane_groups;
  plan.lane_groups_of_rows = 1;
  plan.inputs = plan.rings + static_cast<int>(rings);
  plan.bytes = plan.inputs + static_cast<int>(inputs);
  planned.layout = {.tokens = plan.inputs + static_cast<int>(facts),
                    .facts = plan.inputs,
                    .shares = static_cast<int>(division->shares),
                    .share_tiles = static_cast<int>(division->share_tiles)};
  planned.blocks = division->row_blocks * division->shares;
  return planned;
}

// Sums of a result that are left for the launch after the product.
inline int sums_of(const FragmentsLayout& layout) { return layout.pairs ? layout.shares / 2 : layout.shares; }

// The facts of a product in parts. Substitutes are multiplied too, and subtracted again. With int8 elements the sum of
// the tokens' numbers is subtracted as well, times the offset of the codes. Tokens of f8 elements in symbols of four
// are scaled so that the largest number is about 2^100; numbers that are too small then are lost, and the sum is scaled
// back.
inline backends::KernelFacts facts_of_shares(const backends::CompressedView& view, const Header& code,
                                             const gpu::TokenParts<FragmentsPlan>& parts) {
  const int shares = std::max(parts.whole.layout.shares, parts.rest.layout.shares),
            cols = std::max(parts.whole.layout.share_tiles, parts.rest.layout.share_tiles) * 2 * tile_cols_of(code);
  backends::ProductRounding rounding = gpu::token_rounding(cols, shares + kMostTokenGroups);
  if (has_floats(view)) {
    rounding = rounding_of_floats(view, rounding, cols);
    if (scales_tokens(code.symbol_cols, code.form))
      rounding.more_roundings += 2, rounding.offset = std::max(rounding.offset, 0x1p-100);
  } else {
    rounding.more_roundings += 4 * cols;
    // A patched element is coded as another one of as many bits.
    const int most = (most_high(code.symbol_cols, code.form) + 1) << cell_bits(code.form);
    rounding.offset = 2.0 * (std::abs(code.lowest) + most);
  }
  return {.scratch_bytes = gpu::share_scratch_bytes(shares, view.shape.rows),
          .rounding = rounding,
          .takes_callers_tokens = true,
          // Sums of several shares are rounded by the launch that adds them.
          .stores_bf16 = parts.whole.rounds || (sums_of(parts.whole.layout) > 1 &&
                                                (parts.rest.blocks == 0 || sums_of(parts.rest.layout) > 1)),
          .takes_fewer_tokens = true};
}

// Sums of several shares go to the scratch; a launch after the product adds them up, or those of the clusters.
struct MultiplyFragments {
  Matrix matrix;
  gpu::TokenParts<FragmentsPlan> parts;
  int cols;  // the matrix's
  int compute_units;
  bool early;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    parts.each(args, [&](int first, int batch, int, const FragmentsPlan& of) {
      gpu::Bf16Tokens tokens = gpu::bf16_tokens_of(args, batch, first);
      const int of_cluster = of.layout.pairs ? 2 : 1, sums = sums_of(of.layout);
      if (sums > 1) tokens.store_shares(args.scratch);
      gpu::launch(of.kernel, {of.blocks, of.plan.lane_groups * kLanes, of.plan.bytes, early, false, of_cluster}, stream,
                  matrix, of.plan, of.layout, hidden_of(of.plan), cols, tokens);
      gpu::enqueue_add_shares(stream, args, first, batch, sums, compute_units, early);
    });
  }
};

// A product's plan for so many tokens.
using PlanTokens = FragmentsPlan (*)(const backends::Policy&, const backends::CompressedView&,
                                     const backends::DeviceInfo&, int tokens);

// `no_kernel` names the codes that the kernel is for, in the refusal of any other.
inline std::string refuses_fragments(const backends::CompressedView& view, const backends::DeviceInfo& device,
                                     const backends::Policy& named, PlanTokens plan, const char* no_kernel) {
  if (std::string reason = refuses_empty(view); !reason.empty()) return reason;
  if (std::string reason = refuses_matrix(view, Layout::fragments, Elements::any); !reason.empty()) return reason;
  const FragmentsPlan planned = plan(named, view, device, 1);
  if (planned.kernel == nullptr) return no_kernel;
  if (planned.blocks == 0)
    return "The table, the rings of its lane groups and the tokens do not fit the shared memory of a thread block.";
  return refuses_patches(view);
}

// Multiplies `most` tokens at a time. The sums are off by `offset` more (backends::ProductRounding).
inline backends::BoundKernel bind_fragments(const backends::Policy& named, Layers layers, int batch,
                                            backends::Place& place, PlanTokens plan, int most, double offset = 0) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Header code = header_of(view);
  const backends::DeviceInfo& device = place.device();
  const auto parts = gpu::token_parts(batch, most, [&](int tokens) { return plan(named, view, device, tokens); });
  backends::KernelFacts facts = facts_of_shares(view, code, parts);
  facts.rounding.offset += offset;
  return {MultiplyFragments{matrix_of(view, code), parts, static_cast<int>(view.shape.cols), device.compute_units,
                            gpu::have_early_launches(device)},
          facts};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
