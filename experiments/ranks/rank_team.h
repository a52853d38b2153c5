// Rank 0's view of a product by several ranks: a device whose passes run on all of them. The others follow its commands
// (rank_worker.h), so everything else of a run (cases, order, checks, records) is decided in one place.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/pass.h"
#include "experiments/config/case.h"
#include "experiments/plan/split.h"
#include "experiments/ranks/deadline.h"
#include "experiments/ranks/rank_worker.h"

namespace ecmv::experiments {

class RankTeam;
class RankMatrix;

class RankDevice final : public backends::Device {
 public:
  RankDevice(RankTeam& team, const KernelSpec& kernel);
  const backends::DeviceInfo& info() const override { return info_; }
  std::string_view memory() const override { return memory_; }
  void select() override;
  // Uploads a part to each rank. The copies are sent once.
  std::vector<std::unique_ptr<backends::UploadedMatrix>> upload_layer(std::span<const backends::CompressedMatrix> parts,
                                                                      const LayerSplit& split, size_t copies) override;
  // The plan's layers must have been uploaded by a device of the team. Throws as backends::prepare does.
  std::unique_ptr<backends::Pass> prepare(const backends::PassPlan& plan) override;
  std::vector<double> time_reads(int64_t bytes, int repetitions) override;  // all ranks together, the slowest
  backends::DeviceState state() override;                                   // of rank 0's device
  const backends::SharedDevice* shared() const override { return &shared_; }
  int64_t free_memory() override;

 private:
  void connect(nlohmann::json& command, int64_t vector_bytes);
  void describe_devices(const std::vector<nlohmann::json>& labels, const std::vector<int>& numbers);
  RankTeam& team_;
  int id_, ranks_;
  KernelSpec kernel_;
  backends::DeviceInfo info_;
  std::string memory_;
  backends::SharedDevice shared_;
};

class RankTeam {
 public:
  // On rank 0, once a process. Calls `on_loss` if the others are waited for in vain. `for_devices`: the command itself
  // started them, for devices; only a launcher can ask for threads of several processes.
  RankTeam(std::unique_ptr<backends::World> world, backends::OnLoss on_loss, bool for_devices);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;

  // The team of this process, or null.
  static RankTeam* get();

  int size() const { return world_->size(); }
  bool for_devices() const { return for_devices_; }
  std::string library() const { return world_->library(); }
  int hosts(int ranks) const;
  const std::string& host(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  // Device numbers in the backend's list, by rank: each rank of a host has the next one. Throws std::invalid_argument
  // if rank 0's host has too few.
  std::vector<int> device_numbers(const KernelSpec& kernel) const;
  // CPU time of the other ranks on this host, which do not count as other programs.
  double cpu_seconds_of_others();
  // Sends a command to each of the first `ranks` ranks and returns their answers. Throws the error of a rank that
  // fails.
  std::vector<nlohmann::json> tell(int ranks, const std::function<nlohmann::json(int rank)>& command);
  std::vector<nlohmann::json> tell(int ranks, const nlohmann::json& command);
  RankWorker& own() { return own_; }
  // The layers that are divided among the ranks, as long as they are uploaded. matrix() throws std::invalid_argument
  // for any other.
  void add(const RankMatrix& matrix);
  void forget(const RankMatrix& matrix);
  const RankMatrix& matrix(const backends::UploadedMatrix& uploaded) const;
  int new_id() { return next_id_++; }
  // Cores of each of `ranks` ranks, `threads` of them (0: all there are, the same number on every rank); empty if they
  // do not suffice.
  std::vector<std::vector<int>> cores_for(int ranks, int& threads) const;
  // Ends the other ranks.
  void finish();

 private:
  std::unique_ptr<backends::World> world_;
  bool for_devices_;
  RankWorker own_;
  Deadline deadline_;
  std::vector<std::string> hosts_;       // by rank
  std::vector<std::vector<int>> cores_;  // of the rank's host
  std::map<const backends::UploadedMatrix*, const RankMatrix*> matrices_;
  int next_id_ = 0;
};

// The number of devices on this machine for a kernel: the usable ones of its backend; the emulator has as many as
// wanted.
int devices_here(const KernelSpec& kernel);
std::string too_few_devices(const KernelSpec& kernel, size_t here);
// The processes that the cases need for their devices, as far as this machine has the devices; 1 if no case shares.
int processes_for(const std::vector<Case>& cases);

}  // namespace ecmv::experiments
