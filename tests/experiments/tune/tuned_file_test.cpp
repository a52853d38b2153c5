// Claims about the file of `ecmv tune`: what was written is read again, cases with its keys take its settings and no
// others do, and what is wrong in it is said with its place.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "experiments/config/experiment.h"
#include "experiments/config/mix.h"
#include "experiments/tune/take_tuned.h"
#include "reports/record.h"
#include "tests/experiments/test_codecs.h"
#include "tests/run_command.h"

using namespace ecmv;
using namespace ecmv::experiments;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using ecmv::tests::Command;

namespace {

std::span<const codecs::CodecEntry> test_codecs() {
  static const codecs::Codec open = [] {
    codecs::Codec codec = tests::make_codec();
    codec.settings = {
        {.name = "width", .unit = "", .help = "h", .default_value = int64_t{0}, .values = {0, 1, 2}, .open = "0"},
        {.name = "aim", .unit = "", .help = "h", .default_value = "size", .choices = {"size", "speed"}}};
    return codec;
  }();
  static const std::vector<backends::Kernel> kernels = {tests::make_kernel<tests::multiply>(),
                                                        tests::make_kernel<tests::multiply_tokens>()};
  static const std::vector<codecs::CodecEntry> entries = {{"open", &open, kernels, {}}};
  return entries;
}

std::string this_device() { return device_model({.backend = "scalar"}); }

TunedEntry entry(const GivenSettings& found = {{"width", "2"}}) {
  return {.key = {.backend = "scalar",
                  .device = this_device(),
                  .codec = "open",
                  .asked = {{"aim", "speed"}},
                  .type = "i8",
                  .shape = {64, 32},
                  .op = "matmul",
                  .activations = "f32"},
          .found = found,
          .batches = {1, 16},
          .model_off = 1.25};
}

// A file of a folder of its own.
struct File {
  explicit File(const std::string& text) {
    std::string name = (std::filesystem::temp_directory_path() / "ecmv_tuned_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder = name;
    path = (folder / "tuned.yaml").string();
    std::ofstream(path) << text;
  }
  explicit File(const std::vector<TunedEntry>& entries) : File(tuned_text(entries)) {}
  File(const File&) = delete;
  ~File() { std::filesystem::remove_all(folder); }
  std::filesystem::path folder;
  std::string path;
};

Experiment parsed(const std::string& codec, const std::string& kernels, const std::string& more,
                  const ConfigEdits& edits = {}, const std::filesystem::path& folder = {}) {
  return parse_experiment("schema: 1\nname: x\n" + more +
                              "experiments:\n  - data: {source: gaussian, sigma: 4, layers: 1, shapes: [[64, 32], [32, "
                              "64]]}\n    codecs: " +
                              codec + "\n    kernels: {backend: scalar, " + kernels + "}\n",
                          "x.yaml", edits, test_codecs(), {}, folder);
}

// Shapes of the cases that take tuned settings.
std::vector<int64_t> rows_of_tuned(const Experiment& experiment) {
  std::vector<int64_t> rows;
  for (const Case& one : experiment.cases)
    if (!one.codec.tuned.empty()) rows.push_back(one.data.shape.rows);
  return rows;
}

std::string error_of(const std::string& text) {
  const File file(text);
  try {
    read_tuned(file.path, test_codecs());
  } catch (const ConfigError& error) {
    const std::string all = error.what();
    CHECK_THAT(all, StartsWith(file.path));
    return all.substr(file.path.size());
  }
  return "";
}

}  // namespace

TEST_CASE("the file of tune is read as it was written, and is JSON as well") {
  std::vector<TunedEntry> all = {entry(), entry({})};
  all[1].key.op = "decode";
  all[1].key.activations = "";
  all[1].key.device = "a \"device\": of # quotes";
  all[1].batches = {};
  const File file(all);
  const std::vector<TunedEntry> again = read_tuned(file.path, test_codecs());
  REQUIRE(again.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(again[i].key == all[i].key);
    CHECK(again[i].found == all[i].found);
    CHECK(again[i].batches == all[i].batches);
    CHECK(again[i].model_off == all[i].model_off);
  }
  CHECK(nlohmann::json::parse(tuned_text(all)).at("schema") == 1);
  CHECK(read_tuned(File(std::vector<TunedEntry>()).path, test_codecs()).empty());
}

TEST_CASE("what is wrong in a file of tune is told with its place") {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = tuned_text({entry()});
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  CHECK_THAT(error_of(with("\"schema\": 1", "\"schema\": 2")),
             StartsWith(":1:12: 'schema' must lie between 1 and 1, not 2."));
  CHECK_THAT(error_of(with("\"schema\": 1, ", "")), ContainsSubstring("begins with 'schema: 1'"));
  CHECK_THAT(error_of("[1, 2]"), ContainsSubstring("begins with 'schema: 1'"));
  CHECK_THAT(error_of("{"), StartsWith(":1:"));
  CHECK_THAT(error_of("schema: 1\nentries: 5\n"), ContainsSubstring("'entries' must be a list."));
  CHECK_THAT(error_of("schema: 1\n"), ContainsSubstring("'entries' must be a list."));
  CHECK_THAT(error_of("schema: 1\nentries: [7]\n"), ContainsSubstring("must be a map"));
  CHECK_THAT(error_of(with("\"rows\":64", "\"rows\":-1")), ContainsSubstring("'rows' must lie between"));
  CHECK_THAT(error_of(with("\"rows\":64,", "")), ContainsSubstring("'rows' must be an integer"));
  CHECK_THAT(error_of(with("\"found\"", "\"fond\"")), ContainsSubstring("has no key 'fond'"));
  CHECK_THAT(error_of(with("\"width\":\"2\"", "\"width\":\"3\"")),
             ContainsSubstring("Codec 'open': Setting 'width' must be one of 0, 1, 2, not '3'."));
  CHECK_THAT(error_of(with("\"width\"", "\"wdth\"")), ContainsSubstring("There is no setting 'wdth'."));
  // Another build's codecs and formats are none of ours.
  CHECK(error_of(with("\"codec\":\"open\"", "\"codec\":\"other\"")).empty());
  CHECK_THROWS_AS(read_tuned("/no/such/file", test_codecs()), ConfigError);
}

TEST_CASE("cases with a key of the file take its settings, and only these") {
  const File file({entry()});
  const auto tuned = [&](const std::string& codec, const std::string& kernels) {
    return rows_of_tuned(parsed(codec, kernels, "", {.tuned = file.path}));
  };
  const std::string asked = "{open: {aim: speed}}";
  CHECK(tuned(asked, "op: matmul, batch: [1, 64]") == std::vector<int64_t>{64, 64});
  CHECK(tuned("open", "op: matmul").empty());                            // another aim
  CHECK(tuned("{open: {aim: speed, width: 1}}", "op: matmul").empty());  // not open
  CHECK(tuned(asked, "op: matvec").empty());
  CHECK(tuned(asked, "op: size").empty());
  CHECK(tuned(asked, "op: matmul, activations: bf16").empty());
  const Experiment experiment = parsed(asked, "op: matmul", "", {.tuned = file.path});
  CHECK(experiment.remarks.empty());
  REQUIRE(experiment.cases.size() == 2);
  const Case &one = experiment.cases[0], &other = experiment.cases[1];
  CHECK(one.codec.short_name() == "open[aim=speed,tuned]");
  CHECK(other.codec.short_name() == "open[aim=speed]");
  CHECK(one.key() != parsed(asked, "op: matmul", "").cases[0].key());
  CHECK(other.key() == parsed(asked, "op: matmul", "").cases[1].key());
  std::string missing;
  const auto choice = choice_of(one.codec, test_codecs(), missing);
  REQUIRE(choice);
  datasets::Matrix layer;
  layer.shape = {64, 32};
  CHECK(choice->of(layer)->settings.integer("width") == 2);
  layer.shape = {64, 33};
  CHECK(choice->of(layer)->settings.integer("width") == 0);
  layer.shape = {64, 32};
  layer.type = datasets::ElementType::bf16;
  CHECK(choice->of(layer)->settings.integer("width") == 0);
}

TEST_CASE("a file of another device is told once, and the codecs choose") {
  TunedEntry other = entry();
  other.key.device = "another device";
  const File file({other});
  const Experiment experiment = parsed("{open: {aim: speed}}", "op: matmul, batch: [1, 2]", "", {.tuned = file.path});
  CHECK(rows_of_tuned(experiment).empty());
  REQUIRE(experiment.remarks.size() == 1);
  CHECK_THAT(experiment.remarks[0], ContainsSubstring("has nothing for " + this_device()));
}

TEST_CASE("a config names its file of tuned settings by a path from its folder, and --tuned replaces it") {
  const File file({entry()}), empty{std::vector<TunedEntry>()};
  const std::string codec = "{open: {aim: speed}}", line = "tuned: tuned.yaml\n";
  const Experiment experiment = parsed(codec, "op: matmul", line, {}, file.folder);
  CHECK(rows_of_tuned(experiment) == std::vector<int64_t>{64});
  CHECK_THAT(experiment.config_text, ContainsSubstring("tuned: " + file.path));
  CHECK(rows_of_tuned(parsed(codec, "op: matmul", line, {.tuned = empty.path}, file.folder)).empty());
  CHECK_THROWS_AS(parsed(codec, "op: matmul", "tuned: nowhere.yaml\n", {}, file.folder), ConfigError);
  CHECK_THROWS_AS(parsed(codec, "op: matmul", "tuned: [1]\n", {}, file.folder), ConfigError);
}

namespace {

std::vector<std::string> words(std::vector<std::string> first, const std::vector<std::string>& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

// Two searches of nine values; what is faster does not matter here.
const std::vector<std::string> kSmall = {
    "--codec", "packed_outliers", "--backend", "scalar",     "--op",   "matvec",        "--layers",
    "2",       "--sigma",         "4",         "--min-time", "0.0001", "--repetitions", "1"};

}  // namespace

TEST_CASE("tune writes a file, adds to it, and run takes its settings") {
  if (codecs::find_codec("packed_outliers") == nullptr) SKIP("The codec packed_outliers is not part of this build.");
  Command ecmv;
  CHECK(ecmv(words({"tune", "--shape", "32x64"}, words(kSmall, {"--dry-run"}))) == 0);
  CHECK_THAT(ecmv.err, ContainsSubstring("1 search of at most "));
  CHECK_THAT(ecmv.out, ContainsSubstring("packed_outliers[bits=5]/scalar/matvec"));
  CHECK_FALSE(std::filesystem::exists(ecmv.folder / "tuned.yaml"));
  CHECK(ecmv(words({"tune", "--shape", "32x64"}, kSmall)) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("32 x 64 i8") && ContainsSubstring("as the geometric mean."));
  CHECK(ecmv(words({"tune", "--shape", "64x64", "--most-bits", "9"}, kSmall)) == 0);
  CHECK(reports::read_records(ecmv.folder / "tuned.records.jsonl").cases.size() > 9);
  const std::string file = (ecmv.folder / "tuned.yaml").string();
  std::vector<TunedEntry> entries = read_tuned(file, codecs::all_codecs());
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].key.shape == datasets::Shape{32, 64});
  CHECK(entries[1].key.shape == datasets::Shape{64, 64});
  CHECK(entries[0].key.device == this_device());

  // Now with settings that are known, whatever was fast.
  entries[0].found = {{"bits", "3"}};
  entries[1].key.device = "elsewhere";
  std::ofstream(file) << tuned_text(entries);
  CHECK(ecmv(words({"run", "--shape", "32x64", "--shape", "64x64", "--tuned", "tuned.yaml", "-o", "r.jsonl"},
                   kSmall)) == 0);
  for (const reports::CaseRecord& record : reports::read_records(ecmv.folder / "r.jsonl").cases) {
    CHECK(record.status == reports::Status::ok);
    CHECK(record.codec.tuned == (record.data.rows == 32));
    CHECK(record.codec.settings.at("bits") == reports::Value(int64_t{record.data.rows == 32 ? 3 : 0}));
    CHECK(record.codec.non_default->empty() == (record.data.rows == 64));
  }
}

TEST_CASE("each layer of a step takes the settings of its shape") {
  if (codecs::find_codec("packed_outliers") == nullptr) SKIP("The codec packed_outliers is not part of this build.");
  Command ecmv;
  TunedEntry gate = entry({{"bits", "6"}});
  gate.key.codec = "packed_outliers";
  gate.key.asked = {};
  gate.key.format_version = codecs::find_codec("packed_outliers")->codec->format_version;
  gate.key.shape = {16, 1024};
  std::ofstream(ecmv.folder / "t.yaml") << tuned_text({gate});
  CHECK(ecmv({"run",
              "--source",
              "model",
              "--param",
              "model=qwen3_0_6b",
              "--param",
              "blocks=1",
              "--param",
              "rows=16",
              "--quantise",
              "absmax:bits=4,group=row",
              "--op",
              "step",
              "--codec",
              "packed_outliers",
              "--backend",
              "scalar",
              "--profile",
              "--tuned",
              "t.yaml",
              "-o",
              "r.jsonl"}) == 0);
  INFO(ecmv.err);
  const auto records = reports::read_records(ecmv.folder / "r.jsonl");
  REQUIRE(records.cases.size() == 1);
  const reports::CaseRecord& record = records.cases[0];
  CHECK(record.codec.tuned);
  CHECK(record.codec.settings.at("bits") == reports::Value(int64_t{0}));
  REQUIRE_FALSE(record.step.parts.empty());
  for (const auto& part : record.step.parts)
    CHECK(part.codec == (part.cols == 1024 ? "packed_outliers[bits=6]" : "packed_outliers"));
}

TEST_CASE("advise samples the codecs of a file of tune, with its settings") {
  const codecs::CodecEntry* const codec = codecs::find_codec("quad_huffman");
  if (codec == nullptr || codecs::find_codec("raw_bf16") == nullptr) SKIP("This build lacks quad_huffman or raw_bf16.");
  Command ecmv;
  std::filesystem::create_directories(ecmv.folder / "tiny");
  std::ofstream(ecmv.folder / "tiny/config.json")
      << R"({"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "vocab_size": 512})";
  TunedEntry square = entry({{"table_bits", "9"}});
  square.key.codec = "quad_huffman";
  square.key.format_version = codec->codec->format_version;
  square.key.asked = {{"optimise", "speed"}};
  square.key.type = "bf16";
  square.key.shape = {64, 64};
  std::ofstream(ecmv.folder / "t.yaml") << tuned_text({square});
  CHECK(ecmv({"advise", "tiny", "--backend", "scalar", "--tuned", "t.yaml", "-o", "r.jsonl"}) == 0);
  size_t tuned = 0;
  for (const reports::CaseRecord& record : reports::read_records(ecmv.folder / "r.jsonl").cases) {
    if (record.codec.id != "quad_huffman" || !record.codec.tuned) continue;
    ++tuned;
    for (const auto& part : record.step.parts)
      CHECK((part.codec == "quad_huffman[optimise=speed,table_bits=9]") == (part.rows == 64 && part.cols == 64));
  }
  CHECK(tuned == 1);
  CHECK(ecmv({"advise", "tiny", "--tuned", "t.yaml", "--records", "r.jsonl"}) == 2);
}

TEST_CASE("tune ends with the documented codes and a sentence where it cannot search") {
  if (codecs::find_codec("packed_outliers") == nullptr) SKIP("The codec packed_outliers is not part of this build.");
  Command ecmv;
  CHECK(ecmv({"tune"}) == 2);
  CHECK(ecmv(words({"tune", "--shape", "8x8", "-a", "codecs=raw_int8"}, kSmall)) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("No codec of these cases has an open setting."));
  CHECK(ecmv({"list", "codecs", "packed_outliers", "--json"}) == 0);
  CHECK(nlohmann::json::parse(ecmv.out).at("codecs").at(0).at("settings").at(0).at("open") == "0");
  CHECK(ecmv(words({"tune", "--shape", "8x8", "-a", "op=size"}, kSmall)) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("one shape at a time"));
  std::ofstream(ecmv.folder / "tuned.yaml") << "schema: 7\n";
  CHECK(ecmv(words({"tune", "--shape", "8x8"}, kSmall)) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("tuned.yaml:1:9: 'schema' must lie between 1 and 1, not 7."));
  CHECK(ecmv(words({"run", "--shape", "8x8", "--tuned", "tuned.yaml"}, kSmall)) == 2);
  CHECK(ecmv(words({"tune", "--shape", "8x8", "-o", "nowhere/t.yaml", "--records", "r.jsonl"}, kSmall)) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("there is no folder nowhere"));
  CHECK(ecmv(words({"tune", "--shape", "8x8", "-o", "."}, kSmall)) == 2);
  CHECK(ecmv(words({"tune", "--shape", "8x8", "-o", "t.yaml", "--records", "t.yaml"}, kSmall)) == 2);
  CHECK(ecmv(words({"tune", "--shape", "8x8", "--rounds", "0"}, kSmall)) == 2);
}

TEST_CASE("a run on the emulator takes the settings of its kind of device", "[emulator]") {
  const codecs::CodecEntry* const codec = codecs::find_codec("quad_huffman");
  KernelSpec wave32{.backend = "emulator"};
  wave32.simd_target = "wave32";
  if (device_model(wave32).empty()) SKIP("There is no emulator in this build.");
  if (codec == nullptr) SKIP("The codec quad_huffman is not part of this build.");
  Command ecmv;
  TunedEntry fragments = entry({{"symbol_cols", "8"}, {"tile_cols", "256"}});
  fragments.key.backend = "emulator";
  fragments.key.device = device_model(wave32);
  fragments.key.codec = "quad_huffman";
  fragments.key.format_version = codec->codec->format_version;
  fragments.key.asked = {{"layout", "fragments"}, {"optimise", "speed"}, {"symbol_cols", "0"}};
  fragments.key.type = "bf16";
  fragments.key.activations = "bf16";
  fragments.key.shape = {64, 512};
  std::ofstream(ecmv.folder / "t.yaml") << tuned_text({fragments});
  CHECK(ecmv({"run",
              "--codec",
              "quad_huffman:layout=fragments,optimise=speed,symbol_cols=0",
              "--backend",
              "emulator",
              "--simd-target",
              "wave32",
              "--op",
              "matmul",
              "--activations",
              "bf16",
              "--batch",
              "16",
              "--source",
              "llm_like",
              "--shape",
              "64x512",
              "--layers",
              "1",
              "--variant",
              "fragments",
              "--policy",
              "first",
              "--tuned",
              "t.yaml",
              "-o",
              "r.jsonl"}) == 0);
  const auto records = reports::read_records(ecmv.folder / "r.jsonl");
  size_t multiplied = 0;  // the others are kernels for int8
  for (const reports::CaseRecord& record : records.cases) {
    multiplied += record.status == reports::Status::ok;
    CHECK(record.codec.tuned);
    CHECK(record.codec.settings.at("tile_cols") == reports::Value(std::string("256")));
    CHECK(record.codec.settings.at("symbol_cols") == reports::Value(std::string("8")));
  }
  CHECK(multiplied > 0);
}

TEST_CASE("tune does not begin on the emulator, which is never timed", "[emulator]") {
  if (device_model({.backend = "emulator"}).empty()) SKIP("There is no emulator in this build.");
  if (codecs::find_codec("packed_outliers") == nullptr) SKIP("The codec packed_outliers is not part of this build.");
  Command ecmv;
  CHECK(ecmv({"tune", "--codec", "packed_outliers", "--backend", "emulator", "--op", "matvec", "--shape", "64x512",
              "--layers", "1", "--variant", "first", "--policy", "first"}) == 6);
  CHECK_THAT(ecmv.err, ContainsSubstring("the backend 'emulator' is never timed"));
  CHECK(ecmv.err.find("Stage") == std::string::npos);  // known before anything runs
  CHECK_FALSE(std::filesystem::exists(ecmv.folder / "tuned.yaml"));
  CHECK_FALSE(std::filesystem::exists(ecmv.folder / "tuned.records.jsonl"));
}
