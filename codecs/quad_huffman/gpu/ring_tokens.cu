// Products of bf16 and f8 elements with one or two tokens of bf16. As with a token of float32 (tile/floats.h), but
// matrix units multiply, and a lane decodes an operand as it is (backends/gpu/products/row_units.h). Elements, numbers,
// products and x take 17 operations for four columns there and 9 here: 8 join elements, 0.5 matrix products, 0.5 loads
// of x.
#include <algorithm>

#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/takes.h"
#include "codecs/quad_huffman/gpu/tokens/rounding.h"
#include "codecs/quad_huffman/gpu/tokens/row_tokens.h"
#include "codecs/quad_huffman/gpu/tokens/units.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

// Tokens at a time: a pair in shared memory.
inline constexpr int kRingTokens = 2;

inline constexpr int kRingSums = kRingTokens * kLanes;

// Scales the pair of tokens that load_few_tokens() brought to `inputs`: each thread scales the columns that it brought,
// by token_shift(), which is noted in shifts[kRingTokens]. `largest`: [kRingTokens, kLanes] words of shared memory.
ECMV_GPU_DEVICE void scale_pair(const TileCols& cols, int lane_groups, gpu::Pointer<std::byte> inputs,
                                gpu::Pointer<uint32_t> largest, gpu::Pointer<uint32_t> shifts) {
  const int lane = LaneGroup::lane();
  const auto for_own = [&](auto f) {
    for (int col = gpu::thread_index() * 8; col < cols.stored; col += gpu::block_size() * 8)
      for (int half = 0; half < 2; ++half) f(gpu::cast<gpu::uint4>(inputs + col * gpu::kOwnTokenBytes)[half]);
  };
  uint32_t most[kRingTokens] = {};
  for_own([&](const gpu::uint4& numbers) {
    const auto look = [](uint32_t word, uint32_t& at_most) {
      const uint32_t low = word & 0x7FFF, high = word >> 16 & 0x7FFF, larger = low > high ? low : high;
      at_most = larger > at_most ? larger : at_most;
    };
    look(numbers.x, most[0]), look(numbers.z, most[0]);
    look(numbers.y, most[1]), look(numbers.w, most[1]);
  });
  ECMV_GPU_UNROLL
  for (int t = 0; t < kRingTokens; ++t) {
    most[t] = static_cast<uint32_t>(LaneGroup::reduce_max(static_cast<int32_t>(most[t])));
    if (lane == 0) largest[t * kLanes + LaneGroup::group()] = most[t];
  }
  gpu::sync_block();
  TokenFactors factors[kRingTokens];
  ECMV_GPU_UNROLL
  for (int t = 0; t < kRingTokens; ++t) {
    const auto own = lane < lane_groups ? static_cast<int32_t>(largest[t * kLanes + lane]) : 0;
    const int shift = token_shift(static_cast<uint32_t>(LaneGroup::reduce_max(own)));
    factors[t] = factors_of(shift);
    if (gpu::thread_index() == 0) shifts[t] = static_cast<uint32_t>(shift);
  }
  for_own([&](gpu::uint4& numbers) {
    const auto both = [](uint32_t word, TokenFactors by) {
      return gpu::multiply_pairs(gpu::multiply_pairs(word, by.first), by.second);
    };
    numbers = gpu::uint4{both(numbers.x, factors[0]), both(numbers.y, factors[1]), both(numbers.z, factors[0]),
                         both(numbers.w, factors[1])};
  });
}

// plan.sums has the launch's epoch, for f8 the tokens' shifts, and [slots of BlockUnits, kRingSums]; plan.inputs the
// share's columns of the pair of tokens.
template <int kSymbolCols, int kForm, int kSymbolsOfWindow>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(32 * kLanes, 1) void multiply_pair(Matrix matrix, BlockPlan plan, Division division,
                                                                   Hidden hidden, gpu::Bf16Tokens tokens,
                                                                   gpu::Exchange exchange) {
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow, kLeanForm<kForm, 32 * kLanes>>;
  const int lane = LaneGroup::lane(), lane_group = LaneGroup::uniform(LaneGroup::group());
  const BlockUnits units(division, plan.lane_groups);
  const gpu::Pointer<uint32_t> epoch = gpu::cast<uint32_t>(gpu::shared_memory() + plan.sums);
  const gpu::Pointer<float> sums = gpu::cast<float>(gpu::shared_memory() + (plan.sums + kEpochBytes));
  const gpu::Pointer<std::byte> inputs = gpu::shared_memory() + plan.inputs;
  const TileCols cols = cols_of_tiles(matrix, units.first_tile(), units.tiles(), TileOf::kSegmentCols);

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  BlockUnits::Walk walk = units.walk(lane_group);
  const auto begin = [&](uint32_t after) {
    if (walk.left > 0) tile.begin(matrix.streams, walk.group, walk.column, matrix.column_tiles, matrix.cols, after);
  };
  gpu::let_next_begin();
  const auto own_entries = load_own_entries<4>(matrix);
  begin(own_entries.all());
  fill_table(matrix, plan, own_entries);
  gpu::wait_for_previous();
  note_epoch(exchange, epoch);
  load_few_tokens<false>(tokens, cols, 1, 0, inputs, [](int) { return 0; });
  const gpu::Pointer<uint32_t> shifts = epoch + 1;
  static_assert(kEpochBytes >= 4 * (1 + kRingTokens));
  if constexpr (TileOf::kF8) scale_pair(cols, plan.lane_groups, inputs, gpu::cast<uint32_t>(sums), shifts);
  gpu::sync_block();
  count_block(exchange, epoch);

  const Table table = table_of(matrix, plan);
  const uint32_t lowest = in_both_halves(matrix.lowest);
  // Lanes from 16 on have sums of a second pair, which does not exist.
  const bool has_sums = lane < 16, reads = has_sums && gpu::reads_tokens();
  gpu::uint4 operand{};  // stays zero in lanes that read no tokens
  float products[1][4] = {};
  while (walk.left > 0) {
    const gpu::Pointer<const std::byte> pair = inputs + (tile.first_col() - cols.first) * gpu::kOwnTokenBytes,
                                        own_inputs = pair + gpu::own_pair_half() * 16;
    add_float_patches(tile, pair, 0, products);
    gpu::uint2 held{};
    tile.decode(table, [&](int segment, int quad, uint32_t exponents, uint32_t signs) {
      const FourFloats four =
          unscaled_numbers_of<TileOf>(quad, exponents, signs, lowest, exponent_unit<TileOf>(hidden));
      if (quad % 2 == 0) {
        held = {four.first, four.second};
        return;
      }
      if (reads)
        operand = *gpu::cast<const gpu::uint4>(
            own_inputs + (segment * (TileOf::kSegmentCols * gpu::kOwnTokenBytes) + quad / 2 * 32));
      gpu::multiply_own_rows(operand, held, {four.first, four.second}, products[0]);
    });
    const int slot = units.slot(lane_group, walk.group);
    const bool ends = walk.ends_row_group(units);
    walk.next(units);
    begin(0);
    if (!ends) continue;
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (has_sums) sums[slot * kRingSums + i / 2 * kLanes + gpu::own_sum_row(i)] = products[0][i];
      products[0][i] = 0;
    }
  }
  gpu::sync_block();
  exchange.begin(*epoch);
  for (int i = gpu::thread_index(); i < units.groups() * kRingSums; i += gpu::block_size()) {
    const int group = units.first_group() + i / kRingSums, number = i % kRingSums, token = number / kLanes;
    if (token >= tokens.batch) continue;
    float sum = 0;
    const int last = units.last_slot(group);
    for (int slot = units.first_slot(group); slot <= last; ++slot) sum += sums[slot * kRingSums + number];
    if constexpr (TileOf::kF8) sum = scaled(sum, kF8Shift - static_cast<int>(shifts[token]));
    const int64_t row = int64_t{group} * kLanes + number % kLanes;
    if (units.complete<kRingSums>(exchange, matrix.row_groups, group, number, sum) && row < matrix.rows)
      tokens.y[token * tokens.rows + row] = sum;
  }
}

// Row groups divided among blocks run at 1.16x the speed at 18944 x 3584, whose 592 row groups leave the fifth round of
// 132 multiprocessors half empty, and up to 3 % slower where they come out even (H100: 4096 x 12288, 5760 x 2880, 8192
// x 8192).
constexpr UnitsPolicy kPolicies[] = {
    {{{"groups32"}, 32, 32, 1}, 1, false},
    {{{"groups32_split"}, 32, 32, 1}, 1, true},
#ifdef ECMV_SEARCH
    // 1.11x the speed at 8192 x 28672, whose columns leave one share no room for copies of the table
    // (2026-11-25-h200/batch_llm), and 1.04x at 5760 x 2880. Fragments are as fast or faster at both.
    {{{"groups32_shares4"}, 32, 32, 1}, 4, false},
    {{{"groups16_fit2"}, 16, 32, 2}, 1, false},
#endif
};

UnitsPlan plan_pair(const backends::Policy& policy, const Code& code, datasets::Shape matrix,
                    const backends::DeviceInfo& device) {
  return plan_units(policy.as<UnitsPolicy>(), code, matrix, device,
                    [](int lane_groups, int64_t groups) { return (lane_groups + groups - 1) * kRingSums * 4; });
}

using Kernel = void (*)(Matrix, BlockPlan, Division, Hidden, gpu::Bf16Tokens, gpu::Exchange);

Kernel kernel_of(const Code& code) {
  return for_float_code(code, [](auto symbol_cols, auto form, auto symbols) -> Kernel {
    if constexpr (decltype(symbol_cols)::value == 8)
      return nullptr;
    else
      return multiply_pair<decltype(symbol_cols)::value, decltype(form)::value, decltype(symbols)::value>;
  });
}

// Says whether whole row groups leave a tenth of the multiprocessors' time unused.
std::string_view choose(const backends::CompressedView& view, const backends::DeviceInfo& device, int) {
  const int64_t groups = row_groups(view.shape.rows),
                rounds = (groups + device.compute_units - 1) / device.compute_units;
  return kPolicies[10 * groups < 9 * rounds * device.compute_units && rounds > 2 ? 1 : 0].name;
}

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device,
                    const backends::Policy& named) {
  if (std::string reason = refuses_empty(view); !reason.empty()) return reason;
  if (std::string reason = refuses_matrix(view, Layout::rows, Elements::floats); !reason.empty()) return reason;
  const Code code = code_of(view);
  if (kernel_of(code) == nullptr)
    return "The kernel takes elements in symbols of two or four: of eight it is fragments that are multiplied.";
  if (plan_pair(named, code, view.shape, device).plan.lane_groups == 0) return kRefusesUnits;
  return refuses_patches(view);
}

// Multiplies one pair of tokens after the other.
struct MultiplyPairs {
  Matrix matrix;
  UnitsPlan units;
  Kernel kernel;
  gpu::Exchange exchange;
  int batch;
  void operator()(void* stream, const backends::MatmulArgs& args) const {
    for (int first = 0; first < batch; first += kRingTokens)
      gpu::launch(kernel, units.launch_shape, stream, matrix, units.plan, units.division, hidden_of(units.plan),
                  gpu::bf16_tokens_of(args, std::min(kRingTokens, batch - first), first), exchange);
  }
};

// Sums grow tile by tile at most, and block by block.
backends::BoundKernel bind(const backends::Policy& named, Layers layers, int batch, backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Code code = code_of(view);
  const UnitsPlan units = plan_pair(named, code, view.shape, place.device());
  const int parts = 2 * units.division.shares * units.division.share_tiles;
  return {MultiplyPairs{matrix_of(view, code), units, kernel_of(code), exchange_of(units, view.shape, kRingSums, place),
                        batch},
          {.rounding = rounding_of_floats(view, gpu::token_rounding(view.shape.cols, parts), view.shape.cols)}};
}

}  // namespace

backends::Kernel ring_tokens() {
  return {.op = backends::Op::matmul,
          .variant = "rings",
          .policies = kPolicies,
          .activations = backends::Activations::bf16,
          .refuses = refuses,
          .bind = bind,
          .choose = choose};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
