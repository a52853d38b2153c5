// The layout `single_level` on a GPU. A lane follows one stream, and the S lanes of a group the S streams of a block of
// rows, so a group's look-ups are for neighbouring columns; two look-ups share a window of 32 bits. Table entries and
// planes of raw bits are merged for four columns at once, and one instruction multiplies these; x lies in shared memory
// in the order of the look-ups. A kernel before the product lays out the table in scratch. Assumes a verified stream.
#pragma once

#include "backends/gpu/lanes.h"
#include "backends/gpu/products/requantise.h"
#include "codecs/huffman_lut/gpu/single_level_streams.h"

namespace ecmv::codecs::huffman_lut::ECMV_GPU_NAMESPACE::tuples {

// Fills the matrix's scratch, table and last_piece, an element a thread.
template <int kTuple>
ECMV_GPU_KERNEL void lay_out(Matrix matrix, gpu::Pointer<uint32_t> table, gpu::Pointer<uint8_t> last_piece) {
  int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (i < int64_t{1} << matrix.table_bits) {
    const gpu::Pointer<const uint16_t> codes_of_length = gpu::cast<const uint16_t>(matrix.code + 8);
    gpu::Pointer<const uint16_t> order = gpu::cast<const uint16_t>(matrix.code + sizeof(CodeHeader));
    uint32_t window = static_cast<uint32_t>(i), prefix = 0, first = 0, length = 0;
    for (;; ++length) {
      const uint32_t codes = codes_of_length[length];
      if (prefix - first < codes || static_cast<int>(length) == matrix.table_bits) break;
      order += codes;
      first = (first + codes) << 1;
      prefix = prefix << 1 | (window & 1);
      window >>= 1;
    }
    const uint32_t tuple = order[prefix - first];
    table[i] =
        length << kLengthShift |
        (kTuple == 2 ? tuple : (tuple & 15) | (tuple >> 8 & 15) << 8 | (tuple >> 4 & 15) << 16 | (tuple >> 12) << 24);
    return;
  }
  i -= int64_t{1} << matrix.table_bits;
  if (i >= kPieceBytes) return;
  const int64_t at = matrix.stream_bytes / kPieceBytes * kPieceBytes + i;
  last_piece[i] = at < matrix.stream_bytes ? matrix.streams[at] : uint8_t{0};
}

// Shared memory holds, in this order: table, rings of streams, one sum, rings of raw bits, and for products x by quads.
ECMV_GPU_BOTH int sum_offset(int table_bits, int threads) {
  return (4 << table_bits) + kPieceBytes * kRingPieces * threads;
}
ECMV_GPU_BOTH int raw_offset(int table_bits, int threads) { return sum_offset(table_bits, threads) + 16; }
template <typename Form>
ECMV_GPU_BOTH int x_offset(int table_bits, int threads) {
  return raw_offset(table_bits, threads) + threads / Form::kStreams * Form::kRawRingBytes;
}

// Lays out x in shared memory: word q has the columns c, c + 1, c + 32, c + 33 of quad q of the full tiles. Returns
// this thread's part of its sum.
ECMV_GPU_DEVICE int32_t load_x(const Matrix& matrix, gpu::Pointer<const int8_t> x, gpu::Pointer<uint32_t> to) {
  int32_t sum = 0;
  for (int i = gpu::thread_index(); i < matrix.cols / kTileCols * kQuadsOfTile; i += gpu::block_size()) {
    const gpu::Pointer<const uint16_t> from = gpu::cast<const uint16_t>(x + (i / 16 * 64 + i % 16 * 2));
    const uint32_t quad = gpu::load_shared_by_many(from) | static_cast<uint32_t>(gpu::load_shared_by_many(from + 16))
                                                               << 16;
    to[i] = quad;
    sum = gpu::dot4(0x01010101, static_cast<int32_t>(quad), sum);
  }
  return sum;
}

// Copies the table. All threads of the block take part and wait.
ECMV_GPU_DEVICE void load_table(const Matrix& matrix) {
  const gpu::Pointer<const gpu::uint4> from = gpu::cast<const gpu::uint4>(matrix.table);
  const gpu::Pointer<gpu::uint4> to = gpu::cast<gpu::uint4>(gpu::shared_memory());
  for (int i = gpu::thread_index(); i < 1 << matrix.table_bits >> 2; i += gpu::block_size()) to[i] = from[i];
  gpu::sync_block();
}

// Threads of a block. A lane of four streams works on four times as much at once as a lane of sixteen and needs twice
// the registers. 64 are enough for the others on NVIDIA devices, and with 40 they spill. Waves of 64 lanes never had
// the shared memory for blocks of 1024.
constexpr int most_threads(int streams) { return (gpu::kLargestWave == 32 ? 1024 : 512) / (streams == 4 ? 2 : 1); }

// The constants of one kernel.
template <int kTupleOf, int kRawOf, int kStreamsOf>
struct Form {
  static constexpr int kTuple = kTupleOf, kRaw = kRawOf, kStreams = kStreamsOf;
  static constexpr int kUnitsOfTile = kTileCols / kTuple / kStreams;                     // of a lane
  static constexpr int kRawRingBytes = kRaw == 0 ? 0 : RawRing<kRaw, kStreams>::kBytes;  // of a group
  // Whether an offset from the lowest element stays below 128 (kSmall) or below 256 (kPlain). Otherwise it may overflow
  // a byte, and only the sum with the lowest element is right, modulo 256.
  static constexpr bool kSmall = kTuple == 4 && kRaw <= 3;
  static constexpr bool kPlain = kTuple == 4 ? kRaw <= 4 : kRaw == 0;
  static constexpr int kMostThreads = most_threads(kStreams);
  using LaneGroup = gpu::Lanes<kStreams>;
};

// Calls quad(number of the quad in the row, its four offsets from the lowest element) for the full tiles of a row, and
// last(column, offset) for the columns after them. The row's raw bits begin at `raw`, the block's rings for them at
// `rings`.
template <typename Form, typename Quad, typename Last>
ECMV_GPU_DEVICE void for_each_quad(const Matrix& matrix, Bits& bits, gpu::Pointer<std::byte> rings,
                                   gpu::Pointer<const uint8_t> raw, const Quad& quad, const Last& last) {
  constexpr int kTuple = Form::kTuple, kRaw = Form::kRaw, kStreams = Form::kStreams, kBases = 16 / kStreams;
  constexpr int64_t kTileRawBytes = kTileCols / 8 * kRaw;
  const int lane = Form::LaneGroup::lane(), tiles = matrix.cols / kTileCols;
  const bool aligned = matrix.row_bytes % 16 == 0;
  RawBits<kRaw, kStreams> raw_bits;
  RawRing<kRaw, kStreams> ring(rings);
  if constexpr (kRaw > 0) {
    Form::LaneGroup::sync();  // the row before is done with the ring
    for (int tile = 0; tile < 2; ++tile) {
      if (tile < tiles) ring.copy(raw, tile, aligned);
      gpu::commit_copies();
    }
  }
  for (int tile = 0; tile < tiles; ++tile) {
    if (kRaw > 0 && tile + 2 < tiles) ring.copy(raw, tile + 2, aligned);
    bits.ensure();
    if constexpr (kRaw > 0) {
      // All groups of copies but the last two have arrived, this tile's planes among them. The slot that the next copy
      // overwrites was last read before the sync of the tile before this one.
      Form::LaneGroup::sync();
      raw_bits.load(ring, tile);
    }
    ECMV_GPU_UNROLL
    for (int quarter = 0; quarter < 4; ++quarter) {
      uint32_t high[kBases];
      if (quarter > 0 && quarter * (Form::kUnitsOfTile / 4) % kEnsuredUnits == 0) bits.ensure();
      if constexpr (kTuple == 4) {
        ECMV_GPU_UNROLL
        for (int s = 0; s < kBases; ++s) high[s] = bits.take(quarter * kBases + s);
      } else {
        ECMV_GPU_UNROLL
        for (int s = 0; s < kBases; ++s) high[s] = bits.take(s);
        ECMV_GPU_UNROLL
        for (int s = 0; s < kBases; ++s) high[s] = gpu::byte_permute(high[s], bits.take(kBases + s), 0x5410);
      }
      ECMV_GPU_UNROLL
      for (int s = 0; s < kBases; ++s) {
        constexpr uint32_t kHighMask = 0x01010101u * ((kTuple == 4 ? 0x0Fu : 0xFFu) << kRaw & 0xFFu);
        quad(tile * kQuadsOfTile + quarter * 16 + s * kStreams + lane,
             (high[s] << kRaw & kHighMask) | raw_bits.at(quarter, s));
      }
    }
  }
  const int left = matrix.cols % kTileCols, first = tiles * kTileCols;
  if (left == 0) return;
  const int stored_raw_bits = static_cast<int>(gpu::cast<const uint32_t>(matrix.code)[1]);
  const int units = kTuple == 2 ? (left + 1) / 2 : left / 64 * 16 + (left % 64 < 32 ? (left % 64 + 1) / 2 : 16);
  for (int unit = lane, number = 0; unit < units; unit += kStreams, ++number) {
    if (number % kEnsuredUnits == 0) bits.ensure();
    const uint32_t entry = bits.take(0);
    const int column = kTuple == 2 ? 2 * unit : unit / 16 * 64 + unit % 16 * 2;
    for (int i = 0; i < kTuple; ++i) {
      const int at = column + (i & 1) + (i >> 1) * 32;
      if (at >= left) continue;
      const uint32_t high = entry >> (8 * i) & (kTuple == 4 ? 0x0Fu : 0xFFu);
      last(first + at, high << stored_raw_bits | raw_of_column(raw + tiles * kTileRawBytes, left, at, stored_raw_bits));
    }
  }
}

ECMV_GPU_DEVICE int lowest_of(const Matrix& matrix) { return gpu::cast<const int32_t>(matrix.code)[0]; }
ECMV_GPU_DEVICE uint32_t in_each_byte(int value) { return 0x01010101u * static_cast<uint8_t>(value); }

template <typename Form>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(Form::kMostThreads, 1) void matvec(Matrix matrix, gpu::Pointer<const int8_t> x,
                                                                   gpu::Epilogue epilogue) {
  using LaneGroup = typename Form::LaneGroup;
  const int lowest = lowest_of(matrix);
  // Products of offsets lack lowest * (sum of x), which this is.
  const gpu::Pointer<int32_t> bias =
      gpu::cast<int32_t>(gpu::shared_memory() + sum_offset(matrix.table_bits, gpu::block_size()));
  const gpu::Pointer<uint32_t> x_quads =
      gpu::cast<uint32_t>(gpu::shared_memory() + x_offset<Form>(matrix.table_bits, gpu::block_size()));
  if (gpu::thread_index() == 0) *bias = 0;
  const int32_t sum_of_x = gpu::Wave::reduce_add(load_x(matrix, x, x_quads));
  load_table(matrix);
  if (Form::kPlain && gpu::Wave::lane() == 0) gpu::atomic_add(bias, sum_of_x * lowest);
  gpu::sync_block();

  const int64_t index = gpu::block_index() * (gpu::block_size() / LaneGroup::size()) + LaneGroup::group();
  if (index >= matrix.block_count) return;
  const Block<LaneGroup> block(matrix, index);
  Bits bits(matrix, block.stream_begin(), block.stream_bytes());
  typename Patches<LaneGroup>::Cursor cursor;
  for (int i = 0; i < block.rows; ++i) {
    const int64_t row = block.first_row + i;
    int32_t sum = 0;
    for_each_quad<Form>(
        matrix, bits, gpu::shared_memory() + raw_offset(matrix.table_bits, gpu::block_size()),
        matrix.raw_bits + row * matrix.row_bytes,
        [&](int quad, uint32_t offsets) {
          const int32_t inputs = static_cast<int32_t>(x_quads[quad]);
          if constexpr (Form::kSmall)
            sum = gpu::dot4(static_cast<int32_t>(offsets), inputs, sum);
          else if constexpr (Form::kPlain)
            sum = gpu::dot4_unsigned_signed(offsets, inputs, sum);
          else
            sum = gpu::dot4(static_cast<int32_t>(gpu::add_bytes(offsets, in_each_byte(lowest))), inputs, sum);
        },
        [&](int column, uint32_t offset) {
          sum += static_cast<int8_t>(offset + static_cast<uint32_t>(lowest)) * x[column];
        });
    const Patches<LaneGroup> patches(matrix, block);
    const int first = i * matrix.cols;
    patches.for_each(cursor, first + matrix.cols, [&](int position, int patch) {
      if (position >= first && position < first + matrix.cols) sum += patches.addend(patch) * x[position - first];
    });
    const int32_t total = LaneGroup::reduce_add(sum);
    if (LaneGroup::lane() == 0) epilogue.store(row, total + *bias);
  }
}

template <typename Form>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(Form::kMostThreads, 1) void decode(Matrix matrix, gpu::Pointer<int8_t> decoded) {
  using LaneGroup = typename Form::LaneGroup;
  load_table(matrix);
  const int64_t index = gpu::block_index() * (gpu::block_size() / LaneGroup::size()) + LaneGroup::group();
  if (index >= matrix.block_count) return;
  const Block<LaneGroup> block(matrix, index);
  Bits bits(matrix, block.stream_begin(), block.stream_bytes());
  const uint32_t lowest = static_cast<uint32_t>(lowest_of(matrix));
  const bool even = matrix.cols % 2 == 0;
  for (int i = 0; i < block.rows; ++i) {
    const int64_t row = block.first_row + i;
    const gpu::Pointer<int8_t> out = decoded + row * matrix.cols;
    for_each_quad<Form>(
        matrix, bits, gpu::shared_memory() + raw_offset(matrix.table_bits, gpu::block_size()),
        matrix.raw_bits + row * matrix.row_bytes,
        [&](int quad, uint32_t offsets) {
          const uint32_t elements = gpu::add_bytes(offsets, in_each_byte(static_cast<int>(lowest)));
          const gpu::Pointer<int8_t> at = out + (quad / 16 * 64 + quad % 16 * 2);
          if (even) {
            *gpu::cast<uint16_t>(at) = static_cast<uint16_t>(elements);
            *gpu::cast<uint16_t>(at + 32) = static_cast<uint16_t>(elements >> 16);
          } else {
            at[0] = static_cast<int8_t>(elements);
            at[1] = static_cast<int8_t>(elements >> 8);
            at[32] = static_cast<int8_t>(elements >> 16);
            at[33] = static_cast<int8_t>(elements >> 24);
          }
        },
        [&](int column, uint32_t offset) { out[column] = static_cast<int8_t>(offset + lowest); });
  }
  LaneGroup::sync();
  // The lane with the first patch of an element adds all of them.
  const gpu::Pointer<int8_t> out = decoded + block.first_row * matrix.cols;
  const Patches<LaneGroup> patches(matrix, block);
  typename Patches<LaneGroup>::Cursor cursor;
  patches.for_each(cursor, INT32_MAX, [&](int position, int patch) {
    if (patches.leads(patch)) out[position] = static_cast<int8_t>(out[position] + patches.total_addend(patch));
  });
}

static ECMV_GPU_KERNEL void store_zeros(gpu::Epilogue epilogue, int64_t rows) {
  const int64_t row = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (row < rows) epilogue.store(row, 0);
}

}  // namespace ecmv::codecs::huffman_lut::ECMV_GPU_NAMESPACE::tuples
