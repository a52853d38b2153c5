// GPU kernels of huffman_exponents: what is launched for which layout. The kernels are in container_gpu.h (two_phase) and segments_gpu.h
// (segments). Every launch lays out its look-up tables in scratch first: a small kernel of its own, so that the thread blocks of the main one
// only copy.
#include <algorithm>
#include <iterator>
#include <string>
#include <type_traits>

#include "codecs/huffman_exponents/container_gpu.h"
#include "codecs/huffman_exponents/ring_gpu.h"
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

// Calls f(tuning) with the number of the tuning, below kCount, as a constant.
template <size_t kCount, int kTuning = 0, typename F>
void with_tuning(int tuning, F f) {
  if (tuning == kTuning) return f(std::integral_constant<int, kTuning>{});
  if constexpr (kTuning + 1 < static_cast<int>(kCount)) with_tuning<kCount, kTuning + 1>(tuning, f);
}

// ---- container

// Thread blocks of one or two of the format's blocks, and how many of them share a multiprocessor.
constexpr int kContainerBits = 12;
constexpr backends::Tuning kContainerTunings[] = {{"threads512_waves64"}, {"threads512_waves48"}, {"threads1024"}};
constexpr int kContainerThreads[] = {512, 512, 1024}, kContainerResident[] = {4, 3, 2};

std::string refuses_container(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int tuning) {
  if (matrix.settings->text("layout") != "container") return "This kernel decodes the layout container only.";
  return refuses_shared(entered::shared_bytes_of(kContainerBits, kContainerThreads[tuning]), device);
}
int64_t container_scratch_bytes(const codecs::CompressedView&, int) { return entered::table_bytes_of(kContainerBits); }

template <int kTuning>
void launch_container_as(const backends::KernelCall& call) {
  using namespace container;
  constexpr int kBits = kContainerBits, kThreads = kContainerThreads[kTuning], kResident = kContainerResident[kTuning];
  const codecs::CompressedView& matrix = *call.matrix;
  const int64_t bytes = size_of(matrix, kEncoded) - kSpareBytes;
  gpu::uint2* const runs = reinterpret_cast<gpu::uint2*>(call.scratch);
  const entered::Stream stream = {.luts = bytes_of(matrix, kLuts),
                                  .encoded = bytes_of(matrix, kEncoded),
                                  .raw = bytes_of(matrix, kSignMantissa),
                                  .gaps = bytes_of(matrix, kGaps),
                                  .positions = words_of(matrix, kOutputPositions),
                                  .runs = runs,
                                  .threads = (bytes + kThreadBytes - 1) / kThreadBytes,
                                  .blocks = (bytes + kBlockBytes - 1) / kBlockBytes,
                                  .position_count = size_of(matrix, kOutputPositions) / 4,
                                  .elements = matrix.shape.elements(),
                                  .tables = static_cast<int>(size_of(matrix, kLuts) / 256) - 1};
  gpu::launch(entered::lay_out<kBits>, a_thread_each(1 << kBits), call.stream, stream, runs);
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
  with_tuning<std::size(kContainerTunings)>(call.tuning, [&](auto tuning) { launch_container_as<decltype(tuning)::value>(call); });
}

// ---- segments

// The index of the table of pairs, and how many thread blocks share a multiprocessor.
constexpr backends::Tuning kSegmentTunings[] = {{"bits14"}, {"bits13_waves48"}};
constexpr int kSegmentBits[] = {14, 13}, kSegmentResident[] = {2, 3};
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
int64_t partial_bytes(const codecs::CompressedView& matrix) {
  return segments_of(matrix) > 1 ? segments_of(matrix) * kTokensAtOnce * matrix.shape.rows * int64_t{sizeof(float)} : 0;
}
int64_t product_scratch_bytes(const codecs::CompressedView& matrix, int tuning) { return segment_table_bytes(matrix, tuning) + partial_bytes(matrix); }

// The tables at the beginning of the scratch: pairs of `bits` bits, single codes.
tiled::Matrix lay_out_segments(const backends::KernelCall& call, int bits) {
  using namespace segments;
  const codecs::CompressedView& view = *call.matrix;
  uint32_t* const pairs = reinterpret_cast<uint32_t*>(call.scratch);
  uint16_t* const singles = reinterpret_cast<uint16_t*>(call.scratch + (int64_t{4} << bits));
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
  gpu::launch(tiled::lay_out, a_thread_each(int64_t{1} << std::max(bits, matrix.code_bits)), call.stream, matrix, bits, pairs, singles);
  return matrix;
}

// As many thread blocks as are resident at once: each copies the table once and then takes tile after tile.
gpu::LaunchShape segments_shape(const backends::KernelCall& call, int resident, int bits) {
  const int64_t tiles = (call.matrix->shape.rows + segments::kGroupRows - 1) / segments::kGroupRows * segments_of(*call.matrix);
  return {std::min<int64_t>((tiles + tiled::kTilesOfBlock - 1) / tiled::kTilesOfBlock, int64_t{call.device->compute_units} * resident), tiled::kThreads, int64_t{4} << bits};
}

void launch_segments_decode(const backends::KernelCall& call) {
  if (call.matrix->shape.elements() == 0) return;
  const tiled::Matrix matrix = lay_out_segments(call, kSegmentBits[call.tuning]);
  with_tuning<std::size(kSegmentTunings)>(call.tuning, [&](auto tuning) {
    constexpr int kTuning = decltype(tuning)::value;
    gpu::launch(tiled::decode<kSegmentBits[kTuning], kSegmentResident[kTuning]>, segments_shape(call, kSegmentResident[kTuning], kSegmentBits[kTuning]), call.stream, matrix, reinterpret_cast<uint8_t*>(call.decoded));
  });
}

template <int kTokens>
void launch_multiply(const backends::KernelCall& call, const tiled::Matrix& matrix, int first, int tokens, float* partial, int64_t segment_stride) {
  with_tuning<std::size(kSegmentTunings)>(call.tuning, [&](auto tuning) {
    // Several tokens would not fit the registers of 48 waves.
    constexpr int kTuning = decltype(tuning)::value, kResident = kTokens == 1 ? kSegmentResident[kTuning] : 2;
    gpu::launch(tiled::multiply<kSegmentBits[kTuning], kTokens, kResident>, segments_shape(call, kResident, kSegmentBits[kTuning]), call.stream, matrix, call.x_tokens + first * call.x_stride,
                static_cast<int>(call.x_stride), tokens, partial, segment_stride);
  });
}

// Up to 8 tokens in a pass over the codes, the passes one after the other. Calls multiply(kTokens, first token, tokens, sums, their stride from segment
// to segment).
template <typename Multiply>
void launch_passes(const backends::KernelCall& call, const tiled::Matrix& matrix, int64_t table_bytes, Multiply multiply) {
  const int64_t rows = call.matrix->shape.rows;
  const bool whole_rows = matrix.segments == 1;
  for (int first = 0; first < call.batch; first += kTokensAtOnce) {
    const int tokens = std::min(kTokensAtOnce, call.batch - first);
    float* const y = call.y_tokens + first * rows;
    float* const partial = whole_rows ? y : reinterpret_cast<float*>(call.scratch + table_bytes);
    if (tokens == 1)
      multiply(std::integral_constant<int, 1>{}, first, tokens, partial, tokens * rows);
    else if (tokens == 2)
      multiply(std::integral_constant<int, 2>{}, first, tokens, partial, tokens * rows);
    else if (tokens <= 4)
      multiply(std::integral_constant<int, 4>{}, first, tokens, partial, tokens * rows);
    else
      multiply(std::integral_constant<int, 8>{}, first, tokens, partial, tokens * rows);
    if (!whole_rows) gpu::launch(tiled::add_segments, a_thread_each(tokens * rows), call.stream, partial, tokens * rows, matrix.segments, y, tokens * rows);
  }
}

// Rows without columns: all sums are 0.
bool store_zeros(const backends::KernelCall& call) {
  const int64_t rows = call.matrix->shape.rows;
  if (rows > 0 && call.matrix->shape.cols > 0) return false;
  gpu::launch(tiled::add_segments, a_thread_each(call.batch * rows), call.stream, call.y_tokens, 0, 0, call.y_tokens, call.batch * rows);
  return true;
}

void launch_segments_product(const backends::KernelCall& call) {
  if (store_zeros(call)) return;
  const tiled::Matrix matrix = lay_out_segments(call, kSegmentBits[call.tuning]);
  launch_passes(call, matrix, segment_table_bytes(*call.matrix, call.tuning), [&](auto tokens_at_once, int first, int tokens, float* partial, int64_t segment_stride) {
    launch_multiply<decltype(tokens_at_once)::value>(call, matrix, first, tokens, partial, segment_stride);
  });
}

// ---- segments through rings

constexpr backends::Tuning kRingTunings[] = {{"bits14"}, {"bits13"}, {"bits11_threads256"}};
constexpr int kRingBits[] = {14, 13, 11}, kRingThreads[] = {1024, 512, 256}, kRingResident[] = {1, 2, 4};

std::string refuses_rings(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int tuning) {
  if (matrix.settings->text("layout") != "segments") return "This kernel decodes the layout segments only.";
  if (matrix.shape.rows % segments::kGroupRows != 0) return "The rings hold whole groups of 32 rows; " + std::to_string(matrix.shape.rows) + " rows are no multiple of that.";
  if (matrix.shape.cols >= int64_t{1} << 27) return "The kernel counts columns of 8 tokens in 32 bits: fewer than 2^27 of them.";
  return refuses_shared(tiled::ring_bytes_of(kRingBits[tuning], kRingThreads[tuning]), device);
}
int64_t ring_table_bytes(const codecs::CompressedView& matrix, int tuning) { return (int64_t{4} << kRingBits[tuning]) + (int64_t{2} << code_bits_of(matrix)); }
int64_t ring_scratch_bytes(const codecs::CompressedView& matrix, int tuning) { return ring_table_bytes(matrix, tuning) + partial_bytes(matrix); }

template <int kTuning>
gpu::LaunchShape rings_shape(const backends::KernelCall& call, const tiled::Matrix& matrix) {
  constexpr int kThreads = kRingThreads[kTuning], kGroups = kThreads / segments::kGroupRows;
  const int64_t tiles = matrix.rows / segments::kGroupRows * matrix.segments;
  return {std::min<int64_t>((tiles + kGroups - 1) / kGroups, int64_t{call.device->compute_units} * kRingResident[kTuning]), kThreads, tiled::ring_bytes_of(kRingBits[kTuning], kThreads)};
}

void launch_rings_decode(const backends::KernelCall& call) {
  if (call.matrix->shape.elements() == 0) return;
  const tiled::Matrix matrix = lay_out_segments(call, kRingBits[call.tuning]);
  with_tuning<std::size(kRingTunings)>(call.tuning, [&](auto tuning) {
    constexpr int kTuning = decltype(tuning)::value;
    gpu::launch(tiled::decode_in_rings<kRingBits[kTuning], kRingThreads[kTuning], kRingResident[kTuning]>, rings_shape<kTuning>(call, matrix), call.stream, matrix,
                reinterpret_cast<uint8_t*>(call.decoded));
  });
}

template <int kTokens>
void launch_multiply_in_rings(const backends::KernelCall& call, const tiled::Matrix& matrix, int first, int tokens, float* partial, int64_t segment_stride) {
  with_tuning<std::size(kRingTunings)>(call.tuning, [&](auto tuning) {
    constexpr int kTuning = decltype(tuning)::value, kBits = kRingBits[kTuning];
    const float* const x = call.x_tokens + first * call.x_stride;
    const int x_stride = static_cast<int>(call.x_stride);
    // Sums of more tokens and what the rings need do not fit the registers: 8 tokens take 1.6 times as long there.
    if constexpr (kTokens <= 2)
      gpu::launch(tiled::multiply_in_rings<kBits, kRingThreads[kTuning], kTokens, kRingResident[kTuning]>, rings_shape<kTuning>(call, matrix), call.stream, matrix, x, x_stride, tokens,
                  partial, segment_stride);
    else
      gpu::launch(tiled::multiply<kBits, kTokens, 2>, segments_shape(call, 2, kBits), call.stream, matrix, x, x_stride, tokens, partial, segment_stride);
  });
}

void launch_rings_product(const backends::KernelCall& call) {
  if (store_zeros(call)) return;
  const tiled::Matrix matrix = lay_out_segments(call, kRingBits[call.tuning]);
  launch_passes(call, matrix, ring_table_bytes(*call.matrix, call.tuning), [&](auto tokens_at_once, int first, int tokens, float* partial, int64_t segment_stride) {
    launch_multiply_in_rings<decltype(tokens_at_once)::value>(call, matrix, first, tokens, partial, segment_stride);
  });
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "two_phase", .tunings = kContainerTunings, .refuses = refuses_container, .scratch_bytes = container_scratch_bytes, .launch = launch_container},
    {.op = backends::Op::decode, .variant = "rings", .tunings = kRingTunings, .refuses = refuses_rings, .scratch_bytes = ring_table_bytes, .launch = launch_rings_decode},
    {.op = backends::Op::decode, .variant = "segments", .tunings = kSegmentTunings, .refuses = refuses_segments, .scratch_bytes = segment_table_bytes, .launch = launch_segments_decode},
    {.op = backends::Op::matmul, .variant = "rings", .tunings = kRingTunings, .refuses = refuses_rings, .scratch_bytes = ring_scratch_bytes, .launch = launch_rings_product},
    {.op = backends::Op::matmul, .variant = "segments", .tunings = kSegmentTunings, .refuses = refuses_segments, .scratch_bytes = product_scratch_bytes, .launch = launch_segments_product},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE
