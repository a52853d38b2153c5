// Claims about runs that end abnormally: the running case is named, and only it is lost.
#include <catch2/catch_test_macros.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "backends/cpu/guarded_buffer.h"
#include "experiments/run/running_case.h"

using namespace ecmv;
using namespace ecmv::experiments;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("ecmv_running_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

struct Ended {
  int status = 0;
  std::string said;  // to stderr
};

// Runs `what` in a process of its own.
template <typename What>
Ended in_a_child(const What& what) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) ::signal(signal, SIG_DFL);  // not the test library's
    what();
    ::_exit(0);
  }
  ::close(ends[1]);
  Ended ended;
  char bytes[512];
  for (ssize_t count; (count = ::read(ends[0], bytes, sizeof bytes)) > 0;)
    ended.said.append(bytes, static_cast<size_t>(count));
  ::close(ends[0]);
  ::waitpid(child, &ended.status, 0);
  return ended;
}

volatile int sink;

}  // namespace

#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("a read just past a fenced buffer ends in the case's name and the exit code") {
  for (const int64_t bytes : {0, 1, 64, 1000, 4096, 100000}) {
    const Ended ended = in_a_child([bytes] {
      backends::cpu::GuardedBuffer::fence(true);
      const backends::cpu::GuardedBuffer buffer(bytes);
      for (int64_t i = 0; i < bytes; ++i) sink = static_cast<int>(buffer.data()[i]);
      set_running_case("0123", "gaussian/raw_int8/matvec");
      catch_crashes("What is said at the end.\n", 3);
      sink = static_cast<int>(buffer.data()[(bytes + 63) / 64 * 64]);
    });
    INFO(bytes << " bytes: " << ended.said);
    CHECK(WIFEXITED(ended.status));
    CHECK(WEXITSTATUS(ended.status) == 3);
    CHECK(ended.said == "ecmv: gaussian/raw_int8/matvec: invalid memory access.\nWhat is said at the end.\n");
  }
}
#endif

TEST_CASE("fenced buffers are zero, keep their guards and notice writes between their end and the fence") {
  backends::cpu::GuardedBuffer::fence(true);
  for (const int64_t bytes : {1, 63, 65, 4097}) {
    backends::cpu::GuardedBuffer buffer(bytes);
    CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % 64 == 0);
    for (int64_t i = 0; i < bytes; ++i) CHECK(buffer.data()[i] == std::byte{0});
    CHECK(buffer.guards_intact());
#if !defined(__SANITIZE_ADDRESS__)
    buffer.data()[bytes] ^= std::byte{1};
    CHECK_FALSE(buffer.guards_intact());
#endif
  }
  backends::cpu::GuardedBuffer::fence(false);
}

TEST_CASE("a run that dies leaves the name of its case, one that ends leaves nothing") {
  const Folder folder;
  const fs::path records = folder.path / "records.jsonl";
  {
    const Journal journal(records);
    CHECK_FALSE(Journal::left_behind(records).has_value());
    set_running_case("aaaa", "a long name of a case");
    set_running_case("bbbb", "a name");
    const auto left = Journal::left_behind(records);
    REQUIRE(left.has_value());
    CHECK(left->key == "bbbb");
    CHECK(left->name == "a name");
    set_running_case({}, {});
    CHECK_FALSE(Journal::left_behind(records).has_value());
    set_running_case("cccc", "another name");
  }
  CHECK_FALSE(Journal::left_behind(records).has_value());
  set_running_case({}, {});

  in_a_child([&] {
    const Journal journal(records);
    set_running_case("dddd", "the one that was killed");
    ::raise(SIGKILL);
  });
  REQUIRE(Journal::left_behind(records).has_value());
  CHECK(Journal::left_behind(records)->name == "the one that was killed");
}

TEST_CASE("a watchdog barks once, at the case that does not end, and not while nothing runs") {
  std::atomic<int> barks = 0;
  std::string name;
  set_running_case({}, {});
  const Watchdog watchdog(std::chrono::seconds(0), [&](const Journal::Entry& entry) {
    name = entry.name;
    ++barks;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(barks == 0);
  set_running_case("eeee", "the one that hangs");
  while (barks == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(barks == 1);
  CHECK(name == "the one that hangs");
  set_running_case({}, {});
}
