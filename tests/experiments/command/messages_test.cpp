// Claims about messages to a newcomer: which flag was wrong, what was probably meant, what to type next, and how a run
// ends.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "codecs/registry.h"
#include "experiments/output/terminal_table.h"
#include "reports/record.h"
#include "tests/experiments/small_run.h"
#include "tests/run_command.h"
#include "tests/weight_files.h"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using ecmv::experiments::shown_width;
using namespace ecmv::tests;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  for (const std::string& line : lines_of(text)) widest = std::max(widest, shown_width(line));
  return widest;
}

}  // namespace

TEST_CASE("flags for runs without a config are refused beside one, and empty lists and rules are no lists") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  const auto config = [&](const std::string& codecs, const std::string& exclude) {
    std::ofstream(ecmv.folder / "c.yaml")
        << "schema: 1\nname: x\nexperiments:\n  - data: {source: gaussian, sigma: 4, d: 64}\n"
           "    codecs: "
        << codecs << "\n    exclude: " << exclude << "\n";
  };
  config("[raw_int8]", "[{codec: rans}]");
  CHECK(ecmv({"run", "c.yaml", "--dry-run"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("This rule of 'exclude' matches no case of its block."));
  config("[raw_int8]", "[{policy: none}]");
  CHECK(ecmv({"run", "c.yaml", "--dry-run"}) == 0);
  CHECK(ecmv({"run", "c.yaml", "--dry-run", "--d", "32"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("--d is for runs without a config; -a and --set change a config"));
  CHECK(ecmv({"export", "c.yaml", "-o", "streams", "--sigma", "3"}) == 2);
  config("[]", "[{codec: rans}]");
  CHECK(ecmv({"run", "c.yaml", "--dry-run"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("The list 'codecs' is empty."));
  config("[raw_int8]", "[{}]");
  CHECK(ecmv({"run", "c.yaml", "--dry-run"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("at least one key"));
}

TEST_CASE("what is read is never replaced by what is written") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  REQUIRE(ecmv(small({"-o", "a.jsonl"})) == 0);
  const std::string records = text_of(ecmv.folder / "a.jsonl");
  std::filesystem::copy_file(ecmv.folder / "a.jsonl", ecmv.folder / "b.jsonl");
  CHECK(ecmv({"compare", "a.jsonl", "b.jsonl", "--json", "b.jsonl"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("holds records"));
  CHECK(ecmv({"report", "a.jsonl", "--google-benchmark", "a.jsonl"}) == 2);
  CHECK(text_of(ecmv.folder / "a.jsonl") == records);
  CHECK(text_of(ecmv.folder / "b.jsonl") == records);
  CHECK(ecmv({"compare", "a.jsonl", "b.jsonl", "--json", "-", "--md", "-"}) == 2);
  CHECK(ecmv({"report", "a.jsonl", "-o", "report", "--baseline", "nope"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("No record has the codec 'nope'"));
  std::ofstream(ecmv.folder / "c.yaml") << "schema: 1\nname: x\nexperiments: []\n";
  CHECK(ecmv({"verify", "c.yaml", "--junit", "c.yaml"}) == 2);
  CHECK_THAT(text_of(ecmv.folder / "c.yaml"), StartsWith("schema: 1"));
  std::ofstream(ecmv.folder / "w.npy", std::ios::binary)
      << ecmv::tests::npy_file("{'descr': '|i1', 'fortran_order': False, 'shape': (8, 8)}", std::string(64, 'a'));
  const std::string weights = text_of(ecmv.folder / "w.npy");
  CHECK(ecmv({"run", "--source", "npy", "--param", "file=w.npy", "--codec", "raw_int8", "--op", "size", "--csv",
              "w.npy"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("is an input, so --csv cannot overwrite it"));
  CHECK(text_of(ecmv.folder / "w.npy") == weights);
}

TEST_CASE("the config that the documentation shows is one") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  const std::string page = text_of(fs::path(ECMV_SOURCE_DIR) / "experiments" / "README.md");
  const std::string begin = "```yaml\nschema: 1\nname: example";
  const size_t from = page.find(begin);
  REQUIRE(from != page.npos);
  const size_t first = from + std::string("```yaml\n").size();
  Command ecmv;
  std::ofstream(ecmv.folder / "example.yaml") << page.substr(first, page.find("```", first) - first);
  const int code = ecmv({"run", "example.yaml", "--dry-run"});
  INFO(ecmv.err);
  CHECK(code == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("raw_int8") && ContainsSubstring("rans"));
}

TEST_CASE("what is wrong on the command line is told by its flag") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  const auto error = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"run", "--codec", "raw_int8"};
    all.insert(all.end(), more.begin(), more.end());
    CHECK(ecmv(all) == 2);
    CHECK(lines_of(ecmv.err).size() <= 2);
    CHECK(ecmv.err.find(".yaml") == std::string::npos);
    CHECK_FALSE(fs::exists(ecmv.folder / "out"));
    return ecmv.err;
  };
  CHECK_THAT(error({"--d", "x"}), StartsWith("--d: 'd' must be an integer"));
  CHECK_THAT(error({"--sigma", "-1"}), StartsWith("--sigma: ") && ContainsSubstring("at least 0.01"));
  CHECK_THAT(error({"--shape", "0x3"}), StartsWith("--shape: "));
  CHECK_THAT(error({"--threads", "0"}), StartsWith("--threads: "));
  CHECK_THAT(error({"--op", "decoed"}), StartsWith("--op: ") && ContainsSubstring("Did you mean 'decode'?"));
  CHECK_THAT(error({"--backend", "cdua"}), StartsWith("--backend: ") && ContainsSubstring("Did you mean 'cuda'?"));
  CHECK_THAT(error({"--simd-target", "AVX22"}), StartsWith("--simd-target: "));
  CHECK_THAT(error({"--min-time", "0"}), StartsWith("--min-time: "));
  CHECK_THAT(error({"--quantise", "absmax"}), StartsWith("--source: ") && ContainsSubstring("only floats"));
  CHECK_THAT(error({"--source", "llm_like", "--quantise", "nvfp4", "--quantise", "absmix:bits=4"}),
             StartsWith("--quantise: ") && ContainsSubstring("Did you mean 'absmax'?"));
  CHECK_THAT(error({"--source", "llm_like", "--quantise", "absmax:bits"}),
             ContainsSubstring("--quantise takes ID or ID:NAME=VALUE,..., not 'absmax:bits'."));
  CHECK_THAT(error({"--codec", "raw_int88"}), StartsWith("--codec: ") && ContainsSubstring("Did you mean 'raw_int8'?"));
  CHECK_THAT(error({"--source", "uniform", "--param", "hihg=3"}),
             StartsWith("--param hihg: ") && ContainsSubstring("Did you mean 'high'?"));
  CHECK_THAT(error({"-a", "d=y"}), StartsWith("-a d=y: "));
  CHECK_THAT(error({"-a", "d={pow2: [30, 31]}"}), StartsWith("-a d={pow2: [30, 31]}: 'd' must lie between"));
  CHECK_THAT(error({"-a", "backnd=simd"}), ContainsSubstring("No block has an axis 'backnd'. Did you mean 'backend'?"));
  CHECK_THAT(error({"--set", "measure.repetitions=x"}), StartsWith("--set measure.repetitions=x: "));
  CHECK_THAT(error({"--set", "measure.repetition=3"}),
             StartsWith("--set measure.repetition=3: ") && ContainsSubstring("Did you mean 'repetitions'?"));
}

TEST_CASE("a word that is near nothing is answered with what there is") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  CHECK(ecmv({"run", "--codec", "raw_int8", "--backend", "gpu"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("does not know 'gpu'. It knows best, scalar, simd"));
  CHECK(ecmv({"run", "--codec", "raw_int8", "--op", "gemv"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("It knows decode, matvec, matmul, step, size."));
  CHECK(ecmv({"run", "--codec", "raw_int8", "--reps", "3"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("'--repetitions'"));
  CHECK(ecmv({"list", "codecs", "raw"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("'raw_int8'") && ContainsSubstring("'ecmv list codecs' has them all."));
  CHECK(ecmv({"inspect", "llama_3_8b"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("'ecmv advise llama_3_8b'"));
}

TEST_CASE("a place that cannot be written is told with its reason, and too many threads with a word") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  std::ofstream(ecmv.folder / "file") << "no folder";
  CHECK(ecmv(small({"-o", "file/records.jsonl"})) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("cannot create the folder file: Not a directory") ||
                           ContainsSubstring("cannot create the folder file: File exists"));
  CHECK(ecmv(small({"-o", "r.jsonl", "--csv", "/proc/none.csv"})) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("cannot be written: No such file or directory"));
  CHECK(ecmv({"run", "--codec", "raw_int8", "--d", "64", "--layers", "1", "--backend", "scalar", "--threads", "2000",
              "--profile", "-o", "t.jsonl"}) != 1);
  CHECK_THAT(ecmv.err, ContainsSubstring("2000 threads share the ") && ContainsSubstring("they take turns"));
}

TEST_CASE("files that a config names lie beside it, and --columns chooses the columns of a run's tables") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  fs::create_directories(ecmv.folder / "there");
  std::ofstream(ecmv.folder / "there" / "w.npy", std::ios::binary)
      << ecmv::tests::npy_file("{'descr': '|i1', 'fortran_order': False, 'shape': (8, 8)}", std::string(64, 'a'));
  std::ofstream(ecmv.folder / "there" / "c.yaml")
      << "schema: 1\nname: x\nexperiments:\n  - data: {source: npy, file: w.npy}\n    codecs: raw_int8\n"
         "    kernels: {op: size}\n";
  CHECK(ecmv({"run", "there/c.yaml", "-o", "r.jsonl", "--csv", "-", "--columns", "codec,bits_per_element"}) == 0);
  CHECK(ecmv.out == "codec,bits_per_element\nraw_int8,8\n");
  CHECK(ecmv({"run", "there/c.yaml", "-o", "r.jsonl", "--csv", "-", "--columns", "codek"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("there is no column \"codek\"; the columns are key, case"));
}

TEST_CASE("a source that needs a file says so, and a file that cannot be used is found before anything runs") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  REQUIRE(ecmv(small({"-o", "r.jsonl"})) == 0);
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"run", "--codec", "raw_int8", "-o", "r.jsonl", "--source"};
    all.insert(all.end(), more.begin(), more.end());
    CHECK(ecmv(all) == 2);
    CHECK_FALSE(fs::exists(ecmv.folder / "r.1.jsonl"));  // measured records stay where they are
    return ecmv.err;
  };
  CHECK_THAT(run({"safetensors"}),
             ContainsSubstring("--source safetensors needs 'file', path of the file: add --param file=VALUE."));
  CHECK_THAT(run({"workload"}), ContainsSubstring("--param workload=VALUE"));
  CHECK_THAT(run({"workload", "--param", "workload=none"}), ContainsSubstring("There is no workload 'none'"));
  std::ofstream(ecmv.folder / "foreign") << "something else, and long enough to hold a header";
  std::ofstream(ecmv.folder / "empty") << "";
  for (const std::string source : {"weights", "safetensors", "npy", "matvans"})
    for (const std::string file : {"missing", "foreign", "empty", "."}) {
      INFO(source << " " << file);
      CHECK_THAT(run({source, "--param", "file=" + file}), ContainsSubstring("\"" + file + "\""));
    }
}

TEST_CASE("missing, foreign, empty and truncated inputs and bad expressions end every verb with 2") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  REQUIRE(ecmv(small({"-o", "r.jsonl"})) == 0);
  REQUIRE(ecmv({"export", "--codec", "raw_int8", "--d", "64", "--layers", "1", "-o", "e"}) == 0);
  std::string weights;
  for (const fs::directory_entry& entry : fs::directory_iterator(ecmv.folder / "e"))
    if (entry.path().string().ends_with(".matrices.safetensors")) weights = text_of(entry.path());
  REQUIRE(weights.size() > 1000);
  std::ofstream(ecmv.folder / "cut.safetensors") << weights.substr(0, weights.size() - 100);
  std::ofstream(ecmv.folder / "foreign") << "something else: and long enough\nto hold: a header\n";
  std::ofstream(ecmv.folder / "empty") << "";
  for (const std::string file : {"missing", "missing.yaml", "foreign", "empty", "cut.safetensors", "."}) {
    const std::vector<std::vector<std::string>> commands = {{"run", file},
                                                            {"run", file, "--dry-run"},
                                                            {"verify", file},
                                                            {"export", file, "-o", "x"},
                                                            {"report", file, "-o", "x"},
                                                            {"compare", file, file},
                                                            {"compare", "r.jsonl", file},
                                                            {"compare", file, "--baseline", "codec=raw_int8"},
                                                            {"inspect", file},
                                                            {"list", "codecs", "--codec-library", file}};
    for (const auto& command : commands) {
      INFO(command[0] << " " << file);
      CHECK(ecmv(command) == 2);
      CHECK_FALSE((ecmv.out + ecmv.err).empty());
      CHECK(ecmv.err.find("internal error") == std::string::npos);
    }
  }
  for (const std::string flag : {"--filter", "--exclude"}) {
    CHECK(ecmv(small({flag, "("})) == 2);
    CHECK(ecmv({"verify", flag, "("}) == 2);
    CHECK(ecmv({"export", "--codec", "raw_int8", flag, "(", "-o", "x"}) == 2);
  }
}

TEST_CASE("a filter that matches nothing says of how many, and shows a name; that name matches") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  CHECK(ecmv(small({"--filter", "no such case"})) == 6);
  CHECK(ecmv.err ==
        "ecmv: 0 of 1 cases match --filter 'no such case'. One of them is "
        "gaussian[sigma=4]/64x64x2/raw_int8/scalar/matvec/rows\n");
  CHECK(ecmv(small({"--filter", "64x64x2/raw_int8/scalar/matvec/rows$"})) == 0);
  CHECK(ecmv(small({"--filter", "seed1/raw_int8/scalar/matvec/rows/default$", "--force"})) == 0);  // the full name, too
}

TEST_CASE("lists of values may stand in one word only, and the message shows the word") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  CHECK(ecmv({"run", "--codec", "raw_int8", "--op", "decode", "matvec"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("--op decode,matvec"));
  CHECK(ecmv({"run", "--codec", "raw_int8", "--sigma", "1", "2", "3"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("--sigma 1,2,3"));
}

TEST_CASE("codecs can be listed with commas, and 'all' is all") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  CHECK(ecmv({"run", "--codec", "all", "--codec", "raw_int8", "--d", "64", "--op", "size", "--dry-run"}) == 0);
  for (const ecmv::codecs::CodecEntry& entry : ecmv::codecs::all_codecs())
    CHECK_THAT(ecmv.out, ContainsSubstring("  " + std::string(entry.id) + "/size"));
  CHECK(ecmv({"run", "--codec", "raw_int8,raw_int8", "--d", "64", "--op", "size", "--dry-run"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("1 cases"));
}

TEST_CASE("an axis replaces that of every block that has it, sizes of either kind") {
  Command ecmv;
  CHECK(ecmv({"run", "smoke", "-a", "d=64", "--print-config"}) == 0);
  CHECK(ecmv.out.find("shapes") == std::string::npos);
  CHECK_THAT(ecmv.out, ContainsSubstring("workload"));
}

TEST_CASE("misspelt words get the nearest one") {
  Command ecmv;
  CHECK(ecmv({"list", "codcs"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("Did you mean 'codecs'?"));
  CHECK(ecmv({"list", "codecs", "raw_in8"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("Did you mean 'raw_int8'?"));
  CHECK(ecmv({"run", "smok"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("Did you mean 'smoke'?"));
  CHECK(ecmv({"verify", "smok"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("Did you mean 'smoke'?"));
  CHECK(ecmv({"report", "r", "-o", "d", "--x", "elements_per_ss"}) == 2);
  CHECK_THAT(ecmv.err,
             ContainsSubstring("--x elements_per_ss: ") && ContainsSubstring("Did you mean 'elements_per_s'?"));
  CHECK(ecmv({"run", "--codec", "raw_int8", "--require-backend", "cdua"}) != 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("Did you mean 'cuda'?"));
  CHECK(ecmv({"compare", "a", "b", "--jsn", "x"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("Did you mean '--json'?"));
}

TEST_CASE("a folder of codec libraries without any says so") {
  Command ecmv;
  fs::create_directory(ecmv.folder / "none");
  ecmv.environment["ECMV_CODEC_PATH"] = "none";
  CHECK(ecmv({"list", "codecs"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("'none' holds no codec library") && ContainsSubstring("ECMV_CODEC_PATH"));
}

TEST_CASE("lists fit the terminal, a codec in full on request, and JSON has booleans, numbers and lists") {
  Command ecmv;
  for (const std::string columns : {"", "60", "80", "132"}) {
    if (!columns.empty()) ecmv.environment["COLUMNS"] = columns;
    const size_t most = columns.empty() ? 80 : std::stoul(columns);
    for (const std::string what : {"codecs", "backends", "devices", "datasets", "metrics", "configs"}) {
      INFO(what << " at " << columns);
      CHECK(ecmv({"list", what}) == 0);
      CHECK(widest_line(ecmv.out) <= most);
      if (what == "codecs") CHECK(lines_of(ecmv.out).size() == ecmv::codecs::all_codecs().size() + 2);
    }
  }
  const ecmv::codecs::CodecEntry& some = ecmv::codecs::all_codecs().front();
  CHECK(ecmv({"list", "codecs", std::string(some.id)}) == 0);
  CHECK_THAT(ecmv.out, StartsWith(std::string(some.id) + ": ") && ContainsSubstring("lossless, format version"));
  for (const ecmv::codecs::SettingInfo& info : some.codec->settings)
    CHECK_THAT(ecmv.out, ContainsSubstring(std::string(info.name) + "="));

  CHECK(ecmv({"list", "codecs", "--json"}) == 0);
  const auto codec = nlohmann::json::parse(ecmv.out).at("codecs").at(0);
  CHECK(codec.at("lossless").is_boolean());
  CHECK(codec.at("format_version").is_number_integer());
  CHECK(codec.at("kernels").is_array());
  CHECK(codec.at("settings").is_array());
  CHECK(ecmv({"list", "devices", "--json"}) == 0);
  const auto device = nlohmann::json::parse(ecmv.out).at("devices").at(0);
  CHECK(device.at("available") == true);
  CHECK(device.at("threads").is_number_integer());
  CHECK(ecmv({"list", "datasets", "--json"}) == 0);
  CHECK(nlohmann::json::parse(ecmv.out).at("parameters").at(0).at("required").is_boolean());
}

TEST_CASE("a run ends with a table and the command of its report, which works") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  REQUIRE(ecmv(small({"--op", "decode,matvec"})) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("stored bits  of entropy  elements/s  vs raw") &&
                           ContainsSubstring("raw_int8") &&
                           ContainsSubstring("matvec, gaussian σ=4, 64 × 64 (2 layers), resident, scalar on"));
  CHECK(widest_line(ecmv.out) <= 120);
  CHECK(widest_line(ecmv.err) <= 120 + fs::path(ECMV_BINARY).string().size());
  const std::string marker = "Tables and figures: ";
  const size_t at = ecmv.err.find(marker);
  REQUIRE(at != std::string::npos);
  std::istringstream words(ecmv.err.substr(at + marker.size()));
  std::vector<std::string> command;
  for (std::string word; words >> word;) command.push_back(word);
  REQUIRE(command.size() == 5);
  CHECK(command[0] == ECMV_BINARY);
  CHECK(ecmv({command.begin() + 1, command.end()}) == 0);
  CHECK(fs::exists(ecmv.folder / "out/ad_hoc/report.html"));
}

TEST_CASE("verify lists failures and codecs, and refusals by reason") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  CHECK(ecmv({"verify", "smoke", "--filter", "raw_int8"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("ok  refused  failed  kernels\n") && ContainsSubstring("refused for "));
  CHECK(lines_of(ecmv.out + ecmv.err).size() < 30);
  CHECK(widest_line(ecmv.out + ecmv.err) <= 120);
}

TEST_CASE("compare sums up, leaves out what is in one file only, and writes JSON") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  REQUIRE(ecmv(small({"-o", "a.jsonl"})) == 0);
  REQUIRE(ecmv(small({"-o", "b.jsonl", "--op", "decode,matvec"})) == 0);
  REQUIRE(ecmv(small({"-o", "s.jsonl", "--op", "size"})) == 0);
  ecmv({"compare", "a.jsonl", "b.jsonl", "--json", "c.json"});
  CHECK_THAT(ecmv.out, ContainsSubstring("2 cases: ") && ContainsSubstring("1 ADDED") &&
                           ContainsSubstring("geometric mean of 1 speed ratio: ") &&
                           ContainsSubstring("1 case is not listed; --all lists it."));
  CHECK(ecmv.out.find("decode") == std::string::npos);
  CHECK(widest_line(ecmv.out) <= 120);
  const auto json = nlohmann::json::parse(text_of(ecmv.folder / "c.json"));
  CHECK(json.at("summary").at("cases") == 2);
  CHECK(json.at("summary").at("verdicts").at("ADDED") == 1);
  CHECK(json.at("summary").at("regression").is_boolean());
  CHECK(json.at("cases").size() == 2);
  ecmv({"compare", "a.jsonl", "b.jsonl", "--all"});
  CHECK_THAT(ecmv.out, ContainsSubstring("decode"));
  CHECK(ecmv({"compare", "s.jsonl", "s.jsonl"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("1 case: 1 SAME SIZE"));
}

TEST_CASE("a backend without a device ends run, tune, export and advise with 6, its reason, and nobody else's") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  fs::create_directory(ecmv.folder / "none");
  ecmv.environment["ECMV_PLUGIN_DIR"] = "none";
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"run", "--codec", "raw_int8", "--backend", "cuda"},
                                             {"tune", "--codec", "raw_int8", "--backend", "cuda"},
                                             {"export", "--codec", "raw_int8", "--backend", "cuda", "-o", "e"},
                                             {"advise", "llama_3_8b", "--backend", "cuda"}}) {
    INFO(command[0]);
    CHECK(ecmv(command) == 6);
    CHECK_THAT(ecmv.err, ContainsSubstring("The backend 'cuda' is unavailable: This build has no plugin"));
    CHECK(ecmv.err.find("'hip'") == std::string::npos);
  }
  CHECK(ecmv({"advise", "llama_3_8b", "--backend", "cdua"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("Did you mean 'cuda'?"));
  CHECK(lines_of(ecmv.err).size() == 1);
}

TEST_CASE("unknown columns and places for tables that cannot be are told before anything is measured") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  CHECK(ecmv(small({"--csv", "t.csv", "--columns", "codek"})) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("there is no column \"codek\""));
  CHECK_FALSE(fs::exists(ecmv.folder / "out"));
  CHECK(ecmv(small({"-o", "-", "--csv", "t.csv"})) == 2);
  CHECK(ecmv.out.empty());
  CHECK(ecmv({"verify", "--filter", "no such case", "--junit", "missing/x.xml"}) == 2);
  CHECK_THAT(ecmv.err, StartsWith("ecmv: --junit missing/x.xml: there is no folder missing."));
}

TEST_CASE("where broken lines leave no case, report and compare name them") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  REQUIRE(ecmv(small({"-o", "r.jsonl"})) == 0);
  const std::string run = lines_of(text_of(ecmv.folder / "r.jsonl")).front();
  std::ofstream(ecmv.folder / "broken.jsonl") << run << "\n{\"kind\":\"case\",\n";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"report", "broken.jsonl", "-o", "x"}, {"compare", "r.jsonl", "broken.jsonl"}}) {
    INFO(command[0]);
    CHECK(ecmv(command) == 2);
    CHECK_THAT(ecmv.err, ContainsSubstring("broken.jsonl:2: broken record"));
  }
}

TEST_CASE("words and numbers of a config are answered by what they are") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  std::ofstream(ecmv.folder / "c.yaml")
      << "schema: 2\nname: x\nexperiments:\n  - data: {source: gaussian, sigma: 4, d: 64}\n"
         "    codecs: raw_int8\n";
  CHECK(ecmv({"run", "c.yaml"}) == 2);
  CHECK(ecmv.err == "c.yaml:1:9: This program reads configs of schema 1, and this one has 2.\n");
  CHECK(ecmv(small({"--seed", "18446744073709551616"})) == 2);
  CHECK_THAT(ecmv.err,
             ContainsSubstring("'seed' must lie between 0 and 9223372036854775807, not 18446744073709551616."));
  CHECK(ecmv(small({"-a", "foo=3"})) == 2);  // 'op' has one letter in common
  CHECK(ecmv.err.find("Did you mean") == std::string::npos);
  CHECK(ecmv({"run", "--codec", "raw_int8", "--source", "npy", "--param", "file=c.yaml", "--layers", "2"}) == 2);
  CHECK_THAT(ecmv.err,
             ContainsSubstring("--layers: 'data' has no key 'layers'. Its keys are ") && ContainsSubstring("file"));
  CHECK(ecmv({"run", "--codec", "raw_int8:lanes=2"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("'raw_int8' has no key 'lanes'. It has none."));
  CHECK(ecmv(small({"--min-time", "0.1", "--print-config"})) == 0);
  CHECK(ecmv.out.find("0.1000") == std::string::npos);
  CHECK(ecmv({"report", "r", "-o", "d", "--x", "nothing_like_it"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("The fields are ") && ContainsSubstring("'ecmv list metrics'"));
}
