// GPU kernels of tans: a lane decodes a block, with all of its states in registers. The states share one bit stream and
// depend on each other's positions in it, but their table look-ups do not, so a lane has as many look-ups under way as
// the format has lanes, and lanes of the device exchange nothing. All lanes of a wave are at the same column of
// different rows and read the same elements of x. A round of 32 elements inside one row multiplies four at a time,
// other rounds one by one. A first launch builds the table in the scratch (table_gpu.h).
#include "backends/gpu/products/requantise.h"
#include "codecs/modelling/sections_gpu.h"
#include "codecs/tans/lane_bits_gpu.h"
#include "codecs/tans/table_gpu.h"

namespace ecmv::codecs::tans::ECMV_GPU_NAMESPACE {
namespace {

constexpr int kMostWaves = 4;                        // of a block
[[maybe_unused]] constexpr int kResidentWaves = 16;  // must fit on a multiprocessor; HIP does not ask

// A matrix as a kernel sees it.
struct TansStream {
  gpu::Pointer<const gpu::uint4> table;
  gpu::Pointer<const uint64_t> offsets;
  gpu::Pointer<const std::byte> payload;
  int64_t payload_bytes, blocks, rows, rows_per_block;
  int cols;
  int table_bytes;
};

template <int kLanes, bool kPairs>
class BlockDecoder {
 public:
  static constexpr int kSymbols = kPairs ? 16 : 32;  // of a round
  static constexpr int kElements = 32;
  static_assert(kSymbols % kLanes == 0 || kLanes % kSymbols == 0);
  using Bits = LaneBits<kMaxTableBits + (kPairs ? kEscapeBits : 0)>;
  // Rounds until a lane of the format is at the same place of a round again.
  static constexpr int kRounds = kLanes > kSymbols ? kLanes / kSymbols : 1;

  ECMV_GPU_DEVICE BlockDecoder(const TansStream& stream, int64_t begin)
      : table_(gpu::cast<const Entry>(gpu::shared_memory())),
        bits_(gpu::shared_memory() + stream.table_bytes, stream.payload, stream.payload_bytes, begin + 2 * kLanes) {
    const gpu::Pointer<const uint8_t> states = gpu::cast<const uint8_t>(stream.payload + begin);
    ECMV_GPU_UNROLL
    for (int i = 0; i < kLanes; ++i) states_[i] = states[2 * i] | static_cast<uint32_t>(states[2 * i + 1]) << 8;
    if constexpr (kLooksAhead) look_up(0, ahead_);
  }

  // The next kElements elements, four a word. After a block's end they are undefined.
  template <int kRound>
  ECMV_GPU_DEVICE void decode_round(uint32_t (&quads)[kElements / 4]) {
    Entry entries[kSymbols];
    ECMV_GPU_UNROLL
    for (int first = 0; first < kSymbols; first += kBatch) {
      if (first % kRunSymbols == 0) bits_.top_up();
      Entry batch[kBatch];
      decode_batch(kRound * kSymbols + first, batch);
      ECMV_GPU_UNROLL
      for (int i = 0; i < kBatch; ++i) entries[first + i] = batch[i];
    }
    ECMV_GPU_UNROLL
    for (int i = 0; i < kElements / 4; ++i) {
      if constexpr (kPairs)
        quads[i] = gpu::byte_permute(entries[2 * i], entries[2 * i + 1], 0x7632);
      else
        quads[i] = gpu::byte_permute(gpu::byte_permute(entries[4 * i], entries[4 * i + 1], 0x0062),
                                     gpu::byte_permute(entries[4 * i + 2], entries[4 * i + 3], 0x0062), 0x5410);
    }
  }

  ECMV_GPU_DEVICE void end() const { bits_.end(); }

 private:
  // Symbols whose look-ups are under way together; with enough lanes of the format also the next batch's.
  static constexpr int kBatch = kLanes < 8 ? kLanes : 8;
  static constexpr bool kLooksAhead = kLanes > kBatch;
  static constexpr int kWindow = kPairs       ? 1
                                 : kBatch < 4 ? kBatch
                                              : 4;  // symbols of a window: at most 48 bits, or an escape

  ECMV_GPU_DEVICE void look_up(int first, Entry (&entries)[kBatch]) const {
    ECMV_GPU_UNROLL
    for (int i = 0; i < kBatch; ++i) entries[i] = table_[states_[(first + i) % kLanes] & ((1u << kMaxTableBits) - 1)];
  }

  ECMV_GPU_DEVICE void decode_batch(int first, Entry (&entries)[kBatch]) {
    if constexpr (kLooksAhead) {
      ECMV_GPU_UNROLL
      for (int i = 0; i < kBatch; ++i) entries[i] = ahead_[i];
      look_up(first + kBatch, ahead_);
    } else {
      look_up(first, entries);
    }
    // The entries alone tell where each window begins.
    uint32_t counts[kBatch], position = bits_.position();
    gpu::uint2 windows[kBatch / kWindow];
    ECMV_GPU_UNROLL
    for (int i = 0; i < kBatch; ++i) {
      if (i % kWindow == 0)
        windows[i / kWindow] = kPairs ? gpu::uint2{bits_.window32(position), 0} : bits_.window64(position);
      counts[i] = kPairs ? entries[i] >> 12 & 15 : entries[i] >> 28;
      position += counts[i];
      if (kPairs && counts[i] == kEscapeMark) {
        counts[i] = entries[i] >> 16;
        position += counts[i] + kEscapeBits - kEscapeMark;
        entries[i] = (entries[i] & 0xFFFF) | (windows[i / kWindow].x >> counts[i]) << 16;
      }
    }
    bits_.move_to(position);
    ECMV_GPU_UNROLL
    for (int i = 0; i < kBatch; ++i) {
      gpu::uint2& window = windows[i / kWindow];
      // Takes the entry's base and `count` bits below it. Above 12 bits other fields of the entry remain.
      const uint32_t above = 0xFFFFFFFFu << counts[i];
      states_[(first + i) % kLanes] = (entries[i] & above) | (window.x & ~above);
      window.x = i % kWindow == 2 ? window.x >> counts[i] : gpu::funnel_shift_right(window.x, window.y, counts[i]);
      window.y >>= counts[i];
    }
  }

  gpu::Pointer<const Entry> table_;
  Bits bits_;
  uint32_t states_[kLanes];
  Entry ahead_[kBatch];
};

// Copies the table to shared memory and calls work(decoder, first row, end row) if the thread has a block.
template <int kLanes, bool kPairs, class Work>
ECMV_GPU_DEVICE void with_block(const TansStream& stream, const Work& work) {
  const gpu::Pointer<gpu::uint4> table = gpu::cast<gpu::uint4>(gpu::shared_memory());
  for (int i = gpu::thread_index(); i < stream.table_bytes / 16; i += gpu::block_size())
    table[i] = gpu::load_shared_by_many(stream.table + i);
  gpu::sync_block();
  const int64_t block = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (block >= stream.blocks) return;
  const int64_t row = block * stream.rows_per_block,
                end_row = row + stream.rows_per_block < stream.rows ? row + stream.rows_per_block : stream.rows;
  BlockDecoder<kLanes, kPairs> decoder(stream, static_cast<int64_t>(stream.offsets[block]));
  work(decoder, row, end_row);
  decoder.end();
}

// A lane's position in its rows.
struct RowWalk {
  gpu::Pointer<const int8_t> x;
  int cols;
  gpu::Epilogue epilogue;
  int64_t row, end_row;
  int column = 0;
  int32_t sum = 0;

  ECMV_GPU_DEVICE bool done() const { return row >= end_row; }
  ECMV_GPU_DEVICE void finish_row() {
    epilogue.store(row, sum);
    ++row;
    column = 0;
    sum = 0;
  }
  template <int kQuads>
  ECMV_GPU_DEVICE void take(const uint32_t (&quads)[kQuads]) {
    if (cols % 16 == 0 && column + 4 * kQuads <= cols) {
      const gpu::Pointer<const gpu::uint4> x16 = gpu::cast<const gpu::uint4>(x + column);
      ECMV_GPU_UNROLL
      for (int i = 0; i < kQuads / 4; ++i) {
        const gpu::uint4 factors = gpu::load_shared_by_many(x16 + i);
        sum = gpu::dot4(static_cast<int32_t>(quads[4 * i]), static_cast<int32_t>(factors.x), sum);
        sum = gpu::dot4(static_cast<int32_t>(quads[4 * i + 1]), static_cast<int32_t>(factors.y), sum);
        sum = gpu::dot4(static_cast<int32_t>(quads[4 * i + 2]), static_cast<int32_t>(factors.z), sum);
        sum = gpu::dot4(static_cast<int32_t>(quads[4 * i + 3]), static_cast<int32_t>(factors.w), sum);
      }
      column += 4 * kQuads;
      if (column == cols) finish_row();
      return;
    }
    ECMV_GPU_UNROLL
    for (int i = 0; i < 4 * kQuads; ++i)
      if (!done()) {
        sum += static_cast<int8_t>(quads[i / 4] >> (8 * (i % 4))) * gpu::load_shared_by_many(x + column);
        if (++column == cols) finish_row();
      }
  }
};

// Calls sink(elements, four a word) for round after round until it returns false.
template <int kRound = 0, class Decoder, class Sink>
ECMV_GPU_DEVICE bool decode_rounds(Decoder& decoder, const Sink& sink) {
  uint32_t quads[Decoder::kElements / 4];
  decoder.template decode_round<kRound>(quads);
  if (!sink(quads)) return false;
  if constexpr (kRound + 1 < Decoder::kRounds) return decode_rounds<kRound + 1>(decoder, sink);
  return true;
}

template <int kLanes, bool kPairs>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostWaves* gpu::kLargestWave,
                                kResidentWaves / kMostWaves) void matvec(TansStream stream,
                                                                         gpu::Pointer<const int8_t> x,
                                                                         gpu::Epilogue epilogue) {
  with_block<kLanes, kPairs>(stream, [&](auto& decoder, int64_t row, int64_t end_row) {
    RowWalk walk{x, stream.cols, epilogue, row, end_row};
    const auto sink = [&](const auto& quads) {
      walk.take(quads);
      return !walk.done();
    };
    while (decode_rounds(decoder, sink)) {
    }
  });
}

template <int kLanes, bool kPairs>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kMostWaves* gpu::kLargestWave,
                                kResidentWaves / kMostWaves) void decode(TansStream stream,
                                                                         gpu::Pointer<int8_t> decoded) {
  with_block<kLanes, kPairs>(stream, [&](auto& decoder, int64_t row, int64_t end_row) {
    constexpr int kElements = BlockDecoder<kLanes, kPairs>::kElements;
    const int64_t end = end_row * stream.cols;
    int64_t element = row * stream.cols;
    const auto sink = [&](const auto& quads) {
      if (element % 16 == 0 && element + kElements <= end) {
        const gpu::Pointer<gpu::uint4> to = gpu::cast<gpu::uint4>(decoded + element);
        ECMV_GPU_UNROLL
        for (int i = 0; i < kElements / 16; ++i)
          to[i] = gpu::uint4{quads[4 * i], quads[4 * i + 1], quads[4 * i + 2], quads[4 * i + 3]};
      } else {
        ECMV_GPU_UNROLL
        for (int i = 0; i < kElements; ++i)
          if (element + i < end) decoded[element + i] = static_cast<int8_t>(quads[i / 4] >> (8 * (i % 4)));
      }
      element += kElements;
      return element < end;
    };
    while (decode_rounds(decoder, sink)) {
    }
  });
}

// For matrices whose rows have no elements.
ECMV_GPU_KERNEL void store_zeros(int64_t rows, gpu::Epilogue epilogue) {
  const int64_t row = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (row < rows) epilogue.store(row, 0);
}

using modelling::ECMV_GPU_NAMESPACE::WavePolicy;
// On an H200, 2 waves are within 2 % of the best in all ten published settings; one wave is the best decode.
constexpr WavePolicy kWavePolicies[] = {{{"waves2"}, 2}, {{"waves1"}, 1}};

gpu::LaunchShape launch_shape(const Layout& layout, int wave_size, const backends::Policy& policy) {
  const int block = policy.as<WavePolicy>().waves * wave_size;
  const int64_t ring =
      layout.pairs ? BlockDecoder<1, true>::Bits::kRingBytesOfThread : BlockDecoder<1, false>::Bits::kRingBytesOfThread;
  return {(layout.blocks + block - 1) / block, block, (int64_t{sizeof(Entry)} << layout.table_bits) + block * ring};
}

// A bound matrix. Every enqueue builds its table in the scratch.
struct Bound {
  TansStream matrix;
  StoredModel model;
  bool even_spread;
  int wave_size;
  gpu::LaunchShape shape;
  void (*launch_build)(const StoredModel&, bool even, Entry* table, int wave_size, void* stream);

  TansStream build_table(void* stream, std::byte* scratch) const {
    launch_build(model, even_spread, reinterpret_cast<Entry*>(scratch), wave_size, stream);
    TansStream built = matrix;
    built.table = reinterpret_cast<const gpu::uint4*>(scratch);
    return built;
  }
};

struct Decode {
  Bound bound;
  void (*kernel)(TansStream, gpu::Pointer<int8_t>);
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    const TansStream built = bound.build_table(stream, args.scratch);
    gpu::launch(kernel, bound.shape, stream, built, reinterpret_cast<int8_t*>(args.out));
  }
  template <int kLanes, bool kPairs>
  void choose() {
    kernel = decode<kLanes, kPairs>;
  }
};

struct Multiply {
  Bound bound;
  void (*kernel)(TansStream, gpu::Pointer<const int8_t>, gpu::Epilogue);
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    const TansStream built = bound.build_table(stream, args.scratch);
    gpu::launch(kernel, bound.shape, stream, built, args.x, gpu::epilogue_of(args));
  }
  template <int kLanes, bool kPairs>
  void choose() {
    kernel = matvec<kLanes, kPairs>;
  }
};

// For matrices without elements.
struct DecodeNothing {
  void operator()(void*, const backends::DecodeArgs&) const {}
};
struct StoreZeros {
  int64_t rows;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch(store_zeros, {(rows + 255) / 256, 256, 0}, stream, rows, gpu::epilogue_of(args));
  }
};

template <bool kPairs, class Body>
void choose_symbols(int lanes, Body& body) {
  body.bound.launch_build = launch_build_table<kPairs>;
  switch (lanes) {
    case 1: return body.template choose<1, kPairs>();
    case 2: return body.template choose<2, kPairs>();
    case 4: return body.template choose<4, kPairs>();
    case 8: return body.template choose<8, kPairs>();
    case 16: return body.template choose<16, kPairs>();
    case 32: return body.template choose<32, kPairs>();
    case 64: return body.template choose<64, kPairs>();
  }
}

template <class Body>
Body body_of(const backends::CompressedView& matrix, const Layout& layout, const backends::DeviceInfo& device,
             const backends::Policy& policy) {
  const auto& sections = matrix.sections;
  Body body{};
  body.bound.matrix = {nullptr,
                       reinterpret_cast<const uint64_t*>(sections[kBlockOffsets].bytes.data()),
                       sections[kPayload].bytes.data(),
                       static_cast<int64_t>(sections[kPayload].bytes.size()),
                       layout.blocks,
                       matrix.shape.rows,
                       layout.rows_per_block,
                       static_cast<int>(matrix.shape.cols),
                       static_cast<int>(sizeof(Entry) << layout.table_bits)};
  body.bound.model = stored_model(matrix, layout);
  body.bound.even_spread = layout.even_spread;
  body.bound.wave_size = device.wave_size;
  body.bound.shape = launch_shape(layout, device.wave_size, policy);
  if (layout.pairs)
    choose_symbols<true>(layout.lanes, body);
  else
    choose_symbols<false>(layout.lanes, body);
  return body;
}

using backends::Layers;

backends::BoundKernel bind_decode(const backends::Policy& policy, Layers layers, int, backends::Place& place) {
  const backends::CompressedView& matrix = *layers[0].matrix;
  const Layout layout = layout_of(matrix.shape, *matrix.settings);
  if (layout.blocks == 0) return DecodeNothing{};
  return {body_of<Decode>(matrix, layout, place.device(), policy), {.scratch_bytes = kTableBytes}};
}
backends::BoundKernel bind_matvec(const backends::Policy& policy, Layers layers, int, backends::Place& place) {
  const backends::CompressedView& matrix = *layers[0].matrix;
  const Layout layout = layout_of(matrix.shape, *matrix.settings);
  if (layout.blocks == 0) return {StoreZeros{matrix.shape.rows}, {.requantises = true}};
  return {body_of<Multiply>(matrix, layout, place.device(), policy),
          {.scratch_bytes = kTableBytes, .requantises = true}};
}

std::string refuses(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                    const backends::Policy& policy) {
  const Layout layout = layout_of(matrix.shape, *matrix.settings);
  const std::string reason = modelling::ECMV_GPU_NAMESPACE::refuses_cols(matrix.shape);
  return reason.empty() ? modelling::ECMV_GPU_NAMESPACE::refuses_shared(
                              launch_shape(layout, device.wave_size, policy).shared_bytes, device)
                        : reason;
}

using backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "lane_per_block", .policies = kWavePolicies, .refuses = refuses, .bind = bind_decode},
    {.op = Op::matvec, .variant = "lane_per_block", .policies = kWavePolicies, .refuses = refuses, .bind = bind_matvec},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::tans::ECMV_GPU_NAMESPACE
