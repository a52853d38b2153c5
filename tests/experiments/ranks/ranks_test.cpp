// Claims about products that several ranks of the built program share under a real mpirun.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

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

constexpr const char* kMpirun = "/usr/bin/mpirun";

std::string why_not() {
  if (!fs::exists(kMpirun)) return "there is no mpirun (third_party/install.sh cluster)";
  if (!fs::exists(fs::path(ECMV_BINARY).parent_path() / "libecmv_mpi.so")) return "this build has no MPI (ECMV_MPI)";
  return {};
}

// mpirun with the command, on a machine that may have fewer cores than ranks.
struct Mpirun : Command {
  Mpirun() : Command(kMpirun) {
    environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                   {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                   {"ASAN_OPTIONS", "detect_leaks=0"}};  // MPI's leaks are its own
  }
  static std::vector<std::string> line(int ranks, const std::vector<std::string>& words) {
    std::vector<std::string> all = {"-n", std::to_string(ranks), "--oversubscribe", "--bind-to", "none", ECMV_BINARY};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
};

}  // namespace

TEST_CASE("what 1, 2 and 4 ranks share is exact, with every codec and backend of the host, and says who took part",
          "[alone]") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  Mpirun mpirun;
  // Rows that 4 ranks cannot share evenly, and fewer rows than ranks.
  std::ofstream(mpirun.folder / "chain.yaml") << R"(schema: 1
name: chain
experiments:
  - data: {source: gaussian, sigma: 4, layers: 3, shapes: [[128, 128], [130, 130], [3, 3]]}
    codecs: all
    kernels: {backend: [scalar, simd, emulator], ranks: [1, 2, 4], devices: [1, 2, 4], policy: first}
)";
  CHECK(mpirun(Mpirun::line(4, {"run", "--mpi", "chain.yaml", "--profile", "-o", "r.jsonl"})) == 0);
  INFO(mpirun.err);
  std::map<std::string, int> ok;  // by backend and ranks
  std::map<int64_t, int> refused;
  for (const auto& record : read_records(mpirun.folder / "r.jsonl").cases) {
    INFO(record.codec.id << " " << record.kernel.backend << " " << record.data.rows << " " << record.ranks.count << ": "
                         << record.reason);
    CHECK((record.status == Status::ok || record.status == Status::refused || record.status == Status::unavailable));
    refused[record.ranks.count] += record.status == Status::refused;
    if (record.status != Status::ok) continue;
    ++ok[record.kernel.backend + std::to_string(record.ranks.count)];
    CHECK(record.check.outputs == "exact");
    CHECK(record.check.decode == "exact");
    CHECK(record.check.guards == "intact");
    if (record.ranks.count == 1) continue;
    const bool emulated = record.kernel.backend == "emulator";
    CHECK_THAT(record.kernel.device,
               ContainsSubstring(std::to_string(record.ranks.count) + (emulated ? " devices, " : " ranks, ")));
    CHECK_THAT(record.ranks.connected_by, ContainsSubstring("MPI"));
    CHECK_THAT(record.ranks.library, ContainsSubstring(emulated ? "mapped memory" : "MPI"));
    CHECK(record.ranks.engine == (emulated ? "peer" : ""));
    CHECK(record.ranks.hosts == 1);
    CHECK(record.ranks.gathered_bytes_per_layer == static_cast<double>(record.data.rows));
    const bool timed = record.kernel.backend != "emulator";
    CHECK(record.ranks.exchange_samples_s.size() == record.time.samples_s.size());
    CHECK(record.ranks.product_samples_s.size() == (timed ? 1 : 0));
  }
  for (const std::string backend : {"scalar", "simd"})
    for (const std::string ranks : {"1", "2", "4"}) CHECK(ok[backend + ranks] > 20);
  CHECK(ok["emulator2"] == ok["emulator4"]);
}

TEST_CASE("ranks share float products and decoding steps by rows and in pairs of layers", "[alone]") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  if (lacks_baseline()) SKIP("this build lacks the codec");
  const bool steps = ecmv::codecs::find_codec("raw_bf16") != nullptr;
  Mpirun mpirun;
  // Three ranks have 64, 64 and 2 columns.
  std::ofstream(mpirun.folder / "pairs.yaml") << R"(schema: 1
name: pairs
experiments:
  - data: {source: gaussian, sigma: 4, layers: 2, shapes: [[130, 130]]}
    codecs: [raw_int8]
    kernels: {backend: [scalar, simd], op: matmul, batch: [1, 5], ranks: [1, 2, 3], split: [rows, pairs],
              variant: first, policy: first, threads: 1}
  - data: {source: model, model: qwen3_0_6b, blocks: 1, rows: 50}
    codecs: [raw_bf16]
    kernels: {backend: simd, op: step, ranks: [2, 3], split: [rows, pairs], variant: first, policy: first, threads: 1}
)";
  CHECK(mpirun(Mpirun::line(
            3, {"run", "--mpi", "pairs.yaml", "--profile", "-o", "r.jsonl", "--filter", steps ? "" : "matmul"})) == 0);
  INFO(mpirun.err);
  std::map<std::string, int> ok;  // by op, ranks and split
  for (const auto& record : read_records(mpirun.folder / "r.jsonl").cases) {
    INFO(record.kernel.backend << " " << record.kernel.op << " " << record.ranks.count << " " << record.ranks.split
                               << ": " << record.reason);
    CHECK(record.status == Status::ok);
    if (record.status != Status::ok) continue;
    ++ok[record.kernel.op + std::to_string(record.ranks.count) + record.ranks.split];
    CHECK_THAT(record.check.outputs, ContainsSubstring("within the bound"));
    CHECK(record.check.guards == "intact");
    if (record.ranks.count == 1) continue;
    CHECK(record.ranks.exchange_samples_s.size() == 1);
    CHECK(record.ranks.product_samples_s.size() == 1);
    const bool pairs = record.ranks.split == "pairs";
    if (record.kernel.op == "step") {
      CHECK(record.ranks.exchanges == (pairs ? 3 : 8));
      continue;
    }
    const auto bytes = static_cast<double>(4 * record.kernel.batch * 130);
    CHECK(record.ranks.exchanges == (pairs ? 1 : 2));
    CHECK(record.ranks.gathered_bytes_per_layer == (pairs ? 0 : bytes));
    CHECK(record.ranks.reduced_bytes_per_layer == (pairs ? bytes / 2 : 0));
  }
  CHECK(ok["matmul1"] == 4);
  for (const std::string sharing : {"2rows", "2pairs", "3rows", "3pairs"}) {
    CHECK(ok["matmul" + sharing] == 4);
    CHECK(ok["step" + sharing] == (steps ? 1 : 0));
  }
}

TEST_CASE("a rank that dies ends the run on all ranks within 30 s, with a sentence, and keeps what is finished",
          "[alone]") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Mpirun mpirun;
  const std::vector<std::string> run = {
      "run",    "--mpi",      "--codec", "raw_int8", "--d",     "2500,2516,2532", "--layers",      "2", "--backend",
      "scalar", "--min-time", "1",       "-o",       "r.jsonl", "--resume",       "--repetitions", "3"};
  const pid_t parent = mpirun.start(Mpirun::line(2, run));
  using Clock = std::chrono::steady_clock;
  const auto cases = [&] {
    try {
      return read_records(mpirun.folder / "r.jsonl").cases.size();
    } catch (const std::exception&) {
      return size_t{0};
    }
  };
  const auto in_second = [&] {
    return cases() == 1 && text_of(mpirun.folder / "r.jsonl.running").find("2516x2516") != std::string::npos;
  };
  for (const auto begin = Clock::now(); !in_second() && Clock::now() - begin < std::chrono::seconds(60);)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  REQUIRE(in_second());
  const std::set<pid_t> ranks = children_of(parent);
  REQUIRE(ranks.size() == 2);
  const auto killed = Clock::now();
  ::kill(*ranks.rbegin(), SIGKILL);
  mpirun.wait_for(parent);
  CHECK(Clock::now() - killed < std::chrono::seconds(30));
  CHECK(mpirun.code != 0);
  CHECK_THAT(mpirun.err, ContainsSubstring("exited on signal 9"));
  const auto all_over = [&] { return std::ranges::none_of(ranks, lives); };
  while (!all_over() && Clock::now() - killed < std::chrono::seconds(30))
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(all_over());
  CHECK(no_json_line(mpirun.folder / "r.jsonl") == "");
  const size_t kept = cases();
  CHECK(kept >= 1);
  CHECK(kept < 3);
  // The remaining cases run, except the one in which the run died.
  CHECK(mpirun(Mpirun::line(2, run)) == 5);
  CHECK_THAT(mpirun.err, ContainsSubstring("done before"));
  CHECK(cases() == 3);
}

TEST_CASE("how many ranks there are is said where it does not fit", "[alone]") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Mpirun mpirun;
  const std::vector<std::string> small = {"--codec",   "raw_int8", "--d",       "64", "--layers", "2",
                                          "--backend", "scalar",   "--profile", "-o", "r.jsonl"};
  const auto run = [&](int ranks, std::vector<std::string> words) {
    words.insert(words.begin(), "run");
    words.insert(words.end(), small.begin(), small.end());
    return mpirun(Mpirun::line(ranks, words));
  };
  CHECK(run(2, {}) == 2);
  CHECK_THAT(mpirun.err,
             ContainsSubstring("one of 2 processes that a launcher started. With --mpi they share each product"));
  CHECK_FALSE(fs::exists(mpirun.folder / "r.jsonl"));
  CHECK(run(2, {"--mpi", "--ranks", "1,3"}) == 0);
  CHECK_THAT(mpirun.err, ContainsSubstring("The case needs 3 ranks, and 2 were started (mpirun -n 3)."));
  // A rank too many has nothing to do; by default all ranks take part.
  CHECK(run(3, {"--mpi", "--ranks", "2", "--force"}) == 0);
  CHECK(run(2, {"--mpi", "--resume"}) == 0);
  CHECK_THAT(mpirun.err, ContainsSubstring("1 done before"));
  CHECK(run(2, {"--mpi", "--dry-run"}) == 0);
  CHECK_THAT(mpirun.out, ContainsSubstring("scalar:r2/matvec/rows"));

  Command alone;
  CHECK(alone(ecmv::tests::small({"--ranks", "2", "-o", "r.jsonl"})) == 6);
  CHECK_THAT(alone.err, ContainsSubstring("The case needs 2 ranks: mpirun -n 2 ecmv run --mpi"));
  alone.environment = {{"ECMV_PLUGIN_DIR", alone.folder.string()}};
  CHECK(alone(ecmv::tests::small({"--mpi"})) == 2);
  CHECK_THAT(alone.err, ContainsSubstring("This build has no plugin for MPI"));
}
