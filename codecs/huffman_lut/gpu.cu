// GPU kernels of huffman_lut: what is launched for which layout. The kernels are in hierarchical_gpu.h (two_phase, fused) and
// single_level_gpu.h (tuples). Every launch lays out its look-up tables in scratch first: small kernels of their own, so that
// the thread blocks of the main one only copy. Scratch is table space, never a result.
#include <algorithm>
#include <type_traits>

#include "codecs/huffman_lut/hierarchical_gpu.h"
#include "codecs/huffman_lut/single_level_gpu.h"

namespace ecmv::codecs::huffman_lut::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;

constexpr int kLayOutThreads = 256;

gpu::LaunchShape a_thread_each(int64_t elements) { return {(elements + kLayOutThreads - 1) / kLayOutThreads, kLayOutThreads, 0}; }

const uint8_t* bytes_of(const codecs::CompressedView& matrix, int section) {
  return reinterpret_cast<const uint8_t*>(matrix.sections[section].bytes.data());
}

int64_t size_of(const codecs::CompressedView& matrix, int section) { return static_cast<int64_t>(matrix.sections[section].bytes.size()); }

std::string refuses_shared(int64_t bytes, const backends::DeviceInfo& device) {
  return bytes <= device.shared_bytes ? "" : "A block needs " + std::to_string(bytes) + " bytes of shared memory, the device gives " + std::to_string(device.shared_bytes) + ".";
}

// ---- hierarchical

constexpr backends::Tuning kTableTunings[] = {{"pairs"}, {"tables"}};
constexpr int kPairsTuning = 0;
// Scratch: joined tables, pairs, the last thread's bytes.
constexpr int64_t kEntryBytes = (hierarchical::kMaxSubtables + 1) * 512, kPairTableBytes = gaps::kPairEntries * 4, kLastThreadBytes = 64;

int tables_of(const codecs::CompressedView& matrix) { return static_cast<int>(size_of(matrix, hierarchical::kLuts) / 256) - 1; }

int64_t gaps_shared_bytes(const codecs::CompressedView& matrix, int tuning) {
  return gaps::table_bytes_of(tables_of(matrix), tuning == kPairsTuning) + gaps::kSumBytes + gaps::kElementBytes + 16;
}

std::string refuses_gaps(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int tuning) {
  if (matrix.settings->text("layout") != "hierarchical") return "This kernel decodes the layout hierarchical only.";
  return refuses_shared(gaps_shared_bytes(matrix, tuning), device);
}

int64_t gaps_scratch_bytes(const codecs::CompressedView&, int) { return kEntryBytes + kPairTableBytes + kLastThreadBytes; }

gaps::Stream lay_out_gaps(const backends::KernelCall& call, int64_t zero_rows) {
  using namespace hierarchical;
  const codecs::CompressedView& matrix = *call.matrix;
  const int64_t bytes = size_of(matrix, kEncoded) - kSpareBytes;
  const gaps::Stream stream = {.luts = bytes_of(matrix, kLuts),
                               .encoded = bytes_of(matrix, kEncoded),
                               .gaps = bytes_of(matrix, kGaps),
                               .offset = bytes_of(matrix, kOffset),
                               .positions = reinterpret_cast<const uint32_t*>(bytes_of(matrix, kOutputPositions)),
                               .entries = reinterpret_cast<const uint16_t*>(call.scratch),
                               .pairs = reinterpret_cast<const uint32_t*>(call.scratch + kEntryBytes),
                               .last_thread = reinterpret_cast<const uint32_t*>(call.scratch + kEntryBytes + kPairTableBytes),
                               .threads = (bytes + kThreadBytes - 1) / kThreadBytes,
                               .blocks = (bytes + kBlockBytes - 1) / kBlockBytes,
                               .encoded_bytes = size_of(matrix, kEncoded),
                               .tables = tables_of(matrix)};
  gpu::launch(gaps::lay_out, a_thread_each(std::max<int64_t>(zero_rows, stream.tables * 256)), call.stream, stream,
              reinterpret_cast<uint16_t*>(call.scratch), reinterpret_cast<uint8_t*>(call.scratch + kEntryBytes + kPairTableBytes), call.y, zero_rows);
  if (call.tuning == kPairsTuning)
    gpu::launch(gaps::lay_out_pairs, a_thread_each(gaps::kPairEntries), call.stream, stream, reinterpret_cast<uint32_t*>(call.scratch + kEntryBytes));
  return stream;
}

// As many blocks as are resident at once: each copies the tables once and then takes block after block.
gpu::LaunchShape gaps_shape(const backends::KernelCall& call, const gaps::Stream& stream) {
  constexpr int kBlocksOfUnit = 4;
  return {std::min<int64_t>(stream.blocks, int64_t{call.device->compute_units} * kBlocksOfUnit), gaps::kBlockThreads, gaps_shared_bytes(*call.matrix, call.tuning)};
}

void launch_two_phase(const backends::KernelCall& call) {
  const gaps::Stream stream = lay_out_gaps(call, 0);
  gpu::launch(call.tuning == kPairsTuning ? gaps::two_phase<true> : gaps::two_phase<false>, gaps_shape(call, stream), call.stream, stream, call.decoded);
}

void launch_fused(const backends::KernelCall& call) {
  const datasets::Shape shape = call.matrix->shape;
  const gaps::Stream stream = lay_out_gaps(call, shape.rows);
  gpu::launch(call.tuning == kPairsTuning ? gaps::fused<true> : gaps::fused<false>, gaps_shape(call, stream), call.stream, stream,
              static_cast<uint32_t>(shape.cols), call.x, call.y);
  gpu::launch(gaps::requantise_rows, a_thread_each(shape.rows), call.stream, gpu::epilogue_of(call), shape.rows);
}

// ---- single_level

constexpr backends::Tuning kThreadTunings[] = {{"threads512"}, {"threads1024"}, {"threads256"}, {"threads128"}};
constexpr int kThreads[] = {512, 1024, 256, 128};

int table_bits_of(const codecs::CompressedView& matrix) { return static_cast<int>(matrix.settings->integer("table_bits")); }
int streams_of(const codecs::CompressedView& matrix) { return std::stoi(matrix.settings->text("streams")); }
int64_t quads_of(const codecs::CompressedView& matrix) { return matrix.shape.cols / single_level::kTileCols * tuples::kQuadsOfTile; }

// Scratch: the table and the last partial piece.
int64_t tuples_scratch_bytes(const codecs::CompressedView& matrix, int) { return (int64_t{4} << table_bits_of(matrix)) + tuples::kPieceBytes; }

// The rows' raw bits tell how many an element has; where no tile is full it does not matter to the kernels.
int raw_bits_of(const codecs::CompressedView& matrix) {
  for (int raw_bits = 7; raw_bits > 0; --raw_bits)
    if (matrix.shape.rows * single_level::raw_row_bytes(matrix.shape.cols, raw_bits) == size_of(matrix, single_level::kRawBits)) return raw_bits;
  return 0;
}

tuples::Matrix lay_out_tuples(const backends::KernelCall& call) {
  using namespace single_level;
  const codecs::CompressedView& view = *call.matrix;
  const int64_t block_rows = rows_per_block(view.shape.cols, view.settings->integer("block_elements"));
  std::byte* const last_piece = call.scratch + (int64_t{4} << table_bits_of(view));
  const tuples::Matrix matrix = {.streams = bytes_of(view, kStreams),
                                 .last_piece = reinterpret_cast<const uint8_t*>(last_piece),
                                 .raw_bits = bytes_of(view, kRawBits),
                                 .patches = bytes_of(view, kPatches),
                                 .code = bytes_of(view, kCode),
                                 .blocks = bytes_of(view, kBlocks),
                                 .table = reinterpret_cast<const uint32_t*>(call.scratch),
                                 .stream_bytes = size_of(view, kStreams),
                                 .rows = view.shape.rows,
                                 .block_count = (view.shape.rows + block_rows - 1) / block_rows,
                                 .row_bytes = raw_row_bytes(view.shape.cols, raw_bits_of(view)),
                                 .cols = static_cast<int>(view.shape.cols),
                                 .rows_per_block = static_cast<int>(std::min(block_rows, view.shape.rows)),
                                 .table_bits = table_bits_of(view)};
  gpu::launch(view.settings->text("tuple") == "2" ? tuples::lay_out<2> : tuples::lay_out<4>,
              a_thread_each((int64_t{1} << matrix.table_bits) + tuples::kPieceBytes), call.stream, matrix, reinterpret_cast<uint32_t*>(call.scratch),
              reinterpret_cast<uint8_t*>(last_piece));
  return matrix;
}

// Calls f(Form) for the settings and raw bits of this matrix.
template <typename F>
void with_form(const codecs::CompressedView& view, F f) {
  const auto with_raw = [&](auto tuple, auto streams) {
    constexpr int kTuple = decltype(tuple)::value, kStreams = decltype(streams)::value;
    switch (raw_bits_of(view)) {
      case 0: return f(tuples::Form<kTuple, 0, kStreams>{});
      case 1: return f(tuples::Form<kTuple, 1, kStreams>{});
      case 2: return f(tuples::Form<kTuple, 2, kStreams>{});
      case 3: return f(tuples::Form<kTuple, 3, kStreams>{});
      case 4: return f(tuples::Form<kTuple, 4, kStreams>{});
      case 5: return f(tuples::Form<kTuple, 5, kStreams>{});
      case 6: return f(tuples::Form<kTuple, 6, kStreams>{});
      case 7: return f(tuples::Form<kTuple, 7, kStreams>{});
    }
  };
  const auto with_streams = [&](auto tuple) {
    switch (streams_of(view)) {
      case 4: return with_raw(tuple, std::integral_constant<int, 4>{});
      case 8: return with_raw(tuple, std::integral_constant<int, 8>{});
      case 16: return with_raw(tuple, std::integral_constant<int, 16>{});
    }
  };
  return view.settings->text("tuple") == "2" ? with_streams(std::integral_constant<int, 2>{}) : with_streams(std::integral_constant<int, 4>{});
}

int64_t tuples_shared_bytes(const codecs::CompressedView& matrix, int tuning, bool with_x) {
  int64_t bytes = with_x ? 4 * quads_of(matrix) : 0;
  with_form(matrix, [&](auto form) { bytes += tuples::x_offset<decltype(form)>(table_bits_of(matrix), kThreads[tuning]); });
  return bytes;
}

template <bool kWithX>
std::string refuses_tuples(const codecs::CompressedView& matrix, const backends::DeviceInfo& device, int tuning) {
  if (matrix.settings->text("layout") != "single_level") return "This kernel decodes the layout single_level only.";
  if (matrix.shape.cols >= int64_t{1} << 30) return "The kernel counts columns in 32 bits: at most 2^30 of them.";
  if (kThreads[tuning] > tuples::most_threads(streams_of(matrix))) return "The lanes of this many streams need too many registers for such large blocks.";
  return refuses_shared(tuples_shared_bytes(matrix, tuning, kWithX), device);
}

template <typename Form>
gpu::LaunchShape tuples_shape(const backends::KernelCall& call, const tuples::Matrix& matrix, bool with_x) {
  const int threads = kThreads[call.tuning], groups = threads / Form::kStreams;
  return {(matrix.block_count + groups - 1) / groups, threads, tuples_shared_bytes(*call.matrix, call.tuning, with_x)};
}

// Rows of no columns have no blocks.
void launch_tuples_matvec(const backends::KernelCall& call) {
  const int64_t rows = call.matrix->shape.rows;
  if (call.matrix->shape.cols == 0) return gpu::launch(tuples::store_zeros, a_thread_each(rows), call.stream, gpu::epilogue_of(call), rows);
  if (rows == 0) return;
  const tuples::Matrix matrix = lay_out_tuples(call);
  with_form(*call.matrix, [&](auto form) {
    gpu::launch(tuples::matvec<decltype(form)>, tuples_shape<decltype(form)>(call, matrix, true), call.stream, matrix, call.x, gpu::epilogue_of(call));
  });
}

void launch_tuples_decode(const backends::KernelCall& call) {
  if (call.matrix->shape.elements() == 0) return;
  const tuples::Matrix matrix = lay_out_tuples(call);
  with_form(*call.matrix, [&](auto form) {
    gpu::launch(tuples::decode<decltype(form)>, tuples_shape<decltype(form)>(call, matrix, false), call.stream, matrix, call.decoded);
  });
}

constexpr backends::Kernel kKernels[] = {
    {.op = backends::Op::decode, .variant = "tuples", .tunings = kThreadTunings, .refuses = refuses_tuples<false>, .scratch_bytes = tuples_scratch_bytes, .launch = launch_tuples_decode},
    {.op = backends::Op::matvec, .variant = "tuples", .tunings = kThreadTunings, .refuses = refuses_tuples<true>, .scratch_bytes = tuples_scratch_bytes, .launch = launch_tuples_matvec},
    {.op = backends::Op::decode, .variant = "two_phase", .tunings = kTableTunings, .refuses = refuses_gaps, .scratch_bytes = gaps_scratch_bytes, .launch = launch_two_phase},
    {.op = backends::Op::matvec, .variant = "fused", .tunings = kTableTunings, .refuses = refuses_gaps, .scratch_bytes = gaps_scratch_bytes, .launch = launch_fused},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::huffman_lut::ECMV_GPU_NAMESPACE
