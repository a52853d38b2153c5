// The layout `container` on a GPU, `two_phase`, as in DFloat11: a thread owns 8 coded bytes, enters them at its gap, and a block of 512 threads
// begins at a stored position.
//  1. A thread counts the codes that start in its bytes.
//  2. A prefix sum over the thread block gives its place.
//  3. It decodes again, into a buffer of exponents in shared memory.
//  4. The thread block joins signs and mantissas to them and stores 16 bytes a thread.
// Both passes take up to 4 codes a look-up, from tables of 2^kBits entries that a small kernel makes of the stored ones: for counting the bits at
// which codes start, so that those beyond a thread's end can be taken off again; for decoding the exponents.
// Source: DFloat11 (Zhang et al., arXiv 2504.11651); the tables are our own. Assumes a verified stream.
#pragma once

#include "backends/gpu/lanes.h"
#include "codecs/huffman_exponents/format.h"

namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE::entered {

namespace gpu = backends::gpu;
using namespace huffman_exponents::container;

inline constexpr int kMaxBits = 12;  // of a table index
inline constexpr int kMostCodes = 4;  // of a look-up
inline constexpr int kTeamLanes = 32;
using Team = gpu::Lanes<kTeamLanes>;

// Exponents of a format's block that fit the buffer: 2 bits each. A block of more is stored element by element.
inline constexpr int kStagedOfBlock = 16384;
inline constexpr int kSkew = 16;  // the buffer begins at a multiple of that many elements

struct Stream {
  gpu::Pointer<const uint8_t> luts, encoded, raw, gaps;
  gpu::Pointer<const uint32_t> positions;
  gpu::Pointer<const uint32_t> exponents;  // [2^kBits]: of the whole codes that an index begins with, 4 at most, the first lowest
  gpu::Pointer<const uint16_t> starts;     // [2^kBits]: their bits in bits 0..3 (0: the first is longer), from bit 4 on a bit where each starts
  int64_t threads, blocks, position_count, elements;
  int tables;

  ECMV_GPU_DEVICE int64_t position(int64_t block) const { return block < position_count ? static_cast<int64_t>(positions[block]) : elements; }
};

// Exponent << 8 | length of the first code, through the stored tables; length 0 where no code begins so (behind the last one, and in
// parts of the tables that no code leads to).
ECMV_GPU_DEVICE uint32_t first_code(gpu::Pointer<const uint8_t> luts, int tables, uint32_t window) {
  int table = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    const uint32_t entry = luts[table * 256 + static_cast<int>(window >> shift & 0xFF)];
    if (entry < static_cast<uint32_t>(kMaxSymbols)) {
      const uint32_t length = luts[tables * 256 + static_cast<int>(entry)];
      return entry << 8 | (length < 32 ? length : 32);
    }
    table = 256 - static_cast<int>(entry);
    if (table >= tables) return 0;
  }
  return 0;
}

template <int kBits>
ECMV_GPU_KERNEL void lay_out(Stream stream, gpu::Pointer<uint32_t> exponents, gpu::Pointer<uint16_t> starts) {
  const uint32_t index = static_cast<uint32_t>(gpu::block_index() * gpu::block_size() + gpu::thread_index());
  if (index >= 1u << kBits) return;
  const uint32_t window = index << (32 - kBits);
  uint32_t bits = 0, codes = 0, start_bits = 0;
  for (int i = 0; i < kMostCodes; ++i) {
    const uint32_t code = first_code(stream.luts, stream.tables, window << bits), length = code & 0xFF;
    if (length == 0 || bits + length > kBits) break;
    codes |= (code >> 8) << (8 * i);
    start_bits |= 1u << bits;
    bits += length;
  }
  exponents[index] = codes;
  starts[index] = static_cast<uint16_t>(bits | start_bits << 4);
}

// The next 32 bits of a thread's 96.
struct Window {
  uint32_t now, then, last;

  ECMV_GPU_DEVICE void skip(uint32_t bits) {  // 1..32
    now = gpu::funnel_shift_right(then, now, 0u - bits);
    then = gpu::funnel_shift_right(last, then, 0u - bits);
    last = gpu::funnel_shift_right(0, last, 0u - bits);
  }
};

// What one thread has of a block. Past the last thread there is nothing: a gap of 64 bits.
template <bool kBf16>
struct Part {
  Window window{};
  uint32_t gap = kThreadBits;

  Part() = default;
  ECMV_GPU_DEVICE Part(const Stream& stream, int64_t thread) {
    if (thread >= stream.threads) return;
    const gpu::Pointer<const uint8_t> bytes = stream.encoded + thread * kThreadBytes;
    const gpu::uint2 own = *gpu::cast<const gpu::uint2>(bytes);
    const uint32_t next = *gpu::cast<const uint32_t>(bytes + kThreadBytes);
    window = {gpu::byte_permute(own.x, 0, 0x0123), gpu::byte_permute(own.y, 0, 0x0123), gpu::byte_permute(next, 0, 0x0123)};
    constexpr int kGapBits = kBf16 ? 5 : 4;
    const int64_t bit = thread * kGapBits;
    const uint32_t both = static_cast<uint32_t>(stream.gaps[bit / 8]) << 8 | stream.gaps[bit / 8 + 1];
    gap = both >> (16 - kGapBits - bit % 8) & ((1u << kGapBits) - 1);
  }
};

// Writes a thread's exponents at a place of the buffer that is no multiple of 4: whole words by the thread that has their last byte, its bytes of
// another thread's word behind a barrier.
class Stager {
 public:
  ECMV_GPU_DEVICE Stager(gpu::Pointer<uint32_t> buffer, int at) : word_(buffer + at / 4), used_(at % 4 * 8), first_(used_) {}
  ECMV_GPU_DEVICE void put(uint32_t exponents, int count) {
    pending_ |= exponents << used_;
    const uint32_t rest = gpu::funnel_shift_left(exponents, 0, static_cast<uint32_t>(used_));
    used_ += 8 * count;
    if (used_ >= 32) {
      *word_ = pending_;
      ++word_;
      pending_ = rest;
      used_ -= 32;
      first_ = 0;
    }
  }
  // Behind a barrier that all threads of the block pass after their last put().
  ECMV_GPU_DEVICE void finish() const {
    const gpu::Pointer<uint8_t> bytes = gpu::cast<uint8_t>(word_);
    ECMV_GPU_UNROLL
    for (int i = 0; i < 3; ++i)
      if (8 * i >= first_ && 8 * i < used_) bytes[i] = static_cast<uint8_t>(pending_ >> (8 * i));
  }

 private:
  gpu::Pointer<uint32_t> word_;
  uint32_t pending_ = 0;
  int used_, first_;  // bits of the word that are taken, and those of other threads in front of them
};

// The sum of `count` over the threads of the block before this one. All threads take part.
ECMV_GPU_DEVICE int sum_before(int count, gpu::Pointer<int32_t> team_sums) {
  const int before = Team::prefix_add(count), lane = Team::lane();
  if (lane == kTeamLanes - 1) team_sums[Team::group()] = before + count;
  gpu::sync_block();
  return before + Team::reduce_add(lane < Team::group() ? team_sums[lane] : 0);
}

// An element of its exponent and the matrix's raw bits.
template <bool kBf16>
ECMV_GPU_DEVICE void store_element(const Stream& stream, int64_t element, uint32_t exponent, gpu::Pointer<uint8_t> decoded) {
  if constexpr (kBf16) {
    const uint32_t bits = stream.raw[element];
    gpu::cast<uint16_t>(decoded)[element] = static_cast<uint16_t>((bits & 0x80) << 8 | exponent << kBf16MantissaBits | (bits & 0x7F));
  } else {
    const uint32_t both = stream.raw[element / 2], bits = element % 2 == 0 ? both >> 4 : both & 15;
    decoded[element] = static_cast<uint8_t>((bits & 8) << 4 | exponent << kF8MantissaBits | (bits & 7));
  }
}

// Two bf16 of bytes k and k + 1 of four exponents and raw bytes; the raw byte above itself has sign and mantissa where they belong.
template <int k>
ECMV_GPU_DEVICE uint32_t join_two(uint32_t exponents, uint32_t raw) {
  const uint32_t rest = gpu::byte_permute(raw, 0, k == 0 ? 0x1100 : 0x3322) & 0x807F807Fu;
  return rest + gpu::byte_permute(exponents, 0, k == 0 ? 0x4140 : 0x4342) * (1u << kBf16MantissaBits);
}
// Four f8 of four exponents and two bytes of raw bits.
ECMV_GPU_DEVICE uint32_t join_four(uint32_t exponents, uint32_t raw) {
  const uint32_t bits = gpu::byte_permute(raw >> 4 & 0x0F0F, raw & 0x0F0F, 0x5140);
  return (bits & 0x08080808u) << 4 | exponents << kF8MantissaBits | (bits & 0x07070707u);
}

// Shared memory: both tables, the teams' sums, the buffer.
ECMV_GPU_BOTH constexpr int64_t table_bytes_of(int bits) { return int64_t{6} << bits; }
inline constexpr int64_t kSumBytes = 32 * 4;
ECMV_GPU_BOTH constexpr int64_t shared_bytes_of(int bits, int threads) { return table_bytes_of(bits) + kSumBytes + threads / kBlockThreads * kStagedOfBlock + kSkew; }

template <bool kBf16, int kBits, int kThreads, int kResident>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kThreads, kResident) void two_phase(Stream stream, gpu::Pointer<uint8_t> decoded) {
  constexpr int kBlocks = kThreads / kBlockThreads;  // of the format, neighbours
  constexpr int kStaged = kBlocks * kStagedOfBlock;
  const gpu::Pointer<uint32_t> exponents_of = gpu::cast<uint32_t>(gpu::shared_memory());
  const gpu::Pointer<uint16_t> starts_of = gpu::cast<uint16_t>(gpu::shared_memory() + (4 << kBits));
  const gpu::Pointer<int32_t> sums = gpu::cast<int32_t>(gpu::shared_memory() + table_bytes_of(kBits));
  const gpu::Pointer<uint32_t> staged = gpu::cast<uint32_t>(gpu::shared_memory() + table_bytes_of(kBits) + kSumBytes);
  for (int i = gpu::thread_index(); i < (1 << kBits) / 4; i += kThreads)
    gpu::cast<gpu::uint4>(exponents_of)[i] = gpu::load_shared_by_many(gpu::cast<const gpu::uint4>(stream.exponents) + i);
  for (int i = gpu::thread_index(); i < (1 << kBits) / 8; i += kThreads)
    gpu::cast<gpu::uint4>(starts_of)[i] = gpu::load_shared_by_many(gpu::cast<const gpu::uint4>(stream.starts) + i);
  gpu::sync_block();

  const int64_t units = (stream.blocks + kBlocks - 1) / kBlocks;
  Part<kBf16> next(stream, gpu::block_index() * kThreads + gpu::thread_index());
  for (int64_t unit = gpu::block_index(); unit < units; unit += gpu::grid_size()) {
    const Part<kBf16> part = next;
    next = Part<kBf16>(stream, (unit + gpu::grid_size()) * kThreads + gpu::thread_index());
    const int64_t first = stream.position(unit * kBlocks);
    const int64_t after = (unit + 1) * kBlocks;
    const int elements = static_cast<int>(stream.position(after < stream.blocks ? after : stream.blocks) - first);

    // 1
    int count = 0;
    {
      Window window = part.window;
      uint32_t at = part.gap, last_at = 0, last_starts = 0;
      if (at > 0 && at < kThreadBits) window.skip(at);
      while (at < kThreadBits) {
        const uint32_t entry = starts_of[window.now >> (32 - kBits)];
        uint32_t bits = entry & 15;
        last_starts = entry >> 4;
        if (bits == 0) {
          bits = first_code(stream.luts, stream.tables, window.now) & 0xFF;
          last_starts = 1;
          if (bits == 0) bits = kThreadBits;  // behind the last code
        }
        last_at = at;
        count += gpu::popcount(last_starts);
        at += bits;
        if (at < kThreadBits) window.skip(bits);
      }
      // Codes of the last look-up that start in the next thread's bytes.
      const uint32_t within = kThreadBits - last_at;
      count -= gpu::popcount(last_starts >> (within < 31 ? within : 31));
    }
    // 2
    const int before = sum_before(count, sums);
    int left = elements - before < count ? elements - before : count;  // behind the last element come the bits that fill the last byte

    // 3
    Window window = part.window;
    if (part.gap > 0 && part.gap < kThreadBits) window.skip(part.gap);
    // Calls use(exponents, how many) for the codes that start in this thread's bytes, in order.
    const auto decode = [&](const auto& use) {
      while (left > 0) {
        const uint32_t index = window.now >> (32 - kBits), entry = starts_of[index];
        uint32_t exponents = exponents_of[index], bits = entry & 15;
        int codes = gpu::popcount(entry >> 4);
        if (bits == 0) {
          const uint32_t code = first_code(stream.luts, stream.tables, window.now);
          exponents = code >> 8;
          bits = code & 0xFF;
          codes = 1;
        }
        codes = codes < left ? codes : left;
        use(exponents, codes);
        left -= codes;
        if (left > 0) window.skip(bits);
      }
    };
    const int skew = static_cast<int>(first % kSkew), end = skew + elements;
    if (end > kStaged) {
      int64_t element = first + before;
      decode([&](uint32_t exponents, int codes) {
        for (int i = 0; i < codes; ++i) store_element<kBf16>(stream, element++, exponents >> (8 * i) & 0xFF, decoded);
      });
      gpu::sync_block();  // the next unit's sums come to the same place
      continue;
    }
    Stager stager(staged, before + skew);
    decode([&](uint32_t exponents, int codes) { stager.put(exponents, codes); });
    gpu::sync_block();
    stager.finish();
    gpu::sync_block();

    // 4
    constexpr int kPiece = kBf16 ? 8 : 16;  // elements: 16 bytes
    const int64_t base = first - skew;
    for (int i = kPiece * gpu::thread_index(); i < end; i += kPiece * kThreads) {
      if (i < skew || i + kPiece > end) {
        const gpu::Pointer<const uint8_t> bytes = gpu::cast<const uint8_t>(staged);
        for (int k = i < skew ? skew : i; k < i + kPiece && k < end; ++k) store_element<kBf16>(stream, base + k, bytes[k], decoded);
        continue;
      }
      gpu::uint4 out;
      if constexpr (kBf16) {
        const gpu::uint2 raw = gpu::load_streaming(gpu::cast<const gpu::uint2>(stream.raw + (base + i)));
        const gpu::uint2 exponents = *gpu::cast<const gpu::uint2>(staged + i / 4);
        out = {join_two<0>(exponents.x, raw.x), join_two<2>(exponents.x, raw.x), join_two<0>(exponents.y, raw.y), join_two<2>(exponents.y, raw.y)};
        *gpu::cast<gpu::uint4>(decoded + 2 * (base + i)) = out;
      } else {
        const gpu::uint2 raw = gpu::load_streaming(gpu::cast<const gpu::uint2>(stream.raw + (base + i) / 2));
        const gpu::uint4 exponents = *gpu::cast<const gpu::uint4>(staged + i / 4);
        out = {join_four(exponents.x, raw.x & 0xFFFF), join_four(exponents.y, raw.x >> 16), join_four(exponents.z, raw.y & 0xFFFF), join_four(exponents.w, raw.y >> 16)};
        *gpu::cast<gpu::uint4>(decoded + (base + i)) = out;
      }
    }
    gpu::sync_block();  // the next unit's exponents come to the same place
  }
}

}  // namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE::entered
