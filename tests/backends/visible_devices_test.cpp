// Claims about the sentences for lists of devices that a driver cuts short.
#include "backends/gpu/visible_devices.h"

#include <stdlib.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using Catch::Matchers::ContainsSubstring;
using ecmv::backends::why_fewer_devices;

namespace {

std::string why(const char* value, int shown) { return why_fewer_devices("CUDA_VISIBLE_DEVICES", value, shown); }

}  // namespace

TEST_CASE("a list that the driver takes as a whole, and none, need no sentence") {
  CHECK(why(nullptr, 0) == "");
  CHECK(why(nullptr, 4) == "");
  CHECK(why("0", 1) == "");
  CHECK(why("0,1", 2) == "");
  CHECK(why(" 1 , 0 ", 2) == "");
  CHECK(why("GPU-8932f937", 1) == "");
}

TEST_CASE("a list that hides devices is told with the entry that ended it") {
  CHECK(why("", 0) == "CUDA_VISIBLE_DEVICES is empty, which hides every device.");
  CHECK(why("  ", 0) == "CUDA_VISIBLE_DEVICES is empty, which hides every device.");
  CHECK(why("-1", 0) ==
        "CUDA_VISIBLE_DEVICES is '-1', of which the driver shows no device: it did not take '-1'; a negative number "
        "ends the list.");
  CHECK(why("99", 0) ==
        "CUDA_VISIBLE_DEVICES is '99', of which the driver shows no device: it did not take '99'; there is no device "
        "of that number.");
  CHECK(why("0,abc", 1) ==
        "CUDA_VISIBLE_DEVICES is '0,abc', of which the driver shows 1 device: it did not take 'abc'; it is neither a "
        "number nor a name that begins with GPU- or MIG-.");
  CHECK_THAT(why("0,1,-1,2", 2), ContainsSubstring("shows 2 devices: it did not take '-1'; a negative"));
  CHECK_THAT(why("0,,1", 1), ContainsSubstring("did not take ''; it is neither"));
  CHECK_THAT(why("GPU-", 0), ContainsSubstring("did not take 'GPU-'; it must begin the name of exactly one device"));
  CHECK_THAT(why("GPU-0000,0", 0), ContainsSubstring("did not take 'GPU-0000'; it must begin the name of exactly one"));
  CHECK_THAT(why("MIG-GPU-8932f937/1/0", 0), ContainsSubstring("it must name a MIG device of this machine"));
  CHECK_THAT(why("MIG-11,MIG-22", 1), ContainsSubstring("'MIG-22'; ") && ContainsSubstring("gets only one"));
  CHECK_THAT(why("0,0", 0), ContainsSubstring("shows no device: '0' stands there twice."));
}

TEST_CASE("control characters of such a list do not reach the terminal") {
  CHECK(why("0,\x1b[31m", 1).find('\x1b') == std::string::npos);
}

TEST_CASE("the first variable that explains it is told") {
  setenv("ECMV_TEST_FIRST", "0", 1);
  setenv("ECMV_TEST_SECOND", "", 1);
  CHECK(why_fewer_devices({"ECMV_TEST_NONE", "ECMV_TEST_FIRST", "ECMV_TEST_SECOND"}, 1) == "");
  CHECK_THAT(why_fewer_devices({"ECMV_TEST_NONE", "ECMV_TEST_FIRST", "ECMV_TEST_SECOND"}, 0),
             ContainsSubstring("ECMV_TEST_FIRST is '0'"));
  CHECK_THAT(why_fewer_devices({"ECMV_TEST_NONE", "ECMV_TEST_SECOND"}, 0), ContainsSubstring("is empty"));
  unsetenv("ECMV_TEST_FIRST");
  unsetenv("ECMV_TEST_SECOND");
}
