// Claims about products that several devices share, each in its own process. The built program runs with devices of the
// emulator and starts the processes itself, or is started as torchrun would.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "experiments/ranks/deadline.h"
#include "reports/record.h"
#include "tests/experiments/small_run.h"
#include "tests/json_lines.h"
#include "tests/processes.h"
#include "tests/run_command.h"

using Catch::Matchers::ContainsSubstring;
using ecmv::reports::read_records;
using ecmv::reports::Status;
using namespace ecmv::tests;
namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

std::string why_not() {
  if (lacks_baseline()) return "this build lacks the codec";
  if (!fs::exists(fs::path(ECMV_BINARY).parent_path() / "libecmv_emulator.so")) return "this build has no emulator";
  return {};
}

std::vector<std::string> emulated(const std::vector<std::string>& more) {
  std::vector<std::string> all = {"run",      "--codec",  "raw_int8",  "--d",      "64",
                                  "--layers", "2",        "--backend", "emulator", "--variant",
                                  "first",    "--policy", "first",     "-o",       "r.jsonl"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

size_t cases_in(const fs::path& file) {
  try {
    return read_records(file).cases.size();
  } catch (const std::exception&) {
    return 0;
  }
}

// A run with one case over and the next one lasting, and its processes.
struct LongRun {
  Command command;
  std::vector<std::string> arguments;
  pid_t parent = 0;
  std::set<pid_t> others;

  LongRun() {
    std::ofstream(command.folder / "long.yaml") << R"(schema: 1
name: long
experiments:
  - data: {source: gaussian, sigma: 4, layers: 2, d: 64}
    codecs: [raw_int8]
    kernels: {backend: emulator, devices: 3, variant: first, policy: first}
  - data: {source: gaussian, sigma: 4, layers: 40, d: 1536}
    codecs: [raw_int8]
    kernels: {backend: emulator, devices: 3, variant: first, policy: first}
)";
    arguments = {"run", "long.yaml", "-o", "r.jsonl", "--resume"};
    parent = command.start(arguments);
    const auto second_runs = [&] {
      return ecmv::tests::text_of(command.folder / "r.jsonl.running").find("1536x1536") != std::string::npos;
    };
    for (const auto begin = Clock::now(); !second_runs() && Clock::now() - begin < std::chrono::seconds(60);)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    others = children_of(parent);
  }
  size_t cases() const { return cases_in(command.folder / "r.jsonl"); }
  // Sends the signal to one of the other ranks, and says whether all ended in time.
  bool ends_after(int signal) {
    ::kill(*others.rbegin(), signal);
    const auto sent = Clock::now();
    command.wait_for(parent);
    const auto all_over = [&] { return std::ranges::none_of(others, lives); };
    while (!all_over() && Clock::now() - sent < std::chrono::seconds(30))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return all_over() && Clock::now() - sent < std::chrono::seconds(30);
  }
};

}  // namespace

TEST_CASE("what 1 to 4 devices share is exact, also where parts are unequal or empty, and says who took part",
          "[alone]") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  Command command;
  // Parts of 32 and 42 or 43 rows, which begin at any byte; and fewer rows than devices.
  std::ofstream(command.folder / "chain.yaml") << R"(schema: 1
name: chain
experiments:
  - data: {source: gaussian, sigma: 4, layers: 3, shapes: [[128, 128], [130, 130], [3, 3]]}
    codecs: all
    kernels: {backend: emulator, simd_target: all, devices: [1, 2, 3, 4], engine: [nccl, peer],
              variant: first, policy: first}
)";
  CHECK(command({"run", "chain.yaml", "-o", "r.jsonl", "--filter", "devices[0-9]:peer|raw_int8|quad_huffman"}) == 0);
  INFO(command.err);
  std::map<int64_t, int> ok;  // by devices
  int refused = 0;
  for (const auto& record : read_records(command.folder / "r.jsonl").cases) {
    INFO(record.codec.id << " " << record.kernel.variant << " " << record.data.rows << " " << record.ranks.count << " "
                         << record.ranks.engine << ": " << record.reason);
    if (record.ranks.engine == "nccl") {
      CHECK(record.status == Status::refused);
      refused += record.reason.find("The emulator has no engine 'nccl'") != std::string::npos;
      continue;
    }
    CHECK((record.status == Status::ok || record.status == Status::refused));
    if (record.status != Status::ok) continue;
    if (record.codec.id == "raw_int8") ++ok[record.ranks.count];
    CHECK(record.check.outputs == "exact");
    CHECK(record.check.decode == "exact");
    CHECK(record.check.guards == "intact");
    if (record.ranks.count == 1) continue;
    CHECK(record.ranks.engine == "peer");
    CHECK(record.ranks.library == "stores to mapped memory");
    CHECK(record.ranks.connected_by == "sockets");
    CHECK(record.ranks.links == "memory of the host");
    CHECK(record.ranks.hosts == 1);
    CHECK(record.ranks.devices.size() == static_cast<size_t>(record.ranks.count));
    CHECK_THAT(record.kernel.device, ContainsSubstring(std::to_string(record.ranks.count) + " devices, emulated GPU"));
    CHECK(record.ranks.gathered_bytes_per_layer == static_cast<double>(record.data.rows));
  }
  CHECK(ok[1] > 0);
  for (const int devices : {2, 3, 4}) CHECK(ok[devices] == ok[1]);
  CHECK(refused > 0);
}

TEST_CASE("devices share float products of any batch, and decoding steps", "[alone]") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  Command command;
  std::ofstream(command.folder / "floats.yaml") << R"(schema: 1
name: floats
experiments:
  - data: {source: gaussian, sigma: 4, layers: 2, shapes: [[65, 64], [2, 48]]}
    codecs: all
    kernels: {backend: emulator, op: matmul, batch: [1, 3], devices: [1, 2, 3], variant: first, policy: first}
  - data: {source: gaussian, sigma: 4, layers: 1, shapes: [[65, 64]]}
    codecs: [raw_int8]
    kernels: {backend: emulator, op: matmul, devices: 2, variant: first, policy: first, unfused: always}
  - data: {source: model, model: qwen3_0_6b, blocks: 1, rows: 50}
    codecs: [raw_bf16]
    kernels: {backend: emulator, op: step, repeat: 2, activations: bf16, devices: [1, 2], variant: first, policy: first}
)";
  const bool steps = ecmv::codecs::find_codec("raw_bf16") != nullptr;
  CHECK(command({"run", "floats.yaml", "-o", "r.jsonl", "--filter", steps ? "" : "matmul"}) == 0);
  INFO(command.err);
  std::map<std::string, int> ok;  // by op and devices
  for (const auto& record : read_records(command.folder / "r.jsonl").cases) {
    INFO(record.kernel.op << " " << record.kernel.variant << " " << record.kernel.batch << " " << record.data.rows
                          << " " << record.ranks.count << ": " << record.reason);
    CHECK((record.status == Status::ok || record.status == Status::refused));
    if (record.status != Status::ok) continue;
    if (record.codec.id == "raw_int8" || record.kernel.op == "step")
      ++ok[record.kernel.op + std::to_string(record.ranks.count)];
    CHECK_THAT(record.check.outputs, ContainsSubstring("within the bound"));
    CHECK(record.check.guards == "intact");
    if (record.ranks.count == 1 || record.kernel.op == "step") continue;
    CHECK(record.ranks.gathered_bytes_per_layer == 4.0 * static_cast<double>(record.kernel.batch * record.data.rows));
  }
  CHECK(ok["matmul1"] == 4);
  CHECK(ok["matmul2"] == 5);
  CHECK(ok["matmul3"] == 4);
  CHECK(ok["step1"] == (steps ? 1 : 0));
  CHECK(ok["step2"] == (steps ? 1 : 0));
}

TEST_CASE("devices share float products and decoding steps in pairs of layers, by rows and by columns", "[alone]") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  const bool steps = ecmv::codecs::find_codec("raw_bf16") != nullptr;
  Command command;
  // Two devices have 64 and 66 columns, three 64, 64 and 2; a third layer has no partner. The names of the model's
  // layers tell the pairs. Splits that are impossible are refused.
  std::ofstream(command.folder / "pairs.yaml") << R"(schema: 1
name: pairs
experiments:
  - data: {source: gaussian, sigma: 4, layers: 3, shapes: [[130, 130]]}
    codecs: all
    kernels: {backend: emulator, op: matmul, batch: [1, 3], devices: [1, 2, 3], split: [rows, pairs],
              variant: first, policy: first}
  - data: {source: gaussian, sigma: 4, layers: 4, shapes: [[1200, 1200]]}
    codecs: [raw_int8]
    kernels: {backend: emulator, op: matmul, devices: 2, split: pairs, variant: first, policy: first, unfused: always}
  - data: {source: gaussian, sigma: 4, layers: 2, shapes: [[64, 64], [100, 128]]}
    codecs: [raw_int8]
    kernels: {backend: emulator, op: matmul, devices: 2, split: pairs, variant: first, policy: first}
  - data: {source: gaussian, sigma: 4, layers: 2, shapes: [[128, 128]]}
    codecs: [raw_int8]
    kernels: {backend: emulator, op: [matmul, matvec], devices: 2, split: [pairs, rows], variant: first, policy: first}
  - data: {source: model, model: qwen3_0_6b, blocks: 1, rows: 50}
    codecs: [raw_bf16]
    kernels: {backend: emulator, op: step, repeat: 2, activations: bf16, batch: 2, devices: [2, 3, 4],
              split: [rows, pairs], variant: first, policy: first}
)";
  CHECK(command({"run", "pairs.yaml", "-o", "r.jsonl", "--filter", steps ? "" : "mat"}) == 0);
  INFO(command.err);
  std::map<std::string, int> ok;  // by op, devices and split
  std::set<std::string> refused;
  for (const auto& record : read_records(command.folder / "r.jsonl").cases) {
    const auto& ranks = record.ranks;
    INFO(record.codec.id << " " << record.kernel.op << " " << record.kernel.variant << " " << record.kernel.batch << " "
                         << record.data.rows << " " << ranks.count << " " << ranks.split << ": " << record.reason);
    CHECK((record.status == Status::ok || record.status == Status::refused));
    if (record.status == Status::refused && record.codec.id == "raw_int8") refused.insert(record.reason);
    if (record.status != Status::ok) continue;
    if (record.kernel.op != "matvec") CHECK_THAT(record.check.outputs, ContainsSubstring("within the bound"));
    CHECK(record.check.guards == "intact");
    CHECK(ranks.split == (ranks.count == 1 ? "" : ranks.split == "pairs" ? "pairs" : "rows"));
    if ((record.codec.id != "raw_int8" && record.kernel.op != "step") || record.data.rows == 128) continue;
    ++ok[record.kernel.op + std::to_string(ranks.count) + ranks.split];
    if (ranks.split != "pairs") continue;
    const auto bytes_of_row = static_cast<double>(4 * record.kernel.batch);
    if (record.kernel.op == "step") {
      CHECK(ranks.exchanges == 2 * 2 + 1);  // o and down of two blocks, lm_head
      continue;
    }
    // The last layer of three is gathered, the second one of each pair added up.
    CHECK(ranks.exchanges == 2);
    CHECK(3 * ranks.gathered_bytes_per_layer == (record.data.layers == 3 ? bytes_of_row * 130 : 0));
    const double reduced = static_cast<double>(record.data.layers) * ranks.reduced_bytes_per_layer;
    CHECK(reduced == (record.data.layers == 3 ? bytes_of_row * 130 : 2 * bytes_of_row * 1200));
  }
  CHECK(ok["matmul1"] == 2);
  for (const std::string devices : {"2", "3"})
    for (const std::string split : {"rows", "pairs"}) {
      CHECK(ok["matmul" + devices + split] == 2 + (devices + split == "2pairs" ? 1 : 0));
      CHECK(ok["step" + devices + split] == (steps ? 1 : 0));
    }
  for (const char* split : {"rows", "pairs"}) CHECK(ok[std::string("step4") + split] == (steps ? 1 : 0));
  // Where devices share all cases, only their parts are encoded.
  const size_t first = command.err.find("\n  encoding with "), model = command.err.find("\nmodel[");
  CHECK(first < command.err.size());
  if (steps) CHECK((model < command.err.size() && command.err.find("\n  encoding with ", model) == std::string::npos));
  CHECK(refused.size() == 3);
  const auto says = [&](const char* part) {
    return std::ranges::any_of(refused, [&](const std::string& reason) { return reason.find(part) != reason.npos; });
  };
  CHECK(says("64 columns of a layer are too few for 2 ranks"));
  CHECK(says("the second has 128 columns, and the first gives vectors of 100 numbers"));
  CHECK(says("requantised from whole sums"));
}

TEST_CASE("a device whose process dies ends the run on all, with a sentence, and keeps what is finished", "[alone]") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  LongRun run;
  REQUIRE(run.cases() == 1);
  REQUIRE(run.others.size() == 2);
  CHECK(run.ends_after(SIGKILL));
  CHECK(run.command.code == 5);
  CHECK_THAT(run.command.err, ContainsSubstring("was ended by signal 9 (Killed)."));
  CHECK(run.cases() == 1);
  CHECK(no_json_line(run.command.folder / "r.jsonl") == "");
  // The remaining cases run, except the one in which the run died.
  CHECK(run.command(run.arguments) == 5);
  CHECK_THAT(run.command.err, ContainsSubstring("The previous run ended during this case"));
  CHECK(run.cases() == 2);
}

TEST_CASE("a device whose process hangs ends the run on all, with a sentence", "[alone]") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  LongRun run;
  REQUIRE(run.others.size() == 2);
  CHECK(run.ends_after(SIGSTOP));
  CHECK(run.command.code == 5);
  CHECK_THAT(run.command.err, ContainsSubstring("has not been heard of for 15 s."));
  CHECK(run.cases() == 1);
  CHECK(no_json_line(run.command.folder / "r.jsonl") == "");
}

TEST_CASE("the other ranks end with the first one, whatever ends it", "[alone]") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  LongRun run;
  REQUIRE(run.others.size() == 2);
  ::kill(run.parent, SIGKILL);
  run.command.wait_for(run.parent);
  const auto killed = Clock::now();
  while (std::ranges::any_of(run.others, lives) && Clock::now() - killed < std::chrono::seconds(30))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(std::ranges::none_of(run.others, lives));
  CHECK(no_json_line(run.command.folder / "r.jsonl") == "");
}

TEST_CASE("processes that torchrun starts are the devices of a run", "[alone]") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  const std::string port = std::to_string(20000 + ::getpid() % 20000);
  Command first, second;
  first.environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}};
  second.environment = first.environment;
  second.environment["RANK"] = "1";
  const std::vector<std::string> run = emulated({"--torchrun"});
  const pid_t one = first.start(run);
  // A process that is nobody's rank is not taken for one.
  second.environment["WORLD_SIZE"] = "3";
  const pid_t foreign = second.start(run);
  second.environment["WORLD_SIZE"] = "2";
  Command third;
  third.environment = second.environment;
  const pid_t two = third.start(run);
  first.wait_for(one);
  CHECK(first.code == 0);
  third.wait_for(two);
  CHECK(third.code == 0);
  ::kill(foreign, SIGKILL);
  second.wait_for(foreign);
  const auto cases = read_records(first.folder / "r.jsonl").cases;
  REQUIRE(cases.size() == 1);
  CHECK(cases[0].ranks.count == 2);  // all of them by default
  CHECK(cases[0].check.outputs == "exact");
  CHECK_FALSE(fs::exists(third.folder / "r.jsonl"));

  Command alone;
  CHECK(alone(run) == 2);
  CHECK_THAT(alone.err, ContainsSubstring("The variable RANK is not set"));
}

TEST_CASE("what does not fit the devices is said", "[alone]") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  Command command;
  CHECK(command(emulated({"--devices", "0"})) == 2);
  CHECK(command(emulated({"--devices", "65"})) == 2);
  CHECK(command(emulated({"--devices", "two"})) == 2);
  CHECK(command(emulated({"--devices", "2", "--engine", "nvlink"})) == 2);
  CHECK_THAT(command.err, ContainsSubstring("'engine' does not know 'nvlink'"));
  CHECK(command(emulated({"--devices", "2", "--split", "columns"})) == 2);
  CHECK_THAT(command.err, ContainsSubstring("'split' does not know 'columns'"));
  CHECK_FALSE(fs::exists(command.folder / "r.jsonl"));
  CHECK(command(emulated({"--devices", "1,2", "--op", "matmul", "--split", "pairs", "--dry-run"})) == 0);
  CHECK_THAT(command.out, ContainsSubstring("emulator:devices2:peer:pairs/matmul:b1"));
  CHECK_THAT(command.out, ContainsSubstring("/emulator/matmul:b1"));  // one device has nothing to split
  CHECK(command(emulated({"--devices", "2", "--split", "pairs", "--dry-run"})) == 6);
  CHECK_THAT(command.out, ContainsSubstring("-> refused: Pairs are for float products"));
  CHECK(command(emulated({"--devices", "1,2", "--dry-run"})) == 0);
  CHECK_THAT(command.out, ContainsSubstring("emulator:devices2:peer/matvec"));
  CHECK_FALSE(fs::exists(command.folder / "r.jsonl"));
  CHECK(command(emulated({"--devices", "20", "--force"})) == 6);
  CHECK_THAT(command.err, ContainsSubstring("At most 16 devices map each other's memory."));
  // Processes that share devices are no ranks of CPUs.
  CHECK(command({"run", "--codec", "raw_int8", "--d", "64", "--backend", "scalar,emulator", "--ranks", "2", "--devices",
                 "2", "--variant", "first", "--policy", "first", "--profile", "-o", "r.jsonl", "--force"}) == 0);
  CHECK_THAT(command.err, ContainsSubstring("The case needs 2 ranks: mpirun -n 2 ecmv run --mpi"));
  command.environment = {{"ECMV_PLACE_OF_RANK", "1 2 77 78"}};
  CHECK(command(emulated({"--force"})) == 2);
  CHECK_THAT(command.err, ContainsSubstring("ECMV_PLACE_OF_RANK is for processes that the command starts."));
}

TEST_CASE("a deadline says its sentence once, unless it is lifted") {
  std::mutex mutex;
  std::vector<std::string> said;
  const auto count = [&] {
    const std::lock_guard guard(mutex);
    return said.size();
  };
  {
    ecmv::experiments::Deadline deadline([&](const std::string& sentence) {
      const std::lock_guard guard(mutex);
      said.push_back(sentence);
    });
    deadline.set(std::chrono::milliseconds(1), "too late");
    deadline.lift();
    deadline.set(std::chrono::hours(1), "never");
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    CHECK(count() == 0);
    deadline.set(std::chrono::milliseconds(1), "now");
    for (int turn = 0; turn < 1000 && count() == 0; ++turn) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  }
  CHECK(said == std::vector<std::string>{"now"});
}
