// Claims about the built program: exit codes, output to stdout and stderr, files.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backends/backend.h"
#include "backends/plugins/plugins.h"
#include "codecs/registry.h"
#include "reports/record.h"
#include "tests/experiments/small_run.h"
#include "tests/run_command.h"
#include "tests/test_matrices.h"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace ecmv::tests;
namespace fs = std::filesystem;

namespace {

// Any codec that takes int8; a build of a few codecs may lack the baseline.
const std::string& some_codec() {
  static const std::string codec = [] {
    const ecmv::datasets::Matrix matrix = ecmv::tests::gaussian_matrix({512, 512}, 4);
    std::string last;
    for (const ecmv::codecs::CodecEntry& entry : ecmv::codecs::all_codecs())
      if (entry.codec->refuses(matrix.view(), ecmv::codecs::default_settings(*entry.codec)).empty()) last = entry.id;
    return last;
  }();
  return codec;
}

}  // namespace

TEST_CASE("usage errors end with 2 and a nearest word, help with 0") {
  Command ecmv;
  CHECK(ecmv({}) == 2);
  CHECK(ecmv({"--help"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("new-codec"));
  CHECK(ecmv({"--version"}) == 0);
  CHECK(ecmv({"verfy"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("Did you mean 'verify'?"));
  CHECK(ecmv.out.empty());
  CHECK(ecmv({"run", "--help"}) == 0);
  CHECK(ecmv({"run", "--simga", "4"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("Did you mean '--sigma'?"));
  CHECK(ecmv({"run"}) == 2);
  CHECK(ecmv({"run", "/nowhere.yaml"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("/nowhere.yaml: the file cannot be read."));
  CHECK(ecmv({"run", "x.yaml", "--codec", some_codec()}) == 2);
  CHECK(ecmv({"run", "--codec", some_codec() + "x"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("Did you mean '" + some_codec() + "'?"));
  CHECK(ecmv({"run", "--codec", some_codec(), "--benchmark_nonsense=1"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("--benchmark_nonsense=1"));
  CHECK(ecmv({"list"}) == 2);
  CHECK(ecmv({"list", "colours"}) == 2);
  CHECK(ecmv({"report", "nothing.jsonl", "-o", "x"}) == 2);
  CHECK(ecmv({"compare", "nothing.jsonl", "nothing.jsonl"}) == 2);
  CHECK(ecmv({"inspect", "nothing.safetensors"}) == 2);
  CHECK(ecmv({"run", "--codec", some_codec(), "--filter", "("}) == 2);
}

TEST_CASE("config errors come all at once with their places") {
  Command ecmv;
  std::ofstream(ecmv.folder / "bad.yaml")
      << "schema: 1\nname: bad\nexperiments:\n  - data: {source: gaussian, sgima: 4, d: x}\n    codecs: none_such\n";
  CHECK(ecmv({"run", "bad.yaml"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("bad.yaml:4:30: 'data' has no key 'sgima'. Did you mean 'sigma'?") &&
                           ContainsSubstring("'none_such'"));
}

TEST_CASE("lists print every kind as text and JSON") {
  Command ecmv;
  for (const char* what : {"codecs", "backends", "devices", "datasets", "metrics", "coverage"}) {
    CHECK(ecmv({"list", what}) == 0);
    CHECK(ecmv.out.size() > 50);
    CHECK(ecmv({"list", what, "--json"}) == 0);
    CHECK_THAT(ecmv.out, StartsWith("{"));
  }
  CHECK(ecmv({"list", "coverage"}) == 0);
}

TEST_CASE("an ad hoc run writes records, a table and its config, and can be repeated from that config") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  CHECK(ecmv(small({})) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("raw_int8"));
  CHECK_THAT(ecmv.err, ContainsSubstring("[1/1]"));
  const auto records = ecmv::reports::read_records(ecmv.folder / "out/ad_hoc/records.jsonl");
  CHECK(records.runs.size() == 1);
  CHECK(records.cases.size() == 1);
  CHECK(records.bandwidths.empty());
  const std::string config = text_of(ecmv.folder / "out/ad_hoc/config.yaml");
  CHECK(ecmv(small({"--print-config"})) == 0);
  CHECK(ecmv.out == config);
  CHECK(ecmv({"run", "out/ad_hoc/config.yaml", "--profile", "-o", "again.jsonl"}) == 0);
  CHECK(ecmv::reports::read_records(ecmv.folder / "again.jsonl").cases[0].case_key == records.cases[0].case_key);
}

TEST_CASE("a case that a run died of is left out of the run that resumes, with a record, and tried by the next") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  const fs::path file = ecmv.folder / "r.jsonl";
  REQUIRE(ecmv(small({"-o", "r.jsonl"})) == 0);
  const std::string key = ecmv::reports::read_records(file).cases.at(0).case_key;
  fs::remove(file);
  std::ofstream(ecmv.folder / "r.jsonl.running") << key << "\nits name\n";
  CHECK(ecmv(small({"-o", "r.jsonl", "--resume"})) != 0);
  const auto records = ecmv::reports::read_records(file);
  REQUIRE(records.cases.size() == 1);
  CHECK(records.cases[0].status == ecmv::reports::Status::error);
  CHECK_THAT(records.cases[0].reason, ContainsSubstring("ended during this case"));
  CHECK_FALSE(fs::exists(ecmv.folder / "r.jsonl.running"));
  CHECK(ecmv(small({"-o", "r.jsonl", "--resume"})) == 0);
  CHECK(ecmv::reports::read_records(file).cases.back().status == ecmv::reports::Status::ok);
}

TEST_CASE("an old record file is set aside, continued or replaced as asked") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  const fs::path file = ecmv.folder / "r.jsonl";
  const auto cases = [&](const fs::path& path) { return ecmv::reports::read_records(path).cases.size(); };
  CHECK(ecmv(small({"-o", "r.jsonl"})) == 0);
  CHECK(ecmv(small({"-o", "r.jsonl"})) == 0);
  CHECK(cases(file) == 1);
  CHECK(cases(ecmv.folder / "r.1.jsonl") == 1);
  CHECK(ecmv(small({"-o", "r.jsonl", "--resume"})) == 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("1 done before"));
  CHECK(cases(file) == 1);
  CHECK(ecmv(small({"-o", "r.jsonl", "--force"})) == 0);
  CHECK(cases(file) == 1);
  CHECK_FALSE(fs::exists(ecmv.folder / "r.2.jsonl"));
  // A killed run's half line is cut off, and the run that goes on is the same run.
  std::ofstream(file, std::ios::app) << R"({"schema": 1, "kind": "case", "sta)";
  CHECK(ecmv(small({"-o", "r.jsonl", "--resume", "-a", "d=64"})) == 0);
  CHECK(cases(file) == 1);
  CHECK_THAT(ecmv.err, ContainsSubstring("incomplete"));
}

TEST_CASE("nothing to run is never success") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  CHECK(ecmv(small({"--filter", "no such case"})) == 6);
  CHECK(ecmv(small({"--require-backend", "quantum"})) == 6);
  CHECK_THAT(ecmv.err, ContainsSubstring("'quantum' is not part of this build"));
  CHECK_FALSE(fs::exists(ecmv.folder / "out"));
  CHECK(ecmv(small({"--require-backend", "simd"})) == 6);
  CHECK_THAT(ecmv.err, ContainsSubstring("no case ran on the required backend 'simd'"));
  CHECK(ecmv(small({"--require-backend", "scalar"})) == 0);
  CHECK(ecmv({"verify", "--filter", "no such case"}) == 6);
}

TEST_CASE("a dry run shows cases and bytes and writes nothing") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  CHECK(ecmv(small({"--dry-run"})) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("8 KiB of matrices") && ContainsSubstring("raw_int8/scalar/matvec/rows\n") &&
                           ContainsSubstring("1 cases"));
  CHECK_FALSE(fs::exists(ecmv.folder / "out"));
  CHECK(ecmv({"run", "--codec", "raw_int8", "--d", "131000", "--layers", "1000", "--dry-run"}) == 6);
  CHECK_THAT(ecmv.out, ContainsSubstring("out_of_memory"));
}

TEST_CASE("tables go to files or to stdout alone") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  CHECK(ecmv(small({"--json", "t.json", "--csv", "t.csv", "--md", "t.md"})) == 0);
  CHECK_THAT(text_of(ecmv.folder / "t.json"), StartsWith("["));
  CHECK_THAT(text_of(ecmv.folder / "t.csv"), ContainsSubstring("stored_bytes"));
  CHECK_THAT(text_of(ecmv.folder / "t.md"), ContainsSubstring("| raw_int8"));
  CHECK(ecmv({"run", "out/ad_hoc/config.yaml", "--profile", "--csv", "-"}) == 0);
  CHECK(ecmv.out ==
        text_of(ecmv.folder / "t.csv").substr(0, ecmv.out.find('\n')) + ecmv.out.substr(ecmv.out.find('\n')));
  CHECK(ecmv(small({"--csv", "/nowhere/t.csv"})) == 2);
}

TEST_CASE("a GPU backend runs with plain launches when asked, and its record says so", "[emulator]") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  const int code =
      ecmv({"run", "--codec", "raw_int8", "--backend", "emulator", "--simd-target", "wave64", "--launch", "graph,plain",
            "--d", "64", "--layers", "2", "--variant", "tuned", "--policy", "first", "-o", "r.jsonl"});
  if (code == 6) SKIP("there is no emulator plugin");
  CHECK(code == 0);
  const auto records = ecmv::reports::read_records(ecmv.folder / "r.jsonl");
  REQUIRE(records.cases.size() == 2);
  CHECK(records.cases[0].kernel.launch == "graph");
  CHECK(records.cases[1].kernel.launch == "plain");
  CHECK(records.cases[0].case_key != records.cases[1].case_key);
  CHECK(records.cases[1].kernel.compute_units > 0);
  CHECK(records.runs.at(0).gpus.empty());  // an emulated device is no GPU of the machine
}

TEST_CASE("why a backend has no device is said, also when one of its instruction sets is asked for") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  bool any = false;
  for (const ecmv::backends::Backend& backend : ecmv::backends::all_backends()) {
    std::string reason = "no device found";
    for (const ecmv::backends::DeviceInfo& info : backend.devices()) {
      reason = info.unavailable;
      if (reason.empty()) break;
    }
    if (reason.empty()) continue;
    any = true;
    Command command;
    CHECK(command({"run", "--codec", "raw_int8", "--backend", std::string(backend.id), "--simd-target", "sm_90", "--d",
                   "64", "--layers", "2", "-o", "r.jsonl"}) == 6);
    CHECK_THAT(command.err, ContainsSubstring(reason));
  }
  if (!any) SKIP("every backend has a device here");
}

TEST_CASE("every backend is named by the help of --backend") {
  Command ecmv;
  CHECK(ecmv({"run", "--help"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("best, scalar, simd, cuda, hip, emulator"));
}

TEST_CASE("an interrupted run keeps what it has, tells how to go on, and goes on") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  const std::vector<std::string> long_run = {
      "run",       "--codec", "raw_int8",      "--d", "64,80,96,112", "--layers", "2",  "--sigma", "1,2,4,8",
      "--backend", "scalar",  "--repetitions", "20",  "--min-time",   "0.02",     "-o", "r.jsonl"};
  const pid_t child = ecmv.start(long_run);
  // Until the first record of a case is there.
  for (int i = 0; i < 4000 && text_of(ecmv.folder / "r.jsonl").find("\"kind\":\"case\"") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(child, SIGINT);
  ecmv.wait_for(child);
  CHECK(ecmv.code == 130);
  CHECK_THAT(ecmv.err, ContainsSubstring("ecmv run --codec raw_int8") && ContainsSubstring("--resume"));
  const auto finished = ecmv::reports::read_records(ecmv.folder / "r.jsonl");
  CHECK(finished.cases.size() >= 1);
  CHECK(finished.cases.size() < 16);
  CHECK(finished.notes.empty());
  std::vector<std::string> rest = long_run;
  rest.push_back("--resume");
  CHECK(ecmv(rest) == 0);
  const auto all = ecmv::reports::read_records(ecmv.folder / "r.jsonl");
  CHECK(all.cases.size() == 16);
  CHECK(all.runs.size() == 1);  // the same config, build and machine: the same run
}

TEST_CASE("verify runs the built-in config, writes JUnit and counts damaged streams") {
  Command ecmv;
  const std::string filter = "512x512x2/seed1/" + some_codec();
  CHECK(ecmv({"verify", "--filter", filter, "--corrupt", "--flips", "10", "--junit", "j.xml"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("damaged streams: " + some_codec()) && ContainsSubstring(", 0 failed"));
  CHECK_THAT(text_of(ecmv.folder / "j.xml"),
             ContainsSubstring("failures=\"0\"") && ContainsSubstring("<testcase classname=\"" + some_codec()));
  CHECK(ecmv({"verify", "--filter", filter, "--corrupt", "--flips", "1", "--junit", "-"}) == 0);
  CHECK(ecmv.out.starts_with("<?xml"));
  CHECK_THAT(ecmv.out, !ContainsSubstring("damaged streams: ") && !ContainsSubstring("verified,"));
  CHECK_THAT(ecmv.err, ContainsSubstring("damaged streams: ") && ContainsSubstring(", 0 failed"));
  CHECK(ecmv({"verify", "nothing.safetensors"}) == 2);
}

TEST_CASE("records are reported and compared") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  REQUIRE(ecmv(small({"-o", "r.jsonl"})) == 0);
  CHECK(ecmv({"compare", "r.jsonl", "r.jsonl"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("raw_int8"));
  // More stored bytes are a regression at any speed.
  std::string worse = text_of(ecmv.folder / "r.jsonl");
  const size_t at = worse.find("\"stored_bytes\":8192");
  REQUIRE(at != std::string::npos);
  worse.replace(at, 19, "\"stored_bytes\":8200");
  std::ofstream(ecmv.folder / "worse.jsonl") << worse;
  CHECK(ecmv({"compare", "r.jsonl", "worse.jsonl"}) == 4);
  CHECK(ecmv({"compare", "r.jsonl"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("takes two record files, or one or more and --baseline codec=ID."));
  CHECK(ecmv({"report", "r.jsonl", "-o", "rep"}) == 0);
  CHECK(fs::exists(ecmv.folder / "rep/report.html"));
  CHECK_THAT(ecmv.out, ContainsSubstring("raw_int8"));
  // Exports.
  CHECK(ecmv({"report", "r.jsonl"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("Give -o FOLDER for the report, or --google-benchmark FILE."));
  CHECK(ecmv({"report", "r.jsonl", "--google-benchmark", "-"}) == 0);
  CHECK(nlohmann::json::parse(ecmv.out).at("benchmarks").at(0).at("run_type") == "iteration");
  CHECK(ecmv({"report", "r.jsonl", "-o", "rep", "--row", "nobody/s4/8"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("no verified case has the key \"nobody/s4/8\""));
}

TEST_CASE("codecs within one record file are compared with a baseline, which is information and no regression") {
  Command ecmv;
  // The coded case is slower and larger than the plain one.
  const auto line = [](const std::string& codec, const std::string& seconds, const std::string& median, int bytes) {
    return R"({"schema":1,"kind":"case","status":"ok","reason":"","case":")" + codec +
           R"(","run":"r","data":{"source":"s","rows":10,"cols":10,"type":"i8"},"codec":{"id":")" + codec +
           R"("},"size":{"stored_bytes":)" + std::to_string(bytes) +
           R"(},"kernel":{"backend":"simd","op":"matvec"},"time":{"samples_s":)" + seconds + R"(,"median_s":)" +
           median + R"(,"elements":100,"cache":"resident"}})" + "\n";
  };
  std::ofstream(ecmv.folder / "r.jsonl") << line("plain", "[1.0,1.001,1.002,1.003,1.004]", "1.002", 100)
                                         << line("coder", "[2.0,2.001,2.002,2.003,2.004]", "2.002", 120);
  CHECK(ecmv({"compare", "r.jsonl", "--baseline", "codec=plain"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("SLOWER") && ContainsSubstring("0.50") && ContainsSubstring("+20"));
  CHECK(ecmv.err.empty());
  CHECK(ecmv({"compare", "r.jsonl", "--baseline=codec=plain", "--json"}) == 0);
  CHECK_THAT(ecmv.out, StartsWith("{") && ContainsSubstring(R"("codec": "coder")"));
  std::ofstream(ecmv.folder / "more.jsonl") << line("other", "[3.0,3.001,3.002,3.003,3.004]", "3.002", 120);
  CHECK(ecmv({"compare", "r.jsonl", "more.jsonl", "--baseline", "codec=plain"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("coder") && ContainsSubstring("other"));
  CHECK(ecmv({"compare", "r.jsonl"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("takes two record files, or one or more and --baseline codec=ID."));
  for (const char* baseline : {"plain", "kodec=plain", "codec=", "=plain"}) {
    CHECK(ecmv({"compare", "r.jsonl", "--baseline", baseline}) == 2);
    CHECK_THAT(ecmv.err, ContainsSubstring("--baseline takes codec=ID, not '" + std::string(baseline) + "'."));
  }
  CHECK(ecmv({"compare", "r.jsonl", "--baseline", "codec=plane"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("no case has the codec plane; the records have coder, plain"));
}

TEST_CASE("new-codec writes a folder once, for valid ids, into the checkout around it only") {
  Command ecmv;
  CHECK(ecmv({"new-codec", "my_codec", "--codecs-dir", "."}) == 2);
  CHECK(ecmv({"new-codec", "my_codec"}) == 2);  // the program's own checkout is another one
  CHECK_THAT(ecmv.err, ContainsSubstring("is not in a source checkout") && ContainsSubstring("--out-of-tree"));
  fs::create_directory(ecmv.folder / "codecs");
  for (const char* file : {"codec.h", "registry.h"}) std::ofstream(ecmv.folder / "codecs" / file) << "\n";
  CHECK(ecmv({"new-codec", "my_codec"}) == 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("In " + fs::canonical(ecmv.folder).string()) &&
                           ContainsSubstring("--target ecmv test_conformance test_codecs") &&
                           ContainsSubstring(
                               "ECMV_TEST_CODEC=my_codec build/test_conformance && build/test_codecs 'my_codec *'") &&
                           ContainsSubstring("build/ecmv run --codec raw_int8,my_codec --backend scalar"));
  for (const char* file : {"codec.cpp", "format.h", "test.cpp", "README.md"}) {
    const std::string text = text_of(ecmv.folder / "codecs/my_codec" / file);
    CHECK_THAT(text, ContainsSubstring("my_codec"));
    CHECK(text.find("@ID@") == std::string::npos);
  }
  CHECK(ecmv({"new-codec", "my_codec"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("already"));
  for (const char* id : {"MyCodec", "1st", "a-b", "class", "modelling", "a__b", ""})
    CHECK(ecmv({"new-codec", id}) == 2);
}

TEST_CASE("doctor always answers") {
  Command ecmv;
  CHECK(ecmv({"doctor"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("gnuplot"));
  CHECK(ecmv({"doctor", "--json"}) == 0);
  CHECK_THAT(ecmv.out, StartsWith("["));
  // The emulator is there, or it says how to get it.
  const bool there = ::ecmv::backends::has_plugin("emulator");
  CHECK((ecmv.out.find("runs GPU kernels on the host") != std::string::npos) == there);
  ecmv.environment["ECMV_PLUGIN_DIR"] = ecmv.folder.string();
  CHECK(ecmv({"doctor"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("note     emulator: unavailable: This build has no plugin") &&
                           ContainsSubstring("make emulator, in a checkout"));
}
