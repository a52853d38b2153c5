// Host side of every kernel: a matrix on the device, and how its table, rings and x share a block's shared memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "codecs/quad_huffman/format/layout.h"
#include "codecs/quad_huffman/format/patches.h"
#include "codecs/quad_huffman/fragment_division.h"
#include "codecs/quad_huffman/gpu/prologue.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

inline Matrix matrix_of(const backends::CompressedView& view, const Header& code) {
  const auto bytes = [&](int section) { return view.sections[section].bytes.data(); };
  const datasets::Shape stored = stored_shape(view);
  const int base = eights_base(code.form, code.lowest);
  const int64_t patch_count = static_cast<int64_t>(view.sections[kPatches].bytes.size()) / patch_bytes(code.form);
  return {.table = reinterpret_cast<const uint32_t*>(bytes(kTable)),
          .streams = {.tiles = reinterpret_cast<const gpu::uint4*>(bytes(kTiles)),
                      .schedule = reinterpret_cast<const uint8_t*>(bytes(kSchedule)),
                      .codes = bytes(kCodes),
                      .raw = bytes(kRaw),
                      .patches = reinterpret_cast<const uint16_t*>(bytes(kPatches)),
                      .signs = reinterpret_cast<const uint8_t*>(bytes(kPatches) + kPatchWordBytes * patch_count),
                      .patch_count = patch_count,
                      .raw_row_bytes = raw_bytes_of_cols(code, stored.cols),
                      .row_segments = static_cast<int>(row_segments(stored.cols, code.symbol_cols)),
                      .tile_segments = code.tile_segments},
          .entries = 1 << code.table_bits,
          .exponent_quads = has_exponent_quads(code.symbol_cols, code.form),
          .lowest = code.lowest,
          .base = static_cast<uint32_t>(base) << 7 | static_cast<uint32_t>(base) << 23,
          .power = eights_lowest(code.form, code.lowest) - base,
          .row_groups = row_groups(stored.rows),
          .rows = view.shape.rows,
          .cols = static_cast<int>(stored.cols),
          .column_tiles = static_cast<int>(column_tiles(stored.cols, tile_cols_of(code)))};
}

// Says whether the elements are bf16 or f8; their products are `matmul`.
inline bool has_floats(const backends::CompressedView& view) { return view.type != datasets::ElementType::i8; }

// Lane groups a block, copies of the table at most, blocks that are to fit on a multiprocessor.
struct RingPolicy : backends::Policy {
  int lane_groups, copies, blocks;
};

// Shared memory that the system takes of every block.
inline constexpr int64_t kSystemBytes = 1024;

inline int64_t bytes_of_block(int64_t shared_bytes, const RingPolicy& policy) {
  return (shared_bytes + kSystemBytes) / policy.blocks - kSystemBytes;
}

// The bytes of a column of x in shared memory; none if a kernel keeps it elsewhere. Each lane group has its own sums of
// floats.
enum class InputType { none = 0, int8 = 1, float32 = 4 };

// As many copies of the table as fit into `bytes`, a power of two, at most `most`; 0: not one.
inline int copies_of_table(const Header& code, int most, int64_t bytes) {
  int copies = table_copies(code.table_bits, most, bytes);
  while (code.rotated && copies != 0 && copies != 2 && copies != 8) copies /= 2;
  return copies;
}

// Gives the table these copies; rings follow it. Returns false if there is none. A kernel may have several tables.
inline bool place_table(BlockPlan& plan, const Header& code, int most, int64_t bytes, int tables = 1) {
  const int copies = copies_of_table(code, most, bytes / tables);
  if (copies == 0) return false;
  plan.copies = copies;
  plan.copy_shift = std::countr_zero(static_cast<unsigned>(copies));
  plan.rings = static_cast<int>(tables * (int64_t{4} << code.table_bits) * copies);
  return true;
}

inline Hidden hidden_of(const BlockPlan& plan) { return {.ring_bits = kRingBits + 2 + plan.copy_shift}; }

// As many lane groups share rows as there are tiles for, and a block has a multiple of that.
inline int lane_groups_of_rows(int lane_groups, int64_t tiles) {
  int of_rows = 1;
  while (of_rows * 2 <= lane_groups && of_rows < tiles && lane_groups % (of_rows * 2) == 0) of_rows *= 2;
  return of_rows;
}

// 0 lane groups where not even two fit with their rings, table and x. Each has `own_bytes` more, in place of x.
inline BlockPlan plan_of(const RingPolicy& policy, const Header& code, datasets::Shape matrix, InputType inputs,
                         int64_t block_bytes, int64_t own_bytes = 0) {
  const int64_t shared_bytes = bytes_of_block(block_bytes, policy);
  const int64_t tiles = column_tiles(matrix.cols, tile_cols_of(code)),
                x_bytes = static_cast<int>(inputs) * row_segments(matrix.cols, code.symbol_cols) *
                          segment_cols(code.symbol_cols);
  for (int lane_groups = policy.lane_groups; lane_groups >= 2; lane_groups /= 2) {
    const int of_rows = lane_groups_of_rows(lane_groups, tiles);
    const int64_t rings = int64_t{lane_groups} * kRingBytes, input_bytes = x_bytes + lane_groups * own_bytes,
                  row_sums = inputs == InputType::float32 ? lane_groups : lane_groups / of_rows,
                  sums = (row_sums * kLanes * 4 + 16) / 16 * 16;
    BlockPlan plan{.lane_groups = lane_groups, .lane_groups_of_rows = of_rows};
    if (!place_table(plan, code, policy.copies, shared_bytes - rings - sums - input_bytes)) continue;
    plan.sums = plan.rings + static_cast<int>(rings);
    plan.inputs = plan.sums + static_cast<int>(sums);
    plan.bytes = plan.inputs + static_cast<int>(input_bytes);
    return plan;
  }
  return {};
}

using backends::Layers;

// The launch of a product whose blocks have plan.lane_groups_of_rows lane groups for each of their row groups.
inline gpu::LaunchShape launch_shape_of(const Matrix& matrix, const BlockPlan& plan,
                                        const backends::DeviceInfo& device) {
  const int64_t rows_of_block = int64_t{plan.lane_groups} / plan.lane_groups_of_rows * kLanes;
  return {(matrix.rows + rows_of_block - 1) / rows_of_block, plan.lane_groups * kLanes, plan.bytes,
          gpu::have_early_launches(device)};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
