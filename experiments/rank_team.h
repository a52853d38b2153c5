// Rank 0's view of a product by several ranks: a device whose passes run on all of them. The others do what they are told
// (rank_worker.h), so that everything else of a run (cases, order, checks, records) is decided in one place.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/pass.h"
#include "experiments/case.h"
#include "experiments/check.h"
#include "experiments/rank_worker.h"

namespace ecmv::experiments {

class RankTeam;

class RankDevice final : public backends::Device {
 public:
  RankDevice(RankTeam& team, const KernelSpec& kernel);
  const backends::DeviceInfo& info() const override { return info_; }
  std::string_view memory() const override { return memory_; }
  void select() override;
  std::unique_ptr<backends::UploadedMatrix> upload(const codecs::CompressedMatrix&) override;  // by upload_parts
  std::unique_ptr<backends::Executor> executor(bool) override;                                 // every rank has its own
  std::vector<double> time_reads(int64_t, int) override { return {}; }

  int ranks() const { return ranks_; }
  bool bound() const { return bound_; }  // every thread has a core to itself
  // The rows of one layer, a part for each rank.
  std::unique_ptr<backends::UploadedMatrix> upload_parts(std::span<const codecs::CompressedMatrix> parts);
  // `uploads` of upload_parts.
  std::unique_ptr<backends::Pass> prepare(const Case& one, const ReferenceChain& chain,
                                          std::span<const std::unique_ptr<backends::UploadedMatrix>> uploads,
                                          const std::vector<datasets::Matrix>& matrices);

 private:
  RankTeam& team_;
  int id_, ranks_;
  bool bound_ = true;
  KernelSpec kernel_;
  backends::DeviceInfo info_;
  std::string memory_;
};

class RankTeam {
 public:
  // On rank 0, once a process.
  explicit RankTeam(std::unique_ptr<backends::World> world);
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;

  // The team of this process, null where it was started as one.
  static RankTeam* get();

  int size() const { return world_->size(); }
  std::string library() const { return world_->library(); }
  int hosts(int ranks) const;
  // CPU time of the other ranks on this host: no other programs.
  double cpu_seconds_of_others();
  // Tells the first `ranks` ranks something, each its own, and returns their answers. Throws what went wrong on one.
  std::vector<nlohmann::json> tell(int ranks, const std::function<nlohmann::json(int rank)>& command);
  std::vector<nlohmann::json> tell(int ranks, const nlohmann::json& command);
  RankWorker& own() { return own_; }
  int new_id() { return next_id_++; }
  // Cores of each of so many ranks, as many as threads (0: all that there are, the same number on every rank); without
  // any where they do not suffice.
  std::vector<std::vector<int>> cores_for(int ranks, int& threads) const;
  // All is done: the others end.
  void finish();

 private:
  std::unique_ptr<backends::World> world_;
  RankWorker own_;
  std::vector<std::string> hosts_;       // by rank
  std::vector<std::vector<int>> cores_;  // of the rank's host
  int next_id_ = 0;
};

// Rows [begin, end) of each layer for each rank, layer after layer: what a rank's codec gets.
std::vector<datasets::Matrix> split_rows(const std::vector<datasets::Matrix>& layers, int ranks);

}  // namespace ecmv::experiments
