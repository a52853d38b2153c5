// Claims about an AMD device's files, which the test writes as the kernel driver does.
#include "backends/hip/sysfs.h"

#include <stdlib.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

using namespace ecmv::backends;
using Catch::Matchers::WithinRel;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "ecmv_sysfs_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << text;
  }
};

std::string metrics(int revision, uint32_t own, uint64_t common) {
  std::string bytes(120, '\0');
  bytes[0] = 120;
  bytes[2] = 1;
  bytes[3] = static_cast<char>(revision);
  std::memcpy(bytes.data() + 68, &own, sizeof(own));
  std::memcpy(bytes.data() + 112, &common, sizeof(common));
  return bytes;
}

}  // namespace

TEST_CASE("an AMD device's clocks, power, temperature and throttle reasons come from its files") {
  const Folder folder;
  folder.write("pp_dpm_sclk", "0: 500Mhz\n1: 1700Mhz *\n");
  folder.write("pp_dpm_mclk", "0: 400Mhz\n1: 1600Mhz *\n");
  folder.write("hwmon/hwmon3/power1_average", "275000000\n");
  folder.write("hwmon/hwmon3/temp1_input", "61000\n");
  folder.write("gpu_metrics", metrics(3, 5, 1u | uint64_t{1} << 36));
  const DeviceState state = hip::read_sysfs(folder.path);
  CHECK_THAT(state.clock_hz, WithinRel(1.7e9));
  CHECK_THAT(state.memory_clock_hz, WithinRel(1.6e9));
  CHECK_THAT(state.power_w, WithinRel(275.0));
  CHECK_THAT(state.temperature_c, WithinRel(61.0));
  CHECK(state.throttle_reasons == "power cap, thermal");
}

TEST_CASE("throttle reasons of every revision that is known, and nothing of the others") {
  const Folder folder;
  const auto reasons = [&](const std::string& bytes) {
    folder.write("gpu_metrics", bytes);
    return hip::throttle_reasons(folder.path / "gpu_metrics");
  };
  CHECK(reasons(metrics(3, 5, 0)) == "none");
  CHECK(reasons(metrics(3, 5, uint64_t{1} << 17)) == "current limit");
  CHECK(reasons(metrics(1, 0, 0)) == "none");
  CHECK(reasons(metrics(2, 5, 0)) == "of the device's own code 5");
  CHECK(reasons(metrics(4, 5, 0)) == "");
  CHECK(reasons("short") == "");
}

TEST_CASE("a device without such files tells nothing, and nothing fails") {
  const DeviceState state = hip::read_sysfs("/nowhere");
  CHECK(state.clock_hz == 0);
  CHECK(state.power_w == 0);
  CHECK(state.throttle_reasons == "");
}
