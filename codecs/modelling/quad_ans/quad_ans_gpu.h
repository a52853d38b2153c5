// The quad coder of MatVANS on a GPU, for the layouts ans_warp_rows and ans_warp_stripes: a group of 32 lanes decodes a
// queue, a lane a coder. QuadQueue is the group's buffer: one coalesced load brings 128 words, 4 a lane, and the lanes
// that need a word find theirs by ballot and prefix count. The model's tables lie in shared memory with a copy for each
// lane, so that no two lanes meet in a bank. Groups of one wave share nothing, so waves of 64 lanes may diverge.
// Source: MatVANS white paper (Ludwig, Bamler), 3.2. The paper's kernels keep the tables in the registers of a group
// and read them by shuffles; on an H200 they never came within 8 % of this one.
#pragma once

#include "backends/gpu/lanes.h"
#include "backends/gpu/products/requantise.h"
#include "codecs/compressed_matrix.h"
#include "codecs/modelling/quad_ans/quad_ans.h"
#include "codecs/modelling/sections_gpu.h"

namespace ecmv::codecs::modelling::ECMV_GPU_NAMESPACE {
namespace gpu = backends::ECMV_GPU_NAMESPACE;

using QuadGroup = gpu::Lanes<kQuadFormatLanes>;

// A matrix as a kernel sees it.
struct QuadStream {
  gpu::Pointer<const gpu::uint4> words;            // a lane's four words of a group
  gpu::Pointer<const uint32_t> offsets;            // [queues], in units of `words`
  gpu::Pointer<const uint32_t> symbol, cum, prob;  // [32] each: the bytes of 128 slots
  int64_t units, queues;
  int chunks;
};

inline QuadStream quad_stream(const CompressedView& compressed, const QuadLayout& layout) {
  const auto words_of = [&](int section) {
    return reinterpret_cast<const uint32_t*>(compressed.sections[section].bytes.data());
  };
  const auto& payload = compressed.sections[kQuadCompressed].bytes;
  return {reinterpret_cast<const gpu::uint4*>(payload.data()),
          words_of(kQuadWarpOffsets),
          words_of(kQuadPpf),
          words_of(kQuadPpfCum),
          words_of(kQuadPpfProb),
          static_cast<int64_t>(payload.size() / sizeof(gpu::uint4)),
          layout.queues,
          static_cast<int>(layout.chunks)};
}

// Keeps kAhead groups of words on their way while earlier ones are used.
template <int kAhead>
class QuadQueue {
 public:
  // The first states of the group's coders, low and high words.
  uint32_t low = 0, high = 0;

  // Loads the states and the queue's first words.
  ECMV_GPU_DEVICE void begin(const QuadStream& stream, int64_t queue) {
    if (stream.chunks == 0) return;
    const int64_t first = stream.offsets[queue],
                  end = queue + 1 < stream.queues ? stream.offsets[queue + 1] : stream.units;
    groups_ = static_cast<int>((end - first) / QuadGroup::size());
    next_ = stream.words + (first + QuadGroup::lane());
    const gpu::uint4 group = load();
    line_ = group.x;
    next_line_ = group.y;
    low = group.z;
    high = group.w;
    rest_ = load();
    ECMV_GPU_UNROLL
    for (int i = 0; i < kAhead; ++i) ahead_[i] = load();
  }

  // The next words of the queue go, in lane order, to the lanes that need one; the others get anything.
  ECMV_GPU_DEVICE uint32_t take(bool need) {
    const QuadGroup::Mask mask = QuadGroup::ballot(need);
    // The next 32 words lie in 32 different lanes: lanes after the cursor hold words of this line, lanes before it
    // words of the next line.
    const uint32_t offered = QuadGroup::lane() >= cursor_ ? line_ : next_line_;
    const uint32_t word = QuadGroup::shuffle(offered, cursor_ + QuadGroup::count_before(mask));
    cursor_ += gpu::popcount(mask);
    if (cursor_ >= QuadGroup::size()) advance();
    return word;
  }

 private:
  ECMV_GPU_DEVICE void advance() {
    cursor_ -= QuadGroup::size();
    line_ = next_line_;
    next_line_ = rest_.x;
    rest_.x = rest_.y;
    rest_.y = rest_.z;
    rest_.z = rest_.w;
    if (--rest_lines_ != 0) return;
    rest_lines_ = 4;
    rest_ = ahead_[0];
    ECMV_GPU_UNROLL
    for (int i = 0; i + 1 < kAhead; ++i) ahead_[i] = ahead_[i + 1];
    ahead_[kAhead - 1] = load();
  }
  // Loads a group of 128 words. Coders take nothing after the last group.
  ECMV_GPU_DEVICE gpu::uint4 load() {
    if (groups_ == 0) return gpu::uint4{};
    const gpu::uint4 group = gpu::load_streaming(next_);
    next_ += QuadGroup::size();
    --groups_;
    return group;
  }

  gpu::Pointer<const gpu::uint4> next_;
  int groups_ = 0;                       // not yet loaded
  int cursor_ = 0;                       // words of `line_` taken
  uint32_t line_ = 0, next_line_ = 0;    // 32 words each
  gpu::uint4 rest_{}, ahead_[kAhead]{};  // the lines after them; the groups after these
  int rest_lines_ = 4;
};

// A lane's look-ups for the four slots of its state: the symbols in the bytes of one word, p_i, and r_i, the place
// inside the symbol.
struct QuadSlots {
  uint32_t symbols;
  uint32_t prob[4], position[4];
};

// An entry a slot: prob | position << 8 | symbol << 16. Lane l reads copy l of 32, in a bank of its own: one access a
// slot instead of three shuffles, which go through the same pipe. The table is the first thing in shared memory.
class QuadSharedTable {
 public:
  static constexpr int64_t kSharedBytes = int64_t{kQuadSlots} * kQuadFormatLanes * 4;

  // All threads of the block take part.
  ECMV_GPU_DEVICE explicit QuadSharedTable(const QuadStream& stream)
      : lane_offset_(static_cast<uint32_t>(QuadGroup::lane()) * 4) {
    const int lane = QuadGroup::lane();
    const uint32_t symbol = gpu::load_shared_by_many(stream.symbol + lane),
                   prob = gpu::load_shared_by_many(stream.prob + lane),
                   cum = gpu::load_shared_by_many(stream.cum + lane);
    uint32_t entries[4];  // of slots 4 lane .. 4 lane + 3
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t position = static_cast<uint32_t>(4 * lane + i) - (cum >> (8 * i) & 0xFF);
      entries[i] = (prob >> (8 * i) & 0xFF) | position << 8 | (symbol >> (8 * i) & 0xFF) << 16;
    }
    const gpu::Pointer<uint32_t> table = gpu::cast<uint32_t>(gpu::shared_memory());
    for (int source = QuadGroup::group(); source < kQuadSlots / 4; source += gpu::block_size() / QuadGroup::size()) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < 4; ++i)
        table[(4 * source + i) * kQuadFormatLanes + lane] = QuadGroup::shuffle(entries[i], source);
    }
    gpu::sync_block();
  }

  ECMV_GPU_DEVICE QuadSlots look_up(uint32_t low) const {
    const uint32_t entry[4] = {at(low << 7), at(low), at(low >> 7), at(low >> 14)};
    QuadSlots slots;
    slots.symbols = gpu::byte_permute(gpu::byte_permute(entry[0], entry[1], 0x0062),
                                      gpu::byte_permute(entry[2], entry[3], 0x0062), 0x5410);
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4; ++i) {
      slots.prob[i] = entry[i] & 0xFF;
      slots.position[i] = gpu::byte_permute(entry[i], 0, 0x4441);
    }
    return slots;
  }

 private:
  // `slot` is in bits 7..13, where its value is 128 * slot: the bytes of 32 copies of an entry.
  ECMV_GPU_DEVICE uint32_t at(uint32_t slot) const {
    static_assert(kQuadFormatLanes * 4 == 1 << 7);
    return *gpu::cast<const uint32_t>(gpu::shared_memory() + ((slot & 0x3F80u) | lane_offset_));
  }
  uint32_t lane_offset_;
};

// Calls sink(chunk, symbols) for every chunk of a begun queue; each lane passes the four symbols of its coder.
template <int kAhead, typename Sink>
ECMV_GPU_DEVICE void for_each_quad(int chunks, const QuadSharedTable& table, QuadQueue<kAhead>& words,
                                   const Sink& sink) {
  uint32_t low = words.low, high = words.high;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const bool refill = high == 0;
    const uint32_t word = words.take(refill);
    high = refill ? low : high;
    low = refill ? word : low;
    const QuadSlots s = table.look_up(low);
    // One step with the product of the four probabilities is shorter than four steps of 64 bits.
    const uint32_t prob01 = s.prob[0] * s.prob[1], prob = prob01 * (s.prob[2] * s.prob[3]);
    const uint32_t position =
        (s.position[3] * s.prob[2] + s.position[2]) * prob01 + (s.position[1] * s.prob[0] + s.position[0]);
    const uint64_t next =
        uint64_t{gpu::funnel_shift_right(low, high, 28)} * prob + position;  // 32 of the state's upper 36 bits
    low = static_cast<uint32_t>(next);
    high = static_cast<uint32_t>(next >> 32) + (high >> 28) * prob;
    sink(chunk, s.symbols);
  }
}

inline constexpr int kQuadMostWaves = 16;  // of a block

// The kernels of a layout, a group a queue. `Layout` has
//   kResidentWaves, waves that must fit on a multiprocessor,
//   kGroupsAhead, groups of words on their way,
//   multiply(stream, table, words, queue, x, epilogue) and decode(stream, table, words, queue, out): a begun queue.
template <typename Layout, typename Work>
ECMV_GPU_DEVICE void with_queue(const QuadStream& stream, const Work& work) {
  const int64_t queue = gpu::block_index() * (gpu::block_size() / QuadGroup::size()) + QuadGroup::group();
  QuadQueue<Layout::kGroupsAhead> words;
  if (queue < stream.queues) words.begin(stream, queue);
  const QuadSharedTable table(stream);
  if (queue < stream.queues) work(table, words, queue);
}

template <typename Layout>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kQuadMostWaves* gpu::kLargestWave,
                                Layout::kResidentWaves / kQuadMostWaves) void quad_matvec(QuadStream stream,
                                                                                          gpu::Pointer<const int8_t> x,
                                                                                          gpu::Epilogue epilogue) {
  with_queue<Layout>(stream, [&](const auto& table, auto& words, int64_t queue) {
    Layout::multiply(stream, table, words, queue, gpu::cast<const int32_t>(x), epilogue);
  });
}

template <typename Layout>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kQuadMostWaves* gpu::kLargestWave,
                                Layout::kResidentWaves / kQuadMostWaves) void quad_decode(QuadStream stream,
                                                                                          gpu::Pointer<int8_t> out) {
  with_queue<Layout>(stream, [&](const auto& table, auto& words, int64_t queue) {
    Layout::decode(stream, table, words, queue, gpu::cast<uint32_t>(out));
  });
}

// A block and grid with a group for each queue.
inline gpu::LaunchShape quad_shape(const backends::Policy& policy, const QuadLayout& layout,
                                   const backends::Place& place) {
  const int block = policy.as<WavePolicy>().waves * place.device().wave_size, queues = block / kQuadFormatLanes;
  return {(layout.queues + queues - 1) / queues, block, QuadSharedTable::kSharedBytes};
}

template <typename Layout>
struct QuadDecode {
  gpu::LaunchShape shape;
  QuadStream quads;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    gpu::launch(quad_decode<Layout>, shape, stream, quads, reinterpret_cast<int8_t*>(args.out));
  }
};

template <typename Layout>
struct QuadMultiply {
  gpu::LaunchShape shape;
  QuadStream quads;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch(quad_matvec<Layout>, shape, stream, quads, args.x, gpu::epilogue_of(args));
  }
};

// `Bound` is a QuadDecode or a QuadMultiply.
template <typename Bound, QuadLayoutOf kLayoutOf>
backends::BoundKernel bind_quads(const backends::Policy& policy, backends::Layers layers, int, backends::Place& place) {
  const CompressedView& matrix = *layers[0].matrix;
  const QuadLayout layout = kLayoutOf(matrix.shape);
  return {Bound{quad_shape(policy, layout, place), quad_stream(matrix, layout)}, {.requantises = true}};
}

inline std::string refuses_quad_kernel(const CompressedView& matrix, const backends::DeviceInfo&,
                                       const backends::Policy&) {
  return refuses_cols(matrix.shape);
}

// The kernels of a layout on GPUs.
template <typename Layout, QuadLayoutOf kLayoutOf, const auto& kPolicies>
inline constexpr backends::Kernel kQuadKernels[] = {
    {.op = backends::Op::decode,
     .variant = "shared_table",
     .policies = kPolicies,
     .refuses = refuses_quad_kernel,
     .bind = bind_quads<QuadDecode<Layout>, kLayoutOf>},
    {.op = backends::Op::matvec,
     .variant = "shared_table",
     .policies = kPolicies,
     .refuses = refuses_quad_kernel,
     .bind = bind_quads<QuadMultiply<Layout>, kLayoutOf>},
};

}  // namespace ecmv::codecs::modelling::ECMV_GPU_NAMESPACE
