// GPU backends on machines without them: listed, unavailable with a reason, never a crash.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>

#include "backends/backend.h"
#include "backends/plugins/plugins.h"

using namespace ecmv;

TEST_CASE("every backend lists at least one device, and says why where it cannot be used") {
  for (const backends::Backend& backend : backends::all_backends()) {
    const std::vector<backends::DeviceInfo> devices = backend.devices();
    INFO(backend.id);
    REQUIRE(!devices.empty());
    for (const backends::DeviceInfo& info : devices) {
      CHECK(info.backend == backend.id);
      if (info.unavailable.empty()) {
        CHECK(!info.name.empty());
      } else {
        INFO(info.unavailable);
        CHECK(info.unavailable.size() > 20);
        CHECK(info.unavailable.ends_with("."));
      }
    }
  }
}

TEST_CASE("the backends of GPUs are known by name in every build") {
  for (const char* id : {"cuda", "hip", "emulator"}) {
    INFO(id);
    REQUIRE(backends::find_backend(id) != nullptr);
  }
}

TEST_CASE("opening an unavailable backend throws the reason that it lists") {
  for (const backends::Backend& backend : backends::all_backends()) {
    const std::vector<backends::DeviceInfo> devices = backend.devices();
    if (std::any_of(devices.begin(), devices.end(), [](const auto& info) { return info.unavailable.empty(); }))
      continue;
    INFO(backend.id);
    CHECK_THROWS_MATCHES(backend.open({}), std::invalid_argument,
                         Catch::Matchers::Message(devices.front().unavailable));
  }
}

TEST_CASE("a GPU backend tells what kernels ask about, and refuses a device that is not there") {
  int seen = 0;
  for (const char* id : {"cuda", "hip", "emulator"}) {
    const backends::Backend* backend = backends::find_backend(id);
    for (const backends::DeviceInfo& info : backend->devices()) {
      if (!info.unavailable.empty()) continue;
      ++seen;
      INFO(id << " " << info.simd_target);
      CHECK((info.wave_size == 32 || info.wave_size == 64));
      CHECK(info.compute_units > 0);
      CHECK(info.shared_bytes >= 48 << 10);
      CHECK(backend->open({0, info.simd_target})->info().simd_target == info.simd_target);
      CHECK_THROWS_AS(backend->open({0, "no_such_architecture"}), std::invalid_argument);
    }
  }
  if (seen == 0) SKIP("No GPU backend can be used on this machine.");
}
