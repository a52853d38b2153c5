// Claims about the built program in surroundings that give less than it asks for: fewer threads, less memory, names and
// places that the file system refuses. Each ends in a status or a sentence with a documented exit code.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "codecs/registry.h"
#include "reports/record.h"
#include "tests/comma_locale.h"
#include "tests/experiments/small_run.h"
#include "tests/json_lines.h"
#include "tests/run_command.h"

using Catch::Matchers::ContainsSubstring;
using ecmv::reports::Status;
using namespace ecmv::tests;
namespace fs = std::filesystem;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // its shadow alone exceeds any limit of address space
#else
constexpr bool kSanitized = false;
#endif

// Statuses of the cases of r.jsonl by their number of threads.
std::map<int64_t, Status> by_threads(const fs::path& folder) {
  std::map<int64_t, Status> statuses;
  for (const auto& record : ecmv::reports::read_records(folder / "r.jsonl").cases)
    statuses[record.kernel.threads] = record.status;
  return statuses;
}

std::string reasons(const fs::path& folder) {
  std::string all;
  for (const auto& record : ecmv::reports::read_records(folder / "r.jsonl").cases) all += record.reason + "\n";
  return all;
}

const std::string kThreads =
    "run --codec raw_int8 --d 256 --layers 2 --sigma 4 --backend scalar --profile -o r.jsonl --threads ";

}  // namespace

TEST_CASE("threads that OpenMP does not give make no result incorrect") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  for (const auto& [variable, value] :
       {std::pair("OMP_THREAD_LIMIT", "2"), {"OMP_THREAD_LIMIT", "1"}, {"OMP_MAX_ACTIVE_LEVELS", "0"}}) {
    INFO(variable << "=" << value);
    Command shell("/bin/sh");
    shell.environment = {{variable, value}, {"OMP_NUM_THREADS", "4"}};
    CHECK(shell({"-c", "exec " ECMV_BINARY " " + kThreads + "1,2,4,all --op matvec,matmul"}) == 0);
    const auto records = ecmv::reports::read_records(shell.folder / "r.jsonl");
    CHECK(records.cases.size() == 8);
    for (const auto& record : records.cases) CHECK(record.status == Status::ok);
  }
}

TEST_CASE("a number of threads in the environment that no machine has is no number of threads for 'all'") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  for (const char* value : {"99999999999", "2147483647", "-1", "many"}) {
    INFO(value);
    Command ecmv;
    ecmv.environment = {{"OMP_NUM_THREADS", value}};
    CHECK(ecmv(small({"--threads", "all", "-o", "r.jsonl"})) == 0);
    const auto statuses = by_threads(ecmv.folder);
    REQUIRE(statuses.size() == 1);
    CHECK(statuses.begin()->first >= 1);
    CHECK(statuses.begin()->first <= std::max(64u, 4 * std::thread::hardware_concurrency()));
    CHECK(statuses.begin()->second == Status::ok);
  }
}

TEST_CASE("a missing folder on a file system that is read-only is told as that") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command shell("/bin/sh");
  const auto within = [&](const std::string& words) {
    return shell({"-c", "unshare -rm sh -c 'mkdir -p place && mount -t tmpfs -o ro none place && " + words + "'"});
  };
  if (within("true") != 0) SKIP("this process may mount nothing");
  CHECK(within(ECMV_BINARY " run --codec raw_int8 --d 64 --layers 1 --profile -o place/new/r.jsonl") == 2);
  CHECK_THAT(shell.err, ContainsSubstring("cannot create the folder place/new: Read-only file system"));
  CHECK(within(ECMV_BINARY " run --codec raw_int8 --d 64 --layers 1 --profile -o place/r.jsonl") == 2);
  CHECK_THAT(shell.err, ContainsSubstring("Read-only file system"));
}

TEST_CASE("threads that cannot be created are unavailable") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  if (kSanitized) SKIP("a sanitizer needs more address space than the limit");
  Command shell("/bin/sh");
  // 400 stacks of 8 MiB and more do not fit.
  CHECK(shell({"-c", "ulimit -s 8192; ulimit -v 2000000; exec " ECMV_BINARY " " + kThreads + "1,400"}) == 0);
  CHECK_THAT(reasons(shell.folder), ContainsSubstring("of 400 threads: Resource temporarily unavailable"));
  CHECK(by_threads(shell.folder)[1] == Status::ok);
}

TEST_CASE("a process that is held to one core has one thread for 'all', and is told so") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  if (CPU_COUNT(&before) < 2) SKIP("this machine has one core");
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);  // children have it, too
  Command shell("/bin/sh");
  const int doctor = shell({"-c", "exec " ECMV_BINARY " doctor"});
  const std::string found = shell.out;
  const int run = shell({"-c", "exec " ECMV_BINARY " " + kThreads + "all,2"});
  sched_setaffinity(0, sizeof before, &before);
  CHECK(doctor == 0);
  CHECK_THAT(found, ContainsSubstring("of which this process may use 1 (taskset, cpuset)"));
  CHECK(run == 0);
  CHECK(by_threads(shell.folder) == std::map<int64_t, Status>{{1, Status::ok}, {2, Status::ok}});
  CHECK_THAT(shell.err, ContainsSubstring("2 threads share the 1 core that this process may use: they take turns."));
}

TEST_CASE("memory that there is not is out_of_memory with the numbers, however much is asked for") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command shell("/bin/sh");
  const auto run = [&](const std::string& words, const std::string& limit = "") {
    return shell({"-c", limit +
                            "exec " ECMV_BINARY " run --codec raw_int8 --sigma 4 --backend scalar --profile "
                            "--force -o r.jsonl " +
                            words});
  };
  if (!kSanitized) {
    CHECK(run("--d 16384 --layers 4", "ulimit -v 2000000; ") == 5);
    CHECK_THAT(reasons(shell.folder), ContainsSubstring("needs about 4.00 GiB"));
  }
  for (const char* words :
       {"--d 16777216 --layers 1", "--d 16777216 --layers 100000", "--d 16777216 --layers 100000 --op size"}) {
    INFO(words);
    CHECK(run(words) == 5);
    const auto records = ecmv::reports::read_records(shell.folder / "r.jsonl");
    REQUIRE(records.cases.size() == 1);
    CHECK(records.cases[0].status == Status::out_of_memory);
    CHECK(run(std::string(words) + " --dry-run") == 6);
    CHECK_THAT(shell.out, ContainsSubstring("out_of_memory: The case needs about"));
  }
}

TEST_CASE("places that the file system does not give end with 2 and a sentence") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  const std::vector<std::string> small = {"run", "--codec", "raw_int8", "--d",       "64",     "--layers",
                                          "2",   "--sigma", "4",        "--backend", "scalar", "--profile"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = small;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  REQUIRE(ecmv(with({"-o", "good.jsonl"})) == 0);
  std::ofstream(ecmv.folder / "file") << "x";
  std::ofstream(ecmv.folder / "out") << "x";
  const std::string longest(300, 'n'), deep = longest + "/x", far(5000, 'f');
  const std::vector<std::vector<std::string>> all = {
      small,  // whose folder out/ is a file
      with({"-o", "file/r.jsonl"}),
      with({"-o", "/proc/nothing/r.jsonl"}),
      with({"-o", "."}),
      with({"-o", longest}),
      with({"-o", deep}),
      with({"-o", far}),
      with({"-o", "r.jsonl", "--csv", "file/x"}),
      with({"-o", "r.jsonl", "--json", longest}),
      {"run", longest},
      {"run", far + ".yaml"},
      {"run", "--codec", "raw_int8", "--d", "64", "--set", "name=" + longest},
      {"verify", longest},
      {"verify", "."},
      {"verify", "--junit", "file/x", "--filter", "nothing"},
      {"report", "good.jsonl", "-o", "file"},
      {"report", "good.jsonl", "-o", "file/x"},
      {"report", "good.jsonl", "-o", "/proc/x"},
      {"report", "good.jsonl", "-o", longest},
      {"report", longest, "-o", "rep"},
      {"report", ".", "-o", "rep"},
      {"compare", longest, "good.jsonl"},
      {"compare", "good.jsonl", "."},
      {"compare", "good.jsonl", "good.jsonl", "--md", "file/x"},
      {"inspect", longest},
      {"inspect", "."},
      {"new-codec", "my_codec", "--codecs-dir", longest},
      {"new-codec", "my_codec", "--out-of-tree", "file/x"},
      {"new-codec", "my_codec", "--out-of-tree", longest},
      {"list", "codecs", "--codec-library", longest},
      {"list", "codecs", "--codec-library", "."},
  };
  for (const std::vector<std::string>& arguments : all) {
    std::string words;
    for (const std::string& argument : arguments) words += argument.substr(0, 40) + " ";
    INFO(words);
    ecmv(arguments);
    INFO(ecmv.err.substr(0, 1000));
    CHECK((ecmv.code == 2 || (ecmv.code == 6 && arguments[0] == "verify")));
    CHECK(ecmv.err.find("internal error") == std::string::npos);
    CHECK(ecmv.err.find("filesystem error") == std::string::npos);
    CHECK_FALSE((ecmv.err + ecmv.out).empty());
  }
  fs::create_directories(ecmv.folder / "rep2" / "figures");
  fs::create_directories(ecmv.folder / "rep2" / "report.html");
  CHECK(ecmv({"report", "good.jsonl", "-o", "rep2"}) == 2);
  fs::create_directories(ecmv.folder / "rep3");
  std::ofstream(ecmv.folder / "rep3" / "figures") << "x";
  CHECK(ecmv({"report", "good.jsonl", "-o", "rep3"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("figures"));
}

TEST_CASE("names that are not UTF-8 are shown as well as they can be") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  const std::string name = "we\xff\xc3ights";
  REQUIRE(ecmv({"run",   "--codec",   "raw_int8", "--d",       "64", "--layers",      "2",      "--sigma",
                "4",     "--backend", "scalar",   "--profile", "-o", name + ".jsonl", "--json", name + ".json",
                "--csv", "-",         "--md",     name + ".md"}) == 0);
  CHECK(ecmv({"compare", name + ".jsonl", name + ".jsonl", "--json"}) == 0);
  CHECK(ecmv({"report", name + ".jsonl", "-o", name, "--title", name}) == 0);
  std::ofstream(ecmv.folder / name) << "no weights";
  fs::remove_all(ecmv.folder / name);
  // A matrix as an npy file.
  std::string header = "{'descr': '|i1', 'fortran_order': False, 'shape': (8, 8), }";
  header.resize(117, ' ');
  header += "\n";
  std::ofstream(ecmv.folder / (name + ".npy"), std::ios::binary)
      << "\x93NUMPY\x01" << std::string(1, '\0') << static_cast<char>(header.size()) << std::string(1, '\0') << header
      << std::string(64, '\1');
  CHECK(ecmv({"inspect", name + ".npy"}) == 0);
  CHECK(ecmv({"inspect", name + ".npy", "--json"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("npy"));
  CHECK(ecmv({"run", "--codec", name, "--d", "64"}) == 2);
  CHECK(ecmv({"verify", name + ".npy"}) == 2);
  CHECK(ecmv({"list", "codecs", "--codec-library", name}) == 2);
}

TEST_CASE("numbers have a decimal point in every locale, in files and on the command line") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command plain, ecmv;
  if (!write_comma_locale(ecmv.folder)) SKIP("there is no localedef, or no source of de_DE");
  ecmv.environment = {{"LOCPATH", ecmv.folder.string()}, {"LC_ALL", "de_DE.UTF-8"}, {"LANG", "de_DE.UTF-8"}};
  const std::vector<std::string> run = {"run",     "--codec", "raw_int8",  "--d",    "2048",       "--layers", "2",
                                        "--sigma", "2.5",     "--op",      "size",   "--backend",  "scalar",   "-o",
                                        "r.jsonl", "--csv",   "table.csv", "--json", "table.json", "--force"};
  for (Command* command : {&plain, &ecmv}) {
    REQUIRE((*command)(run) == 0);
    CHECK(no_json_line(command->folder / "r.jsonl") == "");
    REQUIRE((*command)({"report", "r.jsonl", "-o", "page"}) == 0);
  }
  // The same sizes to the last digit; they depend on nothing but the data.
  const auto without_run = [](const fs::path& file) {
    return std::regex_replace(text_of(file), std::regex("[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}"), "");
  };
  for (const char* file : {"table.csv", "table.json"}) {
    CHECK_THAT(text_of(ecmv.folder / file), ContainsSubstring("3.37"));
    CHECK(without_run(ecmv.folder / file) == without_run(plain.folder / file));
  }
  REQUIRE(ecmv({"run", "--codec", "raw_int8", "--d", "2048", "--sigma", "2.5", "--print-config"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("2.5") && ContainsSubstring("2048"));
  CHECK(ecmv({"run", "--codec", "raw_int8", "--d", "64", "--sigma", "2,5", "--print-config"}) != 1);
}
