// World and Ranks by MPI. An error of MPI ends all ranks, as MPI does by default.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "backends/plugins/plugins.h"
#include "backends/world.h"

namespace ecmv::backends::mpi {
namespace {

constexpr int kSize = 1, kContent = 2;  // tags
constexpr int64_t kPiece = int64_t{1} << 30;

// Polls and sleeps, since MPI's own waiting keeps a core busy, which would disturb a rank that measures alone. It does
// not sleep if the answer comes at once, and sleeps longer the longer it has waited.
void wait_asleep(MPI_Request& request) {
  constexpr int kPollsAwake = 500, kShortSleeps = 100;
  int done = 0;
  for (int polls = 0; done == 0; ++polls) {
    if (polls > kPollsAwake) usleep(polls > kPollsAwake + kShortSleeps ? 1000 : 100);
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }
}

class MpiRanks final : public Ranks {
 public:
  MpiRanks(MPI_Comm comm, std::string library) : comm_(comm), library_(std::move(library)) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &count_);
    counts_.resize(static_cast<size_t>(count_));
    places_.resize(static_cast<size_t>(count_));
  }
  int rank() const override { return rank_; }
  int count() const override { return count_; }
  std::string library() const override { return library_; }
  void gather(void*, std::byte* data, std::span<const int64_t> offsets) override {
    for (size_t i = 0; i < counts_.size(); ++i) {
      places_[i] = static_cast<int>(offsets[i]);
      counts_[i] = static_cast<int>(offsets[i + 1] - offsets[i]);
    }
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, counts_.data(), places_.data(), MPI_BYTE, comm_);
  }
  void reduce(void*, float* data, int64_t count) override {
    for (int64_t at = 0; at < count; at += kPiece)
      MPI_Allreduce(MPI_IN_PLACE, data + at, static_cast<int>(std::min(kPiece, count - at)), MPI_FLOAT, MPI_SUM, comm_);
  }
  void meet(void*) override { MPI_Barrier(comm_); }

 private:
  MPI_Comm comm_;  // freed by MPI_Finalize
  std::string library_;
  int rank_ = 0, count_ = 0;
  std::vector<int> counts_, places_;
};

class MpiWorld final : public World {
 public:
  MpiWorld() {
    int given = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given);
    if (given < MPI_THREAD_FUNNELED) throw std::runtime_error("This MPI cannot be used by a program with threads.");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string library() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string all(text, static_cast<size_t>(length));
    return all.substr(0, std::min(all.find(','), all.find('\n')));
  }
  void send(int to, std::span<const std::byte> message) override {
    auto bytes = static_cast<int64_t>(message.size());
    MPI_Request request;
    MPI_Isend(&bytes, 1, MPI_INT64_T, to, kSize, MPI_COMM_WORLD, &request);
    wait_asleep(request);
    for (int64_t at = 0; at < bytes; at += kPiece) {
      MPI_Isend(message.data() + at, static_cast<int>(std::min(kPiece, bytes - at)), MPI_BYTE, to, kContent,
                MPI_COMM_WORLD, &request);
      wait_asleep(request);
    }
  }
  std::vector<std::byte> receive(int from) override {
    int64_t bytes = 0;
    MPI_Request request;
    MPI_Irecv(&bytes, 1, MPI_INT64_T, from, kSize, MPI_COMM_WORLD, &request);
    wait_asleep(request);
    std::vector<std::byte> message(static_cast<size_t>(bytes));
    for (int64_t at = 0; at < bytes; at += kPiece) {
      MPI_Irecv(message.data() + at, static_cast<int>(std::min(kPiece, bytes - at)), MPI_BYTE, from, kContent,
                MPI_COMM_WORLD, &request);
      wait_asleep(request);
    }
    return message;
  }
  std::unique_ptr<Ranks> first(int count) override {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank_ < count ? 0 : MPI_UNDEFINED, rank_, &comm);
    if (comm == MPI_COMM_NULL) return nullptr;
    return std::make_unique<MpiRanks>(comm, library());
  }
  void finish() override { MPI_Finalize(); }

 private:
  int rank_ = 0, size_ = 1;
};

}  // namespace
}  // namespace ecmv::backends::mpi

extern "C" __attribute__((visibility("default"))) const ecmv::backends::WorldPlugin* ecmv_world_plugin() {
  using namespace ecmv::backends;
  static const WorldPlugin plugin = {kWorldVersion, kPluginCompiler,
                                     []() -> std::unique_ptr<World> { return std::make_unique<mpi::MpiWorld>(); }};
  return &plugin;
}
