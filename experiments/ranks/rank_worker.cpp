// See rank_worker.h.
#include "experiments/ranks/rank_worker.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <set>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "backends/cpu/team.h"
#include "codecs/registry.h"
#include "experiments/plan/device_pool.h"
#include "experiments/ranks/deadline.h"
#include "experiments/run/case_record.h"

namespace ecmv::experiments {
namespace {

using nlohmann::json;

KernelSpec kernel_from(const json& command) {
  KernelSpec kernel;
  kernel.backend = command.at("backend");
  kernel.simd_target = command.at("simd_target");
  kernel.threads = command.at("threads");
  kernel.device = command.at("device_number");
  return kernel;
}

double cpu_seconds() {
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(own.ru_utime) + seconds(own.ru_stime);
}

std::string engine_key(const json& command) {
  return fmt::format("{} {} {}", command.at("device").get<int>(), command.at("engine").get<std::string>(),
                     command.at("vector_bytes").get<int64_t>());
}

template <typename T>
json bytes_of(std::span<const T> values) {
  return packed(std::vector<T>(values.begin(), values.end()));
}

}  // namespace

json place_of_process() {
  std::string host(256, '\0');
  gethostname(host.data(), host.size() - 1);
  host.resize(host.find('\0'));
  json cores = json::array();
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) cores.push_back(core);
  return {{"host", host}, {"cores", cores}};
}

json rounding_field(const backends::ProductRounding& rounding) {
  return {rounding.more_roundings,     rounding.offset, rounding.narrowing, rounding.unit_cols, rounding.chain_cols,
          rounding.flushes_subnormals, rounding.raised};
}

backends::ProductRounding rounding_of_field(const json& field) {
  return {.more_roundings = field.at(0),
          .offset = field.at(1),
          .narrowing = field.at(2),
          .unit_cols = field.at(3),
          .chain_cols = field.at(4),
          .flushes_subnormals = field.at(5),
          .raised = field.at(6)};
}

json RankWorker::carry_out(const json& command) {
  try {
    return act(command);
  } catch (const backends::OutOfMemory& e) {
    return {{"error", "out_of_memory"}, {"what", e.what()}};
  } catch (const std::bad_alloc&) {
    return {{"error", "out_of_memory"}, {"what", "A rank has no memory left for this case."}};
  } catch (const backends::Refused& e) {
    return {{"error", "refused"}, {"what", e.what()}};
  } catch (const std::invalid_argument& e) {
    return {{"error", "unavailable"}, {"what", e.what()}};
  } catch (const std::exception& e) {
    return {{"error", "error"}, {"what", e.what()}};
  }
}

json RankWorker::act(const json& command) {
  const std::string& what = command.at("do").get_ref<const std::string&>();
  if (what == "place") return place_of_process();
  if (what == "cores") {  // a launcher may have bound every rank to one core
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : command.at("cores")) CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
    backends::cpu::Team::use_threads(static_cast<int>(command.at("cores").size()));
    return {};
  }
  if (what == "rest") return {};
  if (what == "cpu_seconds") return cpu_seconds();
  if (what == "open") return open(command);
  if (what == "connect") return connect(command);
  if (what == "keep") return keep(command), json();
  if (what == "prepare") return prepare(command);
  if (what == "read")
    return devices_.at(command.at("device"))->time_reads(command.at("bytes"), command.at("repetitions"));
  if (what == "free memory") return devices_.at(command.at("device"))->free_memory();
  const int id = command.at("id");
  if (what == "forget upload") return uploads_.erase(id), json();
  if (what == "changed sections") return uploads_.at(id)->changed_sections();
  if (what == "broken sections") return uploads_.at(id)->broken_guards();
  if (what == "forget pass") return passes_.erase(id), json();
  backends::Pass& pass = *passes_.at(id);
  if (what == "run") return pass.run();
  if (what == "mark") return pass.mark_outputs(command.at("round")), json();
  if (what == "run first") return pass.run_first(command.at("layers")), json();
  if (what == "run layer") return pass.run_layer(command.at("layer")), json();
  if (what == "poison") return pass.poison_outputs(command.at("round")), json();
  if (what == "exchange") return pass.run_share(backends::Share::exchange);
  if (what == "product") return pass.run_share(backends::Share::product);
  if (what == "input") {
    const auto input = unpacked<std::byte>(command.at("bytes"));
    return pass.set_input(command.at("layer"), input), json();
  }
  if (what == "accumulators") return bytes_of(pass.accumulators(command.at("layer")));
  if (what == "outputs") return bytes_of(pass.outputs(command.at("layer")));
  if (what == "shared") {
    json hashes = json::array();
    for (const int layer : command.at("layers")) hashes.push_back(backends::hash_of(pass.gathered(layer)));
    return hashes;
  }
  if (what == "products") {
    const uint64_t all = backends::hash_of(pass.gathered(command.at("layer")));
    return {{"own", bytes_of(pass.products(command.at("layer")))}, {"all", all}};
  }
  if (what == "result") return bytes_of(pass.result());
  if (what == "broken guards") return pass.broken_guards();
  throw std::logic_error("A rank does not know the command '" + what + "'.");
}

// All ranks of the world make a group together, whether they share the device or not.
json RankWorker::open(const json& command) {
  const int count = command.at("ranks");
  if (!ranks_.contains(count)) ranks_[count] = world_.first(count);
  if (ranks_[count] == nullptr) return {};
  const KernelSpec kernel = kernel_from(command);
  const backends::Backend* backend = backends::find_backend(kernel.backend);
  if (backend == nullptr) throw std::invalid_argument("There is no backend '" + kernel.backend + "' in this build.");
  backends::DeviceRequest request{
      .threads = kernel.threads, .simd_target = kernel.simd_target, .index = kernel.device, .cores = {}};
  for (const int core : command.at("cores")) request.cores.push_back(core);
  std::unique_ptr<backends::Device>& device = devices_[command.at("id")] = backend->open(request);
  return device_label(*device);
}

// The engine that exchanges a GPU pass's vectors, kept while they fit it.
json RankWorker::connect(const json& command) {
  std::unique_ptr<backends::Ranks>& engine = engines_[engine_key(command)];
  if (engine == nullptr) {
    const std::string name = command.at("engine");
    engine = devices_.at(command.at("device"))
                 ->join({*ranks_.at(command.at("ranks")), name, command.at("vector_bytes").get<int64_t>()});
  }
  return engine->library();
}

void RankWorker::keep(const json& command) {
  const backends::CompressedMatrix matrix = matrix_from(command);
  const auto ids = command.at("ids").get<std::vector<int>>();
  auto copies = devices_.at(command.at("device"))->upload_layer({&matrix, 1}, {}, ids.size());
  for (size_t i = 0; i < ids.size(); ++i) uploads_[ids[i]] = std::move(copies[i]);
}

// Answers how the layers' float products round.
json RankWorker::prepare(const json& command) {
  backends::Device& device = *devices_.at(command.at("device"));
  device.select();
  backends::PassPlan plan;
  plan.op = static_cast<backends::Op>(command.at("op").get<int>());
  plan.chained = command.at("chained");
  plan.graph = command.at("graph");
  plan.batch = command.at("batch");
  plan.activations = static_cast<backends::Activations>(command.at("activations").get<int>());
  for (const json& input : command.at("inputs")) plan.inputs.push_back(unpacked<int8_t>(input));
  for (const json& tokens : command.at("tokens")) plan.tokens.push_back(unpacked<float>(tokens));
  plan.scales = unpacked<float>(command.at("scales"));
  const bool on_gpus = !command.at("engine").get<std::string>().empty();
  plan.ranks = on_gpus ? engines_.at(engine_key(command)).get() : ranks_.at(command.at("ranks")).get();
  for (const json& parts : command.at("parts")) plan.parts.push_back(parts.get<std::vector<int64_t>>());
  for (const json& split : command.at("splits")) plan.splits.push_back(static_cast<backends::Split>(split.get<int>()));
  std::vector<backends::ChosenKernel> kernels;
  for (const json& name : command.at("kernels")) kernels.push_back(named_kernel(name, device.info().backend, plan));
  for (const int upload : command.at("uploads")) {
    const backends::UploadedMatrix& matrix = *uploads_.at(upload);
    const backends::ChosenKernel& chosen = kernels.size() == 1 ? kernels.front() : kernels.at(plan.layers.size());
    // Ask before anything is bound, as for one rank; another rank may have another device.
    if (chosen.kernel != nullptr)
      if (const std::string reason = chosen.kernel->refuses(matrix.view(), device.info(), *chosen.policy);
          !reason.empty())
        throw backends::Refused(reason);
    plan.layers.push_back(&matrix);
  }
  if (command.at("one_kernel"))
    static_cast<backends::ChosenKernel&>(plan) = kernels.at(0);
  else
    plan.kernels = std::move(kernels);
  const backends::Pass& pass = *(passes_[command.at("id")] = backends::prepare(device, plan));
  json roundings = json::array();
  for (size_t layer = 0; layer < plan.layers.size() && plan.op == backends::Op::matmul; ++layer)
    roundings.push_back(rounding_field(pass.rounding(static_cast<int>(layer))));
  return roundings;
}

bool is_done_together(const json& command) {
  static const std::set<std::string_view> kTogether = {"connect",   "run",      "run first",
                                                       "run layer", "exchange", "product"};
  return kTogether.contains(command.at("do").get_ref<const std::string&>());
}

void follow(backends::World& world, const backends::OnLoss& on_loss) {
  RankWorker worker(world);
  Deadline deadline(on_loss);
  while (true) {
    const json command = from_message(world.receive(0));
    deadline.lift();
    if (command.at("do") == "finish") break;
    if (command.at("do") == "go on") continue;
    const json answer = worker.carry_out(command);
    // Rank 0 reports the error, unless it waits for this rank for ever.
    if (is_done_together(command) && answer.is_object() && answer.contains("error"))
      deadline.set(kPatienceWithRanks,
                   fmt::format("Rank {} failed: {}", world.rank(), answer.at("what").get<std::string>()));
    world.send(0, to_message(answer));
  }
  world.finish();
}

}  // namespace ecmv::experiments
