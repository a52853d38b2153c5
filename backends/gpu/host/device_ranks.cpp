// See device_ranks.h.
#include "backends/gpu/host/device_ranks.h"

#include <fstream>
#include <utility>

#include "backends/gpu/early_launches.h"
#include "backends/gpu/host/nccl.h"
#include "backends/gpu/host/peer_kernels.h"
#include "backends/gpu/peer_memory.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {
namespace {

// Identifies the machine where memory can be mapped: one start of one kernel.
std::string machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

class PeerRanks final : public Ranks {
 public:
  PeerRanks(const RanksRequest& request, const DeviceInfo& device) : early_(have_early_launches(device)) {
    Ranks& host = request.host;
    if (host.count() > kMostPeers)
      throw Refused("At most " + std::to_string(kMostPeers) + " devices map each other's memory.");
    const auto own = static_cast<size_t>(host.rank());
    peers_.rank = host.rank();
    peers_.count = host.count();
    peers_.layout = PeerLayout::of(request.vector_bytes);
    rounds_ = device.emulated ? 1 : kRounds;
    const std::string here = machine();
    for (const std::string& there : agree(host, [&] { return here; }))
      if (there != here) throw Refused("Devices of several machines cannot map each other's memory.");
    const std::vector<std::string> names = agree(host, [&] {
      offered_ = std::make_unique<OfferedMemory>(peers_.layout.bytes());
      return offered_->name();
    });
    agree(host, [&] {
      for (size_t rank = 0; rank < names.size(); ++rank)
        if (rank != own) mapped_.emplace_back(names[rank], peers_.layout.bytes());
      return std::string();
    });
    for (size_t rank = 0, next = 0; rank < names.size(); ++rank)
      peers_.memory[rank] = rank == own ? offered_->data() : mapped_[next++].data();
  }
  int rank() const override { return peers_.rank; }
  int count() const override { return peers_.count; }
  std::string library() const override { return "stores to mapped memory"; }
  void gather(void* stream, std::byte* data, std::span<const int64_t> offsets) override {
    exchange_parts(peers_, data, offsets, early_, stream);
  }
  void reduce(void* stream, float* data, int64_t count) override { add_up(peers_, data, count, early_, stream); }
  void meet(void* stream) override { meet_peers(peers_, rounds_, stream); }

 private:
  static constexpr int kRounds = 16;  // some 20 to 30 us between two GPUs
  bool early_;
  int rounds_;
  std::unique_ptr<OfferedMemory> offered_;
  std::vector<MappedMemory> mapped_;  // of the other ranks, in order
  Peers peers_;
};

}  // namespace

std::vector<std::string> agree(Ranks& host, const std::function<std::string()>& own) {
  std::string word;
  try {
    word = "+" + own();
  } catch (const std::exception& e) {
    word = "-" + std::string(e.what());
  }
  std::vector<std::string> all = said_by_all(host, word);
  for (std::string& one : all) {
    if (one.front() == '-') throw Refused(one.substr(1));
    one.erase(0, 1);
  }
  return all;
}

std::unique_ptr<Ranks> join_devices(const RanksRequest& request, const DeviceInfo& device) {
  if (request.engine == "peer") return std::make_unique<PeerRanks>(request, device);
  return join_by_nccl(request);
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
