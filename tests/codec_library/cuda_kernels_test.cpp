// What a library's kernel can do to a device, on a device: its case is over, and all others are measured.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "backends/backend.h"
#include "reports/record.h"
#include "tests/codec_library/libraries.h"
#include "tests/run_command.h"

using namespace ecmv;
using Catch::Matchers::ContainsSubstring;
using reports::Status;

namespace {

// The library is compiled where nvcc is.
const char* library() {
#if defined(ECMV_CUDA_VARIANTS_LIBRARY)
  return ECMV_CUDA_VARIANTS_LIBRARY;
#else
  return std::getenv("ECMV_CUDA_VARIANTS_LIBRARY");
#endif
}

int run(tests::Command& ecmv, const std::string& launch) {
  std::ofstream(ecmv.folder / "run.yaml")
      << "schema: 1\nname: run\nmeasure: {repetitions: 3, min_time: 0.01, max_seconds: 2, bandwidth: false}\n"
         "experiments:\n"
         "  - data: {source: gaussian, d: 512, sigma: 4, layers: 2}\n"
         "    codecs: [cuda_codec, raw_int8]\n"
         "    kernels: {backend: cuda, op: matvec, variant: first, policy: first, launch: "
      << launch << "}\n";
  return ecmv({"run", "run.yaml", "--codec-library", library(), "--force", "-o", "r.jsonl"});
}

}  // namespace

TEST_CASE("a library's kernel that harms a device costs its case, and the run goes on", "[gpu]") {
  if (library() == nullptr) SKIP("there was no nvcc to compile the library of this test");
  const backends::DeviceInfo device = backends::find_backend("cuda")->devices().front();
  if (!device.unavailable.empty()) SKIP(device.unavailable);
  struct Wrong {
    const char *variant, *launch;
    Status status;
    const char* sentence;
    int code;
  };
  tests::Command ecmv;
  for (const Wrong& wrong : std::initializer_list<Wrong>{
           {"", "graph", Status::ok, "", 0},
           {"illegal_access", "graph", Status::error, "Tried in a process of its own: On the device, a kernel failed",
            5},
           {"endless", "graph", Status::timed_out, "did not return within 2 s when it was tried.", 5},
           {"failed_launch", "graph", Status::error, "The kernel of cuda_codec could not be launched.", 5},
           {"silently_failed_launch", "graph", Status::incorrect, "W x differs", 3},
           {"past_the_end", "graph", Status::incorrect, "The kernel wrote outside", 3},
           {"waits", "graph", Status::error, "could not wait for the stream.", 5},
           {"waits", "plain", Status::ok, "", 0},
           {"not_capturable", "graph", Status::refused, "", 0},
           {"not_capturable", "plain", Status::ok, "", 0}}) {
    INFO(wrong.variant << " " << wrong.launch);
    ecmv.environment["ECMV_TEST_VARIANT"] = wrong.variant;
    CHECK(run(ecmv, wrong.launch) == wrong.code);
    INFO(ecmv.err);
    const reports::RecordSet records = reports::read_records(ecmv.folder / "r.jsonl");
    REQUIRE(records.cases.size() == 2);
    for (const reports::CaseRecord& record : records.cases)
      if (record.codec.id == "cuda_codec") {
        CHECK(record.status == wrong.status);
        CHECK_THAT(record.reason, ContainsSubstring(wrong.sentence));
      } else {
        CHECK(record.status == Status::ok);
        CHECK(record.time.samples_s.size() >= 3);
      }
  }
}
