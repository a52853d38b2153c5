// All layers of a chain in one launch of one thread block a multiprocessor. A wave owns a slice of the columns and works through the rows of its
// block four at a time: its lanes keep their part of x in registers and their next kDepth steps of weights in a ring in shared memory, so
// that the weights of the next layer are on their way while x travels between the blocks (exchange.h). A lane reads back nothing but
// what it has copied itself; waves of a block meet once a layer, to add their sums.
//   step: 4 rows x 16 columns a lane.   quad: 4 rows, whose values are one word of the exchange.
#pragma once

#include "backends/gpu/async_copy.h"
#include "backends/gpu/dense_matvec.h"
#include "backends/gpu/exchange.h"

namespace ecmv::codecs::raw_int8::ECMV_GPU_NAMESPACE {

namespace gpu = backends::gpu;

inline constexpr int kQuad = 4, kChunk = 16;  // rows, columns
// Slices of columns begin at multiples of 128 bytes, what memory is read by.
inline constexpr int kChunksOfLine = 8;

// What a kernel knows about a layer. cols is a multiple of kChunk, and so is rows except in the last layer.
struct ChainLayer {
  gpu::Pointer<const int8_t> w;
  gpu::Epilogue epilogue;
  int rows, chunks;
  int quads_each, longer_blocks;  // quads of every block; the first blocks have one more
};

ECMV_GPU_DEVICE int first_quad(const ChainLayer& layer, int block) { return block * layer.quads_each + (block < layer.longer_blocks ? block : layer.longer_blocks); }
ECMV_GPU_DEVICE int quads_of_block(const ChainLayer& layer) { return layer.quads_each + (gpu::block_index() < layer.longer_blocks ? 1 : 0); }

// A wave's chunks of a layer: [first, first + count). The last slices of a narrow layer may be empty.
struct Slice {
  int first, count;
};
template <int kWaves>
ECMV_GPU_DEVICE Slice slice_of(const ChainLayer& layer) {
  constexpr int kRound = kWaves * kChunksOfLine;
  const int each = (layer.chunks + kRound - 1) / kRound * kChunksOfLine, first = gpu::Wave::group() * each, left = layer.chunks - first;
  return {first, left < 0 ? 0 : left < each ? left : each};
}

// The steps of a lane over all layers of its block, in order, and the copies of their weights to its ring.
template <int kWaves, int kDepth>
class WeightStream {
 public:
  static constexpr int kLaneBytes = static_cast<int>(sizeof(gpu::uint4));
  static ECMV_GPU_DEVICE int step_bytes() { return kQuad * gpu::Wave::size() * kLaneBytes; }

  ECMV_GPU_DEVICE WeightStream(gpu::Pointer<const ChainLayer> layers, int count)
      : layers_(layers), layer_(-1), count_(count), ring_(gpu::shared_memory() + (gpu::Wave::group() * kDepth * step_bytes() + gpu::Wave::lane() * kLaneBytes)), ahead_(layers[0]) {
    next_layer();
    ECMV_GPU_UNROLL
    for (int i = 0; i < kDepth; ++i) fetch();
    slot_ = 0;
  }

  // Waits for the weights of the next step, and calls use(its four chunks, one a row); then their place gets the weights of a later step.
  template <typename Use>
  ECMV_GPU_DEVICE void next(Use use) {
    gpu::wait_copies<kDepth - 1>();
    gpu::uint4 chunks[kQuad];
    ECMV_GPU_UNROLL
    for (int r = 0; r < kQuad; ++r) chunks[r] = *gpu::cast<const gpu::uint4>(place(r));
    use(chunks);
    fetch();
  }

 private:
  ECMV_GPU_DEVICE gpu::Pointer<std::byte> place(int row) const { return ring_ + (slot_ * step_bytes() + row * gpu::Wave::size() * kLaneBytes); }

  // Starts the copies of one step, or of none behind the last one; they are one group either way. Rows behind the last one are that again.
  ECMV_GPU_DEVICE void fetch() {
    if (layer_ < count_) {
      if (lane_chunks_ > 0) {
        ECMV_GPU_UNROLL
        for (int r = 0; r < kQuad; ++r) {
          const int64_t row = r < rows_left_ ? r : rows_left_ - 1;
          gpu::copy_async<kLaneBytes>(place(r), gpu::cast<const std::byte>(quad_ + (row * cols_ + column_)));
        }
      }
      column_ += gpu::Wave::size() * kChunk;
      lane_chunks_ -= gpu::Wave::size();
      if (--steps_left_ == 0) next_quad();
    }
    gpu::commit_copies();
    slot_ = slot_ + 1 < kDepth ? slot_ + 1 : 0;
  }

  ECMV_GPU_DEVICE void begin_quad() {
    column_ = (slice_.first + gpu::Wave::lane()) * kChunk;
    lane_chunks_ = slice_.count - gpu::Wave::lane();
    steps_left_ = (slice_.count + gpu::Wave::size() - 1) / gpu::Wave::size();
  }
  ECMV_GPU_DEVICE void next_quad() {
    if (--quads_left_ == 0) return next_layer();
    quad_ += kQuad * static_cast<int64_t>(cols_);
    rows_left_ -= kQuad;
    begin_quad();
  }
  // The description of the layer behind is loaded now, so that nobody waits for it.
  ECMV_GPU_DEVICE void next_layer() {
    for (quads_left_ = 0; quads_left_ == 0 && ++layer_ < count_;) {
      const ChainLayer layer = ahead_;
      if (layer_ + 1 < count_) ahead_ = layers_[layer_ + 1];
      slice_ = slice_of<kWaves>(layer);
      quads_left_ = slice_.count == 0 ? 0 : quads_of_block(layer);
      cols_ = layer.chunks * kChunk;
      const int row = kQuad * first_quad(layer, static_cast<int>(gpu::block_index()));
      quad_ = layer.w + static_cast<int64_t>(row) * cols_;
      rows_left_ = layer.rows - row;
    }
    begin_quad();
  }

  gpu::Pointer<const ChainLayer> layers_;
  int layer_, count_;
  gpu::Pointer<std::byte> ring_;
  ChainLayer ahead_;
  int slot_ = 0;
  // Of the next step to fetch.
  gpu::Pointer<const int8_t> quad_;  // the first element of its first row
  Slice slice_{};
  int cols_ = 0, column_ = 0;
  int rows_left_ = 0, quads_left_ = 0, steps_left_ = 0, lane_chunks_ = 0;
};

// Where a quad's word of the exchange is: lanes take two words at once, those of neighbouring lanes side by side, so a chunk's four words are
// in two planes of `chunks` pairs.
ECMV_GPU_DEVICE int64_t word_position(int quad, int chunks) {
  const int chunk = quad / 4, word = quad % 4;
  return (static_cast<int64_t>(word / 2) * chunks + chunk) * 2 + word % 2;
}

// This lane's chunks of x, zeros where it has none.
template <int kSteps>
ECMV_GPU_DEVICE void read_input(const Slice& slice, gpu::Pointer<const int8_t> x, gpu::uint4 (&inputs)[kSteps]) {
  const gpu::Pointer<const gpu::uint4> chunks = gpu::cast<const gpu::uint4>(x) + (slice.first + gpu::Wave::lane());
  ECMV_GPU_UNROLL
  for (int s = 0; s < kSteps; ++s) inputs[s] = s * gpu::Wave::size() + gpu::Wave::lane() < slice.count ? chunks[s * gpu::Wave::size()] : gpu::uint4{};
}
// The same of the vector that layer `layer` hands on, as soon as it is there.
template <int kSteps>
ECMV_GPU_DEVICE void await_input(const Slice& slice, const gpu::Exchange& exchange, int layer, int chunks, gpu::uint4 (&inputs)[kSteps]) {
  const int first = slice.first + gpu::Wave::lane(), left = slice.count - gpu::Wave::lane();
  const int count = left <= 0 ? 0 : (left + gpu::Wave::size() - 1) / gpu::Wave::size();
  ECMV_GPU_UNROLL
  for (int s = 0; s < kSteps; ++s) inputs[s] = gpu::uint4{};
  if (count == 0) return;
  gpu::uint2 low[kSteps], high[kSteps];
  for (;;) {
    const bool low_there = exchange.try_pairs(layer, first, gpu::Wave::size(), count, low);
    const bool high_there = exchange.try_pairs(layer, chunks + first, gpu::Wave::size(), count, high);
    if (low_there && high_there) break;
    gpu::pause();
  }
  ECMV_GPU_UNROLL
  for (int s = 0; s < kSteps; ++s)
    if (s < count) inputs[s] = gpu::uint4{low[s].x, low[s].y, high[s].x, high[s].y};
}

// kSteps: steps of a quad at most. Behind the rings in shared memory: two buffers, by turns, of kWaves x rows_of_block sums.
template <int kWaves, int kDepth, int kSteps>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kWaves * gpu::kLargestWave, 1) void chain(gpu::Pointer<const ChainLayer> layers, int count, gpu::Exchange exchange, gpu::Pointer<const int8_t> x,
                                                                         int rows_of_block) {
  using Stream = WeightStream<kWaves, kDepth>;
  const gpu::Pointer<int32_t> all_sums = gpu::cast<int32_t>(gpu::shared_memory() + kWaves * kDepth * Stream::step_bytes());
  Stream weights(layers, count);
  exchange.begin();
  ChainLayer ahead = layers[0];
  for (int k = 0; k < count; ++k) {
    const ChainLayer layer = ahead;
    if (k + 1 < count) ahead = layers[k + 1];
    const int quads = quads_of_block(layer);
    if (quads == 0) continue;
    const Slice slice = slice_of<kWaves>(layer);
    const int steps = (slice.count + gpu::Wave::size() - 1) / gpu::Wave::size();
    gpu::uint4 inputs[kSteps];
    if (k == 0)
      read_input(slice, x, inputs);
    else
      await_input(slice, exchange, k - 1, layer.chunks, inputs);

    // Who adds the sums of layer k - 2 up has done so before the barrier of layer k - 1.
    const gpu::Pointer<int32_t> sums = all_sums + k % 2 * kWaves * rows_of_block;
    for (int quad = 0; quad < quads; ++quad) {
      int32_t products[kQuad] = {};
      ECMV_GPU_UNROLL
      for (int s = 0; s < kSteps; ++s) {
        if (s >= steps) break;
        weights.next([&](const gpu::uint4 (&chunks)[kQuad]) {
          ECMV_GPU_UNROLL
          for (int r = 0; r < kQuad; ++r) products[r] = gpu::dot(chunks[r], inputs[s], products[r]);
        });
      }
      gpu::uint4 totals;
      totals.x = static_cast<uint32_t>(gpu::Wave::reduce_add(products[0]));
      totals.y = static_cast<uint32_t>(gpu::Wave::reduce_add(products[1]));
      totals.z = static_cast<uint32_t>(gpu::Wave::reduce_add(products[2]));
      totals.w = static_cast<uint32_t>(gpu::Wave::reduce_add(products[3]));
      if (gpu::Wave::lane() == 0) *gpu::cast<gpu::uint4>(sums + (gpu::Wave::group() * rows_of_block + kQuad * quad)) = totals;
    }
    gpu::sync_block();
    // A thread has a row. Others wait for the word, nobody for y and v.
    using Row = gpu::Lanes<kQuad>;
    for (int i = gpu::thread_index(); i < kQuad * quads; i += gpu::block_size()) {
      int32_t total = 0;
      ECMV_GPU_UNROLL
      for (int wave = 0; wave < kWaves; ++wave) total += sums[wave * rows_of_block + i];
      const int quad = first_quad(layer, static_cast<int>(gpu::block_index())) + i / kQuad, row = kQuad * quad + Row::lane();
      uint32_t word = row < layer.rows ? static_cast<uint32_t>(static_cast<uint8_t>(gpu::requantise_on_device(total, layer.epilogue.scale))) << (8 * Row::lane()) : 0;
      word |= Row::shuffle_xor(word, 1);
      word |= Row::shuffle_xor(word, 2);
      if (Row::lane() == 0 && k + 1 < count) exchange.put(k, word_position(quad, ahead.chunks), word);
      if (row < layer.rows) layer.epilogue.store(row, total);
    }
  }
  gpu::sync_block();
  if (gpu::thread_index() == 0) exchange.end(count);
}

}  // namespace ecmv::codecs::raw_int8::ECMV_GPU_NAMESPACE
