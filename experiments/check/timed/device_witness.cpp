// See device_witness.h. The forked process answers by another one that it forks, which may crash or hang; then the next
// question goes to a new one.
#include "experiments/check/timed/device_witness.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
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

// The sections go as bytes (messages.h).
json question_about(const KernelSpec& kernel, const backends::CompressedMatrix& layer,
                    const backends::DeviceInfo& device) {
  json question = matrix_fields(layer);
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

// Whether results are the same with other stored bytes.
bool is_same(const json& question) {
  backends::Device& device = device_for(question);
  device.select();
  const backends::CompressedMatrix stored = matrix_from(question);
  const datasets::Shape shape = stored.shape;
  datasets::Matrix matrix{.name = "layer", .shape = shape, .type = stored.type, .elements = {}};
  matrix.elements.resize(static_cast<size_t>(shape.elements() * datasets::element_bytes(stored.type)));
  codecs::find_codec(stored.codec)->codec->decode(stored.view(), matrix.elements);
  const auto uploaded = device.upload(stored);
  backends::PassPlan plan;
  plan.op = static_cast<backends::Op>(question.at("op").get<int>());
  plan.chained = plan.op == backends::Op::matvec;  // some kernels take chains alone, and one layer is one
  plan.batch = question.at("batch");
  plan.activations = static_cast<backends::Activations>(question.at("activations").get<int>());
  plan.graph = question.at("graph");
  plan.layers = {uploaded.get()};
  plan.scales = {1.0f / 64};
  std::minstd_rand random(1);
  for (int64_t i = 0; i < shape.cols; ++i)
    plan.inputs.resize(1), plan.inputs[0].push_back(static_cast<int8_t>(random()));
  plan.tokens.resize(1);
  for (int64_t i = 0; i < shape.cols * plan.batch; ++i)
    plan.tokens[0].push_back(static_cast<float>(1 + random() % 7));  // numbers of bf16, too
  static_cast<backends::ChosenKernel&>(plan) = named_kernel(question.at("kernel"), question.at("backend"), plan);
  const datasets::Scales scales = scales_of_one(plan.kernel, shape);
  plan.weight_scales = {&scales};
  const auto pass = backends::prepare(device, plan);
  return is_same_with_other_bytes(*pass, *uploaded, plan.op, 0, matrix, random());
}

[[noreturn]] void answer_about_kernels(const MessagePipe& pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) ::signal(signal, SIG_DFL);
  for (json question; pipe.receive(question) == Received::message;) {
    json answer;  // none: a fault of the kernel, after which the device may be lost, or it cannot be used at all
    try {
      answer = is_same(question) ? "same" : "other";
    } catch (...) {
    }
    if (!pipe.send(answer) || answer.is_null()) break;
  }
  _exit(0);
}

// The process that has never seen a device: passes questions on to one that does.
class Passing {
 public:
  json ask(const json& question) {
    if (child_ < 0) start();
    json answer;
    const bool answered = child_ > 0 && pipe_.send(question) && pipe_.receive(answer, kSeconds) == Received::message;
    if (!answered || answer.is_null()) stop();
    return answer;
  }

 private:
  void start() {
    auto ends = MessagePipe::make();
    child_ = ends ? fork() : -1;
    if (child_ == 0) answer_about_kernels(ends->second);
    if (child_ > 0) pipe_ = std::move(ends->first);
  }
  void stop() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) continue;
    }
    child_ = -1;
    pipe_ = {};
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

DeviceWitness::DeviceWitness(bool always) {
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

DeviceWitness::Answer DeviceWitness::send(const json& question) {
  json answer;
  if (!pipe_.is_open()) return Answer::none;
  if (!pipe_.send(question) || pipe_.receive(answer, 2 * kSeconds) != Received::message) pipe_ = {};
  return answer == "same" ? Answer::same : answer == "other" ? Answer::other : Answer::none;
}

DeviceWitness::Answer DeviceWitness::answer(const KernelSpec& kernel, const backends::CompressedMatrix& layer,
                                            const backends::DeviceInfo& device) {
  return send(question_about(kernel, layer, device));
}

Outcome DeviceWitness::ask(const KernelSpec& kernel, const backends::CompressedMatrix& layer,
                           const backends::DeviceInfo& device) {
  if (!pipe_.is_open() || kernel.chosen.kernel == nullptr || layer.shape.elements() == 0) return {};
  const json question = question_about(kernel, layer, device);
  if (!asked_
           .insert(fmt::format("{} {} {} {} {} {}", kernel.backend, layer.codec, question["kernel"].dump(),
                               question["op"].dump(), question["activations"].dump(), layer.settings.to_string()))
           .second)
    return {};
  if (send(question) != Answer::same) return {};
  return {reports::Status::incorrect,
          "with other stored bytes the results are the same: the kernel does not read what was stored, but keeps a "
          "copy"};
}

}  // namespace ecmv::experiments
