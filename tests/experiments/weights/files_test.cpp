// Claims about weight files in the built program: files of several types, partial models, names that would reach the
// terminal, places that cannot be written.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/record.h"
#include "tests/experiments/small_run.h"
#include "tests/run_command.h"
#include "tests/weight_files.h"

using Catch::Matchers::ContainsSubstring;
using namespace ecmv::tests;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

std::string varied(size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(i * i % 13);
  return out;
}

// Floats of `width` bytes near 1.
std::string floats(size_t count, size_t width) {
  std::string out;
  for (size_t i = 0; i < count; ++i)
    out += std::string(width - 2, '\0') + static_cast<char>(i * i % 13) + static_cast<char>(0x3F);
  return out;
}

// Status by codec and type.
std::vector<std::string> outcomes(const fs::path& records) {
  std::vector<std::string> out;
  for (const ecmv::reports::CaseRecord& record : ecmv::reports::read_records(records).cases)
    out.push_back(record.codec.id + " " + record.data.type + " " +
                  std::string(ecmv::reports::to_string(record.status)));
  std::ranges::sort(out);
  return out;
}

std::vector<std::string> sizes_of(const std::string& file, const std::vector<std::string>& codecs) {
  std::vector<std::string> run = {"run", "--source", "weights", "--param", "file=" + file, "--op", "size"};
  for (const std::string& codec : codecs) run.insert(run.end(), {"--codec", codec});
  run.insert(run.end(), {"-o", "r.jsonl", "--force"});
  return run;
}

}  // namespace

TEST_CASE("a file of several types runs by type where a codec does not take all, and says what is in the way") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  write(ecmv.folder / "mixed.safetensors",
        safetensors_file({{"q", "I8", "[32, 64]", varied(2048)}, {"table", "U8", "[8, 8]", varied(64)}}));
  REQUIRE(ecmv(sizes_of("mixed.safetensors", {"raw_int8"})) == 0);
  CHECK(outcomes(ecmv.folder / "r.jsonl") == std::vector<std::string>{"raw_int8 i8 ok"});
  const auto records = ecmv::reports::read_records(ecmv.folder / "r.jsonl");
  CHECK(records.cases[0].data.layers == 2);
  CHECK(std::get<double>(records.cases[0].data.parameters.at("zero_point")) == 128);

  write(ecmv.folder / "floats.safetensors",
        safetensors_file({{"q", "BF16", "[16, 64]", floats(1024, 2)}, {"v", "F32", "[4, 64]", floats(256, 4)}}));
  REQUIRE(ecmv(sizes_of("floats.safetensors", {"raw_bf16"})) == 0);
  CHECK(outcomes(ecmv.folder / "r.jsonl") == std::vector<std::string>{"raw_bf16 bf16 ok", "raw_bf16 f32 refused"});
  std::vector<std::string> one = sizes_of("floats.safetensors", {"raw_bf16"});
  one.insert(one.end(), {"--param", "elements=bf16"});
  REQUIRE(ecmv(one) == 0);
  CHECK(outcomes(ecmv.folder / "r.jsonl") == std::vector<std::string>{"raw_bf16 bf16 ok"});

  write(ecmv.folder / "odd.safetensors",
        safetensors_file({{"q", "I8", "[32, 64]", varied(2048)}, {"new", "F3_NEW", "[3, 3]", varied(5)}}));
  REQUIRE(ecmv(sizes_of("odd.safetensors", {"raw_int8"})) == 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("A run leaves out other types: 1 tensor, 5 bytes, such as \"new\" of F3_NEW"));
}

TEST_CASE("cases of a file compare wherever it lies, and only with the same content") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  const std::string weights = safetensors_file({{"q", "I8", "[32, 64]", varied(2048)}});
  write(ecmv.folder / "w.safetensors", weights);
  write(ecmv.folder / "dir" / "w.safetensors", weights);
  const auto run = [&](const std::string& file, const std::string& records) {
    REQUIRE(ecmv({"run", "--source", "weights", "--param", "file=" + file, "--op", "size", "--codec", "raw_int8", "-o",
                  records}) == 0);
  };
  run("w.safetensors", "a.jsonl");
  run("dir/w.safetensors", "b.jsonl");
  run((ecmv.folder / "dir" / "." / "w.safetensors").string(), "c.jsonl");
  CHECK(ecmv({"compare", "a.jsonl", "b.jsonl"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("SAME SIZE"));
  CHECK(ecmv({"compare", "a.jsonl", "c.jsonl"}) == 0);
  write(ecmv.folder / "other" / "w.safetensors", safetensors_file({{"q", "I8", "[32, 64]", std::string(2048, 'a')}}));
  run("other/w.safetensors", "d.jsonl");
  CHECK(ecmv({"compare", "a.jsonl", "d.jsonl"}) != 0);
}

TEST_CASE("control characters of names in files, keys of configs and paths do not reach the terminal") {
  Command ecmv;
  const std::string evil = "q\\u001b[31m\\u0007\\u009b1m\\nnext";
  write(ecmv.folder / "w.safetensors",
        safetensors_file({{evil, "I8", "[2, 2]", "abcd"}, {"odd", "X\\u001b[2J", "[1]", "a"}}));
  const auto harmless = [](const std::string& text) {
    return std::ranges::none_of(text, [](unsigned char c) { return (c < 32 && c != '\n' && c != '\t') || c == 127; }) &&
           text.find("\xC2\x9B") == std::string::npos;
  };
  REQUIRE(ecmv({"inspect", "w.safetensors", "--all"}) == 0);
  CHECK(harmless(ecmv.out));
  CHECK_THAT(ecmv.out, ContainsSubstring("q\\u001b[31m\\u0007\\u009b1m\\u000anext"));
  const std::string path = "del\x7F.safetensors";
  fs::copy_file(ecmv.folder / "w.safetensors", ecmv.folder / path);
  REQUIRE(ecmv({"inspect", path, "--json"}) == 0);
  CHECK(harmless(ecmv.out));
  CHECK(nlohmann::json::parse(ecmv.out).contains(path));  // still JSON, of this name
  std::string cut = safetensors_file({{evil, "I8", "[2, 3]", "abcd"}});
  write(ecmv.folder / "bad.safetensors", cut);
  CHECK(ecmv({"inspect", "bad.safetensors"}) == 2);
  CHECK(harmless(ecmv.err));
  write(ecmv.folder / "c.yaml", "schema: 1\nname: x\n\"a\\e[31mb\": 1\nexperiments: []\n");
  CHECK(ecmv({"run", "c.yaml"}) == 2);
  CHECK(harmless(ecmv.err));
  CHECK_THAT(ecmv.err, ContainsSubstring("a\\u001b[31mb"));
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"inspect", "gone\x1b[31m"},
                                                    {"report", "gone\x1b[31m"},
                                                    {"run", "gone\x1b[31m\x7f"},
                                                    {"verb\x1b[31m"},
                                                    {"run", "--codec", "raw\x1b[31m"}}) {
    CHECK(ecmv(arguments) != 0);
    CHECK(harmless(ecmv.err));
    CHECK_THAT(ecmv.err, ContainsSubstring("\\u001b[31m"));
  }
}

TEST_CASE("devices without an end are no configs and no records") {
  Command ecmv;
  CHECK(ecmv({"run", "/dev/zero"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("more bytes than the 1048576 that a config may have"));
  CHECK(ecmv({"report", "/dev/zero"}) != 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("a line of more than 67108864 bytes is no record"));
  CHECK(ecmv({"inspect", "/dev/zero"}) == 2);
}

TEST_CASE("a model step is planned without the elements of the model") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  const auto begin = std::chrono::steady_clock::now();
  CHECK(ecmv({"run", "--source", "model", "--param", "model=llama_3_70b", "--codec", "raw_bf16", "--op", "step",
              "--dry-run"}) != 2);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

TEST_CASE("inspect points from the name of a shape to the commands that take it") {
  Command ecmv;
  CHECK(ecmv({"inspect", "llama_3_8b"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("'ecmv advise llama_3_8b'"));
}

TEST_CASE("inspect and run say which part of a model is missing") {
  Command ecmv;
  const auto pair = [](const char* key, uint64_t value) { return gguf_text(key) + u32(2) + little(value, 2); };
  write(ecmv.folder / "m-00002-of-00003.gguf",
        GgufFile{{{"blk.0.attn_q.weight", {8, 4}, 24, varied(32)}}, {pair("split.no", 1), pair("split.count", 3)}}
            .bytes());
  REQUIRE(ecmv({"inspect", "m-00002-of-00003.gguf"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("The model has 3 files, and 2 of them"));
  REQUIRE(ecmv({"inspect", "m-00002-of-00003.gguf", "--json"}) == 0);
  CHECK(nlohmann::json::parse(ecmv.out)["m-00002-of-00003.gguf"]["remarks"].size() == 1);
  if (lacks_baseline()) SKIP("this build lacks the codec");
  REQUIRE(ecmv({"run", "--source", "model", "--param", "model=m-00002-of-00003.gguf", "--codec", "raw_int8", "--op",
                "size", "-o", "r.jsonl"}) == 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("The model has 3 files, and 2 of them"));
}

TEST_CASE("a folder that cannot be made is told of with the reason") {
  Command ecmv;
  write(ecmv.folder / "file", "x");
  if (lacks_baseline()) SKIP("this build lacks the codec");
  CHECK(ecmv(small({"-o", "file/below/r.jsonl"})) != 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("cannot create the folder file/below: Not a directory"));
  CHECK(ecmv(small({"-o", "/proc/nowhere/r.jsonl"})) != 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("cannot create the folder /proc/nowhere"));
}
