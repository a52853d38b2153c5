// Claims about the files of a run of the built program: none is lost or overwritten, and failed writes are reported.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "codecs/registry.h"
#include "reports/record.h"
#include "tests/experiments/small_run.h"
#include "tests/run_command.h"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using ecmv::reports::read_records;
using namespace ecmv::tests;
namespace fs = std::filesystem;

namespace {

const std::string kSmall = "--codec raw_int8 --d 64 --layers 2 --sigma 4 --backend scalar --profile";

// The command in a shell's words, for redirections.
struct Shell {
  Command command{"/bin/sh"};
  int operator()(const std::string& words) { return command({"-c", "exec timeout 60 " ECMV_BINARY " " + words}); }
  fs::path path(const std::string& name) const { return command.folder / name; }
};

void write_config(const fs::path& path, const std::string& name, int d = 64) {
  std::ofstream(path) << "schema: 1\nname: " << name
                      << "\nexperiments:\n  - data: {source: gaussian, sigma: 4, layers: 2, d: " << d
                      << "}\n    codecs: raw_int8\n    kernels: {backend: scalar}\n";
}

}  // namespace

TEST_CASE("a closed stdout is not mistaken for the record file") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Shell ecmv;
  CHECK(ecmv("run " + kSmall + " -o r.jsonl >&-") == 2);
  CHECK_THAT(ecmv.command.err,
             ContainsSubstring("stdout is full or closed") && ContainsSubstring("ok; records in r.jsonl"));
  const auto records = read_records(ecmv.path("r.jsonl"));
  CHECK(records.cases.size() == 1);
  CHECK(records.notes.empty());
  CHECK(ecmv("run " + kSmall + " -o all.jsonl <&- >&- 2>&-") == 2);
  CHECK(read_records(ecmv.path("all.jsonl")).notes.empty());
}

TEST_CASE("a full stdout, or a full file, is no success") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Shell ecmv;
  for (const char* words : {"list codecs >/dev/full", "--help >/dev/full", "--version >/dev/full",
                            "run --codec raw_int8 --d 64 --print-config >/dev/full", "doctor --json >/dev/full"}) {
    INFO(words);
    CHECK(ecmv(words) == 2);
    CHECK_THAT(ecmv.command.err, ContainsSubstring("stdout is full or closed"));
  }
  CHECK(ecmv("run " + kSmall + " -o r.jsonl --csv /dev/full") == 2);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("The file /dev/full cannot be written: No space left on device."));
  CHECK(ecmv("run " + kSmall + " -o /dev/full") == 2);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("cannot write a record to /dev/full"));
  // A disk that fills up during the run: complete records stay complete.
  CHECK(ecmv.command({"-c",
                      "ulimit -f 8; exec " ECMV_BINARY " run --codec raw_int8 --layers 1 --sigma 4 --backend scalar "
                      "--profile --d 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31 -o few.jsonl"}) == 2);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("cannot write a record to few.jsonl"));
  const auto records = read_records(ecmv.path("few.jsonl"));
  CHECK(records.cases.size() >= 1);
  CHECK(records.notes.empty());
  CHECK_THAT(text_of(ecmv.path("few.jsonl")), Catch::Matchers::EndsWith("}\n"));
}

TEST_CASE("while a run writes to a file no other one touches it") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Shell ecmv;
  ecmv::reports::RecordWriter live(ecmv.path("r.jsonl"));
  live.write(ecmv::reports::CaseRecord{});
  const std::string before = text_of(ecmv.path("r.jsonl"));
  for (const char* how : {"", " --force", " --resume"}) {
    CHECK(ecmv("run " + kSmall + " -o r.jsonl" + how) == 2);
    CHECK_THAT(ecmv.command.err, ContainsSubstring("another run is writing to r.jsonl"));
  }
  CHECK(text_of(ecmv.path("r.jsonl")) == before);
  CHECK_FALSE(fs::exists(ecmv.path("r.1.jsonl")));
}

TEST_CASE("a config of somebody else is never written over") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Shell ecmv;
  std::ofstream(ecmv.path("config.yaml")) << "mine\n";
  CHECK(ecmv("run " + kSmall + " -o records.jsonl") == 0);
  CHECK(text_of(ecmv.path("config.1.yaml")) == "mine\n");
  CHECK_THAT(ecmv.command.err, ContainsSubstring("the config that was in config.yaml is now in config.1.yaml"));
  CHECK_THAT(text_of(ecmv.path("config.yaml")), StartsWith("schema: 1"));
  CHECK(ecmv("run " + kSmall + " -o records.jsonl --resume") == 0);
  CHECK_FALSE(fs::exists(ecmv.path("config.2.yaml")));
  CHECK(ecmv("run " + kSmall + " -o records.jsonl --force -a d=32") == 0);
  CHECK_THAT(text_of(ecmv.path("config.2.yaml")), ContainsSubstring("64"));
}

TEST_CASE("the files of a run are files of their own, and hold records") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Shell ecmv;
  write_config(ecmv.path("c.yaml"), "c");
  const std::string config = text_of(ecmv.path("c.yaml"));
  for (const char* words : {"run c.yaml -o c.yaml", "run c.yaml -o ./c.yaml --force", "run c.yaml --csv c.yaml",
                            "run c.yaml -o r.jsonl --md ./r.jsonl", "run c.yaml --json t --csv t"}) {
    INFO(words);
    CHECK(ecmv(words) == 2);
    CHECK((ecmv.command.err.find("config itself") != std::string::npos ||
           ecmv.command.err.find("cannot both go to") != std::string::npos));
  }
  CHECK(text_of(ecmv.path("c.yaml")) == config);
  std::ofstream(ecmv.path("weights")) << "not records\n";
  for (const char* how : {"", " --force", " --resume"}) {
    CHECK(ecmv(std::string("run c.yaml -o weights") + how) == 2);
    CHECK_THAT(ecmv.command.err, ContainsSubstring("weights holds something else than records"));
  }
  CHECK(text_of(ecmv.path("weights")) == "not records\n");
}

TEST_CASE("records go to stdout or into a pipe, and nothing else goes there") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Shell ecmv;
  for (const char* file : {"-", "/dev/stdout", "/proc/self/fd/1"})
    for (const char* redirection : {"", " | cat >piped", " >>appended"}) {
      INFO(file << redirection);
      const std::string words = ECMV_BINARY " run " + kSmall + " -o " + file + redirection;
      CHECK(ecmv.command({"-c", words}) == 0);
      const char* where = *redirection == 0 ? "stdout" : redirection[1] == '|' ? "piped" : "appended";
      const auto records = read_records(ecmv.path(where));
      CHECK(records.cases.size() >= 1);
      CHECK(records.notes.empty());
      CHECK_THAT(text_of(ecmv.path(where)), StartsWith("{"));
    }
  CHECK(read_records(ecmv.path("appended")).cases.size() == 3);
  CHECK(fs::is_symlink("/dev/stdout"));
  REQUIRE(::mkfifo(ecmv.path("pipe").c_str(), 0600) == 0);
  CHECK(ecmv("run " + kSmall + " -o pipe") == 2);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("nothing reads the pipe pipe"));
  CHECK(ecmv("run " + kSmall + " -o - --resume") == 2);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("nothing in it to resume"));
  CHECK(ecmv("run " + kSmall + " -o - --csv t.csv") == 2);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("Tables need a record file"));
}

TEST_CASE("a broken line of a record file costs that line, with its number") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Shell ecmv;
  REQUIRE(ecmv("run " + kSmall + " -a d=32,64 -o r.jsonl") == 0);
  std::string text = text_of(ecmv.path("r.jsonl"));
  text.insert(text.find('\n') + 1, "{\"schema\":1,\"kind\":\"ca{\"schema\":1}\n");
  std::ofstream(ecmv.path("r.jsonl")) << text;
  CHECK(ecmv("report r.jsonl -o rep --gnuplot none") == 0);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("r.jsonl:2: broken record"));
  CHECK_THAT(text_of(ecmv.path("rep/results.md")), ContainsSubstring("r.jsonl:2: broken record"));
  CHECK(ecmv("compare r.jsonl r.jsonl") == 0);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("r.jsonl:2: broken record"));
  CHECK(ecmv("run " + kSmall + " -a d=32,64 -o r.jsonl --resume") == 0);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("r.jsonl:2: broken record") && ContainsSubstring("2 done before"));
}
