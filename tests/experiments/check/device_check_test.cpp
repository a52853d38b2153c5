// Claims about comparing the decoded matrices of timed samples. The device compares, so that little is read back; the
// host also compares some of them, which shows that the device's comparison works. The emulator stands in for the
// device, with kernels that are plain functions of the host.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memory>
#include <optional>
#include <vector>

#include "backends/backend.h"
#include "experiments/check/sample_check.h"
#include "tests/experiments/test_codecs.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::experiments;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using reports::Status;

namespace {

// Both widths of waves; none without the plugin.
std::vector<std::string> emulated_devices() {
  std::vector<std::string> targets;
  if (const backends::Backend* backend = backends::find_backend("emulator"))
    for (const backends::DeviceInfo& info : backend->devices())
      if (info.unavailable.empty()) targets.push_back(info.simd_target);
  return targets;
}

std::unique_ptr<backends::Device> open_emulator(const std::string& target) {
  return backends::find_backend("emulator")->open({.simd_target = target});
}

#define SKIP_WITHOUT_EMULATOR() \
  if (emulated_devices().empty()) SKIP("there is no emulator plugin beside this test")

// Corrupts one byte of one call, counted from 1.
struct Fault {
  int64_t call = 0, byte = 0;
} fault;
int64_t calls = 0;
void decode_wrongly_once(const Stored& stored, const DecodeArgs& args) {
  decode(stored, args);
  if (++calls == fault.call) args.out[fault.byte] ^= std::byte{4};
}

class DeviceWithoutRoom final : public backends::Device {
 public:
  explicit DeviceWithoutRoom(backends::Device& device) : device_(device) {}
  const backends::DeviceInfo& info() const override { return device_.info(); }
  std::string_view memory() const override { return device_.memory(); }
  void select() override { device_.select(); }
  std::vector<std::unique_ptr<backends::UploadedMatrix>> upload_layer(std::span<const backends::CompressedMatrix> parts,
                                                                      const backends::LayerSplit& split,
                                                                      size_t copies) override {
    return device_.upload_layer(parts, split, copies);
  }
  std::unique_ptr<backends::Executor> executor(bool graph) override { return device_.executor(graph); }
  std::vector<double> time_reads(int64_t bytes, int times) override { return device_.time_reads(bytes, times); }
  std::unique_ptr<backends::Buffer> copy_of(std::span<const std::byte>) override {
    ++asked;
    throw backends::OutOfMemory("There is no room.");
  }
  int asked = 0;

 private:
  backends::Device& device_;
};

// Counts the bytes that are read back, and may answer in place of the device.
class WatchedPass final : public backends::Pass {
 public:
  explicit WatchedPass(std::unique_ptr<backends::Pass> pass) : pass_(std::move(pass)) {}
  double run() override { return pass_->run(); }
  bool has_parts() const override { return pass_->has_parts(); }
  void run_first(int layers) override { pass_->run_first(layers); }
  void mark_outputs(int round) override { pass_->mark_outputs(round); }
  std::span<const std::byte> result() const override { return pass_->result(); }
  void set_input(int layer, std::span<const std::byte> bytes) override { pass_->set_input(layer, bytes); }
  void run_layer(int layer) override { pass_->run_layer(layer); }
  void poison_outputs(int round) override { pass_->poison_outputs(round); }
  std::span<const int32_t> accumulators(int layer) override { return pass_->accumulators(layer); }
  std::span<const int8_t> outputs(int layer) override { return pass_->outputs(layer); }
  std::span<const int8_t> decoded() override { return ++read_back, pass_->decoded(); }
  int64_t first_difference(const backends::Buffer& expected) override {
    ++compared;
    return answer ? *answer : pass_->first_difference(expected);
  }
  std::string broken_guards() const override { return pass_->broken_guards(); }
  int read_back = 0, compared = 0;
  std::optional<int64_t> answer;

 private:
  std::unique_ptr<backends::Pass> pass_;
};

// A stored matrix that counts how often its sections are compared.
class CountedMatrix final : public backends::UploadedMatrix {
 public:
  CountedMatrix(std::string changed, int& asked) : changed_(std::move(changed)), asked_(asked) {}
  const backends::CompressedView& view() const override { return view_; }
  std::string broken_guards() const override { return {}; }
  std::string changed_sections() const override { return ++asked_, changed_; }

 private:
  backends::CompressedView view_;
  std::string changed_;
  int& asked_;
};

constexpr int kSamples = 7;
constexpr int64_t kRows = 37, kCols = 53, kLayers = 3;

// A case of `decode` whose pass waits to be measured.
struct Decoding {
  explicit Decoding(backends::Device& device) {
    calls = 0;
    for (int layer = 0; layer < kLayers; ++layer)
      matrices->push_back(gaussian_matrix({kRows, kCols}, 4, static_cast<uint64_t>(layer) + 1));
    EncodedLayers encoded = std::move(encode_and_check({&choice, 1}, *matrices).front());
    REQUIRE(encoded.outcome.fine());
    auto uploads = std::make_shared<Upload>();
    for (const backends::CompressedMatrix& layer : encoded.layers) uploads->push_back(device.upload(layer));
    backends::PassPlan plan;
    plan.kernel = kernels.data();
    plan.op = backends::Op::decode;
    for (const auto& upload : *uploads) plan.layers.push_back(upload.get());
    auto watched = std::make_unique<WatchedPass>(backends::prepare(device, plan));
    pass = watched.get();
    one.kernel.task = Task::decode;
    one.kernel.backend = "emulator";
    admitted = {.one = &one, .device = &device, .upload = uploads, .pass = std::move(watched)};
    admitted.reference.matrices = matrices;
  }
  // Takes samples as a measurement does until one is wrong; returns its number from 1, or 0 if none is.
  int samples(Outcome& outcome, int64_t passes = 1) {
    UploadChecks uploads;
    FreshInputs fresh;
    SampleCheck check(admitted, copies, uploads, fresh, true, false);
    for (int sample = 1; sample <= kSamples; ++sample) {
      check.before_sample();
      for (int64_t i = 0; i < passes; ++i) {
        check.before_pass();
        pass->run();
        outcome = check.after_pass();
        REQUIRE(outcome.fine());
      }
      outcome = check.after_sample(passes, sample == kSamples);
      if (!outcome.fine()) return sample;
    }
    read_back_before_the_end = pass->read_back;
    outcome = check.finish();
    return outcome.fine() ? 0 : kSamples + 1;
  }

  const codecs::Codec codec = make_codec();
  const std::vector<backends::Kernel> kernels = {make_kernel<decode_wrongly_once>()};
  const codecs::CodecEntry entry = {"test", &codec, kernels, {}};
  const CodecChoice choice = {&entry, {}};
  std::shared_ptr<std::vector<datasets::Matrix>> matrices = std::make_shared<std::vector<datasets::Matrix>>();
  Case one;
  ExpectedCopies copies;
  AdmittedCase admitted;
  WatchedPass* pass = nullptr;
  int read_back_before_the_end = 0;
};

}  // namespace

TEST_CASE("of right samples the host reads the first, the last and what is left at the end", "[emulator]") {
  SKIP_WITHOUT_EMULATOR();
  fault = {};
  for (const std::string& target : emulated_devices()) {
    const auto device = open_emulator(target);
    Decoding decoding(*device);
    Outcome outcome;
    CHECK(decoding.samples(outcome) == 0);
    INFO(outcome.reason);
    CHECK(decoding.read_back_before_the_end == 2);
    CHECK(decoding.pass->read_back == 3);
    CHECK(decoding.pass->compared > kSamples);
    CHECK(decoding.admitted.record.check.outputs == "exact");
    CHECK(decoding.admitted.record.check.guards == "intact");
  }
}

TEST_CASE("a wrong byte in any sample is found, wherever it is, and told as the host tells it", "[emulator]") {
  SKIP_WITHOUT_EMULATOR();
  const int64_t bytes = kRows * kCols;
  const auto device = open_emulator(emulated_devices().back());
  for (const int sample : {1, 2, 4, kSamples})
    for (const int64_t byte : {int64_t{0}, int64_t{15}, int64_t{16}, bytes / 2, bytes - 2, bytes - 1}) {
      INFO("sample " << sample << ", byte " << byte);
      Decoding decoding(*device);
      // Samples of one pass; the first and the fifth run a part of one, too.
      Outcome outcome;
      fault = {};
      REQUIRE(decoding.samples(outcome) == 0);
      const int64_t all_calls = calls;
      int64_t call = 0;  // the last one of the sample's pass
      for (int before = 1; before <= sample; ++before) {
        if (before > 1 && (before - 1) % 4 == 1) call += 1 + ((before - 1) * 7 + 3) % (kLayers - 1);
        call += kLayers;
      }
      REQUIRE(call <= all_calls);
      Decoding again(*device);
      fault = {call, byte};
      CHECK(again.samples(outcome) == sample);
      CHECK(outcome.status == Status::incorrect);
      const std::string place =
          "differs at row " + std::to_string(byte / kCols) + ", column " + std::to_string(byte % kCols) + " (got ";
      CHECK_THAT(outcome.reason, ContainsSubstring("layer 2: the decoded matrix " + place));
      CHECK_THAT(outcome.reason, ContainsSubstring("1 of " + std::to_string(bytes) + " elements differ)"));
      CHECK(again.admitted.record.check.outputs == outcome.reason);
    }
  fault = {};
}

TEST_CASE("a part of a pass after a sample is compared on the device, too", "[emulator]") {
  SKIP_WITHOUT_EMULATOR();
  const auto device = open_emulator(emulated_devices().front());
  Decoding decoding(*device);
  fault = {kLayers + 1, 7};  // the first layer after the first sample's pass
  Outcome outcome;
  CHECK(decoding.samples(outcome) == 1);
  CHECK_THAT(outcome.reason, ContainsSubstring("layer 0: the decoded matrix differs at row 0, column 7"));
  fault = {};
}

TEST_CASE("without room for a copy the host compares every sample", "[emulator]") {
  SKIP_WITHOUT_EMULATOR();
  const auto emulator = open_emulator(emulated_devices().front());
  DeviceWithoutRoom device(*emulator);
  Decoding right(device);
  fault = {};
  Outcome outcome;
  CHECK(right.samples(outcome) == 0);
  CHECK(right.pass->compared == 0);
  CHECK(right.read_back_before_the_end == kSamples + 2);  // two parts of a pass besides
  CHECK(device.asked > 0);
  CHECK(device.asked <= kLayers);  // once a layer
  Decoding wrong(device);
  fault = {3 * kLayers + 1, 100};  // in the third sample: one layer of a part came before
  CHECK(wrong.samples(outcome) == 3);
  CHECK_THAT(outcome.reason, ContainsSubstring("layer 2: the decoded matrix differs at row 1, column 47 (got "));
  fault = {};
}

TEST_CASE("a comparison on the device that errs is found by the host", "[emulator]") {
  SKIP_WITHOUT_EMULATOR();
  const auto device = open_emulator(emulated_devices().front());
  Outcome outcome;
  Decoding blind(*device);
  fault = {kLayers, 3};  // in the first sample
  blind.pass->answer = -1;
  CHECK(blind.samples(outcome) == 1);
  CHECK(outcome.status == Status::incorrect);
  CHECK_THAT(outcome.reason, ContainsSubstring("row 0, column 3 (got ") &&
                                 ContainsSubstring("; the comparison on the device did not find it"));
  Decoding seeing_things(*device);
  fault = {};
  seeing_things.pass->answer = 41;
  CHECK(seeing_things.samples(outcome) == 1);
  CHECK(outcome.status == Status::incorrect);
  CHECK_THAT(outcome.reason,
             ContainsSubstring("byte 41 of the decoded matrix is wrong, and by that on the host none is"));
}

TEST_CASE("devices find the first of all differing bytes, at every place and length", "[emulator]") {
  SKIP_WITHOUT_EMULATOR();
  for (const std::string& target : emulated_devices()) {
    const auto device = open_emulator(target);
    const auto executor = device->executor(true);
    Random random{3};
    for (const int64_t bytes : {0, 1, 15, 16, 17, 4096, 70'001, 1'000'003}) {
      std::vector<std::byte> data(static_cast<size_t>(bytes));
      for (std::byte& byte : data) byte = static_cast<std::byte>(random.next());
      const auto expected = device->copy_of(data);
      const auto got = executor->allocate(bytes, "what is compared");
      const auto compare = [&](const std::vector<std::byte>& written) {
        got->write(written, 0);
        return executor->first_difference(got->data(), expected->data(), bytes);
      };
      INFO(target << ", " << bytes << " bytes");
      CHECK(compare(data) == -1);
      for (const int64_t at : {int64_t{0}, bytes / 3, bytes / 2 + 5, bytes - 1}) {
        if (at < 0 || at >= bytes) continue;
        std::vector<std::byte> wrong = data;
        wrong[static_cast<size_t>(at)] ^= std::byte{1};
        CHECK(compare(wrong) == at);
        wrong.back() ^= std::byte{128};
        CHECK(compare(wrong) == at);
        for (size_t i = static_cast<size_t>(at); i < wrong.size(); ++i) wrong[i] = ~data[i];
        CHECK(compare(wrong) == at);
      }
      CHECK(expected->guards_intact());
    }
  }
}

TEST_CASE("CPUs need no copies, and say so") {
  const auto device = backends::find_backend("scalar")->open({.threads = 1});
  const std::vector<std::byte> bytes(10);
  CHECK(device->copy_of(bytes) == nullptr);
  ExpectedCopies copies;
  CHECK(copies.of(*device, bytes) == nullptr);
}

TEST_CASE("stored matrices are compared once for all cases that share them") {
  int asked = 0;
  const auto upload_of = [&](const std::vector<std::string>& changes) {
    Upload upload;
    for (const std::string& changed : changes) upload.push_back(std::make_unique<CountedMatrix>(changed, asked));
    return upload;
  };
  const Upload intact = upload_of({"", ""}), broken = upload_of({"", "A section has changed.", "Another one."});
  UploadChecks checks;
  CHECK(checks.of(intact).fine());
  CHECK(checks.of(broken).reason == "A section has changed.");
  CHECK(checks.of(broken).status == reports::Status::incorrect);
  CHECK(checks.of(intact).fine());
  CHECK(asked == 5);
}
