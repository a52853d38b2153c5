// GPU kernels of matvans_warp_per_row: a group of 32 lanes decodes a row, each lane with its own coder and words. As in
// the paper the model lies in shared memory and 16-byte loads refill a lane's queue of 16 words. Here a model entry is
// one word with a copy for each lane, and the queues lie in shared memory column by column, so lanes at different slots
// and words never meet in a bank. A head that took a word is at least 2^24 and takes none in the next step, so two
// steps need at most one word and the 16 columns of a lane at most 8: one stored unit. Source: MatVANS white paper
// (Ludwig, Bamler), section 3.1.
#include "backends/gpu/products/dense_matvec.h"
#include "codecs/matvans_warp_per_row/format.h"
#include "codecs/modelling/sections_gpu.h"

namespace ecmv::codecs::matvans_warp_per_row::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;
using LaneGroup = gpu::Lanes<kFormatLanes>;

constexpr int kLineBytes = kFormatLanes * 4;  // a word of 32 bits for each lane
constexpr int kTableBytes = kSlots * kLineBytes;
constexpr int kQueueLines = 2 * kUnitWords / 2;        // lines of a queue: two units, two words a line and lane
constexpr int kQueueBytes = kQueueLines * kLineBytes;  // of a group
constexpr int kMostWaves = 16, kResidentWaves = 48;    // of a block; that must fit on a multiprocessor

struct RowStream {
  gpu::Pointer<const gpu::uint4> units;  // eight words of a lane
  gpu::Pointer<const uint32_t> cursors;
  gpu::Pointer<const uint8_t> cdf, ppf, min_value;
  int64_t words, rows;
  int groups;  // of 512 columns
};

// Shared memory begins with the table: prob | position inside the symbol << 8 | symbol << 16, for each slot and lane.
class Table {
 public:
  // All threads of the block take part.
  ECMV_GPU_DEVICE explicit Table(const RowStream& stream) : lane_offset_(static_cast<uint32_t>(LaneGroup::lane()) * 4) {
    constexpr int kSlotsOfLane = kSlots / kFormatLanes;
    const int lane = LaneGroup::lane();
    const uint32_t min_value = *stream.min_value;
    uint32_t entries[kSlotsOfLane];
    ECMV_GPU_UNROLL
    for (int i = 0; i < kSlotsOfLane; ++i) {
      const uint32_t slot = static_cast<uint32_t>(lane * kSlotsOfLane + i), value = stream.ppf[slot],
                     first = stream.cdf[value];
      entries[i] = ((stream.cdf[value + 1] - first) & 0xFF) | (slot - first) << 8 | ((min_value + value) & 0xFF) << 16;
    }
    const gpu::Pointer<uint32_t> table = gpu::cast<uint32_t>(gpu::shared_memory());
    for (int source = LaneGroup::group(); source < kFormatLanes; source += gpu::block_size() / LaneGroup::size()) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < kSlotsOfLane; ++i)
        table[(source * kSlotsOfLane + i) * kFormatLanes + lane] = LaneGroup::shuffle(entries[i], source);
    }
    gpu::sync_block();
  }
  ECMV_GPU_DEVICE uint32_t at_slot_of(uint32_t head) const {
    static_assert(kLineBytes == 1 << 7);
    return *gpu::cast<const uint32_t>(gpu::shared_memory() + ((head << 7 & (kTableBytes - kLineBytes)) | lane_offset_));
  }

 private:
  uint32_t lane_offset_;
};

// The words of a lane, which no other lane touches.
class Queue {
 public:
  ECMV_GPU_DEVICE Queue(const RowStream& stream, int64_t row)
      : lines_(gpu::shared_memory() + (kTableBytes + LaneGroup::group() * kQueueBytes + LaneGroup::lane() * 4)) {
    const int64_t begin = stream.cursors[row], end = row + 1 < stream.rows ? stream.cursors[row + 1] : stream.words;
    units_ = static_cast<int>((end - begin) / (kUnitWords * kFormatLanes));
    next_ = stream.units + (begin / kUnitWords + LaneGroup::lane());
    ahead_ = load();
    fill();
  }

  // Call this before 16 columns: it provides at least as many words as they can take.
  ECMV_GPU_DEVICE void ensure_unit() {
    if (filled_ - used_ < kUnitWords) fill();
  }
  ECMV_GPU_DEVICE uint32_t front() const {
    const int offset = (used_ / 2 % kQueueLines) * kLineBytes + used_ % 2 * 2;
    return *gpu::cast<const uint16_t>(lines_ + offset);
  }
  ECMV_GPU_DEVICE void pop(bool taken) { used_ += taken ? 1u : 0u; }

 private:
  ECMV_GPU_DEVICE void fill() {
    const gpu::Pointer<std::byte> to = lines_ + (filled_ / 2 % kQueueLines) * kLineBytes;
    *gpu::cast<uint32_t>(to) = ahead_.x;
    *gpu::cast<uint32_t>(to + kLineBytes) = ahead_.y;
    *gpu::cast<uint32_t>(to + 2 * kLineBytes) = ahead_.z;
    *gpu::cast<uint32_t>(to + 3 * kLineBytes) = ahead_.w;
    filled_ += kUnitWords;
    ahead_ = load();
  }
  // After the last unit the coder takes nothing. Neighbouring lanes ask for a sector's halves at different times, so a
  // streaming load would not do.
  ECMV_GPU_DEVICE gpu::uint4 load() {
    if (units_ == 0) return gpu::uint4{};
    const gpu::uint4 unit = gpu::load_shared_by_many(next_);
    next_ += kFormatLanes;
    --units_;
    return unit;
  }

  gpu::Pointer<std::byte> lines_;
  gpu::Pointer<const gpu::uint4> next_;
  gpu::uint4 ahead_;
  int units_;                       // not yet loaded
  uint32_t used_ = 0, filled_ = 0;  // words
};

// Decodes four neighbouring columns.
ECMV_GPU_DEVICE uint32_t decode_quad(const Table& table, Queue& queue, uint32_t& head) {
  uint32_t entries[4];
  ECMV_GPU_UNROLL
  for (int pair = 0; pair < 4; pair += 2) {
    const uint32_t word = queue.front();
    bool taken = false;
    ECMV_GPU_UNROLL
    for (int i = pair; i < pair + 2; ++i) {
      entries[i] = table.at_slot_of(head);
      head = (head >> kModelBits) * (entries[i] & 0xFF) + gpu::byte_permute(entries[i], 0, 0x4441);
      const bool refill = head < kLowestHead;
      head = refill ? gpu::byte_permute(word, head, 0x5410) : head;
      taken = taken || refill;
    }
    queue.pop(taken);
  }
  return gpu::byte_permute(gpu::byte_permute(entries[0], entries[1], 0x0062),
                           gpu::byte_permute(entries[2], entries[3], 0x0062), 0x5410);
}

// Calls sink(group, symbols) for every group of 512 columns, each lane with its 16 symbols.
template <typename Sink>
ECMV_GPU_DEVICE void for_each_group(const RowStream& stream, const Table& table, int64_t row, const Sink& sink) {
  if (stream.groups == 0) return;
  Queue queue(stream, row);
  uint32_t head = queue.front() << 16;
  queue.pop(true);
  head |= queue.front();
  queue.pop(true);
  for (int group = 0; group < stream.groups; ++group) {
    queue.ensure_unit();
    gpu::uint4 symbols;
    symbols.x = decode_quad(table, queue, head);
    symbols.y = decode_quad(table, queue, head);
    symbols.z = decode_quad(table, queue, head);
    symbols.w = decode_quad(table, queue, head);
    sink(group, symbols);
  }
}

ECMV_GPU_DEVICE int64_t row_of_group() {
  return gpu::block_index() * (gpu::block_size() / LaneGroup::size()) + LaneGroup::group();
}

ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostWaves* gpu::kLargestWave,
                                kResidentWaves / kMostWaves) void matvec(RowStream stream, gpu::Pointer<const int8_t> x,
                                                                         gpu::Epilogue epilogue) {
  const Table table(stream);
  const int64_t row = row_of_group();
  if (row >= stream.rows) return;
  const gpu::Pointer<const gpu::uint4> x_units = gpu::cast<const gpu::uint4>(x) + LaneGroup::lane();
  int32_t sum = 0;
  for_each_group(stream, table, row, [&](int group, gpu::uint4 symbols) {
    sum = gpu::dot(symbols, gpu::load_shared_by_many(x_units + group * kFormatLanes), sum);
  });
  const int32_t total = LaneGroup::reduce_add(sum);
  if (LaneGroup::lane() == 0) epilogue.store(row, total);
}

ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostWaves* gpu::kLargestWave,
                                kResidentWaves / kMostWaves) void decode(RowStream stream,
                                                                         gpu::Pointer<int8_t> decoded) {
  const Table table(stream);
  const int64_t row = row_of_group();
  if (row >= stream.rows) return;
  const gpu::Pointer<gpu::uint4> out =
      gpu::cast<gpu::uint4>(decoded) + (row * stream.groups * kFormatLanes + LaneGroup::lane());
  for_each_group(stream, table, row, [&](int group, gpu::uint4 symbols) { out[group * kFormatLanes] = symbols; });
}

using modelling::ECMV_GPU_NAMESPACE::WavePolicy;
// On an H200, 16 waves were the best in all ten published settings; 8 came within 2 % in one.
constexpr WavePolicy kPolicies[] = {{{"waves16"}, 16}, {{"waves8"}, 8}};

// The grid has a group for each row.
gpu::LaunchShape launch_shape(int64_t rows, const backends::DeviceInfo& device, const backends::Policy& policy) {
  const int block = policy.as<WavePolicy>().waves * device.wave_size, rows_of_block = block / kFormatLanes;
  return {(rows + rows_of_block - 1) / rows_of_block, block, kTableBytes + int64_t{rows_of_block} * kQueueBytes};
}

RowStream stream_of(const backends::CompressedView& matrix) {
  const auto bytes_of = [&](int section) {
    return reinterpret_cast<const uint8_t*>(matrix.sections[section].bytes.data());
  };
  return {reinterpret_cast<const gpu::uint4*>(bytes_of(kPayload)),
          reinterpret_cast<const uint32_t*>(bytes_of(kCursors)),
          bytes_of(kCdf),
          bytes_of(kPpf),
          bytes_of(kMinValue),
          static_cast<int64_t>(matrix.sections[kPayload].bytes.size() / 2),
          matrix.shape.rows,
          static_cast<int>(matrix.shape.cols / kGroupCols)};
}

struct Decode {
  gpu::LaunchShape shape;
  RowStream stored;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    gpu::launch(decode, shape, stream, stored, reinterpret_cast<int8_t*>(args.out));
  }
};

struct Multiply {
  gpu::LaunchShape shape;
  RowStream stored;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch(matvec, shape, stream, stored, args.x, gpu::epilogue_of(args));
  }
};

template <typename Body, bool kRequantises>
backends::BoundKernel bind(const backends::Policy& policy, backends::Layers layers, int, backends::Place& place) {
  const backends::CompressedView& matrix = *layers[0].matrix;
  return {Body{launch_shape(matrix.shape.rows, place.device(), policy), stream_of(matrix)},
          {.requantises = kRequantises}};
}

std::string refuses(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                    const backends::Policy& policy) {
  const std::string reason = modelling::ECMV_GPU_NAMESPACE::refuses_cols(matrix.shape);
  return reason.empty() ? modelling::ECMV_GPU_NAMESPACE::refuses_shared(
                              launch_shape(matrix.shape.rows, device, policy).shared_bytes, device)
                        : reason;
}

using backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode,
     .variant = "lane_queues",
     .policies = kPolicies,
     .refuses = refuses,
     .bind = bind<Decode, false>},
    {.op = Op::matvec,
     .variant = "lane_queues",
     .policies = kPolicies,
     .refuses = refuses,
     .bind = bind<Multiply, true>},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::matvans_warp_per_row::ECMV_GPU_NAMESPACE
