// Claims about devices for which a build has no code.
#include "backends/gpu/built_for.h"

#include <stdlib.h>

#include <catch2/catch_test_macros.hpp>

using namespace ecmv::backends;

namespace {

constexpr const char* kUsual = "75-real,80-real,90a-real,90-virtual";

std::string why(const char* architectures, int device, PtxRules rules = {}) {
  return why_no_cuda_code(architectures, device, rules);
}

}  // namespace

TEST_CASE("the usual build has code for every device since sm_75, by the driver's translation after sm_90") {
  for (const int device : {75, 80, 86, 87, 89, 90, 100, 103, 120}) {
    INFO(device);
    CHECK(why(kUsual, device) == "");
  }
}

TEST_CASE("a device newer than the build's architectures is told with those, and with the option that helps") {
  CHECK(why("80-real", 90) == "the build has code for sm_80 alone: build with -DCMAKE_CUDA_ARCHITECTURES=90");
  CHECK(why("75-real,90a-real", 100) ==
        "the build has code for sm_75 and sm_90a alone: build with -DCMAKE_CUDA_ARCHITECTURES=100");
  CHECK(why("75-real,80-real,90a", 100) ==
        "the build has code for sm_75, sm_80 and sm_90a alone: build with -DCMAKE_CUDA_ARCHITECTURES=100");
  CHECK(why("80-real", 86) == "");
  CHECK(why("86-real", 80) != "");
  CHECK(why("90", 120) == "");
  CHECK(why("90-virtual", 89) == "the build has code for compute_90 alone: build with -DCMAKE_CUDA_ARCHITECTURES=89");
  CHECK(why("100f-real", 103) == "");
  CHECK(why("100f", 120) != "");
}

TEST_CASE("variables that force or forbid the driver's translation are named where they are the reason") {
  const PtxRules forced{.forced = true}, forbidden{.forbidden = true};
  CHECK(why(kUsual, 90, forced) == "");
  CHECK(why(kUsual, 80, forced) ==
        "CUDA_FORCE_PTX_JIT is set, and the build has code for sm_75, sm_80, sm_90a and compute_90 alone, none of "
        "which a driver translates for it: unset the variable");
  CHECK(why("90a-real", 90, forced) ==
        "CUDA_FORCE_PTX_JIT is set, and the build has code for sm_90a alone, none of which a driver translates for it: "
        "unset the variable");
  CHECK(why(kUsual, 90, forbidden) == "");
  CHECK(why(kUsual, 100, forbidden) ==
        "the build has code for sm_75, sm_80, sm_90a and compute_90 alone, which the driver may not translate for it, "
        "since CUDA_DISABLE_PTX_JIT is set: unset the variable, or build with -DCMAKE_CUDA_ARCHITECTURES=100");
  setenv("CUDA_FORCE_PTX_JIT", "1", 1);
  setenv("CUDA_DISABLE_PTX_JIT", "0", 1);
  CHECK(PtxRules::of_environment().forced);
  CHECK_FALSE(PtxRules::of_environment().forbidden);
  unsetenv("CUDA_FORCE_PTX_JIT");
  unsetenv("CUDA_DISABLE_PTX_JIT");
}

TEST_CASE("of words that only CMake knows nothing is said") {
  for (const char* words : {"", "native", "all-major", "90a-real,native"}) CHECK(why(words, 100) == "");
}

TEST_CASE("AMD's devices need code of their own name") {
  CHECK(why_no_hip_code("gfx906,gfx90a", "gfx90a") == "");
  CHECK(why_no_hip_code("gfx90a:xnack-", "gfx90a") == "");
  CHECK(why_no_hip_code("gfx906,gfx90a,gfx1030", "gfx942") ==
        "the build has code for gfx906, gfx90a and gfx1030 alone: build with -DECMV_HIP_ARCHITECTURES=gfx942");
  CHECK(why_no_hip_code("gfx9-4-generic", "gfx942") == "");
  CHECK(why_no_hip_code("", "gfx942") == "");
}
