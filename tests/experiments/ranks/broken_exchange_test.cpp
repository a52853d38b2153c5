// Claims about ranks whose exchange is broken now and then, or plays back what it has seen. Two ranks are threads of
// this process, each with a core.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/crew.h"
#include "backends/world.h"
#include "codecs/registry.h"
#include "experiments/config/experiment.h"
#include "experiments/ranks/rank_team.h"
#include "experiments/ranks/rank_worker.h"
#include "experiments/run/measure.h"
#include "experiments/run/run.h"

using namespace ecmv;
using Catch::Matchers::ContainsSubstring;
using reports::Status;

namespace {

constexpr int kRanks = 2;

// What both ranks see of an exchange.
class Exchange {
 public:
  // Waits for the other rank. `offer`: own bytes; returns the other's, valid until the next meeting.
  std::span<const std::byte> swap(int rank, std::span<const std::byte> offer) {
    std::unique_lock lock(mutex_);
    const auto round = static_cast<size_t>(round_ % 2);
    offers_[round][rank].assign(offer.begin(), offer.end());
    const int64_t own = round_;
    if (++here_ == kRanks) {
      here_ = 0;
      ++round_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return round_ > own; });
    return offers_[round][1 - rank];
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<std::byte> offers_[2][kRanks];
  int here_ = 0;
  int64_t round_ = 0;
};

// Changes what a rank has after a gather: its number, all bytes before and after, where its own part is.
using Fault = std::function<void(int rank, std::span<const std::byte> before, std::span<std::byte> after,
                                 std::span<const std::byte> own)>;

class ThreadRanks final : public backends::Ranks {
 public:
  ThreadRanks(int rank, Exchange& exchange, const Fault& fault) : rank_(rank), exchange_(exchange), fault_(fault) {}
  int rank() const override { return rank_; }
  int count() const override { return kRanks; }
  std::string library() const override { return "threads"; }
  void gather(void*, std::byte* data, std::span<const int64_t> offsets) override {
    const std::span all(data, static_cast<size_t>(offsets[kRanks]));
    const auto part = [&](int rank) {
      const auto begin = static_cast<size_t>(offsets[static_cast<size_t>(rank)]);
      return all.subspan(begin, static_cast<size_t>(offsets[static_cast<size_t>(rank) + 1]) - begin);
    };
    const std::vector<std::byte> before(all.begin(), all.end());
    const std::span<const std::byte> other = exchange_.swap(rank_, part(rank_));
    std::ranges::copy(other, part(1 - rank_).begin());
    if (fault_) fault_(rank_, before, all, part(rank_));
  }
  void reduce(void*, float* data, int64_t count) override { backends::reduce_by_gathering(*this, data, count); }
  void meet(void*) override { exchange_.swap(rank_, {}); }

 private:
  int rank_;
  Exchange& exchange_;
  const Fault& fault_;
};

// Messages of the first rank to the second one and back.
struct Mail {
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<std::vector<std::byte>> to[kRanks];
};

class ThreadWorld final : public backends::World {
 public:
  ThreadWorld(int rank, Mail& mail, Exchange& exchange, const Fault& fault)
      : rank_(rank), mail_(mail), exchange_(exchange), fault_(fault) {}
  int rank() const override { return rank_; }
  int size() const override { return kRanks; }
  std::string library() const override { return "threads"; }
  void send(int to, std::span<const std::byte> message) override {
    const std::scoped_lock lock(mail_.mutex);
    mail_.to[to].emplace_back(message.begin(), message.end());
    mail_.arrived.notify_all();
  }
  std::vector<std::byte> receive(int) override {
    std::unique_lock lock(mail_.mutex);
    mail_.arrived.wait(lock, [&] { return !mail_.to[rank_].empty(); });
    std::vector<std::byte> message = std::move(mail_.to[rank_].front());
    mail_.to[rank_].pop_front();
    return message;
  }
  std::unique_ptr<backends::Ranks> first(int count) override {
    if (rank_ >= count) return nullptr;
    if (count < kRanks) throw std::invalid_argument("These ranks are two.");
    return std::make_unique<ThreadRanks>(rank_, exchange_, fault_);
  }
  void finish() override {}

 private:
  int rank_;
  Mail& mail_;
  Exchange& exchange_;
  const Fault& fault_;
};

reports::CaseRecord measured(const std::string& kernels, const Fault& fault, const std::string& min_time = "0.02") {
  static const auto unknown_flags = experiments::initialise_timing({});
  const experiments::Experiment experiment =
      experiments::parse_experiment("schema: 1\nname: exchange\nmeasure: {repetitions: 9, min_time: " + min_time +
                                        ", max_seconds: 30}\nexperiments:\n"
                                        "  - data: {source: gaussian, sigma: 4, d: 128, layers: 4}\n    codecs: "
                                        "raw_int8\n    kernels: {backend: scalar, "
                                        "threads: 1, ranks: 2, variant: first, policy: first, " +
                                        kernels + "}\n",
                                    "exchange", {}, codecs::all_codecs());
  Mail mail;
  Exchange exchange;
  const auto lost = [](const std::string& sentence) {
    INFO(sentence);
    std::terminate();
  };
  ThreadWorld other(1, mail, exchange, fault);
  std::thread second([&] { experiments::follow(other, lost); });
  reports::CaseRecord found;
  {
    experiments::RankTeam team(std::make_unique<ThreadWorld>(0, mail, exchange, fault), lost, false);
    experiments::RunOptions options;
    options.codecs = codecs::all_codecs();
    options.on_case = [&](const reports::CaseRecord& record) { found = record; };
    experiments::run_experiment(experiment, options);
    team.finish();
  }
  second.join();
  return found;
}

std::string why_not() {
  if (codecs::find_codec("raw_int8") == nullptr) return "this build lacks the codec";
  return backends::cpu::Crew::available_cores() < kRanks ? "two ranks want two cores" : "";
}

// After the checks before timing.
constexpr int64_t kFirst = 40;

Fault now_and_then(int rank, int64_t one_of, void (*how)(std::span<const std::byte>, std::span<std::byte>),
                   int64_t& calls) {
  return
      [=, &calls](int here, std::span<const std::byte> before, std::span<std::byte> after, std::span<const std::byte>) {
        if (here == rank && ++calls > kFirst && calls % one_of == 0) how(before, after);
      };
}
void leave_out(std::span<const std::byte> before, std::span<std::byte> after) {
  std::ranges::copy(before, after.begin());
}
void flip_a_bit(std::span<const std::byte>, std::span<std::byte> after) { after[5] ^= std::byte{1}; }

// What this rank got when it had the same part before.
Fault play_back(int rank, int64_t& calls) {
  auto seen = std::make_shared<std::map<std::vector<std::byte>, std::vector<std::byte>>>();
  return [=, &calls](int here, std::span<const std::byte>, std::span<std::byte> after, std::span<const std::byte> own) {
    if (here != rank) return;
    ++calls;
    const auto [found, is_new] =
        seen->try_emplace({own.begin(), own.end()}, std::vector<std::byte>(after.begin(), after.end()));
    if (!is_new && found->second.size() == after.size()) std::ranges::copy(found->second, after.begin());
  };
}

// Faults are looked for in passes that are drawn. A machine that is busy makes few in the time of a sample, so samples
// take longer until the exchange was called `enough` times. `fault`: of a counter of its calls.
void expect_caught(const std::string& kernels, const std::function<Fault(int64_t& calls)>& fault, int64_t enough) {
  reports::CaseRecord record;
  int64_t calls = 0;
  for (const char* min_time : {"0.02", "0.1", "0.5", "2.5"}) {
    calls = 0;
    record = measured(kernels, fault(calls), min_time);
    if (record.status != Status::ok || calls >= enough) break;
  }
  INFO(kernels << ", " << calls << " calls: " << record.reason);
  CHECK(record.status == Status::incorrect);
  CHECK(record.time.samples_s.empty());
}

constexpr const char* kOps[] = {"op: matvec", "op: matmul, batch: 2", "op: matmul, batch: 2, split: pairs"};

}  // namespace

TEST_CASE("two ranks that exchange rightly are measured") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  for (const char* op : kOps) {
    const reports::CaseRecord record = measured(op, {});
    INFO(op << ": " << record.reason);
    CHECK(record.status == Status::ok);
  }
}

TEST_CASE("an exchange that is left out, or wrong by a bit, in one of 50 or 100 is found out on every rank") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  for (const char* op : kOps)
    for (const int rank : {0, 1})
      for (const int64_t one_of : {50, 100}) {
        INFO("rank " << rank << ", one of " << one_of);
        for (const auto how : {leave_out, flip_a_bit})
          expect_caught(
              op, [&](int64_t& calls) { return now_and_then(rank, one_of, how, calls); }, kFirst + 20 * one_of);
      }
}

TEST_CASE("a rank that plays an exchange back from its own part is found out") {
  if (const std::string reason = why_not(); !reason.empty()) SKIP(reason);
  for (const char* op : kOps)
    // One pass of 16 gives another input to one of the ranks, which take turns: 300 passes of four layers and more.
    for (const int rank : {0, 1})
      expect_caught(
          op, [&](int64_t& calls) { return play_back(rank, calls); }, 2000);
}
