// GPU kernels of huffman_exponents: what is launched for which layout. The kernels are in container_gpu.h (two_phase) and segments_gpu.h
// (segments). Every launch lays out its look-up tables in scratch first: a small kernel of its own, so that the thread blocks of the main one
// only copy.
#include <algorithm>
#include <string>

#include "codecs/huffman_exponents/container_gpu.h"
#include "codecs/huffman_exponents/segments_gpu.h"

namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;

constexpr int kLayOutThreads = 256;

const uint8_t* bytes_of(const codecs::CompressedView& matrix, int section) { return reinterpret_cast<const uint8_t*>(matrix.sections[section].bytes.data()); }
const uint32_t* words_of(const codecs::CompressedView& matrix, int section) { return reinterpret_cast<const uint32_t*>(matrix.sections[section].bytes.data()); }
int64_t size_of(const codecs::CompressedView& matrix, int section) { return static_cast<int64_t>(matrix.sections[section].bytes.size()); }

gpu::LaunchShape a_thread_each(int64_t elements) { return {(elements + kLayOutThreads - 1) / kLayOutThreads, kLayOutThreads, 0}; }

std::string refuses_shared(int64_t bytes, const backends::DeviceInfo& device) {
  return bytes <= device.shared_bytes ? "" : "A block needs " + std::to_string(bytes) + " bytes of shared memory, the device gives " + std::to_string(device.shared_bytes) + ".";
}

// ---- container

// Thread blocks of one or two of the format's blocks, and how many of them share a multiprocessor.
constexpr backends::Tuning kContainerTunings[] = {{"threads1024"}, {"threads512"}, {"threads512_bits11"}};
constexpr int kContainerThreads[] = {1024, 512, 512}, kContainerBits[] = {12, 12, 11}, kContainerResident[] = {2, 3, 4};

std::string refuses_container(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int tuning) {
  if (matrix.settings->text("layout") != "container") return "This kernel decodes the layout container only.";
  return refuses_shared(entered::shared_bytes_of(kContainerBits[tuning], kContainerThreads[tuning]), device);
}
int64_t container_scratch_bytes(const codecs::CompressedView&, int tuning) { return entered::table_bytes_of(kContainerBits[tuning]); }

template <int kTuning>
void launch_container_as(const backends::KernelCall& call) {
  using namespace container;
  constexpr int kBits = kContainerBits[kTuning], kThreads = kContainerThreads[kTuning], kResident = kContainerResident[kTuning];
  const codecs::CompressedView& matrix = *call.matrix;
  const int64_t bytes = size_of(matrix, kEncoded) - kSpareBytes;
  uint32_t* const exponents = reinterpret_cast<uint32_t*>(call.scratch);
  uint16_t* const starts = reinterpret_cast<uint16_t*>(exponents + (1 << kBits));
  const entered::Stream stream = {.luts = bytes_of(matrix, kLuts),
                                  .encoded = bytes_of(matrix, kEncoded),
                                  .raw = bytes_of(matrix, kSignMantissa),
                                  .gaps = bytes_of(matrix, kGaps),
                                  .positions = words_of(matrix, kOutputPositions),
                                  .exponents = exponents,
                                  .starts = starts,
                                  .threads = (bytes + kThreadBytes - 1) / kThreadBytes,
                                  .blocks = (bytes + kBlockBytes - 1) / kBlockBytes,
                                  .position_count = size_of(matrix, kOutputPositions) / 4,
                                  .elements = matrix.shape.elements(),
                                  .tables = static_cast<int>(size_of(matrix, kLuts) / 256) - 1};
  gpu::launch(entered::lay_out<kBits>, a_thread_each(1 << kBits), call.stream, stream, exponents, starts);
  // As many thread blocks as are resident at once: each copies the tables once and then takes piece after piece.
  const int64_t pieces = (stream.blocks * kBlockThreads + kThreads - 1) / kThreads;
  const gpu::LaunchShape shape{std::min<int64_t>(pieces, int64_t{call.device->compute_units} * kResident), kThreads, entered::shared_bytes_of(kBits, kThreads)};
  uint8_t* const decoded = reinterpret_cast<uint8_t*>(call.decoded);
  if (is_bf16(matrix.type))
    gpu::launch(entered::two_phase<true, kBits, kThreads, kResident>, shape, call.stream, stream, decoded);
  else
    gpu::launch(entered::two_phase<false, kBits, kThreads, kResident>, shape, call.stream, stream, decoded);
}

void launch_container(const backends::KernelCall& call) {
  switch (call.tuning) {
    case 0: return launch_container_as<0>(call);
    case 1: return launch_container_as<1>(call);
    case 2: return launch_container_as<2>(call);
  }
}

// ---- segments

constexpr backends::Tuning kSegmentTunings[] = {{"bits13"}, {"bits14"}, {"bits12"}};
constexpr int kSegmentBits[] = {13, 14, 12};
constexpr int kTokensAtOnce = 8;

int code_bits_of(const codecs::CompressedView& matrix) { return std::stoi(matrix.settings->text("code_bits")); }
int64_t segments_of(const codecs::CompressedView& matrix) {
  const int64_t cols = std::stoll(matrix.settings->text("segment_cols"));
  return (matrix.shape.cols + cols - 1) / cols;
}
int64_t pair_bytes(int tuning) { return int64_t{4} << kSegmentBits[tuning]; }

std::string refuses_segments(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int tuning) {
  if (matrix.settings->text("layout") != "segments") return "This kernel decodes the layout segments only.";
  if (matrix.shape.cols >= int64_t{1} << 27) return "The kernel counts columns of 8 tokens in 32 bits: fewer than 2^27 of them.";
  return refuses_shared(pair_bytes(tuning), device);
}
int64_t segment_table_bytes(const codecs::CompressedView& matrix, int tuning) { return pair_bytes(tuning) + (int64_t{2} << code_bits_of(matrix)); }
// Behind the tables the sums of each segment, for the tokens that are multiplied at once.
int64_t product_scratch_bytes(const codecs::CompressedView& matrix, int tuning) {
  return segment_table_bytes(matrix, tuning) + (segments_of(matrix) > 1 ? segments_of(matrix) * kTokensAtOnce * matrix.shape.rows * int64_t{sizeof(float)} : 0);
}

template <typename F>
void with_bits(int tuning, F f) {
  switch (kSegmentBits[tuning]) {
    case 12: return f(std::integral_constant<int, 12>{});
    case 13: return f(std::integral_constant<int, 13>{});
    case 14: return f(std::integral_constant<int, 14>{});
  }
}

tiled::Matrix lay_out_segments(const backends::KernelCall& call) {
  using namespace segments;
  const codecs::CompressedView& view = *call.matrix;
  uint32_t* const pairs = reinterpret_cast<uint32_t*>(call.scratch);
  uint16_t* const singles = reinterpret_cast<uint16_t*>(call.scratch + pair_bytes(call.tuning));
  const tiled::Matrix matrix = {.code = bytes_of(view, kCode),
                               .streams = words_of(view, kStreams),
                               .raw = words_of(view, kSignMantissa),
                               .tiles = words_of(view, kTiles),
                               .pairs = pairs,
                               .singles = singles,
                               .rows = view.shape.rows,
                               .cols = static_cast<int>(view.shape.cols),
                               .segment_cols = std::stoi(view.settings->text("segment_cols")),
                               .segments = static_cast<int>(segments_of(view)),
                               .code_bits = code_bits_of(view)};
  with_bits(call.tuning, [&](auto bits) {
    gpu::launch(tiled::lay_out<decltype(bits)::value>, a_thread_each(int64_t{1} << std::max(kSegmentBits[call.tuning], matrix.code_bits)), call.stream, matrix, pairs, singles);
  });
  return matrix;
}

// As many thread blocks as are resident at once: each copies the table once and then takes tile after tile.
gpu::LaunchShape segments_shape(const backends::KernelCall& call) {
  constexpr int kResident = 2;
  const int64_t tiles = (call.matrix->shape.rows + segments::kGroupRows - 1) / segments::kGroupRows * segments_of(*call.matrix);
  return {std::min<int64_t>((tiles + tiled::kTilesOfBlock - 1) / tiled::kTilesOfBlock, int64_t{call.device->compute_units} * kResident), tiled::kThreads, pair_bytes(call.tuning)};
}

void launch_segments_decode(const backends::KernelCall& call) {
  if (call.matrix->shape.elements() == 0) return;
  const tiled::Matrix matrix = lay_out_segments(call);
  with_bits(call.tuning, [&](auto bits) { gpu::launch(tiled::decode<decltype(bits)::value>, segments_shape(call), call.stream, matrix, reinterpret_cast<uint8_t*>(call.decoded)); });
}

template <int kTokens>
void launch_multiply(const backends::KernelCall& call, const tiled::Matrix& matrix, int first, int tokens, float* partial, int64_t segment_stride) {
  with_bits(call.tuning, [&](auto bits) {
    gpu::launch(tiled::multiply<decltype(bits)::value, kTokens>, segments_shape(call), call.stream, matrix, call.x_tokens + first * call.x_stride, static_cast<int>(call.x_stride), tokens, partial,
                segment_stride);
  });
}

// Up to 8 tokens in a pass over the codes, the passes one after the other.
void launch_segments_product(const backends::KernelCall& call) {
  const int64_t rows = call.matrix->shape.rows;
  if (rows == 0) return;
  if (call.matrix->shape.cols == 0) return gpu::launch(tiled::add_segments, a_thread_each(call.batch * rows), call.stream, call.y_tokens, 0, 0, call.y_tokens, call.batch * rows);
  const tiled::Matrix matrix = lay_out_segments(call);
  const bool whole_rows = matrix.segments == 1;
  for (int first = 0; first < call.batch; first += kTokensAtOnce) {
    const int tokens = std::min(kTokensAtOnce, call.batch - first);
    float* const y = call.y_tokens + first * rows;
    float* const partial = whole_rows ? y : reinterpret_cast<float*>(call.scratch + segment_table_bytes(*call.matrix, call.tuning));
    if (tokens == 1)
      launch_multiply<1>(call, matrix, first, tokens, partial, tokens * rows);
    else if (tokens == 2)
      launch_multiply<2>(call, matrix, first, tokens, partial, tokens * rows);
    else if (tokens <= 4)
      launch_multiply<4>(call, matrix, first, tokens, partial, tokens * rows);
    else
      launch_multiply<8>(call, matrix, first, tokens, partial, tokens * rows);
    if (!whole_rows) gpu::launch(tiled::add_segments, a_thread_each(tokens * rows), call.stream, partial, tokens * rows, matrix.segments, y, tokens * rows);
  }
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "two_phase", .tunings = kContainerTunings, .refuses = refuses_container, .scratch_bytes = container_scratch_bytes, .launch = launch_container},
    {.op = backends::Op::decode, .variant = "segments", .tunings = kSegmentTunings, .refuses = refuses_segments, .scratch_bytes = segment_table_bytes, .launch = launch_segments_decode},
    {.op = backends::Op::matmul, .variant = "segments", .tunings = kSegmentTunings, .refuses = refuses_segments, .scratch_bytes = product_scratch_bytes, .launch = launch_segments_product},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE
