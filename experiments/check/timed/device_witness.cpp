// See device_witness.h. The forked process answers by another one that it forks, which may crash or hang; then the next
// question goes to a new one.
#include "experiments/check/timed/device_witness.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <random>

#include <fmt/format.h>

#include "backends/pass.h"
#include "backends/plugins/plugins.h"
#include "codecs/registry.h"
#include "experiments/check/timed/stored_bytes.h"
#include "experiments/ranks/messages.h"

namespace ecmv::experiments {
namespace {

using nlohmann::json;
using Received = MessagePipe::Received;

DeviceWitness* of_command = nullptr;

// All but the layer.
json question_about(const KernelSpec& kernel, const backends::CompressedMatrix& layer,
                    const backends::DeviceInfo& device) {
  json question;
  question["kernel"] = kernel_name(layer.codec, kernel.chosen, layer.view(), device, kernel.batch);
  question["backend"] = kernel.backend;
  question["simd_target"] = kernel.simd_target;
  question["device_number"] = kernel.device;
  question["op"] = static_cast<int>(kernel.op());
  question["batch"] = kernel.batch;
  question["activations"] = static_cast<int>(kernel.activations);
  question["graph"] = kernel.launch != "plain";
  return question;
}

// The sections go as bytes (messages.h).
json with_layer(json question, const backends::CompressedMatrix& layer) {
  question.update(matrix_fields(layer));
  return question;
}

constexpr double kSeconds = 30;  // for a question; a first one starts the driver

// Devices stay open, since opening one takes longer than all else.
backends::Device& device_for(const json& question) {
  static std::map<std::string, std::unique_ptr<backends::Device>> devices;
  const std::string id = question.at("backend"), target = question.at("simd_target");
  const int number = question.at("device_number");
  std::unique_ptr<backends::Device>& device = devices[fmt::format("{} {} {}", id, target, number)];
  if (device == nullptr)
    device = backends::find_backend(id)->open({.threads = 1, .simd_target = target, .index = number});
  return *device;
}

// One for all elements, for a kernel that wants scales of groups of columns.
datasets::Scales scales_of_one(const backends::Kernel* kernel, datasets::Shape shape) {
  datasets::Scales scales;
  if (kernel == nullptr || kernel->op != backends::Op::matmul || kernel->group_cols == 0) return scales;
  scales.rows = 1;
  scales.group_cols = kernel->group_cols;
  scales.groups = (shape.cols + scales.group_cols - 1) / scales.group_cols;
  for (int64_t i = 0; i < scales.groups; ++i)
    for (const int byte : {0x80, 0x3F}) scales.stored.push_back(static_cast<std::byte>(byte));  // of bf16
  return scales;
}

// The kernel of a question, bound to its layer.
struct AskedPass {
  explicit AskedPass(const json& question) : stored(matrix_from(question)) {
    backends::Device& device = device_for(question);
    device.select();
    uploaded = device.upload(stored);
    plan.op = static_cast<backends::Op>(question.at("op").get<int>());
    plan.chained = plan.op == backends::Op::matvec;  // some kernels take chains alone, and one layer is one
    plan.batch = question.at("batch");
    plan.activations = static_cast<backends::Activations>(question.at("activations").get<int>());
    plan.graph = question.at("graph");
    plan.layers = {uploaded.get()};
    plan.scales = {1.0f / 64};
    for (int64_t i = 0; i < stored.shape.cols; ++i)
      plan.inputs.resize(1), plan.inputs[0].push_back(static_cast<int8_t>(random()));
    plan.tokens.resize(1);
    for (int64_t i = 0; i < stored.shape.cols * plan.batch; ++i)
      plan.tokens[0].push_back(static_cast<float>(1 + random() % 7));  // numbers of bf16, too
    static_cast<backends::ChosenKernel&>(plan) = named_kernel(question.at("kernel"), question.at("backend"), plan);
    scales = scales_of_one(plan.kernel, stored.shape);
    plan.weight_scales = {&scales};
    pass = backends::prepare(device, plan);
  }

  backends::CompressedMatrix stored;
  std::unique_ptr<backends::UploadedMatrix> uploaded;
  std::minstd_rand random{1};
  datasets::Scales scales;
  backends::PassPlan plan;
  std::unique_ptr<backends::Pass> pass;
};

// Whether results are the same with other stored bytes.
bool is_same(const json& question) {
  AskedPass asked(question);
  const backends::CompressedMatrix& stored = asked.stored;
  datasets::Matrix matrix{.name = "layer", .shape = stored.shape, .type = stored.type, .elements = {}};
  matrix.elements.resize(static_cast<size_t>(stored.shape.elements() * datasets::element_bytes(stored.type)));
  codecs::find_codec(stored.codec)->codec->decode(stored.view(), matrix.elements);
  return is_same_with_other_bytes(*asked.pass, *asked.uploaded, asked.plan.op, 0, matrix, asked.random());
}

const json kRunning = "running", kRan = "ran";  // of a trial; else the sentence of what failed, as {"failed": "..."}

// Tells when the kernel begins: preparing it may take longer than it may. What is no fault of it (the device takes no
// second process, memory is short, a refusal) is left to the process that will run it.
json try_it(const json& question, const MessagePipe& pipe) try {
  try {
    device_for(question);
  } catch (const std::exception&) {
    return kRan;
  }
  const AskedPass asked(question);
  pipe.send(kRunning);
  asked.pass->poison_outputs(0);
  asked.pass->run_layer(0);
  asked.pass->run();
  return kRan;
} catch (const backends::OutOfMemory&) {
  return kRan;
} catch (const backends::Refused&) {
  return kRan;
} catch (const std::exception& e) {
  return {{"failed", e.what()}};
}

bool is_trial(const json& question) { return question.contains("seconds"); }

[[noreturn]] void answer_about_kernels(const MessagePipe& pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) ::signal(signal, SIG_DFL);
  for (json question; pipe.receive(question) == Received::message;) {
    json answer;  // none: a fault of the kernel, after which the device may be lost, or it cannot be used at all
    try {
      answer = is_trial(question) ? try_it(question, pipe) : json(is_same(question) ? "same" : "other");
    } catch (...) {
    }
    if (!pipe.send(answer) || !answer.is_string()) break;
  }
  _exit(0);
}

// The process that has never seen a device: passes questions on to one that does.
class Passing {
 public:
  json ask(const json& question) {
    if (child_ < 0) start();
    json answer;
    Received received = child_ > 0 && pipe_.send(question) ? pipe_.receive(answer, kSeconds) : Received::end;
    if (received == Received::message && answer == kRunning)
      received = pipe_.receive(answer, question.at("seconds").get<double>());
    if (received == Received::message && answer.is_string()) return answer;
    const bool started = child_ > 0;
    const std::string end = stop();
    if (received == Received::message || !is_trial(question) || !started) return answer;
    return received == Received::nothing ? json({{"hung", true}}) : json({{"ended", end}});
  }

 private:
  void start() {
    auto ends = MessagePipe::make();
    child_ = ends ? fork() : -1;
    if (child_ == 0) answer_about_kernels(ends->second);
    if (child_ > 0) pipe_ = std::move(ends->first);
  }
  // Says how it had ended, if it had.
  std::string stop() {
    int status = 0;
    if (child_ > 0) {
      kill(child_, SIGKILL);
      while (waitpid(child_, &status, 0) < 0 && errno == EINTR) continue;
    }
    child_ = -1;
    pipe_ = {};
    return WIFSIGNALED(status) ? fmt::format("by the signal {}", strsignal(WTERMSIG(status)))
                               : fmt::format("with exit status {}", WEXITSTATUS(status));
  }
  pid_t child_ = -1;
  MessagePipe pipe_;
};

[[noreturn]] void pass_on(const MessagePipe& pipe) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP}) ::signal(signal, SIG_IGN);
  pipe.keep_alone();
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  Passing passing;
  for (json question; pipe.receive(question) == Received::message;)
    if (!pipe.send(passing.ask(question))) break;
  _exit(0);  // the other one ends with it
}

}  // namespace

DeviceWitness::DeviceWitness(bool always, bool asks) : asks_(asks) {
  if (!always && !backends::has_plugin("cuda") && !backends::has_plugin("hip")) return;
  auto ends = MessagePipe::make();
  if (!ends) return;
  // Forked twice, so that it is no child that others would wait for. It ends with its pipe.
  const pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) pass_on(ends->second);
    _exit(0);
  }
  while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  if (child > 0) pipe_ = std::move(ends->first);
  of_command = this;
}

DeviceWitness::~DeviceWitness() {
  if (of_command == this) of_command = nullptr;
}

DeviceWitness* DeviceWitness::current() { return of_command; }

json DeviceWitness::send(const json& question, double seconds) {
  json answer;
  if (!pipe_.is_open()) return answer;
  if (!pipe_.send(question) || pipe_.receive(answer, seconds) != Received::message) pipe_ = {};
  return answer;
}

DeviceWitness::Answer DeviceWitness::answer(const KernelSpec& kernel, const backends::CompressedMatrix& layer,
                                            const backends::DeviceInfo& device) {
  const json answer = send(with_layer(question_about(kernel, layer, device), layer), 2 * kSeconds);
  return answer == "same" ? Answer::same : answer == "other" ? Answer::other : Answer::none;
}

Outcome DeviceWitness::try_out(const KernelSpec& kernel, const backends::CompressedMatrix& layer,
                               const backends::DeviceInfo& device, double seconds) {
  using reports::Status;
  if (!pipe_.is_open()) return {};
  json question = question_about(kernel, layer, device);
  question["seconds"] = seconds;
  const std::string name =
      fmt::format("{} {} {} {}", kernel.backend, kernel.device, layer.codec, question["kernel"].dump());
  if (const auto hung = tried_.find(name); hung != tried_.end()) return hung->second;
  const auto [tried, is_new] = tried_.try_emplace(
      fmt::format("{} {} {} {} {} {} {} x {} {}", name, question["op"].dump(), kernel.batch, question["graph"].dump(),
                  question["activations"].dump(), static_cast<int>(layer.type), layer.shape.rows, layer.shape.cols,
                  layer.settings.to_string()));
  if (!is_new) return tried->second;
  const json answer = send(with_layer(question, layer), 2 * kSeconds + seconds);
  if (answer.contains("failed"))
    tried->second = {Status::error,
                     fmt::format("Tried in a process of its own: {}", answer["failed"].get<std::string>())};
  if (answer.contains("ended"))
    tried->second = {Status::error, fmt::format("The kernel ended the process in which it was tried {}.",
                                                answer["ended"].get<std::string>())};
  if (answer.contains("hung"))
    tried->second = tried_[name] = {
        Status::timed_out, fmt::format("The kernel did not return within {:.3g} s when it was tried.", seconds)};
  return tried->second;
}

Outcome DeviceWitness::ask(const KernelSpec& kernel, const backends::CompressedMatrix& layer,
                           const backends::DeviceInfo& device) {
  if (!asks_ || !pipe_.is_open() || kernel.chosen.kernel == nullptr || layer.shape.elements() == 0) return {};
  const json question = question_about(kernel, layer, device);
  if (!asked_
           .insert(fmt::format("{} {} {} {} {} {}", kernel.backend, layer.codec, question["kernel"].dump(),
                               question["op"].dump(), question["activations"].dump(), layer.settings.to_string()))
           .second)
    return {};
  if (send(with_layer(question, layer), 2 * kSeconds) != "same") return {};
  return {reports::Status::incorrect,
          "with other stored bytes the results are the same: the kernel does not read what was stored, but keeps a "
          "copy"};
}

}  // namespace ecmv::experiments
