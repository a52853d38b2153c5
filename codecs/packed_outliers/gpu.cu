// GPU kernels of packed_outliers. In the product, 16-row blocks are dealt in turn to as many thread blocks as fit on
// the device. The first lane groups of a thread block multiply fields: each keeps a segment of x in registers and takes
// every n-th row of that segment in all of its blocks (fields_gpu.h). The others follow outlier records meanwhile
// (records_gpu.h); all share long lists once the fields are done. They synchronise once, at the end, so that loads of
// fields never pause. Rows that do not begin at multiples of 16 bytes are read by 4 bytes.
#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "backends/gpu/products/requantise.h"
#include "codecs/packed_outliers/fields_gpu.h"
#include "codecs/packed_outliers/records_gpu.h"
#include "codecs/packed_outliers/tokens_gpu.h"

namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE {
namespace {

constexpr int kBlockRows = static_cast<int>(kRowsPerBlock);

struct FieldMatrix {
  gpu::Pointer<const uint8_t> header;
  Fields fields;
  RecordSections records;
};

// The division of a product: 16-row blocks are dealt to thread blocks in turn.
struct Plan {
  int most_blocks;             // 16-row blocks of a thread block
  int segments;                // of a row
  int row_step, segment_step;  // lane groups that multiply fields: row_step x segment_step
};

// Memory that the lane groups of a thread block share: partial sums, and which blocks' records are shared.
struct SharedState {
  gpu::Pointer<int32_t> inputs;     // [segment_step] sums of x
  gpu::Pointer<int32_t> outliers;   // [most_blocks, 16] sums of rows
  gpu::Pointer<int32_t> fields;     // [most_blocks, 16, segment_step] sums of rows
  gpu::Pointer<int32_t> many;       // [most_blocks] whether all lane groups share the records
  gpu::Pointer<int32_t> distances;  // of a lane group's records
};
constexpr int kMostLaneGroups = 22;
// Rings begin at whole lines: copies whose two addresses differ modulo 32 bytes make the product a sixth slower (H200).
ECMV_GPU_BOTH int shared_state_bytes(const Plan& plan) {
  constexpr int kLine = 128;
  return (4 * (plan.segment_step + plan.most_blocks * (kBlockRows * (1 + plan.segment_step) + 1) + kMostLaneGroups) +
          kLine - 1) /
         kLine * kLine;
}
ECMV_GPU_DEVICE SharedState shared_state(const Plan& plan) {
  const int rows = plan.most_blocks * kBlockRows;
  const gpu::Pointer<int32_t> inputs = gpu::cast<int32_t>(gpu::shared_memory()), outliers = inputs + plan.segment_step,
                              fields = outliers + rows;
  const gpu::Pointer<int32_t> many = fields + rows * plan.segment_step;
  return {inputs, outliers, fields, many, many + plan.most_blocks};
}

ECMV_GPU_DEVICE void add_outliers(RecordWalk walk, int cols, gpu::Pointer<const int8_t> x, gpu::Pointer<int32_t> sums) {
  int sum_row = 0;
  int32_t sum = 0;
  walk.run(cols, [&](int64_t, int row, int col, int delta) {
    if (row != sum_row) {
      if (sum != 0) gpu::atomic_add(sums + sum_row, sum);
      sum_row = row;
      sum = 0;
    }
    sum += delta * x[col];
  });
  if (sum != 0) gpu::atomic_add(sums + sum_row, sum);
}

// A lane group follows up to this many records alone while others multiply fields. Started after the fields, they would
// cost three memory latencies.
constexpr int64_t kFewRecords = 2 * kRecordsOfStep;

template <int kBits, typename Chunk, typename Feed, int kWaves, int kFollowers, int kResident>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS((kWaves + kFollowers) * kLanes,
                                kResident) void matvec(FieldMatrix matrix, gpu::Pointer<const int8_t> x,
                                                       gpu::Epilogue epilogue, Plan plan) {
  using S = Segment<kBits, Chunk>;
  gpu::let_next_begin();
  const Fields& fields = matrix.fields;
  const int64_t all_blocks = (fields.rows + kBlockRows - 1) / kBlockRows, mine = gpu::block_index(),
                grid = gpu::grid_size();
  const int blocks = static_cast<int>((all_blocks - mine + grid - 1) / grid);
  const auto rows_of = [&](int block) {
    const int64_t rows = fields.rows - (mine + block * grid) * kBlockRows;
    return rows < kBlockRows ? static_cast<int>(rows) : kBlockRows;
  };
  const int multipliers = plan.row_step * plan.segment_step, lane_groups = gpu::block_size() / kLanes,
            lane_group = LaneGroup::group();
  const SharedState shared = shared_state(plan);
  const int lowest = static_cast<int8_t>(matrix.header[1]);
  if (lane_group < multipliers) {
    const int first = lane_group / plan.segment_step, column = lane_group % plan.segment_step;
    const int in_block = (kBlockRows - first + plan.row_step - 1) / plan.row_step,
              in_last = (rows_of(blocks - 1) - first + plan.row_step - 1) / plan.row_step;
    const int64_t step_bytes = int64_t{plan.row_step} * fields.row_bytes;
    for (int segment = column; segment < plan.segments; segment += plan.segment_step) {
      const ChunkPlace place = place_in<kBits, Chunk>(fields, segment);
      Feed feed(gpu::shared_memory() + (shared_state_bytes(plan) + lane_group * Feed::kSharedBytes),
                {fields.bytes + ((mine * kBlockRows + first) * fields.row_bytes + int64_t{segment} * S::kBytes),
                 step_bytes, grid * kBlockRows * fields.row_bytes - in_block * step_bytes, in_block,
                 (blocks - 1) * in_block + (in_last > 0 ? in_last : 0)},
                place, fields.row_bytes - segment * S::kBytes);
      gpu::wait_for_previous();  // x is its result; fields and records depend on no launch
      const Inputs<Chunk> inputs(x, place);
      const auto add = [&](gpu::Pointer<int32_t> sum, int32_t of_lane) {
        const int32_t total = LaneGroup::reduce_add(of_lane);
        if (LaneGroup::lane() == 0) *sum = segment == column ? total : *sum + total;
      };
      if (first == 0) add(shared.inputs + column, inputs.sum());
      for (int block = 0; block < blocks; ++block) {
        const int rows = rows_of(block);
        for (int row = first; row < rows; row += plan.row_step) {
          Chunk planes[kBits];
          feed.next(place, planes);
          add(shared.fields + ((block * kBlockRows + row) * plan.segment_step + column),
              multiply<kBits>(planes, inputs));
        }
      }
    }
  } else {
    for (int block = lane_group - multipliers; block < blocks; block += lane_groups - multipliers) {
      const Records records = records_of(matrix.header, matrix.records, mine + block * grid);
      if (LaneGroup::lane() < kBlockRows) shared.outliers[block * kBlockRows + LaneGroup::lane()] = 0;
      const bool few = records.last - records.first <= kFewRecords;
      if (LaneGroup::lane() == 0) shared.many[block] = !few;
      LaneGroup::sync();
      const RecordWalk walk(records, records.first, few ? records.last : records.first, 0);
      gpu::wait_for_previous();
      add_outliers(walk, fields.cols, x, shared.outliers + block * kBlockRows);
    }
    gpu::wait_for_previous();
  }
  gpu::sync_block();
  for (int block = 0; block < blocks; ++block) {
    if (shared.many[block] == 0) continue;
    const Records records = records_of(matrix.header, matrix.records, mine + block * grid);
    const RecordShare share = share_records(records, lane_group, lane_groups, shared.distances);
    add_outliers(RecordWalk(records, share.first, share.last, share.start), fields.cols, x,
                 shared.outliers + block * kBlockRows);
    gpu::sync_block();
  }
  int32_t offset = 0;
  for (int i = 0; i < plan.segment_step; ++i) offset += shared.inputs[i];
  offset *= lowest;
  for (int i = gpu::thread_index(); i < blocks * kBlockRows; i += gpu::block_size()) {
    const int64_t row = (mine + i / kBlockRows * grid) * kBlockRows + i % kBlockRows;
    if (row >= fields.rows) break;
    int32_t sum = offset + shared.outliers[i];
    for (int k = 0; k < plan.segment_step; ++k) sum += shared.fields[i * plan.segment_step + k];
    epilogue.store(row, sum);
  }
}

ECMV_GPU_DEVICE void store_elements(gpu::Pointer<int8_t> row, int col, int, gpu::uint4 elements) {
  *gpu::cast<gpu::uint4>(row + col) = elements;
}
// A strip may reach beyond the row here.
ECMV_GPU_DEVICE void store_elements(gpu::Pointer<int8_t> row, int col, int cols, uint32_t elements) {
  for (int i = 0; i < 4 && col + i < cols; ++i) row[col + i] = static_cast<int8_t>(elements >> (8 * i));
}

constexpr int kDecodeLaneGroups = 8;

// Several records may meet at one element; the lane with the first of them adds all of them.
template <int kBits, typename Chunk>
ECMV_GPU_KERNEL void decode(FieldMatrix matrix, gpu::Pointer<int8_t> decoded) {
  const int64_t first_row = gpu::block_index() * kBlockRows;
  const int rows =
      matrix.fields.rows - first_row < kBlockRows ? static_cast<int>(matrix.fields.rows - first_row) : kBlockRows;
  const int cols = matrix.fields.cols;
  const gpu::Pointer<int8_t> out = decoded + first_row * cols;
  const uint32_t lowest = 0x01010101u * matrix.header[1];
  const int segments = segments_of<kBits, Chunk>(cols, matrix.fields.tail_width);
  for (int segment = 0; segment < segments; ++segment) {
    const ChunkPlace place = place_in<kBits, Chunk>(matrix.fields, segment);
    for (int r = LaneGroup::group(); r < rows; r += kDecodeLaneGroups) {
      if (!place.any) continue;
      Chunk planes[kBits];
      load_planes<kBits>(
          matrix.fields.bytes + ((first_row + r) * matrix.fields.row_bytes + segment * Segment<kBits, Chunk>::kBytes),
          place, planes);
      ECMV_GPU_UNROLL
      for (int strip = 0; strip < static_cast<int>(kStrips); ++strip) {
        uint32_t words[kWords<Chunk>];
        ECMV_GPU_UNROLL
        for (int i = 0; i < kWords<Chunk>; ++i) words[i] = gpu::add_bytes(fields_of<kBits>(planes, strip, i), lowest);
        const int col = place.col + strip * place.width;
        if constexpr (kWords<Chunk> == 4)
          store_elements(out + int64_t{r} * cols, col, cols, gpu::uint4{words[0], words[1], words[2], words[3]});
        else
          store_elements(out + int64_t{r} * cols, col, cols, words[0]);
      }
    }
  }
  gpu::sync_block();
  const Records records = records_of(matrix.header, matrix.records, gpu::block_index());
  const RecordShare share =
      share_records(records, LaneGroup::group(), kDecodeLaneGroups, gpu::cast<int32_t>(gpu::shared_memory()));
  RecordWalk(records, share.first, share.last, share.start).run(cols, [&](int64_t record, int row, int col, int delta) {
    if (record != records.first && records.distance(record) == 0) return;
    for (int64_t next = record + 1; next < records.last && records.distance(next) == 0; ++next)
      delta += records.delta(next);
    const gpu::Pointer<int8_t> element = out + (static_cast<int64_t>(row) * cols + col);
    *element = static_cast<int8_t>(*element + delta);
  });
}

int bits_of(const backends::CompressedView& view) { return std::to_integer<int>(view.sections[kHeader].host[0]); }

FieldMatrix matrix_of(const backends::CompressedView& view) {
  const auto bytes = [&](int section) { return reinterpret_cast<const uint8_t*>(view.sections[section].bytes.data()); };
  return {.header = bytes(kHeader),
          .fields = {.bytes = bytes(kFields),
                     .rows = view.shape.rows,
                     .cols = static_cast<int>(view.shape.cols),
                     .row_bytes = static_cast<int>(row_bytes(bits_of(view), view.shape.cols)),
                     .tail_width = static_cast<int>(tail_strip(view.shape.cols))},
          .records = {reinterpret_cast<const uint64_t*>(bytes(kBlocks)), bytes(kDistances), bytes(kDeltas)}};
}

// Calls f(constant number of bits, chunk) for this matrix; the chunk is 16 bytes if the tail's strips are multiples of
// 16.
template <typename F>
void with_layout(const backends::CompressedView& view, F f) {
  with_bits(bits_of(view), [&](auto bits) {
    if (tail_cols(view.shape.cols) % (kStrips * 16) == 0)
      f(bits, gpu::uint4{});
    else
      f(bits, uint32_t{});
  });
}

constexpr int kMostBlocks = 32;  // of 16 rows in a thread block

// `lane_groups` lane groups multiply, or fewer if their feeds do not fit into the device's shared memory.
Plan plan_of(int64_t grid, int64_t rows, int segments, int feed_bytes, int lane_groups,
             const backends::DeviceInfo& device) {
  const int most = static_cast<int>((block_count(rows) + grid - 1) / grid);
  for (; lane_groups > 1; lane_groups /= 2) {
    const int segment_step = std::min(segments, lane_groups),
              row_step = segments == 0 ? 0 : std::min(lane_groups / segment_step, kBlockRows);
    const Plan plan{most, segments, row_step, segment_step};
    if (shared_state_bytes(plan) + row_step * segment_step * feed_bytes <= device.shared_bytes) return plan;
  }
  return {most, segments, 1, 1};
}

struct Multiply {
  FieldMatrix matrix;
  Plan plan;
  gpu::LaunchShape shape;
  void (*kernel)(FieldMatrix, gpu::Pointer<const int8_t>, gpu::Epilogue, Plan);
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch(kernel, shape, stream, matrix, args.x, gpu::epilogue_of(args), plan);
  }
};

// kRingBytes is the size of a lane group's ring, 0 for the register feed. kResident blocks must fit on a
// multiprocessor.
template <int kWaves, int kFollowers, int kRingBytes, int kResident>
Multiply product(const backends::CompressedView& view, const backends::DeviceInfo& device) {
  Multiply bound{};
  bound.matrix = matrix_of(view);
  bound.shape.grid = 0;
  with_layout(view, [&](auto bits_constant, auto chunk) {
    constexpr int kBits = decltype(bits_constant)::value;
    using Chunk = decltype(chunk);
    constexpr int kFit = kRingBytes / Segment<kBits, Chunk>::kSlotBytes, kStages = kFit < 2 ? 2 : kFit > 8 ? 8 : kFit;
    using Feed = std::conditional_t<kRingBytes == 0, RegisterFeed<kBits, Chunk>, RingFeed<kBits, Chunk, kStages>>;
    const Fields& fields = bound.matrix.fields;
    const int64_t blocks = block_count(fields.rows), slots = int64_t{device.compute_units} * kResident;
    const int64_t grid = std::min(blocks, (blocks + slots * kMostBlocks - 1) / (slots * kMostBlocks) * slots);
    if (grid == 0) return;
    bound.plan = plan_of(grid, fields.rows, segments_of<kBits, Chunk>(fields.cols, fields.tail_width),
                         Feed::kSharedBytes, kWaves, device);
    const int multipliers = bound.plan.row_step * bound.plan.segment_step, groups = device.wave_size / kLanes;
    const int lane_groups = (multipliers + kFollowers + groups - 1) / groups * groups;
    bound.shape = {grid, lane_groups * kLanes, shared_state_bytes(bound.plan) + multipliers * Feed::kSharedBytes,
                   gpu::have_early_launches(device)};
    // 7 and 8 planes, held twice, take registers that leave room for one thread block less.
    constexpr int kFitting = kRingBytes == 0 && kBits > 6 ? kResident - 1 : kResident;
    bound.kernel = matvec<kBits, Chunk, Feed, kWaves, kFollowers, kFitting>;
  });
  return bound;
}

// Waves that multiply, KiB of each one's ring, and thread blocks that must fit on a multiprocessor. On H100 and H200
// each is the fastest for some widths and sizes: the first in most published settings, the second at 5120 and 12288,
// the third at 4096.
struct ProductPolicy : backends::Policy {
  Multiply (*product)(const backends::CompressedView&, const backends::DeviceInfo&);
};
constexpr ProductPolicy kProductPolicies[] = {{{"waves4_ring7_blocks4"}, product<4, 1, 7680, 4>},
                                              {{"waves16_ring7"}, product<16, 4, 7680, 1>},
                                              {{"waves8_registers_blocks2"}, product<8, 2, 0, 2>}};

struct Decode {
  FieldMatrix matrix;
  void (*kernel)(FieldMatrix, gpu::Pointer<int8_t>);
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    gpu::launch(kernel, {block_count(matrix.fields.rows), kDecodeLaneGroups * kLanes, kDecodeLaneGroups * 4}, stream,
                matrix, reinterpret_cast<int8_t*>(args.out));
  }
};

using backends::Layers;

backends::BoundKernel bind_decode(const backends::Policy&, Layers layers, int, backends::Place&) {
  const backends::CompressedView& view = *layers[0].matrix;
  Decode bound{matrix_of(view), nullptr};
  with_layout(view, [&](auto bits, auto chunk) { bound.kernel = decode<decltype(bits)::value, decltype(chunk)>; });
  return bound;
}
backends::BoundKernel bind_matvec(const backends::Policy& policy, Layers layers, int, backends::Place& place) {
  return {policy.as<ProductPolicy>().product(*layers[0].matrix, place.device()), {.requantises = true}};
}

std::string refuses(const backends::CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  return matrix.shape.cols < (int64_t{1} << 26)
             ? ""
             : "The kernel counts the elements of 16 rows in 32 bits: at most 2^26 columns.";
}

// --- products with tokens of bf16
// -------------------------------------------------------------------------------------

constexpr int kLeastTokenBits = 3, kMostTokenBits = 5;

template <int kBits>
std::string why_no_tokens(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                          const backends::Policy& policy) {
  return gpu::why_no_token_product<FieldElements<kBits>>(policy.as<gpu::TokenPolicy>(), matrix.shape, device);
}
std::string refuses_tokens(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  if (bits_of(matrix) < kLeastTokenBits || bits_of(matrix) > kMostTokenBits)
    return "The kernel is compiled for fields of 3 to 5 bits.";
  return with_bits(bits_of(matrix),
                   [&](auto bits) { return why_no_tokens<decltype(bits)::value>(matrix, device, policy); });
}

// If the fields' range holds 0, the magnitudes of a field and of its records add up to the element's. `kScaled`: with
// scales of groups of columns.
template <const auto& kPolicies, bool kScaled>
backends::BoundKernel bind_tokens(const backends::Policy& policy, backends::Layers layers, int batch,
                                  backends::Place& place) {
  const backends::CompressedView& view = *layers[0].matrix;
  return with_bits(bits_of(view), [&](auto bits) -> backends::BoundKernel {
    constexpr int kBits = decltype(bits)::value;
    if constexpr (kBits < kLeastTokenBits || kBits > kMostTokenBits) {
      return {};
    } else {
      const FieldMatrix matrix = matrix_of(view);
      const int lowest = std::to_integer<int8_t>(view.sections[kHeader].host[1]), highest = lowest + (1 << kBits) - 1;
      const FieldElements<kBits> elements{gpu::kInt8Exponents, gpu::field_to_element(lowest), matrix.header,
                                          matrix.records};
      const auto bind = [&](const auto& of) {
        return gpu::bind_token_product<kPolicies>(
            policy, of, {view.sections[kFields].bytes.data(), matrix.fields.row_bytes, view.shape}, batch,
            place.device(),
            {.more_roundings = static_cast<int>(view.shape.cols) + (kScaled ? 1 : 0),
             .offset = lowest <= 0 && highest >= 0 ? 0.0 : 2.0 * std::max(std::abs(lowest), std::abs(highest))});
      };
      if constexpr (kScaled)
        return bind(ScaledFields<kBits>(elements, gpu::column_scales_of(layers[0].scales)));
      else
        return bind(elements);
    }
  });
}

using backends::Activations, backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "planes", .refuses = refuses, .bind = bind_decode},
    {.op = Op::matvec, .variant = "planes", .policies = kProductPolicies, .refuses = refuses, .bind = bind_matvec},
    {.op = Op::matmul,
     .variant = "tokens",
     .policies = gpu::kWideTokenPolicies,
     .activations = Activations::bf16,
     .refuses = refuses_tokens,
     .bind = bind_tokens<gpu::kWideTokenPolicies, false>},
    {.op = Op::matmul,
     .variant = "scaled_tokens",
     .policies = gpu::kWideScaledTokenPolicies,
     .activations = Activations::bf16,
     .group_cols = gpu::kScaleCols,
     .refuses = refuses_tokens,
     .bind = bind_tokens<gpu::kWideScaledTokenPolicies, true>},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::packed_outliers::ECMV_GPU_NAMESPACE
