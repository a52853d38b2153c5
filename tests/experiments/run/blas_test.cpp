// A BLAS library as a yardstick on CPUs: opened at run time, held to the bound like every kernel, and refused with a
// reason if it is missing or unsuitable.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fstream>

#include "codecs/registry.h"
#include "reports/record.h"
#include "tests/run_command.h"

using Catch::Matchers::ContainsSubstring;
using ecmv::reports::Status;

namespace {

// Records of the library's kernels where ECMV_BLAS is `library`.
std::vector<ecmv::reports::CaseRecord> run_with(const std::string& library, const std::string& codec) {
  ecmv::tests::Command ecmv;
  ecmv.environment = {{"ECMV_BLAS", library}};
  CHECK(ecmv({"run",  "--codec",   codec,      "--op",      "matmul", "--activations", "f32,bf16", "--batch",
              "1,5",  "--source",  "llm_like", "--d",       "64",     "--layers",      "2",        "--backend",
              "simd", "--threads", "1,2",      "--profile", "-o",     "r.jsonl"}) == 0);
  std::vector<ecmv::reports::CaseRecord> records;
  for (const auto& record : ecmv::reports::read_records(ecmv.folder / "r.jsonl").cases)
    if (record.kernel.variant == "blas") records.push_back(record);
  CHECK(!records.empty());
  return records;
}

}  // namespace

TEST_CASE("products by a BLAS library are verified, over the library's threads and over the backend's") {
  if (ecmv::codecs::find_codec("raw_fp32") == nullptr) SKIP("this build lacks the codec");
  int by_rows = 0, by_threads = 0;
  for (const auto& record : run_with(ECMV_FAKE_BLAS, "raw_fp32")) {
    INFO(record.reason);
    CHECK(record.status == Status::ok);
    (record.kernel.policy == "gemm_rows" ? by_rows : by_threads) += 1;
  }
  CHECK(by_rows == 8);
  CHECK(by_threads == 8);
}

TEST_CASE("products by a BLAS library are refused with the reason where there is none that will do") {
  if (ecmv::codecs::find_codec("raw_fp32") == nullptr) SKIP("this build lacks the codec");
  const ecmv::tests::Command folder;
  std::ofstream(folder.folder / "no_library.so") << "text";
  for (const auto& [library, reason] :
       {std::pair<std::string, const char*>("/nowhere/libblas.so", "which cannot be read."),
        {(folder.folder / "no_library.so").string(), "which is no shared object."},
        {"libno_such_blas.so.99", "which the loader does not find or take."},
        {ECMV_BLAS_WITHOUT_THREADS, "which has no call that sets its threads."}}) {
    INFO(library);
    for (const auto& record : run_with(library, "raw_fp32")) {
      CHECK(record.status == Status::refused);
      CHECK_THAT(record.reason, ContainsSubstring("ECMV_BLAS names " + library + ", " + reason));
    }
  }
}

TEST_CASE("a BLAS library without a product of bf16 is refused for bf16 weights") {
  if (ecmv::codecs::find_codec("raw_bf16") == nullptr) SKIP("this build lacks the codec");
  for (const auto& record : run_with(ECMV_FAKE_BLAS, "raw_bf16")) {
    CHECK(record.status == Status::refused);
    CHECK_THAT(record.reason, ContainsSubstring("has no cblas_sbgemm"));
  }
}
