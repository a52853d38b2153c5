// See rank_team.h.
#include "experiments/ranks/rank_team.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "codecs/registry.h"
#include "experiments/config/expand.h"
#include "experiments/ranks/rank_pass.h"

namespace ecmv::experiments {
namespace {

using backends::Split;
using nlohmann::json;

RankTeam* team_of_process = nullptr;

[[noreturn]] void fail(int rank, const json& answer) {
  const std::string kind = answer.at("error"), what = answer.at("what");
  if (kind == "refused") throw backends::Refused(what);
  if (kind == "unavailable") throw std::invalid_argument(what);
  const std::string sentence = fmt::format("rank {}: {}", rank, what);
  if (kind == "out_of_memory") throw backends::OutOfMemory(sentence);
  throw std::runtime_error(sentence);
}

// The room that an engine needs after a layer with results of `bytes` bytes. Ranks' products are aligned; sums need
// room for every rank's.
int64_t room_for(const LayerSplit& split, int64_t bytes) {
  switch (split.how) {
    case Split::rows_gathered: return bytes + 256 * split.ranks();
    case Split::cols: return bytes * split.ranks();
    case Split::rows_kept: break;
  }
  return 0;
}

json spec_of(const KernelSpec& kernel) {
  return {{"backend", kernel.backend},      {"simd_target", kernel.simd_target}, {"threads", kernel.threads},
          {"device_number", kernel.device}, {"engine", kernel.engine},           {"ranks", kernel.ranks}};
}

// The numbers of the usable devices in the backend's list.
std::vector<int> fitting_devices(const KernelSpec& kernel, bool& emulated) {
  std::vector<int> numbers;
  const backends::Backend* backend = backends::find_backend(kernel.backend);
  if (backend == nullptr) return numbers;
  const std::vector<backends::DeviceInfo> devices = backend->devices();
  for (size_t i = 0; i < devices.size(); ++i) {
    const int number = static_cast<int>(i);
    if (!devices[i].unavailable.empty() || number < kernel.device) continue;
    if (!kernel.simd_target.empty() && kernel.simd_target != devices[i].simd_target) continue;
    emulated = emulated || devices[i].emulated;
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

std::string too_few_devices(const KernelSpec& kernel, size_t here) {
  return fmt::format("The case needs {} devices of the backend '{}', and {} here.", kernel.ranks, kernel.backend,
                     here == 1 ? "1 is" : fmt::format("{} are", here));
}

int devices_here(const KernelSpec& kernel) {
  bool emulated = false;
  const auto count = static_cast<int>(fitting_devices(kernel, emulated).size());
  return emulated ? INT_MAX : count;
}

int processes_for(const std::vector<Case>& cases) {
  int most = 1;
  for (const Case& one : cases)
    if (one.unavailable.empty() && !on_host(one.kernel.backend) && one.kernel.ranks > most &&
        one.kernel.ranks <= devices_here(one.kernel))
      most = one.kernel.ranks;
  return most;
}

RankDevice::RankDevice(RankTeam& team, const KernelSpec& kernel)
    : team_(team), id_(team.new_id()), ranks_(kernel.ranks), kernel_(kernel) {
  const bool gpus = !on_host(kernel_.backend);
  std::vector<int> numbers(static_cast<size_t>(ranks_), -1);
  if (gpus) numbers = team.device_numbers(kernel_);
  if (ranks_ > team.size())
    throw std::invalid_argument(
        fmt::format("The case needs {} ranks, and {} were started (mpirun -n {}).", ranks_, team.size(), ranks_));
  std::vector<std::vector<int>> cores(static_cast<size_t>(ranks_));
  if (!gpus) cores = team.cores_for(ranks_, kernel_.threads);
  shared_.ranks = ranks_;
  shared_.bound = !cores.front().empty();
  // All ranks of the world take part: those that are not needed have to know, too.
  const std::vector<json> labels = team_.tell(team.size(), [&](int rank) {
    json command = spec_of(kernel_);
    command["do"] = "open";
    command["id"] = id_;
    command["cores"] = rank < ranks_ ? cores[static_cast<size_t>(rank)] : std::vector<int>();
    if (rank < ranks_) command["device_number"] = numbers[static_cast<size_t>(rank)];
    return command;
  });
  const backends::Device& own = team_.own().device(id_);
  info_ = own.info();
  // A pass goes through the caches of all hosts, or of all devices.
  info_.llc_bytes *= gpus ? ranks_ : team_.hosts(ranks_);
  info_.name = fmt::format("{} {}, {}", ranks_, gpus ? "devices" : "ranks", info_.name);
  memory_ = gpus ? fmt::format("{} devices from {}", ranks_, own.memory())
                 : fmt::format("{} of {} ranks", own.memory(), ranks_);
  if (gpus) describe_devices(labels, numbers);
}

void RankDevice::describe_devices(const std::vector<json>& labels, const std::vector<int>& numbers) {
  std::set<std::string> links;
  for (int rank = 0; rank < ranks_; ++rank) {
    const bool here = team_.host(rank) == team_.host(0);
    const std::string label = labels[static_cast<size_t>(rank)];
    shared_.devices.push_back(team_.hosts(ranks_) > 1 ? fmt::format("{}: {}", team_.host(rank), label) : label);
    if (rank == 0) continue;
    const std::string link =
        here ? team_.own().device(id_).link_to(numbers[static_cast<size_t>(rank)]) : std::string("network");
    if (!link.empty()) links.insert(link);
  }
  shared_.links = fmt::format("{}", fmt::join(links, "; "));
}

backends::DeviceState RankDevice::state() { return team_.own().device(id_).state(); }

int64_t RankDevice::free_memory() {
  int64_t least = INT64_MAX;
  for (const json& answer : team_.tell(ranks_, {{"do", "free memory"}, {"device", id_}}))
    least = std::min(least, answer.get<int64_t>());
  return least;
}

void RankDevice::select() { team_.own().device(id_).select(); }

std::vector<std::unique_ptr<backends::UploadedMatrix>> RankDevice::upload_layer(
    std::span<const backends::CompressedMatrix> parts, const LayerSplit& split, size_t copies) {
  if (parts.size() != static_cast<size_t>(ranks_) || split.ranks() != ranks_)
    throw std::invalid_argument("Every rank takes a part of a layer.");
  const int64_t rows = split.how == Split::cols ? parts.front().shape.rows : split.begins.back();
  std::vector<std::unique_ptr<backends::UploadedMatrix>> uploads;
  std::vector<int> ids;
  for (size_t copy = 0; copy < copies; ++copy) {
    auto matrix = std::make_unique<RankMatrix>(team_, split, parts.front().codec, rows);
    ids.push_back(matrix->id());
    uploads.push_back(std::move(matrix));
  }
  team_.tell(ranks_, [&](int rank) {
    const backends::CompressedMatrix& part = parts[static_cast<size_t>(rank)];
    json command = matrix_fields(part);
    command["do"] = "keep";
    command["ids"] = ids;
    command["device"] = id_;
    return command;
  });
  return uploads;
}

std::vector<double> RankDevice::time_reads(int64_t bytes, int repetitions) {
  std::vector<double> seconds;
  for (const json& answer :
       team_.tell(ranks_, {{"do", "read"}, {"device", id_}, {"bytes", bytes / ranks_}, {"repetitions", repetitions}}))
    if (const auto own = answer.get<std::vector<double>>(); seconds.empty())
      seconds = own;
    else
      std::ranges::transform(seconds, own, seconds.begin(), [](double a, double b) { return std::max(a, b); });
  return seconds;
}

void RankDevice::connect(json& command, int64_t vector_bytes) {
  // One engine serves all vectors that fit it; libraries need no room.
  constexpr int64_t kEnoughForMost = int64_t{1} << 22;
  command["vector_bytes"] =
      kernel_.engine == "peer" ? std::bit_ceil(static_cast<uint64_t>(std::max(vector_bytes, kEnoughForMost))) : 0;
  if (kernel_.engine.empty()) {
    shared_.library = team_.library();
    return;
  }
  command["do"] = "connect";
  shared_.library = team_.tell(ranks_, command).front();
}

std::unique_ptr<backends::Pass> RankDevice::prepare(const backends::PassPlan& plan) {
  for (const datasets::Scales* scales : plan.weight_scales)
    if (!scales->empty()) throw backends::Refused("Ranks do not share the scales of quantised elements.");
  const bool floats = plan.op == backends::Op::matmul;
  json command = spec_of(kernel_);
  command["device"] = id_;
  command["op"] = static_cast<int>(plan.op);
  command["chained"] = plan.chained;
  command["graph"] = plan.graph;
  command["batch"] = plan.batch;
  command["activations"] = static_cast<int>(plan.activations);
  command["scales"] = packed(plan.scales);
  for (const char* list : {"inputs", "tokens", "parts", "splits", "uploads", "kernels"}) command[list] = json::array();
  for (const std::vector<int8_t>& input : plan.inputs) command["inputs"].push_back(packed(input));
  for (const std::vector<float>& tokens : plan.tokens) command["tokens"].push_back(packed(tokens));
  int64_t room = 0;
  std::vector<Split> splits;
  for (size_t layer = 0; layer < plan.layers.size(); ++layer) {
    const RankMatrix& matrix = team_.matrix(*plan.layers[layer]);
    command["uploads"].push_back(matrix.id());
    command["parts"].push_back(matrix.split().begins);
    splits.push_back(matrix.split().how);
    if (floats) command["splits"].push_back(static_cast<int>(matrix.split().how));
    const int64_t of_row = floats ? plan.batch * static_cast<int64_t>(sizeof(float)) : 1;
    room = std::max(room, room_for(matrix.split(), of_row * matrix.rows()));
    const backends::ChosenKernel& chosen = plan.kernels.empty() ? plan : plan.kernels[layer];
    if (plan.kernels.empty() && layer > 0) continue;
    json name = kernel_name(matrix.codec(), chosen, matrix.view(), info_, plan.batch);
    command["kernels"].push_back(std::move(name));
  }
  command["one_kernel"] = plan.kernels.empty();
  connect(command, room);
  command["do"] = "prepare";
  const int id = team_.new_id();
  command["id"] = id;
  // Make it before telling the ranks: if one of them fails, the passes that the others made are then released.
  auto pass = std::make_unique<RankPass>(team_, ranks_, id, plan.batch, std::move(splits));
  for (const json& answer : team_.tell(ranks_, command)) pass->take_roundings(answer);
  return pass;
}

RankTeam::RankTeam(std::unique_ptr<backends::World> world, backends::OnLoss on_loss, bool for_devices)
    : world_(std::move(world)), for_devices_(for_devices), own_(*world_), deadline_(std::move(on_loss)) {
  for (const json& place : tell(size(), {{"do", "place"}})) {
    hosts_.push_back(place.at("host"));
    cores_.push_back(place.at("cores").get<std::vector<int>>());
  }
  // The cores of all ranks of a host together.
  const std::vector<std::vector<int>> given = cores_;
  for (size_t rank = 0; rank < hosts_.size(); ++rank) {
    std::set<int> all;
    for (size_t other = 0; other < hosts_.size(); ++other)
      if (hosts_[other] == hosts_[rank]) all.insert(given[other].begin(), given[other].end());
    cores_[rank].assign(all.begin(), all.end());
  }
  if (cores_ != given)
    tell(size(), [&](int rank) { return json{{"do", "cores"}, {"cores", cores_[static_cast<size_t>(rank)]}}; });
  team_of_process = this;
}

RankTeam::~RankTeam() { team_of_process = nullptr; }

RankTeam* RankTeam::get() { return team_of_process; }

void RankTeam::add(const RankMatrix& matrix) { matrices_[&matrix] = &matrix; }
void RankTeam::forget(const RankMatrix& matrix) { matrices_.erase(&matrix); }
const RankMatrix& RankTeam::matrix(const backends::UploadedMatrix& uploaded) const {
  const auto found = matrices_.find(&uploaded);
  if (found == matrices_.end()) throw std::invalid_argument("The layer has not been uploaded to the ranks.");
  return *found->second;
}

int RankTeam::hosts(int ranks) const {
  return static_cast<int>(std::set<std::string>(hosts_.begin(), hosts_.begin() + ranks).size());
}

double RankTeam::cpu_seconds_of_others() {
  double seconds = 0;
  const std::vector<json> answers = tell(size(), {{"do", "cpu_seconds"}});
  for (size_t rank = 1; rank < answers.size(); ++rank)
    if (hosts_[rank] == hosts_[0]) seconds += answers[rank].get<double>();
  return seconds;
}

std::vector<json> RankTeam::tell(int ranks, const json& command) {
  return tell(ranks, [&](int) { return command; });
}

std::vector<json> RankTeam::tell(int ranks, const std::function<json(int rank)>& command) {
  using Clock = std::chrono::steady_clock;
  const json own = command(0);
  for (int rank = 1; rank < ranks; ++rank) world_->send(rank, to_message(command(rank)));
  const auto begin = Clock::now();
  std::vector<json> answers = {own_.carry_out(own)};
  const std::chrono::duration<double> took = Clock::now() - begin;
  const auto failed = [&](int rank) {
    const json& answer = answers[static_cast<size_t>(rank)];
    return answer.is_object() && answer.contains("error");
  };
  // Ranks end a joint command at about the same time, or, if one fails, the others never do.
  const bool together = ranks > 1 && is_done_together(own);
  for (int rank = 1; rank < ranks; ++rank) {
    if (together)
      deadline_.set(kPatienceWithRanks + (failed(0) ? 0 : 10) * took,
                    failed(0) ? fmt::format("Rank 0 failed, and rank {} waits for it: {}", rank,
                                            answers.front().at("what").get<std::string>())
                              : fmt::format("Rank {} does not come to the end of a step that rank 0 has done ({}).",
                                            rank, own.at("do").get<std::string>()));
    answers.push_back(from_message(world_->receive(rank)));
  }
  if (together) deadline_.lift();
  for (int rank = 1; rank < ranks && together; ++rank)
    if (failed(rank)) world_->send(rank, to_message({{"do", "go on"}}));
  for (int rank = 0; rank < ranks; ++rank)
    if (failed(rank)) fail(rank, answers[static_cast<size_t>(rank)]);
  return answers;
}

std::vector<int> RankTeam::device_numbers(const KernelSpec& kernel) const {
  bool emulated = false;
  const std::vector<int> fitting = fitting_devices(kernel, emulated);
  std::vector<int> numbers;
  for (int rank = 0; rank < kernel.ranks; ++rank) {
    // Nobody knows the host of a rank that was not started; another message says that.
    const std::string& own = hosts_[std::min(static_cast<size_t>(rank), hosts_.size() - 1)];
    const auto before = static_cast<size_t>(
        std::count(hosts_.begin(), hosts_.begin() + std::min<int64_t>(rank, static_cast<int64_t>(hosts_.size())), own));
    if (emulated)
      numbers.push_back(kernel.device);
    else if (before < fitting.size())
      numbers.push_back(fitting[before]);
    else if (own == hosts_.front())
      throw std::invalid_argument(too_few_devices(kernel, fitting.size()));
    else
      numbers.push_back(std::max(0, kernel.device) + static_cast<int>(before));  // that host checks it
  }
  return numbers;
}

std::vector<std::vector<int>> RankTeam::cores_for(int ranks, int& threads) const {
  const auto on_host = [&](int rank) {
    return static_cast<int>(std::count(hosts_.begin(), hosts_.begin() + ranks, hosts_[static_cast<size_t>(rank)]));
  };
  if (threads == 0) {
    threads = 1 << 20;
    for (int rank = 0; rank < ranks; ++rank)
      threads = std::min(threads, static_cast<int>(cores_[static_cast<size_t>(rank)].size()) / on_host(rank));
    threads = std::max(1, threads);
  }
  std::vector<std::vector<int>> all(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int>& cores = cores_[static_cast<size_t>(rank)];
    if (static_cast<int>(cores.size()) < threads * on_host(rank))
      return std::vector<std::vector<int>>(static_cast<size_t>(ranks));
    const auto before = std::count(hosts_.begin(), hosts_.begin() + rank, hosts_[static_cast<size_t>(rank)]) * threads;
    all[static_cast<size_t>(rank)].assign(cores.begin() + before, cores.begin() + before + threads);
  }
  return all;
}

void RankTeam::finish() {
  for (int rank = 1; rank < size(); ++rank) world_->send(rank, to_message({{"do", "finish"}}));
  world_->finish();
}

}  // namespace ecmv::experiments
