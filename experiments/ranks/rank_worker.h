// What a rank of a product does when rank 0 tells it to: it opens a device, keeps its parts of the layers there, and
// runs passes over them. Rank 0 has one, too, for its own parts.
#pragma once

#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "backends/pass.h"
#include "backends/world.h"

namespace ecmv::experiments {

class RankWorker {
 public:
  explicit RankWorker(backends::World& world) : world_(world) {}
  // Carries out one command and returns its answer, {"error": kind, "what": sentence} where that fails.
  nlohmann::json carry_out(const nlohmann::json& command);

  // For rank 0, which asks its own things directly.
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

// Where this process is and what it may use: {"host", "cores"}.
nlohmann::json place_of_process();

// Numbers as bytes of a command, and back.
template <typename T>
nlohmann::json packed(const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return nlohmann::json::binary({bytes, bytes + values.size() * sizeof(T)});
}
template <typename T>
std::vector<T> unpacked(const nlohmann::json& field) {
  const auto& bytes = field.get_binary();
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// How a layer's results round, as part of an answer, and back.
nlohmann::json rounding_field(const backends::ProductRounding& rounding);
backends::ProductRounding rounding_of_field(const nlohmann::json& field);

// A command or an answer on its way.
std::vector<std::byte> to_message(nlohmann::json content);
nlohmann::json from_message(const std::vector<std::byte>& message);

// Commands that no rank gets through unless all do. One that fails there leaves the others waiting.
bool is_done_together(const nlohmann::json& command);
// So long do ranks wait for one that is behind them in such a command, or has failed there.
inline constexpr std::chrono::seconds kPatienceWithRanks{20};

// Every rank but the first: carries out commands until it is told that there are no more. `on_loss` is called with a
// sentence where this rank failed and the others do not go on.
void follow(backends::World& world, const backends::OnLoss& on_loss);

}  // namespace ecmv::experiments
