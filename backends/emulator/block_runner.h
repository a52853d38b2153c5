// Runs one thread block on the host, with a fiber for each lane. Lanes run one after another up to their next
// collective (ballot, shuffle, barrier). When all lanes of a group stand at the same one, in the same source line, they
// go on. A group that can never get there is reported: on devices a lane that skips a collective is undefined
// behaviour, here it is an error. Whole waves advance together, and the waves of a block take turns. The blocks of a
// grid run one after another, or in turn where the launch says that all of them run together. Lanes that wait for other
// blocks pause(); a grid in which every lane pauses for ever is a deadlock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace ecmv::backends::emulator {

// A kernel's mistake, such as a divergent collective or an access outside its buffers: a sentence with lane and source
// line.
struct KernelFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A place where lanes meet. `scope` is the number of lanes that take part, aligned in their wave; kWholeBlock means all
// threads, -n - 1 the block's first n.
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
  // Lanes run in descending order within a step. A missing barrier shows in results that depend on the order.
  bool reversed = false;
  // All blocks are alive at once, as in a cooperative launch.
  bool together = false;
  // Blocks in a cluster; they are alive at once.
  int cluster = 1;
  // Blocks begin in the order of their numbers. Others are shuffled.
  bool in_order = false;
};

// The emulated devices. A compute unit has room for this many threads at once.
inline constexpr int kThreadsOfComputeUnit = 2048;
// The device's multiprocessors, 4 or what ECMV_EMULATED_UNITS says.
int compute_units();
// An environment variable's number, between the least, which is also that of one that is not set, and the most.
int64_t asked_for(const char* variable, int64_t least, int64_t most);

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
int64_t arrive_at_cluster();  // what wait_for_cluster() takes
void wait_for_cluster(int64_t goes_on);

// Meets the other lanes and hands them `operand`. The result holds the operands of all lanes of the group, in order,
// until this lane's next meeting. It is null for scopes beyond a wave.
const uint64_t* meet(const Collective& place, uint64_t operand);

// Lets everybody else run before this lane goes on.
void pause();
// The same while this lane waits for another process, however long: no deadlock.
void pause_for_peers();

// Queues an asynchronous copy of this lane. It happens when finish_copies() leaves at most `pending` committed groups.
void queue_copy(std::byte* to, const std::byte* from, int bytes);
void commit_queued_copies();
void finish_copies(int pending);

// Bulk copies belong to a place in shared memory. They happen, and the place's count of phases goes up, when a lane
// waits there and all bytes that the phase expects have been asked for.
void expect_bulk(uint64_t* place, int bytes);
void queue_bulk(uint64_t* place, std::byte* to, const std::byte* from, int bytes);
bool finish_bulk(uint64_t* place);  // true if a phase ended

// Ends the launch with this sentence, preceded by the lane's position.
[[noreturn]] void fault(const std::string& sentence);

}  // namespace ecmv::backends::emulator
