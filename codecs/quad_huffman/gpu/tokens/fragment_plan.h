// Shared by products of fragments: where tokens lie, how a block's shared memory is divided, and batches in parts.
#pragma once

#include <string>

#include "backends/gpu/products/warpgroup_units.h"
#include "codecs/quad_huffman/gpu/takes.h"
#include "codecs/quad_huffman/gpu/tokens/plan.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Where things lie in shared memory beside table and rings.
struct FragmentsLayout {
  int tokens = 0;  // [units, kUnitTokenBytes], or blocks from gpu::first_block() on
  int facts = 0;   // int8 and f8 elements, [2, tokens, 32]: each token's largest number's bits, and its sum
  int shares = 0, share_tiles = 0;  // blocks with the same rows, and column tiles of each
};

// The columns of the matrix that some column tiles of fragments cover; `all` of them exist.
ECMV_GPU_DEVICE TileCols matrix_cols(const TileCols& stored, int all) {
  return {2 * stored.first, all, 2 * stored.stored};
}

// --- host -----------------------------------------------------------------------------------------------------------

// How many tokens are multiplied at a time, and the bytes of a column of all of them in shared memory.
struct FragmentPolicy : RingPolicy {
  int tokens, col_bytes;
  bool warpgroup;  // four lane groups multiply together
  // The tokens' digits are multiplied with bytes of elements. Blocks then have the same number of row groups, and rings
  // are not lean.
  bool digits;
};

struct FragmentsPlan {
  BlockPlan plan;
  FragmentsLayout layout;
  int64_t blocks;
};
// `matrix` is the stored one.
inline FragmentsPlan plan_fragments(const FragmentPolicy& policy, const Code& code, datasets::Shape matrix,
                                    const backends::DeviceInfo& device) {
  const int64_t facts = scales_tokens(code.symbol_cols, code.form) ? int64_t{2} * policy.tokens * kLanes * 4 : 0,
                aligned = policy.warpgroup ? gpu::kBlockAlignment : 0;
  const SharesPlan of = plan_shares(
      policy, code, matrix, policy.digits ? kRingBytes : kLeanRingBytes, device,
      [&](int64_t share_tiles) { return facts + aligned + share_tiles * code.tile_cols * 2 * policy.col_bytes; },
      policy.warpgroup ? gpu::kWarpgroup : 1, policy.digits);
  return {of.plan,
          {.tokens = of.plan.inputs + static_cast<int>(facts),
           .facts = of.plan.inputs,
           .shares = of.shares,
           .share_tiles = of.share_tiles},
          of.blocks};
}

using FragmentsKernel = void (*)(Matrix, BlockPlan, FragmentsLayout, Hidden, int, gpu::Bf16Tokens);

struct MultiplyFragments {
  Matrix matrix;
  gpu::TokenParts<FragmentsPlan> parts;
  FragmentsKernel kernel;
  int cols;  // the matrix's
  int compute_units;
  bool early;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    multiply_parts(stream, args, parts, compute_units, early,
                   [&](const FragmentsPlan& of, const gpu::Bf16Tokens& tokens) {
                     gpu::launch(kernel, {of.blocks, of.plan.lane_groups * kLanes, of.plan.bytes, early}, stream,
                                 matrix, of.plan, of.layout, hidden_of(of.plan), cols, tokens);
                   });
  }
};

// `no_kernel` names the codes that the kernel is for, in the refusal of any other.
inline std::string refuses_fragments(const backends::CompressedView& view, const backends::DeviceInfo& device,
                                     const FragmentPolicy& policy, FragmentsKernel (*kernel_of)(const Code&, bool),
                                     const char* no_kernel) {
  if (std::string reason = refuses_empty(view); !reason.empty()) return reason;
  if (std::string reason = refuses_matrix(view, Layout::fragments, Elements::any); !reason.empty()) return reason;
  const Code code = code_of(view);
  if (kernel_of(code, policy.warpgroup) == nullptr) return no_kernel;
  if (plan_fragments(policy, code, stored_shape(view), device).blocks == 0)
    return "The table, the rings of its lane groups and a tile's columns of " + std::to_string(policy.tokens) +
           " tokens do not fit the shared memory of a thread block.";
  return refuses_patches(view);
}

inline backends::BoundKernel bind_fragments(const FragmentPolicy& policy, FragmentsKernel kernel, double offset,
                                            Layers layers, int batch, backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Code code = code_of(view);
  const backends::DeviceInfo& device = place.device();
  const auto parts = gpu::token_parts(batch, policy.tokens,
                                      [&](int) { return plan_fragments(policy, code, stored_shape(view), device); });
  backends::KernelFacts facts = facts_of_shares(view, code, parts, 2 * code.tile_cols);
  facts.rounding.offset += offset;
  return {MultiplyFragments{matrix_of(view, code), parts, kernel, static_cast<int>(view.shape.cols),
                            device.compute_units, gpu::have_early_launches(device)},
          facts};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
