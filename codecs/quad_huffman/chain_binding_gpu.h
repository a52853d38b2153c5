// Host side of whole chains: a plan that suits all layers, their descriptions, and the kernel of chain_gpu.h or
// ahead_gpu.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "backends/gpu/products/requantise.h"
#include "codecs/quad_huffman/ahead_gpu.h"
#include "codecs/quad_huffman/plan_gpu.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {

// Layers that are coded alike; their tables may be of different sizes.
using ChainKernel = void (*)(gpu::Pointer<const std::byte>, int, gpu::Exchange, gpu::Pointer<const int8_t>, Plan,
                             Hidden);

struct ChainPolicy : RingPolicy {
  bool ahead;  // the kernel of ahead_gpu.h
};
inline constexpr ChainPolicy kChainPolicies[] = {
    {{{"waves32"}, 32, 32, 1, false}, false},
    {{{"waves16_ahead"}, 16, 16, 1, false}, true},
};

struct Chain {
  const std::byte* layers;  // descriptions, kStoredLayerBytes each
  int count;
  std::byte* exchange;
  int64_t words;  // of the longest vector that is handed on
  Plan plan;      // for the largest of everything
  gpu::LaunchShape launch_shape;
  ChainKernel kernel;
  void operator()(void* stream, const backends::ChainArgs& args) const {
    gpu::launch(kernel, launch_shape, stream, layers, count, gpu::Exchange(exchange, words), args.x, plan,
                hidden_of(plan));
  }
};

inline std::string refuses_ahead(const Code& code, const backends::DeviceInfo& device) {
  if (!gpu::have_bulk_copies(device))
    return "Decoding ahead of the vector needs bulk copies to shared memory, which NVIDIA devices have since sm_90.";
  if (code.symbol_cols != 8 || code.tile_cols != kAheadCols)
    return "Decoding ahead of the vector takes tiles of one segment: 256 columns, 8 a symbol.";
  return "";
}

inline bool alike(const Code& a, const Code& b) {
  return a.symbol_cols == b.symbol_cols && a.form == b.form && (a.table_bits <= 10) == (b.table_bits <= 10);
}

// What all layers of a chain have in common.
struct Common {
  Code code;                // with the largest table
  datasets::Shape largest;  // with the most columns
  int64_t blocks, words;
};

inline Common common_of(Layers layers, const backends::DeviceInfo& device) {
  Common common{code_of(*layers[0].matrix), layers[0].matrix->shape, 1, 0};
  for (const backends::Layer& layer : layers) {
    const Code code = code_of(*layer.matrix);
    if (!alike(code, common.code))
      throw backends::Refused(
          "The layers of the chain are coded differently: one launch takes one number of columns a symbol, one of raw "
          "bits, one kind of cells, and tables of at most 2^10 entries or larger ones.");
    common.code.table_bits = std::max(common.code.table_bits, code.table_bits);
    common.largest.cols = std::max(common.largest.cols, layer.matrix->shape.cols);
    const int64_t groups = row_groups(layer.matrix->shape.rows);
    common.blocks = std::max(common.blocks, std::min<int64_t>(device.compute_units, groups));
    common.words = std::max(common.words, groups * kWordsOfGroup);
  }
  return common;
}

[[noreturn]] inline void refuse_together(const std::string& parts, int64_t bytes, const backends::DeviceInfo& device) {
  throw backends::Refused("The layers of the chain do not fit together: " + parts + " need " + std::to_string(bytes) +
                          " bytes of shared memory a block, the device has " + std::to_string(device.shared_bytes) +
                          ".");
}

struct ChainPlan {
  Plan plan;
  std::vector<ChainLayer> layers;
};

// As many copies of the table as fit beside the layers, their tiles and their descriptions.
inline ChainPlan plan_ahead(const ChainPolicy& policy, Layers layers, const Common& common,
                            const backends::DeviceInfo& device) {
  ChainPlan chain{};
  for (const backends::Layer& layer : layers)
    chain.layers.push_back({.matrix = matrix_of(*layer.matrix, code_of(*layer.matrix)),
                            .epilogue = gpu::epilogue_of(layer),
                            .parts = 1,
                            .lane_groups_of_rows = policy.lane_groups,
                            .rounds = 1});
  const int64_t tiles = column_tiles(common.largest.cols, kAheadCols);
  const int lane_groups =
      static_cast<int>(std::min<int64_t>(policy.lane_groups, tiles + tiles % 2));  // whole waves of 64 lanes
  int64_t rounds = 1;
  for (const backends::Layer& layer : layers)
    rounds = std::max(rounds, (row_groups(layer.matrix->shape.rows) + common.blocks - 1) / common.blocks);
  const int own_bytes = ahead_bytes(common.code.form, common.code.table_bits);
  const int64_t rings = int64_t{lane_groups} * own_bytes, inputs = tiles * kAheadCols;
  Plan& plan = chain.plan;
  plan = {.lane_groups = lane_groups,
          .lane_groups_of_rows = lane_groups,
          .table_bits = common.code.table_bits,
          .own_bytes = own_bytes};
  const int64_t others =
      rings + inputs + ahead_sums_bytes(static_cast<int>(rounds)) + stored_layers_bytes(layers.size());
  if (!place_table(plan, common.code, ahead_copies(common.code.table_bits, policy.copies), device.shared_bytes - others,
                   2))
    refuse_together("two tables, tiles, the longest vector and the descriptions of all layers",
                    2 * (int64_t{4} << common.code.table_bits) + others, device);
  plan.inputs = plan.rings + static_cast<int>(rings);
  plan.sums = plan.inputs + static_cast<int>(inputs);
  plan.bytes = plan.rings + static_cast<int>(others);
  return chain;
}

// As many lane groups as fit, up to the policy's.
inline ChainPlan plan_chain(const ChainPolicy& policy, Layers layers, const Common& common,
                            const backends::DeviceInfo& device) {
  for (RingPolicy fewer = policy;; fewer.lane_groups /= 2) {
    ChainPlan chain{};
    int64_t most_rows = 0;
    for (const backends::Layer& bound : layers) {
      ChainLayer layer{.matrix = matrix_of(*bound.matrix, code_of(*bound.matrix)),
                       .epilogue = gpu::epilogue_of(bound),
                       .parts = 1,
                       .lane_groups_of_rows = 1,
                       .rounds = 1};
      while (layer.lane_groups_of_rows * 2 <= fewer.lane_groups &&
             layer.lane_groups_of_rows < layer.matrix.column_tiles)
        layer.lane_groups_of_rows *= 2;
      const int64_t groups = layer.matrix.row_groups;
      layer.parts = static_cast<int>(std::min<int64_t>(fewer.lane_groups / layer.lane_groups_of_rows,
                                                       (groups + common.blocks - 1) / common.blocks));
      layer.rounds = static_cast<int>((groups + common.blocks * layer.parts - 1) / (common.blocks * layer.parts));
      most_rows = std::max<int64_t>(most_rows, int64_t{layer.rounds} * layer.parts * kLanes);
      chain.layers.push_back(layer);
    }
    chain.plan =
        plan_of(fewer, common.code, common.largest, InputType::int8, device.shared_bytes - chain_bytes(most_rows));
    if (chain.plan.lane_groups != fewer.lane_groups) {
      if (fewer.lane_groups > 2) continue;
      throw backends::Refused(
          "The layers of the chain do not fit together: the largest table, the rings of two waves, the longest vector "
          "and the sums of the most rows do not fit the shared memory of a thread block.");
    }
    // The sums and descriptions of a chain come after what the plan has.
    chain.plan.sums = chain.plan.bytes;
    chain.plan.bytes += chain_bytes(most_rows);
    return chain;
  }
}

template <int kForm>
ChainKernel ahead_kernel(int table_bits) {
  return ahead_symbols_of_window(table_bits) == 3 ? chain_ahead<kForm, 3> : chain_ahead<kForm, 2>;
}
inline ChainKernel chain_kernel(const Code& code, bool ahead) {
  return for_code(code, [&](auto symbol_cols, auto form, auto symbols) -> ChainKernel {
    if constexpr (symbol_cols == 8) {
      if (ahead) return ahead_kernel<decltype(form)::value>(code.table_bits);
    }
    return chain<decltype(symbol_cols)::value, decltype(form)::value, decltype(symbols)::value>;
  });
}

static_assert(kStoredLayerBytes <= backends::kDescriptionBytes);

inline backends::BoundKernel bind_chain(const backends::Policy& named, Layers layers, int, backends::Place& place) {
  const auto& policy = named.as<ChainPolicy>();
  const backends::DeviceInfo& device = place.device();
  const Common common = common_of(layers, device);
  const ChainPlan planned =
      policy.ahead ? plan_ahead(policy, layers, common, device) : plan_chain(policy, layers, common, device);
  std::vector<std::byte> stored(static_cast<size_t>(stored_layers_bytes(layers.size())));
  for (size_t i = 0; i < layers.size(); ++i)
    std::memcpy(stored.data() + i * kStoredLayerBytes, &planned.layers[i], sizeof(ChainLayer));
  Chain bound{};
  bound.layers = place.describe(stored);
  bound.count = static_cast<int>(layers.size());
  bound.exchange = place.zeroed(gpu::Exchange::bytes(common.words));
  bound.words = common.words;
  bound.plan = planned.plan;
  bound.launch_shape = {.grid = common.blocks,
                        .block = (planned.plan.lane_groups + (policy.ahead ? kHelpers : 0)) * kLanes,
                        .shared_bytes = planned.plan.bytes,
                        .together = true};
  bound.kernel = chain_kernel(common.code, policy.ahead);
  return {bound, {.requantises = true}};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
