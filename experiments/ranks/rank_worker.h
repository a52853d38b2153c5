// A rank that follows rank 0's commands: it opens a device, keeps its parts of the layers there, and runs passes over
// them. Rank 0 has one, too, for its own parts.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "backends/pass.h"
#include "backends/world.h"
#include "experiments/ranks/messages.h"

namespace ecmv::experiments {

class RankWorker {
 public:
  explicit RankWorker(backends::World& world) : world_(world) {}
  // Carries out one command and returns its answer, {"error": kind, "what": sentence} if it fails.
  nlohmann::json carry_out(const nlohmann::json& command);

  // For rank 0, which accesses its own directly.
  backends::Device& device(int id) { return *devices_.at(id); }
  backends::UploadedMatrix& upload(int id) { return *uploads_.at(id); }
  backends::Pass& pass(int id) { return *passes_.at(id); }

 private:
  nlohmann::json act(const nlohmann::json& command);
  nlohmann::json open(const nlohmann::json& command);
  nlohmann::json connect(const nlohmann::json& command);
  void keep(const nlohmann::json& command);
  nlohmann::json prepare(const nlohmann::json& command);

  backends::World& world_;
  std::map<int, std::unique_ptr<backends::Ranks>> ranks_;  // by their number
  std::map<int, std::unique_ptr<backends::Device>> devices_;
  std::map<std::string, std::unique_ptr<backends::Ranks>> engines_;  // of GPUs: by device, engine and bytes
  std::map<int, std::unique_ptr<backends::UploadedMatrix>> uploads_;
  std::map<int, std::unique_ptr<backends::Pass>> passes_;
};

// This process's host and cores: {"host", "cores"}.
nlohmann::json place_of_process();

// Converts a layer's rounding to part of an answer, and back.
nlohmann::json rounding_field(const backends::ProductRounding& rounding);
backends::ProductRounding rounding_of_field(const nlohmann::json& field);

// Whether all ranks must get through a command together. If one fails in it, the others wait.
bool is_done_together(const nlohmann::json& command);
// How long ranks wait for one that is late in such a command, or has failed there.
inline constexpr std::chrono::seconds kPatienceWithRanks{20};

// Every rank but rank 0: carries out commands until there are no more. Calls `on_loss` with a sentence if this rank
// failed and the others cannot go on.
void follow(backends::World& world, const backends::OnLoss& on_loss);

}  // namespace ecmv::experiments
