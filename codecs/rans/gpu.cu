// GPU kernels of rans: a group of lanes decodes a block, and a lane has one state of it (two with 64 lanes, so that
// their chains of dependent steps overlap). Eight steps make a round. Where rows are whole rounds, a lane multiplies
// four elements at once with a copy of x in shared memory that is dealt to the lanes as the elements are. Otherwise
// each step is multiplied by itself: the element sits in the low byte of its table entry, and that of x in the low byte
// of a word. A thread block takes one block of the format after the other, so it builds its table once. States have 32
// bits and words 16 (state=w16s32).
#include <algorithm>

#include "backends/gpu/products/requantise.h"
#include "codecs/modelling/sections_gpu.h"
#include "codecs/rans/tables_gpu.h"
#include "codecs/rans/word_queue_gpu.h"

namespace ecmv::codecs::rans::ECMV_GPU_NAMESPACE {
namespace {

constexpr int kMostWaves = 16;  // of a block
constexpr int kResidentWaves =
    32;  // must fit on a multiprocessor; 48 leave so few registers that addresses are computed again and again
constexpr int kRoundSteps = 8;
constexpr int kLargestGroup = 32;
constexpr int kFewestLanes = 8;
constexpr int64_t kMostDealtX = 32768;  // of more columns, x would take the room of waves

// A matrix as a kernel sees it.
struct RansStream {
  StoredModel model;
  gpu::Pointer<const uint64_t> offsets;
  gpu::Pointer<const std::byte> payload;
  int64_t payload_bytes, blocks, rows, rows_per_block;
  int cols;
  int table_bytes;    // of the table in shared memory
  int dealt_x_bytes;  // after it; 0: x is read where it is
};

template <int kLanes>
constexpr int kGroupOf = kLanes < kLargestGroup ? kLanes : kLargestGroup;
template <int kLanes>
using GroupOf = gpu::Lanes<kGroupOf<kLanes>>;

// Decodes the states of a block round by round.
template <int kLanes>
class BlockDecoder {
 public:
  using Group = GroupOf<kLanes>;
  using State = W16S32::State;
  using Words = WordQueue<kGroupOf<kLanes>>;
  static_assert(kRoundSteps % Words::kAdvanceSteps == 0);
  static constexpr int kStates = kLanes / kGroupOf<kLanes>;

  ECMV_GPU_DEVICE BlockDecoder(const RansStream& stream, const SlotTable& table, int ring, int64_t begin)
      : table_(table),
        prob_bits_(stream.model.prob_bits),
        words_(ring, stream.payload, stream.payload_bytes, begin + kLanes * static_cast<int64_t>(sizeof(State))) {
    using Word = W16S32::Word;
    constexpr int kParts = sizeof(State) / sizeof(Word);  // a block begins at a multiple of a word, not of a state
    ECMV_GPU_UNROLL
    for (int i = 0; i < kStates; ++i) {
      const gpu::Pointer<const Word> parts =
          gpu::cast<const Word>(stream.payload + begin) + (i * Group::size() + Group::lane()) * kParts;
      states_[i] = 0;
      ECMV_GPU_UNROLL
      for (int part = 0; part < kParts; ++part)
        states_[i] |= static_cast<State>(parts[part]) << (8 * sizeof(Word) * part);
    }
  }

  // The lane's next kRoundSteps elements, each in the low byte. After the block's end they are undefined.
  ECMV_GPU_DEVICE void decode_round(uint32_t (&values)[kRoundSteps]) {
    static_assert(kRoundSteps % kStates == 0);
    ECMV_GPU_UNROLL
    for (int step = 0; step < kRoundSteps; ++step) {
      State& x = states_[step % kStates];
      const FoundSlot slot = table_.look_up(static_cast<uint32_t>(x));
      values[step] = slot.value;
      x = static_cast<State>(slot.frequency) * (x >> prob_bits_) + slot.rank;
      words_.refill(x);
      if ((step + 1) % Words::kAdvanceSteps == 0) words_.advance();
    }
  }

  ECMV_GPU_DEVICE void end() const { words_.end(); }

 private:
  const SlotTable& table_;
  int prob_bits_;
  State states_[kStates];
  Words words_;
};

// Calls work(decoder, first row, end row) for each of this group's blocks of the format.
template <int kLanes, class Work>
ECMV_GPU_DEVICE void for_each_block(const RansStream& stream, const Work& work) {
  using Group = GroupOf<kLanes>;
  const int rings = stream.table_bytes + stream.dealt_x_bytes,
            ring_bytes = Group::size() * static_cast<int>(kRingBytesOfLane);
  const SlotTable table(stream.model, gpu::shared_memory(), gpu::shared_memory() + rings);
  const int64_t groups = gpu::block_size() / Group::size();
  for (int64_t block = gpu::block_index() * groups + Group::group(); block < stream.blocks;
       block += gpu::grid_size() * groups) {
    const int64_t row = block * stream.rows_per_block,
                  end_row = row + stream.rows_per_block < stream.rows ? row + stream.rows_per_block : stream.rows;
    BlockDecoder<kLanes> decoder(stream, table, rings + Group::group() * ring_bytes,
                                 static_cast<int64_t>(stream.offsets[block]));
    work(decoder, row, end_row);
    decoder.end();
  }
}

// Sums up products for a group that walks along rows: a step is one element a lane.
template <class Group>
struct RowWalk {
  gpu::Pointer<const uint8_t> x;
  int cols;
  gpu::Epilogue epilogue;
  int64_t row, end_row;
  int column = 0;  // of lane 0; in the end of a row and between rows of few columns below 0
  int32_t sum = 0;

  ECMV_GPU_DEVICE void multiply(uint32_t value, int at) {
    sum = gpu::dot4(static_cast<int32_t>(value), static_cast<int32_t>(gpu::load_shared_by_many(x + at)), sum);
  }
  ECMV_GPU_DEVICE void finish_row() {
    const int32_t total = Group::reduce_add(sum);
    if (Group::lane() == 0) epilogue.store(row, total);
    sum = 0;
    ++row;
    column -= cols;
  }
  // A step that may cover the end of a row, or several rows.
  ECMV_GPU_DEVICE void take_step(uint32_t value) {
    while (row < end_row) {
      const int own = column + Group::lane();
      if (own >= 0 && own < cols) multiply(value, own);
      if (column + Group::size() < cols) break;
      finish_row();
      if (column + Group::size() <= 0) break;
    }
    column += Group::size();
  }
};

// Word g of each `group` words has the elements of x that lane g multiplies in four steps.
ECMV_GPU_DEVICE void deal_x(gpu::Pointer<const uint8_t> x, int words, int group, gpu::Pointer<uint32_t> dealt) {
  for (int i = gpu::thread_index(); i < words; i += gpu::block_size()) {
    const gpu::Pointer<const uint8_t> first = x + (i / group * 4 * group + i % group);
    uint32_t word = 0;
    ECMV_GPU_UNROLL
    for (int step = 0; step < 4; ++step) word |= static_cast<uint32_t>(first[step * group]) << (8 * step);
    dealt[i] = word;
  }
}

template <int kLanes>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostWaves* gpu::kLargestWave,
                                kResidentWaves / kMostWaves) void matvec(RansStream stream,
                                                                         gpu::Pointer<const int8_t> x,
                                                                         gpu::Epilogue epilogue) {
  using Group = GroupOf<kLanes>;
  const gpu::Pointer<uint32_t> dealt_x = gpu::cast<uint32_t>(gpu::shared_memory() + stream.table_bytes);
  deal_x(gpu::cast<const uint8_t>(x), stream.dealt_x_bytes / 4, Group::size(), dealt_x);
  for_each_block<kLanes>(stream, [&](auto& decoder, int64_t row, int64_t end_row) {
    RowWalk<Group> walk{gpu::cast<const uint8_t>(x), stream.cols, epilogue, row, end_row};
    constexpr int kRound = kRoundSteps * kGroupOf<kLanes>;
    while (walk.row < end_row) {
      uint32_t values[kRoundSteps];
      decoder.decode_round(values);
      if (stream.dealt_x_bytes != 0) {
        const gpu::Pointer<const uint32_t> factors = dealt_x + (walk.column / 4 + Group::lane());
        ECMV_GPU_UNROLL
        for (int i = 0; i < kRoundSteps; i += 4) {
          const uint32_t quad = gpu::byte_permute(gpu::byte_permute(values[i], values[i + 1], 0x0040),
                                                  gpu::byte_permute(values[i + 2], values[i + 3], 0x0040), 0x5410);
          walk.sum =
              gpu::dot4(static_cast<int32_t>(quad), static_cast<int32_t>(factors[i / 4 * Group::size()]), walk.sum);
        }
        walk.column += kRound;
        if (walk.column == stream.cols) walk.finish_row();
      } else if (walk.column + kRound <= stream.cols) {
        ECMV_GPU_UNROLL
        for (int step = 0; step < kRoundSteps; ++step)
          walk.multiply(values[step], walk.column + step * Group::size() + Group::lane());
        walk.column += kRound;
        if (walk.column == stream.cols) walk.finish_row();
      } else {
        ECMV_GPU_UNROLL
        for (int step = 0; step < kRoundSteps; ++step) walk.take_step(values[step]);
      }
    }
  });
}

template <int kLanes>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostWaves* gpu::kLargestWave,
                                kResidentWaves / kMostWaves) void decode(RansStream stream,
                                                                         gpu::Pointer<int8_t> decoded) {
  using Group = GroupOf<kLanes>;
  for_each_block<kLanes>(stream, [&](auto& decoder, int64_t row, int64_t end_row) {
    const int64_t end = end_row * stream.cols;
    for (int64_t element = row * stream.cols + Group::lane(); element - Group::lane() < end;) {
      uint32_t values[kRoundSteps];
      decoder.decode_round(values);
      ECMV_GPU_UNROLL
      for (int step = 0; step < kRoundSteps; ++step, element += Group::size())
        if (element < end) decoded[element] = static_cast<int8_t>(values[step]);
    }
  });
}

// For matrices whose rows have no elements.
ECMV_GPU_KERNEL void store_zeros(int64_t rows, gpu::Epilogue epilogue) {
  const int64_t row = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (row < rows) epilogue.store(row, 0);
}

// On an H200 a matvec is fastest with 16 waves in all ten published settings, and the only published decode with 4.
using modelling::ECMV_GPU_NAMESPACE::WavePolicy;
constexpr WavePolicy kDecodePolicies[] = {{{"waves4"}, 4}}, kMatvecPolicies[] = {{{"waves16"}, 16}};

// The size of the copy of x in shared memory; 0 where there is none.
int dealt_x_bytes(const backends::CompressedView& matrix, const Layout& layout) {
  const int64_t cols = matrix.shape.cols;
  return cols <= kMostDealtX && cols % (kRoundSteps * std::min(layout.lanes, kLargestGroup)) == 0
             ? static_cast<int>(cols)
             : 0;
}

gpu::LaunchShape launch_shape(const backends::CompressedView& matrix, const Layout& layout,
                              const backends::DeviceInfo& device, const WavePolicy& policy) {
  const int block = policy.waves * device.wave_size, groups = block / std::min(layout.lanes, kLargestGroup);
  const int64_t resident = int64_t{device.compute_units} * std::max(1, kResidentWaves / policy.waves);
  const int64_t table = SlotTable::shared_bytes(stored_model(matrix, layout));
  return {std::min((layout.blocks + groups - 1) / groups, resident), block,
          table + dealt_x_bytes(matrix, layout) + std::max(DealtModel::kSharedBytes, block * kRingBytesOfLane)};
}

std::string refuses(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                    const backends::Policy& policy) {
  const Layout layout = layout_of(matrix.shape, *matrix.settings);
  if (layout.state != StateForm::w16s32)
    return "The table of slots is for states of 32 bits and words of 16 (state=w16s32).";
  if (layout.lanes < kFewestLanes)
    return "Blocks of " + std::to_string(layout.lanes) +
           " lanes leave most of a wave of a GPU idle: encode with 8 to 64 lanes.";
  if (const std::string reason = modelling::ECMV_GPU_NAMESPACE::refuses_cols(matrix.shape); !reason.empty())
    return reason;
  if (layout.blocks == 0) return "";
  if (const std::string reason = SlotTable::refuses(stored_model(matrix, layout)); !reason.empty()) return reason;
  return modelling::ECMV_GPU_NAMESPACE::refuses_shared(
      launch_shape(matrix, layout, device, policy.as<WavePolicy>()).shared_bytes, device);
}

RansStream stream_of(const backends::CompressedView& matrix, const Layout& layout) {
  const auto& sections = matrix.sections;
  const StoredModel model = stored_model(matrix, layout);
  return {model,
          reinterpret_cast<const uint64_t*>(sections[kBlockOffsets].bytes.data()),
          sections[kPayload].bytes.data(),
          static_cast<int64_t>(sections[kPayload].bytes.size()),
          layout.blocks,
          matrix.shape.rows,
          layout.rows_per_block,
          static_cast<int>(matrix.shape.cols),
          static_cast<int>(SlotTable::shared_bytes(model)),
          dealt_x_bytes(matrix, layout)};
}

struct Decode {
  static constexpr bool kRequantises = false;
  RansStream matrix;
  gpu::LaunchShape shape;
  void (*kernel)(RansStream, gpu::Pointer<int8_t>);
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    gpu::launch(kernel, shape, stream, matrix, reinterpret_cast<int8_t*>(args.out));
  }
  template <int kLanes>
  void choose() {
    kernel = decode<kLanes>;
  }
};

struct Multiply {
  static constexpr bool kRequantises = true;
  RansStream matrix;
  gpu::LaunchShape shape;
  void (*kernel)(RansStream, gpu::Pointer<const int8_t>, gpu::Epilogue);
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch(kernel, shape, stream, matrix, args.x, gpu::epilogue_of(args));
  }
  template <int kLanes>
  void choose() {
    kernel = matvec<kLanes>;
  }
};

struct StoreZeros {
  int64_t rows;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch(store_zeros, {(rows + 255) / 256, 256, 0}, stream, rows, gpu::epilogue_of(args));
  }
};

template <class Body>
void choose_lanes(int lanes, Body& body) {
  switch (lanes) {
    case 8: return body.template choose<8>();
    case 16: return body.template choose<16>();
    case 32: return body.template choose<32>();
    case 64: return body.template choose<64>();
  }
}

// The grid of a matrix without elements is empty: there is nothing to decode.
template <class Body>
backends::BoundKernel bind(const backends::Policy& policy, backends::Layers layers, int, backends::Place& place) {
  const backends::CompressedView& matrix = *layers[0].matrix;
  const Layout layout = layout_of(matrix.shape, *matrix.settings);
  const backends::KernelFacts facts{.requantises = Body::kRequantises};
  if (Body::kRequantises && layout.blocks == 0) return {StoreZeros{matrix.shape.rows}, facts};
  Body body{stream_of(matrix, layout), launch_shape(matrix, layout, place.device(), policy.as<WavePolicy>()), nullptr};
  choose_lanes(layout.lanes, body);
  return {body, facts};
}

using backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "slot_table", .policies = kDecodePolicies, .refuses = refuses, .bind = bind<Decode>},
    {.op = Op::matvec,
     .variant = "slot_table",
     .policies = kMatvecPolicies,
     .refuses = refuses,
     .bind = bind<Multiply>},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::rans::ECMV_GPU_NAMESPACE
