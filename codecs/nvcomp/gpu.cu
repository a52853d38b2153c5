// The decode kernel of nvcomp: nvCOMP's own, called on the backend's stream. Its calls take arrays in the device's
// memory with the addresses and sizes of all chunks, more than a binding may describe. So a small launch of ours makes
// them from the stored ends, in the scratch, in every enqueue and inside the measured time.
//
// The emulator runs this with a library from the tests that works on the host's memory.
#include <algorithm>

#include "backends/gpu/memory.h"
#include "codecs/compressed_matrix.h"
#include "codecs/nvcomp/options.h"

namespace ecmv::codecs::nvcomp::ECMV_GPU_NAMESPACE {
namespace gpu = backends::gpu;
namespace {

constexpr int kThreadsOfBlock = 256;

// The arrays that describe the chunks to nvCOMP, one after the other, a word a chunk each.
enum Column : int { kCompressedAt, kCompressedBytes, kChunkAt, kChunkBytes, kWrittenBytes, kStatus, kColumns };

// One thread a chunk.
ECMV_GPU_KERNEL void list_chunks(gpu::Pointer<const uint64_t> ends, uint64_t payload, uint64_t out, int64_t bytes,
                                 int64_t chunk_bytes, int64_t chunks, gpu::Pointer<uint64_t> table) {
  const int64_t chunk = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (chunk >= chunks) return;
  const uint64_t align = kChunkAlignBytes;
  const uint64_t begin = chunk == 0 ? 0 : (ends[chunk - 1] + align - 1) / align * align;
  const int64_t first = chunk * chunk_bytes, left = bytes - first;
  table[kCompressedAt * chunks + chunk] = payload + begin;
  table[kCompressedBytes * chunks + chunk] = ends[chunk] - begin;
  table[kChunkAt * chunks + chunk] = out + static_cast<uint64_t>(first);
  table[kChunkBytes * chunks + chunk] = static_cast<uint64_t>(left < chunk_bytes ? left : chunk_bytes);
}

// `inferred` lets each chunk say how it was made. `told_unchecked` tells the library, which can then run a more special
// kernel, and leaves out its checks of each chunk.
struct ToldPolicy : backends::Policy {
  bool told;
};
constexpr ToldPolicy kToldPolicies[] = {{{"inferred"}, false}, {{"told_unchecked"}, true}};

struct Decompress {
  Calls::Decompress call;
  const std::byte *payload, *ends;
  Cut cut;
  int64_t temp_bytes;
  Options options;
  static constexpr int64_t kWord = sizeof(uint64_t);
  int64_t temp_offset() const { return round_up(kColumns * kWord * cut.chunks(), kBufferAlignBytes); }

  void operator()(void* stream, const backends::DecodeArgs& args) const {
    const int64_t chunks = cut.chunks();
    if (chunks == 0) return;
    auto* const table = reinterpret_cast<uint64_t*>(args.scratch);
    gpu::launch(list_chunks, {(chunks + kThreadsOfBlock - 1) / kThreadsOfBlock, kThreadsOfBlock, 0}, stream,
                reinterpret_cast<const uint64_t*>(ends), reinterpret_cast<uint64_t>(payload),
                reinterpret_cast<uint64_t>(args.out), cut.bytes, cut.chunk_bytes, chunks, table);
    const auto column = [&](Column which) { return static_cast<void*>(table + which * chunks); };
    const int status = call(
        static_cast<const void* const*>(column(kCompressedAt)), static_cast<const size_t*>(column(kCompressedBytes)),
        static_cast<const size_t*>(column(kChunkBytes)), static_cast<size_t*>(column(kWrittenBytes)),
        static_cast<size_t>(chunks), args.scratch + temp_offset(), static_cast<size_t>(temp_bytes),
        static_cast<void* const*>(column(kChunkAt)), options, static_cast<int*>(column(kStatus)), stream);
    if (status != 0) backends::fail_launch(library().failed("decompress the chunks", status));
  }
};

Options options_of(const CompressedView& matrix, const backends::Policy& policy) {
  return decompress_options(*matrix.settings, matrix.type, policy.as<ToldPolicy>().told);
}

std::string refuses(const CompressedView& matrix, const backends::DeviceInfo& device, const backends::Policy& policy) {
  if (device.simd_target.starts_with("gfx")) return "nvCOMP decompresses on NVIDIA's devices alone.";
  if (!library().missing.empty()) return library().missing;
  const Method method = method_of(*matrix.settings);
  const Calls& calls = library().calls(method);
  if (!calls.missing.empty()) return calls.missing;
  if (policy.as<ToldPolicy>().told && method != Method::ans)
    return "Of nvCOMP's methods only ANS can be told how its chunks were made.";
  Alignments alignments;
  if (const int status = calls.decompress_alignments(options_of(matrix, policy), &alignments); status != 0)
    return library().failed("say how its buffers are aligned", status);
  return misaligned(alignments, kChunkAlignBytes);
}

backends::BoundKernel bind(const backends::Policy& policy, backends::Layers layers, int, backends::Place&) {
  const CompressedView& matrix = *layers[0].matrix;
  const Calls& calls = library().calls(method_of(*matrix.settings));
  const Cut cut(matrix.shape.elements() * datasets::element_bytes(matrix.type), *matrix.settings);
  Decompress body{
      calls.decompress,          matrix.sections[kPayload].bytes.data(), matrix.sections[kEnds].bytes.data(), cut, 0,
      options_of(matrix, policy)};
  if (cut.chunks() > 0) {
    size_t temp_bytes = 0;
    if (const int status =
            temp_bytes_of(calls.decompress_temp, cut.chunks(), cut.most(), cut.bytes, body.options, temp_bytes);
        status != 0)
      throw backends::Refused(library().failed("say what memory it needs", status));
    body.temp_bytes = static_cast<int64_t>(temp_bytes);
  }
  return {body,
          {.rows_per_block = std::max<int64_t>(1, matrix.shape.rows),
           .scratch_bytes = body.temp_offset() + body.temp_bytes,
           // Capturing Bitcomp's calls fails (6.0, H200), and so does the library's next call.
           .capturable = method_of(*matrix.settings) != Method::bitcomp}};
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "library", .policies = kToldPolicies, .refuses = refuses, .bind = bind}};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() {
  if (gpu::kOnHost && !library().on_host) return {};
  return kKernels;
}

}  // namespace ecmv::codecs::nvcomp::ECMV_GPU_NAMESPACE
