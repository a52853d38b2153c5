// Messages between a process and one that it forked.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

namespace ecmv::experiments {

// One end of a pair of pipes; closes them.
class MessagePipe {
 public:
  MessagePipe() = default;
  MessagePipe(int to, int from) : to_(to), from_(from) {}
  MessagePipe(MessagePipe&& other) noexcept;
  MessagePipe& operator=(MessagePipe&& other) noexcept;
  ~MessagePipe();
  // Both ends; none where the system has no room for them.
  static std::optional<std::pair<MessagePipe, MessagePipe>> make();

  bool is_open() const { return to_ >= 0; }
  // Closes all files of this process but these and the standard ones, which then lead nowhere.
  void keep_alone() const;
  // False if the other process has ended.
  bool send(const nlohmann::json& message) const;
  enum class Received { message, end, nothing };
  // Waits for so many seconds, or for ever.
  Received receive(nlohmann::json& message, std::optional<double> seconds = {}) const;

 private:
  int to_ = -1, from_ = -1;
};

}  // namespace ecmv::experiments
