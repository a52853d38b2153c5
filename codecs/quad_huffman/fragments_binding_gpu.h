// Host side of the products of fragments: how a block's shared memory is divided, and batches in parts.
#pragma once

#include <algorithm>
#include <string>

#include "codecs/quad_huffman/token_binding_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

struct FragmentPolicy : RingPolicy {
  FragmentMultiply multiply;
  bool together() const { return multiply != FragmentMultiply::alone; }
  int tokens() const {
    return multiply == FragmentMultiply::digits ? gpu::kDigitTokens : kFragmentTile * fragment_tiles(together());
  }
  // Bytes of a column of all tokens in shared memory.
  int64_t col_bytes() const { return multiply == FragmentMultiply::digits ? gpu::kDigitColBytes : tokens() * 2; }
};
inline constexpr FragmentPolicy kFragmentPolicies[] = {{{{"waves32"}, 32, 32, 1, true}, FragmentMultiply::alone},
                                                       {{{"together32"}, 32, 32, 1, true}, FragmentMultiply::together},
                                                       {{{"digits24"}, 24, 32, 1, true}, FragmentMultiply::digits}};

struct FragmentsPlanned {
  Plan plan;
  FragmentsLayout layout;
  int64_t blocks;
};
// `matrix` is the stored one.
inline FragmentsPlanned plan_fragments(const FragmentPolicy& policy, const Code& code, datasets::Shape matrix,
                                       int compute_units, int64_t shared_bytes) {
  const int64_t tokens = policy.tokens(),
                facts = scales_tokens(code.symbol_cols, code.form) ? 2 * tokens * kLanes * 4 : 0,
                aligned = policy.together() ? gpu::kBlockAlignment : 0;
  const SharesPlanned of = plan_shares(
      policy, code, matrix, policy.multiply == FragmentMultiply::digits ? kRingBytes : kLeanRingBytes, compute_units,
      shared_bytes,
      [&](int64_t share_tiles) { return facts + aligned + share_tiles * code.tile_cols * 2 * policy.col_bytes(); },
      policy.together() ? gpu::kWarpgroup : 1, policy.multiply == FragmentMultiply::digits);
  return {of.plan,
          {.tokens = of.plan.inputs + static_cast<int>(facts),
           .facts = of.plan.inputs,
           .shares = of.shares,
           .share_tiles = of.share_tiles},
          of.blocks};
}

struct MultiplyFragments {
  Matrix matrix;
  Code code;
  datasets::Shape stored;
  int cols;  // of the matrix
  const FragmentPolicy* policy;
  int compute_units;
  int64_t shared_bytes;
  bool early;
  int batch;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    multiply_parts(
        stream, args, batch, policy->tokens(), compute_units, early,
        [&](int) { return plan_fragments(*policy, code, stored, compute_units, shared_bytes); },
        [&](const FragmentsPlanned& planned, const gpu::Bf16Tokens& tokens) {
          gpu::launch(fragments_kernel(code, policy->multiply),
                      {planned.blocks, planned.plan.lane_groups * kLanes, planned.plan.bytes, early}, stream, matrix,
                      planned.plan, planned.layout, hidden_of(planned.plan), cols, tokens);
        });
  }
};

inline std::string refuses_fragments(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                                     const backends::Policy& named) {
  if (matrix.shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (is_plain(matrix)) return kRefusesPlain;
  if (!is_fragments(matrix)) return kRefusesRows;
  const auto& policy = named.as<FragmentPolicy>();
  const Code code = code_of(matrix);
  if (fragments_kernel(code, policy.multiply) == nullptr)
    return policy.multiply == FragmentMultiply::digits
               ? "The kernel is for int8 elements in symbols of eight and folded cells, with 2 to 4 raw bits."
               : "The kernel is for bf16 elements in symbols of four or eight columns, f8 elements, and int8 elements "
                 "in folded "
                 "cells with 2 to 4 raw bits.";
  if (plan_fragments(policy, code, stored_shape(matrix), device.compute_units, device.shared_bytes).blocks == 0)
    return "The table, the rings of its lane groups and a tile's columns of " + std::to_string(policy.tokens()) +
           " tokens do not fit the shared memory of a thread block.";
  return refuses_patches(matrix);
}

// What is cut from a token, 2^-22 of its largest number a column, times an element less `lowest`, patches included: below n 2^-22 of
// the sum of the token's numbers that many times, where the bound has n 2^-24.
inline double offset_of_digits(const Code& code) { return 4.0 * (128 + std::abs(code.lowest)); }

inline backends::BoundKernel bind_fragments(const backends::Policy& named, Layers layers, int batch,
                                            backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Code code = code_of(view);
  const datasets::Shape stored = stored_shape(view);
  const backends::DeviceInfo& device = place.device();
  const auto& policy = named.as<FragmentPolicy>();
  const FragmentsLayout layout = plan_fragments(policy, code, stored, device.compute_units, device.shared_bytes).layout;
  backends::ProductRounding rounding =
      rounding_of_shares(view, code, layout.share_tiles * code.tile_cols * 2, layout.shares);
  if (policy.multiply == FragmentMultiply::digits) rounding.offset += offset_of_digits(code);
  return {MultiplyFragments{matrix_of(view, code), code, stored, static_cast<int>(view.shape.cols), &policy,
                            device.compute_units, device.shared_bytes, gpu::have_early_launches(device), batch},
          {.scratch_bytes = gpu::share_scratch_bytes(layout.shares, view.shape.rows), .rounding = rounding}};
}

// --- four lane groups together -----------------------------------------------------------------------------------

struct TogetherPlanned {
  Plan plan;
  TogetherLayout layout;
};
// Of all numbers of lane groups, whole warpgroups, the one whose blocks are done first, each multiprocessor having one block. No
// lane groups where nothing fits.
inline TogetherPlanned plan_together(const RingPolicy& policy, const Code& code, datasets::Shape stored,
                                     int token_tiles, int compute_units, int64_t shared_bytes, bool clusters) {
  constexpr int64_t kAlignment = gpu::kBlockAlignment;
  // What a tile takes beside its part of a multiprocessor's time, in those parts. (H200, 16384 x 16384, 64 tokens: a tile of 16 lane
  // groups 40.6 us, one of 24 53.2.)
  constexpr int kOwnTime = 10;
  const int64_t groups = row_groups(stored.rows), tiles = column_tiles(stored.cols, code.tile_cols);
  const int64_t slice = token_tiles == 2 ? kSliceBytes<2> : kSliceBytes<8>, slices = 2 * slice + kAlignment;
  TogetherPlanned best{};
  int64_t least = 0;
  for (int lane_groups = std::min(policy.lane_groups, most_together(code.symbol_cols)); lane_groups >= gpu::kWarpgroup;
       lane_groups -= gpu::kWarpgroup) {
    const int64_t row_blocks = (groups + lane_groups - 1) / lane_groups,
                  wanted = std::clamp<int64_t>(compute_units / row_blocks, 1, tiles),
                  share_tiles = (tiles + wanted - 1) / wanted, shares = (tiles + share_tiles - 1) / share_tiles,
                  rounds = (row_blocks * shares + compute_units - 1) / compute_units,
                  time = rounds * share_tiles * (lane_groups + kOwnTime);
    const int64_t rings = int64_t{lane_groups} * kLeanRingBytes, lists = int64_t{lane_groups} * kListedBytes;
    const int64_t before_tokens = rings + lists;
    TogetherPlanned planned{};
    Plan& plan = planned.plan;
    if (!place_table(plan, code, policy.copies, shared_bytes - before_tokens - slices)) continue;
    if (best.plan.lane_groups != 0 && time >= least) continue;
    least = time;
    plan.lane_groups = lane_groups;
    plan.lane_groups_of_rows = 1;
    planned.layout.patches = plan.rings + static_cast<int>(rings);
    planned.layout.tokens = plan.rings + static_cast<int>(before_tokens);
    planned.layout.share_tiles = static_cast<int>(share_tiles);
    planned.layout.shares = static_cast<int>(shares);
    planned.layout.pairs = clusters && shares % 2 == 0;
    plan.bytes = planned.layout.tokens + static_cast<int>(slices);
    best = planned;
  }
  return best;
}

inline constexpr RingPolicy kTogetherPolicies[] = {{{"together24"}, 24, 32, 1, true}};

// 64 tokens at a time, or 16 where those do not fit.
struct MultiplyTogether {
  Matrix matrix;
  Code code;
  datasets::Shape stored;
  const RingPolicy* policy;
  int compute_units;
  int64_t shared_bytes;
  bool early, clusters;
  int batch;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    const auto plan = [&](int tokens) {
      return plan_together(*policy, code, stored, gpu::token_tiles(tokens, true), compute_units, shared_bytes,
                           clusters);
    };
    multiply_parts(stream, args, batch, plan(64).plan.lane_groups != 0 ? 64 : 16, compute_units, early, plan,
                   [&](const TogetherPlanned& planned, gpu::Bf16Tokens tokens) {
                     const int tiles = gpu::token_tiles(tokens.batch, true), shares = planned.layout.shares,
                               of_block = planned.plan.lane_groups;
                     gpu::launch(together_kernel(code, tiles),
                                 {(matrix.row_groups + of_block - 1) / of_block * shares, of_block * kLanes,
                                  planned.plan.bytes, early, false, planned.layout.pairs ? 2 : 1},
                                 stream, matrix, planned.plan, planned.layout, hidden_of(planned.plan), tokens);
                   });
  }
};

inline std::string refuses_together(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                                    const backends::Policy& policy) {
  if (matrix.shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (is_plain(matrix)) return kRefusesPlain;
  if (!is_fragments(matrix)) return kRefusesRows;
  const Code code = code_of(matrix);
  if (together_kernel(code, 8) == nullptr)
    return "The kernel is for bf16 elements in symbols of four or eight, and f8 elements in symbols of eight.";
  if (plan_together(policy.as<RingPolicy>(), code, stored_shape(matrix), 2, device.compute_units, device.shared_bytes,
                    gpu::have_clusters(device))
          .plan.lane_groups == 0)
    return "The table, the rings of four lane groups and two slices of 16 tokens do not fit the shared memory of a "
           "block.";
  return refuses_patches(matrix);
}

inline backends::BoundKernel bind_together(const backends::Policy& named, Layers layers, int batch,
                                           backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Code code = code_of(view);
  const datasets::Shape stored = stored_shape(view);
  const backends::DeviceInfo& device = place.device();
  const auto& policy = named.as<RingPolicy>();
  const auto planned = [&](int tiles) {
    return plan_together(policy, code, stored, tiles, device.compute_units, device.shared_bytes,
                         gpu::have_clusters(device))
        .layout;
  };
  const TogetherLayout few = planned(2), many = planned(8);
  const int shares = std::max(few.shares, many.shares),
            share_cols = std::max(few.share_tiles, many.share_tiles) * code.tile_cols * 2;
  return {MultiplyTogether{matrix_of(view, code), code, stored, &policy, device.compute_units, device.shared_bytes,
                           gpu::have_early_launches(device), gpu::have_clusters(device), batch},
          {.scratch_bytes = gpu::share_scratch_bytes(shares, view.shape.rows),
           .rounding = rounding_of_shares(view, code, share_cols, shares)}};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
