// Claims about kernels that are right when they are checked and wrong when they are timed. Nobody cheats on purpose,
// but a stale cache, a race and a forgotten layer look exactly like this. None of them may print a number.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <map>
#include <vector>

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

constexpr int kLayers = 5;
constexpr int kCallsBefore = 2 * kLayers;  // tier 2a and the pass that estimates the time

// State that the kernels below keep; each case begins anew.
struct Memory {
  int64_t calls = 0;
  const int8_t* last_matrix = nullptr;  // seen in tier 2a
  std::map<const int8_t*, std::vector<int32_t>> results;
  bool timed() { return ++calls > kCallsBefore; }
} memory;

bool first_rows(const backends::Rows& rows) { return rows.begin == 0; }

void decode_only_the_last_layer(const Stored& stored, const DecodeArgs& args) {
  if (memory.timed() && stored.elements != memory.last_matrix) return;
  memory.last_matrix = stored.elements;
  decode(stored, args);
}
void decode_every_other_time(const Stored& stored, const DecodeArgs& args) {
  if (!memory.timed() || memory.calls % 2 == 0) decode(stored, args);
}
void decode_wrongly_now_and_then(const Stored& stored, const DecodeArgs& args) {
  decode(stored, args);
  if (memory.timed() && memory.calls % 997 == 0) args.out[0] ^= std::byte{4};
}
void multiply_wrongly_now_and_then(const Stored& stored, const MatvecArgs& args) {
  multiply(stored, args);
  if (first_rows(args.rows) && memory.timed() && memory.calls % 997 == 0) args.y[0] += 1000;
}
void multiply_unless_y_is_right(const Stored& stored, const MatvecArgs& args) {
  std::vector<int32_t>& known = memory.results[stored.elements];
  if (!known.empty() && std::equal(known.begin(), known.end(), args.y)) return;
  ++memory.calls;
  multiply(stored, args);
  known.assign(args.y, args.y + stored.shape.rows);
}
void multiply_once(const Stored& stored, const MatvecArgs& args) {
  std::vector<int32_t>& known = memory.results[stored.elements];
  if (known.empty()) {
    multiply(stored, args);
    known.assign(args.y, args.y + stored.shape.rows);
  }
  std::copy(known.begin(), known.end(), args.y);
}
// Keeps a result in the stream, over an element of the row that gave it.
void multiply_and_keep_it_in_the_stream(const Stored& stored, const MatvecArgs& args) {
  multiply(stored, args);
  if (memory.timed()) const_cast<int8_t*>(stored.elements)[1] = static_cast<int8_t>(args.y[0] | 1);
}
void multiply_tokens_once(const Stored& stored, const MatmulArgs& args, int batch) {
  static std::map<const int8_t*, std::vector<float>> results;
  if (memory.calls == 0) results.clear();
  memory.calls++;
  std::vector<float>& known = results[stored.elements];
  const auto count = static_cast<std::ptrdiff_t>(batch * args.y_stride);
  if (known.empty()) {
    multiply_tokens(stored, args, batch);
    known.assign(args.y, args.y + count);
  }
  std::copy(known.begin(), known.end(), args.y);
}
// AddressSanitizer would end the test for this.
#if defined(__GNUC__)
__attribute__((no_sanitize("address")))
#endif
void set_to_zero(volatile std::byte* bytes, int count) {
  for (int i = 0; i < count; ++i) bytes[i] = std::byte{0};
}
void decode_a_thousand_bytes_more(const Stored& stored, const DecodeArgs& args) {
  decode(stored, args);
  if (args.rows.end == stored.shape.rows) set_to_zero(args.out + args.rows.count() * stored.shape.cols + 300, 1000);
}

reports::CaseRecord measured(const backends::Kernel& kernel, const codecs::Codec& codec = make_codec(),
                             const std::string& data = "{source: gaussian, sigma: 4, d: 64, layers: 5}",
                             const std::string& verify = "each") {
  static const auto unknown_flags = initialise_timing({});
  memory = {};
  const std::vector<backends::Kernel> kernels = {kernel};
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, kernels, {}}};
  const std::string op = kernel.op == Op::decode ? "decode" : kernel.op == Op::matvec ? "matvec" : "matmul";
  const Experiment experiment = parse_experiment(
      "schema: 1\nname: cheats\nverify: " + verify +
          "\nmeasure: {repetitions: 9, min_time: 0.005, max_seconds: 5}\nexperiments:\n  - data: " + data +
          "\n    codecs: test\n    kernels: {backend: scalar, threads: 1, op: " + op + "}\n",
      "cheats", {}, codecs);
  reports::CaseRecord found;
  RunOptions options;
  options.codecs = codecs;
  options.on_case = [&](const reports::CaseRecord& record) { found = record; };
  run_experiment(experiment, options);
  return found;
}

void expect_caught(const backends::Kernel& kernel, const std::string& reason) {
  INFO(kernel.variant);
  const reports::CaseRecord record = measured(kernel);
  CHECK(record.status == Status::incorrect);
  CHECK_THAT(record.reason, ContainsSubstring(reason));
  CHECK(record.time.samples_s.empty());
}

}  // namespace

TEST_CASE("honest kernels are measured by the same checks") {
  CHECK(measured(make_kernel<decode>()).status == Status::ok);
  CHECK(measured(make_kernel<multiply>()).status == Status::ok);
  CHECK(measured(make_kernel<multiply_tokens>()).status == Status::ok);
}

TEST_CASE("a layer that is no longer decoded once it is timed is found out") {
  expect_caught(make_kernel<decode_only_the_last_layer>("only the last layer"), "the decoded matrix");
}

TEST_CASE("calls that do nothing, or something wrong now and then, are found out") {
  expect_caught(make_kernel<decode_every_other_time>("every other time"), "the decoded matrix");
  expect_caught(make_kernel<decode_wrongly_now_and_then>("1 of 997 decodes"), "the decoded matrix");
  expect_caught(make_kernel<multiply_wrongly_now_and_then>("1 of 997 products"), "differs");
}

TEST_CASE("results of earlier passes do not pass for new ones") {
  expect_caught(make_kernel<multiply_once>("cached"), "");
  expect_caught(make_kernel<multiply_tokens_once>("cached, tokens"), "changed tokens");
  expect_caught(make_kernel<multiply_and_keep_it_in_the_stream>("cached in the stream"), "");
}

TEST_CASE("a kernel that returns where y already holds its results computes in every timed pass") {
  const reports::CaseRecord record = measured(make_kernel<multiply_unless_y_is_right>());
  CHECK(record.status == Status::ok);
  CHECK(memory.calls >=
        kLayers * record.time.iterations_per_sample * static_cast<int64_t>(record.time.samples_s.size()));
}

TEST_CASE("writing far past the end is found out") {
  expect_caught(make_kernel<decode_a_thousand_bytes_more>("a thousand bytes more"), "outside the decoded matrix");
}
