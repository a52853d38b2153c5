// One kernel measured as `ecmv run` does it, for claims about kernels that are right when they are checked and wrong
// when they are timed.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/run/measure.h"
#include "experiments/run/run.h"
#include "tests/experiments/test_codecs.h"

namespace ecmv::tests {

inline constexpr int kLayers = 5;
inline constexpr int kCallsBefore = 4 * kLayers;  // tier 2a with two passes of extremes, and the estimate of the time

// State that the kernels below keep; each case begins anew.
struct Memory {
  int64_t calls = 0;
  std::set<std::string> inputs;
  const int8_t* last_matrix = nullptr;  // seen in tier 2a
  std::map<const int8_t*, std::vector<int32_t>> results;
  bool timed() { return ++calls > kCallsBefore; }
};
inline Memory memory;

inline reports::CaseRecord measured(const backends::Kernel& kernel, const codecs::Codec& codec = make_codec(),
                                    const std::string& data = "{source: gaussian, sigma: 4, d: 64, layers: 5}",
                                    const std::string& verify = "each", const std::string& min_time = "0.005") {
  static const auto unknown_flags = experiments::initialise_timing({});
  memory = {};
  const std::vector<backends::Kernel> kernels = {kernel};
  const std::vector<codecs::CodecEntry> codecs = {{"test", &codec, kernels, {}}};
  const std::string op = kernel.op == Op::decode ? "decode" : kernel.op == Op::matvec ? "matvec" : "matmul";
  const experiments::Experiment experiment = experiments::parse_experiment(
      "schema: 1\nname: cheats\nverify: " + verify + "\nmeasure: {repetitions: 9, min_time: " + min_time +
          ", max_seconds: 30}\nexperiments:\n  - data: " + data +
          "\n    codecs: test\n    kernels: {backend: scalar, threads: 1, op: " + op + "}\n",
      "cheats", {}, codecs);
  reports::CaseRecord found;
  experiments::RunOptions options;
  options.codecs = codecs;
  options.on_case = [&](const reports::CaseRecord& record) { found = record; };
  experiments::run_experiment(experiment, options);
  return found;
}

// A kernel that was called less often than this is measured again, with longer samples: the time of one pass, from
// which the number of passes follows, is a hundred times too long where a busy machine holds it up.
inline constexpr int64_t kEnoughCalls = 100'000;

inline void expect_caught(const backends::Kernel& kernel, const std::string& reason, int d = 64) {
  reports::CaseRecord record;
  for (const char* min_time : {"0.005", "0.025", "0.125", "0.6"}) {
    record = measured(kernel, make_codec(), "{source: gaussian, sigma: 4, d: " + std::to_string(d) + ", layers: 5}",
                      "each", min_time);
    if (record.status != reports::Status::ok || memory.calls >= kEnoughCalls) break;
  }
  INFO(kernel.variant << ", " << memory.calls << " calls");
  CHECK(record.status == reports::Status::incorrect);
  CHECK_THAT(record.reason, Catch::Matchers::ContainsSubstring(reason));
  CHECK(record.time.samples_s.empty());
}

}  // namespace ecmv::tests
