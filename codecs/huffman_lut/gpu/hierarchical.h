// The layout `hierarchical` on a GPU. As in DFloat11, a thread owns 8 coded bytes and enters them at its gap, and a
// block of 512 threads begins at a stored position. `two_phase` is the article's kernel: count codes, add up the counts
// over the block, decode again into shared memory, copy out. `fused` decodes once: a thread keeps its elements in a
// column of shared memory until it knows the counts before it, then multiplies them. Atomics add up rows in y, and a
// last kernel requantises. Look-ups go through the article's tables (joined with the code lengths), or through a table
// of 2^11 entries with up to two codes each. Source: DFloat11 (Zhang et al., arXiv 2504.11651). Assumes a verified
// stream.
#pragma once

#include "backends/gpu/lanes.h"
#include "backends/gpu/products/requantise.h"
#include "codecs/huffman_lut/format.h"

namespace ecmv::codecs::huffman_lut::ECMV_GPU_NAMESPACE::gaps {

namespace gpu = backends::gpu;
using hierarchical::kBlockThreads, hierarchical::kGapBits, hierarchical::kMaxSymbols, hierarchical::kThreadBytes;

inline constexpr int kPairBits = 11, kPairEntries = 1 << kPairBits;
inline constexpr int kThreadBits = 8 * kThreadBytes;
inline constexpr int kMostElements = kThreadBits;  // of a thread: codes of one bit
inline constexpr int kColumnWords = kMostElements / 4;
inline constexpr int kGroupLanes = 32, kLaneGroups = kBlockThreads / kGroupLanes;
using LaneGroup = gpu::Lanes<kGroupLanes>;

struct Stream {
  gpu::Pointer<const uint8_t> luts, encoded, gaps, offset;
  gpu::Pointer<const uint32_t> positions;
  gpu::Pointer<const uint16_t>
      entries;  // [tables, 256]: length in bits 0..7 (0: leads to a table), element or pointer above
  gpu::Pointer<const uint32_t> pairs;        // [2^11], see pair_entry()
  gpu::Pointer<const uint32_t> last_thread;  // the last thread's 8 bytes and 8 more, zeros past the stream
  int64_t threads, blocks, encoded_bytes;
  int tables;
};

// The next 32 bits of a thread's 96.
struct Window {
  uint32_t now, then, last;

  ECMV_GPU_DEVICE void skip(uint32_t bits) {  // 1..32
    now = gpu::funnel_shift_right(then, now, 32 - bits);
    then = gpu::funnel_shift_right(last, then, 32 - bits);
    last = gpu::funnel_shift_right(0, last, 32 - bits);
  }
};

// Length and element << 8 of the first code.
ECMV_GPU_DEVICE uint32_t walk_tables(gpu::Pointer<const uint16_t> entries, uint32_t window) {
  uint32_t entry = entries[window >> 24];
  for (int shift = 16; (entry & 0xFF) == 0 && shift >= 0; shift -= 8)
    entry = entries[(256 - (entry >> 8)) * 256 + (window >> shift & 0xFF)];
  return entry;
}

// Joins the tables and zeroes y, an element a thread.
static ECMV_GPU_KERNEL void lay_out(Stream stream, gpu::Pointer<uint16_t> entries, gpu::Pointer<uint8_t> last_thread,
                                    gpu::Pointer<int32_t> y, int64_t rows) {
  const int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (i < rows) y[i] = 0;
  if (i < stream.tables * 256) {
    const uint32_t symbol = stream.luts[i];
    const bool pointer = symbol >= static_cast<uint32_t>(kMaxSymbols);
    const uint32_t length = pointer ? 0 : stream.luts[stream.tables * 256 + symbol];
    const uint32_t element = pointer ? symbol : (symbol + stream.offset[0]) & 0xFF;
    entries[i] = static_cast<uint16_t>(length | element << 8);
  }
  if (i < 16) {
    const int64_t at = (stream.threads - 1) * kThreadBytes + i;
    last_thread[i] = at >= 0 && at < stream.encoded_bytes ? stream.encoded[at] : uint8_t{0};
  }
}

// pairs[w] for the codes that the 11 bits w begin with: bits of all whole ones in bits 0..7 (0: there is none), of the
// first code in bits 8..15 (64 if it is the only one), elements in bits 16..23 and 24..31.
static ECMV_GPU_KERNEL void lay_out_pairs(Stream stream, gpu::Pointer<uint32_t> pairs) {
  const uint32_t index = static_cast<uint32_t>(gpu::block_index() * gpu::block_size() + gpu::thread_index());
  if (index >= kPairEntries) return;
  const uint32_t window = index << (32 - kPairBits), first = walk_tables(stream.entries, window), length = first & 0xFF;
  uint32_t entry = 0;
  if (length <= kPairBits) {
    const uint32_t second = walk_tables(stream.entries, window << length), both = length + (second & 0xFF);
    entry = both <= kPairBits ? both | length << 8 | (first >> 8) << 16 | (second >> 8) << 24
                              : length | kThreadBits << 8 | (first >> 8) << 16;
  }
  pairs[index] = entry;
}

// Shared memory: tables, the lane groups' sums, then 32 KiB for elements.
ECMV_GPU_BOTH int64_t table_bytes_of(int tables, bool pairs) { return tables * 512 + (pairs ? kPairEntries * 4 : 0); }
inline constexpr int64_t kSumBytes = kLaneGroups * 4;
inline constexpr int64_t kElementBytes = int64_t{kBlockThreads} * kMostElements;

template <bool kPairs>
class Tables {
 public:
  // All threads of the block take part, and wait.
  ECMV_GPU_DEVICE explicit Tables(const Stream& stream)
      : entries_(gpu::cast<uint16_t>(gpu::shared_memory())),
        pairs_(gpu::cast<uint32_t>(gpu::shared_memory() + stream.tables * 512)) {
    const gpu::Pointer<gpu::uint4> to = gpu::cast<gpu::uint4>(gpu::shared_memory());
    copy(gpu::cast<const gpu::uint4>(stream.entries), to, stream.tables * 32);
    if constexpr (kPairs) copy(gpu::cast<const gpu::uint4>(stream.pairs), to + stream.tables * 32, kPairEntries / 4);
    gpu::sync_block();
  }

  // Calls use(one element, or two in its bytes, how many) for the codes that start in a thread's 64 bits, in order.
  template <typename Use>
  ECMV_GPU_DEVICE void for_each_code(Window window, uint32_t gap, const Use& use) const {
    if (gap > 0) window.skip(gap);
    for (uint32_t at = gap; at < kThreadBits;) {
      uint32_t bits = 0;
      if constexpr (kPairs) {
        const uint32_t entry = pairs_[window.now >> (32 - kPairBits)];
        bits = entry & 0xFF;
        if (bits != 0) use(entry >> 16, at + (entry >> 8 & 0xFF) < kThreadBits ? 2 : 1);
      }
      if (bits == 0) {
        const uint32_t entry = walk_tables(entries_, window.now);
        bits = entry & 0xFF;
        use(entry >> 8, 1);
      }
      at += bits;
      window.skip(bits);
    }
  }

 private:
  static ECMV_GPU_DEVICE void copy(gpu::Pointer<const gpu::uint4> from, gpu::Pointer<gpu::uint4> to, int count) {
    for (int i = gpu::thread_index(); i < count; i += kBlockThreads) to[i] = gpu::load_shared_by_many(from + i);
  }
  gpu::Pointer<const uint16_t> entries_;
  gpu::Pointer<const uint32_t> pairs_;
};

// A thread's part of a block. A thread past the last one gets a gap of 64 bits, so it has no codes.
struct Part {
  Window window;
  uint32_t gap;

  ECMV_GPU_DEVICE Part(const Stream& stream, int64_t block) : window{}, gap(kThreadBits) {
    const int64_t thread = block * kBlockThreads + gpu::thread_index();
    if (thread >= stream.threads) return;
    const gpu::Pointer<const uint32_t> words = thread + 1 < stream.threads
                                                   ? gpu::cast<const uint32_t>(stream.encoded + thread * kThreadBytes)
                                                   : stream.last_thread;
    const gpu::uint2 own = *gpu::cast<const gpu::uint2>(words);
    window = {gpu::byte_permute(own.x, 0, 0x0123), gpu::byte_permute(own.y, 0, 0x0123),
              gpu::byte_permute(words[2], 0, 0x0123)};
    const int64_t bit = thread * kGapBits;
    const uint32_t bytes = static_cast<uint32_t>(stream.gaps[bit / 8]) << 8 | stream.gaps[bit / 8 + 1];
    gap = bytes >> (16 - kGapBits - bit % 8) & ((1u << kGapBits) - 1);
  }
};

// The sum of `count` over the threads of the block before this one. All threads take part.
ECMV_GPU_DEVICE int sum_before(int count, gpu::Pointer<int32_t> group_sums) {
  const int before = LaneGroup::prefix_add(count), lane = LaneGroup::lane();
  if (lane == kGroupLanes - 1) group_sums[LaneGroup::group()] = before + count;
  gpu::sync_block();
  return before + LaneGroup::reduce_add(lane < LaneGroup::group() ? group_sums[lane] : 0);
}

template <bool kPairs>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kBlockThreads, 4) void two_phase(Stream stream, gpu::Pointer<int8_t> decoded) {
  const Tables<kPairs> tables(stream);
  const gpu::Pointer<std::byte> sums = gpu::shared_memory() + table_bytes_of(stream.tables, kPairs);
  const gpu::Pointer<uint8_t> staged = gpu::cast<uint8_t>(sums + kSumBytes);
  for (int64_t block = gpu::block_index(); block < stream.blocks; block += gpu::grid_size()) {
    const Part part(stream, block);
    int count = 0;
    tables.for_each_code(part.window, part.gap, [&](uint32_t, int codes) { count += codes; });
    int at = sum_before(count, gpu::cast<int32_t>(sums));
    const uint32_t first = stream.positions[block];
    const int elements = static_cast<int>(stream.positions[block + 1] - first);
    // Staged at the same place modulo 16 as in memory, so that the copy's loads and stores are both aligned.
    const int skew = static_cast<int>(first % 16);
    at += skew;
    const int end = skew + elements;
    tables.for_each_code(part.window, part.gap, [&](uint32_t symbols, int codes) {
      // Past the last element come the bits that fill the last byte.
      if (at < end) staged[at] = static_cast<uint8_t>(symbols);
      if (codes == 2 && at + 1 < end) staged[at + 1] = static_cast<uint8_t>(symbols >> 8);
      at += codes;
    });
    gpu::sync_block();
    const gpu::Pointer<int8_t> out = decoded + (static_cast<int64_t>(first) - skew);
    const int body = skew == 0 ? 0 : 16, body_end = end / 16 * 16;
    for (int i = body + 16 * gpu::thread_index(); i < body_end; i += 16 * kBlockThreads)
      *gpu::cast<gpu::uint4>(out + i) = *gpu::cast<const gpu::uint4>(staged + i);
    const int thread = gpu::thread_index();
    if (thread >= skew && thread < body && thread < end) out[thread] = static_cast<int8_t>(staged[thread]);
    if (body_end + thread < end && body_end + thread >= body && thread < 16)
      out[body_end + thread] = static_cast<int8_t>(staged[body_end + thread]);
    gpu::sync_block();  // the next block's elements come to the same place
  }
}

// A thread's elements, four in a word, word k in line k: no two lanes meet in a bank.
class Column {
 public:
  ECMV_GPU_DEVICE explicit Column(gpu::Pointer<std::byte> elements)
      : words_(gpu::cast<uint32_t>(elements) + gpu::thread_index()) {}
  ECMV_GPU_DEVICE void put(uint32_t symbols, int codes) {
    pending_ |= static_cast<uint64_t>(symbols) << pending_bits_;
    pending_bits_ += 8 * codes;
    if (pending_bits_ >= 32) {
      words_[count_ / 4 * kBlockThreads] = static_cast<uint32_t>(pending_);
      count_ += 4;
      pending_ >>= 32;
      pending_bits_ -= 32;
    }
  }
  // Returns how many there are.
  ECMV_GPU_DEVICE int finish() {
    if (pending_bits_ > 0) words_[count_ / 4 * kBlockThreads] = static_cast<uint32_t>(pending_);
    return count_ + pending_bits_ / 8;
  }
  ECMV_GPU_DEVICE uint32_t word(int k) const { return words_[k * kBlockThreads]; }
  ECMV_GPU_DEVICE int8_t element(int i) const { return static_cast<int8_t>(word(i / 4) >> (i % 4 * 8)); }

 private:
  gpu::Pointer<uint32_t> words_;
  uint64_t pending_ = 0;
  int pending_bits_ = 0, count_ = 0;
};

template <bool kPairs>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kBlockThreads, 4) void fused(Stream stream, uint32_t cols, gpu::Pointer<const int8_t> x,
                                                             gpu::Pointer<int32_t> y) {
  const Tables<kPairs> tables(stream);
  const gpu::Pointer<std::byte> sums = gpu::shared_memory() + table_bytes_of(stream.tables, kPairs);
  for (int64_t block = gpu::block_index(); block < stream.blocks; block += gpu::grid_size()) {
    const Part part(stream, block);
    Column column(sums + kSumBytes);
    // If a pair's second code starts in the next thread's bytes it is dropped here, by a mask on its bits.
    tables.for_each_code(part.window, part.gap, [&](uint32_t symbols, int codes) {
      column.put(codes == 2 ? symbols : symbols & 0xFF, codes);
    });
    int count = column.finish();
    const int before = sum_before(count, gpu::cast<int32_t>(sums));
    const uint32_t first = stream.positions[block];
    const int left = static_cast<int>(stream.positions[block + 1] - first) - before;
    count = left < count ? left : count;  // past the last element come the bits that fill the last byte

    const uint32_t element = first + static_cast<uint32_t>(before);
    uint32_t row = element / cols, col = element % cols;
    int32_t sum = 0;
    if (count > 0 && cols - col >= static_cast<uint32_t>(count)) {
      gpu::Pointer<const uint32_t> words = gpu::cast<const uint32_t>(x) + col / 4;
      uint32_t low = gpu::load_shared_by_many(words);
      for (int i = 0; i < count; i += 4) {
        const uint32_t high = gpu::load_shared_by_many(++words);
        uint32_t elements = column.word(i / 4);
        if (count - i < 4) elements &= (1u << (8 * (count - i))) - 1;
        sum = gpu::dot4(static_cast<int32_t>(elements),
                        static_cast<int32_t>(gpu::funnel_shift_right(low, high, 8 * (col % 4))), sum);
        low = high;
      }
    } else {
      for (int i = 0; i < count; ++i, ++col) {
        if (col == cols) {
          gpu::atomic_add(y + row, sum);
          sum = 0;
          col = 0;
          ++row;
        }
        sum += column.element(i) * x[col];
      }
    }
    // Nearly always all lanes are in one row.
    const uint32_t group_row = LaneGroup::shuffle(row, 0);
    if (LaneGroup::all(count <= 0 || row == group_row)) {
      const int32_t total = LaneGroup::reduce_add(sum);
      if (LaneGroup::lane() == 0 && count > 0) gpu::atomic_add(y + group_row, total);
    } else if (count > 0) {
      gpu::atomic_add(y + row, sum);
    }
    gpu::sync_block();  // the next block's sums come to the same place
  }
}

static ECMV_GPU_KERNEL void requantise_rows(gpu::Epilogue epilogue, int64_t rows) {
  const int64_t row = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (row < rows) epilogue.store(row, epilogue.y[row]);
}

}  // namespace ecmv::codecs::huffman_lut::ECMV_GPU_NAMESPACE::gaps
