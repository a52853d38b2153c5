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

std::string refuses_tokens(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  return gpu::why_no_token_product<ExponentElements>(policy.as<gpu::TokenPolicy>(), matrix.shape, device);
}
backends::BoundKernel bind_tokens(const backends::Policy& policy, backends::Layers layers, int batch,
                                  backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const FieldsOnGpu matrix = fields_on_gpu(view);
  return gpu::bind_token_product<gpu::kWideTokenPolicies>(policy, ExponentElements(matrix),
                                                          {view.sections[kFields].bytes.data(), 0, view.shape}, batch,
                                                          place.device(), with_records({}, view));
}

// The fastest policy in 17 of 27 cases (nine shapes, 1, 16 and 64 tokens, 2026-11-29-h200/shapes), and 0.94 of its
// speed or more in the others. It was chosen by an earlier run of eight of these shapes.
std::string_view choose_tokens(const backends::CompressedView& matrix, const backends::DeviceInfo&, int batch) {
  constexpr int64_t kLarge = int64_t{64} << 20;  // elements
  if (batch <= 16) return "groups16_ahead2";
  return matrix.shape.elements() < kLarge ? "warpgroup16_ahead1_shares2" : "warpgroup16_ahead2_shares2";
}

// H200, us a layer with 64 and 128 tokens, not published, and in brackets cuBLAS with uncompressed weights in the same
// call: 28672 x 4096 63.0 and 85.4 (70.4, 75.0), 4096 x 4096 13.7 and 18.8 (13.0, 14.8), 16384 x 16384 144 and 183
// (146, 142). In two other calls, `tokens`, 64 at a time: 67 and 131 (66, 72), 15.6 and 29.7 (-, 14.8), 136 and 265
// (135, 137).
constexpr PipelinePolicy kPipelines[] = {{{"tokens64"}, 64}, {{"tokens128"}, 128}};

std::string refuses_pipeline(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                             const backends::Policy& policy) {
  if (!gpu::have_bulk_copies(device)) return "The kernel needs tensor copies, which devices have from sm_90 on.";
  if (matrix.shape.elements() == 0) return "The kernel takes at least one row and one column.";
  if (matrix.shape.cols % backends::kTokenMultiple != 0)
    return "The kernel takes columns in multiples of " + std::to_string(backends::kTokenMultiple) + ".";
  if (plan_pipeline(policy.as<PipelinePolicy>().tokens / 8, matrix.shape, device).bytes == 0)
    return "Two steps of fields and tokens do not fit the " + std::to_string(device.shared_bytes) +
           " bytes of shared memory that a block has here.";
  return "";
}

backends::BoundKernel bind_pipeline(const backends::Policy& policy, backends::Layers layers, int batch,
                                    backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  const FieldsOnGpu matrix = fields_on_gpu(view);
  const backends::DeviceInfo& device = place.device();
  const int most = policy.as<PipelinePolicy>().tokens;
  const auto parts = gpu::token_parts(batch, most, [&](int) { return plan_pipeline(most / 8, view.shape, device); });
  const PipelinePlan& plan = parts.whole.plan;
  // Columns of a share, and those of its records.
  backends::ProductRounding rounding =
      with_records(gpu::token_rounding(int64_t{plan.share_groups} * kGroupColumns * 2, plan.shares), view);
  return {PipelinedProduct{matrix, view.sections[kFields].bytes.data(),
                           static_cast<int64_t>(view.sections[kFields].bytes.size()), parts, most / 8,
                           device.compute_units, gpu::have_early_launches(device)},
          {.scratch_bytes = plan.shares > 1 ? int64_t{plan.shares} * std::min(most, batch) * view.shape.rows * 4 : 0,
           .rounding = rounding,
           .takes_callers_tokens = true,
           .stores_bf16 = true}};
}

std::string_view choose_pipeline(const backends::CompressedView&, const backends::DeviceInfo&, int batch) {
  return kPipelines[batch <= kPipelines[0].tokens ? 0 : 1].name;
}

using backends::Activations, backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "lines", .bind = bind_decode},
    backends::up_to(32, {.op = Op::matmul,
                         .variant = "tokens",
                         .policies = gpu::kWideTokenPolicies,
                         .activations = Activations::bf16,
                         .refuses = refuses_tokens,
                         .bind = bind_tokens,
                         .choose = choose_tokens}),
    backends::up_to(128, {.op = Op::matmul,
                          .variant = "pipeline",
                          .policies = kPipelines,
                          .activations = Activations::bf16,
                          .most_tokens = backends::kMostTokens,
                          .refuses = refuses_pipeline,
                          .bind = bind_pipeline,
                          .choose = choose_pipeline}),
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::packed_exponents::ECMV_GPU_NAMESPACE
