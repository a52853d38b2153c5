// See block_runner.h. Each lane has two slots: `operand`, written on arrival, and `met`, the group's copy, taken when
// the group is complete. A complete group goes on in the next step, in which every lane reads `met` before anyone can
// complete the next collective. So one switch a collective is enough.
#include "backends/emulator/block_runner.h"

#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "backends/emulator/checked_memory.h"

namespace ecmv::backends::emulator {
namespace {

namespace context = boost::context;

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kStackBytes = size_t{256} << 10;
#else
constexpr size_t kStackBytes = size_t{64} << 10;
#endif
constexpr int64_t kSharedGuardBytes = 256;

bool same_place(const Collective& a, const Collective& b) {
  return a.line == b.line && a.scope == b.scope && std::strcmp(a.operation, b.operation) == 0 &&
         std::strcmp(a.file, b.file) == 0;
}

std::string describe(const Collective& place) {
  // Shorten the path to the part from the repository's root on.
  const char* file = place.file;
  for (const char* room : {"/codecs/", "/backends/", "/tests/"})
    if (const char* found = std::strstr(place.file, room)) file = found + 1;
  return std::string(place.operation) + " (" + file + ":" + std::to_string(place.line) + ")";
}

// After this many rounds over all blocks in which lanes only paused, they count as deadlocked. A lane that looks at one
// word after another pauses once for each that is missing.
constexpr int kMostIdleRounds = 10000;

enum class State : uint8_t { ready, paused, meeting, finished };

struct QueuedCopy {
  std::byte* to;
  const std::byte* from;
  int bytes, group;
};

// The bytes on their way to one place in one phase.
struct BulkPhase {
  std::vector<QueuedCopy> copies;
  int expected = -1, asked = 0;  // bytes
};

struct Lane {
  context::fiber fiber;
  State state = State::ready;
  Collective place;
  uint64_t operand = 0;
  std::vector<QueuedCopy> copies;
  int copy_group = 0;
};

// Stacks are kept from launch to launch, or a launch of 1024 lanes would spend its time in the allocator.
context::pooled_fixedsize_stack& stacks() {
  thread_local context::pooled_fixedsize_stack pool(kStackBytes);
  return pool;
}

class Block;
thread_local Block* running_block = nullptr;

// Blocks that are alive at once.
struct Cluster {
  std::vector<Block*> blocks;
  int64_t arrived = 0;  // lanes at barriers
};

// A block's shared memory: between guards, and named for reports while the block runs.
class SharedMemory {
 public:
  explicit SharedMemory(int64_t bytes)
      : bytes_(bytes),
        all_(static_cast<size_t>(bytes + 2 * kSharedGuardBytes + kAlignment)),
        in_flight_(static_cast<size_t>(bytes / 4 + 1)) {
    const auto address = reinterpret_cast<uintptr_t>(all_.data()) + kSharedGuardBytes;
    data_ = reinterpret_cast<std::byte*>((address - kBegin + kAlignment - 1) / kAlignment * kAlignment + kBegin);
  }
  ~SharedMemory() { leave(); }

  std::byte* data() const { return data_; }
  void begin() {
    // The garbage is neither zero nor left from the block before, so reading before writing shows.
    std::memset(all_.data(), kGarbage, all_.size());
    std::fill(in_flight_.begin(), in_flight_.end(), uint8_t{0});
    name_range(data_, bytes_, "shared memory", in_flight_.data());
    named_ = true;
  }
  void clear() { std::memset(data_, kGarbage, static_cast<size_t>(bytes_)); }
  bool guards_intact() const {
    for (const std::byte* p = all_.data(); p != all_.data() + all_.size(); ++p)
      if ((p < data_ || p >= data_ + bytes_) && *p != std::byte{kGarbage}) return false;
    return true;
  }
  void leave() {
    if (named_) forget_range(data_);
    named_ = false;
  }
  // Counts asynchronous copies to these bytes: `change` is 1 when one begins, -1 when a lane has waited for it.
  void count_in_flight(const std::byte* to, int bytes, int change) {
    for (int64_t word = (to - data_) / 4; word < (to - data_ + bytes) / 4; ++word)
      in_flight_[static_cast<size_t>(word)] = static_cast<uint8_t>(in_flight_[static_cast<size_t>(word)] + change);
  }

 private:
  static constexpr int kGarbage = 0xA5;
  // It begins at the same place of a KiB in all blocks, as on devices, where a block finds another one's by its own
  // addresses; and not at a multiple of more than 256 bytes, which no device promises.
  static constexpr uintptr_t kAlignment = 1024, kBegin = 256;
  int64_t bytes_;
  std::vector<std::byte> all_;
  std::byte* data_ = nullptr;
  std::vector<uint8_t> in_flight_;  // copies to each 4 bytes
  bool named_ = false;
};

class Block {
 public:
  Block(const Grid& grid, const std::function<void()>& kernel, Cluster& cluster)
      : grid_(grid),
        kernel_(kernel),
        cluster_(cluster),
        lanes_(grid.threads),
        met_(grid.threads),
        shared_(grid.shared_bytes) {}

  void begin(int64_t index) {
    index_ = index;
    finished_ = false;
    shared_.begin();
    bulk_.clear();
    for (size_t i = 0; i < lanes_.size(); ++i) start(lanes_[i]);
  }

  // Runs every lane until it has finished or paused. Returns whether anything but pausing happened.
  bool advance() {
    if (finished_) return false;
    progress_ = false;
    for (Lane& lane : lanes_)
      if (lane.state == State::paused) lane.state = State::ready;
    while (advance_to_barrier()) {
    }
    return progress_;
  }
  bool finished() const { return finished_; }

  // Past the last lane.
  void end() {
    if (!shared_.guards_intact())
      throw KernelFault("Block " + std::to_string(index_) + " wrote outside its " + std::to_string(grid_.shared_bytes) +
                        " bytes of shared memory.");
    shared_.leave();
  }

  // The first lane that has paused, for a report; -1 if none has.
  int first_paused() const {
    const auto paused =
        std::find_if(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.state == State::paused; });
    return paused == lanes_.end() ? -1 : static_cast<int>(paused - lanes_.begin());
  }

  int current() const { return current_; }
  Lane& lane() { return lanes_[current_]; }
  int64_t index() const { return index_; }
  const Grid& grid() const { return grid_; }
  SharedMemory& shared() { return shared_; }
  const Cluster& cluster() const { return cluster_; }

  // The barrier of a cluster. All lanes must reach it equally often.
  int64_t arrive_at_cluster() {
    const int64_t lanes = int64_t{grid_.threads} * grid_.cluster;
    return (cluster_.arrived++ / lanes + 1) * lanes;
  }
  void wait_for_cluster(int64_t goes_on) {
    while (cluster_.arrived < goes_on) pause();
    progress_ = true;
  }

  BulkPhase& bulk(const uint64_t* place) { return bulk_[place]; }

  const uint64_t* meet(const Collective& place, uint64_t operand) {
    Lane& lane = lanes_[current_];
    lane.place = place;
    lane.operand = operand;
    lane.state = State::meeting;
    scheduler_ = std::move(scheduler_).resume();
    return place.scope < 0 ? nullptr : &met_[group_begin(current_, place.scope)];
  }

  void pause() {
    lanes_[current_].state = State::paused;
    scheduler_ = std::move(scheduler_).resume();
  }
  // The lane waits for another process. If all lanes of a block wait, they sleep once a round.
  void pause_for_peers() {
    progress_ = true;
    if (current_ == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    pause();
  }

 private:
  void start(Lane& lane) {
    lane.state = State::ready;
    lane.copies.clear();
    lane.fiber = context::fiber(std::allocator_arg, stacks(), [this](context::fiber&& scheduler) {
      scheduler_ = std::move(scheduler);
      try {
        kernel_();
      } catch (const context::detail::forced_unwind&) {
        throw;
      } catch (...) {
        if (!fault_) fault_ = std::current_exception();
      }
      lanes_[current_].state = State::finished;
      return std::move(scheduler_);
    });
  }

  int wave_begin(int thread) const { return thread / grid_.wave_size * grid_.wave_size; }
  int group_begin(int thread, int scope) const {
    return wave_begin(thread) + (thread - wave_begin(thread)) / scope * scope;
  }

  void resume(int thread) {
    current_ = thread;
    running_block = this;
    lanes_[thread].fiber = std::move(lanes_[thread].fiber).resume();
    progress_ |= lanes_[thread].state == State::finished;
    if (fault_) std::rethrow_exception(fault_);
  }

  // Runs every wave until all of its lanes have finished, paused or wait for the block. True if a barrier of the block
  // let lanes go on.
  bool advance_to_barrier() {
    int waiting = 0, paused = 0;
    const int waves = (grid_.threads + grid_.wave_size - 1) / grid_.wave_size;
    for (int i = 0; i < waves; ++i) {
      const int wave = grid_.reversed ? waves - 1 - i : i;
      const int begin = wave * grid_.wave_size, end = std::min(begin + grid_.wave_size, grid_.threads);
      while (step(begin, end)) complete_groups(begin, end);
      const auto in_state = [&](State state) {
        return static_cast<int>(std::count_if(lanes_.begin() + begin, lanes_.begin() + end,
                                              [&](const Lane& lane) { return lane.state == state; }));
      };
      const int paused_here = in_state(State::paused);
      // Paused lanes may still come.
      for (int t = begin; t < end && paused_here == 0; ++t)
        if (lanes_[t].state == State::meeting && lanes_[t].place.scope > 0) report(begin, end);
      waiting += in_state(State::meeting);
      paused += paused_here;
    }
    if (release_first_threads()) return true;
    if (paused > 0) return false;
    if (waiting == 0) {
      finished_ = true;
      // Nobody may read a block's shared memory when it has ended.
      if (grid_.cluster > 1) shared_.clear();
      return false;
    }
    for (int t = 0; t < grid_.threads; ++t)
      if (lanes_[t].state != State::meeting || !same_place(lanes_[t].place, lanes_[0].place)) report(0, grid_.threads);
    release(grid_.threads);
    return true;
  }

  // True if the block's first threads stood at a barrier of their own.
  bool release_first_threads() {
    const Collective& place = lanes_[0].place;
    if (lanes_[0].state != State::meeting || place.scope >= kWholeBlock) return false;
    const int count = std::min(-place.scope - 1, grid_.threads);
    for (int t = 0; t < count; ++t)
      if (lanes_[t].state != State::meeting || !same_place(lanes_[t].place, place)) return false;
    release(count);
    return true;
  }

  // Runs the ready lanes of a wave to their next collective. False when none was ready.
  bool step(int begin, int end) {
    bool any = false;
    for (int i = begin; i < end; ++i) {
      const int thread = grid_.reversed ? begin + end - 1 - i : i;
      if (lanes_[thread].state != State::ready) continue;
      any = true;
      resume(thread);
    }
    return any;
  }

  void complete_groups(int begin, int end) {
    for (int thread = begin; thread < end;) {
      const Lane& lane = lanes_[thread];
      if (lane.state != State::meeting || lane.place.scope < 0 || group_begin(thread, lane.place.scope) != thread ||
          thread + lane.place.scope > end) {
        ++thread;
        continue;
      }
      const int group_end = thread + lane.place.scope;
      bool complete = true;
      for (int t = thread; t < group_end && complete; ++t)
        complete = lanes_[t].state == State::meeting && same_place(lanes_[t].place, lane.place);
      if (!complete) {
        ++thread;
        continue;
      }
      progress_ = true;
      for (; thread < group_end; ++thread) {
        met_[thread] = lanes_[thread].operand;
        lanes_[thread].state = State::ready;
      }
    }
  }

  void release(int threads) {
    progress_ = true;
    for (int t = 0; t < threads; ++t) lanes_[t].state = State::ready;
  }

  // Reports where the lanes [begin, end) are when some of them wait in vain.
  [[noreturn]] void report(int begin, int end) const {
    std::string sentence = "Divergent collective in block " + std::to_string(index_) + ":";
    for (int t = begin; t < end;) {
      int last = t;
      const auto alike = [&](int other) {
        return lanes_[other].state == lanes_[t].state &&
               (lanes_[t].state == State::finished || same_place(lanes_[other].place, lanes_[t].place));
      };
      while (last + 1 < end && alike(last + 1)) ++last;
      sentence +=
          (t == begin ? " thread " : ", thread ") + std::to_string(t) +
          (last > t ? " to " + std::to_string(last) : "") +
          (lanes_[t].state == State::finished ? (last > t ? " have ended" : " has ended")
                                              : (last > t ? " are at " : " is at ") + describe(lanes_[t].place));
      t = last + 1;
    }
    throw KernelFault(sentence + ".");
  }

  const Grid& grid_;
  const std::function<void()>& kernel_;
  Cluster& cluster_;
  std::vector<Lane> lanes_;
  std::vector<uint64_t> met_;
  SharedMemory shared_;
  std::map<const uint64_t*, BulkPhase> bulk_;
  context::fiber scheduler_;
  std::exception_ptr fault_;
  int current_ = 0;
  int64_t index_ = 0;
  bool finished_ = true, progress_ = false;
};

// Runs these blocks in turn until all have finished. They have begun already.
void run_blocks(const std::vector<std::unique_ptr<Block>>& blocks, bool reversed) {
  const auto finished = [](const auto& block) { return block->finished(); };
  for (int idle = 0; !std::all_of(blocks.begin(), blocks.end(), finished);) {
    bool progress = false;
    for (size_t i = 0; i < blocks.size(); ++i) progress |= blocks[reversed ? blocks.size() - 1 - i : i]->advance();
    idle = progress ? 0 : idle + 1;
    if (idle <= kMostIdleRounds) continue;
    const auto stuck = std::find_if_not(blocks.begin(), blocks.end(), finished);
    throw KernelFault("Deadlock: all threads that are left wait for others that never come, first thread " +
                      std::to_string((*stuck)->first_paused()) + " of block " + std::to_string((*stuck)->index()) +
                      ".");
  }
}

}  // namespace

// The numbers of `count` groups of blocks, shuffled unless they ask for their order: devices promise none. It is the
// same for each grid of so many, since blocks of several processes may wait for each other, one pair at a time.
static std::vector<int64_t> groups_of(int64_t count, bool in_order) {
  std::vector<int64_t> groups(static_cast<size_t>(count));
  std::iota(groups.begin(), groups.end(), int64_t{0});
  if (!in_order) std::shuffle(groups.begin(), groups.end(), std::mt19937_64(static_cast<uint64_t>(count)));
  return groups;
}

int64_t asked_for(const char* variable, int64_t least, int64_t most) {
  const char* const asked = std::getenv(variable);
  return asked == nullptr ? least : std::clamp<int64_t>(std::strtoll(asked, nullptr, 10), least, most);
}
int compute_units() { return static_cast<int>(asked_for("ECMV_EMULATED_UNITS", 4, 256)); }

void run_grid(const Grid& grid, const std::function<void()>& kernel) {
  if (grid.threads < 1 || grid.threads > 1024)
    throw KernelFault("A thread block of " + std::to_string(grid.threads) +
                      " threads was asked for; devices have room for 1 to 1024.");
  if (grid.together && grid.blocks * grid.threads > int64_t{compute_units()} * kThreadsOfComputeUnit)
    throw KernelFault(std::to_string(grid.blocks) + " blocks of " + std::to_string(grid.threads) +
                      " threads must run together; the device has room for " +
                      std::to_string(compute_units() * kThreadsOfComputeUnit) + " threads.");
  if (grid.cluster < 1 || grid.blocks % grid.cluster != 0 || (grid.together && grid.cluster > 1))
    throw KernelFault(std::to_string(grid.blocks) + " blocks were asked for in clusters of " +
                      std::to_string(grid.cluster) + ", which they cannot be.");
  struct Leave {
    ~Leave() { running_block = nullptr; }
  } leave;
  const int64_t at_once = grid.together ? grid.blocks : grid.cluster;
  Cluster cluster;
  std::vector<std::unique_ptr<Block>> blocks;
  for (int64_t i = 0; i < at_once; ++i) {
    blocks.push_back(std::make_unique<Block>(grid, kernel, cluster));
    cluster.blocks.push_back(blocks.back().get());
  }
  for (const int64_t group : groups_of(at_once > 0 ? grid.blocks / at_once : 0, grid.in_order)) {
    cluster.arrived = 0;
    for (int64_t i = 0; i < at_once; ++i) blocks[static_cast<size_t>(i)]->begin(group * at_once + i);
    run_blocks(blocks, grid.reversed);
    for (const auto& block : blocks) block->end();
  }
}

int thread_index() { return running_block->current(); }
int block_size() { return running_block->grid().threads; }
int64_t block_index() { return running_block->index(); }
int64_t grid_size() { return running_block->grid().blocks; }
int wave_size() { return running_block->grid().wave_size; }
std::byte* shared_data() { return running_block->shared().data(); }
int cluster_rank() { return static_cast<int>(running_block->index() % running_block->grid().cluster); }
std::byte* shared_data_of(int rank) {
  const Cluster& cluster = running_block->cluster();
  if (rank < 0 || rank >= running_block->grid().cluster)
    fault("the shared memory of block " + std::to_string(rank) + " of a cluster of " +
          std::to_string(running_block->grid().cluster) + " is read.");
  return cluster.blocks[static_cast<size_t>(rank)]->shared().data();
}
int64_t arrive_at_cluster() { return running_block->arrive_at_cluster(); }
void wait_for_cluster(int64_t goes_on) { running_block->wait_for_cluster(goes_on); }
void meet_cluster() { wait_for_cluster(arrive_at_cluster()); }
const uint64_t* meet(const Collective& place, uint64_t operand) { return running_block->meet(place, operand); }
void pause() { running_block->pause(); }
void pause_for_peers() { running_block->pause_for_peers(); }

void queue_copy(std::byte* to, const std::byte* from, int bytes) {
  Lane& lane = running_block->lane();
  lane.copies.push_back({to, from, bytes, lane.copy_group});
  running_block->shared().count_in_flight(to, bytes, 1);
}

void commit_queued_copies() { ++running_block->lane().copy_group; }

void finish_copies(int pending) {
  Lane& lane = running_block->lane();
  size_t done = 0;
  for (; done < lane.copies.size() && lane.copies[done].group < lane.copy_group - pending; ++done) {
    std::memcpy(lane.copies[done].to, lane.copies[done].from, static_cast<size_t>(lane.copies[done].bytes));
    running_block->shared().count_in_flight(lane.copies[done].to, lane.copies[done].bytes, -1);
  }
  lane.copies.erase(lane.copies.begin(), lane.copies.begin() + static_cast<int64_t>(done));
}

void expect_bulk(uint64_t* place, int bytes) {
  BulkPhase& phase = running_block->bulk(place);
  if (phase.expected >= 0) fault("a phase of bulk copies begins before anybody has waited for the one before it.");
  phase.expected = bytes;
}

void queue_bulk(uint64_t* place, std::byte* to, const std::byte* from, int bytes) {
  BulkPhase& phase = running_block->bulk(place);
  phase.copies.push_back({to, from, bytes, 0});
  phase.asked += bytes;
  if (phase.asked > phase.expected) fault("more bytes are copied in bulk than the phase expects.");
  running_block->shared().count_in_flight(to, bytes, 1);
}

bool finish_bulk(uint64_t* place) {
  BulkPhase& phase = running_block->bulk(place);
  if (phase.asked != phase.expected) return false;
  for (const QueuedCopy& copy : phase.copies) {
    std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
    running_block->shared().count_in_flight(copy.to, copy.bytes, -1);
  }
  phase = {};
  ++*place;
  return true;
}

void fault(const std::string& sentence) {
  if (running_block == nullptr) throw KernelFault(sentence);
  throw KernelFault("Thread " + std::to_string(running_block->current()) + " of block " +
                    std::to_string(running_block->index()) + ": " + sentence);
}

}  // namespace ecmv::backends::emulator
