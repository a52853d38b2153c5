// Claims about decoding steps: op `step`, mixes of codecs by kind of layer, blocks that stand in memory several times.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "experiments/config/experiment.h"
#include "experiments/run/run.h"
#include "reports/metrics.h"
#include "tests/experiments/test_codecs.h"
#include "tests/run_command.h"

using namespace ecmv;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;
using reports::Status;

namespace {

// q and o [64, 64], k and v [32, 64], gate and up [96, 64], down [64, 96], lm_head [80, 64].
constexpr const char* kModel = R"({"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 80})";
constexpr int64_t kBlock = 2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64, kHead = 80 * 64;
constexpr int64_t kScale = 2;  // bytes, of each layer

// A folder with the model's config.json.
class ModelFolder {
 public:
  ModelFolder() : path_(std::filesystem::temp_directory_path() / ("ecmv_step_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
    std::ofstream(path_ / "config.json") << kModel;
  }
  ~ModelFolder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string config_of(const std::string& data, const std::string& codecs, const std::string& kernels) {
  return "schema: 1\nname: step\nmeasure: {repetitions: 2, min_time: 0.0001}\nexperiments:\n  - data: {" + data +
         "}\n    codecs: " + codecs + "\n    kernels: {backend: scalar, threads: 2, " + kernels + "}\n";
}

const std::string kToIntegers = "quantise: {absmax: {group: tensor}}";

struct Run {
  std::vector<reports::CaseRecord> records;
  std::vector<std::string> names;
};

Run run(const std::vector<codecs::CodecEntry>& codecs, const std::string& kernels, const std::string& chosen = "test",
        const std::string& quantise = kToIntegers, bool time = true) {
  const ModelFolder model;
  const auto experiment = experiments::parse_experiment(
      config_of("source: model, model: " + model.path() + ", " + quantise, chosen, kernels), "x", {}, codecs);
  Run done;
  for (const experiments::Case& one : experiment.cases) done.names.push_back(one.kernel.short_name());
  experiments::RunOptions options;
  options.codecs = codecs;
  options.time = time;
  options.on_case = [&](const reports::CaseRecord& record) { done.records.push_back(record); };
  experiments::run_experiment(experiment, options);
  return done;
}

std::string errors_of(const std::string& data, const std::string& codecs, const std::string& kernels) {
  const codecs::Codec codec = make_codec();
  const std::vector<codecs::CodecEntry> entries = {{"test", &codec, {}, {}}};
  try {
    experiments::parse_experiment(config_of(data, codecs, kernels), "x", {}, entries);
  } catch (const experiments::ConfigError& e) {
    return e.what();
  }
  return "";
}

// Wrong in the last layer alone, which is the only one with 80 rows.
void wrong_lm_head(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(stored, args, batch);
  if (stored.shape.rows == 80 && args.rows.end == 80) args.y[79] += 1;
}

std::mutex seen_mutex;
std::set<const int8_t*> seen_matrices;
std::vector<const int8_t*> in_order;
// Right for the first twenty matrices in memory.
void wrong_copies(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(stored, args, batch);
  const std::scoped_lock lock(seen_mutex);
  auto place = std::ranges::find(in_order, stored.elements);
  if (place == in_order.end()) place = in_order.insert(place, stored.elements);
  if (place - in_order.begin() >= 20) args.y[args.rows.begin] += 1;
}
void remember(const Stored& stored, const MatmulArgs& args, int batch) {
  multiply_tokens(stored, args, batch);
  const std::scoped_lock lock(seen_mutex);
  seen_matrices.insert(stored.elements);
}

std::string only_64_columns(const backends::CompressedView& matrix, const backends::DeviceInfo&,
                            const backends::Policy&) {
  return matrix.shape.cols == 64 ? "" : "This kernel takes 64 columns.";
}

}  // namespace

TEST_CASE("a step multiplies every linear layer of a model once, each of its own shape and with tokens of its own") {
  const codecs::Codec codec = make_codec();
  const backends::Kernel kernels[] = {make_kernel<multiply_tokens>()};
  const Run done = run({{"test", &codec, kernels, {}}}, "op: step, batch: [1, 3]");
  CHECK(done.names == std::vector<std::string>{"scalar:t2/step:b1/best", "scalar:t2/step:b3/best"});
  REQUIRE(done.records.size() == 2);
  for (const reports::CaseRecord& record : done.records) {
    INFO(record.reason);
    CHECK(record.status == Status::ok);
    CHECK(record.kernel.op == "step");
    CHECK(record.time.elements == 2 * kBlock + kHead);
    CHECK(record.size.stored_bytes == 2 * kBlock + kHead + 15 * kScale);
    CHECK(record.data.layers == 15);
    CHECK(record.step.blocks == 2);
    CHECK(record.step.encoded_blocks == 2);
    CHECK_THAT(record.check.outputs, ContainsSubstring("within the bound of float32 sums"));
    CHECK_THAT(reports::find_metric("tokens_per_s").value(record, {}),
               WithinRel(static_cast<double>(record.kernel.batch) / record.time.median_s, 1e-12));
    CHECK_THAT(reports::find_metric("us_per_pass").value(record, {}), WithinRel(1e6 * record.time.median_s, 1e-12));
  }
  CHECK(done.records[1].kernel.batch == 3);
}

TEST_CASE("a step with one wrong layer is incorrect, and the sentence names the layer") {
  const codecs::Codec codec = make_codec();
  const backends::Kernel kernels[] = {make_kernel<wrong_lm_head>()};
  const Run done = run({{"test", &codec, kernels, {}}}, "op: step");
  REQUIRE(done.records.size() == 1);
  CHECK(done.records[0].status == Status::incorrect);
  CHECK_THAT(done.records[0].reason, ContainsSubstring("layer 14"));
}

TEST_CASE("repeated blocks have memory of their own, and the record says how many were encoded") {
  const codecs::Codec codec = make_codec();
  const backends::Kernel kernels[] = {make_kernel<remember>()};
  seen_matrices.clear();
  const Run done = run({{"test", &codec, kernels, {}}}, "op: step, repeat: 3");
  REQUIRE(done.records.size() == 1);
  const reports::CaseRecord& record = done.records[0];
  INFO(record.reason);
  CHECK(record.status == Status::ok);
  CHECK(record.step.blocks == 6);
  CHECK(record.step.encoded_blocks == 2);
  CHECK(record.data.layers == 43);
  CHECK(seen_matrices.size() == 43);
  CHECK(record.size.stored_bytes == 6 * kBlock + kHead + 43 * kScale);
  CHECK(record.time.elements == 6 * kBlock + kHead);
  CHECK(done.names == std::vector<std::string>{"scalar:t2/step:b1:x3/best"});
}

TEST_CASE("every copy of a repeated block is verified") {
  const codecs::Codec codec = make_codec();
  const backends::Kernel kernels[] = {make_kernel<wrong_copies>()};
  in_order.clear();
  const Run done = run({{"test", &codec, kernels, {}}}, "op: step, repeat: 2", "test", kToIntegers, false);
  REQUIRE(done.records.size() == 1);
  CHECK(done.records[0].status == Status::incorrect);
  CHECK_THAT(done.records[0].reason, ContainsSubstring("layer 20"));
}

TEST_CASE("each layer of a step runs by a kernel that takes its shape, and the record names it by kind") {
  const codecs::Codec codec = make_codec();
  backends::Kernel narrow = make_kernel<multiply_tokens>("narrow");
  narrow.refuses = only_64_columns;
  const backends::Kernel kernels[] = {narrow, make_kernel<decode>("copy")};
  const Run done = run({{"test", &codec, kernels, {}}}, "op: step");
  REQUIRE(done.records.size() == 1);
  const reports::CaseRecord& record = done.records[0];
  INFO(record.reason);
  CHECK(record.status == Status::ok);
  CHECK(record.kernel.unfused);
  REQUIRE(record.step.parts.size() == 8);
  int64_t layers = 0, bytes = 0;
  for (const auto& part : record.step.parts) {
    CHECK(part.kernel == (part.kind == "down" ? "unfused copy" : "narrow"));
    CHECK(part.stored_bytes == part.layers * (part.rows * part.cols + kScale));
    CHECK(part.layer_s > 0);
    layers += part.layers;
    bytes += part.stored_bytes;
  }
  CHECK(layers == record.data.layers);
  CHECK(bytes == record.size.stored_bytes);
}

TEST_CASE("a step of the variant 'auto' times no kernel: each layer gets the one that is taken unnamed") {
  const codecs::Codec codec = make_codec();
  backends::Kernel narrow = make_kernel<multiply_tokens>("narrow");
  narrow.refuses = only_64_columns;
  const backends::Kernel kernels[] = {backends::up_to(2, narrow), make_kernel<multiply_tokens>("many"),
                                      make_kernel<decode>("copy")};
  const Run done = run({{"test", &codec, kernels, {}}}, "op: step, variant: auto, batch: [2, 3]");
  REQUIRE(done.records.size() == 2);
  for (const reports::CaseRecord& record : done.records) {
    INFO(record.reason);
    CHECK(record.status == Status::ok);
    CHECK(record.kernel.variant == "auto");
    CHECK(record.kernel.chosen == "");
    for (const auto& part : record.step.parts) {
      CHECK(part.kernel == (part.kind == "down" || record.kernel.batch == 3 ? "many" : "narrow"));
      CHECK(std::isnan(part.layer_s));
    }
  }
}

TEST_CASE("a step without a kernel for one of its shapes is refused with that shape") {
  const codecs::Codec codec = make_codec();
  backends::Kernel narrow = make_kernel<multiply_tokens>("narrow");
  narrow.refuses = only_64_columns;
  const backends::Kernel kernels[] = {narrow};
  const Run done = run({{"test", &codec, kernels, {}}}, "op: step");
  REQUIRE(done.records.size() == 1);
  CHECK(done.records[0].status == Status::refused);
  CHECK(done.records[0].reason.find("Layers of 64 x 96:") == 0);
}

TEST_CASE("a mix has a codec for each kind of layer, and its record the sizes of each") {
  const codecs::Codec one = make_codec();
  codecs::Codec other = make_codec();
  other.encode = [](datasets::MatrixView matrix, const backends::Settings& settings) {
    backends::CompressedMatrix compressed = store(matrix, settings);
    compressed.sections.push_back({"table", backends::Role::table, 64, std::vector<std::byte>(100)});
    return compressed;
  };
  other.decode = [](const backends::CompressedView& compressed, std::span<std::byte> out) {
    std::ranges::copy(compressed.sections[0].bytes, out.begin());
  };
  other.max_stored_bytes = [](datasets::Shape shape, const backends::Settings&) { return shape.elements() + 100; };
  const backends::Kernel kernels[] = {make_kernel<multiply_tokens>()};
  const std::vector<codecs::CodecEntry> entries = {{"one", &one, kernels, {}}, {"other", &other, kernels, {}}};
  const Run done = run(entries, "op: [step, size]", "[mix: {attention: [one, other], mlp: other, others: one}]");
  REQUIRE(done.records.size() == 4);
  for (const reports::CaseRecord& record : done.records) {
    INFO(record.reason);
    CHECK(record.status == Status::ok);
    CHECK(record.codec.id == "mix");
    CHECK(std::get<std::string>(record.codec.settings.at("mlp")) == "other");
    const bool both = std::get<std::string>(record.codec.settings.at("attention")) == "other";
    CHECK(record.size.table_bytes == 2 * 100 * (both ? 7 : 3));
    if (record.kernel.op == "size") continue;
    for (const auto& part : record.step.parts) {
      const bool attention = part.kind == "q" || part.kind == "k" || part.kind == "v" || part.kind == "o";
      CHECK(part.codec == (part.kind == "lm_head" || (attention && !both) ? "one" : "other"));
    }
  }
  CHECK(done.records[0].case_key != done.records[2].case_key);
}

TEST_CASE("a mix that leaves a kind of layer without a codec is refused with that kind") {
  const codecs::Codec codec = make_codec();
  const backends::Kernel kernels[] = {make_kernel<multiply_tokens>()};
  const Run done = run({{"test", &codec, kernels, {}}}, "op: step", "[mix: {attention: test, mlp: test}]");
  REQUIRE(done.records.size() == 1);
  CHECK(done.records[0].status == Status::refused);
  CHECK(done.records[0].reason ==
        "The mix names no codec for layers of the kind 'lm_head'; 'others' stands for all that it leaves.");
}

TEST_CASE("a lossy codec in a mix is held to its bound, and the others stay exact") {
  const codecs::Codec exact = make_codec();
  codecs::Codec lossy = make_codec();
  lossy.lossless = false;
  lossy.encode = store_even;
  lossy.error_bound = within_one;
  const backends::Kernel kernels[] = {make_kernel<multiply_tokens>()};
  const std::vector<codecs::CodecEntry> entries = {{"exact", &exact, kernels, {}}, {"lossy", &lossy, kernels, {}}};
  const Run done = run(entries, "op: step", "[mix: {mlp: lossy, others: exact}]"),
            all_exact = run(entries, "op: step", "exact");
  REQUIRE(done.records.size() == 1);
  REQUIRE(all_exact.records.size() == 1);
  INFO(done.records[0].reason);
  CHECK(done.records[0].status == Status::ok);
  CHECK_THAT(done.records[0].check.decode, ContainsSubstring("within its bound"));
  CHECK(done.records[0].distortion.largest_error > all_exact.records[0].distortion.largest_error);
}

TEST_CASE("steps of quantised models apply their scales, fused for rows and unfused for groups") {
  const codecs::Codec codec = make_codec();
  const backends::Kernel kernels[] = {make_kernel<multiply_tokens>(), make_kernel<decode>()};
  const Run done = run({{"test", &codec, kernels, {}}}, "op: step, repeat: 2", "test",
                       "quantise: [absmax: {bits: 8, group: [row, 32]}]");
  REQUIRE(done.records.size() == 2);
  for (const reports::CaseRecord& record : done.records) {
    INFO(record.reason);
    CHECK(record.status == Status::ok);
    CHECK(record.distortion.snr_db > 30);
  }
  const int64_t rows = 2 * 64 + 2 * 32 + 2 * 96 + 64;
  CHECK(done.records[0].size.scale_bytes == 2 * (4 * rows + 80));
  CHECK_FALSE(done.records[0].kernel.unfused);
  CHECK(done.records[1].kernel.unfused);
}

TEST_CASE("a step that makes no sense is an error of the config") {
  const std::string model = "source: model, model: llama_3_8b";
  CHECK_THAT(errors_of("source: llm_like, d: 64", "test", "op: step"),
             ContainsSubstring("it takes 'source: model', or a file"));
  CHECK_THAT(errors_of(model, "[mix: {mlp: test, others: test}]", "op: [step, matmul]"),
             ContainsSubstring("A mix of codecs by kind of layer is for the ops 'step' and 'size'."));
  CHECK_THAT(errors_of(model, "test", "op: matmul, repeat: 2"), ContainsSubstring("'repeat' counts the copies"));
  CHECK_THAT(errors_of(model, "[mix: {attenton: test}]", "op: step"), ContainsSubstring("Did you mean 'attention'?"));
  CHECK_THAT(errors_of(model, "[mix: test]", "op: step"), ContainsSubstring("A mix names a codec for each kind"));
  CHECK_THAT(errors_of(model, "[mix: {mlp: {mix: {mlp: test}}}]", "op: step"), ContainsSubstring("no mix of its own"));
  CHECK_THAT(errors_of(model, "[mix: {mlp: tests}]", "op: step"), ContainsSubstring("There is no codec 'tests'."));
}

TEST_CASE("smoke runs of models take one block, few rows and few copies") {
  const codecs::Codec codec = make_codec();
  const backends::Kernel kernels[] = {make_kernel<multiply_tokens>()};
  const std::vector<codecs::CodecEntry> entries = {{"test", &codec, kernels, {}}};
  auto experiment = experiments::parse_experiment(
      config_of("source: model, model: llama_3_70b, blocks: 2", "test", "op: step, repeat: 40"), "x", {}, entries);
  experiments::shrink_to_smoke(experiment);
  REQUIRE(experiment.cases.size() == 1);
  CHECK(experiment.cases[0].data.numbers.at("blocks") == 1);
  CHECK(experiment.cases[0].data.numbers.at("rows") == 512);
  CHECK(experiment.cases[0].kernel.repeat == 2);
}

TEST_CASE("a step runs on the emulator by kernels of GPUs, copies of its blocks included", "[emulator]") {
  const ModelFolder model;
  Command ecmv;
  ecmv({"run",
        "--source",
        "model",
        "--param",
        "model=" + model.path(),
        "--op",
        "step",
        "--batch",
        "2",
        "--repeat",
        "2",
        "--backend",
        "emulator",
        "--simd-target",
        "wave32",
        "--codec",
        "raw_bf16",
        "--codec",
        "huffman_exponents",
        "--codec",
        "mix:attention=raw_bf16,others=huffman_exponents",
        "--json",
        "cases.json"});
  if (ecmv.code == 6) SKIP("there is no emulator plugin");
  CHECK(ecmv.code == 0);
  const reports::RecordSet records = reports::read_records(ecmv.folder / "out/ad_hoc/records.jsonl");
  REQUIRE(records.cases.size() == 3);
  for (const reports::CaseRecord& record : records.cases) {
    INFO(record.codec.id << ": " << record.reason);
    CHECK(record.status == Status::ok);
    CHECK(record.step.blocks == 4);
    CHECK(record.step.parts.size() >= 8);
  }
}
