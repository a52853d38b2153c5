// GPU kernels of packed_exponents: the product with tokens of bf16 on matrix units (tokens_gpu.h), and decoding, in
// which a thread block has a block of 16 rows and a thread joins 32 elements at a time.
#include "codecs/packed_exponents/pipeline_gpu.h"
#include "codecs/packed_exponents/stored.h"
#include "codecs/packed_exponents/tokens_gpu.h"

namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE {
namespace {

constexpr int kDecodeThreads = 256;

// Sixteen bytes of elements, or one by one where rows do not begin at such addresses or end before.
ECMV_GPU_DEVICE void store_elements(gpu::Pointer<uint16_t> row, int col, int cols, gpu::uint4 elements) {
  if (cols % 8 == 0) {
    if (col < cols) *gpu::cast<gpu::uint4>(row + col) = elements;
    return;
  }
  for (int i = 0; i < 8 && col + i < cols; ++i)
    row[col + i] = static_cast<uint16_t>(gpu::word_of(elements, i / 2) >> (i % 2 * 16));
}

ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kDecodeThreads, 1) void decode(FieldsOnGpu matrix, gpu::Pointer<uint16_t> out) {
  const BlockPlace block(matrix, gpu::block_index());
  const ExponentElements elements(matrix);
  out = out + block.first_row * matrix.cols;
  const int groups = (matrix.cols + kGroupColumns - 1) / kGroupColumns;
  for (int i = gpu::thread_index(); i < groups * block.rows * 4; i += kDecodeThreads) {
    const int t = i % 4, row = i / 4 % block.rows, group = i / (4 * block.rows), col = group * kGroupColumns;
    const gpu::Pointer<const std::byte> at = block.group(row, col) + t * 16;
    gpu::uint4 lines[3];
    ECMV_GPU_UNROLL
    for (int line = 0; line < 3; ++line)
      lines[line] = matrix.cols - col > kGroupColumns / 2 || line < 2
                        ? gpu::load_streaming(gpu::cast<const gpu::uint4>(at + line * 64))
                        : gpu::uint4{};
    ECMV_GPU_UNROLL
    for (int strip = 0; strip < 4; ++strip)
      store_elements(out + int64_t{row} * matrix.cols, col + 32 * strip + 8 * t, matrix.cols,
                     elements.chunk(lines, strip));
  }
  gpu::sync_block();
  for (int64_t i = block.first_record() + gpu::thread_index(); i < block.end_of_records(); i += kDecodeThreads) {
    const Outlier outlier(matrix.records[i]);
    out[int64_t{outlier.row} * matrix.cols + outlier.col] =
        static_cast<uint16_t>(outlier.element(block.stored(outlier.row, outlier.col)));
  }
}

struct Decode {
  FieldsOnGpu matrix;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    if (matrix.rows > 0 && matrix.cols > 0)
      gpu::launch(decode, {block_count(matrix.rows), kDecodeThreads, 0}, stream, matrix,
                  reinterpret_cast<uint16_t*>(args.out));
  }
};

backends::BoundKernel bind_decode(const backends::Policy&, backends::Layers layers, int, backends::Place&) {
  return Decode{fields_on_gpu(*layers[0].matrix)};
}

// With one token the first was the fastest of six at seven of nine shapes, and 2 % behind the second at the others at
// most (H200, 2026-11-29). The last fits the 64 KiB of shared memory that every device has.
constexpr gpu::TokenPolicy kTokens[] = {{{"groups16_ahead2"}, 16, 1, 2, 1, 1, false},
                                        {{"groups8_ahead3"}, 8, 1, 3, 1, 1, false},
                                        {{"groups4_ahead2"}, 4, 1, 2, 1, 1, false}};

std::string refuses_tokens(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  return gpu::why_no_token_product<ExponentElements>(policy.as<gpu::TokenPolicy>(), matrix.shape, device);
}
backends::BoundKernel bind_tokens(const backends::Policy& policy, backends::Layers layers, int batch,
                                  backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const FieldsOnGpu matrix = fields_on_gpu(view);
  return gpu::bind_token_product<kTokens>(policy, ExponentElements(matrix),
                                          {view.sections[kFields].bytes.data(), 0, view.shape}, batch, place.device(),
                                          with_records({}, view));
}

// Each is the fastest at some shape and number of tokens (NOTES.md); the plan's rates choose.
constexpr PipelinePolicy kPipelines[] = {
    {{"tokens32"}, 32}, {{"tokens64"}, 64}, {{"tokens128"}, 128}, {{"tokens256"}, 256}};

SizedPipeline sized_pipeline(int token_tiles, int batch, const backends::CompressedView& matrix,
                             const backends::DeviceInfo& device) {
  return PipelinePlanner(token_tiles, batch, matrix.shape, device).best();
}

std::string refuses_pipeline(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                             const backends::Policy& policy) {
  if (!gpu::have_warpgroup_units(device))
    return "The kernel needs the tensor copies and the matrix units of sm_90, and this device is \"" +
           device.simd_target + "\".";
  if (lowest_exponent(matrix) > RaisedElements::kMostLowest)
    return "The kernel takes no elements of such magnitudes: their exponents begin at " +
           std::to_string(lowest_exponent(matrix)) + ", and it takes " + std::to_string(RaisedElements::kMostLowest) +
           " and less.";
  if (matrix.shape.elements() == 0) return "The kernel takes at least one row and one column.";
  constexpr int64_t kMostCols = RecordPatches<4>::kMostCols;
  if (matrix.shape.cols > kMostCols) return "The kernel takes at most " + std::to_string(kMostCols) + " columns.";
  if (matrix.shape.cols % backends::kTokenMultiple != 0)
    return "The kernel takes columns in multiples of " + std::to_string(backends::kTokenMultiple) + ".";
  if (sized_pipeline(policy.as<PipelinePolicy>().tokens / 8, 1, matrix, device).bytes == 0)
    return "The steps that are under way do not fit the " + std::to_string(device.shared_bytes) +
           " bytes of shared memory that a block has here.";
  return "";
}

backends::BoundKernel bind_pipeline(const backends::Policy& policy, backends::Layers layers, int batch,
                                    backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const FieldsOnGpu matrix = fields_on_gpu(view);
  const RaisedElements elements(lowest_exponent(view));
  const backends::DeviceInfo& device = place.device();
  const int token_tiles = policy.as<PipelinePolicy>().tokens / 8;
  const SizedPipeline sized = sized_pipeline(token_tiles, batch, view, device);
  const PipelinePlan& plan = sized.plan;
  backends::ProductRounding rounding =
      gpu::token_rounding(int64_t{plan.groups} * kGroupColumns, most_shares(plan.counted.number(), plan.run.number()));
  rounding.raised = elements.raised;
  return {PipelinedProduct{matrix, elements, view.sections[kFields].bytes.data(),
                           static_cast<int64_t>(view.sections[kFields].bytes.size()),
                           sized.added_places == 0 ? nullptr
                                                   : reinterpret_cast<uint32_t*>(
                                                         place.zeroed(sized.added_places * int64_t{sizeof(uint32_t)})),
                           sized, batch, token_tiles, gpu::have_early_launches(device)},
          {.scratch_bytes = sized.scratch_bytes(token_tiles),
           .rounding = rounding,
           .takes_callers_tokens = true,
           .stores_bf16 = true,
           .takes_fewer_tokens = true}};
}

// The number of tokens at a time whose plan is done first. Two passes over the weights for 64 tokens won nowhere.
std::string_view choose_pipeline(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                                 int batch) {
  const PipelinePolicy* best = kPipelines;
  double least = 0;
  for (const PipelinePolicy& policy : kPipelines) {
    if (policy.tokens == 32 && batch > 32) continue;
    const SizedPipeline sized = sized_pipeline(policy.tokens / 8, batch, matrix, device);
    if (sized.bytes == 0 || (least != 0 && sized.clocks >= least)) continue;
    best = &policy, least = sized.clocks;
  }
  return best->name;
}

// Where one kernel is ahead of the other with up to eight tokens (H200, PyTorch's graphs; NOTES.md): with one,
// `pipeline` took 2.97 us instead of 3.39 at 2048 x 768 and 4.03 instead of 4.44 at 4096 x 1024, but in the harness
// 5.55 instead of 5.40 at 6144 x 1024; with eight 13.8 instead of 14.5 at 3072 x 8192.
bool tokens_lead(const backends::CompressedView& matrix, const backends::DeviceInfo&, int batch) {
  constexpr int64_t kFewCols = 1024, kManyCols = 8192, kFewElements = int64_t{5} << 20;
  const auto [rows, cols] = matrix.shape;
  if (batch <= 4) return cols > kFewCols || rows * cols > kFewElements;
  return cols > kFewCols && cols < kManyCols;
}

using backends::Activations, backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "lines", .bind = bind_decode},
    // With 16 tokens `pipeline` is ahead or equal at ten shapes. This one multiplies all of them where `pipeline` does
    // not run.
    backends::up_to(8, {.op = Op::matmul,
                        .variant = "tokens",
                        .policies = kTokens,
                        .activations = Activations::bf16,
                        .leads = tokens_lead,
                        .refuses = refuses_tokens,
                        .bind = bind_tokens}),
    // 1024 and 2048 tokens ran at 0.90 to 0.96 of cuBLAS, decoding first at 0.72 to 0.85 (NOTES.md).
    {.op = Op::matmul,
     .variant = "pipeline",
     .policies = kPipelines,
     .activations = Activations::bf16,
     .most_tokens = backends::kMostTokens,
     .refuses = refuses_pipeline,
     .bind = bind_pipeline,
     .choose = choose_pipeline},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
