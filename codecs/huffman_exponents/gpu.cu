// The GPU kernel of huffman_exponents (gpu/container.h): policy, refusal and launches. Every enqueue first runs a small
// kernel that lays out the look-up table in scratch, so the thread blocks of the main kernel only copy it.
#include <algorithm>
#include <string>

#include "codecs/huffman_exponents/gpu/container.h"
#include "codecs/modelling/sections_gpu.h"

namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;

using namespace modelling::ECMV_GPU_NAMESPACE;
constexpr int kBits = 12;

// A thread block decodes one block of the format, with four on a multiprocessor. On an H200 that is 3.5 % faster than
// two format blocks a thread block, and 4.6 % faster than three thread blocks at once.
constexpr int kThreads = kBlockThreads, kResident = 4;
constexpr backends::Policy kPolicies[] = {{"threads512_waves64"}};

std::string refuses(const backends::CompressedView&, const backends::DeviceInfo& device, const backends::Policy&) {
  return refuses_shared(container_gpu::shared_bytes_of(kBits, kThreads), device);
}

using DecodeKernel = void (*)(container_gpu::Stream, gpu::Pointer<uint8_t> decoded);

struct ContainerDecode {
  container_gpu::Stream stored;  // without the table, which lies in scratch
  DecodeKernel kernel;
  gpu::LaunchShape shape;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    gpu::uint2* const runs = reinterpret_cast<gpu::uint2*>(args.scratch);
    container_gpu::Stream laid_out = stored;
    laid_out.runs = runs;
    gpu::launch(container_gpu::lay_out<kBits>, a_thread_each(1 << kBits), stream, laid_out, runs);
    gpu::launch(kernel, shape, stream, laid_out, reinterpret_cast<uint8_t*>(args.out));
  }
};

backends::BoundKernel bind(const backends::Policy&, backends::Layers layers, int, backends::Place& place) {
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
  const DecodeKernel kernel = is_bf16(matrix.type) ? container_gpu::two_phase<true, kBits, kThreads, kResident>
                                                   : container_gpu::two_phase<false, kBits, kThreads, kResident>;
  // The grid has as many thread blocks as are resident at once: each copies the tables once and then takes piece after
  // piece.
  const int64_t pieces = (stored.blocks * kBlockThreads + kThreads - 1) / kThreads;
  const gpu::LaunchShape shape{std::min<int64_t>(pieces, int64_t{place.device().compute_units} * kResident), kThreads,
                               container_gpu::shared_bytes_of(kBits, kThreads)};
  return {ContainerDecode{stored, kernel, shape}, {.scratch_bytes = container_gpu::table_bytes_of(kBits)}};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "two_phase", .policies = kPolicies, .refuses = refuses, .bind = bind},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE
