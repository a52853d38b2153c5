// GPU kernels of tile_rans: decode, and the launches of a product. In gpu/, products.h has the products; panels.h,
// huffman.h and streams.h have the coders; plan.h chooses launches for a matrix and policy; tokens.h has
// products with tokens of bf16. A product is at most three launches: tokens become digits, the products, and, if there
// are few strips and a strip's columns are split over thread blocks, the sum over the splits.
#include <algorithm>
#include <span>
#include <string>

#include "codecs/compressed_matrix.h"
#include "codecs/tile_rans/format.h"
#include "codecs/tile_rans/gpu/digits.h"
#include "codecs/tile_rans/gpu/plan.h"
#include "codecs/tile_rans/gpu/products.h"
#include "codecs/tile_rans/gpu/tokens.h"
#include "codecs/tile_rans/levels.h"

namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE {
namespace {

struct LevelBits {
  uint32_t bits[kLevels];
};

// The elements: each lane group decodes and stores its own tiles.
template <class Coder, typename Element>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostThreads, 1) void decode(TileStream stream, int lane_groups, LevelBits levels,
                                                             gpu::Pointer<Element> decoded) {
  const int slots = lane_groups * Coder::kTiles;
  const int lane_group = LaneGroup::uniform(LaneGroup::group());
  const Strip strip = strip_of(stream, gpu::block_index());
  const Walk walk{0, stream.tiles_across, lane_group, slots, stream.tile_shift, stream.steps};
  const gpu::Pointer<uint32_t> values = gpu::cast<uint32_t>(gpu::shared_memory() + stream.levels_place);
  Coder coder(stream, strip, stream.own_place + lane_group * stream.own_bytes, table_of(stream));
  if (gpu::thread_index() == 0) ECMV_GPU_UNROLL
    for (int s = 0; s < kLevels; ++s) values[s] = levels.bits[s];
  auto round = begin_block(coder, stream, walk);
  for (int base = 0; base < walk.end; base += slots) {
    next_round(coder, walk, base, round);
    if (round.across[0] >= walk.end) break;
    for (int step = 0; step < stream.tile_steps && round.first[0] + step < stream.steps; step += Coder::kSteps) {
      coder.decode(round, step, to_shared<Coder>(lane_group));
      LaneGroup::sync();
      for (int column = 0; column < Coder::kTiles * Coder::kSteps; ++column) {
        const int64_t tile = base + lane_group * Coder::kTiles + column / Coder::kSteps,
                      first_col = (tile * stream.tile_steps + step + column % Coder::kSteps) * kPanelCols;
        if (tile >= walk.end) continue;
        for (int rg = 0; rg < strip.panels_down; ++rg) {
          const gpu::Pointer<const uint8_t> bytes =
              gpu::cast<const uint8_t>(gpu::shared_memory()) +
              ((lane_group * Coder::kTiles * Coder::kSteps + column) * kPanels + rg) * kPanelBytes;
          for (int row = 0; row < kPanelRows; ++row) {  // a lane a column
            const int64_t at = strip.down * kTileRows + rg * kPanelRows + row, col = first_col + LaneGroup::lane();
            if (at < stream.rows && col < stream.cols)
              decoded[at * stream.cols + col] =
                  static_cast<Element>(values[bytes[place_in_panel(row, LaneGroup::lane())]]);
          }
        }
      }
      LaneGroup::sync();
    }
  }
}

constexpr int64_t kMostCols = int64_t{1} << 19;

std::string refuses_form(const CompressedView& view, const backends::DeviceInfo& device, const Form& form) {
  const Layout layout = layout_of(view.shape, *view.settings);
  if (layout.coder == Coder::rans && layout.tile_cols != kTileRows)
    return "A lane group has room for 4096 elements of interleaved streams, not for tiles of " +
           std::to_string(kTileRows * layout.tile_cols) + ".";
  if (view.shape.cols > kMostCols) return "Sums of more than 2^19 columns may not fit int32.";
  if (form.registers && layout.coder == Coder::rans)
    return "Interleaved streams are not decoded to where matrix units expect them in registers.";
  if (layout.tiles() == 0) return "";
  if (form.lane_groups > needs_of(view, layout, form).most_lane_groups)
    return "A thread block has registers for 16 waves that decode in this way, not for 32.";
  const Plan plan = plan_of(view, layout, form, device.shared_bytes);
  if (plan.lane_groups == 0)
    return "Operands, table and rings of the least number of waves need more shared memory than a thread block may "
           "have: " +
           std::to_string(device.shared_bytes) + " bytes.";
  if (form.blocks > 1 && plan.lane_groups < form.lane_groups &&
      plan_of(view, layout, kPlainForm, device.shared_bytes).lane_groups > plan.lane_groups)
    return "The shared memory of two thread blocks has not room for as many waves as that of one.";
  return "";
}
std::string refuses(const CompressedView& view, const backends::DeviceInfo& device, const backends::Policy& policy) {
  return refuses_form(view, device, policy.as<FormPolicy>().form);
}
std::string decode_refuses(const CompressedView& view, const backends::DeviceInfo& device, const backends::Policy&) {
  return refuses_form(view, device, kPlainForm);
}

constexpr int64_t kDigitSharedBytes = 512;
// These tokens take two operands, for which every lane group has the sums of all panels in registers.
constexpr int kMostRegisterTokens = 5;
constexpr int64_t kTokenBytes = backends::kMaxBatch * 8 * (1 + kDigitParts);  // units and sums
int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// The scratch holds operands, then tokens' units and sums, then the sums of splits.
int64_t operands_end(const Layout& layout) {
  return aligned(operand_bytes(layout.shape.cols, operands_of(backends::kMaxBatch)));
}
int64_t scratch_bytes(const Layout& layout) {
  const int64_t sums =
      most_splits(layout) > 1 ? most_splits(layout) * layout.shape.rows * backends::kMaxBatch * kDigits * 4 : 0;
  return operands_end(layout) + aligned(kTokenBytes) + sums;
}

// Fixed point moves an element of a token by at most 2^-22.98 of its largest. Float32 sums could lose as much (cols
// 2^-24) if elements of 2.03 times the largest level were beside the others.
backends::ProductRounding rounding(const Levels& levels) {
  return {.more_roundings = 1, .offset = 2.03 * levels.largest()};
}

constexpr int kStoreThreads = 256;
gpu::LaunchShape one_thread_each(int64_t count, bool early) {
  return {(count + kStoreThreads - 1) / kStoreThreads, kStoreThreads, 0, early};
}

// A launch of products; `operands` of a lane group, `halves` as matmul_panels has them.
struct ProductLaunch {
  gpu::LaunchShape shape;
  TileStream stream;
  int lane_groups;
  bool registers;
  int operands, halves;
  Digits digits;
  Output output;
};

template <class Coder>
void launch_products(const ProductLaunch& products, void* stream) {
  const auto launch = [&](auto operands) {
    constexpr int kOperands = decltype(operands)::value;
    if constexpr (Coder::kIsForRegisters && kOperands <= 2) {
      if (products.registers)
        return gpu::launch(matmul_registers<Coder, kOperands>, products.shape, stream, products.stream,
                           products.lane_groups, products.digits.operands, products.output);
    }
    if constexpr (kOperands != 2)
      gpu::launch(matmul_panels<Coder, kOperands>, products.shape, stream, products.stream, products.lane_groups,
                  products.halves, products.digits.operands, products.output);
  };
  switch (products.operands) {
    case 1: return launch(Constant<1>{});
    case 2: return launch(Constant<2>{});
    case 3: return launch(Constant<3>{});
    case 6: return launch(Constant<6>{});
    default: return launch(Constant<kMostOperands>{});
  }
}

// The operands of a lane group, rounded up to a number that has a kernel; see also `halves`.
int lane_group_operands(int batch, bool registers) {
  const int operands = operands_of(batch);
  if (operands <= 1) return 1;
  if (registers && operands == 2) return 2;
  return operands <= 3 ? 3 : operands <= 6 ? 6 : kMostOperands;
}

// How a number of tokens is multiplied. No lane groups means that the device has too little shared memory.
struct Way {
  Plan plan;
  int splits = 1;
  bool registers = false;
};

Way way_of(const CompressedView& view, const Layout& layout, Form form, const backends::DeviceInfo& device) {
  Plan plan = plan_of(view, layout, form, device.shared_bytes);
  if (plan.lane_groups == 0) plan = plan_of(view, layout, form = kPlainForm, device.shared_bytes);
  return {plan, splits_of(layout, plan, form.blocks, device), form.registers};
}

struct Multiply {
  int batch;
  void (*launch)(const ProductLaunch&, void* stream);
  TileStream stream;
  // For tokens of one operand; for as many as are multiplied in registers; and for more, which are multiplied as
  // panels.
  Way one_operand, few, many;
  int64_t tiles_down;
  Levels levels;
  int64_t units_place, sums_place;  // in the scratch
  bool early;

  void operator()(void* gpu_stream, const backends::MatmulArgs& args) const {
    for (int first = 0; first < batch;) first += launch_tokens(gpu_stream, args, first);
  }

 private:
  // Multiplies the tokens from `first` on, as many as one launch takes; returns how many.
  int launch_tokens(void* gpu_stream, const backends::MatmulArgs& args, int first) const {
    const int left = batch - first;
    constexpr int kTokensOfOperand = kUnitColumns / kDigits;
    const Way& meant = left <= kTokensOfOperand ? one_operand : left <= kMostRegisterTokens ? few : many;
    const bool by_operands = meant.plan.lane_groups == 0;
    const Way& way = by_operands ? one_operand : meant;
    const bool has_halves = way.plan.lane_groups * kPanelRows > kTileRows;
    const int most = by_operands  ? kTokensOfOperand
                     : has_halves ? backends::kMaxBatch
                                  : kMostOperands * kTokensOfOperand;
    const gpu::TokenView tokens = gpu::tokens_of(args, std::min(left, most), first);
    const int operands = lane_group_operands(tokens.batch, way.registers),
              halves = operands_of(tokens.batch) > operands ? 2 : 1;
    const Digits digits{reinterpret_cast<gpu::uint2*>(args.scratch),
                        reinterpret_cast<double*>(args.scratch + units_place),
                        reinterpret_cast<int64_t*>(args.scratch + units_place + backends::kMaxBatch * 8)};
    const Output output{.tokens = tokens,
                        .dequantise = {static_cast<double>(levels.scale), levels.first, digits.units, digits.sums},
                        .sums = reinterpret_cast<int32_t*>(args.scratch + sums_place),
                        .splits = way.splits};
    gpu::launch(make_digits, {int64_t{tokens.batch} * kDigitParts, kDigitThreads, kDigitSharedBytes, early}, gpu_stream,
                tokens, stream.cols, operands * halves, digits);
    launch({.shape = {tiles_down * way.splits, way.plan.lane_groups * kLanes, way.plan.shared_bytes, early},
            .stream = planned(stream, way.plan),
            .lane_groups = way.plan.lane_groups,
            .registers = way.registers,
            .operands = operands,
            .halves = halves,
            .digits = digits,
            .output = output},
           gpu_stream);
    if (way.splits > 1) gpu::launch(add_splits, one_thread_each(tokens.rows * tokens.batch, early), gpu_stream, output);
    return tokens.batch;
  }
};

// The product of a matrix without columns.
struct StoreZeros {
  int batch;
  void operator()(void* stream, const backends::MatmulArgs& args) const {
    const gpu::TokenView tokens = gpu::tokens_of(args, batch);
    gpu::launch(store_zeros, one_thread_each(tokens.rows * tokens.batch, false), stream, tokens);
  }
};

backends::BoundKernel bind_matmul(const backends::Policy& policy, backends::Layers layers, int batch,
                                  backends::Place& place) {
  const CompressedView& view = *layers[0].matrix;
  const backends::DeviceInfo& device = place.device();
  const Layout layout = layout_of(view.shape, *view.settings);
  if (layout.tiles() == 0) return StoreZeros{batch};
  Multiply bound{};
  bound.batch = batch;
  bound.launch = with_coder(layout, [](auto coder) { return launch_products<typename decltype(coder)::type>; });
  bound.stream = stream_of(view, layout);
  Form form = policy.as<FormPolicy>().form;
  bound.one_operand = way_of(view, layout, form, device);
  form.lane_groups = std::min(form.lane_groups, kMostLaneGroups);
  bound.few = way_of(view, layout, form, device);
  form.registers = false;
  bound.many = way_of(view, layout, form, device);
  bound.tiles_down = layout.tiles_down;
  bound.levels = trusted_levels(view.sections[kLayer].host);
  bound.units_place = operands_end(layout);
  bound.sums_place = bound.units_place + aligned(kTokenBytes);
  bound.early = gpu::have_early_launches(device);
  return {bound, {.scratch_bytes = scratch_bytes(layout), .rounding = rounding(bound.levels)}};
}

struct Decode {
  void (*launch)(const Decode&, void* stream, const LevelBits&, std::byte* out);  // null: there are no elements
  TileStream stream;
  gpu::LaunchShape shape;
  int lane_groups;
  Levels levels;
  datasets::ElementType type;

  void operator()(void* gpu_stream, const backends::DecodeArgs& args) const {
    if (launch == nullptr) return;
    LevelBits bits{};
    for (int s = 0; s < kLevels; ++s) bits.bits[s] = exact_bits(levels.value(s), type);
    launch(*this, gpu_stream, bits, args.out);
  }
};

template <class Coder, typename Element>
void launch_decode(const Decode& bound, void* stream, const LevelBits& bits, std::byte* out) {
  gpu::launch(decode<Coder, Element>, bound.shape, stream, bound.stream, bound.lane_groups, bits,
              reinterpret_cast<Element*>(out));
}
template <typename Element>
auto launch_decode_of(const Layout& layout) {
  return with_coder(layout, [](auto coder) { return launch_decode<typename decltype(coder)::type, Element>; });
}

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place& place) {
  const CompressedView& view = *layers[0].matrix;
  const Layout layout = layout_of(view.shape, *view.settings);
  Decode bound{};
  if (layout.tiles() == 0) return bound;
  const Plan plan = plan_of(view, layout, kPlainForm, place.device().shared_bytes);
  const int64_t bytes = datasets::element_bytes(view.type);
  bound.launch = bytes == 1   ? launch_decode_of<uint8_t>(layout)
                 : bytes == 2 ? launch_decode_of<uint16_t>(layout)
                              : launch_decode_of<uint32_t>(layout);
  bound.stream = planned(stream_of(view, layout), plan);
  bound.shape = {layout.tiles_down, plan.lane_groups * kLanes, plan.shared_bytes};
  bound.lane_groups = plan.lane_groups;
  bound.levels = trusted_levels(view.sections[kLayer].host);
  bound.type = view.type;
  return bound;
}

// --- products with tokens of bf16
// -------------------------------------------------------------------------------------

// Symbols stand for integers of at most 8 bits, and so does the number added to the 128 in front of a symbol.
constexpr int64_t kLeastFirst = -128, kMostFirst = 256 - kLevels + 1;

std::string refuses_tokens(const CompressedView& view, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  if (layout_of(view.shape, *view.settings).coder != Coder::packed)
    return "The kernel multiplies plain packed tiles; those of other coders are multiplied by panels.";
  if (view.shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (const int64_t first = trusted_levels(view.sections[kLayer].host).first; first < kLeastFirst || first > kMostFirst)
    return "The zero point is " + std::to_string(first) +
           " steps away from zero; the integers that the kernel multiplies have 8 bits.";
  return gpu::why_no_token_product<PanelElements>(policy.as<gpu::TokenPolicy>(), view.shape, device);
}

backends::BoundKernel bind_tokens(const backends::Policy& policy, backends::Layers layers, int batch,
                                  backends::Place& place) {
  const CompressedView& view = *layers[0].matrix;
  const Layout layout = layout_of(view.shape, *view.settings);
  const Levels levels = trusted_levels(view.sections[kLayer].host);
  const PanelElements elements{gpu::kInt8Exponents, gpu::field_to_element(static_cast<int>(levels.first)),
                               levels.scale};
  return gpu::bind_token_product<kTokenPolicies>(
      policy, elements, {view.sections[kCodes].bytes.data(), layout.padded_cols() / 2, view.shape}, batch,
      place.device(), {.more_roundings = 1});  // of the scale
}

using backends::Activations, backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "panels", .refuses = decode_refuses, .bind = bind_decode},
    {.op = Op::matmul, .variant = "panels", .policies = kPolicies, .refuses = refuses, .bind = bind_matmul},
    {.op = Op::matmul,
     .variant = "tokens",
     .policies = kTokenPolicies,
     .activations = Activations::bf16,
     .refuses = refuses_tokens,
     .bind = bind_tokens},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::tile_rans::ECMV_GPU_NAMESPACE
