// Claims about sweeps that several processes share: together they run each case once, whatever their number, and their
// files can be joined.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "experiments/plan/shard.h"
#include "reports/record.h"
#include "tests/experiments/small_run.h"
#include "tests/json_lines.h"
#include "tests/run_command.h"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using namespace ecmv::tests;
namespace experiments = ecmv::experiments;
namespace fs = std::filesystem;

namespace {

// Three datasets of two cases each: a product and decoding.
const std::string kConfig = R"(schema: 1
name: sweep
experiments:
  - data: {source: gaussian, sigma: 4, layers: 2, d: [32, 48, 64]}
    codecs: raw_int8
    kernels: {backend: scalar, op: [decode, matvec], policy: first}
)";

std::multiset<std::string> keys_of(const ecmv::reports::RecordSet& records) {
  std::multiset<std::string> keys;
  for (const auto& record : records.cases) keys.insert(record.case_key);
  return keys;
}

}  // namespace

TEST_CASE("shards run together what one run does, each case once and a dataset in one place, however many there are") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  std::ofstream(ecmv.folder / "sweep.yaml") << kConfig;
  REQUIRE(ecmv({"run", "sweep.yaml", "--profile", "-o", "whole.jsonl"}) == 0);
  const auto whole = keys_of(ecmv::reports::read_records(ecmv.folder / "whole.jsonl"));
  REQUIRE(whole.size() == 6);
  for (const int count : {1, 2, 3, 5}) {
    INFO(count);
    fs::remove_all(ecmv.folder / "out");
    std::ofstream merged(ecmv.folder / "merged.jsonl", std::ios::trunc);
    std::map<std::string, int> shard_of_data;
    for (int index = 0; index < count; ++index) {
      const std::string name = std::to_string(index) + "/" + std::to_string(count);
      const fs::path file =
          ecmv.folder / "out/sweep" / ("records." + std::to_string(index) + "-of-" + std::to_string(count) + ".jsonl");
      CHECK(ecmv({"run", "sweep.yaml", "--profile", "--shard", name}) == 0);
      CHECK_THAT(ecmv.err, ContainsSubstring("Shard " + name + ": "));
      CHECK(fs::exists(file) == (index < 3));
      if (index >= 3) {
        CHECK_THAT(ecmv.err, ContainsSubstring("There are more shards than datasets; this shard is empty."));
        continue;
      }
      merged << text_of(file);
      const auto records = ecmv::reports::read_records(file);
      REQUIRE(records.runs.size() == 1);
      CHECK(records.runs[0].shard == name);
      for (const auto& record : records.cases)
        CHECK(shard_of_data.emplace(record.data.hash, index).first->second == index);
    }
    merged.close();
    const auto together = ecmv::reports::read_records(ecmv.folder / "merged.jsonl");
    CHECK(keys_of(together) == whole);
    CHECK(together.notes.empty());
  }
  // A report takes the files, or the joined file; the page says which part came from where.
  CHECK(ecmv({"report", "merged.jsonl", "-o", "rep"}) == 0);
  const std::string page = text_of(ecmv.folder / "rep/report.html");
  CHECK_THAT(page, ContainsSubstring("0/5") && ContainsSubstring("1/5") && ContainsSubstring("2/5"));
  CHECK(ecmv({"report", "out/sweep/records.0-of-5.jsonl", "out/sweep/records.2-of-5.jsonl", "-o", "rep"}) == 0);
  CHECK(ecmv({"compare", "whole.jsonl", "merged.jsonl"}) % 4 == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("6 "));
  CHECK(ecmv({"compare", "whole.jsonl", "out/sweep/records.0-of-5.jsonl", "out/sweep/records.1-of-5.jsonl"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("Join the files of several shards"));
}

TEST_CASE("the shard comes from the variables of a job array or of a test runner, unless it is given") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  std::ofstream(ecmv.folder / "sweep.yaml") << kConfig;
  const auto said = [&](std::map<std::string, std::string> environment, std::vector<std::string> more = {}) {
    ecmv.environment = std::move(environment);
    more.insert(more.begin(), {"run", "sweep.yaml", "--dry-run"});
    ecmv(more);
    return ecmv.err;
  };
  CHECK_THAT(said({{"TEST_SHARD_INDEX", "1"}, {"TEST_TOTAL_SHARDS", "3"}}),
             ContainsSubstring("Shard 1/3: 1 of 3 datasets, 2 of 6 cases."));
  CHECK(ecmv.code == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("48x48") && !ContainsSubstring("32x32"));
  const std::map<std::string, std::string> array = {{"SLURM_ARRAY_TASK_ID", "14"},
                                                    {"SLURM_ARRAY_TASK_COUNT", "3"},
                                                    {"SLURM_ARRAY_TASK_MIN", "10"},
                                                    {"SLURM_ARRAY_TASK_MAX", "14"},
                                                    {"SLURM_ARRAY_TASK_STEP", "2"}};
  CHECK_THAT(said(array), ContainsSubstring("Shard 2/3: "));
  CHECK_THAT(said(array, {"--shard", "0/1"}), ContainsSubstring("Shard 0/1: 3 of 3 datasets, 6 of 6 cases."));
  // In an array with gaps a task cannot tell its number.
  auto gaps = array;
  gaps["SLURM_ARRAY_TASK_STEP"] = "1";
  CHECK_THAT(said(gaps), ContainsSubstring("Task 14 of 3 of this array of Slurm has no place in a row from 10 to 14"));
  CHECK(ecmv.code == 2);
  CHECK_THAT(said({{"SLURM_ARRAY_TASK_ID", "1"}}), ContainsSubstring("SLURM_ARRAY_TASK_COUNT is not"));
  CHECK(ecmv.code == 2);
  CHECK_THAT(said({{"TEST_SHARD_INDEX", "1"}}), ContainsSubstring("is set and the other is not"));
  CHECK(ecmv.code == 2);
  CHECK_THAT(said({{"TEST_SHARD_INDEX", "x"}, {"TEST_TOTAL_SHARDS", "3"}}),
             ContainsSubstring("TEST_SHARD_INDEX=x: a shard needs a number"));
  CHECK(ecmv.code == 2);
}

TEST_CASE("a shard that is none ends with 2 and a sentence") {
  Command ecmv;
  for (const char* text : {"", "1", "1/", "/2", "-1/2", "1/2/3", "one/two", "0x1/2", " 1/2"}) {
    INFO(text);
    CHECK(ecmv(small({"--shard", text})) == 2);
    CHECK_THAT(ecmv.err, ContainsSubstring("--shard"));
    CHECK_FALSE(fs::exists(ecmv.folder / "out"));
  }
  CHECK(ecmv(small({"--shard", "2/2"})) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("--shard 2/2: of 2 shards there are only 0 to 1."));
  CHECK(ecmv(small({"--shard", "0/0"})) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("an experiment has at least one shard"));
  CHECK_THROWS_AS(experiments::parse_shard("99999999999999999999/2", "--shard"), std::runtime_error);
}

TEST_CASE("a shard is resumed by itself, with the command that it prints") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  std::ofstream(ecmv.folder / "sweep.yaml") << kConfig;
  ecmv.environment = {{"TEST_SHARD_INDEX", "0"}, {"TEST_TOTAL_SHARDS", "2"}};
  REQUIRE(ecmv({"run", "sweep.yaml", "--profile"}) == 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("report out/sweep/records.*-of-2.jsonl -o out/sweep"));
  // The last record is lost.
  const fs::path file = ecmv.folder / "out/sweep/records.0-of-2.jsonl";
  std::string text = text_of(file);
  text.resize(text.rfind('\n', text.size() - 2) + 1);
  std::ofstream(file, std::ios::trunc) << text;
  CHECK(ecmv({"run", "sweep.yaml", "--profile", "--resume"}) == 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("1 ok, 3 done before"));
  const auto records = ecmv::reports::read_records(file);
  CHECK(records.runs.size() == 1);
  CHECK(records.cases.size() == 4);
  // Another shard in the same file is another run.
  ecmv.environment.clear();
  CHECK(ecmv({"run", "sweep.yaml", "--profile", "--resume", "--shard", "1/2", "-o",
              "out/sweep/records.0-of-2.jsonl"}) == 0);
  CHECK(ecmv::reports::read_records(file).runs.size() == 2);
}

TEST_CASE("a shard that is killed leaves lines of JSON, which join those of the others and are completed") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  std::ofstream(ecmv.folder / "sweep.yaml") << kConfig << "measure: {repetitions: 1, min_time: 0.5}\n";
  const auto shard = [](const std::string& name) {
    return std::vector<std::string>{"run", "sweep.yaml", "--shard", name, "--resume"};
  };
  const fs::path files[] = {ecmv.folder / "out/sweep/records.0-of-2.jsonl",
                            ecmv.folder / "out/sweep/records.1-of-2.jsonl"};
  const pid_t long_one = ecmv.start(shard("0/2"));
  using Clock = std::chrono::steady_clock;
  const auto lines = [&] { return std::ranges::count(text_of(files[0]), '\n'); };
  for (const auto begin = Clock::now(); lines() < 2 && Clock::now() - begin < std::chrono::seconds(60);)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(long_one, SIGKILL);
  ecmv.wait_for(long_one);
  CHECK(ecmv.code == 1000 + SIGKILL);
  CHECK(no_json_line(files[0]) == "");
  CHECK(ecmv(shard("1/2")) == 0);
  CHECK(no_json_line(files[1]) == "");
  CHECK(ecmv({"report", files[0].string(), files[1].string(), "-o", "page"}) == 0);
  ecmv(shard("0/2"));  // the case in which the run died is left out, with a record
  CHECK(no_json_line(files[0]) == "");
  CHECK(ecmv::reports::read_records(files[0]).cases.size() + ecmv::reports::read_records(files[1]).cases.size() == 6);
}
