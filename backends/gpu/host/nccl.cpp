// See nccl.h. The library is called through its C interface. The functions, types and numbers used here have been the
// same since NCCL 2.0, so the build needs no header of it.
#include "backends/gpu/host/nccl.h"

#if defined(ECMV_GPU_EMULATOR)

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

std::unique_ptr<Ranks> join_by_nccl(const RanksRequest& request) {
  throw Refused("The emulator has no engine '" + std::string(request.engine) +
                "': its devices exchange by this project's own, 'peer'.");
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

#else

#include <cstdlib>
#include <cstring>

#include "backends/gpu/host/device_ranks.h"
#include "backends/plugins/installed_library.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {
namespace {

#if defined(ECMV_GPU_HIP)
constexpr std::string_view kEngine = "rccl";
#else
constexpr std::string_view kEngine = "nccl";
#endif
#if defined(__HIP_PLATFORM_AMD__)
constexpr const char *kName = "RCCL", *kFiles[] = {"librccl.so.1", "librccl.so"};
#else
constexpr const char *kName = "NCCL", *kFiles[] = {"libnccl.so.2", "libnccl.so"};
#endif

using Communicator = void*;
struct UniqueId {
  char bytes[128];
};
constexpr int kInt8 = 0, kFloat32 = 7;  // types
constexpr int kSum = 0;                 // operations

struct Library : InstalledLibrary {
  int (*version)(int*) = nullptr;
  int (*unique_id)(UniqueId*) = nullptr;
  int (*init)(Communicator*, int, UniqueId, int) = nullptr;
  int (*all_gather)(const void*, void*, size_t, int, Communicator, StreamHandle) = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int, int, Communicator, StreamHandle) = nullptr;
  int (*broadcast)(const void*, void*, size_t, int, int, Communicator, StreamHandle) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  const char* (*error)(int) = nullptr;

  Library() : InstalledLibrary(kName) {
    // Multicast through the switches stays off unless somebody asks for it. It needs memory that is set up for it, and
    // without that the library fails instead of doing without multicast.
    (void)setenv("NCCL_NVLS_ENABLE", "0", 0);
    if (!open(kFiles)) return;
    take(version, "ncclGetVersion");
    take(unique_id, "ncclGetUniqueId");
    take(init, "ncclCommInitRank");
    take(all_gather, "ncclAllGather");
    take(all_reduce, "ncclAllReduce");
    take(broadcast, "ncclBroadcast");
    take(group_start, "ncclGroupStart");
    take(group_end, "ncclGroupEnd");
    take(error, "ncclGetErrorString");
  }
};

const Library& nccl() {
  static const Library library;
  return library;
}

std::string failed(const char* what, int status) {
  return std::string(kName) + " did not " + what + ": " + nccl().error(status) + ".";
}

class NcclRanks final : public Ranks {
 public:
  explicit NcclRanks(const RanksRequest& request) : rank_(request.host.rank()), count_(request.host.count()) {
    const std::vector<std::string> ids = agree(request.host, [&]() -> std::string {
      if (!nccl().missing.empty()) throw Refused(nccl().missing);
      if (rank_ > 0) return {};
      UniqueId id;
      if (const int status = nccl().unique_id(&id); status != 0) throw Refused(failed("begin", status));
      return {id.bytes, sizeof(id.bytes)};
    });
    UniqueId id;
    std::memcpy(id.bytes, ids.front().data(), sizeof(id.bytes));
    agree(request.host, [&] {
      if (const int status = nccl().init(&communicator_, count_, id, rank_); status != 0)
        throw Refused(failed("connect the devices", status));
      meeting_ = allocate(kMeetingBytes * count_);
      fill(meeting_, 0, kMeetingBytes * count_);
      return std::string();
    });
  }
  // The communicator and its memory live until the process ends: all ranks would have to be there to end one.
  int rank() const override { return rank_; }
  int count() const override { return count_; }
  std::string library() const override {
    int number = 0;
    if (nccl().version(&number) != 0) return kName;
    // 21005 means 2.10.5; before 2.9, 2804 meant 2.8.4.
    const int major = number >= 10000 ? number / 10000 : number / 1000,
              minor = number >= 10000 ? number % 10000 / 100 : number % 1000 / 100;
    return std::string(kName) + " " + std::to_string(major) + "." + std::to_string(minor) + "." +
           std::to_string(number % 100);
  }

  void gather(void* stream, std::byte* data, std::span<const int64_t> offsets) override {
    const auto part = [&](int rank) {
      const auto at = static_cast<size_t>(rank);
      return static_cast<size_t>(offsets[at + 1] - offsets[at]);
    };
    bool equal = true;
    for (int rank = 0; rank < count_; ++rank) equal = equal && part(rank) == part(0);
    const auto handle = static_cast<StreamHandle>(stream);
    int status = 0;
    if (equal) {
      status = nccl().all_gather(data + offsets[static_cast<size_t>(rank_)], data + offsets[0], part(0), kInt8,
                                 communicator_, handle);
    } else {
      status = nccl().group_start();
      for (int rank = 0; rank < count_ && status == 0; ++rank) {
        std::byte* place = data + offsets[static_cast<size_t>(rank)];
        if (part(rank) > 0) status = nccl().broadcast(place, place, part(rank), kInt8, rank, communicator_, handle);
      }
      const int ended = nccl().group_end();
      status = status == 0 ? ended : status;
    }
    if (status != 0) fail_launch(failed("gather a vector", status));
  }
  void reduce(void* stream, float* data, int64_t count) override {
    if (const int status = nccl().all_reduce(data, data, static_cast<size_t>(count), kFloat32, kSum, communicator_,
                                             static_cast<StreamHandle>(stream));
        status != 0)
      fail_launch(failed("add up the ranks' sums", status));
  }
  void meet(void* stream) override {
    int status = 0;
    for (int turn = 0; turn < kTurns && status == 0; ++turn)
      status = nccl().all_gather(meeting_ + kMeetingBytes * rank_, meeting_, kMeetingBytes, kInt8, communicator_,
                                 static_cast<StreamHandle>(stream));
    if (status != 0) fail_launch(failed("let the ranks meet", status));
  }

 private:
  static constexpr int64_t kMeetingBytes = 16;
  static constexpr int kTurns = 5;  // some 25 us between two GPUs
  int rank_, count_;
  Communicator communicator_ = nullptr;
  std::byte* meeting_ = nullptr;
};

}  // namespace

std::unique_ptr<Ranks> join_by_nccl(const RanksRequest& request) {
  if (request.engine != kEngine)
    throw Refused("The engine of these devices is '" + std::string(kEngine) +
                  "', or this project's own, 'peer', not '" + std::string(request.engine) + "'.");
  return std::make_unique<NcclRanks>(request);
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

#endif
