// One thread block on the host: a fiber a lane. Lanes run one after another up to their next collective (ballot,
// shuffle, barrier); when all lanes of its group stand at the same one, in the same source line, they go on. A group
// that can never get there is reported: a lane that skips a collective is undefined behaviour on devices and an error
// here. Whole waves advance together, waves of a block in turn, blocks of a grid one after another, or in turn where
// the launch says that all of them run together. Lanes that wait for other blocks pause(); a grid in which nothing else
// happens any more is a deadlock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace ecmv::backends::emulator {

// What a kernel did wrong: a divergent collective, an access outside its buffers; a sentence with lane and source line.
struct KernelFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A place where lanes meet. `scope` lanes, aligned in their wave, take part; kWholeBlock means all threads, -n - 1 the
// block's first n.
struct Collective {
  const char* operation = nullptr;
  const char* file = nullptr;
  int line = 0;
  int scope = 0;
};
inline constexpr int kWholeBlock = -1;

struct Grid {
  int64_t blocks = 1;
  int threads = 1;
  int64_t shared_bytes = 0;
  int wave_size = 32;
  // Lanes run in descending order within a step. Results that depend on the order show a missing barrier.
  bool reversed = false;
  // All blocks are alive at once, as in a cooperative launch.
  bool together = false;
  // So many blocks are a cluster, which are alive at once.
  int cluster = 1;
};

// The emulated devices. A compute unit has room for this many threads: more cannot run together.
inline constexpr int kComputeUnits = 4, kThreadsOfComputeUnit = 2048;

// Runs `kernel` once for every thread of the grid. Throws the first KernelFault; what other lanes would have done is
// lost.
void run_grid(const Grid& grid, const std::function<void()>& kernel);

// Inside a kernel: where this lane is.
int thread_index();
int block_size();
int64_t block_index();
int64_t grid_size();
int wave_size();
// The block's dynamic shared memory.
std::byte* shared_data();

// Clusters: this block's number in its own, the shared memory of block number `rank`, and a barrier of all of their
// lanes.
int cluster_rank();
std::byte* shared_data_of(int rank);
void meet_cluster();

// Meets the other lanes, handing them `operand`. The result holds what each lane of the group handed in, in order, and
// is valid until this lane's next meeting. For scopes beyond a wave it is null.
const uint64_t* meet(const Collective& place, uint64_t operand);

// Lets everybody else run before this lane goes on.
void pause();
// The same where it waits for another process, which may take as long as it likes: no deadlock.
void pause_for_peers();

// Asynchronous copies of this lane: they happen when finish_copies() leaves at most `pending` committed groups.
void queue_copy(std::byte* to, const std::byte* from, int bytes);
void commit_queued_copies();
void finish_copies(int pending);

// Bulk copies, which belong to a place in shared memory: they happen, and the place's count of phases goes up, when a
// lane waits there and all bytes that the phase expects have been asked for.
void expect_bulk(uint64_t* place, int bytes);
void queue_bulk(uint64_t* place, std::byte* to, const std::byte* from, int bytes);
bool finish_bulk(uint64_t* place);  // whether a phase ended

// Ends the launch with this sentence and the lane's position in front.
[[noreturn]] void fault(const std::string& sentence);

}  // namespace ecmv::backends::emulator
