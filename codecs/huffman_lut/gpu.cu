// GPU kernels of huffman_lut: policies, refusals and launches. The kernels are in gpu/hierarchical.h (two_phase, fused)
// and gpu/single_level.h (tuples). Every enqueue first runs small kernels that lay out the look-up tables in scratch,
// so the thread blocks of the main kernel only copy them. The scratch holds tables, never results.
#include <algorithm>
#include <string>
#include <utility>

#include "codecs/huffman_lut/gpu/hierarchical.h"
#include "codecs/huffman_lut/gpu/single_level.h"
#include "codecs/modelling/sections_gpu.h"

namespace ecmv::codecs::huffman_lut::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;

using namespace modelling::ECMV_GPU_NAMESPACE;

// ---- hierarchical

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
  if (matrix.settings->text("layout") != "hierarchical") return "This kernel decodes the layout hierarchical only.";
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
    if (pairs)
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

// ---- single_level

struct ThreadPolicy : backends::Policy {
  int threads;  // a block
};
// On an H200 a matvec is fastest with 1024 threads in seven of ten published settings, and with 256 or 512 where the
// table is large or rows are few. The published decode is fastest with 128, 12 % ahead of 256. 128 threads fit 64 KiB
// with any settings.
constexpr ThreadPolicy kMatvecPolicies[] = {{{"threads1024"}, 1024},
                                            {{"threads512"}, 512},
                                            {{"threads256"}, 256},
                                            {{"threads128"}, 128}},
                       kDecodePolicies[] = {{{"threads128"}, 128}, {{"threads256"}, 256}};

int table_bits_of(const backends::CompressedView& matrix) {
  return static_cast<int>(matrix.settings->integer("table_bits"));
}
int streams_of(const backends::CompressedView& matrix) { return static_cast<int>(matrix.settings->integer("streams")); }
int64_t quads_of(const backends::CompressedView& matrix) {
  return matrix.shape.cols / single_level::kTileCols * tuples::kQuadsOfTile;
}

// The size of the rows' raw bits tells how many an element has. Where no tile is full, kernels do not need the number.
int raw_bits_of(const backends::CompressedView& matrix) {
  for (int raw_bits = 7; raw_bits > 0; --raw_bits)
    if (matrix.shape.rows * single_level::raw_row_bytes(matrix.shape.cols, raw_bits) ==
        size_of(matrix, single_level::kRawBits))
      return raw_bits;
  return 0;
}

// The kernels that are compiled for a matrix's settings and raw bits. The table's kernel depends on the setting `tuple`
// alone.
struct TuplesForm {
  void (*lay_out)(tuples::Matrix, gpu::Pointer<uint32_t> table, gpu::Pointer<uint8_t> last_piece);
  void (*matvec)(tuples::Matrix, gpu::Pointer<const int8_t> x, gpu::Epilogue);
  void (*decode)(tuples::Matrix, gpu::Pointer<int8_t> decoded);
  int (*x_offset)(int table_bits, int threads);
};

template <int kTuple, int kStreams>
TuplesForm form_of_raw_bits(int raw_bits) {
  return [raw_bits]<int... kRaw>(std::integer_sequence<int, kRaw...>) {
    const TuplesForm forms[] = {{tuples::lay_out<kTuple>, tuples::matvec<tuples::Form<kTuple, kRaw, kStreams>>,
                                 tuples::decode<tuples::Form<kTuple, kRaw, kStreams>>,
                                 tuples::x_offset<tuples::Form<kTuple, kRaw, kStreams>>}...};
    return forms[raw_bits];
  }
  (std::make_integer_sequence<int, 8>());
}
template <int kTuple>
TuplesForm form_of_streams(int streams, int raw_bits) {
  return streams == 4   ? form_of_raw_bits<kTuple, 4>(raw_bits)
         : streams == 8 ? form_of_raw_bits<kTuple, 8>(raw_bits)
                        : form_of_raw_bits<kTuple, 16>(raw_bits);
}
TuplesForm form_of(const backends::CompressedView& matrix) {
  const int streams = streams_of(matrix), raw_bits = raw_bits_of(matrix);
  return matrix.settings->integer("tuple") == 2 ? form_of_streams<2>(streams, raw_bits)
                                                : form_of_streams<4>(streams, raw_bits);
}

int64_t tuples_shared_bytes(const backends::CompressedView& matrix, int threads, bool with_x) {
  return (with_x ? 4 * quads_of(matrix) : 0) + form_of(matrix).x_offset(table_bits_of(matrix), threads);
}

template <bool kWithX>
std::string refuses_tuples(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  const int threads = policy.as<ThreadPolicy>().threads;
  if (matrix.settings->text("layout") != "single_level") return "This kernel decodes the layout single_level only.";
  if (const std::string reason = refuses_cols(matrix.shape); !reason.empty()) return reason;
  if (threads > tuples::most_threads(streams_of(matrix)))
    return "The lanes of this many streams need too many registers for such large blocks.";
  return refuses_shared(tuples_shared_bytes(matrix, threads, kWithX), device);
}

struct Tuples {
  tuples::Matrix stored;  // without what lies in scratch
  decltype(TuplesForm::lay_out) lay_out_kernel;
  gpu::LaunchShape shape;  // of the main kernel

  Tuples(const backends::CompressedView& matrix, const TuplesForm& form, const backends::Policy& policy, bool with_x)
      : stored{}, lay_out_kernel(form.lay_out) {
    using namespace single_level;
    const int64_t block_rows = rows_per_block(matrix.shape.cols, matrix.settings->integer("block_elements"));
    stored.streams = bytes_of(matrix, kStreams);
    stored.raw_bits = bytes_of(matrix, kRawBits);
    stored.patches = bytes_of(matrix, kPatches);
    stored.code = bytes_of(matrix, kCode);
    stored.blocks = bytes_of(matrix, kBlocks);
    stored.stream_bytes = size_of(matrix, kStreams);
    stored.rows = matrix.shape.rows;
    stored.block_count = (matrix.shape.rows + block_rows - 1) / block_rows;
    stored.row_bytes = raw_row_bytes(matrix.shape.cols, raw_bits_of(matrix));
    stored.cols = static_cast<int>(matrix.shape.cols);
    stored.rows_per_block = static_cast<int>(std::min(block_rows, matrix.shape.rows));
    stored.table_bits = table_bits_of(matrix);
    const int threads = policy.as<ThreadPolicy>().threads, groups = threads / streams_of(matrix);
    shape = {(stored.block_count + groups - 1) / groups, threads, tuples_shared_bytes(matrix, threads, with_x)};
  }

  // The scratch holds the table and the last partial piece.
  int64_t table_bytes() const { return int64_t{4} << stored.table_bits; }
  int64_t scratch_bytes() const { return table_bytes() + tuples::kPieceBytes; }

  tuples::Matrix lay_out(void* stream, std::byte* scratch) const {
    tuples::Matrix laid_out = stored;
    std::byte* const last_piece = scratch + table_bytes();
    laid_out.table = reinterpret_cast<const uint32_t*>(scratch);
    laid_out.last_piece = reinterpret_cast<const uint8_t*>(last_piece);
    gpu::launch(lay_out_kernel, a_thread_each((int64_t{1} << stored.table_bits) + tuples::kPieceBytes), stream,
                laid_out, reinterpret_cast<uint32_t*>(scratch), reinterpret_cast<uint8_t*>(last_piece));
    return laid_out;
  }
};

struct TuplesDecode {
  Tuples base;
  decltype(TuplesForm::decode) kernel;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    if (base.stored.rows == 0 || base.stored.cols == 0) return;
    const tuples::Matrix laid_out = base.lay_out(stream, args.scratch);
    gpu::launch(kernel, base.shape, stream, laid_out, reinterpret_cast<int8_t*>(args.out));
  }
};

// A matrix without columns has no blocks.
struct TuplesMatvec {
  Tuples base;
  decltype(TuplesForm::matvec) kernel;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    const int64_t rows = base.stored.rows;
    if (base.stored.cols == 0)
      return gpu::launch(tuples::store_zeros, a_thread_each(rows), stream, gpu::epilogue_of(args), rows);
    if (rows == 0) return;
    const tuples::Matrix laid_out = base.lay_out(stream, args.scratch);
    gpu::launch(kernel, base.shape, stream, laid_out, args.x, gpu::epilogue_of(args));
  }
};

backends::BoundKernel bind_tuples_decode(const backends::Policy& policy, Layers layers, int, backends::Place&) {
  const TuplesForm form = form_of(*layers[0].matrix);
  const Tuples bound(*layers[0].matrix, form, policy, false);
  return {TuplesDecode{bound, form.decode}, {.scratch_bytes = bound.scratch_bytes()}};
}
backends::BoundKernel bind_tuples_matvec(const backends::Policy& policy, Layers layers, int, backends::Place&) {
  const TuplesForm form = form_of(*layers[0].matrix);
  const Tuples bound(*layers[0].matrix, form, policy, true);
  return {TuplesMatvec{bound, form.matvec}, {.scratch_bytes = bound.scratch_bytes(), .requantises = true}};
}

using backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode,
     .variant = "tuples",
     .policies = kDecodePolicies,
     .refuses = refuses_tuples<false>,
     .bind = bind_tuples_decode},
    {.op = Op::matvec,
     .variant = "tuples",
     .policies = kMatvecPolicies,
     .refuses = refuses_tuples<true>,
     .bind = bind_tuples_matvec},
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
