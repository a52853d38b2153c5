// Claims about failing cases, whatever throws and when: each gets one record with the reason, and its neighbours are
// measured once, as if nothing had happened.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <map>
#include <new>
#include <sstream>

#include "experiments/config/experiment.h"
#include "experiments/run/measure.h"
#include "experiments/run/run.h"
#include "tests/experiments/test_codecs.h"

using namespace ecmv;
using namespace ecmv::experiments;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using reports::Status;

namespace {

void lose_device() { throw std::runtime_error("The device is lost."); }

// Calls `raise` from call number `after` on, the first being 0: a lost device stays lost.
struct Fault {
  std::string call;
  int after = 0;
  void (*raise)() = lose_device;
};

// Counts calls by name, for each kernel variant or device. The name "broken" has the fault.
struct Calls {
  Fault fault;
  std::map<std::string, std::map<std::string, int>> counts;
  void operator()(const std::string& who, const std::string& call) {
    const int number = counts[who][call]++;
    if (who == "broken" && call == fault.call && number >= fault.after) fault.raise();
  }
};

constexpr double kPassSeconds = 1e-5;

class FaultyPass final : public backends::Pass {
 public:
  FaultyPass(std::unique_ptr<backends::Pass> pass, std::string who, Calls& calls)
      : pass_(std::move(pass)), who_(std::move(who)), calls_(calls) {}
  double run() override { return calls_(who_, "run"), pass_->run(), kPassSeconds; }
  bool has_parts() const override { return parts && pass_->has_parts(); }
  void run_first(int layers) override { calls_(who_, "run_first"), pass_->run_first(layers); }
  static inline bool parts = true;
  void mark_outputs(int round) override { calls_(who_, "mark"), pass_->mark_outputs(round); }
  std::span<const std::byte> result() const override { return calls_(who_, "result"), pass_->result(); }
  void set_input(int layer, std::span<const std::byte> bytes) override {
    calls_(who_, "set_input"), pass_->set_input(layer, bytes);
  }
  void run_layer(int layer) override { calls_(who_, "run_layer"), pass_->run_layer(layer); }
  void poison_outputs(int round) override { calls_(who_, "poison"), pass_->poison_outputs(round); }
  std::span<const int32_t> accumulators(int layer) override {
    return calls_(who_, "accumulators"), pass_->accumulators(layer);
  }
  std::span<const int8_t> outputs(int layer) override { return calls_(who_, "outputs"), pass_->outputs(layer); }
  std::span<const float> products(int layer) override { return calls_(who_, "products"), pass_->products(layer); }
  std::span<const int8_t> decoded() override { return calls_(who_, "decoded"), pass_->decoded(); }
  backends::ProductRounding rounding(int layer) const override {
    return calls_(who_, "rounding"), pass_->rounding(layer);
  }
  std::string broken_guards() const override { return calls_(who_, "guards"), pass_->broken_guards(); }

 private:
  std::unique_ptr<backends::Pass> pass_;
  std::string who_;
  Calls& calls_;
};

// A CPU of its own memory, with a clock that can be read.
class FaultyDevice final : public backends::Device {
 public:
  FaultyDevice(std::unique_ptr<backends::Device> device, std::string who, Calls& calls)
      : device_(std::move(device)), who_(std::move(who)), calls_(calls) {}
  const backends::DeviceInfo& info() const override {
    info_ = device_->info();
    if (llc_bytes > 0) info_.llc_bytes = llc_bytes;
    return info_;
  }
  static inline int64_t llc_bytes = 0;  // above 0: instead of the true one
  std::string_view memory() const override { return who_; }
  void select() override { calls_(who_, "select"), device_->select(); }
  std::vector<std::unique_ptr<backends::UploadedMatrix>> upload_layer(std::span<const backends::CompressedMatrix> parts,
                                                                      const backends::LayerSplit& split,
                                                                      size_t copies) override {
    return calls_(who_, "upload"), device_->upload_layer(parts, split, copies);
  }
  std::unique_ptr<backends::Executor> executor(bool graph) override {
    return calls_(who_, "executor"), device_->executor(graph);
  }
  std::vector<double> time_reads(int64_t, int repetitions) override {
    return calls_(who_, "time_reads"), std::vector<double>(static_cast<size_t>(repetitions), 0.1);
  }
  backends::DeviceState state() override { return calls_(who_, "state"), readable_; }
  int64_t free_memory() override { return who_ == "broken" ? free_bytes : -1; }
  static inline int64_t free_bytes = -1;

 private:
  mutable backends::DeviceInfo info_;
  std::unique_ptr<backends::Device> device_;
  std::string who_;
  Calls& calls_;
  backends::DeviceState readable_ = [] {
    backends::DeviceState state;
    state.clock_hz = 1e9;
    return state;
  }();
};

struct Setup {
  std::vector<backends::Kernel> kernels = {make_kernel<multiply>("first"), make_kernel<multiply>("broken"),
                                           make_kernel<multiply>("last")};
  std::string op = "matvec", verify = "once", data = "{source: gaussian, sigma: 4, d: 16, layers: 3}", threads = "1";
  double batch_seconds = 60;
  std::string measure = {};  // further values
};

constexpr int kRepetitions = 3, kWarmUp = 1, kPassesPerSample = 10;

struct Finished {
  std::vector<reports::CaseRecord> records;
  std::vector<reports::BandwidthRecord> bandwidths;
  RunSummary summary;
  Calls calls;
  std::string progress;
};

// Passes are named by their kernel's variant; devices of two threads are "broken", others "host".
Finished run(const Fault& fault, const Setup& setup = {}, const codecs::Codec& codec = make_codec()) {
  static const auto unknown_flags = initialise_timing({});  // samples of all cases in random order
  REQUIRE(unknown_flags.empty());
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, setup.kernels, {}}};
  const Experiment experiment = parse_experiment(
      "schema: 1\nname: failures\nverify: " + setup.verify + "\nmeasure: {repetitions: " +
          std::to_string(kRepetitions) + ", min_time: 0.0001, warm_up: " + std::to_string(kWarmUp) + setup.measure +
          "}\nexperiments:\n  - data: " + setup.data +
          "\n    codecs: test\n    kernels: {backend: scalar, threads: " + setup.threads + ", op: " + setup.op + "}\n",
      "failures", {}, codecs);
  Finished finished;
  finished.calls.fault = fault;
  std::ostringstream progress;
  RunOptions options;
  options.codecs = codecs;
  options.batch_seconds = setup.batch_seconds;
  options.progress = &progress;
  options.on_case = [&](const reports::CaseRecord& record) { finished.records.push_back(record); };
  options.on_bandwidth = [&](const reports::BandwidthRecord& record) { finished.bandwidths.push_back(record); };
  options.open_device = [&](const KernelSpec& kernel) {
    const std::string who = kernel.threads == 2 ? "broken" : "host";
    finished.calls(who, "open");
    return std::make_unique<FaultyDevice>(open_device(kernel), who, finished.calls);
  };
  options.prepare = [&](backends::Device& device, const backends::PassPlan& plan) {
    const std::string who(plan.kernel->variant);
    finished.calls(who, "prepare");
    return std::make_unique<FaultyPass>(backends::prepare(device, plan), who, finished.calls);
  };
  finished.summary = run_experiment(experiment, options);
  finished.progress = progress.str();
  CHECK(finished.records.size() == experiment.cases.size());
  for (const Case& one : experiment.cases)
    CHECK(std::ranges::count(finished.records, one.key(), &reports::CaseRecord::case_key) == 1);
  return finished;
}

void expect_neighbours_measured_once(Finished& finished) {
  for (const reports::CaseRecord& record : finished.records) {
    if (record.kernel.variant == "broken") continue;
    CHECK(record.status == Status::ok);
    CHECK(record.reason == "");
    CHECK(record.time.samples_s == std::vector<double>(kRepetitions, kPassSeconds));
    auto& counts = finished.calls.counts[record.kernel.variant];
    CHECK(counts["run"] == 1 + kRepetitions * (kWarmUp + kPassesPerSample));
    CHECK(counts["guards"] == counts["prepare"] + 1);  // tier 2a of each pass, tier 2b of the last
  }
}

void expect(Finished finished, Status status, const std::string& reason, int exit_code) {
  for (const reports::CaseRecord& record : finished.records) {
    if (record.kernel.variant != "broken") continue;
    CHECK(record.status == status);
    CHECK(record.reason == reason);
    CHECK(record.time.samples_s.empty());  // an unverified number is not kept
  }
  CHECK(finished.summary.exit_code() == exit_code);
  expect_neighbours_measured_once(finished);
}

}  // namespace

TEST_CASE("a pass may throw at every stage of its case") {
  const Fault faults[] = {
      {"prepare"},
      {"poison"},
      {"run_layer"},
      {"run_layer", 2},
      {"accumulators"},
      {"accumulators", 1},
      {"outputs"},
      {"guards"},  // tier 2a
      {"run"},     // the estimate
      {"poison", 1},
      {"run", 1},
      {"run", 2},                                   // the first sample: before it, its warm-up, its first pass
      {"run", 1 + kWarmUp + kPassesPerSample + 5},  // the second sample
      {"poison", 3},                                // before the third
      {"mark"},
      {"mark", kPassesPerSample},
      {"result", kPassesPerSample},
      {"set_input"},  // before the second sample
      {"accumulators", 3},
      {"outputs", 3},
      {"guards", 1},  // tier 2b
  };
  for (const Fault& fault : faults)
    for (const double batch_seconds : {60.0, 0.0}) {  // all cases in one batch, each in its own
      INFO(fault.call << " from call " << fault.after << " on, batches of " << batch_seconds << " s");
      Setup setup;
      setup.batch_seconds = batch_seconds;
      expect(run(fault, setup), Status::error, "The device is lost.", 5);
    }
}

TEST_CASE("reading decoded matrices and float products may throw, too") {
  Setup decoding, floats;
  decoding.op = "decode";
  decoding.kernels = {make_kernel<decode>("first"), make_kernel<decode>("broken"), make_kernel<decode>("last")};
  for (const int after : {0, 2, 3})
    expect(run({"decoded", after}, decoding), Status::error, "The device is lost.", 5);  // tier 2a: 3 layers
  floats.op = "matmul";
  floats.kernels = {make_kernel<multiply_tokens>("first"), make_kernel<multiply_tokens>("broken"),
                    make_kernel<multiply_tokens>("last")};
  for (const Fault& fault : {Fault{"products"}, Fault{"products", 3}, Fault{"rounding"}})
    expect(run(fault, floats), Status::error, "The device is lost.", 5);
  floats.data = "{source: gaussian, sigma: 4, shapes: [[9, 2000]], layers: 1}";  // long rows are checked with sparse
                                                                                 // tokens, in two passes of their own
  for (const Fault& fault : {Fault{"prepare", 1}, Fault{"run_layer", 2}, Fault{"products", 3}})
    expect(run(fault, floats), Status::error, "The device is lost.", 5);
}

TEST_CASE("a check after every sample may throw") {
  Setup setup;
  setup.verify = "each";
  for (const Fault& fault : {Fault{"accumulators", 3}, Fault{"guards", 2}}) {
    Finished finished = run(fault, setup);
    for (const reports::CaseRecord& record : finished.records) {
      const bool broken = record.kernel.variant == "broken";
      CHECK(record.status == (broken ? Status::error : Status::ok));
      if (!broken) CHECK(finished.calls.counts[record.kernel.variant]["guards"] == 3 + 2 * kRepetitions);
    }
  }
}

TEST_CASE("a pass without parts is checked as a whole") {
  Setup setup;
  setup.verify = "each";
  FaultyPass::parts = false;
  const Finished finished = run({}, setup);
  FaultyPass::parts = true;
  CHECK(finished.summary.counts.at(Status::ok) == 3);
  for (const reports::CaseRecord& record : finished.records) CHECK(record.reason == "");
}

TEST_CASE("an exception's type decides the status") {
  struct Thrown {
    void (*raise)();
    Status status;
    std::string reason;
    int exit_code;
  };
  const Thrown all[] = {
      {[] { throw backends::OutOfMemory("The device is full."); }, Status::out_of_memory, "The device is full.", 5},
      {[] { throw std::bad_alloc(); }, Status::out_of_memory, "The host has no memory left for this case.", 5},
      {[] { throw backends::Refused("These layers do not go together."); }, Status::refused,
       "These layers do not go together.", 0},
      {[] { throw std::out_of_range("vector::_M_range_check"); }, Status::error, "vector::_M_range_check", 5},
      {[] { throw 7; }, Status::error, "Unknown exception.", 5},
  };
  for (const Thrown& thrown : all)
    for (const Fault& fault :
         {Fault{"prepare"}, Fault{"run_layer"}, Fault{"run"}, Fault{"run", 3}, Fault{"accumulators", 3}}) {
      INFO(thrown.reason << " " << fault.call << " " << fault.after);
      expect(run({fault.call, fault.after, thrown.raise}), thrown.status, thrown.reason, thrown.exit_code);
    }
}

TEST_CASE("when every case of a batch fails, each says so") {
  Setup setup;
  setup.kernels = {make_kernel<multiply>("broken")};
  setup.threads = "[1, 2, 3]";
  const Finished finished = run({"run", 5}, setup);
  CHECK(finished.summary.counts.at(Status::error) == 3);
  CHECK(finished.summary.exit_code() == 5);
}

TEST_CASE("a device may fail before there is a pass") {
  Setup setup;
  setup.kernels = {make_kernel<multiply>("first")};
  setup.threads = "[1, 2, 3]";
  for (const double batch_seconds : {60.0, 0.0})
    for (const Fault& fault : {Fault{"open"}, Fault{"select"}, Fault{"upload"}, Fault{"upload", 2}, Fault{"executor"},
                               Fault{"upload", 1, [] { throw backends::OutOfMemory("The device is full."); }},
                               Fault{"open", 0, [] { throw std::invalid_argument("There is no such device."); }}}) {
      INFO(fault.call << " from call " << fault.after << " on");
      setup.batch_seconds = batch_seconds;
      const Finished finished = run(fault, setup);
      const Status expected = fault.raise == lose_device ? Status::error
                              : fault.call == "upload"   ? Status::out_of_memory
                                                         : Status::unavailable;
      CHECK(finished.summary.counts.at(Status::ok) == 2);
      CHECK(finished.summary.counts.at(expected) == 1);
      CHECK(finished.summary.exit_code() == (expected == Status::unavailable ? 0 : 5));
    }
}

TEST_CASE("weights that a device has no room for are not uploaded, and the case says how many bytes they take") {
  Setup setup;
  setup.kernels = {make_kernel<multiply>("first")};
  setup.threads = "[1, 2]";
  FaultyDevice::free_bytes = 3 * 256 - 1;
  const Finished finished = run({}, setup);
  FaultyDevice::free_bytes = 3 * 256;
  const Finished enough = run({}, setup);
  FaultyDevice::free_bytes = -1;
  REQUIRE(finished.records.size() == 2);
  CHECK(finished.summary.exit_code() == 5);
  CHECK(finished.calls.counts.at("broken").count("upload") == 0);
  const auto full = std::ranges::find(finished.records, Status::out_of_memory, &reports::CaseRecord::status);
  REQUIRE(full != finished.records.end());
  CHECK_THAT(full->reason, ContainsSubstring("The stored weights take 768 B on the device, where 767 B of"));
  CHECK(finished.summary.counts.at(Status::ok) == 1);
  CHECK(enough.summary.counts.at(Status::ok) == 2);
}

TEST_CASE("clocks and bandwidths that cannot be read cost no case") {
  Setup setup;
  setup.kernels = {make_kernel<multiply>("first")};
  setup.threads = "[1, 2]";
  for (const double batch_seconds : {60.0, 0.0})
    for (const int after : {0, 1}) {  // before and after measuring
      setup.batch_seconds = batch_seconds;
      const Finished finished = run({"state", after}, setup);
      CHECK(finished.summary.counts.at(Status::ok) == 2);
      CHECK(finished.summary.exit_code() == 0);
      for (const reports::CaseRecord& record : finished.records) {
        const bool broken = record.kernel.threads == 2;
        CHECK(std::isnan(record.time.clock_before_hz) == (broken && after == 0));
        CHECK(std::isnan(record.time.clock_after_hz) == broken);
      }
      CHECK_THAT(finished.progress, ContainsSubstring("The state of a device was not read: The device is lost."));
    }
  setup.batch_seconds = 0;
  FaultyDevice::llc_bytes = 1;  // so that cases are streamed
  const Finished finished = run({"time_reads"}, setup);
  FaultyDevice::llc_bytes = 0;
  CHECK(finished.summary.counts.at(Status::ok) == 2);
  CHECK(finished.bandwidths.size() == 1);
  CHECK_THAT(finished.progress, ContainsSubstring("The read bandwidth was not measured: The device is lost."));
}

TEST_CASE("the read bandwidth is measured once for a memory and number of threads, where a streamed case needs it") {
  Setup setup;
  setup.batch_seconds = 0;  // each case is a batch
  const auto measured = [&](int64_t llc_bytes) {
    FaultyDevice::llc_bytes = llc_bytes;
    const size_t count = run({}, setup).bandwidths.size();
    FaultyDevice::llc_bytes = 0;
    return count;
  };
  CHECK(measured(0) == 0);  // resident
  CHECK(measured(1) == 1);
  setup.threads = "[1, 2]";
  CHECK(measured(1) == 2);
  setup.measure = ", bandwidth: false";
  CHECK(measured(1) == 0);
}

TEST_CASE("an encoder without memory is out_of_memory") {
  codecs::Codec codec = make_codec();
  codec.encode = [](datasets::MatrixView, const backends::Settings&) -> backends::CompressedMatrix {
    throw std::bad_alloc();
  };
  const Finished finished = run({}, {}, codec);
  CHECK(finished.summary.counts.at(Status::out_of_memory) == 3);
}

TEST_CASE("whatever a codec throws, wherever, costs its own cases only") {
  using Change = void (*)(codecs::Codec&);
  const Change changes[] = {
      [](codecs::Codec& c) {
        c.refuses = [](datasets::MatrixView, const backends::Settings&) -> std::string { throw 5; };
      },
      [](codecs::Codec& c) {
        c.encode = [](datasets::MatrixView, const backends::Settings&) -> backends::CompressedMatrix { throw 5; };
      },
      [](codecs::Codec& c) { c.decode = [](const backends::CompressedView&, std::span<std::byte>) { throw 5; }; },
      [](codecs::Codec& c) {
        c.max_stored_bytes = [](datasets::Shape, const backends::Settings&) -> int64_t { throw 5; };
      },
      [](codecs::Codec& c) {
        c.ideal_bits_per_element = [](datasets::MatrixView, const backends::Settings&) -> double { throw 5; };
      },
  };
  for (const Change change : changes) {
    codecs::Codec codec = make_codec();
    change(codec);
    const Finished finished = run({}, {}, codec);
    CHECK(finished.summary.counts.at(Status::error) == 3);
    for (const reports::CaseRecord& record : finished.records)
      CHECK_THAT(record.reason, ContainsSubstring("Unknown exception."));
  }
}

TEST_CASE("a record that cannot be kept ends the run and is not handed out again") {
  const codecs::Codec codec = make_codec();
  const std::vector<backends::Kernel> kernels = {make_kernel<multiply>("first"), make_kernel<multiply>("last")};
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, kernels, {}}};
  for (const char* op : {"matvec", "size"}) {
    const Experiment experiment = parse_experiment(
        std::string("schema: 1\nname: full\nmeasure: {repetitions: 2, min_time: 0.0001}\nexperiments:\n"
                    "  - data: {source: gaussian, sigma: 4, d: 16, layers: 1}\n    codecs: test\n    kernels: "
                    "{backend: scalar, threads: 1, op: ") +
            op + "}\n",
        "full", {}, codecs);
    RunOptions options;
    options.codecs = codecs;
    int handed_out = 0;
    options.on_case = [&](const reports::CaseRecord&) {
      ++handed_out;
      throw std::runtime_error("The disk is full.");
    };
    CHECK_THROWS_WITH(run_experiment(experiment, options), "The disk is full.");
    CHECK(handed_out == 1);
  }
}
