// The emulator must catch divergent collectives, accesses outside buffers and shared memory, and missing barriers; and
// it must compute the results of devices, on waves of 32 and of 64.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <vector>

#include "backends/gpu/async_copy.h"
#include "backends/gpu/cluster.h"
#include "backends/gpu/divisor.h"
#include "backends/gpu/exchange.h"
#include "backends/gpu/lanes.h"
#include "backends/gpu/products/dealt_lines.h"
#include "backends/gpu/products/warpgroup_units.h"

using namespace ecmv;
namespace gpu = backends::gpu;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

// Device memory for a test, registered under the name "numbers".
struct Numbers {
  explicit Numbers(int64_t count) : values(static_cast<size_t>(count) + 16, -1), count(count) {
    gpu::name_range(reinterpret_cast<const std::byte*>(values.data()), count * 4, "numbers");
  }
  ~Numbers() { gpu::forget_range(reinterpret_cast<const std::byte*>(values.data())); }
  int32_t* data() { return values.data(); }
  std::vector<int32_t> values;
  int64_t count;
};

template <typename... Parameters, typename... Arguments>
void run(int wave_size, void (*kernel)(Parameters...), gpu::LaunchShape shape, Arguments... arguments) {
  gpu::Stream stream(wave_size);
  gpu::launch(kernel, shape, stream.opaque(), arguments...);
  stream.synchronize();
}

ECMV_GPU_KERNEL void all_operations(gpu::Pointer<int32_t> wrong) {
  using LaneGroup = gpu::Lanes<32>;
  using Wave = gpu::Wave;
  int mistakes = 0;
  const int lane = LaneGroup::lane();
  const auto odd = LaneGroup::ballot(lane % 2 == 1);
  mistakes += odd != 0xAAAAAAAAu;
  mistakes += LaneGroup::count_before(odd) != lane / 2;
  mistakes += LaneGroup::shuffle(gpu::thread_index(), 5) != gpu::thread_index() / 32 * 32 + 5;
  mistakes += LaneGroup::shuffle_xor(lane, 3) != (lane ^ 3);
  mistakes += LaneGroup::shuffle_up(lane, 2) != (lane < 2 ? lane : lane - 2);
  mistakes += LaneGroup::shuffle_down(lane, 2) != (lane > 29 ? lane : lane + 2);
  mistakes += LaneGroup::reduce_add(lane) != 31 * 16;
  mistakes += LaneGroup::prefix_add(lane) != lane * (lane - 1) / 2;
  mistakes += Wave::reduce_add(1) != gpu::wave_size();
  mistakes += Wave::any(Wave::lane() == 40) != (gpu::wave_size() == 64);
  mistakes += gpu::Lanes<8>::ballot(gpu::thread_index() % 8 == 2) != 4;
  // Groups of a wave may take different paths.
  if (LaneGroup::group() % 2 == 0) mistakes += LaneGroup::reduce_add(1) != 32;
  wrong[gpu::block_index() * gpu::block_size() + gpu::thread_index()] = mistakes;
}

ECMV_GPU_KERNEL void block_reversal(gpu::Pointer<int32_t> out) {
  const gpu::Pointer<int32_t> shared = gpu::cast<int32_t>(gpu::shared_memory());
  shared[gpu::thread_index()] = gpu::thread_index();
  gpu::sync_block();
  out[gpu::thread_index()] = shared[gpu::block_size() - 1 - gpu::thread_index()];
}

// Each block counts on the one before it.
ECMV_GPU_KERNEL void sum_of_blocks(gpu::Pointer<int32_t> out) {
  const int block = static_cast<int>(gpu::block_index());
  if (gpu::thread_index() == 0) out[block] = 1 + (block > 0 ? out[block - 1] : 0);
}

ECMV_GPU_KERNEL void reversal_without_barrier(gpu::Pointer<int32_t> out) {
  const gpu::Pointer<int32_t> shared = gpu::cast<int32_t>(gpu::shared_memory());
  shared[gpu::thread_index()] = gpu::thread_index();
  out[gpu::thread_index()] = shared[gpu::thread_index() ^ 1];
}

// Reads the value stored by the thread of the same number in the cluster's other block. Where it lies depends on the
// block's addresses, so these must be alike.
ECMV_GPU_KERNEL void swaps_with_neighbour(gpu::Pointer<int32_t> out, int barriers) {
  const gpu::Pointer<gpu::uint4> own =
      gpu::cast<gpu::uint4>(gpu::first_block(gpu::shared_memory())) + gpu::thread_index();
  const auto block = static_cast<uint32_t>(gpu::block_index());
  *own = gpu::uint4{0, 0, 0, block};
  if (barriers > 0) gpu::sync_cluster();
  const gpu::uint4 other = gpu::load_of_block(own, 1 - gpu::cluster_rank());
  if (barriers > 1) gpu::sync_cluster();
  out[gpu::block_index() * gpu::block_size() + gpu::thread_index()] = static_cast<int32_t>(other.w);
}

// Stores its block's number in the next block of the cluster and reads what came from the one before. `given` lanes
// store.
ECMV_GPU_KERNEL void gives_to_next(gpu::Pointer<int32_t> out, int blocks, int given) {
  const gpu::Pointer<std::byte> shared = gpu::first_block(gpu::shared_memory());
  const gpu::Delivery delivery(shared);
  const int thread = gpu::thread_index(), rank = gpu::cluster_rank();
  if (thread == 0) delivery.init(gpu::block_size() * 16);
  gpu::sync_block();
  gpu::ClusterMeeting().wait();
  const gpu::Pointer<gpu::uint4> place = gpu::cast<gpu::uint4>(shared + 16) + thread;
  const auto number = static_cast<float>(gpu::block_index() * gpu::block_size() + thread);
  if (thread < given) delivery.store(place, (rank + 1) % blocks, {0, number, 0, 0});
  if (thread < given - gpu::block_size()) delivery.store(place, (rank + 1) % blocks, {0, 0, 0, 0});
  delivery.wait();
  out[gpu::block_index() * gpu::block_size() + thread] = static_cast<int32_t>(gpu::float_of((*place).y));
}

ECMV_GPU_KERNEL void one_block_skips_the_barrier() {
  if (gpu::cluster_rank() == 0) gpu::sync_cluster();
}

ECMV_GPU_KERNEL void some_lanes_skip_the_ballot() {
  if (gpu::Lanes<32>::lane() < 20) gpu::Lanes<32>::ballot(true);
}

ECMV_GPU_KERNEL void lanes_meet_in_different_lines() {
  if (gpu::Lanes<32>::lane() == 7)
    gpu::Lanes<32>::ballot(true);
  else
    gpu::Lanes<32>::ballot(false);
}

ECMV_GPU_KERNEL void one_thread_skips_the_barrier() {
  if (gpu::thread_index() != 33) gpu::sync_block();
}

ECMV_GPU_KERNEL void reads_past_the_end(gpu::Pointer<const int32_t> numbers, int64_t at) {
  if (gpu::thread_index() == 3 && numbers[at] == 42) gpu::Wave::sync();
}

ECMV_GPU_KERNEL void reads_past_shared_memory(int at) { (void)(gpu::shared_memory()[at] == std::byte{0}); }

ECMV_GPU_KERNEL void writes_shared_raw(int at) { gpu::shared_memory().address()[at] = std::byte{1}; }

ECMV_GPU_KERNEL void reads_misaligned(gpu::Pointer<const int32_t> numbers) {
  (void)(*gpu::cast<const int32_t>(gpu::cast<const std::byte>(numbers) + 2) == 0);
}

// Stages two groups of 16 bytes a lane. Reads the first after a wait for it, and the second after a wait only if told
// to.
ECMV_GPU_KERNEL void staged(gpu::Pointer<const int32_t> from, gpu::Pointer<int32_t> to, int wait_for_second) {
  const int at = 16 * gpu::thread_index(), second = 16 * gpu::block_size();
  const gpu::Pointer<const std::byte> global = gpu::cast<const std::byte>(from);
  gpu::copy_async<16>(gpu::shared_memory() + at, global + at);
  gpu::commit_copies();
  gpu::copy_async<16>(gpu::shared_memory() + (second + at), global + (second + at));
  gpu::commit_copies();
  gpu::wait_copies<1>();
  gpu::sync_block();
  const gpu::Pointer<const int32_t> shared = gpu::cast<const int32_t>(gpu::shared_memory());
  to[gpu::thread_index()] = shared[gpu::thread_index()];
  if (wait_for_second != 0) gpu::wait_copies<0>();
  gpu::sync_block();
  to[gpu::block_size() + gpu::thread_index()] = shared[second / 4 + gpu::thread_index()];
}

// In every layer each block puts words of its own, each a sum over all words of the layer before, and each thread polls
// words of all blocks.
ECMV_GPU_KERNEL void sums_of_sums(gpu::Exchange exchange, int layers, gpu::Pointer<int32_t> out) {
  const gpu::Pointer<uint32_t> sum = gpu::cast<uint32_t>(gpu::shared_memory());
  const int words = 2 * static_cast<int>(gpu::grid_size());
  exchange.begin();
  for (int layer = 0; layer < layers; ++layer) {
    if (gpu::thread_index() == 0) *sum = 0;
    gpu::sync_block();
    for (int word = gpu::thread_index(); layer > 0 && word < words; word += gpu::block_size())
      gpu::atomic_add(sum, exchange.get(layer - 1, word));
    gpu::sync_block();
    if (gpu::thread_index() < 2) exchange.put(layer, 2 * gpu::block_index() + gpu::thread_index(), *sum + 1);
    gpu::sync_block();
  }
  if (gpu::thread_index() != 0) return;
  out[gpu::block_index()] = static_cast<int32_t>(*sum);
  exchange.end(layers);
}

ECMV_GPU_KERNEL void waits_for_nobody(gpu::Exchange exchange) {
  exchange.begin();
  (void)exchange.get(0, gpu::thread_index() % 2);
}

// Device memory of an exchange, ready for its first launch.
struct ExchangeMemory {
  explicit ExchangeMemory(int64_t words)
      : memory(gpu::Exchange::bytes(words) / 4), exchange(reinterpret_cast<std::byte*>(memory.data()), words) {
    std::fill(memory.values.begin(), memory.values.end(), 0);
    memory.values[0] = 1;
  }
  Numbers memory;
  gpu::Exchange exchange;
};

// The first lane copies two rows in bulk, one phase each through one place. Everybody reads both, the second before its
// wait if told to.
ECMV_GPU_KERNEL void staged_in_bulk(gpu::Pointer<const int32_t> from, gpu::Pointer<int32_t> to, int wait_for_second) {
  const gpu::Arrival arrival(gpu::shared_memory());
  const gpu::Pointer<std::byte> row = gpu::shared_memory() + 16;
  const int bytes = 4 * gpu::block_size();
  if (gpu::thread_index() == 0) arrival.init();
  gpu::sync_block();
  for (int phase = 0; phase < 2; ++phase) {
    if (gpu::thread_index() == 0) {
      arrival.expect(bytes);
      arrival.copy(row, gpu::cast<const std::byte>(from + phase * gpu::block_size()), bytes);
    }
    gpu::sync_block();
    if (phase == 0 || wait_for_second != 0) arrival.wait(phase);
    to[phase * gpu::block_size() + gpu::thread_index()] = gpu::cast<const int32_t>(row)[gpu::thread_index()];
    gpu::sync_block();
  }
}

// A fault unwinds fibers whose stacks AddressSanitizer does not know, so it reports false errors, here and in later
// tests.
void skip_under_address_sanitizer() {
#if defined(__SANITIZE_ADDRESS__)
  SKIP("AddressSanitizer does not follow exceptions on fibers.");
#endif
}

int any_wave_size() { return GENERATE(32, 64); }

ECMV_GPU_KERNEL void has_blocks(int from, int further) {
  const gpu::SharedBlocks blocks(gpu::first_block(gpu::shared_memory() + from) + further);
  (void)*gpu::cast<const uint8_t>(blocks.first());
}

// Copies eight lines of 16 numbers, four a lane, and counts numbers that lanes are not dealt as told.
ECMV_GPU_KERNEL void deals_lines(gpu::Pointer<int32_t> wrong) {
  const int lane = gpu::Lanes<32>::lane(), line = lane / 4, t = lane % 4;
  const auto number = [&](int i) { return static_cast<uint32_t>(16 * line + i); };
  *gpu::cast<gpu::uint4>(gpu::shared_memory() + gpu::dealt_place(line, t)) = {number(4 * t), number(4 * t + 1),
                                                                              number(4 * t + 2), number(4 * t + 3)};
  gpu::Lanes<32>::sync();
  const gpu::uint4 words = gpu::load_dealt(gpu::shared_memory());
  wrong[lane] =
      (words.x != number(t)) + (words.y != number(4 + t)) + (words.z != number(8 + t)) + (words.w != number(12 + t));
}

}  // namespace

TEST_CASE("lane operations compute what devices compute") {
  const int wave_size = any_wave_size();
  Numbers wrong(3 * 128);
  run(wave_size, all_operations, {3, 128, 0}, wrong.data());
  CHECK(wrong.values[0] == 0);
  CHECK(std::vector<int32_t>(wrong.values.begin(), wrong.values.begin() + wrong.count) ==
        std::vector<int32_t>(wrong.count, 0));
  CHECK(wrong.values[wrong.count] == -1);
}

TEST_CASE("a barrier makes the block's shared memory whole, in both orders of the lanes") {
  const int wave_size = any_wave_size();
  gpu::Stream stream(wave_size);
  for (int order = 0; order < 2; ++order) {
    Numbers out(192);
    gpu::launch(block_reversal, {1, 192, 192 * 4}, stream.opaque(), out.data());
    stream.synchronize();
    for (int i = 0; i < 192; ++i) REQUIRE(out.values[i] == 191 - i);
  }
}

TEST_CASE("a missing barrier shows in one of the orders") {
  gpu::Stream stream(32);
  int wrong = 0;
  for (int order = 0; order < 2; ++order) {
    Numbers out(32);
    gpu::launch(reversal_without_barrier, {1, 32, 32 * 4}, stream.opaque(), out.data());
    stream.synchronize();
    for (int i = 0; i < 32; ++i) wrong += out.values[i] != (i ^ 1);
  }
  CHECK(wrong > 0);
}

TEST_CASE("a block that counts on earlier ones shows") {
  gpu::Stream stream(32);
  Numbers out(8);
  gpu::launch(sum_of_blocks, {8, 32, 0}, stream.opaque(), out.data());
  stream.synchronize();
  CHECK_FALSE(std::ranges::equal(std::span(out.values).first(8), std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_CASE("a collective that lanes skip is reported with thread and source line") {
  skip_under_address_sanitizer();
  const int wave_size = any_wave_size();
  CHECK_THROWS_MATCHES(
      run(wave_size, some_lanes_skip_the_ballot, {1, 64, 0}), backends::emulator::KernelFault,
      MessageMatches(ContainsSubstring("thread 0 to 19 are at ballot (tests/emulator/emulator_test.cpp:") &&
                     ContainsSubstring("thread 20 to 31 have ended")));
}

TEST_CASE("a collective that lanes reach in different lines is reported") {
  skip_under_address_sanitizer();
  CHECK_THROWS_MATCHES(run(any_wave_size(), lanes_meet_in_different_lines, {1, 64, 0}), backends::emulator::KernelFault,
                       MessageMatches(ContainsSubstring("Divergent collective in block 0") &&
                                      ContainsSubstring("thread 7 is at ballot")));
}

TEST_CASE("a barrier that one thread skips is reported") {
  skip_under_address_sanitizer();
  CHECK_THROWS_MATCHES(run(any_wave_size(), one_thread_skips_the_barrier, {2, 64, 0}), backends::emulator::KernelFault,
                       MessageMatches(ContainsSubstring("thread 33 has ended") && ContainsSubstring("sync_block")));
}

TEST_CASE("an access outside a buffer is reported with the buffer's name") {
  skip_under_address_sanitizer();
  Numbers numbers(10);
  for (const int64_t at : {int64_t{10}, int64_t{-1}, int64_t{1} << 40})
    CHECK_THROWS_MATCHES(
        run(any_wave_size(), reads_past_the_end, {1, 64, 0}, numbers.data(), at), backends::emulator::KernelFault,
        MessageMatches(ContainsSubstring("Thread 3 of block 0") &&
                       ContainsSubstring("at byte " + std::to_string(4 * at) + " of numbers, which has 40 bytes")));
  CHECK_THROWS_MATCHES(run(32, reads_misaligned, {1, 32, 0}, numbers.data()), backends::emulator::KernelFault,
                       MessageMatches(ContainsSubstring("misaligned access of 4 bytes at byte 2 of numbers")));
  int32_t nobodys = 0;
  CHECK_THROWS_MATCHES(run(32, reads_past_the_end, {1, 32, 0}, &nobodys, 0), backends::emulator::KernelFault,
                       MessageMatches(ContainsSubstring("a pointer into no buffer")));
}

TEST_CASE("an access outside shared memory is reported, through checked and through raw pointers") {
  skip_under_address_sanitizer();
  CHECK_THROWS_MATCHES(run(any_wave_size(), reads_past_shared_memory, {1, 32, 100}, 100),
                       backends::emulator::KernelFault,
                       MessageMatches(ContainsSubstring("of shared memory, which has 100 bytes")));
  CHECK_THROWS_MATCHES(run(any_wave_size(), writes_shared_raw, {1, 32, 100}, 100), backends::emulator::KernelFault,
                       MessageMatches(ContainsSubstring("wrote outside its 100 bytes of shared memory")));
}

TEST_CASE("asynchronous copies have arrived after the wait for them; an access before it is reported") {
  skip_under_address_sanitizer();
  Numbers from(512), to(128);
  for (int i = 0; i < 512; ++i) from.values[i] = i;
  run(any_wave_size(), staged, {1, 64, 2048}, from.data(), to.data(), 1);
  for (int i = 0; i < 64; ++i) {
    REQUIRE(to.values[i] == i);
    REQUIRE(to.values[64 + i] == 256 + i);
  }
  CHECK_THROWS_MATCHES(
      run(any_wave_size(), staged, {1, 64, 2048}, from.data(), to.data(), 0), backends::emulator::KernelFault,
      MessageMatches(ContainsSubstring("of shared memory, to which an asynchronous copy is under way")));
  CHECK_THROWS_MATCHES(run(any_wave_size(), staged, {1, 64, 2047}, from.data(), to.data(), 1),
                       backends::emulator::KernelFault,
                       MessageMatches(ContainsSubstring("of shared memory, which has 2047 bytes")));
}

TEST_CASE("bulk copies have arrived after the wait for their phase; an access before it is reported") {
  skip_under_address_sanitizer();
  Numbers from(256), to(256);
  for (int i = 0; i < 256; ++i) from.values[i] = i;
  run(any_wave_size(), staged_in_bulk, {1, 128, 16 + 512}, from.data(), to.data(), 1);
  for (int i = 0; i < 256; ++i) REQUIRE(to.values[i] == i);
  CHECK_THROWS_MATCHES(
      run(any_wave_size(), staged_in_bulk, {1, 128, 16 + 512}, from.data(), to.data(), 0),
      backends::emulator::KernelFault,
      MessageMatches(ContainsSubstring("of shared memory, to which an asynchronous copy is under way")));
  CHECK_THROWS_MATCHES(run(any_wave_size(), staged_in_bulk, {1, 128, 16 + 511}, from.data(), to.data(), 1),
                       backends::emulator::KernelFault,
                       MessageMatches(ContainsSubstring("of shared memory, which has 527 bytes")));
  CHECK_THROWS_MATCHES(
      run(any_wave_size(), staged_in_bulk, {1, 130, 16 + 520}, from.data(), to.data(), 1),
      backends::emulator::KernelFault,
      MessageMatches(ContainsSubstring("a bulk copy of 520 bytes; sizes and addresses are multiples of 16")));
}

TEST_CASE("blocks of tokens that lie where matrix units could not read them are reported") {
  skip_under_address_sanitizer();
  run(any_wave_size(), has_blocks, {1, 32, 3 * gpu::kBlockAlignment}, 2 * gpu::kBlockAlignment - 16, 0);
  CHECK_THROWS_MATCHES(run(any_wave_size(), has_blocks, {1, 32, 3 * gpu::kBlockAlignment}, 0, 512),
                       backends::emulator::KernelFault,
                       MessageMatches(ContainsSubstring("begins at no multiple of 1024 bytes")));
}

TEST_CASE("a stream goes on after a reported fault") {
  skip_under_address_sanitizer();
  gpu::Stream stream(32);
  Numbers wrong(64);
  gpu::launch(some_lanes_skip_the_ballot, {1, 64, 0}, stream.opaque());
  gpu::launch(all_operations, {1, 64, 0}, stream.opaque(), wrong.data());
  CHECK_THROWS_AS(stream.synchronize(), backends::emulator::KernelFault);
  CHECK(wrong.values[0] == -1);
  gpu::launch(all_operations, {1, 64, 0}, stream.opaque(), wrong.data());
  CHECK_NOTHROW(stream.synchronize());
  CHECK(wrong.values[0] == 0);
}

TEST_CASE("blocks that run together exchange words, in launch after launch") {
  const int wave_size = any_wave_size();
  constexpr int kBlocks = 4, kLayers = 5;
  ExchangeMemory memory(2 * kBlocks);
  gpu::Stream stream(wave_size);
  int32_t expected = 0;
  for (int layer = 1; layer < kLayers; ++layer) expected = 2 * kBlocks * (expected + 1);
  for (int launch = 0; launch < 4; ++launch) {
    Numbers out(kBlocks);
    gpu::launch(sums_of_sums, {.grid = kBlocks, .block = 192, .shared_bytes = 4, .together = true}, stream.opaque(),
                memory.exchange, kLayers, out.data());
    stream.synchronize();
    for (int i = 0; i < kBlocks; ++i) REQUIRE(out.values[i] == expected);
  }
}

TEST_CASE("blocks that wait for words which nobody puts are reported as a deadlock") {
  skip_under_address_sanitizer();
  ExchangeMemory memory(8);
  Numbers out(4);
  CHECK_THROWS_MATCHES(
      run(any_wave_size(), waits_for_nobody, {.grid = 2, .block = 64, .together = true}, memory.exchange),
      backends::emulator::KernelFault,
      MessageMatches(ContainsSubstring("Deadlock") && ContainsSubstring("first thread 0 of block 0")));
  // Blocks of a plain launch need not be alive at once.
  CHECK_THROWS_MATCHES(run(any_wave_size(), sums_of_sums, {4, 64, 4}, memory.exchange, 2, out.data()),
                       backends::emulator::KernelFault, MessageMatches(ContainsSubstring("Deadlock")));
}

TEST_CASE("more blocks than the device has room for do not run together") {
  skip_under_address_sanitizer();
  ExchangeMemory memory(18);
  Numbers out(9);
  CHECK_THROWS_MATCHES(run(32, sums_of_sums, {.grid = 9, .block = 1024, .shared_bytes = 4, .together = true},
                           memory.exchange, 2, out.data()),
                       backends::emulator::KernelFault,
                       MessageMatches(ContainsSubstring("9 blocks of 1024 threads must run together")));
}

TEST_CASE("blocks of a cluster read each other's shared memory, and missing barriers show") {
  constexpr int kBlocks = 6, kThreads = 64;
  for (int barriers = 0; barriers <= 2; ++barriers) {
    gpu::Stream stream(any_wave_size());
    int wrong = 0;
    for (int order = 0; order < 2; ++order) {
      Numbers out(kBlocks * kThreads);
      gpu::launch(
          swaps_with_neighbour,
          {.grid = kBlocks, .block = kThreads, .shared_bytes = kThreads * 16 + gpu::kBlockAlignment, .cluster = 2},
          stream.opaque(), out.data(), barriers);
      stream.synchronize();
      for (int i = 0; i < kBlocks * kThreads; ++i) wrong += out.values[static_cast<size_t>(i)] != (i / kThreads ^ 1);
    }
    CHECK((wrong == 0) == (barriers == 2));
  }
}

TEST_CASE("blocks of a cluster store in each other's shared memory, and wait until all has come") {
  skip_under_address_sanitizer();
  constexpr int kThreads = 64, kBlocks = 8;
  const auto give = [](Numbers& out, int cluster, int given) {
    run(32, gives_to_next,
        {.grid = kBlocks,
         .block = kThreads,
         .shared_bytes = kThreads * 16 + gpu::kBlockAlignment + 16,
         .cluster = cluster},
        out.data(), cluster, given);
  };
  for (const int cluster : {2, 4, 8}) {
    Numbers out(kBlocks * kThreads);
    give(out, cluster, kThreads);
    int wrong = 0;
    for (int i = 0; i < kBlocks * kThreads; ++i) {
      const int block = i / kThreads, from = block / cluster * cluster + (block + cluster - 1) % cluster;
      wrong += out.values[static_cast<size_t>(i)] != from * kThreads + i % kThreads;
    }
    CHECK(wrong == 0);
  }
  Numbers out(kBlocks * kThreads);
  CHECK_THROWS_MATCHES(give(out, 2, kThreads - 1), backends::emulator::KernelFault,
                       MessageMatches(ContainsSubstring("Deadlock")));
  CHECK_THROWS_MATCHES(give(out, 2, kThreads + 1), backends::emulator::KernelFault,
                       MessageMatches(ContainsSubstring("more bytes came")));
}

TEST_CASE("clusters that cannot be, and blocks that are not in the cluster, are reported") {
  skip_under_address_sanitizer();
  Numbers out(3 * 64);
  CHECK_THROWS_MATCHES(
      run(32, swaps_with_neighbour, {.grid = 3, .block = 64, .shared_bytes = 2048, .cluster = 2}, out.data(), 2),
      backends::emulator::KernelFault, MessageMatches(ContainsSubstring("3 blocks were asked for in clusters of 2")));
  CHECK_THROWS_MATCHES(run(32, swaps_with_neighbour, {1, 64, 2048}, out.data(), 2), backends::emulator::KernelFault,
                       MessageMatches(ContainsSubstring("block 1 of a cluster of 1 is read")));
  CHECK_THROWS_MATCHES(run(32, one_block_skips_the_barrier, {.grid = 2, .block = 64, .cluster = 2}),
                       backends::emulator::KernelFault, MessageMatches(ContainsSubstring("Deadlock")));
}

TEST_CASE("portable forms of device instructions are right") {
  CHECK(gpu::dot4(0x01FF807F, 0x02037F80, 10) == 10 + 1 * 2 + -1 * 3 + -128 * 127 + 127 * -128);
  CHECK(gpu::dot4_unsigned_signed(0xFF000001u, static_cast<int32_t>(0x80000002u), 1) == 1 + 255 * -128 + 2);
  CHECK(gpu::add_bytes(0x01FF7F80u, 0x0201017Fu) == 0x030080FFu);
  CHECK(gpu::add_bytes(0xFF80FF00u, 0xFF80017Fu) == 0xFE00007Fu);
  CHECK(gpu::byte_permute(0x33221100u, 0x77665544u, 0x7106) == 0x77110066u);
  CHECK(gpu::funnel_shift_right(0x89ABCDEFu, 0x01234567u, 8) == 0x6789ABCDu);
  CHECK(gpu::funnel_shift_right(0x89ABCDEFu, 0x01234567u, 32) == 0x89ABCDEFu);
  CHECK(gpu::leading_zeros(0) == 32);
}

TEST_CASE("lanes are dealt every fourth word of a line") {
  Numbers wrong(32);
  run(32, deals_lines, {.grid = 1, .block = 32, .shared_bytes = 8 * gpu::kDealtLineBytes}, wrong.data());
  CHECK(std::all_of(wrong.values.begin(), wrong.values.begin() + 32, [](int32_t count) { return count == 0; }));
}

TEST_CASE("a divisor divides as integers do, up to its bound") {
  int64_t mistakes = 0;
  for (int64_t number = 1; number <= 20'000; number += number < 600 ? 1 : 97) {
    const gpu::Divisor divisor(static_cast<int>(number));
    const int64_t most = ((int64_t{1} << 31) - 1) / number;
    for (int64_t n : {int64_t{0}, number - 1, number, 2 * number - 1, most / number * number - 1, most - 1, most})
      if (n >= 0 && n <= most) mistakes += divisor.quotient(static_cast<int>(n)) != n / number;
  }
  CHECK(mistakes == 0);
}
