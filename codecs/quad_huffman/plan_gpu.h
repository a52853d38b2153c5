// Host side of every kernel: what a matrix is on the device, how its table, rings and x share a block's shared memory,
// and the kernel's instance for its columns a symbol, raw bits and symbols a window.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "codecs/quad_huffman/block_gpu.h"
#include "codecs/quad_huffman/format.h"
#include "codecs/quad_huffman/fragments.h"
#include "codecs/quad_huffman/strips.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

struct Code {
  int symbol_cols, form, table_bits, tile_cols, lowest;
  bool rotated = false;
};

inline Code code_of(const backends::CompressedView& view) {
  const auto byte = [&](int i) { return std::to_integer<int>(view.sections[kHeader].host[i]); };
  const int symbol_cols = 1 << (byte(5) & 3);
  return {symbol_cols,
          byte(0),
          byte(1),
          stored_tile_cols(byte(4), symbol_cols),
          static_cast<int16_t>(byte(2) | byte(3) << 8),
          is_rotated(view)};
}

inline Matrix matrix_of(const backends::CompressedView& view, const Code& code) {
  const auto bytes = [&](int section) { return view.sections[section].bytes.data(); };
  const datasets::Shape stored = stored_shape(view);
  const int base = eights_base(code.form, code.lowest);
  const int64_t patch_count = static_cast<int64_t>(view.sections[kPatches].bytes.size()) / patch_bytes(code.form, true);
  return {.table = reinterpret_cast<const uint32_t*>(bytes(kTable)),
          .streams = {.tiles = reinterpret_cast<const gpu::uint4*>(bytes(kTiles)),
                      .schedule = reinterpret_cast<const uint8_t*>(bytes(kSchedule)),
                      .codes = bytes(kCodes),
                      .raw = bytes(kRaw),
                      .patches = reinterpret_cast<const uint16_t*>(bytes(kPatches)),
                      .signs = reinterpret_cast<const uint8_t*>(bytes(kPatches) + kPatchWordBytes * patch_count),
                      .patch_count = patch_count,
                      .row_segments = static_cast<int>(row_segments(stored.cols, code.symbol_cols)),
                      .tile_segments = code.tile_cols / segment_cols(code.symbol_cols)},
          .entries = 1 << code.table_bits,
          .exponent_quads = has_exponent_quads(code.symbol_cols, code.form),
          .lowest = code.lowest,
          .base = static_cast<uint32_t>(base) << 7 | static_cast<uint32_t>(base) << 23,
          .power = eights_lowest(code.form, code.lowest) - base,
          .row_groups = row_groups(stored.rows),
          .rows = view.shape.rows,
          .cols = static_cast<int>(stored.cols),
          .column_tiles = static_cast<int>(column_tiles(stored.cols, code.tile_cols))};
}

// Whether the elements are bf16 or f8; those products are `matmul`.
inline bool has_floats(const backends::CompressedView& view) { return view.type != datasets::ElementType::i8; }

// Lane groups a block, copies of the table at most, blocks that are to fit on a multiprocessor, early launches.
struct RingPolicy : backends::Policy {
  int lane_groups, copies, blocks;
  bool early;
};

// Shared memory that every block needs besides its own.
inline constexpr int64_t kSystemBytes = 1024;

inline int64_t bytes_of_block(int64_t shared_bytes, const RingPolicy& policy) {
  return (shared_bytes + kSystemBytes) / policy.blocks - kSystemBytes;
}

// What a kernel keeps of x in shared memory. Sums of floats are each lane group's own.
enum class InputType { none, int8, float32 };
constexpr int bytes_of_column(InputType inputs) {
  switch (inputs) {
    case InputType::none: return 0;
    case InputType::int8: return 1;
    case InputType::float32: return 4;
  }
  return 0;
}

// Gives the table as many copies as fit into `bytes`, a power of two, `most` at most; rings follow it. False if not even
// one fits. A kernel may have several tables. Two codes and Table's shift fit a window of 32 bits.
inline bool place_table(Plan& plan, const Code& code, int most, int64_t bytes, int tables = 1) {
  for (int copies = most; copies >= 1; copies /= 2) {
    const int64_t table = tables * (int64_t{4} << code.table_bits) * copies;
    if (table > bytes || 2 * code.table_bits + 2 + std::countr_zero(static_cast<unsigned>(copies)) > 32) continue;
    if (code.rotated && copies != 2 && copies != 8) continue;
    plan.copies = copies;
    plan.copy_shift = std::countr_zero(static_cast<unsigned>(copies));
    plan.rings = static_cast<int>(table);
    return true;
  }
  return false;
}

inline Hidden hidden_of(const Plan& plan) { return {.ring_bits = kRingBits + 2 + plan.copy_shift}; }

// As many lane groups share rows as there are tiles for; a block's are a multiple of them.
inline int lane_groups_of_rows(int lane_groups, int64_t tiles) {
  int of_rows = 1;
  while (of_rows * 2 <= lane_groups && of_rows < tiles && lane_groups % (of_rows * 2) == 0) of_rows *= 2;
  return of_rows;
}

// 0 lane groups if table, rings and x of not even two fit. `own_bytes` are more of each lane group, in place of x.
inline Plan plan_of(const RingPolicy& policy, const Code& code, datasets::Shape matrix, InputType inputs,
                    int64_t block_bytes, int64_t own_bytes = 0) {
  const int64_t shared_bytes = bytes_of_block(block_bytes, policy);
  const int64_t tiles = column_tiles(matrix.cols, code.tile_cols),
                x_bytes = bytes_of_column(inputs) * row_segments(matrix.cols, code.symbol_cols) *
                          segment_cols(code.symbol_cols);
  for (int lane_groups = policy.lane_groups; lane_groups >= 2; lane_groups /= 2) {
    const int of_rows = lane_groups_of_rows(lane_groups, tiles);
    const int64_t rings = int64_t{lane_groups} * kRingBytes, input_bytes = x_bytes + lane_groups * own_bytes,
                  row_sums = inputs == InputType::float32 ? lane_groups : lane_groups / of_rows,
                  sums = (row_sums * kLanes * 4 + 16) / 16 * 16;
    Plan plan{.lane_groups = lane_groups, .lane_groups_of_rows = of_rows};
    if (!place_table(plan, code, policy.copies, shared_bytes - rings - sums - input_bytes)) continue;
    plan.sums = plan.rings + static_cast<int>(rings);
    plan.inputs = plan.sums + static_cast<int>(sums);
    plan.bytes = plan.inputs + static_cast<int>(input_bytes);
    return plan;
  }
  return {};
}

template <int kValue>
using Constant = std::integral_constant<int, kValue>;

// f(columns of a symbol, form, symbols a window), all constants: the kernel for a shape, a pointer of one type for all.
template <typename F>
auto for_code(const Code& code, F f) {
  using Kernel = decltype(f(Constant<4>{}, Constant<0>{}, Constant<2>{}));
  const auto for_window = [&](auto symbol_cols, auto form) -> Kernel {
    constexpr bool kFolds = is_folded(form);
    if constexpr (raw_bits_of(form) < least_raw_bits(symbol_cols, kFolds) ||
                  raw_bits_of(form) > most_raw_bits(symbol_cols, kFolds)) {
      return nullptr;
    } else {
      if (code.table_bits <= 10) return f(symbol_cols, form, Constant<3>{});
      return f(symbol_cols, form, Constant<2>{});
    }
  };
  const auto for_form = [&](auto symbol_cols) -> Kernel {
    switch (code.form) {
      case 0: return for_window(symbol_cols, Constant<0>{});
      case 1: return for_window(symbol_cols, Constant<1>{});
      case 2: return for_window(symbol_cols, Constant<2>{});
      case 3: return for_window(symbol_cols, Constant<3>{});
      case 4: return for_window(symbol_cols, Constant<4>{});
      case 5: return for_window(symbol_cols, Constant<5>{});
      case 6: return for_window(symbol_cols, Constant<6>{});
      case 7: return for_window(symbol_cols, Constant<7>{});
      case kFolded + 1: return for_window(symbol_cols, Constant<kFolded + 1>{});
      case kFolded + 2: return for_window(symbol_cols, Constant<kFolded + 2>{});
      case kFolded + 3: return for_window(symbol_cols, Constant<kFolded + 3>{});
      case kFolded + 4: return for_window(symbol_cols, Constant<kFolded + 4>{});
      case kFolded + 5: return for_window(symbol_cols, Constant<kFolded + 5>{});
    }
    return nullptr;
  };
  switch (code.symbol_cols) {
    case 2: return for_form(Constant<2>{});
    case 4: return for_form(Constant<4>{});
    case 8: return for_form(Constant<8>{});
  }
  return Kernel{};
}

// The same of bf16 elements, and of f8. Windows of f8 and of symbols of eight always have two symbols: their kernels are fewer so.
template <typename F>
auto for_float_code(const Code& code, F f) {
  if (is_f8(code.form) && code.symbol_cols == 8) return f(Constant<8>{}, Constant<f8_form(8)>{}, Constant<2>{});
  if (is_f8(code.form)) return f(Constant<4>{}, Constant<f8_form(4)>{}, Constant<2>{});
  const auto for_window = [&](auto symbol_cols) {
    constexpr Constant<float_raw_bits(symbol_cols)> kBits;
    if (code.table_bits <= 10) return f(symbol_cols, kBits, Constant<3>{});
    return f(symbol_cols, kBits, Constant<2>{});
  };
  if (code.symbol_cols == 2) return for_window(Constant<2>{});
  if (code.symbol_cols == 8) return f(Constant<8>{}, Constant<float_raw_bits(8)>{}, Constant<2>{});
  return for_window(Constant<4>{});
}

// f8 has an instance for the most lane groups alone: it holds half of bf16's raw words, which fit the fewer registers.
constexpr int most_threads(int form, int threads) { return is_f8(form) ? 32 * kLanes : threads; }

using backends::Layers;

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
