// Claims about CPUs that have AVX-512 but not all of it, or matrix units without the instructions beside them: which
// instruction sets the command chooses, and that no kernel runs an instruction that CPUID denies.
#include <catch2/catch_test_macros.hpp>

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "reports/record.h"
#include "tests/experiments/small_run.h"
#include "tests/run_command.h"

using namespace ecmv::tests;
using ecmv::reports::Status;

#if defined(ECMV_MASKED_CPUID)
namespace {

// The instruction sets that a CPU without these features has, by name; empty where CPUID cannot be answered otherwise.
std::map<std::string, bool> targets_without(const std::string& features) {
  Command ecmv;
  ecmv.environment = {{"LD_PRELOAD", ECMV_MASKED_CPUID}, {"MASK_CPUID", features}};
  if (ecmv({"list", "devices", "--json"}) != 0) return {};
  std::map<std::string, bool> targets;
  const nlohmann::json answer = nlohmann::json::parse(ecmv.out);
  for (const auto& device : answer.at("devices"))
    if (device.at("backend") == "simd") targets[device.at("simd_target")] = device.at("available");
  return targets;
}

}  // namespace

TEST_CASE("a CPU that lacks a part of AVX-512 or of AVX2 runs the instruction set below") {
  const std::map<std::string, bool> all = targets_without("");
  if (all.empty()) SKIP("this machine does not let CPUID be answered otherwise");
  struct Row {
    const char *features, *lacking, *best;
  };
  for (const Row& row : {Row{"7:0:b:16", "F: no AVX-512 at all", "AVX2"},
                         {"7:0:b:17", "DQ, as Knights Landing", "AVX2"},
                         {"7:0:b:30", "BW, as Knights Landing", "AVX2"},
                         {"7:0:b:31", "VL, as Knights Landing", "AVX2"},
                         {"7:0:c:11,7:0:c:6", "VNNI and VBMI2, as Skylake", "AVX3"},
                         {"7:0:c:6,7:0:c:1", "VBMI and VBMI2, as Cascade Lake and Cooper Lake", "AVX3"},
                         {"7:0:c:6", "VBMI2, as Cannon Lake", "AVX3"},
                         {"7:0:c:12", "BITALG", "AVX3"},
                         {"7:0:c:8", "GFNI", "AVX3"},
                         {"7:0:b:16,7:0:b:5", "AVX2", "SSE4"},
                         {"7:0:b:16,7:0:b:8", "BMI2", "SSE4"},
                         {"7:0:b:16,1:0:c:12", "FMA", "SSE4"}}) {
    INFO("without " << row.lacking);
    const std::map<std::string, bool> found = targets_without(row.features);
    REQUIRE(found.size() == all.size());
    bool below = false;  // best first
    for (const char* target : {"AVX3_DL", "AVX3", "AVX2", "SSE4"}) {
      below = below || target == std::string(row.best);
      if (all.contains(target)) CHECK(found.at(target) == (below && all.at(target)));
    }
  }
}

TEST_CASE("kernels of matrix units and of AVX512-BF16 are refused where CPUID denies these, and all others are right") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  if (targets_without("").empty()) SKIP("this machine does not let CPUID be answered otherwise");
  for (const char* features : {"7:0:d:24", "7:0:d:22", "7:1:a:5", "7:0:b:30", "7:0:c:6"}) {
    INFO("without " << features);
    Command ecmv;
    ecmv.environment = {{"LD_PRELOAD", ECMV_MASKED_CPUID}, {"MASK_CPUID", features}};
    const int code =
        ecmv({"run", "--codec",       "all",      "--source",      "llm_like", "--d",    "128",           "--layers",
              "1",   "--backend",     "simd",     "--simd-target", "all",      "--op",   "decode,matmul", "--batch",
              "8",   "--activations", "f32,bf16", "--profile",     "-o",       "r.jsonl"});
    INFO(ecmv.err);
    CHECK(code == 0);
    const auto records = ecmv::reports::read_records(ecmv.folder / "r.jsonl");
    CHECK(records.cases.size() > 2);
    for (const auto& record : records.cases) {
      INFO(record.kernel.variant << "/" << record.kernel.policy << ": " << record.reason);
      CHECK((record.status == Status::ok || record.status == Status::refused));
      const std::string& policy = record.kernel.policy;
      const bool tiles = policy.ends_with("amx"), dots = policy.ends_with("avx512_bf16");
      if (tiles || (dots && features[2] == '1')) CHECK(record.status == Status::refused);
    }
  }
}
#endif
