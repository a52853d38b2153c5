// GPU kernels of huffman_lut for the layout hierarchical: policies, refusals and launches. The kernels are in
// gpu/hierarchical.h. Every enqueue first runs small kernels that lay out the look-up tables in scratch, so the thread
// blocks of the main kernel only copy them. The scratch holds tables, never results.
#include <algorithm>
#include <string>

#include "codecs/huffman_lut/gpu/hierarchical.h"
#include "codecs/modelling/sections_gpu.h"

namespace ecmv::codecs::huffman_lut::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;

using namespace modelling::ECMV_GPU_NAMESPACE;

using backends::Layers;

struct TablePolicy : backends::Policy {
  bool pairs;  // a table of short codes, two a look-up, before the others
};
constexpr TablePolicy kTablePolicies[] = {{{"pairs"}, true}, {{"tables"}, false}};
// Scratch: joined tables, pairs, the last thread's bytes.
constexpr int64_t kEntryBytes = (hierarchical::kMaxSubtables + 1) * 512, kPairTableBytes = gaps::kPairEntries * 4,
                  kLastThreadBytes = 64;

int tables_of(const backends::CompressedView& matrix) {
  return static_cast<int>(size_of(matrix, hierarchical::kLuts) / 256) - 1;
}

int64_t gaps_shared_bytes(const backends::CompressedView& matrix, bool pairs) {
  return gaps::table_bytes_of(tables_of(matrix), pairs) + gaps::kSumBytes + gaps::kElementBytes + 16;
}

std::string refuses_gaps(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                         const backends::Policy& policy) {
  if (matrix.settings->text("layout") != "hierarchical")
    return "On GPUs huffman_lut has kernels for the layout hierarchical only.";
  return refuses_shared(gaps_shared_bytes(matrix, policy.as<TablePolicy>().pairs), device);
}

struct Gaps {
  gaps::Stream stored;  // without what lies in scratch
  bool pairs;
  gpu::LaunchShape shape;  // of the main kernel

  Gaps(const backends::CompressedView& matrix, const backends::Policy& policy, const backends::DeviceInfo& device)
      : stored{}, pairs(policy.as<TablePolicy>().pairs) {
    using namespace hierarchical;
    const int64_t bytes = size_of(matrix, kEncoded) - kSpareBytes;
    stored.luts = bytes_of(matrix, kLuts);
    stored.encoded = bytes_of(matrix, kEncoded);
    stored.gaps = bytes_of(matrix, kGaps);
    stored.offset = bytes_of(matrix, kOffset);
    stored.positions = reinterpret_cast<const uint32_t*>(bytes_of(matrix, kOutputPositions));
    stored.threads = (bytes + kThreadBytes - 1) / kThreadBytes;
    stored.blocks = (bytes + kBlockBytes - 1) / kBlockBytes;
    stored.encoded_bytes = size_of(matrix, kEncoded);
    stored.tables = tables_of(matrix);
    // The grid has as many thread blocks as are resident at once: each copies the tables once and then takes block
    // after block.
    constexpr int kBlocksOfUnit = 4;
    shape = {std::min<int64_t>(stored.blocks, int64_t{device.compute_units} * kBlocksOfUnit), gaps::kBlockThreads,
             gaps_shared_bytes(matrix, pairs)};
  }

  // Lays out the tables, and zeroes y in the first `zero_rows` rows.
  gaps::Stream lay_out(void* stream, std::byte* scratch, int32_t* y, int64_t zero_rows) const {
    gaps::Stream laid_out = stored;
    std::byte* const pair_table = scratch + kEntryBytes;
    std::byte* const last_thread = pair_table + kPairTableBytes;
    laid_out.entries = reinterpret_cast<const uint16_t*>(scratch);
    laid_out.pairs = reinterpret_cast<const uint32_t*>(pair_table);
    laid_out.last_thread = reinterpret_cast<const uint32_t*>(last_thread);
    gpu::launch(gaps::lay_out, a_thread_each(std::max<int64_t>(zero_rows, laid_out.tables * 256)), stream, laid_out,
                reinterpret_cast<uint16_t*>(scratch), reinterpret_cast<uint8_t*>(last_thread), y, zero_rows);
    if (pairs && stored.blocks > 0)  // without elements the tables are no complete code, which the kernel walks
      gpu::launch(gaps::lay_out_pairs, a_thread_each(gaps::kPairEntries), stream, laid_out,
                  reinterpret_cast<uint32_t*>(pair_table));
    return laid_out;
  }
};

struct TwoPhase {
  Gaps base;
  decltype(&gaps::two_phase<true>) kernel;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    const gaps::Stream laid_out = base.lay_out(stream, args.scratch, nullptr, 0);
    gpu::launch(kernel, base.shape, stream, laid_out, reinterpret_cast<int8_t*>(args.out));
  }
};

struct Fused {
  Gaps base;
  decltype(&gaps::fused<true>) kernel;
  datasets::Shape of_matrix;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    const gaps::Stream laid_out = base.lay_out(stream, args.scratch, args.y, of_matrix.rows);
    gpu::launch(kernel, base.shape, stream, laid_out, static_cast<uint32_t>(of_matrix.cols), args.x, args.y);
    gpu::launch(gaps::requantise_rows, a_thread_each(of_matrix.rows), stream, gpu::epilogue_of(args), of_matrix.rows);
  }
};

constexpr int64_t kGapsScratchBytes = kEntryBytes + kPairTableBytes + kLastThreadBytes;

backends::BoundKernel bind_two_phase(const backends::Policy& policy, Layers layers, int, backends::Place& place) {
  const Gaps bound(*layers[0].matrix, policy, place.device());
  return {TwoPhase{bound, bound.pairs ? gaps::two_phase<true> : gaps::two_phase<false>},
          {.scratch_bytes = kGapsScratchBytes}};
}
backends::BoundKernel bind_fused(const backends::Policy& policy, Layers layers, int, backends::Place& place) {
  const Gaps bound(*layers[0].matrix, policy, place.device());
  return {Fused{bound, bound.pairs ? gaps::fused<true> : gaps::fused<false>, layers[0].matrix->shape},
          {.scratch_bytes = kGapsScratchBytes, .requantises = true}};
}

using backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode,
     .variant = "two_phase",
     .policies = kTablePolicies,
     .refuses = refuses_gaps,
     .bind = bind_two_phase},
    {.op = Op::matvec, .variant = "fused", .policies = kTablePolicies, .refuses = refuses_gaps, .bind = bind_fused},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_lut::ECMV_GPU_NAMESPACE
