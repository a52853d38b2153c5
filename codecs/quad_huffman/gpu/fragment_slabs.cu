// Products of fragments of bf16 with more than 64 tokens. The sums of 128 tokens and 128 rows fill the registers of
// four lane groups, and lane groups that decode have none to spare. So 16 lane groups decode to slabs in shared memory
// (tokens/slabs.h), four multiply slabs with blocks of 64 columns of the tokens, and nobody waits but at the gates of a
// slab or a block. (H200, 16384 x 16384, T = 12, 128 tokens: 197 us; by fragments_many.cu,
// 64 at a time, 277; uncompressed by cuBLAS 137. notes/many_tokens.md)
//
// The lane groups that decode are four teams. Two of them have the block's two halves of the rows and the first half of
// the share's columns, the other two the same rows and the other columns.
#include <algorithm>

#include "backends/gpu/gate.h"
#include "backends/gpu/products/token_copies.h"
#include "codecs/quad_huffman/gpu/kernels.h"
#include "codecs/quad_huffman/gpu/tokens/fragment_plan.h"
#include "codecs/quad_huffman/gpu/tokens/slabs.h"

namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE {
namespace {

inline constexpr int kTokens = 128, kTokenTiles = kTokens / 8, kRowTiles = 2, kRanges = 2, kTeams = kRowTiles * kRanges,
                     kDecoders = kTeams * gpu::kWarpgroup, kAllGroups = kDecoders + gpu::kWarpgroup;
using Slots = SlabSlots<2>;
inline constexpr int kPartCols = segment_cols(4);  // stored columns that are decoded in one piece of code

// A lane's registers: 96 of 20 lane groups at the launch become 80 where they decode and 160 where they multiply.
inline constexpr int kDecoderRegisters = 80, kMultiplierRegisters = 160;
// What a block multiplies: its rows, and the two ranges of its columns.
struct BlockPart {
  int64_t first_group;  // of its row groups
  int share;
  int first_tile[kRanges], tiles[kRanges], first[kRanges], blocks[kRanges];  // `blocks` of 64 columns from `first` on
  struct Block {
    int range, number;
  };
  // Blocks are multiplied in turn, then the rest of the first range, which is never the shorter one.
  ECMV_GPU_DEVICE Block at(int i) const {
    const int both = 2 * blocks[1];
    return i < both ? Block{i % 2, i / 2} : Block{0, i - blocks[1]};
  }
  ECMV_GPU_DEVICE int of_matrix(int i) const {
    const Block block = at(i);
    return (block.range == 0 ? first[0] : first[1]) + block.number;
  }
};
ECMV_GPU_DEVICE BlockPart part_of_block(const Matrix& matrix, const FragmentsLayout& layout, int segment_blocks) {
  BlockPart part{};
  part.share = static_cast<int>(gpu::block_index() % layout.shares);
  part.first_group = gpu::block_index() / layout.shares * (kRowTiles * gpu::kWarpgroup);
  const int first = part.share * layout.share_tiles, left = matrix.column_tiles - first,
            tiles = left < layout.share_tiles ? left : layout.share_tiles;
  ECMV_GPU_UNROLL
  for (int r = 0; r < kRanges; ++r) {
    part.first_tile[r] = first + r * ((tiles + 1) / 2);
    part.tiles[r] = r == 0 ? (tiles + 1) / 2 : tiles / 2;
    const int first_segment = part.first_tile[r] * matrix.streams.tile_segments,
              there = matrix.streams.row_segments - first_segment, all = part.tiles[r] * matrix.streams.tile_segments;
    part.first[r] = first_segment * segment_blocks;
    part.blocks[r] = (there < all ? there : all) * segment_blocks;
    if (part.tiles[r] == 0) part.blocks[r] = 0;
  }
  return part;
}

// Blocks of tokens, which come to kStages places in turn.
class TokenStages {
 public:
  static constexpr int kStages = 4, kBytes = kTokens * gpu::kBlockTokenBytes,
                       kGatesBytes = kStages * (gpu::Arrival::kBytes + gpu::kGateBytes);
  ECMV_GPU_DEVICE TokenStages(gpu::Pointer<std::byte> gates, gpu::Pointer<std::byte> places,
                              gpu::Pointer<const std::byte> blocks)
      : gates_(gates), places_(places), blocks_(blocks) {}
  ECMV_GPU_DEVICE void init() const {
    for (int i = 0; i < kStages; ++i) {
      there(i).init();
      free(i).init(gpu::kWarpgroup);
    }
  }
  // One lane of the block calls it, for blocks in order.
  ECMV_GPU_DEVICE void copy(const BlockPart& part, int i) const {
    if (i >= part.blocks[0] + part.blocks[1]) return;
    const int stage = i % kStages;
    if (i >= kStages) free(stage).wait((i / kStages - 1) & 1);
    there(stage).expect(kBytes);
    there(stage).copy(places_ + stage * kBytes, blocks_ + int64_t{part.of_matrix(i)} * kBytes, kBytes);
  }
  ECMV_GPU_DEVICE void wait(int i) const { there(i % kStages).wait(i / kStages & 1); }
  // One lane of each lane group that multiplies calls it.
  ECMV_GPU_DEVICE void leave(int i) const { free(i % kStages).arrive(); }
  ECMV_GPU_DEVICE gpu::SharedBlocks place(int i) const { return gpu::SharedBlocks(places_ + i % kStages * kBytes); }

 private:
  gpu::Pointer<std::byte> gates_, places_;
  gpu::Pointer<const std::byte> blocks_;
  ECMV_GPU_DEVICE gpu::Arrival there(int stage) const { return gpu::Arrival(gates_ + stage * gpu::Arrival::kBytes); }
  ECMV_GPU_DEVICE gpu::Gate free(int stage) const {
    return gpu::Gate(gates_ + (kStages * gpu::Arrival::kBytes + stage * gpu::kGateBytes));
  }
};

// Where a block's stages and slabs are: gates from layout.facts on, then, from the first place for a block at
// layout.tokens on, tokens and slabs.
inline constexpr int kGatesBytes = TokenStages::kGatesBytes + kTeams * Slots::kGatesBytes,
                     kPlacesBytes =
                         TokenStages::kStages * TokenStages::kBytes + kTeams * Slots::kBytes + gpu::kBlockAlignment;
struct BlockPlaces {
  gpu::Pointer<std::byte> gates, places;
  explicit ECMV_GPU_DEVICE BlockPlaces(const FragmentsLayout& layout)
      : gates(gpu::shared_memory() + layout.facts), places(gpu::first_block(gpu::shared_memory() + layout.tokens)) {}
  ECMV_GPU_DEVICE TokenStages stages(const gpu::Bf16Tokens& tokens) const { return {gates, places, tokens.blocks}; }
  // The team for a range and a half of the rows has these.
  ECMV_GPU_DEVICE Slots slots(int range, int half) const {
    const int team = range * kRowTiles + half;
    return {gates + (TokenStages::kGatesBytes + team * Slots::kGatesBytes),
            places + (TokenStages::kStages * TokenStages::kBytes + team * Slots::kBytes)};
  }
};

// Decodes a row group's tiles of a range to slabs.
template <typename TileOf>
ECMV_GPU_DEVICE void decode_slabs(TileOf& tile, const Matrix& matrix, const Table& table, const Hidden& hidden,
                                  int64_t group, int first_tile, int tiles, const Slots& slots, int slab_of_slot) {
  constexpr int kParts = TileOf::kSegmentCols / kPartCols,
                kSlabsOfPart = TileOf::kSegmentCols / kFragmentCols / kSlabUnits / kParts;
  const uint32_t lowest = lowest_of_halves<TileOf>(matrix);
  SlabPatches<TileOf> patches;
  int count = 0;
  for (int t = 0; t < tiles; ++t) {
    tile.template begin<true>(matrix.streams, group, first_tile + t, matrix.column_tiles, matrix.cols);
    patches.read(tile, matrix.power, 0);
    tile.begin_raw();
    const int segments = tile.segments();
    for (int s = 0; s < segments; ++s) {
      tile.wait_for_segment();
      LaneGroup::sync();
      tile.fetch_group(s);
      ECMV_GPU_NO_UNROLL
      for (int part = 0; part < kParts; ++part) {
        gpu::uint4 slab[kSlabUnits];
        FourFloats first{};
        uint32_t held = 0;
        tile.template decode_part<kParts>(table, s, part, [&](int, int quad, uint32_t exponents, uint32_t signs) {
          const int unit = quad / 2;
          const auto numbers = [&](int of, uint32_t word) {
            return unscaled_numbers_of<TileOf>(of, exponents, word, lowest, exponent_unit<TileOf>(hidden));
          };
          // Symbols of eight have the exponents of both quads.
          if (quad % 2 == 0) {
            held = signs;
            if constexpr (!TileOf::kEights) first = numbers(quad, signs);
            return;
          }
          if constexpr (TileOf::kEights) first = numbers(quad - 1, held);
          const FourFloats second = numbers(quad, signs);
          slab[unit % kSlabUnits] = gpu::uint4{first.first, second.first, first.second, second.second};
          if (unit % kSlabUnits != kSlabUnits - 1) return;
          slots.wait_free(count);
          const gpu::Pointer<std::byte> at = slots.place(count) + slab_of_slot * kSlabBytes;
          store_slab(at, slab);
          LaneGroup::sync();
          patches.apply(tile, matrix.power, (s * kParts + part) * kSlabsOfPart + unit / kSlabUnits, at);
          gpu::order_before_units();
          LaneGroup::sync();
          if (LaneGroup::lane() == 0) slots.written(count);
          ++count;
        });
      }
    }
  }
}

// Multiplies all slabs and tokens of the block, by four lane groups together, and stores the sums. One product is under
// way while the next one's slabs are waited for. (notes/many_tokens.md has what waiting for each at once cost.)
ECMV_GPU_DEVICE void multiply_slabs(const Matrix& matrix, const BlockPart& part, const BlockPlaces& places,
                                    const gpu::Bf16Tokens& tokens, int power) {
  const int lane = LaneGroup::lane(), own = LaneGroup::uniform(LaneGroup::group()) - kDecoders;
  const TokenStages stages = places.stages(tokens);
  const bool copies = own == 0 && lane == 0;
  constexpr int kAhead = TokenStages::kStages - 2;
  if (copies)
    for (int i = 0; i < kAhead; ++i) stages.copy(part, i);
  const auto leave = [&](int i) {
    if (lane != 0) return;
    const auto block = part.at(i);
    for (int half = 0; half < kRowTiles; ++half) places.slots(block.range, half).multiplied(block.number);
    stages.leave(i);
  };
  float sums[kRowTiles][kTokenTiles][4] = {};
  for (int i = 0; i < part.blocks[0] + part.blocks[1]; ++i) {
    if (copies) stages.copy(part, i + kAhead);
    stages.wait(i);
    const auto block = part.at(i);
    ECMV_GPU_UNROLL
    for (int half = 0; half < kRowTiles; ++half) {
      const Slots slots = places.slots(block.range, half);
      slots.wait_there(block.number);
      LaneGroup::sync();
      gpu::begin_products();
      ECMV_GPU_UNROLL
      for (int unit = 0; unit < kSlabUnits; ++unit)
        gpu::multiply_shared(gpu::SharedBlocks(slots.place(block.number)), own, stages.place(i), unit, sums[half]);
    }
    gpu::commit_products();
    gpu::wait_for_products<1>();
    if (i > 0) leave(i - 1);
  }
  gpu::wait_for_products();
  tokens.store([&](auto put) {
    ECMV_GPU_UNROLL
    for (int half = 0; half < kRowTiles; ++half) {
      const int64_t row = (part.first_group + half * gpu::kWarpgroup + own) * kUnitRows + lane / 4;
      ECMV_GPU_UNROLL
      for (int j = 0; j < kTokenTiles; ++j) {
        ECMV_GPU_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int token = 8 * j + lane % 4 * 2 + i % 2;
          if (token < tokens.batch && row + i / 2 * 8 < matrix.rows)
            put((int64_t{part.share} * tokens.batch + token) * tokens.rows + row + i / 2 * 8,
                scaled(sums[half][j][i], power));
        }
      }
    }
  });
}

template <int kSymbolCols, int kForm>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kAllGroups* kLanes,
                                1) void multiply_by_slabs(Matrix matrix, BlockPlan plan, FragmentsLayout layout,
                                                          Hidden hidden, int /* columns */, gpu::Bf16Tokens tokens) {
  using TileOf = TileLanes<kSymbolCols, kForm, 2, kLeanForm<kForm>>;
  const int lane_group = LaneGroup::uniform(LaneGroup::group());
  const BlockPlaces places(layout);
  const BlockPart part = part_of_block(matrix, layout, 2 * TileOf::kSegmentCols / gpu::kBlockCols);
  if (gpu::thread_index() == 0) {
    places.stages(tokens).init();
    for (int team = 0; team < kTeams; ++team) places.slots(team / kRowTiles, team % kRowTiles).init();
  }
  gpu::let_next_begin();
  fill_table(matrix, plan, load_own_entries(matrix));
  gpu::wait_for_previous();
  gpu::sync_block();
  if (lane_group >= kDecoders) {
    gpu::change_registers<kMultiplierRegisters, true>();
    multiply_slabs(matrix, part, places, tokens, power_of_numbers<TileOf>(matrix));
    return;
  }
  gpu::change_registers<kDecoderRegisters, false>();
  const int team = lane_group / gpu::kWarpgroup, range = team / kRowTiles, half = team % kRowTiles,
            of_team = lane_group % gpu::kWarpgroup;
  // Row groups that do not exist repeat the last one, and nobody stores their results.
  const int64_t own_group = part.first_group + half * gpu::kWarpgroup + of_team,
                group = own_group < matrix.row_groups ? own_group : matrix.row_groups - 1;
  TileOf tile(gpu::shared_memory() + (plan.rings + lane_group * TileOf::kSharedBytes), hidden);
  decode_slabs(tile, matrix, table_of(matrix, plan), hidden, group,
               range == 0 ? part.first_tile[0] : part.first_tile[1], range == 0 ? part.tiles[0] : part.tiles[1],
               places.slots(range, half), of_team);
}

FragmentsKernel kernel_of(const Header& code) {
  if (!is_float(code.form)) return nullptr;
  return for_float_code(code, [&](auto symbol_cols, auto form, auto) -> FragmentsKernel {
    constexpr int kForm = decltype(form)::value;
    if constexpr (!is_f8(kForm)) return multiply_by_slabs<decltype(symbol_cols)::value, kForm>;
    return nullptr;
  });
}

// Chooses the number of shares whose blocks are done first.
FragmentsPlan plan_tokens(const backends::Policy&, const backends::CompressedView& view,
                          const backends::DeviceInfo& device, int) {
  const Header code = header_of(view);
  const datasets::Shape stored = stored_shape(view);
  const int64_t groups = row_groups(stored.rows), tiles = column_tiles(stored.cols, tile_cols_of(code)),
                row_blocks = (groups + kRowTiles * gpu::kWarpgroup - 1) / (kRowTiles * gpu::kWarpgroup),
                rings = int64_t{kDecoders} * kLeanRingBytes;
  FragmentsPlan best{.kernel = kernel_of(code), .rounds = true};
  BlockPlan& plan = best.plan;
  constexpr int kMostCopies = 32;
  if (best.kernel == nullptr ||
      !place_table(plan, code, kMostCopies, shared_bytes_beside_adding(device) - rings - kGatesBytes - kPlacesBytes))
    return best;
  plan.lane_groups = kAllGroups;
  plan.lane_groups_of_rows = 1;
  best.layout.facts = plan.rings + static_cast<int>(rings);
  best.layout.tokens = best.layout.facts + kGatesBytes;
  plan.bytes = best.layout.tokens + kPlacesBytes;
  double least = 0;
  for (int64_t share_tiles = tiles; share_tiles >= 1; --share_tiles) {
    const int64_t shares = (tiles + share_tiles - 1) / share_tiles, blocks = row_blocks * shares;
    if (share_tiles != (tiles + shares - 1) / shares || shares > kMostTokenGroups) continue;
    const int64_t rounds = (blocks + device.compute_units - 1) / device.compute_units;
    const double time =
        static_cast<double>(rounds * ((share_tiles + 1) / 2)) * (1 + 0.02 * static_cast<double>(shares));
    if (best.blocks != 0 && time >= least) continue;
    least = time;
    best.layout.share_tiles = static_cast<int>(share_tiles);
    best.layout.shares = static_cast<int>(shares);
    best.blocks = blocks;
  }
  return best;
}

constexpr backends::Policy kPolicies[] = {{"tokens128"}};

std::string refuses(const backends::CompressedView& view, const backends::DeviceInfo& device,
                    const backends::Policy& named) {
  if (!gpu::have_bulk_copies(device)) return "The kernel needs bulk copies, which devices have from sm_90 on.";
  return refuses_fragments(view, device, named, plan_tokens, "The kernel is for bf16 elements.");
}

// Tokens in the order of slabs lie in the scratch after the sums of shares.
struct MultiplyBySlabs {
  Matrix matrix;
  gpu::TokenParts<FragmentsPlan> parts;
  int64_t cols, blocks, sums_bytes;
  int compute_units;
  bool early;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    parts.each(args, [&](int first, int batch, int, const FragmentsPlan& of) {
      gpu::Bf16Tokens tokens = gpu::bf16_tokens_of(args, batch, first);
      if (of.layout.shares > 1) tokens.store_shares(args.scratch);
      gpu::enqueue_token_blocks<SlabOrder>(stream, tokens, cols, blocks, kTokens, args.scratch + sums_bytes,
                                           compute_units, early);
      gpu::launch(of.kernel, {of.blocks, of.plan.lane_groups * kLanes, of.plan.bytes, early}, stream, matrix, of.plan,
                  of.layout, hidden_of(of.plan), static_cast<int>(cols), tokens);
      gpu::enqueue_add_shares(stream, args, first, batch, of.layout.shares, compute_units, early);
    });
  }
};

backends::BoundKernel bind(const backends::Policy& named, Layers layers, int batch, backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const Header code = header_of(view);
  const backends::DeviceInfo& device = place.device();
  const auto parts =
      gpu::token_parts(batch, kTokens, [&](int tokens) { return plan_tokens(named, view, device, tokens); });
  backends::KernelFacts facts = facts_of_shares(view, code, parts);
  const int64_t blocks = row_segments(stored_shape(view).cols, code.symbol_cols) *
                         (2 * segment_cols(code.symbol_cols) / gpu::kBlockCols),
                shares = parts.whole.layout.shares,
                sums = shares > 1 ? shares * std::min(kTokens, batch) * view.shape.rows * 4 : 0,
                sums_bytes = (sums + gpu::kBlockAlignment - 1) / gpu::kBlockAlignment * gpu::kBlockAlignment;
  facts.scratch_bytes = sums_bytes + blocks * TokenStages::kBytes;
  return {MultiplyBySlabs{matrix_of(view, code), parts, view.shape.cols, blocks, sums_bytes, device.compute_units,
                          gpu::have_early_launches(device)},
          facts};
}

}  // namespace

backends::Kernel fragment_slabs() {
  return {.op = backends::Op::matmul,
          .variant = "slabs",
          .policies = kPolicies,
          .activations = backends::Activations::bf16,
          .most_tokens = backends::kMostTokens,
          .refuses = refuses,
          .bind = bind};
}

}  // namespace ecmv::codecs::quad_huffman::ECMV_GPU_NAMESPACE
