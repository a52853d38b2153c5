// Claims about the memory left, on files that the test writes as Linux does.
#include "backends/cpu/memory_limits.h"

#include <stdlib.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <string>

using ecmv::backends::cpu::available_memory_bytes;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMiB = 1 << 20;

struct Root {
  fs::path path;
  Root() {
    std::string name = (fs::temp_directory_path() / "ecmv_memory_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
    write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\n");
  }
  ~Root() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
  int64_t available() const { return available_memory_bytes(path) / kMiB; }
};

std::string mib(int64_t count) { return std::to_string(count * kMiB) + "\n"; }

}  // namespace

TEST_CASE("without control groups the system's word counts") {
  const Root root;
  CHECK(root.available() == 8192);
  root.write("proc/self/cgroup", "");
  CHECK(root.available() == 8192);
  root.write("proc/meminfo", "");
  CHECK(available_memory_bytes(root.path) == 0);  // unknown
}

TEST_CASE("the limits of control groups v2 count, those of the groups around as well") {
  const Root root;
  root.write("proc/self/cgroup", "0::/user.slice/job.scope\n");
  root.write("sys/fs/cgroup/user.slice/job.scope/memory.max", mib(1000));
  root.write("sys/fs/cgroup/user.slice/job.scope/memory.high", "max\n");
  root.write("sys/fs/cgroup/user.slice/job.scope/memory.current", mib(400));
  CHECK(root.available() == 600);
  root.write("sys/fs/cgroup/user.slice/job.scope/memory.stat", "anon 1\ninactive_file " + mib(300) + "active_file 5\n");
  CHECK(root.available() == 900);
  root.write("sys/fs/cgroup/user.slice/memory.max", mib(2000));
  root.write("sys/fs/cgroup/user.slice/memory.current", mib(1950));
  CHECK(root.available() == 50);
  root.write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  CHECK(root.available() == 900);
  root.write("sys/fs/cgroup/user.slice/job.scope/memory.high", mib(500));
  CHECK(root.available() == 400);
  root.write("sys/fs/cgroup/user.slice/job.scope/memory.current", mib(5000));
  CHECK(available_memory_bytes(root.path) == 1);  // nothing, which is not unknown
}

TEST_CASE("the limits of control groups v1 count") {
  const Root root;
  root.write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/job/7\n0::/\n");
  root.write("sys/fs/cgroup/memory/job/7/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/job/7/memory.usage_in_bytes", mib(100));
  CHECK(root.available() == 8192);
  root.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", mib(700));
  root.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", mib(300));
  root.write("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file " + mib(100));
  CHECK(root.available() == 500);
}

TEST_CASE("in a container, where the path is the host's, the mounted group counts") {
  const Root root;
  root.write("proc/self/cgroup", "0::/docker/0123456789abcdef\n");
  root.write("sys/fs/cgroup/memory.max", mib(512));
  root.write("sys/fs/cgroup/memory.current", mib(12));
  CHECK(root.available() == 500);
}
