// Claims about hostile input to the built program: it answers with a sentence and a documented exit code, and never
// with a signal.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "backends/plugins/plugins.h"
#include "codecs/registry.h"
#include "reports/record.h"
#include "tests/experiments/small_run.h"
#include "tests/run_command.h"

using Catch::Matchers::ContainsSubstring;
using namespace ecmv::tests;
namespace fs = std::filesystem;

namespace {

std::string config(const std::string& block) { return "schema: 1\nname: x\nexperiments:\n" + block; }

const std::string kBlock =
    "  - data: {source: gaussian, sigma: 4, d: 64, layers: 1}\n    codecs: raw_int8\n    kernels: {backend: scalar}\n";

}  // namespace

TEST_CASE("records that are nested deeply cost their line in report, compare and --resume") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  REQUIRE(ecmv(small({"-o", "r.jsonl"})) == 0);
  std::ofstream(ecmv.folder / "r.jsonl", std::ios::app)
      << R"({"schema":1,"kind":"case","status":)" << std::string(400'000, '[') << std::string(400'000, ']') << "}\n";
  CHECK(ecmv({"compare", "r.jsonl", "r.jsonl"}) == 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("r.jsonl:3: broken record"));
  CHECK(ecmv({"report", "r.jsonl", "-o", "rep", "--gnuplot", "none"}) == 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("r.jsonl:3: broken record"));
  CHECK(ecmv(small({"-o", "r.jsonl", "--resume"})) == 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("r.jsonl:3: broken record") && ContainsSubstring("1 done before"));
}

TEST_CASE("YAML that contains itself or grows without bound is refused, in a config and in options") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  std::string laughs = "x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string number = std::to_string(i), last = "*x" + std::to_string(i - 1);
    laughs.append("x").append(number).append(": &x").append(number).append(" [");
    for (int j = 0; j < 10; ++j) laughs += last + (j < 9 ? ", " : "]\n");
  }
  for (const std::string& text :
       {config("  &x\n  - *x\n"), std::string("&x {schema: *x}\n"), config(kBlock) + "measure: &m {repetitions: *m}\n",
        config(kBlock) + laughs, config("  - data: {source: gaussian, d: " + std::string(5000, '[') + "\n"),
        config("  - data: {source: gaussian, d: " + std::string(300, '[') + std::string(300, ']') + "}\n"),
        "schema: 1\nname: x\nexperiments: " + std::string(50'000, '{') + "\n"}) {
    std::ofstream(ecmv.folder / "c.yaml") << text;
    CHECK(ecmv({"run", "c.yaml"}) == 2);
    CHECK_THAT(ecmv.err, ContainsSubstring("c.yaml:"));
  }
  std::ofstream(ecmv.folder / "c.yaml") << config(kBlock);
  for (const char* value : {"[&x [*x]]", "{pow2: &x [*x]}", "&x [*x],1"}) {
    INFO(value);
    CHECK(ecmv({"run", "c.yaml", "-a", std::string("d=") + value, "--dry-run"}) == 2);
    CHECK(ecmv({"run", "c.yaml", "--set", std::string("experiments.0.data.d=") + value, "--dry-run"}) == 2);
  }
  std::string path = "measure";
  for (int i = 0; i < 20'000; ++i) path += ".a";
  CHECK(ecmv({"run", "c.yaml", "--set", path + "=1", "--dry-run"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("no such place"));
}

TEST_CASE("an expression that would exhaust the stack or the patience of its matcher is refused or answered") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  const std::string deep = std::string(60'000, '(') + std::string(60'000, ')');
  for (const std::string& expression :
       {deep, std::string(60'000, '('), std::string(70, '(') + "a" + std::string(70, ')'), std::string(100'000, 'a'),
        std::string("((a{300}){300}){300}")}) {
    CHECK(ecmv(small({"--filter", expression, "--dry-run"})) == 2);
    CHECK_THAT(ecmv.err, ContainsSubstring("--filter or --exclude cannot be used: "));
    CHECK(ecmv(small({"--exclude", expression, "--dry-run"})) == 2);
  }
  CHECK(ecmv(small({"--filter", "(([a-z0-9]*)*)*#", "--dry-run"})) == 6);
  CHECK(ecmv(small({"--filter", "(a)\\1", "--dry-run"})) == 6);
  CHECK(ecmv(small({"--filter", "scalar.*(rows|cols)", "--dry-run"})) == 0);
}

TEST_CASE("a plugin under another backend's name is a reason, and where plugins were looked for is told",
          "[emulator]") {
  if (!::ecmv::backends::has_plugin("emulator")) SKIP("There is no emulator in this build.");
  Command ecmv;
  const fs::path plugins = ecmv.folder / "plugins";
  fs::create_directory(plugins);
  ecmv.environment["ECMV_PLUGIN_DIR"] = plugins.string();
  ecmv.environment["COLUMNS"] = "1000";
  fs::copy_file(fs::path(ECMV_BINARY).parent_path() / "libecmv_emulator.so", plugins / "libecmv_cuda.so");
  CHECK(ecmv({"list", "backends"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("The file libecmv_cuda.so is the plugin of the backend 'emulator'."));
  CHECK_THAT(ecmv.out, ContainsSubstring("libecmv_hip.so is not in " + plugins.string()));
}

TEST_CASE("a plugin that is cut short is a reason, not the end of the command") {
  Command ecmv;
  const fs::path plugins = ecmv.folder / "plugins";
  fs::create_directory(plugins);
  ecmv.environment["ECMV_PLUGIN_DIR"] = plugins.string();
  ecmv.environment["COLUMNS"] = "1000";            // no sentence is wrapped
  const std::string whole = text_of(ECMV_BINARY);  // a shared object as good as any
  for (const size_t bytes :
       {size_t{0}, size_t{3}, size_t{40}, size_t{64}, size_t{4096}, whole.size() / 2, whole.size() - 1}) {
    INFO(bytes);
    std::ofstream(plugins / "libecmv_cuda.so", std::ios::binary) << whole.substr(0, bytes);
    CHECK(ecmv({"list", "devices"}) == 0);
    CHECK_THAT(ecmv.out, ContainsSubstring("The plugin does not load"));
    CHECK(ecmv({"list", "backends"}) == 0);
    CHECK_THAT(ecmv.out, ContainsSubstring("The plugin does not load"));
    CHECK_THAT(ecmv.out, ContainsSubstring(bytes < 4 ? "is no shared object" : "is cut short"));
  }
  // A file whose headers are right and whose code is not.
  for (const size_t from : {size_t{0x400}, size_t{0x4000}}) {
    std::string damaged = whole;
    std::fill(damaged.begin() + static_cast<std::ptrdiff_t>(from), damaged.end(), '\xCC');
    std::ofstream(plugins / "libecmv_cuda.so", std::ios::binary) << damaged;
    CHECK(ecmv({"list", "backends"}) == 0);
    CHECK_THAT(ecmv.out, ContainsSubstring("The plugin does not load"));
  }
  std::ofstream(plugins / "libecmv_cuda.so") << "#!/bin/sh\n";
  CHECK(ecmv({"list", "backends", "--json"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("is no shared object"));
}
