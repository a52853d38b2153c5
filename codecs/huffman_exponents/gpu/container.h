// The GPU kernel `two_phase`: as in DFloat11 a thread owns 8 coded bytes and enters them at its gap,
// a block of 512 threads begins at a stored position, and a prefix sum over the thread block places each thread's
// exponents.
//   1. A thread decodes the codes that start in its bytes into a column of shared memory, up to 4 a look-up, and so
//      counts them.
//   2. It takes its column into registers; a prefix sum gives its place.
//   3. Words, shifted to that place, go to one buffer of all threads, which reuses the columns' memory.
//   4. The thread block joins signs and mantissas to the exponents and stores 16 bytes a thread.
// The article's kernel decodes twice, once to count. Our kernel took 33 instructions an element with both passes, and
// takes 27 with one. Source: DFloat11 (Zhang et al., arXiv 2504.11651); columns and the table of several codes are our
// own. Assumes a verified stream.
#pragma once

#include "backends/gpu/async_copy.h"
#include "backends/gpu/lanes.h"
#include "codecs/huffman_exponents/format.h"

namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE::container_gpu {

namespace gpu = backends::gpu;

inline constexpr int kMostCodes = 4;  // of a look-up
inline constexpr int kGroupLanes = 32;
using LaneGroup = gpu::Lanes<kGroupLanes>;

// A column holds this many exponents of a thread, 4 a word: 36 codes in 64 bits. Threads with more decode again.
inline constexpr int kColumnWords = 9;
// The buffer holds this many exponents of a format's block, at 2 bits each. A block with more is stored element by
// element.
inline constexpr int kStagedOfBlock = 16384;
inline constexpr int kSkew = 16;  // the buffer begins at a multiple of that many elements

// What a look-up returns besides the exponents. Added up, the low byte is the bit at which a thread stands (64: it is
// through), and the bits from 8 on count 8 for each of its exponents.
inline constexpr uint32_t kBitsField = 0x7F, kThrough = kThreadBits;
inline constexpr int kCodesShift = 8, kStartsShift = 20;  // from there on a bit where each code starts

struct Stream {
  gpu::Pointer<const uint8_t> luts, encoded, raw, gaps;
  gpu::Pointer<const uint32_t> positions;
  // [2^kBits]: the whole codes that an index begins with, at most 4. x has their exponents, the first one lowest; y see
  // kBitsField, and 0 where already the first code is longer.
  gpu::Pointer<const gpu::uint2> runs;
  int64_t threads, blocks, position_count, elements;
  int tables;

  // The first element of a block of the format; the number of elements past the last block, or where the file has no
  // entry.
  ECMV_GPU_DEVICE uint32_t position(int64_t block) const {
    return block < position_count ? positions[block] : static_cast<uint32_t>(elements);
  }
};

// Exponent << 8 | length of the first code, through the stored tables. The length is 0 where no code begins so: past
// the last code, and in parts of the tables that no code reaches.
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
ECMV_GPU_KERNEL void lay_out(Stream stream, gpu::Pointer<gpu::uint2> runs) {
  static_assert(kBits <= 32 - kStartsShift);
  const uint32_t index = static_cast<uint32_t>(gpu::block_index() * gpu::block_size() + gpu::thread_index());
  if (index >= 1u << kBits) return;
  const uint32_t window = index << (32 - kBits);
  uint32_t bits = 0, exponents = 0, starts = 0, codes = 0;
  for (; codes < static_cast<uint32_t>(kMostCodes); ++codes) {
    const uint32_t code = first_code(stream.luts, stream.tables, window << bits), length = code & 0xFF;
    if (length == 0 || bits + length > kBits) break;
    exponents |= (code >> 8) << (8 * codes);
    starts |= 1u << bits;
    bits += length;
  }
  runs[index] = {exponents, bits | codes << (kCodesShift + 3) | starts << kStartsShift};
}

// The next 32 bits of a thread's 96.
struct Window {
  uint32_t now, then, last;

  ECMV_GPU_DEVICE void skip(uint32_t bits) {  // modulo 32
    now = gpu::funnel_shift_left(then, now, bits);
    then = gpu::funnel_shift_left(last, then, bits);
    last = gpu::funnel_shift_left(0, last, bits);
  }
};

// The bytes loaded ahead for one thread of a unit of kThreads threads. Nothing may be computed from them before the
// unit is decoded: a use would wait for memory and undo the loading ahead.
template <bool kBf16, int kThreads>
struct LoadedBlocks {
  static constexpr int kGapBits = kBf16 ? 5 : 4;
  gpu::uint2 own{};
  uint32_t next = 0;
  uint8_t gap_bytes[2] = {};
  uint32_t first = 0, end = 0;  // elements of the unit

  ECMV_GPU_DEVICE LoadedBlocks(const Stream& stream, int64_t unit) {
    constexpr int kBlocks = kThreads / kBlockThreads;
    first = stream.position(unit * kBlocks);
    end = stream.position((unit + 1) * kBlocks);
    const int thread = gpu::thread_index();
    if (unit * kThreads + thread >= stream.threads) return;
    const gpu::Pointer<const uint8_t> bytes =
        stream.encoded + (unit * (kThreads * kThreadBytes) + thread * kThreadBytes);
    own = *gpu::cast<const gpu::uint2>(bytes);
    next = *gpu::cast<const uint32_t>(bytes + kThreadBytes);
    const gpu::Pointer<const uint8_t> gap = stream.gaps + (unit * (kThreads * kGapBits / 8) + thread * kGapBits / 8);
    gap_bytes[0] = gap[0];
    gap_bytes[1] = gap[1];
  }
};

// The bits of one thread. A thread past the last one gets a gap of 64 bits, so it has no codes.
struct Part {
  Window window;
  uint32_t gap;

  template <bool kBf16, int kThreads>
  ECMV_GPU_DEVICE Part(const LoadedBlocks<kBf16, kThreads>& loaded, bool exists)
      : window{gpu::byte_permute(loaded.own.x, 0, 0x0123), gpu::byte_permute(loaded.own.y, 0, 0x0123),
               gpu::byte_permute(loaded.next, 0, 0x0123)} {
    constexpr int kGapBits = LoadedBlocks<kBf16, kThreads>::kGapBits;
    const uint32_t both = static_cast<uint32_t>(loaded.gap_bytes[0]) << 8 | loaded.gap_bytes[1];
    const uint32_t stored = both >> (16 - kGapBits - gpu::thread_index() * kGapBits % 8) & ((1u << kGapBits) - 1);
    gap = exists ? stored : kThrough;
  }
};

// Calls use(exponents, before, with) for the codes that start in a thread's 64 bits, in order, up to 4 at once.
// `before` and `with` are 8 bits for each exponent before these and with these; only their low 9 bits count. The last
// codes may start past the 64 bits; returns how many do not.
template <int kBits, typename Use>
ECMV_GPU_DEVICE int for_each_run(const Stream& stream, gpu::Pointer<const gpu::uint2> runs, const Part& part,
                                 const Use& use) {
  Window window = part.window;
  window.skip(part.gap);
  uint32_t state = part.gap, told = 0;
  while ((state & kThrough) == 0) {
    const gpu::uint2 run = runs[window.now >> (32 - kBits)];
    told = run.y;
    uint32_t exponents = run.x;
    if (told == 0) {
      const uint32_t code = first_code(stream.luts, stream.tables, window.now), length = code & 0xFF;
      // Length 0: past the last code of the stream.
      told = (length == 0 ? kThrough : length) | 8u << kCodesShift | 1u << kStartsShift;
      exponents = code >> 8;
      if (length == 32) window.skip(16);
      window.skip(length == 32 ? 16 : length);
    } else {
      window.skip(told);
    }
    use(exponents, state >> kCodesShift, (state + told) >> kCodesShift);
    state += told;
  }
  const uint32_t within = kThreadBits - ((state - told) & kBitsField);
  return static_cast<int>(state >> kCodesShift & 0xFFF) / 8 -
         gpu::popcount(told >> kStartsShift >> (within < 31 ? within : 31));
}

// Stores bytes at any place of the buffer. A thread writes the words whose last byte is its own; after a barrier it
// adds its bytes to words that others wrote.
class Tail {
 public:
  // The low `end` bits of the word, without those below `begin`.
  ECMV_GPU_DEVICE Tail(gpu::Pointer<uint32_t> word, uint32_t bytes, int begin, int end)
      : word_(word), bytes_(bytes), begin_(begin), end_(end) {}
  ECMV_GPU_DEVICE void put() const {
    const gpu::Pointer<uint8_t> out = gpu::cast<uint8_t>(word_);
    ECMV_GPU_UNROLL
    for (int i = 0; i < 3; ++i)
      if (8 * i >= begin_ && 8 * i < end_) out[i] = static_cast<uint8_t>(bytes_ >> (8 * i));
  }

 private:
  gpu::Pointer<uint32_t> word_;
  uint32_t bytes_;
  int begin_, end_;
};

// The sum of `count` over the threads of the block before this one. All threads take part.
ECMV_GPU_DEVICE int sum_before(int count, gpu::Pointer<int32_t> group_sums) {
  const int before = LaneGroup::prefix_add(count), lane = LaneGroup::lane();
  if (lane == kGroupLanes - 1) group_sums[LaneGroup::group()] = before + count;
  gpu::sync_block();
  return before + LaneGroup::reduce_add(lane < LaneGroup::group() ? group_sums[lane] : 0);
}

// The element with this exponent and the matrix's raw bits.
template <bool kBf16>
ECMV_GPU_DEVICE void store_element(const Stream& stream, int64_t element, uint32_t exponent,
                                   gpu::Pointer<uint8_t> decoded) {
  if constexpr (kBf16) {
    const uint32_t bits = stream.raw[element];
    gpu::cast<uint16_t>(decoded)[element] =
        static_cast<uint16_t>((bits & 0x80) << 8 | exponent << kBf16MantissaBits | (bits & 0x7F));
  } else {
    const uint32_t both = stream.raw[element / 2], bits = element % 2 == 0 ? both >> 4 : both & 15;
    decoded[element] = static_cast<uint8_t>((bits & 8) << 4 | exponent << kF8MantissaBits | (bits & 7));
  }
}

// Two bf16 from bytes k and k + 1 of four exponents and four raw bytes. A raw byte doubled into both halves of a word
// has sign and mantissa where they belong.
template <int k>
ECMV_GPU_DEVICE uint32_t join_two(uint32_t exponents, uint32_t raw) {
  const uint32_t rest = gpu::byte_permute(raw, 0, k == 0 ? 0x1100 : 0x3322) & 0x807F807Fu;
  return rest + gpu::byte_permute(exponents, 0, k == 0 ? 0x4140 : 0x4342) * (1u << kBf16MantissaBits);
}
// Four f8 from four exponents and two bytes of raw bits.
ECMV_GPU_DEVICE uint32_t join_four(uint32_t exponents, uint32_t raw) {
  const uint32_t bits = gpu::byte_permute(raw >> 4 & 0x0F0F, raw & 0x0F0F, 0x5140);
  return (bits & 0x08080808u) << 4 | exponents << kF8MantissaBits | (bits & 0x07070707u);
}

// Shared memory: the table, the lane groups' sums, and the columns or the buffer.
ECMV_GPU_BOTH constexpr int64_t table_bytes_of(int bits) { return int64_t{8} << bits; }
inline constexpr int64_t kSumBytes = 32 * 4;
ECMV_GPU_BOTH constexpr int64_t shared_bytes_of(int bits, int threads) {
  const int64_t columns = int64_t{4} * kColumnWords * threads,
                staged = threads / kBlockThreads * kStagedOfBlock + kSkew;
  return table_bytes_of(bits) + kSumBytes + (columns > staged ? columns : staged);
}

// Brings the raw bits of the elements [first, stop) to the L2 cache.
template <bool kBf16>
ECMV_GPU_DEVICE void prefetch_raw(const Stream& stream, uint32_t first, uint32_t stop) {
  const int64_t begin = (kBf16 ? first : first / 2) / 16 * 16, end = (kBf16 ? stop : stop / 2) / 16 * 16;
  if (begin < end) gpu::prefetch_l2(gpu::cast<const std::byte>(stream.raw) + begin, static_cast<int>(end - begin));
}

// Joins the elements [skew, end) of the buffer, which are the elements from `base` + skew on.
template <bool kBf16, int kThreads>
ECMV_GPU_DEVICE void store_staged(const Stream& stream, gpu::Pointer<const uint32_t> staged, int64_t base, int skew,
                                  int end, gpu::Pointer<uint8_t> decoded) {
  constexpr int kPiece = kBf16 ? 8 : 16;  // elements: 16 bytes
  const int thread = gpu::thread_index(), first = (skew + kPiece - 1) / kPiece, pieces = end / kPiece;
  const gpu::Pointer<const gpu::uint2> raws = gpu::cast<const gpu::uint2>(stream.raw + (kBf16 ? base : base / 2));
  const gpu::Pointer<gpu::uint4> outs = gpu::cast<gpu::uint4>(decoded + (kBf16 ? 2 * base : base));
  for (int i = first + thread; i < pieces; i += kThreads) {
    const gpu::uint2 raw = gpu::load_streaming(raws + i);
    if constexpr (kBf16) {
      const gpu::uint2 exponents = gpu::cast<const gpu::uint2>(staged)[i];
      outs[i] = {join_two<0>(exponents.x, raw.x), join_two<2>(exponents.x, raw.x), join_two<0>(exponents.y, raw.y),
                 join_two<2>(exponents.y, raw.y)};
    } else {
      const gpu::uint4 exponents = gpu::cast<const gpu::uint4>(staged)[i];
      outs[i] = {join_four(exponents.x, raw.x & 0xFFFF), join_four(exponents.y, raw.x >> 16),
                 join_four(exponents.z, raw.y & 0xFFFF), join_four(exponents.w, raw.y >> 16)};
    }
  }
  // Elements that share their 16 bytes with the blocks before and after; in a block of a few elements all of them.
  const gpu::Pointer<const uint8_t> bytes = gpu::cast<const uint8_t>(staged);
  const int front = first * kPiece < end ? first * kPiece : end, back = pieces < first ? front : pieces * kPiece;
  if (skew + thread < front) store_element<kBf16>(stream, base + skew + thread, bytes[skew + thread], decoded);
  if (back + thread < end) store_element<kBf16>(stream, base + back + thread, bytes[back + thread], decoded);
}

// Writes a thread's exponents to `out`, from byte `lead` of the first word to byte `taken`, and returns the last word
// if it is not full. `words` holds the first `count` exponents; if there are more the run is decoded again.
template <int kBits>
ECMV_GPU_DEVICE uint32_t put_exponents(const Stream& stream, gpu::Pointer<const gpu::uint2> table, const Part& part,
                                       const uint32_t (&words)[kColumnWords], int count, int lead, int taken,
                                       gpu::Pointer<uint32_t> out) {
  uint32_t rest = 0;
  if (count <= 4 * kColumnWords) {
    uint32_t below = 0;
    ECMV_GPU_UNROLL
    for (int i = 0; i <= kColumnWords; ++i) {
      const uint32_t own = i < kColumnWords ? words[i < kColumnWords ? i : 0] : 0,
                     shifted = gpu::funnel_shift_left(below, own, static_cast<uint32_t>(8 * lead));
      if (4 * i + 4 <= taken)
        out[i] = shifted;
      else if (4 * i < taken)
        rest = shifted;
      below = own;
    }
  } else {
    int place = lead;
    for_each_run<kBits>(stream, table, part, [&](uint32_t exponents, uint32_t from, uint32_t to) {
      for (uint32_t here = (to - from) & 0x3F; here > 0 && place < taken; here -= 8, exponents >>= 8, ++place) {
        rest |= (exponents & 0xFF) << (place % 4 * 8);
        if (place % 4 == 3) {
          out[place / 4] = rest;
          rest = 0;
        }
      }
    });
  }
  return rest;
}

template <bool kBf16, int kBits, int kThreads, int kResident>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kThreads, kResident) void two_phase(Stream stream, gpu::Pointer<uint8_t> decoded) {
  constexpr int kBlocks = kThreads / kBlockThreads;  // of the format, neighbours
  constexpr int kStaged = kBlocks * kStagedOfBlock;
  const gpu::Pointer<gpu::uint2> table = gpu::cast<gpu::uint2>(gpu::shared_memory());
  const gpu::Pointer<int32_t> sums = gpu::cast<int32_t>(gpu::shared_memory() + table_bytes_of(kBits));
  const gpu::Pointer<uint32_t> staged = gpu::cast<uint32_t>(gpu::shared_memory() + table_bytes_of(kBits) + kSumBytes);
  const gpu::Pointer<uint32_t> column = staged + gpu::thread_index();
  for (int i = gpu::thread_index(); i < (1 << kBits) / 2; i += kThreads)
    gpu::cast<gpu::uint4>(table)[i] = gpu::load_shared_by_many(gpu::cast<const gpu::uint4>(stream.runs) + i);
  gpu::sync_block();

  const int64_t units = (stream.blocks + kBlocks - 1) / kBlocks;
  LoadedBlocks<kBf16, kThreads> next(stream, gpu::block_index());
  for (int64_t unit = gpu::block_index(); unit < units; unit += gpu::grid_size()) {
    const Part part(next, unit * kThreads + gpu::thread_index() < stream.threads);
    const int64_t first = next.first;
    const int elements = static_cast<int>(next.end - next.first);
    next = LoadedBlocks<kBf16, kThreads>(stream, unit + gpu::grid_size());

    // 1
    uint32_t pending = 0;
    gpu::Pointer<uint32_t> word = column;
    // Writes past the column's end would hit another thread's words or the sums, so they are left out.
    const auto end_of_column = column + kColumnWords * kThreads;
    const int count = for_each_run<kBits>(stream, table, part, [&](uint32_t exponents, uint32_t before, uint32_t with) {
      pending |= gpu::funnel_shift_left(0, exponents, before);
      if (((before ^ with) & 32) == 0) return;
      if (word < end_of_column) *word = pending;
      word += kThreads;
      pending = gpu::funnel_shift_left(exponents, 0, before);
    });
    if (word < end_of_column) *word = pending;
    // 2
    uint32_t words[kColumnWords];
    ECMV_GPU_UNROLL
    for (int i = 0; i < kColumnWords; ++i) words[i] = column[i * kThreads];
    const int before = sum_before(count, sums);
    const int left = elements - before < count ? elements - before
                                               : count;  // past the last element come the bits that fill the last byte
    const int skew = static_cast<int>(first % kSkew), end = skew + elements;

    // 3
    if (end > kStaged) {
      int64_t element = first + before;
      const int64_t last = element + left;
      for_each_run<kBits>(stream, table, part, [&](uint32_t exponents, uint32_t from, uint32_t to) {
        for (uint32_t here = (to - from) & 0x3F; here > 0 && element < last; here -= 8, exponents >>= 8)
          store_element<kBf16>(stream, element++, exponents & 0xFF, decoded);
      });
      gpu::sync_block();  // the next unit's columns and sums come to the same place
      continue;
    }
    const int at = before + skew, lead = at % 4,
              taken =
                  left > 0 ? lead + left : 0;  // bytes of the first word that are others', and up to this thread's last
    const gpu::Pointer<uint32_t> out = staged + at / 4;
    const uint32_t rest = put_exponents<kBits>(stream, table, part, words, count, lead, taken, out);
    gpu::sync_block();
    Tail(out + taken / 4, rest, taken < 4 ? 8 * lead : 0, taken % 4 * 8).put();
    gpu::sync_block();

    // 4
    if (gpu::thread_index() == 0) prefetch_raw<kBf16>(stream, next.first, next.end);
    store_staged<kBf16, kThreads>(stream, staged, first - skew, skew, end, decoded);
    gpu::sync_block();  // the next unit's columns come to the same place
  }
}

}  // namespace ecmv::codecs::huffman_exponents::ECMV_GPU_NAMESPACE::container_gpu
