// See peer_kernels.h.
#include "backends/gpu/host/peer_kernels.h"

#include "backends/gpu/memory.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 64;

// Stores that other devices see while this kernel runs, and loads that see theirs, 8 bytes at once.
ECMV_GPU_DEVICE void store_to_peer(Pointer<uint4> pointer, uint4 words) {
#if defined(ECMV_GPU_EMULATOR)
  auto* const place = reinterpret_cast<uint64_t*>(&*pointer);
  __atomic_store_n(place, uint64_t{words.y} << 32 | words.x, __ATOMIC_RELAXED);
  __atomic_store_n(place + 1, uint64_t{words.w} << 32 | words.z, __ATOMIC_RELAXED);
#elif defined(__HIP_DEVICE_COMPILE__) && defined(__HIP__)
  uint64_t* const place = cast<uint64_t>(pointer);
  __hip_atomic_store(place, uint64_t{words.y} << 32 | words.x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  __hip_atomic_store(place + 1, uint64_t{words.w} << 32 | words.z, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
#elif defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(pointer), "l"(uint64_t{words.y} << 32 | words.x),
               "l"(uint64_t{words.w} << 32 | words.z)
               : "memory");
#else
  *pointer = words;
#endif
}
ECMV_GPU_DEVICE uint4 load_from_peer(Pointer<uint4> pointer) {
  uint64_t low = 0, high = 0;
#if defined(ECMV_GPU_EMULATOR)
  const auto* const place = reinterpret_cast<const uint64_t*>(&*pointer);
  low = __atomic_load_n(place, __ATOMIC_RELAXED);
  high = __atomic_load_n(place + 1, __ATOMIC_RELAXED);
#elif defined(__HIP_DEVICE_COMPILE__) && defined(__HIP__)
  low = __hip_atomic_load(cast<uint64_t>(pointer), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
  high = __hip_atomic_load(cast<uint64_t>(pointer) + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
#elif defined(__CUDA_ARCH__)
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(low), "=l"(high) : "l"(pointer) : "memory");
#else
  low = uint64_t{pointer->y} << 32 | pointer->x;
  high = uint64_t{pointer->w} << 32 | pointer->z;
#endif
  return {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
          static_cast<uint32_t>(high >> 32)};
}

// Parameters of the exchange: where parts lie in the vector and, in pairs of words, in a buffer.
struct Parts {
  int64_t offsets[kMostPeers + 1];
  int64_t first_pair[kMostPeers];
};

// Loads `count` bytes at `data`, up to 8; the rest are zeros.
ECMV_GPU_DEVICE uint2 load_values(Pointer<const std::byte> data, int64_t at, int64_t count) {
  if (at % 8 == 0 && count >= 8) return *cast<const uint2>(data + at);
  uint64_t bits = 0;
  for (int i = 0; i < 8 && i < count; ++i) bits |= static_cast<uint64_t>(data[at + i]) << (8 * i);
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}
ECMV_GPU_DEVICE void store_values(Pointer<std::byte> data, int64_t at, int64_t count, uint2 values) {
  if (at % 8 == 0 && count >= 8) {
    *cast<uint2>(data + at) = values;
    return;
  }
  const uint64_t bits = uint64_t{values.y} << 32 | values.x;
  for (int i = 0; i < 8 && i < count; ++i) data[at + i] = static_cast<std::byte>(bits >> (8 * i));
}

ECMV_GPU_DEVICE Pointer<std::byte> memory_of(const Peers& peers, int rank) { return peers.memory[rank]; }

ECMV_GPU_DEVICE Pointer<uint4> pairs_of(const Peers& peers, int rank, uint32_t epoch) {
  const int64_t first = PeerLayout::kCounterBytes + PeerLayout::kMeetingBytes;
  return cast<uint4>(memory_of(peers, rank) + first + (epoch % 2) * peers.layout.words_of_buffer * 8);
}

// Waits until both words at `words` have the epoch, and returns their values.
ECMV_GPU_DEVICE uint2 wait_for_pair(Pointer<uint4> words, uint32_t epoch) {
  uint4 word = load_from_peer(words);
  while (word.y != epoch || word.w != epoch) {
    pause_for_peers();
    word = load_from_peer(words);
  }
  return {word.x, word.z};
}

// All threads of a block call it at the end. The last block to end advances the counter.
ECMV_GPU_DEVICE void end_epoch(Pointer<uint32_t> counters, uint32_t epoch) {
  sync_block();
  if (thread_index() != 0) return;
  if (atomic_add(counters + 1, uint32_t{1}) + 1 != static_cast<uint32_t>(grid_size())) return;
  counters[1] = 0;
  counters[0] = epoch;
}

// Pairs of words for a part of this many bytes; at least one, so that nobody goes on without a rank.
ECMV_GPU_BOTH int64_t pairs_of_part(int64_t bytes) { return bytes <= 8 ? 1 : (bytes + 7) / 8; }

ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kThreads, 1) void exchange(const ECMV_GPU_GRID_CONSTANT Peers peers,
                                                           const ECMV_GPU_GRID_CONSTANT Parts parts,
                                                           Pointer<std::byte> data) {
  let_next_begin();
  wait_for_previous();
  const Pointer<uint32_t> counters = cast<uint32_t>(memory_of(peers, peers.rank));
  const uint32_t epoch = counters[0] + 1;
  const int64_t first = block_index() * kThreads + thread_index(), distance = grid_size() * kThreads;
  const int64_t own = parts.offsets[peers.rank], own_bytes = parts.offsets[peers.rank + 1] - own;
  for (int64_t pair = first; pair < pairs_of_part(own_bytes); pair += distance) {
    const uint2 values = load_values(data, own + 8 * pair, own_bytes - 8 * pair);
    for (int i = 1; i < peers.count; ++i)
      store_to_peer(pairs_of(peers, (peers.rank + i) % peers.count, epoch) + parts.first_pair[peers.rank] + pair,
                    uint4{values.x, epoch, values.y, epoch});
  }
  for (int i = 1; i < peers.count; ++i) {
    const int other = (peers.rank + i) % peers.count;
    const int64_t begin = parts.offsets[other], bytes = parts.offsets[other + 1] - begin;
    const Pointer<uint4> words = pairs_of(peers, peers.rank, epoch) + parts.first_pair[other];
    for (int64_t pair = first; pair < pairs_of_part(bytes); pair += distance)
      store_values(data, begin + 8 * pair, bytes - 8 * pair, wait_for_pair(words + pair, epoch));
  }
  end_epoch(counters, epoch);
}

ECMV_GPU_DEVICE float float_of(uint32_t bits) {
  float value = 0;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}
ECMV_GPU_DEVICE uint32_t bits_of(float value) {
  uint32_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// A buffer has `pairs` pairs of words for each rank. A thread reads and writes the same pairs of the vector.
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kThreads, 1) void reduce(const ECMV_GPU_GRID_CONSTANT Peers peers,
                                                         Pointer<std::byte> data, int64_t bytes) {
  let_next_begin();
  wait_for_previous();
  const Pointer<uint32_t> counters = cast<uint32_t>(memory_of(peers, peers.rank));
  const uint32_t epoch = counters[0] + 1;
  const int64_t pairs = pairs_of_part(bytes);
  const int64_t first = block_index() * kThreads + thread_index(), distance = grid_size() * kThreads;
  for (int64_t pair = first; pair < pairs; pair += distance) {
    const uint2 values = load_values(data, 8 * pair, bytes - 8 * pair);
    for (int i = 1; i < peers.count; ++i)
      store_to_peer(pairs_of(peers, (peers.rank + i) % peers.count, epoch) + peers.rank * pairs + pair,
                    uint4{values.x, epoch, values.y, epoch});
  }
  const Pointer<uint4> words = pairs_of(peers, peers.rank, epoch);
  for (int64_t pair = first; pair < pairs; pair += distance) {
    const uint2 own = load_values(data, 8 * pair, bytes - 8 * pair);
    float low = 0, high = 0;
    for (int rank = 0; rank < peers.count; ++rank) {
      const uint2 values = rank == peers.rank ? own : wait_for_pair(words + rank * pairs + pair, epoch);
      low = rank == 0 ? float_of(values.x) : low + float_of(values.x);
      high = rank == 0 ? float_of(values.y) : high + float_of(values.y);
    }
    store_values(data, 8 * pair, bytes - 8 * pair, uint2{bits_of(low), bits_of(high)});
  }
  end_epoch(counters, epoch);
}

// One thread for each rank. A word newer than the round is as good: that rank has been here.
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(32, 1) void meet_all(const ECMV_GPU_GRID_CONSTANT Peers peers, int rounds) {
  const Pointer<uint32_t> counters = cast<uint32_t>(memory_of(peers, peers.rank));
  const uint32_t used = counters[2];
  const int other = thread_index();
  sync_block();
  for (int round = 1; round <= rounds; ++round) {
    if (other < peers.count && other != peers.rank) {
      const uint32_t epoch = used + static_cast<uint32_t>(round);
      const auto word_of = [&](int in, int from) {
        return cast<uint4>(memory_of(peers, in) + PeerLayout::kCounterBytes) + from;
      };
      store_to_peer(word_of(other, peers.rank), uint4{0, epoch, 0, epoch});
      while (static_cast<int32_t>(load_from_peer(word_of(peers.rank, other)).y - epoch) < 0) pause_for_peers();
    }
    sync_block();
  }
  if (other == 0) counters[2] = used + static_cast<uint32_t>(rounds);
}

}  // namespace

void exchange_parts(const Peers& peers, std::byte* data, std::span<const int64_t> offsets, bool early, void* stream) {
  Parts parts{};
  int64_t pairs = 0, most = 1;
  for (int rank = 0; rank < peers.count; ++rank) {
    const auto at = static_cast<size_t>(rank);
    parts.offsets[rank] = offsets[at];
    parts.first_pair[rank] = pairs;
    const int64_t own = pairs_of_part(offsets[at + 1] - offsets[at]);
    pairs += own;
    most = own > most ? own : most;
  }
  parts.offsets[peers.count] = offsets[static_cast<size_t>(peers.count)];
  const int64_t blocks = (most + kThreads - 1) / kThreads;
  launch(exchange, {blocks < kMostBlocks ? blocks : kMostBlocks, kThreads, 0, early}, stream, peers, parts, data);
}

void add_up(const Peers& peers, float* data, int64_t count, bool early, void* stream) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
  const int64_t blocks = (pairs_of_part(bytes) + kThreads - 1) / kThreads;
  launch(reduce, {blocks < kMostBlocks ? blocks : kMostBlocks, kThreads, 0, early}, stream, peers,
         reinterpret_cast<std::byte*>(data), bytes);
}

void meet_peers(const Peers& peers, int rounds, void* stream) { launch(meet_all, {1, 32, 0}, stream, peers, rounds); }

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
