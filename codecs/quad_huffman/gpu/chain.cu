// A whole chain in one launch, in which decoding never waits for the vector. A layer's tiles are 32 rows of 256
// columns. Each lane group decodes its tiles one after the other to 64 registers of each lane. It decodes the first
// tile of a layer while x still travels between the blocks, so that only products of bytes are left once x arrives.
// Four more lane groups, the helpers, work between layers: they hand out results as soon as all tiles are multiplied,
// make the table of the layer after the next one, and bring the next x to shared memory (backends/gpu/exchange.h).
//
//   lane groups    decode(k) | await x(k) | multiply(k) | decode(k+1) ...
//   helpers                                await multiply(k) | results(k) | table(k+2) | await x(k+1) ...
//
// Both meet at gates: x of a layer is there; all have multiplied; a table is there (two tables take turns). H200, d =
// 4096, sigma 4, K = 8, B = 4, T = 8: a layer takes 4.0 us; without helpers the lane groups met twice a layer, 5.5 us.
// Copies are bulk copies, because copies of lanes pass the unit that also looks for x. The kernel takes eight columns a
// symbol only: other tiles of 256 columns have several segments.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "backends/gpu/exchange.h"
#include "backends/gpu/gate.h"
#include "codecs/quad_huffman/gpu/chain_lanes.h"
#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/takes.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

// A block's shared memory after the plan's part: gates; sums of x for two layers in turn, a word a helper; sums of the
// rows; the descriptions of all layers.
struct AheadPlaces {
  gpu::Pointer<std::byte> first;
  static constexpr int kGates = 4, kXSumsAt = kGates * gpu::kGateBytes, kSumsAt = kXSumsAt + 2 * kHelpers * 4;

  ECMV_GPU_DEVICE gpu::Gate multiplied() const { return gpu::Gate(first); }
  ECMV_GPU_DEVICE gpu::Gate x_there() const { return gpu::Gate(first + gpu::kGateBytes); }
  ECMV_GPU_DEVICE gpu::Gate table_there(int layer) const {
    return gpu::Gate(first + (2 + layer % 2) * gpu::kGateBytes);
  }
  ECMV_GPU_DEVICE gpu::Pointer<int32_t> x_sums(int layer) const {
    return gpu::cast<int32_t>(first + kXSumsAt) + layer % 2 * kHelpers;
  }
  ECMV_GPU_DEVICE gpu::Pointer<int32_t> sums() const { return gpu::cast<int32_t>(first + kSumsAt); }
};
inline int ahead_sums_bytes(int rounds) { return AheadPlaces::kSumsAt + rounds * kLanes * 4; }

// The work of helper number `helper`.
class AheadHelper {
 public:
  ECMV_GPU_DEVICE AheadHelper(AheadLayers layers, int helper, const AheadPlaces& places, const BlockPlan& plan,
                              const gpu::Exchange& exchange)
      : layers_(layers),
        helper_(helper),
        places_(places),
        plan_(plan),
        exchange_(exchange),
        threads_{helper * kLanes + LaneGroup::lane(), kHelpers * kLanes} {}

  ECMV_GPU_DEVICE void run(gpu::Pointer<const int8_t> x) {
    make_table(0, load_own_entries(layers_[0].matrix, threads_));
    copy_first_x(x);
    OwnEntries entries{};
    if (layers_.count > 1) make_table(1, load_own_entries(layers_[1].matrix, threads_));
    for (int k = 0; k < layers_.count; ++k) {
      if (k + 2 < layers_.count) entries = load_own_entries(layers_[k + 2].matrix, threads_);
      places_.multiplied().wait(k % 2);
      hand_out(k);
      if (k + 2 < layers_.count) make_table(k + 2, entries);
      if (k + 1 < layers_.count) await_x(k);
    }
    if (threads_.own == 0) exchange_.end(layers_.count);
  }

 private:
  static constexpr int kPairs = 4, kColsOfPair = 2 * kRowsOfWord;

  ECMV_GPU_DEVICE void arrive_at(const gpu::Gate& gate) const {
    LaneGroup::sync();
    if (LaneGroup::lane() == 0) gate.arrive();
  }
  ECMV_GPU_DEVICE void make_table(int number, const OwnEntries& entries) const {
    fill_table(layers_[number].matrix, plan_, entries, threads_, gpu::shared_memory() + number % 2 * (plan_.rings / 2));
    arrive_at(places_.table_there(number));
  }
  ECMV_GPU_DEVICE gpu::Pointer<std::byte> inputs() const { return gpu::shared_memory() + plan_.inputs; }
  // Says that the x of layer `number` is in shared memory, and leaves this helper's sum `own` of it.
  ECMV_GPU_DEVICE void end_x(int number, int32_t own) const {
    own = LaneGroup::reduce_add(own);
    if (LaneGroup::lane() == 0) places_.x_sums(number)[helper_] = own;
    arrive_at(places_.x_there());
  }
  ECMV_GPU_DEVICE void copy_first_x(gpu::Pointer<const int8_t> x) const {
    const Matrix& matrix = layers_[0].matrix;
    int32_t own = 0;
    for (int col = threads_.own * 16; col < matrix.streams.row_segments * kAheadCols; col += threads_.count * 16) {
      const gpu::uint4 words = col < matrix.cols ? *gpu::cast<const gpu::uint4>(x + col) : gpu::uint4{};
      *gpu::cast<gpu::uint4>(inputs() + col) = words;
      own = gpu::sum_of_bytes(words.w,
                              gpu::sum_of_bytes(words.z, gpu::sum_of_bytes(words.y, gpu::sum_of_bytes(words.x, own))));
    }
    end_x(0, own);
  }
  // Takes layer `number`'s results as the blocks hand them out, then zeros up to the next layer's last tile. A block
  // without rows of the next layer reads nothing (the exchange's first rule).
  ECMV_GPU_DEVICE void await_x(int number) const {
    const Matrix& matrix = layers_[number + 1].matrix;
    const int pairs = (matrix.cols + kLanes - 1) / kLanes * kLanes / kColsOfPair,
              stored = matrix.streams.row_segments * kAheadCols / kColsOfPair;
    int32_t own = 0;
    if (gpu::block_index() < matrix.row_groups) {
      for (int first = threads_.own; first < pairs; first += kPairs * threads_.count) {
        const int count = (pairs - first + threads_.count - 1) / threads_.count;
        gpu::uint2 values[kPairs];
        while (!exchange_.try_pairs(number, first, threads_.count, count, values)) gpu::pause();
        ECMV_GPU_UNROLL
        for (int i = 0; i < kPairs; ++i) {
          if (i >= count) continue;
          gpu::cast<gpu::uint2>(inputs())[first + i * threads_.count] = values[i];
          own = gpu::sum_of_bytes(values[i].y, gpu::sum_of_bytes(values[i].x, own));
        }
      }
      for (int pair = pairs + threads_.own; pair < stored; pair += threads_.count)
        gpu::cast<gpu::uint2>(inputs())[pair] = gpu::uint2{};
    }
    end_x(number + 1, own);
  }

  // Hands out the results of the block's rows, a row a lane and row groups to helpers in turn, and clears the sums.
  ECMV_GPU_DEVICE void hand_out(int number) const {
    const ChainLayer& layer = layers_[number];
    const int lane = LaneGroup::lane();
    const bool last = number + 1 == layers_.count;
    int32_t x_sum = 0;
    for (int i = 0; i < kHelpers; ++i) x_sum += places_.x_sums(number)[i];
    for (int round = helper_; AheadLayers::group_of(round) < layer.matrix.row_groups; round += kHelpers) {
      const int64_t group = AheadLayers::group_of(round), row = group * kLanes + lane;
      const gpu::Pointer<int32_t> sum = places_.sums() + (round * kLanes + lane);
      const int32_t total = *sum + layer.matrix.lowest * x_sum;
      *sum = 0;
      const bool exists = row < layer.matrix.rows;
      uint32_t word = exists ? static_cast<uint8_t>(gpu::requantise_on_device(total, layer.epilogue.scale)) : 0u;
      word |= LaneGroup::shuffle_xor(word, 1) << 8;
      word = (word & 0xFFFFu) | LaneGroup::shuffle_xor(word, 2) << 16;
      if (!last && lane % kRowsOfWord == 0) exchange_.put(number, group * kWordsOfGroup + lane / kRowsOfWord, word);
      if (exists) layer.epilogue.store(row, total);
    }
  }

  AheadLayers layers_;
  int helper_;
  AheadPlaces places_;
  const BlockPlan& plan_;
  const gpu::Exchange& exchange_;
  Threads threads_;  // the helpers
};

// The block has plan.lane_groups lane groups that decode, followed by the helpers.
template <int kForm, int kSymbolsOfWindow>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostAheadThreads, 1) void chain_ahead(gpu::Pointer<const std::byte> stored, int count,
                                                                       gpu::Exchange exchange,
                                                                       gpu::Pointer<const int8_t> x, BlockPlan plan,
                                                                       Hidden hidden) {
  const AheadPlaces places{gpu::shared_memory() + plan.sums};
  const gpu::Pointer<std::byte> layer_bytes =
      gpu::shared_memory() + (plan.bytes - count * static_cast<int>(kStoredLayerBytes));
  const AheadLayers layers{layer_bytes, count};

  exchange.begin();
  for (int i = gpu::thread_index(); i < count * static_cast<int>(kStoredLayerBytes) / 4; i += gpu::block_size())
    gpu::cast<uint32_t>(layer_bytes)[i] = gpu::cast<const uint32_t>(stored)[i];
  for (gpu::Pointer<int32_t> sum = places.sums() + gpu::thread_index(); sum < gpu::cast<int32_t>(layer_bytes);
       sum += gpu::block_size())
    *sum = 0;
  if (gpu::thread_index() == 0) {
    places.multiplied().init(static_cast<uint32_t>(plan.lane_groups));
    places.x_there().init(kHelpers);
    for (int i = 0; i < 2; ++i) places.table_there(i).init(kHelpers);
  }
  const int lane_group = LaneGroup::uniform(LaneGroup::group());
  AheadLanes<kForm, kSymbolsOfWindow> lanes(layers, plan, hidden);
  if (lane_group < plan.lane_groups) lanes.init();
  gpu::sync_block();
  if (lane_group >= plan.lane_groups) {
    AheadHelper(layers, lane_group - plan.lane_groups, places, plan, exchange).run(x);
    return;
  }

  lanes.begin();
  for (int k = 0; k < count; ++k) {
    Table table = table_of(layers[k].matrix, plan);
    table.lane |= static_cast<uint32_t>(k % 2 * (plan.rings / 2));
    bool waits = true;
    if (lanes.has_tile(k)) places.table_there(k).wait(k / 2 % 2);
    while (lanes.has_tile(k)) {
      lanes.decode(table);
      if (waits) places.x_there().wait(k % 2);
      waits = false;
      lanes.multiply(k, gpu::shared_memory() + plan.inputs, places.sums());
    }
    if (waits) places.x_there().wait(k % 2);
    LaneGroup::sync();
    if (LaneGroup::lane() == 0) places.multiplied().arrive();
  }
}

// Takes layers that are coded alike; their tables may differ in size.
using Kernel = void (*)(gpu::Pointer<const std::byte>, int, gpu::Exchange, gpu::Pointer<const int8_t>, BlockPlan,
                        Hidden);

// 1.07x to 1.40x the speed of layers one by one at 4096, sigma 4 (2026-11-25-h200/beat_int8_4096,
// 2026-11-25-h100/beat_int8). Wider matrices have wider tiles. One launch that decodes as the vector arrives was never
// faster than layers one by one.
constexpr RingPolicy kPolicies[] = {{{"groups16_ahead"}, 16, 16, 1}};

struct Chain {
  const std::byte* layers;  // descriptions, kStoredLayerBytes each
  int count;
  std::byte* exchange;
  int64_t words;   // in the longest vector that is handed on
  BlockPlan plan;  // for the largest of everything
  gpu::LaunchShape launch_shape;
  Kernel kernel;
  void operator()(void* stream, const backends::ChainArgs& args) const {
    gpu::launch(kernel, launch_shape, stream, layers, count, gpu::Exchange(exchange, words), args.x, plan,
                hidden_of(plan));
  }
};

// The codes that settings for speed choose. Tables of at most 2^9 entries serve windows of three symbols.
template <int kForm>
Kernel kernel_of_form(int table_bits) {
  return ahead_symbols_of_window(table_bits) == 3 ? chain_ahead<kForm, 3> : chain_ahead<kForm, 2>;
}
Kernel kernel_of(const Header& code) {
  if (code.symbol_cols != 8) return nullptr;
  switch (code.form) {
    case 2: return kernel_of_form<2>(code.table_bits);
    case kFolded + 3: return kernel_of_form<kFolded + 3>(code.table_bits);
    case kFolded + 4: return kernel_of_form<kFolded + 4>(code.table_bits);
    case kFolded + 5: return kernel_of_form<kFolded + 5>(code.table_bits);
  }
  return nullptr;
}

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device, const backends::Policy&) {
  if (std::string reason = refuses_empty(view); !reason.empty()) return reason;
  if (std::string reason = refuses_matrix(view, Layout::rows, Elements::int8); !reason.empty()) return reason;
  if (!gpu::have_bulk_copies(device))
    return "Decoding ahead of the vector needs bulk copies to shared memory, which NVIDIA devices have since sm_90.";
  const Header code = header_of(view);
  if (tile_cols_of(code) != kAheadCols) return "Decoding ahead of the vector takes tiles of one segment, 256 columns.";
  if (kernel_of(code) == nullptr)
    return "The kernel is for symbols of 8 columns: folded cells with 3 to 5 raw bits, or contiguous ones with 2.";
  if (view.shape.cols > (int64_t{1} << 19)) return "The kernel's sums need int32: at most 2^19 columns.";
  return "";
}

// What all layers of a chain have in common.
struct Common {
  Header code;              // with the largest table
  datasets::Shape largest;  // with the most columns
  int64_t blocks, words;
};

Common common_of(Layers layers, const backends::DeviceInfo& device) {
  Common common{header_of(*layers[0].matrix), layers[0].matrix->shape, 1, 0};
  for (const backends::Layer& layer : layers) {
    const Header code = header_of(*layer.matrix);
    if (code.symbol_cols != common.code.symbol_cols || code.form != common.code.form)
      throw backends::Refused(
          "The layers of the chain are coded differently: one launch takes one number of columns a symbol, one of raw "
          "bits and one kind of cells.");
    common.code.table_bits = std::max(common.code.table_bits, code.table_bits);
    common.largest.cols = std::max(common.largest.cols, layer.matrix->shape.cols);
    const int64_t groups = row_groups(layer.matrix->shape.rows);
    common.blocks = std::max(common.blocks, std::min<int64_t>(device.compute_units, groups));
    common.words = std::max(common.words, groups * kWordsOfGroup);
  }
  return common;
}

struct ChainPlan {
  BlockPlan plan;
  std::vector<ChainLayer> layers;
};

// Gives the table as many copies as fit beside the layers, their tiles and their descriptions.
ChainPlan plan_chain(const RingPolicy& policy, Layers layers, const Common& common,
                     const backends::DeviceInfo& device) {
  ChainPlan chain{};
  for (const backends::Layer& layer : layers)
    chain.layers.push_back({matrix_of(*layer.matrix, header_of(*layer.matrix)), gpu::epilogue_of(layer)});
  const int64_t tiles = column_tiles(common.largest.cols, kAheadCols);
  const int lane_groups =
      static_cast<int>(std::min<int64_t>(policy.lane_groups, tiles + tiles % 2));  // whole waves of 64 lanes
  int64_t rounds = 1;
  for (const backends::Layer& layer : layers)
    rounds = std::max(rounds, (row_groups(layer.matrix->shape.rows) + common.blocks - 1) / common.blocks);
  const int own_bytes = ahead_bytes(common.code.form, common.code.table_bits);
  const int64_t rings = int64_t{lane_groups} * own_bytes, inputs = tiles * kAheadCols;
  BlockPlan& plan = chain.plan;
  plan = {.lane_groups = lane_groups,
          .lane_groups_of_rows = lane_groups,
          .table_bits = common.code.table_bits,
          .own_bytes = own_bytes};
  const int64_t others =
      rings + inputs + ahead_sums_bytes(static_cast<int>(rounds)) + stored_layers_bytes(layers.size());
  if (!place_table(plan, common.code, ahead_copies(common.code.table_bits, policy.copies), device.shared_bytes - others,
                   2))
    throw backends::Refused(
        "The layers of the chain do not fit together: two tables, tiles, the longest vector and the descriptions of "
        "all "
        "layers need " +
        std::to_string(2 * (int64_t{4} << common.code.table_bits) + others) +
        " bytes of shared memory a block, the device has " + std::to_string(device.shared_bytes) + ".");
  plan.inputs = plan.rings + static_cast<int>(rings);
  plan.sums = plan.inputs + static_cast<int>(inputs);
  plan.bytes = plan.rings + static_cast<int>(others);
  return chain;
}

static_assert(kStoredLayerBytes <= backends::kDescriptionBytes);

backends::BoundKernel bind(const backends::Policy& named, Layers layers, int, backends::Place& place) {
  const auto& policy = named.as<RingPolicy>();
  const backends::DeviceInfo& device = place.device();
  const Common common = common_of(layers, device);
  const ChainPlan planned = plan_chain(policy, layers, common, device);
  std::vector<std::byte> stored(static_cast<size_t>(stored_layers_bytes(layers.size())));
  for (size_t i = 0; i < layers.size(); ++i)
    std::memcpy(stored.data() + i * kStoredLayerBytes, &planned.layers[i], sizeof(ChainLayer));
  return {Chain{.layers = place.describe(stored),
                .count = static_cast<int>(layers.size()),
                .exchange = place.zeroed(gpu::Exchange::bytes(common.words)),
                .words = common.words,
                .plan = planned.plan,
                .launch_shape = {.grid = common.blocks,
                                 .block = (planned.plan.lane_groups + kHelpers) * kLanes,
                                 .shared_bytes = planned.plan.bytes,
                                 .together = true},
                .kernel = kernel_of(common.code)},
          {.requantises = true}};
}

}  // namespace

backends::Kernel chain() {
  return {.op = backends::Op::matvec,
          .variant = "chain",
          .policies = kPolicies,
          .whole_chain = true,
          .refuses = refuses,
          .bind = bind};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
