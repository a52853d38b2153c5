// Claims about the memory left and the quota of cores, on files that the test writes as Linux does.
#include "backends/cpu/memory_limits.h"

#include <stdlib.h>

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <string>

#include "backends/cpu/cpu_info.h"

using namespace ecmv::backends::cpu;
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

TEST_CASE("a quota of one core gives one thread, of two and a half two, and none all") {
  CHECK(threads_within(1, 8) == 1);
  CHECK(threads_within(0.5, 8) == 1);
  CHECK(threads_within(2.5, 8) == 2);
  CHECK(threads_within(16, 8) == 8);
  CHECK(threads_within(0, 8) == 8);
}

TEST_CASE("the smallest quota of cores counts, of the own group or one around it, whole or not") {
  const Root root;
  CHECK(cpu_quota_cores(root.path) == 0);
  root.write("proc/self/cgroup", "0::/user.slice/job.scope\n");
  root.write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n");
  CHECK(cpu_quota_cores(root.path) == 0);
  root.write("sys/fs/cgroup/user.slice/job.scope/cpu.max", "250000 100000\n");
  CHECK(cpu_quota_cores(root.path) == 2.5);
  root.write("sys/fs/cgroup/user.slice/cpu.max", "30000 20000\n");
  CHECK(cpu_quota_cores(root.path) == 1.5);
  root.write("sys/fs/cgroup/cpu.max", "1000 100000\n");
  CHECK(cpu_quota_cores(root.path) == 0.01);
  for (const char* text : {"", "max\n", "100000\n", "100000 0\n", "-1 100000\n", "words 1\n"}) {
    INFO(text);
    root.write("sys/fs/cgroup/cpu.max", text);
    CHECK(cpu_quota_cores(root.path) == 1.5);
  }
}

TEST_CASE("quotas of control groups v1 count, alone, beside v2, and in a container with the host's path") {
  const Root root;
  root.write("proc/self/cgroup", "9:name=systemd:/\n3:cpuset:/\n4:cpu,cpuacct:/docker/0123\n0::/\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  CHECK(cpu_quota_cores(root.path) == 0);
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  CHECK(cpu_quota_cores(root.path) == 0.5);
  root.write("sys/fs/cgroup/unified/cpu.max", "10000 100000\n");
  CHECK(cpu_quota_cores(root.path) == 0.1);
}
