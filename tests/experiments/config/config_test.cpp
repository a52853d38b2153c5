// Claims about configs: all mistakes are reported at once with their places, and correct configs expand to the expected
// cases.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>

#include <algorithm>

#include "backends/backend.h"
#include "experiments/config/expand.h"
#include "experiments/config/experiment.h"
#include "experiments/plan/device_pool.h"
#include "experiments/run/case_record.h"
#include "tests/experiments/test_codecs.h"

using namespace ecmv;
using namespace ecmv::experiments;
using Catch::Matchers::ContainsSubstring;

namespace {

std::span<const codecs::CodecEntry> test_codecs() {
  static const codecs::Codec plain = tests::make_codec();
  static const codecs::Codec with_settings = [] {
    codecs::Codec codec = tests::make_codec();
    codec.settings = {
        {.name = "lanes", .unit = "", .help = "h", .default_value = int64_t{4}, .min = 1, .max = 64},
        {.name = "mode", .unit = "", .help = "h", .default_value = std::string("slow"), .choices = {"slow", "fast"}}};
    codec.former_settings = {{"layout", "rows", "Its layout 'tiles' was removed: 'plain' is faster."}};
    return codec;
  }();
  static const std::vector<backends::Kernel> kernels = {tests::make_kernel<tests::decode>(),
                                                        tests::make_kernel<tests::multiply>()};
  static const std::vector<codecs::CodecEntry> entries = {{"plain", &plain, kernels, {}},
                                                          {"tuned", &with_settings, kernels, kernels}};
  return entries;
}

Experiment parse(const std::string& text, const ConfigEdits& edits = {}) {
  return parse_experiment(text, "x.yaml", edits, test_codecs());
}

std::vector<std::string> errors_of(const std::string& text, const ConfigEdits& edits = {}) {
  try {
    parse(text, edits);
  } catch (const ConfigError& e) {
    return e.messages;
  }
  return {};
}

// The only error.
std::string error_of(const std::string& text, const ConfigEdits& edits = {}) {
  const auto errors = errors_of(text, edits);
  std::string all;
  for (const std::string& error : errors) all += error + "\n";
  INFO(all);
  CHECK(errors.size() == 1);
  return errors.empty() ? "" : errors[0];
}

std::string with_block(const std::string& block) { return "schema: 1\nname: x\nexperiments:\n" + block; }

const std::string kData = "  - data: {source: gaussian, sigma: 4, d: 8, layers: 2}\n";
const std::string kBlock = kData + "    codecs: plain\n";

std::vector<std::string> names_of(const Experiment& experiment) {
  std::vector<std::string> names;
  for (const Case& one : experiment.cases) names.push_back(one.name());
  return names;
}

}  // namespace

TEST_CASE("a minimal config gives its case") {
  const Experiment experiment = parse(with_block(kBlock));
  REQUIRE(experiment.cases.size() == 1);
  CHECK(experiment.cases[0].name() == "gaussian[sigma=4]/8x8x2/seed1/plain/scalar/matvec/test/default");
  CHECK(experiment.cases[0].key().size() == 16);
  CHECK(experiment.measure.repetitions == 9);
  CHECK(experiment.verify_each);
}

TEST_CASE("errors carry file, line and column") {
  CHECK(error_of("schema: 1\nname: x\nexperimens: []\nexperiments:\n" + kBlock) ==
        "x.yaml:3:1: 'the config' has no key 'experimens'. Did you mean 'experiments'?");
  CHECK_THAT(error_of(with_block("  - data: {source: gaussian, sigma: 4, d: 8, layer: 2}\n    codecs: plain\n")),
             ContainsSubstring("x.yaml:4:46: 'data' has no key 'layer'. Did you mean 'layers'?"));
  CHECK_THAT(error_of("schema: 1\nname: [\n"), ContainsSubstring("x.yaml:"));
  CHECK_THAT(error_of("schema: 1\nname: x\nname: y\nexperiments:\n" + kBlock),
             ContainsSubstring("x.yaml:3:1: The key 'name' stands twice"));
}

// Texts with one mistake each, and a part of the sentence about it.
using Mistakes = std::vector<std::pair<std::string, std::string>>;

static void expect_sentences(const Mistakes& mistakes, const std::function<std::string(const std::string&)>& config) {
  for (const auto& [text, sentence] : mistakes) {
    INFO(text);
    CHECK_THAT(error_of(config(text)), ContainsSubstring(sentence));
  }
}

TEST_CASE("a mistake in a config's outer parts is a sentence that names the culprit") {
  const std::string head = "schema: 1\nname: x\n";
  const Mistakes mistakes = {
      {"", "schema: 1"},
      {"- 1\n", "a config is a map"},
      {"name: x\nexperiments:\n" + kBlock, "must begin with 'schema: 1'"},
      {"schema: 2\nname: x\nexperiments:\n" + kBlock, "reads configs of schema 1, and this one has 2"},
      {"schema: 1\nexperiments:\n" + kBlock, "needs a 'name'"},
      {"schema: 1\nname: ../x\nexperiments:\n" + kBlock, "must not hold a '/'"},
      {head, "'experiments' must be a list"},
      {head + "experiments: []\n", "at least one block"},
      {head + "verify: often\nexperiments:\n" + kBlock, "'once' or 'each'"},
      {head + "measure: {repetitions: 0}\nexperiments:\n" + kBlock, "'repetitions' must lie between 1"},
      {head + "measure: {min_time: -1}\nexperiments:\n" + kBlock, "greater than 0"},
      {head + "measure: {repetition: 3}\nexperiments:\n" + kBlock, "Did you mean 'repetitions'?"},
      {head + "experiments:\n" + kBlock + "---\nschema: 1\n", "one YAML document"},
      {", a]", "a config is a map"},
      {with_block("  - \n"), "this one is empty"},
      {with_block("  - codecs: plain\n"), "needs 'data'"},
      {with_block("  - data: {sigma: 4, d: 8}\n    codecs: plain\n"), "needs a 'source'"},
      {with_block("  - data: {source: gausian, d: 8}\n    codecs: plain\n"), "Did you mean 'gaussian'?"},
      {with_block(kData), "needs 'codecs'"},
      {with_block(kData + "    codecs: plan\n"), "There is no codec 'plan'. Did you mean 'plain'?"},
      {with_block(kData + "    codecs:\n      - tuned: {lane: 2}\n"), "Did you mean 'lanes'?"},
      {with_block(kData + "    codecs:\n      - tuned: {lanes: 65}\n"), "must lie between 1 and 64, not 65"},
      {with_block(kData + "    codecs:\n      - tuned: {mode: quick}\n"), "one of slow, fast"},
  };
  expect_sentences(mistakes, [](const std::string& text) { return text; });
}

TEST_CASE("a mistake in 'data' is a sentence that names the culprit") {
  const Mistakes mistakes = {
      {"sigma: 4", "either 'd'"},
      {"sigma: 4, d: 8, shapes: [[1, 2]]", "either 'd'"},
      {"sigma: 4, shapes: [[1, 2, 3]]", "pair [rows, cols]"},
      {"sigma: 4, d: 010", "plain decimal digits, not '010'"},
      {"sigma: 4, d: 1e3", "plain decimal digits"},
      {"sigma: 4, d: 0", "'d' must lie between 1"},
      {"sigma: wide, d: 8", "'sigma' must be a number, not 'wide'"},
      {"sigma: -1, d: 8", "at least"},
      {"sigma: 1, entropy_bits: 2, d: 8", "entropy_bits"},
      {"sigma: 1, d: []", "'d' is empty"},
      {"sigma: 1, d: ", "'d' has no value"},
      {"sigma: 1, d: [[8]]", "single value"},
      {"sigma: 1, d: {pow3: [1, 2]}", "Did you mean 'pow2'?"},
      {"sigma: 1, d: {pow2: [5, 2]}", "greater than its last"},
      {"sigma: 1, d: {range: [1, 9, 0]}", "step > 0"},
      {"sigma: [1, 2], d: [8, 16, 32], zip: [sigma, d]", "of one length"},
      {"sigma: 1, d: 8, zip: [sgima, d]", "no axis of this block"},
  };
  expect_sentences(mistakes, [](const std::string& text) {
    return with_block("  - data: {source: gaussian, " + text + "}\n    codecs: plain\n");
  });
}

TEST_CASE("a mistake in 'kernels' or 'exclude' is a sentence that names the culprit") {
  const Mistakes mistakes = {
      {"kernels: {backend: cpu}", "'backend' does not know 'cpu'"},
      {"kernels: {simd_target: AVX22}", "does not know 'AVX22'"},
      {"kernels: {op: matvex}", "Did you mean 'matvec'?"},
      {"kernels: {threads: 0}", "'threads' must lie between 1"},
      {"kernels: {unfused: maybe}", "'unfused' does not know 'maybe'"},
      {"kernels: {launch: grahp}", "Did you mean 'graph'?"},
      {"kernels: {device: -1}", "'device' must lie between 0"},
      {"exclude: [{codex: plain}]", "Did you mean 'codec'?"},
      {"exclud: [{codec: plain}]", "Did you mean 'exclude'?"},
      {"kernels: {unfused: [always, never]}", "'unfused' takes one word"},
  };
  expect_sentences(mistakes, [](const std::string& text) { return with_block(kBlock + "    " + text + "\n"); });
}

TEST_CASE("all errors come at once") {
  const auto errors = errors_of(
      "schema: 1\nnam: x\nseed: -1\nexperiments:\n  - data: {source: gaussian, sigma: wide, d: eight, layrs: 2}\n    "
      "codecs: [plan, tuned: {lanes: 0, mood: x}]\n    kernels: {op: matvex}\n");
  std::string all;
  for (const std::string& error : errors) all += error + "\n";
  for (const char* part :
       {"'nam'", "needs a 'name'", "'seed'", "'layrs'", "'plan'", "must lie between 1 and 64", "'mood'", "'matvex'"})
    CHECK_THAT(all, ContainsSubstring(part));
}

TEST_CASE("axes multiply, the first slowest, and generated axes include their ends") {
  const Experiment experiment =
      parse(with_block("  - data: {source: gaussian, sigma: [1, 2], d: {pow2: [3, 5]}, layers: 1}\n    codecs: [plain, "
                       "tuned: {lanes: {range: [2, 4, 2]}}]\n"));
  CHECK(experiment.cases.size() == 2 * 3 * (1 + 2));
  CHECK(experiment.cases.front().data.numbers.at("sigma") == 1);
  CHECK(experiment.cases.back().data.shape == datasets::Shape{32, 32});
  CHECK(experiment.cases.back().codec.name() == "tuned[lanes=4,mode=slow]");
}

TEST_CASE("zipped axes advance together") {
  const Experiment experiment =
      parse(with_block("  - data: {source: gaussian, sigma: [1, 2], d: [8, 16], seed: [1, 2, 3], zip: [sigma, d]}\n    "
                       "codecs: plain\n"));
  CHECK(experiment.cases.size() == 2 * 3);
  for (const Case& one : experiment.cases) CHECK((one.data.numbers.at("sigma") == 1) == (one.data.shape.rows == 8));
}

TEST_CASE("exclude removes partial matches only") {
  const std::string block = "  - data: {source: gaussian, sigma: 1, d: [8, 16]}\n    codecs: [plain, tuned]\n";
  CHECK(parse(with_block(block)).cases.size() == 4);
  const Experiment experiment = parse(with_block(block + "    exclude: [{codec: tuned, d: 16}]\n"));
  CHECK(experiment.cases.size() == 3);
  CHECK(std::none_of(experiment.cases.begin(), experiment.cases.end(),
                     [](const Case& c) { return c.codec.id == "tuned" && c.data.shape.rows == 16; }));
}

TEST_CASE("blocks append, equal cases run once, cases of one dataset stand together") {
  const Experiment experiment =
      parse(with_block(kBlock + "  - data: {source: gaussian, sigma: 4, d: 16, layers: 2}\n    codecs: plain\n" +
                       kData + "    codecs: [tuned, plain]\n"));
  REQUIRE(experiment.cases.size() == 3);
  CHECK(experiment.cases[0].data == experiment.cases[1].data);
  CHECK(experiment.cases[1].codec.id == "tuned");
}

TEST_CASE("settings that a codec had are read with the value that is left, and refused with the reason otherwise") {
  const auto block = [](const std::string& settings) {
    return with_block(kData + "    codecs: [{tuned: {" + settings + "}}]\n    kernels: {backend: scalar}\n");
  };
  const Experiment experiment = parse(block("layout: rows, lanes: 8"));
  REQUIRE_FALSE(experiment.cases.empty());
  for (const Case& one : experiment.cases) CHECK(one.codec.settings.values().size() == 2);
  CHECK_THAT(error_of(block("layout: [rows, tiles], lanes: 8")),
             ContainsSubstring("Codec 'tuned': Its layout 'tiles' was removed: 'plain' is faster."));
}

TEST_CASE("all_settings gives every codec with each setting at its ends and choices") {
  const Experiment experiment = parse(with_block(kData + "    codecs: all_settings\n    kernels: {backend: scalar}\n"));
  std::vector<std::string> codecs;
  for (const Case& one : experiment.cases) codecs.push_back(one.codec.name());
  CHECK(codecs == std::vector<std::string>{"plain", "tuned[lanes=4,mode=slow]", "tuned[lanes=1,mode=slow]",
                                           "tuned[lanes=64,mode=slow]", "tuned[lanes=4,mode=fast]"});
}

TEST_CASE("integers of a list are integers to the codec, and in keys and records what the same texts were") {
  static const codecs::Codec codec = [] {
    codecs::Codec made = tests::make_codec();
    made.settings = {{.name = "lanes", .unit = "", .help = "h", .default_value = int64_t{8}, .values = {2, 8, 32}}};
    return made;
  }();
  static const std::vector<backends::Kernel> kernels = {tests::make_kernel<tests::multiply>()};
  const std::vector<codecs::CodecEntry> entries = {{"listed", &codec, kernels, {}}};
  const auto cases_of = [&](const std::string& choice) {
    return parse_experiment(with_block(kData + "    codecs: " + choice + "\n"), "x.yaml", {}, entries).cases;
  };
  const auto lanes_of = [](const Case& one) { return one.codec.settings.integer("lanes"); };

  CHECK(lanes_of(cases_of("listed").at(0)) == 8);
  const std::vector<Case> swept = cases_of("[listed: {lanes: [32, 2]}]");
  REQUIRE(swept.size() == 2);
  CHECK(lanes_of(swept[0]) == 32);
  CHECK(lanes_of(swept[1]) == 2);
  CHECK(swept[0].codec.name() == "listed[lanes=32]");

  Case with_text = swept[0];
  with_text.codec.settings.set("lanes", std::string("32"));
  CHECK(with_text.key() == swept[0].key());

  std::vector<std::string> names;
  for (const Case& one : cases_of("all_settings")) names.push_back(one.codec.name());
  CHECK(names == std::vector<std::string>{"listed[lanes=8]", "listed[lanes=2]", "listed[lanes=32]"});

  for (const std::string value : {"4", "02", "x", "''"}) {
    INFO(value);
    try {
      cases_of("[listed: {lanes: " + value + "}]");
      FAIL("it was taken");
    } catch (const ConfigError& error) {
      REQUIRE(error.messages.size() == 1);
      CHECK_THAT(error.messages[0], ContainsSubstring("Setting 'lanes' must be one of 2, 8, 32, not '"));
    }
  }
}

TEST_CASE("records hold settings of a list as texts, and integers of a range as numbers") {
  int listed = 0;
  for (const codecs::CodecEntry& entry : codecs::all_codecs()) {
    INFO(entry.id);
    Case one = parse(with_block(kBlock)).cases[0];
    one.codec = {std::string(entry.id), codecs::default_settings(*entry.codec), entry.codec->format_version};
    const reports::Values recorded = describe_case(one, "x", "y").codec.settings;
    REQUIRE(recorded.size() == entry.codec->settings.size());
    for (const codecs::SettingInfo& info : entry.codec->settings) {
      INFO(info.name);
      const reports::Value& value = recorded.at(std::string(info.name));
      CHECK(std::holds_alternative<std::string>(value) == !codecs::listed_values(info).empty());
      listed += info.values.empty() ? 0 : 1;
    }
  }
  if (listed == 0) SKIP("no codec of this build has a setting of listed integers");
}

TEST_CASE("edits replace axes and set values, and complain about what they cannot") {
  const std::string text = with_block(kBlock);
  CHECK(names_of(parse(text, {.axes = {"d=16,32"}})) ==
        std::vector<std::string>{"gaussian[sigma=4]/16x16x2/seed1/plain/scalar/matvec/test/default",
                                 "gaussian[sigma=4]/32x32x2/seed1/plain/scalar/matvec/test/default"});
  CHECK(parse(text, {.axes = {"d={pow2: [3, 6]}"}}).cases.size() == 4);
  CHECK(parse(text, {.axes = {"op=decode,matvec", "codecs=plain,tuned"}}).cases.size() == 4);
  const Experiment edited = parse(text, {.values = {"measure.repetitions=3", "experiments.0.data.sigma=2"}});
  CHECK(edited.measure.repetitions == 3);
  CHECK(edited.cases[0].data.numbers.at("sigma") == 2);
  CHECK_THAT(edited.config_text, ContainsSubstring("repetitions: 3"));
  CHECK(parse(edited.config_text).cases[0].name() == edited.cases[0].name());
  CHECK_THAT(error_of(text, {.axes = {"=3"}}), ContainsSubstring("-a takes axis=values"));
  CHECK_THAT(error_of(text, {.values = {"seed"}}), ContainsSubstring("--set takes path=value"));
  CHECK_THAT(error_of(text, {.values = {"experiments.7.data=1"}}), ContainsSubstring("no such place"));
  CHECK_THAT(error_of(text, {.values = {"name.x=1"}}), ContainsSubstring("no such place"));
  CHECK_THAT(error_of(text, {.axes = {"sgima=3"}}), ContainsSubstring("Did you mean 'sigma'?"));
  CHECK_THAT(error_of(text, {.axes = {"d=[1, "}}), ContainsSubstring("is no YAML"));
}

TEST_CASE("filters keep and drop by name, and say when they are no expressions") {
  Experiment experiment =
      parse(with_block("  - data: {source: gaussian, sigma: 1, d: [8, 16]}\n    codecs: [plain, tuned]\n"));
  filter_cases(experiment, "tuned", "16x16");
  REQUIRE(experiment.cases.size() == 1);
  CHECK(experiment.cases[0].data.shape.rows == 8);
  CHECK_THROWS_AS(filter_cases(experiment, "(", ""), ConfigError);
  CHECK_THAT(filter_cases(experiment, "none", ""),
             ContainsSubstring("0 of 1 cases match --filter 'none'. One of them is "
                               "gaussian[sigma=1]/8x8x10/tuned/"));
}

TEST_CASE("filters know short names, which show only settings that are not the default, and full ones") {
  const std::string text =
      with_block(kData + "    codecs:\n      - tuned: {lanes: [4, 8]}\n    kernels: {backend: scalar}\n");
  const auto left = [&](const std::string& filter) {
    Experiment experiment = parse(text);
    filter_cases(experiment, filter, "");
    return experiment.cases.size();
  };
  CHECK(parse(text).cases[0].codec.short_name() == "tuned");
  CHECK(parse(text).cases[1].codec.short_name() == "tuned[lanes=8]");
  CHECK(left("/tuned/scalar/matvec/test$") == 1);
  CHECK(left(R"(tuned\[lanes=8\]/scalar)") == 1);
  CHECK(left("mode=slow") == 2);
  CHECK(describe_case(parse(text).cases[1], "x", "y").codec.non_default == std::vector<std::string>{"lanes"});
  // A rule knows the defaults; an expression sees only what differs from them.
  const auto without = [&](const std::string& exclude) {
    Experiment experiment = parse(text);
    filter_cases(experiment, "", exclude);
    return experiment.cases.size();
  };
  CHECK(without("lanes=8") == 1);
  CHECK(without("lanes=4") == 1);
  CHECK_THROWS_AS(without("lanes=4]"), ConfigError);
}

TEST_CASE("rules of exclude and filters take every key of a case, and one that matches nothing is an error") {
  const std::string text =
      "  - data: {source: gaussian, sigma: [1, 2], d: [8, 16], layers: 3}\n"
      "    codecs: [plain, {tuned: {lanes: [4, 8, 16]}}]\n    kernels: {backend: scalar}\n";
  const size_t all = parse(with_block(text)).cases.size();
  REQUIRE(all == 16);
  const auto left = [&](const std::string& rule) {
    return parse(with_block(text + "    exclude: [{" + rule + "}]\n")).cases.size();
  };
  CHECK(left("lanes: 8") == 12);
  CHECK(left("lanes: [8, 16]") == 8);
  CHECK(left("mode: slow") == 4);
  CHECK(left("sigma: 2.0") == 8);
  CHECK(left("rows: 8, codec: plain") == 14);
  CHECK(left("layers: 3") == 0);
  CHECK_THAT(error_of(with_block(text + "    exclude: [{lanes: 5}]\n")), ContainsSubstring("matches no case"));
  CHECK_THAT(error_of(with_block(text + "    exclude: [{codec: tunde}]\n")), ContainsSubstring("matches no case"));
  CHECK_THAT(error_of(with_block(text + "    exclude: [{lnaes: 8}]\n")), ContainsSubstring("Did you mean 'lanes'?"));
  // What a build lacks, or an edit took away, is no mistake.
  CHECK(left("policy: nothing") == 16);
  CHECK(parse(with_block(text + "    exclude: [{d: 16}]\n"), {.axes = {"d=8"}}).cases.size() == 8);

  const auto filtered = [&](const std::string& filter, const std::string& exclude) {
    Experiment experiment = parse(with_block(text));
    filter_cases(experiment, filter, exclude);
    return experiment.cases.size();
  };
  CHECK(filtered("codec=tuned", "") == 12);
  CHECK(filtered("lanes=4|8,sigma=1", "") == 4);
  CHECK(filtered("lanes=1", "") == 0);  // not the 1 of 16
  CHECK(filtered("", "lanes=16") == 12);
  CHECK_THROWS_WITH(filtered("", "nothing"), ContainsSubstring("--exclude 'nothing' matches none of 16 cases"));
  CHECK_THROWS_WITH(filtered("", "lanes=5"), ContainsSubstring("matches none of 16 cases"));
}

TEST_CASE("smoke cases are small, stay oblong and run once") {
  Experiment experiment =
      parse(with_block("  - data: {source: gaussian, sigma: 1, shapes: [[11008, 4096], [4096, 4096], [8192, 8192], "
                       "[100, 7]], layers: 10}\n    codecs: plain\n"));
  shrink_to_smoke(experiment);
  REQUIRE(experiment.cases.size() == 3);  // the two square ones have become one
  for (const Case& one : experiment.cases) {
    CHECK(one.data.layers == 2);
    CHECK(std::max(one.data.shape.rows, one.data.shape.cols) <= 512);
  }
  const auto has = [&](datasets::Shape shape) {
    return std::any_of(experiment.cases.begin(), experiment.cases.end(),
                       [&](const Case& c) { return c.data.shape == shape; });
  };
  CHECK(has({512, 128}));
  CHECK(has({512, 512}));
  CHECK(has({100, 7}));
  CHECK(is_single_pass(experiment.measure));
}

TEST_CASE("the op size gives one case a codec, whatever the backends and threads") {
  const Experiment experiment =
      parse(with_block("  - data: {source: gaussian, sigma: 1, d: 8, layers: 1}\n    codecs: plain\n    kernels: "
                       "{backend: [scalar, simd], threads: [1, 2], op: size}\n"));
  REQUIRE(experiment.cases.size() == 1);
  CHECK(experiment.cases[0].kernel.task == Task::size);
  CHECK(experiment.cases[0].name().ends_with("/size"));
}

TEST_CASE("'layers: streamed' is as many layers as caches do not hold, within memory and time") {
  constexpr int64_t kMiB = 1 << 20;
  DataSpec data;
  data.source = "gaussian";
  data.shape = {4096, 4096};
  CHECK(streamed_layers(data, 32 * kMiB) == 16);  // half of 16 layers of 16 MiB is 4 x 32 MiB
  CHECK(streamed_layers(data, 33 * kMiB) == 17);
  CHECK(streamed_layers(data, 0) == 16);                 // an unknown cache
  CHECK(streamed_layers(data, int64_t{1} << 40) <= 64);  // time
  data.shape = {1 << 15, 1 << 15};
  CHECK(streamed_layers(data, kMiB) == 1);
  const int64_t cache = largest_cache(std::vector<std::string>{"best"});
  const auto layers = parse(with_block("  - data: {source: gaussian, sigma: 4, d: 4096, layers: streamed}\n"
                                       "    codecs: plain\n"))
                          .cases.at(0)
                          .data.layers;
  CHECK((layers * 8 * kMiB >= 4 * cache || layers == 64));
  CHECK_THAT(error_of(with_block("  - data: {source: gaussian, sigma: 4, d: 8, layers: many}\n    codecs: plain\n")),
             ContainsSubstring("'layers' must be an integer"));
}

TEST_CASE("batch is an axis of matmul alone, in names, exclusions and edits") {
  const std::string block =
      "  - data: {source: gaussian, sigma: 1, d: 8, layers: 1}\n    codecs: plain\n    kernels: {backend: scalar, op: "
      "[matvec, matmul], batch: [1, 16]}\n";
  const std::string name = "gaussian[sigma=1]/8x8x1/seed1/plain/scalar/";
  CHECK(names_of(parse(with_block(block))) == std::vector<std::string>{name + "matvec/test/default",
                                                                       name + "matmul:b1/unfused_test/default",
                                                                       name + "matmul:b16/unfused_test/default"});
  CHECK(parse(with_block(block + "    exclude: [{op: matmul, batch: 1}]\n")).cases.size() == 2);
  CHECK(parse(with_block(block), {.axes = {"batch=2,3,4"}}).cases.size() == 4);
  CHECK(parse(with_block(kBlock + "    kernels: {op: matmul}\n")).cases[0].kernel.batch == 1);
  CHECK_THAT(error_of(with_block(kBlock + "    kernels: {batch: 2}\n")),
             ContainsSubstring("'batch' counts the tokens of a matmul"));
  CHECK_THAT(error_of(with_block(kBlock + "    kernels: {op: matmul, batch: 4097}\n")),
             ContainsSubstring("'batch' must lie between 1 and 4096"));
}

TEST_CASE("activations are an axis of matmul alone; unfused products take them all") {
  const std::string block =
      "  - data: {source: gaussian, sigma: 1, d: 8, layers: 1}\n    codecs: plain\n    kernels: {backend: scalar, op: "
      "[matvec, matmul], activations: [f32, bf16]}\n";
  const std::string name = "gaussian[sigma=1]/8x8x1/seed1/plain/scalar/";
  CHECK(names_of(parse(with_block(block))) == std::vector<std::string>{name + "matvec/test/default",
                                                                       name + "matmul:b1/unfused_test/default",
                                                                       name + "matmul:b1:bf16/unfused_test/default"});
  CHECK(parse(with_block(block + "    exclude: [{activations: bf16}]\n")).cases.size() == 2);
  CHECK(parse(with_block(block), {.axes = {"activations=bf16"}}).cases.size() == 2);
  CHECK_THAT(error_of(with_block(kBlock + "    kernels: {activations: bf16}\n")),
             ContainsSubstring("'activations' are the tokens of a matmul or a step"));
  CHECK_THAT(error_of(with_block(kBlock + "    kernels: {op: matmul, activations: f16}\n")),
             ContainsSubstring("'activations' does not know 'f16'"));
}

TEST_CASE("the old word 'tuning' is read as 'policy': in kernels, in rules and on the command line") {
  const auto block = [](const std::string& key) {
    return kData + "    codecs: tuned\n    kernels: {backend: scalar, " + key + "}\n";
  };
  const auto count = [&](const std::string& text, const ConfigEdits& edits = {}) {
    return parse(with_block(text), edits).cases.size();
  };
  CHECK(count(block("policy: default")) == 1);
  CHECK(count(block("tuning: default")) == 1);
  CHECK(count(block("policy: other")) == 0);
  CHECK(count(block("tuning: other")) == 0);
  CHECK(count(block("tuning: other"), {.axes = {"tuning=default"}}) == 1);
  CHECK(count(block("tuning: other"), {.axes = {"policy=default"}}) == 1);
  CHECK(count(block("policy: default") + "    exclude: [{policy: default}]\n") == 0);
  CHECK(count(block("policy: default") + "    exclude: [{tuning: default}]\n") == 0);
  CHECK_THAT(error_of(with_block(block("policy: first, tuning: first"))),
             ContainsSubstring("'tuning' is the old word for 'policy'"));
}

TEST_CASE("the policy 'auto' is one case a kernel, whose name says so") {
  const auto names =
      names_of(parse(with_block(kData + "    codecs: plain\n    kernels: {backend: scalar, policy: auto}\n")));
  REQUIRE(names.size() == 1);
  CHECK(names[0].ends_with("/scalar/matvec/test/auto"));
}

TEST_CASE("the variant 'auto' is one case of a matmul or a step where it is asked for, and none elsewhere") {
  const auto names = [&](const std::string& axes) {
    return names_of(
        parse(with_block("  - data: {source: gaussian, sigma: 1, d: 8, layers: 1}\n    codecs: plain\n"
                         "    kernels: {backend: scalar, " +
                         axes + "}\n")));
  };
  const std::string place = "gaussian[sigma=1]/8x8x1/seed1/plain/scalar/";
  CHECK(names("op: [matvec, matmul], variant: [all, auto]") ==
        std::vector<std::string>{place + "matvec/test/default", place + "matmul:b1/auto",
                                 place + "matmul:b1/unfused_test/default"});
  CHECK(names("op: matmul, variant: auto, policy: [all, auto], unfused: always") ==
        std::vector<std::string>{place + "matmul:b1/auto"});
  CHECK(names("op: matmul") == std::vector<std::string>{place + "matmul:b1/unfused_test/default"});
  KernelChoice choice;
  choice.backends = {"scalar"};
  choice.tasks = {Task::step};
  choice.variants = {"all", "auto"};
  choice.policies = {"all", "auto"};
  const codecs::CodecEntry* const entry = &test_codecs()[0];
  std::vector<std::string> steps;
  for (const KernelSpec& spec : expand_steps(choice, std::span(&entry, 1))) steps.push_back(spec.name());
  CHECK(steps == std::vector<std::string>{"scalar/step:b1/best", "scalar/step:b1/best/auto", "scalar/step:b1/auto"});
}

TEST_CASE("keys are stable, differ with settings and format version") {
  const Case one = parse(with_block(kBlock)).cases[0];
  Case other = one;
  CHECK(one.key() == other.key());
  other.codec.format_version = 2;
  CHECK(one.key() != other.key());
  other = one;
  other.kernel.threads = 3;
  CHECK(one.key() != other.key());
}

TEST_CASE("GPU backends have the axes launch and device, CPUs have not", "[emulator]") {
  const codecs::CodecEntry* entry = codecs::find_codec("raw_int8");
  if (entry == nullptr || entry->kernels("emulator").empty())
    SKIP("there is no emulator plugin beside this test, or no raw_int8 in this build");
  KernelChoice choice;
  choice.backends = {"scalar", "emulator"};
  choice.variants = {"copy"};
  choice.tasks = {Task::decode};
  const auto plain_choice = expand_kernels(choice, *entry);
  REQUIRE(plain_choice.size() == 2);
  CHECK(plain_choice[0].launch == "");
  CHECK(plain_choice[1].launch == "graph");
  CHECK(plain_choice[1].name() == "emulator/decode/copy/default");
  choice.launches = {"graph", "plain"};
  choice.devices = {-1, 1};
  std::vector<std::string> names;
  for (const KernelSpec& spec : expand_kernels(choice, *entry)) names.push_back(spec.name());
  CHECK(names == std::vector<std::string>{"scalar/decode/copy/default", "emulator/decode/copy/default",
                                          "emulator/decode/copy/default/plain_launches",
                                          "emulator:device1/decode/copy/default",
                                          "emulator:device1/decode/copy/default/plain_launches"});
}

TEST_CASE("a GPU's number chooses the device, and a number without a device is told with those that there are",
          "[emulator]") {
  DevicePool devices;
  KernelSpec kernel;
  kernel.backend = "emulator";
  kernel.device = 1;
  if (devices.find(kernel) == nullptr) SKIP(devices.reason(kernel));
  CHECK(devices.find(kernel)->info().simd_target == "wave64");
  CHECK(device_label(*devices.find(kernel)) == "emulated GPU (emulator:1)");
  kernel.device = 7;
  CHECK(devices.find(kernel) == nullptr);
  CHECK(devices.reason(kernel) == "There is no device 7 here; there are: 0 (wave32), 1 (wave64).");
}

TEST_CASE("backends expand as asked: best, all, by name") {
  const auto count = [&](const std::string& kernels) {
    return parse(with_block(kData + "    codecs: tuned\n    kernels: " + kernels + "\n")).cases.size();
  };
  size_t targets = 0;
  for (const backends::DeviceInfo& info : backends::find_backend("simd")->devices())
    targets += info.unavailable.empty();
  CHECK(count("{backend: best}") == 1);
  CHECK(parse(with_block(kData + "    codecs: tuned\n")).cases[0].kernel.backend == "simd");
  CHECK(count("{backend: [scalar, simd]}") == 2);
  CHECK(count("{backend: simd, simd_target: all}") == targets);
  CHECK(count("{backend: scalar, op: [decode, matvec], threads: [1, 2, all]}") == 6);
  CHECK(count("{backend: scalar, unfused: always}") == 2);
  CHECK(count("{backend: scalar, variant: first, policy: first}") == 1);
  CHECK(count("{backend: scalar, variant: other}") == 0);
}
