// GPU kernels of huffman_exponents: policies, refusals and launches. The kernels are in gpu/: container.h (two_phase),
// segments.h (segments), rings.h (rings) and tokens.h (tokens). Every enqueue first runs a small kernel that lays out
// the look-up tables in scratch, so the thread blocks of the main kernel only copy them.
#include <algorithm>
#include <array>
#include <string>

#include "codecs/huffman_exponents/gpu/container.h"
#include "codecs/huffman_exponents/gpu/rings.h"
#include "codecs/huffman_exponents/gpu/segments.h"
#include "codecs/huffman_exponents/gpu/token_plan.h"
#include "codecs/modelling/sections_gpu.h"

namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;

using namespace modelling::ECMV_GPU_NAMESPACE;
using backends::Layers;

// ---- container

constexpr int kContainerBits = 12;

// A thread block decodes one block of the format, with four on a multiprocessor. On an H200 that is 3.5 % faster than
// two format blocks a thread block, and 4.6 % faster than three thread blocks at once.
constexpr int kContainerThreads = 512, kContainerResident = 4;
constexpr backends::Policy kContainerPolicies[] = {{"threads512_waves64"}};

std::string refuses_container(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                              const backends::Policy&) {
  if (matrix.settings->text("layout") != "container") return "This kernel decodes the layout container only.";
  return refuses_shared(container_gpu::shared_bytes_of(kContainerBits, kContainerThreads), device);
}

using ContainerKernel = void (*)(container_gpu::Stream, gpu::Pointer<uint8_t> decoded);

struct ContainerDecode {
  container_gpu::Stream stored;  // without the table, which lies in scratch
  ContainerKernel kernel;
  gpu::LaunchShape shape;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    gpu::uint2* const runs = reinterpret_cast<gpu::uint2*>(args.scratch);
    container_gpu::Stream laid_out = stored;
    laid_out.runs = runs;
    gpu::launch(container_gpu::lay_out<kContainerBits>, a_thread_each(1 << kContainerBits), stream, laid_out, runs);
    gpu::launch(kernel, shape, stream, laid_out, reinterpret_cast<uint8_t*>(args.out));
  }
};

backends::BoundKernel bind_container(const backends::Policy&, Layers layers, int, backends::Place& place) {
  using namespace container;
  const backends::CompressedView& matrix = *layers[0].matrix;
  const int64_t bytes = size_of(matrix, kEncoded) - kSpareBytes;
  const container_gpu::Stream stored = {.luts = bytes_of(matrix, kLuts),
                                        .encoded = bytes_of(matrix, kEncoded),
                                        .raw = bytes_of(matrix, kSignMantissa),
                                        .gaps = bytes_of(matrix, kGaps),
                                        .positions = words_of(matrix, kOutputPositions),
                                        .runs = nullptr,
                                        .threads = (bytes + kThreadBytes - 1) / kThreadBytes,
                                        .blocks = (bytes + kBlockBytes - 1) / kBlockBytes,
                                        .position_count = size_of(matrix, kOutputPositions) / 4,
                                        .elements = matrix.shape.elements(),
                                        .tables = static_cast<int>(size_of(matrix, kLuts) / 256) - 1};
  const ContainerKernel kernel =
      is_bf16(matrix.type) ? container_gpu::two_phase<true, kContainerBits, kContainerThreads, kContainerResident>
                           : container_gpu::two_phase<false, kContainerBits, kContainerThreads, kContainerResident>;
  // The grid has as many thread blocks as are resident at once: each copies the tables once and then takes piece after
  // piece.
  const int64_t pieces = (stored.blocks * kBlockThreads + kContainerThreads - 1) / kContainerThreads;
  const gpu::LaunchShape shape{std::min<int64_t>(pieces, int64_t{place.device().compute_units} * kContainerResident),
                               kContainerThreads, container_gpu::shared_bytes_of(kContainerBits, kContainerThreads)};
  return {ContainerDecode{stored, kernel, shape}, {.scratch_bytes = container_gpu::table_bytes_of(kContainerBits)}};
}

// ---- segments

constexpr int kTokensAtOnce = 8;

int64_t segments_of(const backends::CompressedView& matrix) {
  const int64_t cols = matrix.settings->integer("segment_cols");
  return (matrix.shape.cols + cols - 1) / cols;
}

constexpr char kRefusesF8[] = "The kernel is for bf16 elements.";

// "" or why no kernel takes this matrix.
std::string refuses_tiles(const backends::CompressedView& matrix) {
  if (matrix.settings->text("layout") != "segments") return "This kernel decodes the layout segments only.";
  if (matrix.shape.cols >= int64_t{1} << 27)
    return "The kernel counts columns of 8 tokens in 32 bits: fewer than 2^27 of them.";
  return "";
}

// The scratch holds the table of pairs, the single codes and, for products, each segment's sums for the tokens that are
// multiplied at once.
struct Tiles {
  segments_gpu::Matrix stored;  // without what lies in scratch
  int bits, compute_units;

  Tiles(const backends::CompressedView& matrix, int bits_of_pairs, const backends::Place& place)
      : stored{}, bits(bits_of_pairs), compute_units(place.device().compute_units) {
    using namespace segments;
    stored.code = bytes_of(matrix, kCode);
    stored.streams = words_of(matrix, kStreams);
    stored.raw = words_of(matrix, kSignMantissa);
    stored.tiles = words_of(matrix, kTiles);
    stored.rows = matrix.shape.rows;
    stored.cols = static_cast<int>(matrix.shape.cols);
    stored.segment_cols = static_cast<int>(matrix.settings->integer("segment_cols"));
    stored.segments = static_cast<int>(segments_of(matrix));
    stored.code_bits = static_cast<int>(matrix.settings->integer("code_bits"));
  }

  bool empty() const { return stored.rows == 0 || stored.cols == 0; }
  int64_t pair_bytes() const { return int64_t{4} << bits; }
  int64_t table_bytes() const { return pair_bytes() + (int64_t{2} << stored.code_bits); }
  int64_t partial_bytes() const {
    return stored.segments > 1 ? stored.segments * kTokensAtOnce * stored.rows * int64_t{sizeof(float)} : 0;
  }

  // The sums begin here, after the tables.
  int64_t sums_place() const { return (table_bytes() + 255) / 256 * 256; }

  segments_gpu::Matrix lay_out(void* stream, std::byte* scratch) const {
    uint32_t* const pairs = reinterpret_cast<uint32_t*>(scratch);
    uint16_t* const singles = reinterpret_cast<uint16_t*>(scratch + pair_bytes());
    segments_gpu::Matrix laid_out = stored;
    laid_out.pairs = pairs;
    laid_out.singles = singles;
    gpu::launch(segments_gpu::lay_out, a_thread_each(int64_t{1} << std::max(bits, stored.code_bits)), stream, laid_out,
                bits, pairs, singles);
    return laid_out;
  }

  // The grid has as many thread blocks as are resident at once: each copies the table once and then takes tile after
  // tile.
  gpu::LaunchShape shape(int resident, int tiles_of_block, int threads, int64_t shared_bytes) const {
    const int64_t tiles = (stored.rows + segments::kGroupRows - 1) / segments::kGroupRows * stored.segments;
    return {std::min<int64_t>((tiles + tiles_of_block - 1) / tiles_of_block, int64_t{compute_units} * resident),
            threads, shared_bytes};
  }
  gpu::LaunchShape shape_without_rings(int resident) const {
    return shape(resident, segments_gpu::kTilesOfBlock, segments_gpu::kThreads, pair_bytes());
  }
};

struct TilesDecode {
  Tiles tiles;
  void (*kernel)(segments_gpu::Matrix, gpu::Pointer<uint8_t> decoded);
  gpu::LaunchShape shape;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    if (tiles.empty()) return;
    const segments_gpu::Matrix laid_out = tiles.lay_out(stream, args.scratch);
    gpu::launch(kernel, shape, stream, laid_out, reinterpret_cast<uint8_t*>(args.out));
  }
};

// A pass over the codes multiplies at most so many tokens.
struct TokensPass {
  void (*kernel)(segments_gpu::Matrix, gpu::Pointer<const float> x, int x_stride, int tokens,
                 gpu::Pointer<float> partial, int64_t segment_stride);
  gpu::LaunchShape shape;
};

using TokensPasses = std::array<TokensPass, 4>;  // of 1, 2, 4 and 8 tokens

// A pass over the codes takes up to 8 tokens; larger batches take several passes.
struct TilesProduct {
  Tiles tiles;
  TokensPasses passes;
  int batch;
  void operator()(void* stream, const backends::MatmulArgs& args) const {
    const int64_t rows = tiles.stored.rows;
    if (tiles.empty()) {  // rows without columns: all sums are 0
      gpu::launch(segments_gpu::add_segments, a_thread_each(batch * rows), stream, args.y, 0, 0, args.y, batch * rows);
      return;
    }
    const segments_gpu::Matrix laid_out = tiles.lay_out(stream, args.scratch);
    const bool whole_rows = laid_out.segments == 1;
    for (int first = 0; first < batch; first += kTokensAtOnce) {
      const int tokens = std::min(kTokensAtOnce, batch - first);
      float* const y = args.y + first * rows;
      float* const partial = whole_rows ? y : reinterpret_cast<float*>(args.scratch + tiles.table_bytes());
      const TokensPass& pass = passes[tokens == 1 ? 0 : tokens == 2 ? 1 : tokens <= 4 ? 2 : 3];
      gpu::launch(pass.kernel, pass.shape, stream, laid_out, args.x + first * args.x_stride,
                  static_cast<int>(args.x_stride), tokens, partial, tokens * rows);
      if (!whole_rows)
        gpu::launch(segments_gpu::add_segments, a_thread_each(tokens * rows), stream, partial, tokens * rows,
                    laid_out.segments, y, tokens * rows);
    }
  }
};

// Bits of the index of the table of pairs, and thread blocks that share a multiprocessor.
struct SegmentPolicy : backends::Policy {
  int bits, resident;
};
// These serve products. Decoding by segments is only for f8 and for rows that rings refuse.
constexpr SegmentPolicy kSegmentPolicies[] = {{{"bits14"}, 14, 2}, {{"bits13_waves48"}, 13, 3}};
constexpr SegmentPolicy kSegmentDecodePolicies[] = {kSegmentPolicies[0]};

std::string refuses_segments(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                             const backends::Policy& policy) {
  const std::string reason = refuses_tiles(matrix);
  return reason.empty() ? refuses_shared(int64_t{4} << policy.as<SegmentPolicy>().bits, device) : reason;
}

std::string refuses_segments_product(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                                     const backends::Policy& policy) {
  return is_bf16(matrix.type) ? refuses_segments(matrix, device, policy) : kRefusesF8;
}

// 48 waves would leave too few registers.
constexpr int kResidentF8 = 2;

backends::BoundKernel bind_segments_decode(const backends::Policy& policy, Layers layers, int, backends::Place& place) {
  const auto& values = policy.as<SegmentPolicy>();
  const Tiles tiles(*layers[0].matrix, values.bits, place);
  const bool bf16 = is_bf16(layers[0].matrix->type);
  constexpr SegmentPolicy kPolicy = kSegmentDecodePolicies[0];
  const auto kernel =
      bf16 ? segments_gpu::decode<kPolicy.bits, kPolicy.resident> : segments_gpu::decode_f8<kPolicy.bits, kResidentF8>;
  return {TilesDecode{tiles, kernel, tiles.shape_without_rings(bf16 ? values.resident : kResidentF8)},
          {.scratch_bytes = tiles.table_bytes()}};
}

// 48 waves leave too few registers for several tokens.
constexpr int kResidentOfTokens = 2;

template <int kBits, int kTokens, int kResident>
TokensPass pass_without_rings(const Tiles& tiles) {
  return {segments_gpu::multiply<kBits, kTokens, kResident>, tiles.shape_without_rings(kResident)};
}

backends::BoundKernel bind_segments_product(const backends::Policy& policy, Layers layers, int batch,
                                            backends::Place& place) {
  const Tiles tiles(*layers[0].matrix, policy.as<SegmentPolicy>().bits, place);
  const auto passes = backends::with_policy<kSegmentPolicies>(policy, [&](auto i) -> TokensPasses {
    constexpr int kBits = kSegmentPolicies[i].bits;
    return {pass_without_rings<kBits, 1, kSegmentPolicies[i].resident>(tiles),
            pass_without_rings<kBits, 2, kResidentOfTokens>(tiles),
            pass_without_rings<kBits, 4, kResidentOfTokens>(tiles),
            pass_without_rings<kBits, 8, kResidentOfTokens>(tiles)};
  });
  return {TilesProduct{tiles, passes, batch}, {.scratch_bytes = tiles.table_bytes() + tiles.partial_bytes()}};
}

// ---- segments through rings

// Each policy is the fastest decode of some published setting. In products, 14 bits are within 2 % of the best in 22 of
// 26 settings, and 13 bits in the rest.
struct RingPolicy : backends::Policy {
  int bits, threads, resident;
};
constexpr RingPolicy kRingPolicies[] = {
    {{"bits14"}, 14, 1024, 1}, {{"bits13"}, 13, 512, 2}, {{"bits11_threads256"}, 11, 256, 4}};

std::string refuses_row_groups(const backends::CompressedView& matrix) {
  return matrix.shape.rows % segments::kGroupRows == 0
             ? ""
             : "The rings hold whole groups of 32 rows; " + std::to_string(matrix.shape.rows) +
                   " rows are no multiple of that.";
}
std::string refuses_rings(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                          const backends::Policy& policy) {
  const auto& values = policy.as<RingPolicy>();
  if (const std::string reason = refuses_tiles(matrix); !reason.empty()) return reason;
  if (!is_bf16(matrix.type)) return kRefusesF8;
  if (const std::string reason = refuses_row_groups(matrix); !reason.empty()) return reason;
  return refuses_shared(segments_gpu::ring_bytes_of(values.bits, values.threads), device);
}

gpu::LaunchShape rings_shape(const Tiles& tiles, const RingPolicy& policy) {
  return tiles.shape(policy.resident, policy.threads / segments::kGroupRows, policy.threads,
                     segments_gpu::ring_bytes_of(policy.bits, policy.threads));
}

backends::BoundKernel bind_rings_decode(const backends::Policy& policy, Layers layers, int, backends::Place& place) {
  const auto& values = policy.as<RingPolicy>();
  const Tiles tiles(*layers[0].matrix, values.bits, place);
  const auto kernel = backends::with_policy<kRingPolicies>(policy, [](auto i) -> decltype(TilesDecode::kernel) {
    return segments_gpu::decode_in_rings<kRingPolicies[i].bits, kRingPolicies[i].threads, kRingPolicies[i].resident>;
  });
  return {TilesDecode{tiles, kernel, rings_shape(tiles, values)}, {.scratch_bytes = tiles.table_bytes()}};
}

backends::BoundKernel bind_rings_product(const backends::Policy& policy, Layers layers, int batch,
                                         backends::Place& place) {
  const auto& values = policy.as<RingPolicy>();
  const Tiles tiles(*layers[0].matrix, values.bits, place);
  const auto passes = backends::with_policy<kRingPolicies>(policy, [&](auto i) -> TokensPasses {
    constexpr int kBits = kRingPolicies[i].bits, kThreads = kRingPolicies[i].threads,
                  kResident = kRingPolicies[i].resident;
    // The sums of more tokens do not fit the registers beside the state of the rings: 8 tokens take 1.6× as long with
    // rings.
    return {TokensPass{segments_gpu::multiply_in_rings<kBits, kThreads, 1, kResident>, rings_shape(tiles, values)},
            TokensPass{segments_gpu::multiply_in_rings<kBits, kThreads, 2, kResident>, rings_shape(tiles, values)},
            pass_without_rings<kBits, 4, kResidentOfTokens>(tiles),
            pass_without_rings<kBits, 8, kResidentOfTokens>(tiles)};
  });
  return {TilesProduct{tiles, passes, batch}, {.scratch_bytes = tiles.table_bytes() + tiles.partial_bytes()}};
}

// ---- tokens of bf16

std::string refuses_tokens(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  if (matrix.shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (const std::string reason = refuses_tiles(matrix); !reason.empty()) return reason;
  if (const std::string reason = refuses_row_groups(matrix); !reason.empty()) return reason;
  if (const int unit = segments::unit_cols(is_bf16(matrix.type)); matrix.shape.cols % unit != 0)
    return "The kernel takes columns in multiples of " + std::to_string(unit) + ".";
  if (segments_gpu::place_tokens(policy.as<segments_gpu::SegmentTokenPolicy>(), matrix.shape,
                                 static_cast<int>(matrix.settings->integer("segment_cols")), 1, device.compute_units,
                                 device.shared_bytes)
          .bytes == 0)
    return "The table, the rings of the lane groups and a slice of a token do not fit the shared memory of a block.";
  return "";
}

// A batch that does not fit is halved.
struct SegmentTokenProduct {
  Tiles tiles;
  gpu::TokenParts<segments_gpu::SizedLayout> parts;
  bool together, bf16, early;

  void operator()(void* stream, const backends::MatmulArgs& args) const {
    const segments_gpu::Matrix laid_out = tiles.lay_out(stream, args.scratch);
    float* const partial = reinterpret_cast<float*>(args.scratch + tiles.sums_place());
    parts.each([&](int first, int batch, const segments_gpu::SizedLayout& sized) {
      const segments_gpu::TokenLayout& layout = sized.layout;
      gpu::Bf16Tokens tokens = gpu::bf16_tokens_of(args, batch, first);
      float* const y = args.y + first * args.y_stride;
      if (layout.shares > 1) tokens.y = partial;
      if (together)
        gpu::enqueue_token_blocks<gpu::Bf16Elements>(
            stream, tokens, tiles.stored.cols, 8 * gpu::token_tiles(tokens.batch, true),
            reinterpret_cast<std::byte*>(partial) + gpu::share_scratch_bytes(layout.shares, tiles.stored.rows),
            tiles.compute_units, early);
      const int64_t groups = tiles.stored.rows / segments::kGroupRows,
                    row_blocks = (groups + layout.row_groups - 1) / layout.row_groups;
      gpu::launch(
          bf16 ? segments_gpu::token_kernel<true>(together, tokens.batch)
               : segments_gpu::token_kernel<false>(together, tokens.batch),
          {row_blocks * layout.shares, layout.row_groups * layout.parts * segments::kGroupRows, sized.bytes, early},
          stream, laid_out, layout, tokens);
      gpu::enqueue_add_shares(stream, reinterpret_cast<const std::byte*>(partial), layout.shares,
                              tokens.batch * tokens.rows, y, tiles.compute_units, early);
    });
  }
};

backends::BoundKernel bind_tokens(const backends::Policy& named, Layers layers, int batch, backends::Place& place) {
  const backends::CompressedView& matrix = *layers[0].matrix;
  const backends::DeviceInfo& device = place.device();
  const auto& policy = named.as<segments_gpu::SegmentTokenPolicy>();
  const Tiles tiles(matrix, policy.bits, place);
  const int shares =
      segments_gpu::divide_tokens(policy, matrix.shape, tiles.stored.segment_cols, device.compute_units).shares;
  const auto parts = gpu::halved_token_parts(batch, [&](int tokens) {
    return segments_gpu::place_tokens(policy, matrix.shape, tiles.stored.segment_cols, tokens, device.compute_units,
                                      device.shared_bytes);
  });
  return {SegmentTokenProduct{tiles, parts, policy.together, is_bf16(matrix.type), gpu::have_early_launches(device)},
          {.scratch_bytes = tiles.sums_place() + gpu::share_scratch_bytes(shares, matrix.shape.rows) +
                            (policy.together ? gpu::token_blocks_bytes(matrix.shape.cols) : 0),
           .rounding = gpu::token_rounding(matrix.shape.cols, policy.lane_groups + shares)}};
}

using backends::Activations, backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode,
     .variant = "two_phase",
     .policies = kContainerPolicies,
     .refuses = refuses_container,
     .bind = bind_container},
    {.op = Op::decode,
     .variant = "rings",
     .policies = kRingPolicies,
     .refuses = refuses_rings,
     .bind = bind_rings_decode},
    {.op = Op::decode,
     .variant = "segments",
     .policies = kSegmentDecodePolicies,
     .refuses = refuses_segments,
     .bind = bind_segments_decode},
    {.op = Op::matmul,
     .variant = "rings",
     .policies = kRingPolicies,
     .refuses = refuses_rings,
     .bind = bind_rings_product},
    {.op = Op::matmul,
     .variant = "segments",
     .policies = kSegmentPolicies,
     .refuses = refuses_segments_product,
     .bind = bind_segments_product},
    {.op = Op::matmul,
     .variant = "tokens",
     .policies = segments_gpu::kTokenPolicies,
     .activations = Activations::bf16,
     .refuses = refuses_tokens,
     .bind = bind_tokens},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE
