// Claims about quantised checkpoints: which tensors are weights and which are scales, and what packed codes hold.
#include "datasets/layers/quantised_weights.h"

#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "datasets/files/weight_files.h"
#include "datasets/inspect.h"
#include "datasets/layers/unpack.h"
#include "datasets/layers/weight_layers.h"
#include "tests/datasets/temporary_file.h"
#include "tests/weight_files.h"

using namespace ecmv::datasets;
using namespace ecmv::tests;

namespace {

const std::string kQ = "model.layers.0.self_attn.q_proj.";

struct Checkpoint {
  explicit Checkpoint(const std::vector<SafetensorsEntry>& entries) : file(to_bytes(safetensors_file(entries))) {}
  TemporaryFile file;
  WeightFiles open = open_weights(file.path());
  const TensorView& find(const std::string& name) const {
    for (const TensorView& tensor : open.tensors)
      if (tensor.name == name) return tensor;
    throw std::logic_error("no tensor " + name);
  }
  SourceRequest request(const char* parameter) const {
    SourceRequest request;
    request.texts[parameter] = file.path();
    return request;
  }
};

std::string zeros(size_t bytes) { return std::string(bytes, '\0'); }

std::vector<int> elements_of(const TensorView& tensor) {
  std::vector<std::byte> room;
  std::vector<int> out;
  for (const std::byte byte : unpack(tensor, room).bytes) out.push_back(static_cast<int8_t>(byte));
  return out;
}

// Codes as 32-bit words, `bits` each, without a gap; the first lowest.
std::string words_of(const std::vector<int>& codes, int bits) {
  std::string out(codes.size() * static_cast<size_t>(bits) / 8, '\0');
  for (size_t i = 0; i < codes.size() * static_cast<size_t>(bits); ++i)
    if (codes[i / static_cast<size_t>(bits)] >> (i % static_cast<size_t>(bits)) & 1)
      out[i / 8] = static_cast<char>(out[i / 8] | 1 << (i % 8));
  return out;
}

// What remains of a model: its layers, and that `model` and `weights` take them alone.
void expect_one_layer(const Checkpoint& checkpoint, const std::string& name, Shape shape, int64_t bytes_beside) {
  const WeightLayers found = weight_layers(checkpoint.file.path());
  CHECK(found.source == "model");
  REQUIRE(found.layers.size() == 1);
  CHECK(found.layers[0].name == name);
  CHECK(found.layers[0].shape == shape);
  CHECK(found.bytes_beside == bytes_beside);
  const Dataset dataset = load("model", checkpoint.request("model"));
  REQUIRE(dataset.layers.size() == 1);
  CHECK(dataset.layers[0].shape == shape);
  REQUIRE(dataset.scales.size() == 1);
  CHECK(dataset.scales[0].stored.size() == static_cast<size_t>(bytes_beside));
  CHECK(load("weights", checkpoint.request("file")).layers.size() == 1);
}

}  // namespace

TEST_CASE("scales and zero points of quantised checkpoints are no layers, and count beside their weights") {
  struct Beside {
    std::string name, dtype, shape;
    size_t bytes;
  };
  const auto check = [](const std::string& dtype, const std::vector<Beside>& beside) {
    CAPTURE(dtype, beside.front().name);
    std::vector<SafetensorsEntry> entries = {{kQ + "weight", dtype, "[16, 32]", zeros(512)}};
    int64_t bytes = 0;
    for (const Beside& one : beside) {
      entries.push_back({kQ + one.name, one.dtype, one.shape, zeros(one.bytes)});
      bytes += static_cast<int64_t>(one.bytes);
    }
    expect_one_layer(Checkpoint(entries), kQ + "weight", {16, 32}, bytes);
  };
  check("F8_E4M3", {{"weight_scale_inv", "F32", "[2, 4]", 32}});
  check("F8_E4M3", {{"weight_scale", "BF16", "[16, 1]", 32}, {"input_scale", "F32", "[]", 4}});
  check("I8", {{"weight_scale", "F32", "[16, 1]", 64}, {"weight_zero_point", "I8", "[16, 1]", 16}});
  check("I8", {{"SCB", "F32", "[16]", 64}, {"weight_format", "U8", "[]", 1}});
  check("U8", {{"scales", "F16", "[16, 2]", 64}, {"biases", "F16", "[16, 2]", 64}});
}

TEST_CASE("GPTQ's words are codes of outputs by inputs, of 2, 3, 4 and 8 bits") {
  constexpr int kInputs = 64, kOutputs = 32;
  for (const int bits : {2, 3, 4, 8}) {
    CAPTURE(bits);
    std::vector<int> expected(kInputs * kOutputs);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<int>(i * 7 % 251) & ((1 << bits) - 1);
    std::string data(kInputs * kOutputs * static_cast<size_t>(bits) / 8, '\0');
    for (size_t o = 0; o < kOutputs; ++o) {
      const std::string column = words_of(
          {expected.begin() + static_cast<long>(o) * kInputs, expected.begin() + static_cast<long>(o + 1) * kInputs},
          bits);
      for (size_t word = 0; word < column.size() / 4; ++word)
        data.replace((word * kOutputs + o) * 4, 4, column.substr(word * 4, 4));
    }
    const Checkpoint checkpoint(
        {{kQ + "qweight", "I32", "[" + std::to_string(kInputs * bits / 32) + ", 32]", data},
         {kQ + "qzeros", "I32", "[2, " + std::to_string(bits) + "]", zeros(static_cast<size_t>(bits) * 8)},
         {kQ + "scales", "F16", "[2, 32]", zeros(128)},
         {kQ + "g_idx", "I32", "[64]", zeros(256)}});
    const TensorView& codes = checkpoint.find(kQ + "qweight");
    CHECK(codes.dtype == "GPTQ_INT" + std::to_string(bits));
    CHECK(codes.shape == std::vector<int64_t>{kOutputs, kInputs});
    for (int& value : expected) value = static_cast<int8_t>(value);
    CHECK(elements_of(codes) == expected);
    if (bits == 4) expect_one_layer(checkpoint, kQ + "qweight", {32, 64}, 32 + 128 + 256);
    CHECK(summarize(codes).stored_bytes == kInputs * kOutputs * bits / 8);
    CHECK(summarize(codes).entropy_bits.value() <= bits);
  }
}

TEST_CASE("AWQ's words interleave eight outputs") {
  constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};  // the output of each place in a word
  std::string data;
  std::vector<int> expected(16 * 32);
  for (int input = 0; input < 32; ++input)
    for (int word = 0; word < 2; ++word) {
      std::vector<int> codes;
      for (const int output : kOrder) {
        const int code = (input * 5 + word * 3 + output) % 16;
        expected[static_cast<size_t>((word * 8 + output) * 32 + input)] = code;
        codes.push_back(code);
      }
      data += words_of(codes, 4);
    }
  const Checkpoint checkpoint({{kQ + "qweight", "I32", "[32, 2]", data},
                               {kQ + "qzeros", "I32", "[1, 2]", zeros(8)},
                               {kQ + "scales", "F16", "[1, 16]", zeros(32)}});
  const TensorView& codes = checkpoint.find(kQ + "qweight");
  CHECK(codes.dtype == "AWQ_INT4");
  CHECK(elements_of(codes) == expected);
  expect_one_layer(checkpoint, kQ + "qweight", {16, 32}, 40);
}

TEST_CASE("words of compressed-tensors have the shape that stands beside them") {
  std::vector<int> codes(4 * 16);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<int>(i * 11 % 16);
  const Checkpoint checkpoint({{kQ + "weight_packed", "I32", "[4, 2]", words_of(codes, 4)},
                               {kQ + "weight_scale", "BF16", "[4, 1]", zeros(8)},
                               {kQ + "weight_shape", "I64", "[2]", u64(4) + u64(16)}});
  CHECK(checkpoint.find(kQ + "weight_packed").dtype == "UINT4");
  CHECK(elements_of(checkpoint.find(kQ + "weight_packed")) == codes);
  expect_one_layer(checkpoint, kQ + "weight_packed", {4, 16}, 24);
}

namespace {

// A checkpoint of MLX: 4 outputs of 128 inputs, with a scale and a bias for each `cols` of them.
std::vector<SafetensorsEntry> mlx_entries(int bits, int cols, const std::vector<int>& codes) {
  const auto groups = std::to_string(128 / cols);
  const size_t bytes = static_cast<size_t>(4 * 128 / cols * 2);
  return {{kQ + "weight", "U32", "[4, " + std::to_string(128 * bits / 32) + "]", words_of(codes, bits)},
          {kQ + "scales", "BF16", "[4, " + groups + "]", zeros(bytes)},
          {kQ + "biases", "BF16", "[4, " + groups + "]", zeros(bytes)}};
}

std::vector<int> mlx_codes(int bits) {
  std::vector<int> codes(4 * 128);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<int>(i * 37 % 251) & ((1 << bits) - 1);
  return codes;
}

// A folder with a model and its config.json.
struct ModelFolder {
  std::string path;
  ModelFolder(const std::vector<SafetensorsEntry>& entries, const std::string& config) {
    path = (std::filesystem::temp_directory_path() / "ecmv_mlx_XXXXXX").string();
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    std::ofstream(path + "/model.safetensors", std::ios::binary) << safetensors_file(entries);
    std::ofstream(path + "/config.json") << config;
  }
  ~ModelFolder() { std::filesystem::remove_all(path); }
  TensorView weight() const { return open_weights(path).tensors.at(0); }
};

}  // namespace

TEST_CASE("MLX's words are codes of 2 to 8 bits with scales and biases beside them") {
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    CAPTURE(bits);
    const std::vector<int> codes = mlx_codes(bits);
    const Checkpoint checkpoint(mlx_entries(bits, 64, codes));
    const TensorView& weight = checkpoint.find(kQ + "weight");
    CHECK(weight.dtype == (bits == 8 ? "U8" : "UINT" + std::to_string(bits)));
    CHECK(weight.shape == std::vector<int64_t>{4, 128});
    if (bits < 8) CHECK(elements_of(weight) == codes);
    CHECK(summarize(weight).stored_bytes == 4 * 128 * bits / 8);
    expect_one_layer(checkpoint, kQ + "weight", {4, 128}, 32);
    // Groups of 64 columns, where others fit too, are an assumption.
    CHECK(checkpoint.open.remarks.empty() == (bits == 5));
  }
}

TEST_CASE("the groups of MLX's codes are those of the config.json beside them, of the layer before those of all") {
  const std::vector<int> codes = mlx_codes(8), halves = mlx_codes(4);
  const auto type = [](const std::vector<SafetensorsEntry>& entries, const std::string& config) {
    const ModelFolder folder(entries, config);
    CHECK(open_weights(folder.path).remarks.empty() == (config.find("group_size") != config.npos));
    return folder.weight().dtype;
  };
  CHECK(type(mlx_entries(8, 32, codes), R"({"quantization": {"group_size": 32, "bits": 8}})") == "U8");
  CHECK(type(mlx_entries(4, 64, halves), R"({"quantization": {"group_size": 64, "bits": 4}})") == "UINT4");
  CHECK(type(mlx_entries(8, 32, codes), R"({"quantization": {"group_size": 64, "bits": 4,
      "model.layers.0.self_attn.q_proj": {"group_size": 32, "bits": 8}}})") == "U8");
  CHECK(type(mlx_entries(4, 64, halves), "{}") == "UINT4");
  CHECK(type(mlx_entries(4, 64, halves), "no JSON") == "UINT4");
  // What it says does not fit: words are words.
  CHECK(type(mlx_entries(4, 64, halves), R"({"quantization": {"group_size": 48}})") == "U32");
}

TEST_CASE("MLX's floats of four and eight bits have the scales of MXFP4, NVFP4 and MXFP8") {
  const auto entries = [](int64_t words, int64_t groups) {
    return std::vector<SafetensorsEntry>{
        {kQ + "weight", "U32", "[4, " + std::to_string(words) + "]", zeros(static_cast<size_t>(16 * words))},
        {kQ + "scales", "U8", "[4, " + std::to_string(groups) + "]",
         std::string(static_cast<size_t>(4 * groups), 127)}};
  };
  const Checkpoint mx4(entries(8, 2)), nv4(entries(8, 4)), mx8(entries(16, 2)), other(entries(8, 8));
  CHECK(mx4.find(kQ + "weight").dtype == "F4");
  CHECK(scale_cols(mx4.find(kQ + "weight")) == 32);
  CHECK(nv4.find(kQ + "weight").dtype == "F4");
  CHECK(nv4.find(kQ + "scales").dtype == "F8_E4M3");
  CHECK(mx8.find(kQ + "weight").dtype == "F8_E4M3");
  for (const Checkpoint* one : {&mx4, &nv4, &mx8}) CHECK(one->find(kQ + "weight").shape == std::vector<int64_t>{4, 64});
  CHECK(other.find(kQ + "weight").dtype == "U32");
  expect_one_layer(nv4, kQ + "weight", {4, 64}, 16);
}

TEST_CASE("weights of quanto and HQQ have their scales beside them") {
  const Checkpoint quanto({{kQ + "weight._data", "I8", "[16, 32]", zeros(512)},
                           {kQ + "weight._scale", "F32", "[16, 1]", zeros(64)},
                           {kQ + "input_scale", "F32", "[]", zeros(4)}});
  CHECK(bytes_beside(quanto.find(kQ + "weight._data")) == 64);
  const Checkpoint hqq({{kQ + "W_q", "U8", "[16, 32]", zeros(512)},
                        {kQ + "scale", "F16", "[16, 1]", zeros(32)},
                        {kQ + "zero", "F16", "[16, 1]", zeros(32)}});
  CHECK(bytes_beside(hqq.find(kQ + "W_q")) == 64);
  expect_one_layer(hqq, kQ + "W_q", {16, 32}, 64);
}

TEST_CASE("codes of EXL2, EXL3 and AQLM are named and sized, and are no elements") {
  const auto check = [](const std::vector<SafetensorsEntry>& entries, const char* type, int64_t beside) {
    CAPTURE(type);
    const Checkpoint checkpoint(entries);
    const TensorView& codes = checkpoint.find(entries[0].name);
    CHECK(codes.dtype == type);
    CHECK(bytes_beside(codes) == beside);
    CHECK(!summarize(codes).entropy_bits);
    for (const SafetensorsEntry& entry : entries)
      if (entry.name != entries[0].name) CHECK(checkpoint.find(entry.name).is_beside);
    REQUIRE_DATASET_ERROR(load("weights", checkpoint.request("file")), std::string("elements of type ") + type);
  };
  check({{kQ + "q_weight", "I32", "[8, 16]", zeros(512)},
         {kQ + "q_scale", "I32", "[2, 2]", zeros(16)},
         {kQ + "q_scale_max", "F16", "[2]", zeros(4)},
         {kQ + "q_groups", "I16", "[4]", zeros(8)},
         {kQ + "q_invperm", "I16", "[64]", zeros(128)}},
        "EXL2", 156);
  check({{kQ + "trellis", "I16", "[4, 1, 48]", zeros(384)},
         {kQ + "suh", "F16", "[64]", zeros(128)},
         {kQ + "svh", "F16", "[16]", zeros(32)}},
        "EXL3", 160);
  check({{kQ + "codes", "I16", "[16, 8, 1]", zeros(256)},
         {kQ + "codebooks", "F16", "[1, 64, 1, 8]", zeros(1024)},
         {kQ + "scales", "F16", "[16, 1, 1, 1]", zeros(32)}},
        "AQLM", 1056);
}

TEST_CASE("bitsandbytes' codes of four bits have the shape of their state") {
  const std::string state = R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [4, 16]})";
  const std::string weight = kQ + "weight";
  const Checkpoint checkpoint(
      {{weight, "U8", "[32, 1]", "\x1F" + zeros(31)},
       {weight + ".absmax", "U8", "[1]", zeros(1)},
       {weight + ".quant_map", "F32", "[16]", zeros(64)},
       {weight + ".quant_state.bitsandbytes__nf4", "U8", "[" + std::to_string(state.size()) + "]", state}});
  CHECK(checkpoint.find(weight).dtype == "NF4");
  CHECK(elements_of(checkpoint.find(weight))[0] == 1);  // the high half comes first
  CHECK(elements_of(checkpoint.find(weight))[1] == 15);
  CHECK(!summarize(checkpoint.find(weight)).sigma);
}

TEST_CASE("MXFP4 is codes and powers of two apart: experts are layers, and products have their numbers") {
  const std::string experts = "model.layers.0.mlp.experts.gate_up_proj";
  std::string blocks, scales;
  for (int block = 0; block < 2 * 4 * 2; ++block) {  // two experts of 4 rows with 64 columns
    for (int byte = 0; byte < 16; ++byte) blocks += static_cast<char>((byte * 17 + block * 5) & 255);
    scales += static_cast<char>(126 + block % 3);
  }
  const Checkpoint checkpoint({{experts + "_blocks", "U8", "[2, 4, 2, 16]", blocks},
                               {experts + "_scales", "U8", "[2, 4, 2]", scales},
                               {experts + "_bias", "BF16", "[2, 4]", zeros(16)}});
  const TensorView& codes = checkpoint.find(experts + "_blocks");
  CHECK(codes.dtype == "F4");
  CHECK(codes.shape == std::vector<int64_t>{2, 4, 64});
  CHECK(checkpoint.find(experts + "_scales").dtype == "F8_E8M0");
  CHECK(summarize(codes).entropy_bits.value() > 3);
  CHECK(summarize(checkpoint.find(experts + "_scales")).entropy_bits.value() > 1);
  const WeightLayers layers = weight_layers(checkpoint.file.path());
  REQUIRE(layers.layers.size() == 2);
  CHECK(layers.layers[0].kind == LayerKind::gate_up);
  CHECK(layers.layers[0].stored_bytes == 4 * (32 + 2));

  const Dataset dataset = load("model", checkpoint.request("model"));
  REQUIRE(dataset.layers.size() == 2);
  CHECK(dataset.layers[1].shape == Shape{4, 64});
  REQUIRE(dataset.scales.size() == 2);
  CHECK(dataset.scales[0].type == ScaleType::e8m0);
  CHECK(dataset.scales[0].stored.size() == 8);
  CHECK(find_source("model")->check(checkpoint.request("model")).group_cols == 32);
  constexpr double kNumbers[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
  std::vector<double> row(64);
  read_row(dataset.layers[1].view(), dataset.scales[1], 2, row);
  for (size_t col = 0; col < 64; ++col) {
    const size_t at = (1 * 4 + 2) * 64 + col;
    const int byte = static_cast<unsigned char>(blocks[at / 2]);
    const double scale = std::ldexp(1, static_cast<unsigned char>(scales[at / 32]) - 127);
    CHECK(row[col] == kNumbers[at % 2 == 0 ? byte & 15 : byte >> 4] * scale);
  }
}

TEST_CASE("NVFP4 is codes with e4m3 scales beside them, packed or as F4") {
  const Checkpoint packed({{kQ + "weight", "U8", "[4, 16]", std::string(64, '\x21')},
                           {kQ + "weight_scale", "F8_E4M3", "[4, 2]", std::string(8, '\x38')},
                           {kQ + "weight_scale_2", "F32", "[]", zeros(4)}});
  CHECK(packed.find(kQ + "weight").dtype == "F4");
  expect_one_layer(packed, kQ + "weight", {4, 32}, 12);
  const Checkpoint f4({{kQ + "weight", "F4", "[4, 32]", std::string(64, '\x21')},
                       {kQ + "weight_scale", "F8_E8M0", "[4, 1]", std::string(4, '\x7F')}});
  const Dataset dataset = load("model", f4.request("model"));
  CHECK(dataset.scales.at(0).groups == 1);
  std::vector<float> scale(1);
  dataset.scales[0].of_row(0, scale);
  CHECK(scale[0] == 0.5F);
}

TEST_CASE("blocks of MXFP4 and NVFP4 in GGUF have the numbers that ggml gives them") {
  constexpr int kTwice[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  std::string codes;
  for (int byte = 0; byte < 16; ++byte) codes += static_cast<char>(byte * 31 & 255);
  const std::string mx = "\x80" + codes;                      // 2^1 * 0.5
  const std::string nv = "\x38\x40\x30\x38" + codes + codes;  // 1, 2, 0.5 and 1, halved
  const TemporaryFile file(to_bytes(GgufFile{
      {{"blk.0.ffn_up.weight", {32, 1}, kMxfp4, mx}, {"blk.0.ffn_down.weight", {64, 1}, kNvfp4, nv}},
      {}}.bytes()));
  SourceRequest request;
  request.texts["file"] = file.path();
  const Dataset dataset = load("weights", request);
  REQUIRE(dataset.layers.size() == 2);
  const auto twice = [&](size_t byte, bool high) {
    const int both = static_cast<unsigned char>(codes[byte]);
    return kTwice[high ? both >> 4 : both & 15];
  };
  std::vector<double> row(32);
  read_row(dataset.layers[0].view(), dataset.scales[0], 0, row);
  for (size_t j = 0; j < 32; ++j) CHECK(row[j] == twice(j % 16, j >= 16) * 1.0);
  row.resize(64);
  read_row(dataset.layers[1].view(), dataset.scales[1], 0, row);
  constexpr double kHalved[] = {0.5, 1, 0.25, 0.5};
  for (size_t j = 0; j < 64; ++j) CHECK(row[j] == twice((j / 16 * 8 + j % 8) % 16, j % 16 >= 8) * kHalved[j / 16]);

  const std::vector<TensorSummary> tensors = inspect_file(file.path());
  CHECK(tensors[0].entropy_bits.value() > 3);
  CHECK(tensors[0].scale_entropy_bits.value() == 0);
  CHECK(tensors[1].scale_entropy_bits.value() == 1.5);
  CHECK(tensors[1].scale_bytes == 4);
  CHECK(tensors[0].max.value() == 6);
}

TEST_CASE("words for scales are parts of names, and nothing else is one") {
  for (const char* word : {"weight_scale_inv", "weight_scale", "scales", "qzeros", "g_idx", "absmax", "input_scale",
                           "k_scale", "v_scale", "weight_global_scale", "SCB", "weight_zero_point"})
    CHECK(is_scale_word(word));
  for (const char* word : {"weight", "qweight", "bias", "scaler", "scale_shift_table", "upscale", "weight_packed"})
    CHECK(!is_scale_word(word));
  // A matrix of that name without a weight is a matrix like others.
  const Checkpoint alone({{"scales", "I8", "[2, 2]", "abcd"}});
  CHECK(load("weights", alone.request("file")).layers.size() == 1);
}
