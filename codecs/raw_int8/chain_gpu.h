// All layers of a chain in one launch, with one thread block a multiprocessor. A wave owns a slice of the columns and
// works through rows of its block four at a time; its lanes keep their part of x in registers. Bulk copies bring the
// weights through a ring in shared memory for each wave. Feeders, further waves that do nothing else, start these
// copies, so that the next layer's weights are on their way while x travels between the blocks (exchange.h). The waves
// that multiply meet twice a layer: when x is there, and to add their sums.
//   step: 4 rows x kWide x 16 columns a lane.   quad: 4 rows, whose values are one word of the exchange.
// A feeder never has more than kFlight steps of a ring on their way, because copies that wait in front of the memory
// delay the words of the exchange (H200, d = 4096, us a layer: 4.6 with 48 KiB of copies a multiprocessor under way,
// 5.2 to 5.4 without a limit). Waves that request their own weights stand still while the queue is full: 5.2, with
// asynchronous copies as with loads to registers.
#pragma once

#include "backends/gpu/async_copy.h"
#include "backends/gpu/exchange.h"
#include "backends/gpu/products/dense_matvec.h"

namespace ecmv::codecs::raw_int8::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

inline constexpr int kQuad = 4, kChunk = 16;  // rows, columns
// Slices of columns begin at multiples of 128 bytes, the unit of memory reads.
inline constexpr int kChunksOfLine = 8;

// A kernel's description of a layer. cols is a multiple of kChunk, and so is rows except in the last layer.
struct alignas(8) ChainLayer {
  gpu::Pointer<const int8_t> w;
  gpu::Epilogue epilogue;
  int rows, chunks;
  int quads_each, longer_blocks;  // quads of every block; the first blocks have one more
};

ECMV_GPU_DEVICE int first_quad(const ChainLayer& layer, int block) {
  return block * layer.quads_each + (block < layer.longer_blocks ? block : layer.longer_blocks);
}
ECMV_GPU_DEVICE int quads_of_block(const ChainLayer& layer) {
  return layer.quads_each + (gpu::block_index() < layer.longer_blocks ? 1 : 0);
}

// The waves of a block: kSlices share the columns of a row, kParts have different quads. A wave's ring has room for
// kDepth steps.
template <int kSlicesOf, int kPartsOf, int kDepthOf, int kWideOf, int kFlightOf>
struct ChainForm {
  static constexpr int kSlices = kSlicesOf, kParts = kPartsOf, kDepth = kDepthOf, kWide = kWideOf, kFlight = kFlightOf,
                       kWaves = kSlices * kParts;
  // Waves whose lanes only request weights: lane l of feeder f serves wave f + kFeeders * l. A single feeder starts 512
  // bytes in 70 clocks, half of the memory's rate.
  static constexpr int kFeeders = 4;
  static_assert(kWaves % kFeeders == 0 && kFlight <= kDepth);
  static ECMV_GPU_DEVICE int threads() { return kWaves * gpu::Wave::size(); }
  static ECMV_GPU_DEVICE int row_bytes() { return step_chunks() * kChunk; }
  static ECMV_GPU_DEVICE int ring_bytes() { return kDepth * kQuad * row_bytes(); }
  // A wave's quads in a block that has `quads`.
  static ECMV_GPU_DEVICE int own_quads(int quads, int wave) { return (quads - wave / kSlices + kParts - 1) / kParts; }
  static ECMV_GPU_DEVICE int step_chunks() { return kWide * gpu::Wave::size(); }
};

// A wave's chunks of a layer: [first, first + count). The last slices of a narrow layer may be empty.
struct Slice {
  int first, count;
};
template <typename Form>
ECMV_GPU_DEVICE Slice slice_of(const ChainLayer& layer, int wave) {
  constexpr int kRound = Form::kSlices * kChunksOfLine;
  const int each = (layer.chunks + kRound - 1) / kRound * kChunksOfLine, first = wave % Form::kSlices * each,
            left = layer.chunks - first;
  return {first, left < 0 ? 0 : left < each ? left : each};
}

// State that a multiplying wave shares with the lane that feeds it: a ring of kDepth steps, an arrival for each, and
// how many steps have been used.
template <typename Form>
struct Ring {
  gpu::Pointer<std::byte> steps, arrivals;
  gpu::Pointer<uint32_t> used;

  ECMV_GPU_DEVICE gpu::Pointer<std::byte> row(int slot, int r) const {
    return steps + (slot * kQuad + r) * Form::row_bytes();
  }
  ECMV_GPU_DEVICE gpu::Arrival arrival(int slot) const { return gpu::Arrival(arrivals + slot * gpu::Arrival::kBytes); }
};

// One lane feeds one wave: the copies of the wave's steps over all layers, in order.
template <typename Form>
class Feeder {
 public:
  ECMV_GPU_DEVICE Feeder(const Ring<Form>& ring, gpu::Pointer<const ChainLayer> layers, int count, int wave)
      : ring_(ring), layers_(layers), count_(count), wave_(wave) {
    next_layer();
  }
  ECMV_GPU_DEVICE bool done() const { return layer_ >= count_; }

  // Starts the copies of one step, if there is room.
  ECMV_GPU_DEVICE bool feed() {
    constexpr auto kRoom = static_cast<uint32_t>(Form::kDepth);
    if (asked_ - used_ >= kRoom) {
      used_ = gpu::atomic_add(ring_.used, uint32_t{0});
      if (asked_ - used_ >= kRoom) return false;
    }
    // Step asked_ - kFlight must have arrived. It is phase (asked_ - kFlight) / kDepth of its slot.
    if (asked_ >= static_cast<uint32_t>(Form::kFlight)) {
      const uint32_t step = asked_ - static_cast<uint32_t>(Form::kFlight);
      if (!ring_.arrival(static_cast<int>(step % kRoom)).ended(static_cast<int>(step / kRoom % 2))) return false;
    }
    const int bytes = (chunks_left_ < Form::step_chunks() ? chunks_left_ : Form::step_chunks()) * kChunk;
    const gpu::Arrival arrival = ring_.arrival(slot_);
    arrival.expect(kQuad * bytes);
    // The last row stands in for rows past the end.
    for (int r = 0; r < kQuad; ++r) {
      const int64_t row = r < rows_left_ ? r : rows_left_ - 1;
      arrival.copy(ring_.row(slot_, r), gpu::cast<const std::byte>(at_ + row * cols_), bytes);
    }
    ++asked_;
    slot_ = slot_ + 1 < Form::kDepth ? slot_ + 1 : 0;
    at_ += bytes;
    chunks_left_ -= Form::step_chunks();
    if (chunks_left_ <= 0) next_quad();
    return true;
  }

 private:
  ECMV_GPU_DEVICE void next_quad() {
    if (--quads_left_ == 0) return next_layer();
    quad_ += kQuad * Form::kParts * static_cast<int64_t>(cols_);
    rows_left_ -= kQuad * Form::kParts;
    at_ = quad_;
    chunks_left_ = slice_.count;
  }
  ECMV_GPU_DEVICE void next_layer() {
    for (quads_left_ = 0; quads_left_ <= 0 && ++layer_ < count_;) {
      const ChainLayer layer = layers_[layer_];
      slice_ = slice_of<Form>(layer, wave_);
      quads_left_ = slice_.count == 0 ? 0 : Form::own_quads(quads_of_block(layer), wave_);
      cols_ = layer.chunks * kChunk;
      const int row = kQuad * (first_quad(layer, static_cast<int>(gpu::block_index())) + wave_ / Form::kSlices);
      at_ = quad_ = layer.w + (static_cast<int64_t>(row) * cols_ + slice_.first * kChunk);
      rows_left_ = layer.rows - row;
      chunks_left_ = slice_.count;
    }
  }

  Ring<Form> ring_;
  gpu::Pointer<const ChainLayer> layers_;
  int layer_ = -1, count_, wave_;
  uint32_t asked_ = 0, used_ = 0;  // steps, as far as known
  int slot_ = 0;
  // The next step: the first chunk of its quad's first row, of the whole quad and of this step.
  gpu::Pointer<const int8_t> quad_, at_;
  Slice slice_{};
  int cols_ = 0, rows_left_ = 0, quads_left_ = 0, chunks_left_ = 0;
};

// The wave's end of the ring.
template <typename Form>
class WeightStream {
 public:
  ECMV_GPU_DEVICE explicit WeightStream(const Ring<Form>& ring) : ring_(ring) {}
  // Waits for the weights of the next step and takes them out of the ring.
  ECMV_GPU_DEVICE void next(gpu::uint4 (&chunks)[Form::kWide][kQuad]) {
    ring_.arrival(slot_).wait(parity_);
    ECMV_GPU_UNROLL
    for (int w = 0; w < Form::kWide; ++w) {
      ECMV_GPU_UNROLL
      for (int r = 0; r < kQuad; ++r)
        chunks[w][r] = gpu::cast<const gpu::uint4>(ring_.row(slot_, r))[w * gpu::Wave::size() + gpu::Wave::lane()];
    }
    gpu::Wave::sync();
    if (gpu::Wave::lane() == 0) gpu::atomic_add(ring_.used, uint32_t{1});
    if (++slot_ < Form::kDepth) return;
    slot_ = 0;
    parity_ ^= 1;
  }

 private:
  Ring<Form> ring_;
  int slot_ = 0, parity_ = 0;
};

// Fills x in shared memory with a layer's input, 8 columns at a time. The first layer's input comes from memory, the
// others' as it arrives.
ECMV_GPU_DEVICE void read_input(gpu::Pointer<const int8_t> x, int pairs, gpu::Pointer<gpu::uint2> inputs, int threads) {
  for (int i = gpu::thread_index(); i < pairs; i += threads) inputs[i] = gpu::cast<const gpu::uint2>(x)[i];
}
ECMV_GPU_DEVICE void await_input(const gpu::Exchange& exchange, int layer, int pairs, gpu::Pointer<gpu::uint2> inputs,
                                 int threads) {
  // One lane polls until its words have arrived, before all lanes do: if all threads polled everything, the L2 could
  // not take in the words.
  const int first_of_wave = gpu::thread_index() - gpu::Wave::lane();
  if (gpu::Wave::lane() == 0 && first_of_wave < pairs) (void)exchange.get(layer, 2 * first_of_wave);
  gpu::Wave::sync();
  constexpr int kAtOnce = 4;
  for (int i = gpu::thread_index(); i < pairs; i += kAtOnce * threads) {
    const int left = (pairs - i + threads - 1) / threads, count = left < kAtOnce ? left : kAtOnce;
    gpu::uint2 values[kAtOnce];
    while (!exchange.try_pairs(layer, i, threads, count, values)) gpu::pause();
    ECMV_GPU_UNROLL
    for (int k = 0; k < kAtOnce; ++k)
      if (k < count) inputs[i + k * threads] = values[k];
  }
}

// Shared memory of a ring besides its steps.
template <typename Form>
inline constexpr int kRingStateBytes = (Form::kDepth + 1) * gpu::Arrival::kBytes;

// A quad's sums over the chunks of all lanes, the same in each lane.
template <typename Form, int kSteps>
ECMV_GPU_DEVICE gpu::uint4 multiply_quad(WeightStream<Form>& weights, const gpu::uint4 (&inputs)[kSteps][Form::kWide],
                                         int steps) {
  int32_t products[kQuad] = {};
  ECMV_GPU_UNROLL
  for (int s = 0; s < kSteps; ++s) {
    if (s >= steps) break;
    gpu::uint4 chunks[Form::kWide][kQuad];
    weights.next(chunks);
    ECMV_GPU_UNROLL
    for (int w = 0; w < Form::kWide; ++w) {
      ECMV_GPU_UNROLL
      for (int r = 0; r < kQuad; ++r) products[r] = gpu::dot(chunks[w][r], inputs[s][w], products[r]);
    }
  }
  gpu::uint4 totals;
  totals.x = static_cast<uint32_t>(gpu::Wave::reduce_add(products[0]));
  totals.y = static_cast<uint32_t>(gpu::Wave::reduce_add(products[1]));
  totals.z = static_cast<uint32_t>(gpu::Wave::reduce_add(products[2]));
  totals.w = static_cast<uint32_t>(gpu::Wave::reduce_add(products[3]));
  return totals;
}

// Adds the slices' sums of the block's rows, a thread a row, and stores y and v. If a layer follows, it first hands on
// the words of v: other blocks wait for these, and nobody waits for y and v.
template <typename Form>
ECMV_GPU_DEVICE void finish_rows(const ChainLayer& layer, int rows, gpu::Pointer<const int32_t> sums, int rows_of_block,
                                 bool hand_on, gpu::Exchange& exchange, int k) {
  using Row = gpu::Lanes<kQuad>;
  for (int i = gpu::thread_index(); i < rows; i += Form::threads()) {
    int32_t total = 0;
    ECMV_GPU_UNROLL
    for (int slice = 0; slice < Form::kSlices; ++slice) total += sums[slice * rows_of_block + i];
    const int quad = first_quad(layer, static_cast<int>(gpu::block_index())) + i / kQuad,
              row = kQuad * quad + Row::lane();
    uint32_t word =
        row < layer.rows
            ? static_cast<uint32_t>(static_cast<uint8_t>(gpu::requantise_on_device(total, layer.epilogue.scale)))
                  << (8 * Row::lane())
            : 0;
    word |= Row::shuffle_xor(word, 1);
    word |= Row::shuffle_xor(word, 2);
    if (Row::lane() == 0 && hand_on) exchange.put(k, quad, word);
    if (row < layer.rows) layer.epilogue.store(row, total);
  }
}

// kSteps is the most steps of a quad. After the rings, shared memory holds x (`input_bytes`), kSlices x rows_of_block
// sums, and the descriptions of all layers, unless layers_in_shared is 0.
template <typename Form, int kSteps>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS((Form::kWaves + Form::kFeeders) * gpu::kLargestWave,
                                1) void chain(gpu::Pointer<const ChainLayer> layers, int count, gpu::Exchange exchange,
                                              gpu::Pointer<const int8_t> x, int input_bytes, int rows_of_block,
                                              int layers_in_shared) {
  const gpu::Pointer<std::byte> inputs_place = gpu::shared_memory() + Form::kWaves * Form::ring_bytes();
  const gpu::Pointer<int32_t> sums = gpu::cast<int32_t>(inputs_place + input_bytes);
  const gpu::Pointer<std::byte> rings_place = gpu::cast<std::byte>(sums + Form::kSlices * rows_of_block);
  // Descriptions in device memory would come too late: nvcc does not keep a load in flight beyond a few instructions.
  if (layers_in_shared > 0) {
    const gpu::Pointer<uint64_t> near = gpu::cast<uint64_t>(rings_place + Form::kWaves * kRingStateBytes<Form>);
    for (int i = gpu::thread_index(); i < count * static_cast<int>(sizeof(ChainLayer) / 8); i += gpu::block_size())
      near[i] = gpu::cast<const uint64_t>(layers)[i];
    layers = gpu::cast<const ChainLayer>(near);
  }
  const bool feeds = gpu::Wave::group() >= Form::kWaves;
  const int wave = feeds ? gpu::Wave::group() - Form::kWaves + Form::kFeeders * gpu::Wave::lane() : gpu::Wave::group();
  const bool exists = wave < Form::kWaves;
  const gpu::Pointer<std::byte> state = rings_place + (exists ? wave : 0) * kRingStateBytes<Form>;
  const Ring<Form> ring{gpu::shared_memory() + (exists ? wave : 0) * Form::ring_bytes(), state,
                        gpu::cast<uint32_t>(state + Form::kDepth * gpu::Arrival::kBytes)};
  if (feeds && exists) {
    for (int slot = 0; slot < Form::kDepth; ++slot) ring.arrival(slot).init();
    *ring.used = 0;
  }
  gpu::sync_block();
  if (feeds) {
    Feeder<Form> feeder(ring, layers, exists ? count : 0, wave);
    while (gpu::Wave::any(!feeder.done()))
      if (feeder.done() || !feeder.feed()) gpu::pause();
    return;
  }

  const int threads = Form::threads();
  WeightStream<Form> weights(ring);
  exchange.begin();
  for (int k = 0; k < count; ++k) {
    const ChainLayer layer = layers[k];
    const int quads = quads_of_block(layer);
    if (quads == 0) continue;
    const Slice slice = slice_of<Form>(layer, wave);
    const int steps = (slice.count + Form::step_chunks() - 1) / Form::step_chunks();
    // After this barrier the sums of the layer before have been read.
    if (k == 0)
      read_input(x, 2 * layer.chunks, gpu::cast<gpu::uint2>(inputs_place), threads);
    else
      await_input(exchange, k - 1, 2 * layer.chunks, gpu::cast<gpu::uint2>(inputs_place), threads);
    gpu::sync_first_threads(threads);
    gpu::uint4 inputs[kSteps][Form::kWide];
    ECMV_GPU_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      ECMV_GPU_UNROLL
      for (int w = 0; w < Form::kWide; ++w) {
        const int chunk = (s * Form::kWide + w) * gpu::Wave::size() + gpu::Wave::lane();
        inputs[s][w] =
            chunk < slice.count ? gpu::cast<const gpu::uint4>(inputs_place)[slice.first + chunk] : gpu::uint4{};
      }
    }

    for (int quad = wave / Form::kSlices; quad < quads; quad += Form::kParts) {
      const gpu::uint4 totals = multiply_quad<Form, kSteps>(weights, inputs, steps);
      if (gpu::Wave::lane() == 0)
        *gpu::cast<gpu::uint4>(sums + (wave % Form::kSlices * rows_of_block + kQuad * quad)) = totals;
    }
    gpu::sync_first_threads(threads);
    finish_rows<Form>(layer, kQuad * quads, sums, rows_of_block, k + 1 < count, exchange, k);
  }
  gpu::sync_first_threads(threads);
  if (gpu::thread_index() == 0) exchange.end(count);
}

}  // namespace ecmv::codecs::raw_int8::ECMV_GPU_NAMESPACE
