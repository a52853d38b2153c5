// Products of int8 elements with one token of bf16, as fast as products with int8 vectors. Once a block, the token
// becomes an integer of four signed digits times a power of two (backends/gpu/products/row_units.h says how exact that
// is). Matrix units multiply the bytes that lanes decode with all four digits at once, and sums are exact integers.
// Operations for four columns beyond the codes': 0.5 matrix products, 0.5 loads of 16 bytes; an int8 vector takes 1 dot
// product and 0.25 loads.
#include "backends/gpu/products/row_units.h"
#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/takes.h"
#include "codecs/quad_huffman/gpu/tile/floats.h"
#include "codecs/quad_huffman/gpu/tokens/units.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

// Bytes after the sums of rows: the token's sums by digit, and its largest number by lane group.
inline constexpr int kDigitFactBytes = (gpu::kDigits + kLanes) * 4;

// The bits of the token's largest number. All threads call this, and meet.
ECMV_GPU_DEVICE uint32_t largest_number(gpu::Pointer<const uint16_t> x, int cols, int lane_groups,
                                        gpu::Pointer<uint32_t> by_group) {
  uint32_t most = 0;
  for (int col = gpu::thread_index() * 8; col < cols; col += gpu::block_size() * 8) {
    const gpu::uint4 words = *gpu::cast<const gpu::uint4>(x + col);
    ECMV_GPU_UNROLL
    for (int i = 0; i < 8; ++i) {
      const uint32_t number = gpu::word_of(words, i / 2) >> (i % 2 * 16) & 0x7FFF;
      most = number > most ? number : most;
    }
  }
  most = static_cast<uint32_t>(LaneGroup::reduce_max(static_cast<int32_t>(most)));
  const int lane = LaneGroup::lane();
  if (lane == 0) by_group[LaneGroup::group()] = most;
  gpu::sync_block();
  return static_cast<uint32_t>(LaneGroup::reduce_max(lane < lane_groups ? static_cast<int32_t>(by_group[lane]) : 0));
}

// Brings the digits of the token's columns `cols` to shared memory, with zeros past the last column, and adds each
// digit's sum to sums[digit].
ECMV_GPU_DEVICE void load_digits(gpu::Pointer<const uint16_t> x, const TileCols& cols, int largest_exponent,
                                 gpu::Pointer<std::byte> to, gpu::Pointer<int32_t> sums) {
  int32_t own[gpu::kDigits] = {};
  for (int col = gpu::thread_index() * 8; col < cols.stored; col += gpu::block_size() * 8) {
    const gpu::uint4 words =
        cols.first + col < cols.end ? *gpu::cast<const gpu::uint4>(x + (cols.first + col)) : gpu::uint4{};
    ECMV_GPU_UNROLL
    for (int quad = 0; quad < 2; ++quad) {
      uint32_t number[4];
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i)
        number[i] = gpu::digits_of(gpu::word_of(words, quad * 2 + i / 2) >> (i % 2 * 16) & 0xFFFF, largest_exponent);
      const uint32_t low[2] = {gpu::byte_permute(number[0], number[1], 0x5140),
                               gpu::byte_permute(number[2], number[3], 0x5140)},
                     high[2] = {gpu::byte_permute(number[0], number[1], 0x7362),
                                gpu::byte_permute(number[2], number[3], 0x7362)};
      const uint32_t digit[gpu::kDigits] = {
          gpu::byte_permute(low[0], low[1], 0x5410), gpu::byte_permute(low[0], low[1], 0x7632),
          gpu::byte_permute(high[0], high[1], 0x5410), gpu::byte_permute(high[0], high[1], 0x7632)};
      ECMV_GPU_UNROLL
      for (int d = 0; d < gpu::kDigits; ++d) own[d] = gpu::sum_of_bytes(digit[d], own[d]);
      ECMV_GPU_UNROLL
      for (int d = 0; d < gpu::kDigits; d += 2)
        *gpu::cast<gpu::uint2>(to + gpu::digit_place(d, col + 4 * quad)) = gpu::uint2{digit[d], digit[d + 1]};
    }
  }
  ECMV_GPU_UNROLL
  for (int d = 0; d < gpu::kDigits; ++d) gpu::add_to(sums + d, own[d]);
}

// The integer of four digits' sums.
ECMV_GPU_DEVICE int64_t integer_of(gpu::Pointer<const int32_t> sums, int distance) {
  int64_t integer = 0;
  ECMV_GPU_UNROLL
  for (int d = gpu::kDigits - 1; d >= 0; --d) integer = integer * 256 + sums[d * distance];
  return integer;
}

// plan.sums has the launch's epoch, [row groups of the block, digits, 32] and kDigitFactBytes; plan.inputs the digits
// of the share's columns. A block multiplies the offset of all elements with the share's columns. Sums of digits fit 32
// bits up to 65535 columns, whose digits fit no shared memory.
template <int kSymbolCols, int kForm, int kSymbolsOfWindow>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(32 * kLanes, 1) void multiply_one(Matrix matrix, BlockPlan plan, Division division,
                                                                  Hidden hidden, gpu::Pointer<const uint16_t> x,
                                                                  gpu::Pointer<float> y, gpu::Exchange exchange) {
  using TileOf = TileLanes<kSymbolCols, kForm, kSymbolsOfWindow, kEarlyForm<kForm>>;
  using Bytes = typename TileOf::Bytes;
  constexpr int kRowSums = gpu::kDigits * kLanes;
  const int lane_group = LaneGroup::uniform(LaneGroup::group());
  const BlockUnits units(division, plan.lane_groups);
  const gpu::Pointer<uint32_t> epoch = gpu::cast<uint32_t>(gpu::shared_memory() + plan.sums);
  const gpu::Pointer<int32_t> sums = gpu::cast<int32_t>(gpu::shared_memory() + (plan.sums + kEpochBytes)),
                              x_sums = sums + units.groups() * kRowSums;
  const gpu::Pointer<std::byte> inputs = gpu::shared_memory() + plan.inputs;
  const TileCols cols = cols_of_tiles(matrix, units.first_tile(), units.tiles(), TileOf::kSegmentCols);

  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  BlockUnits::Walk walk = units.walk(lane_group);
  const auto begin = [&](uint32_t after) {
    if (walk.left > 0) tile.begin(matrix.streams, walk.group, walk.column, matrix.column_tiles, matrix.cols, after);
  };
  gpu::let_next_begin();
  const auto own_entries = load_own_entries(matrix);
  begin(own_entries.all());
  fill_table(matrix, plan, own_entries);
  for (int i = gpu::thread_index(); i < units.groups() * kRowSums + gpu::kDigits; i += gpu::block_size()) sums[i] = 0;
  gpu::wait_for_previous();
  note_epoch(exchange, epoch);
  const int exponent = gpu::largest_exponent(
      largest_number(x, matrix.cols, plan.lane_groups, gpu::cast<uint32_t>(x_sums + gpu::kDigits)));
  load_digits(x, cols, exponent, inputs, x_sums);
  gpu::sync_block();
  count_block(exchange, epoch);

  const Table table = table_of(matrix, plan);
  const bool reads = gpu::reads_digits();
  gpu::uint4 digits[2] = {};  // stay zero in lanes that read no digits
  while (walk.left > 0) {
    const gpu::Pointer<int32_t> own_sums = sums + (walk.group - units.first_group()) * kRowSums;
    const int first_col = tile.first_col() - cols.first;
    tile.for_each_patch([&](int row, int col, int delta) {
      ECMV_GPU_UNROLL
      for (int d = 0; d < gpu::kDigits; ++d) {
        const int digit = *gpu::cast<const int8_t>(inputs + gpu::digit_place(d, first_col + col));
        gpu::atomic_add(own_sums + (d * kLanes + row), delta * digit);
      }
    });
    const gpu::Pointer<const std::byte> own_digits = inputs + (first_col * gpu::kDigits + LaneGroup::lane() / 16 * 16);
    int32_t products[2][4] = {};
    uint32_t held[2] = {};
    tile.decode(table, [&](int segment, int quad, uint32_t bytes) {
      if (quad % 4 < 2) {
        held[quad % 2] = bytes;
        return;
      }
      if (reads)
        digits[quad % 2] = *gpu::cast<const gpu::uint4>(own_digits + (segment * (TileOf::kSegmentCols * gpu::kDigits) +
                                                                      quad / 4 * gpu::kDigitBytes + quad % 2 * 32));
      gpu::multiply_own_bytes<Bytes::kFolds>(digits[quad % 2], held[quad % 2], bytes, products[Bytes::sum_of(quad)]);
    });
    walk.next(units);
    begin(0);
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int32_t both[2] = {products[0][i], products[1][i]};
      gpu::atomic_add(own_sums + (gpu::own_sum_number(i) * kLanes + gpu::own_sum_row(i)), Bytes::product(both));
    }
  }
  gpu::sync_block();
  exchange.begin(*epoch);
  for (int i = gpu::thread_index(); i < units.groups() * kLanes; i += gpu::block_size()) {
    const int of_block = i / kLanes, group = units.first_group() + of_block;
    int64_t sum = integer_of(sums + (of_block * kRowSums + i % kLanes), kLanes) + matrix.lowest * integer_of(x_sums, 1);
    const int64_t row = int64_t{group} * kLanes + i % kLanes;
    if (units.complete<kLanes>(exchange, matrix.row_groups, group, i % kLanes, sum) && row < matrix.rows)
      y[row] = scaled(static_cast<float>(sum), gpu::digits_unit(exponent));
  }
}

// Four shares are 1 to 4 % faster at 16384 on an H200 and as much slower on an H100 (2026-11-26-h200/batch_int8,
// 2026-11-26-h100/batch_int8). For weights of three bits they run at 1.16x the speed (2026-11-24-h200/quantised).
constexpr UnitsPolicy kPolicies[] = {{{{"groups32"}, 32, 32, 1}, 1}, {{{"groups32_shares4"}, 32, 32, 1}, 4}};

UnitsPlan plan_one(const backends::Policy& policy, const Header& code, datasets::Shape matrix,
                   const backends::DeviceInfo& device) {
  return plan_units(policy.as<UnitsPolicy>(), code, matrix, device, gpu::kDigits * kLanes * 4, kDigitFactBytes);
}

using Kernel = void (*)(Matrix, BlockPlan, Division, Hidden, gpu::Pointer<const uint16_t>, gpu::Pointer<float>,
                        gpu::Exchange);

// Windows of three symbols run at 1.03x the speed of two with K = 8, B = 4, T = 10 (H200, 16384 x 16384).
constexpr bool has_short_windows(int, int form) { return form == kFolded + 3 || form == kFolded + 4; }

Kernel kernel_of(const Header& code) {
  return for_code<has_short_windows>(code, [](auto symbol_cols, auto form, auto symbols) -> Kernel {
    return multiply_one<decltype(symbol_cols)::value, decltype(form)::value, decltype(symbols)::value>;
  });
}

std::string_view choose(const backends::CompressedView& view, const backends::DeviceInfo&, int) {
  return kPolicies[view.shape.cols >= 16384 ? 1 : 0].name;
}

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device,
                    const backends::Policy& named) {
  if (std::string reason = refuses_empty(view); !reason.empty()) return reason;
  if (!is_plain(view) && has_floats(view))
    return "Tokens of bf16 meet bf16 and f8 elements in fragments: encode with layout=fragments.";
  if (std::string reason = refuses_matrix(view, Layout::rows, Elements::int8); !reason.empty()) return reason;
  const Header code = header_of(view);
  return plan_one(named, code, view.shape, device).plan.lane_groups == 0 ? kRefusesUnits : "";
}

// Multiplies token by token: the kernel is for one.
struct MultiplyOne {
  Matrix matrix;
  UnitsPlan units;
  Kernel kernel;
  gpu::Exchange exchange;
  int batch;
  void operator()(void* stream, const backends::MatmulArgs& args) const {
    for (int token = 0; token < batch; ++token)
      gpu::launch(kernel, units.launch_shape, stream, matrix, units.plan, units.division, hidden_of(units.plan),
                  gpu::Pointer<const uint16_t>(args.x_bf16 + token * args.x_stride),
                  gpu::Pointer<float>(args.y + token * args.y_stride), exchange);
  }
};

// Sums are exact. The token loses 2^-29 of its largest number a column; times elements of at most 128 that is below n
// 2^-22 of the sum of its numbers: an offset of 4.
backends::BoundKernel bind(const backends::Policy& named, Layers layers, int batch, backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Header code = header_of(view);
  const UnitsPlan units = plan_one(named, code, view.shape, place.device());
  return {MultiplyOne{matrix_of(view, code), units, kernel_of(code), exchange_of(units, view.shape, kLanes * 2, place),
                      batch},
          {.rounding = {.more_roundings = 2, .offset = 4}}};
}

}  // namespace

backends::Kernel one_token() {
  return {.op = backends::Op::matmul,
          .variant = "one_token",
          .policies = kPolicies,
          .activations = backends::Activations::bf16,
          .refuses = refuses,
          .bind = bind,
          .choose = choose};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
