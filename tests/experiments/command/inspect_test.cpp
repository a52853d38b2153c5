// Claims about `ecmv inspect` and the source `weights` in the built program.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/experiments/small_run.h"
#include "tests/run_command.h"
#include "tests/weight_files.h"

using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;
using nlohmann::json;

namespace {

// Bytes without a simple pattern.
std::string some_bytes(size_t count, uint32_t mask) {
  std::string out;
  for (uint32_t i = 0; i < count; ++i) out += static_cast<char>((i * 2654435761u >> 13) & mask);
  return out;
}

// Bits per symbol of `width` bytes, by the definition.
double entropy_of(const std::string& bytes, size_t width) {
  std::map<std::string, double> counts;
  for (size_t i = 0; i < bytes.size(); i += width) ++counts[bytes.substr(i, width)];
  const double all = static_cast<double>(bytes.size() / width);
  double bits = 0;
  for (const auto& [symbol, count] : counts) bits -= count / all * std::log2(count / all);
  return bits;
}

void write(const Command& ecmv, const std::string& name, const std::string& content) {
  std::ofstream(ecmv.folder / name, std::ios::binary) << content;
}

json inspected(Command& ecmv, const std::string& path) {
  REQUIRE(ecmv({"inspect", path, "--json"}) == 0);
  return json::parse(ecmv.out)[path];
}

json row_of(const json& rows, const std::string& key, const std::string& value) {
  for (const json& row : rows)
    if (row[key] == value) return row;
  FAIL("no row " << value);
  return {};
}

}  // namespace

TEST_CASE("inspect gives the entropies of every format by kind of layer, as an independent count has them") {
  Command ecmv;
  const std::string q = some_bytes(64 * 32, 31), up = some_bytes(32 * 64, 255), half = some_bytes(2 * 16 * 64, 15);
  write(ecmv, "w.safetensors",
        safetensors_file({{"model.layers.0.self_attn.q_proj.weight", "I8", "[64, 32]", q},
                          {"model.layers.0.mlp.up_proj.weight", "I8", "[32, 64]", up},
                          {"model.layers.1.mlp.up_proj.weight", "I8", "[32, 64]", q},
                          {"lm_head.weight", "F16", "[16, 64]", half}}));
  const json found = inspected(ecmv, "w.safetensors");
  CHECK(found["tensors"].size() == 4);
  CHECK(found["tensors"][0]["shape"] == json({64, 32}));
  const json kinds = found["kinds"];
  CHECK_THAT(row_of(kinds, "kind", "q")["entropy_bits"].get<double>(), WithinAbs(entropy_of(q, 1), 1e-9));
  CHECK_THAT(row_of(kinds, "kind", "up")["entropy_bits"].get<double>(),
             WithinAbs((entropy_of(up, 1) + entropy_of(q, 1)) / 2, 1e-9));
  CHECK_THAT(row_of(kinds, "kind", "lm_head")["entropy_bits"].get<double>(), WithinAbs(entropy_of(half, 2), 1e-9));
  std::string exponents;
  for (size_t i = 1; i < half.size(); i += 2) exponents += static_cast<char>(half[i] >> 2 & 31);
  CHECK_THAT(row_of(kinds, "kind", "lm_head")["exponent_entropy_bits"].get<double>(),
             WithinAbs(entropy_of(exponents, 1), 1e-9));
  const json total = row_of(kinds, "kind", "total");
  CHECK(total["stored_bytes"] == 3 * 2048 + 2048);
  const double minimum = 2048 * (2 * entropy_of(q, 1) + entropy_of(up, 1)) / 8 + 1024 * entropy_of(half, 2) / 8;
  CHECK_THAT(total["minimum_bytes"].get<double>(), WithinAbs(minimum, 4));

  write(ecmv, "w.gguf",
        GgufFile{{{"blk.0.attn_q.weight",
                   {32, 2},
                   kQ8_0,
                   q8_block(7, std::vector<int>(32, 1)) + q8_block(9, std::vector<int>(32, 2))}},
                 {}}
            .bytes());
  const json block = row_of(inspected(ecmv, "w.gguf")["kinds"], "kind", "q");
  CHECK(block["type"] == "Q8_0");
  CHECK(block["scale_bytes"] == 4);
  CHECK(block["stored_bits"] == 8.5);
  CHECK(block["entropy_bits"] == 1);
  CHECK(block["minimum_bytes"] == 64 / 8 + 4);

  write(ecmv, "w.onnx", onnx_model(onnx_initializer(onnx_tensor("fc1.weight", {64, 32}, kInt8, proto_bytes(9, q)))));
  CHECK_THAT(row_of(inspected(ecmv, "w.onnx")["kinds"], "kind", "up")["entropy_bits"].get<double>(),
             WithinAbs(entropy_of(q, 1), 1e-9));
}

TEST_CASE("inspect ends with the command that runs the weights, whatever their path is") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  const std::string name = "it's a folder";
  std::filesystem::create_directory(ecmv.folder / name);
  write(ecmv, name + "/model.safetensors",
        safetensors_file({{"layers.0.mlp.up_proj.weight", "I8", "[8, 8]", some_bytes(64, 7)}}));
  REQUIRE(ecmv({"inspect", name}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("By kind of layer") && ContainsSubstring("\nup "));
  std::string command = ecmv.out.substr(ecmv.out.rfind("\necmv run ") + 1);
  CHECK(command == "ecmv run --source weights --param 'file=it'\\''s a folder' --codec all --op size\n");
  command.replace(0, 4, ECMV_BINARY);
  Command shell("/bin/sh");
  std::filesystem::copy(ecmv.folder / name, shell.folder / name, std::filesystem::copy_options::recursive);
  CHECK(shell({"-c", command}) == 0);
  CHECK_THAT(shell.out, ContainsSubstring("raw_int8"));
}

TEST_CASE(
    "inspect counts a model's many small tensors in one line unless all are wanted, and says that a file has none") {
  Command ecmv;
  std::string tensors =
      onnx_initializer(onnx_tensor("fc1.weight", {256, 256}, kInt8, proto_bytes(9, some_bytes(65536, 7))));
  for (const char* name : {"one", "two", "three", "four", "five"})
    tensors += onnx_initializer(onnx_tensor(name, {2}, kInt8, proto_bytes(9, "ab")));
  write(ecmv, "w.onnx", onnx_model(tensors));
  REQUIRE(ecmv({"inspect", "w.onnx"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("fc1.weight") && !ContainsSubstring("three") &&
                           ContainsSubstring("and 5 small tensors, 10 elements together"));
  REQUIRE(ecmv({"inspect", "w.onnx", "--all"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("three") && !ContainsSubstring("small tensors"));
  CHECK(inspected(ecmv, "w.onnx")["tensors"].size() == 6);

  write(ecmv, "double.safetensors", safetensors_file({{"w", "F64", "[4, 4]", std::string(128, '\1')}}));
  CHECK(inspected(ecmv, "double.safetensors")["run"] == "");
  REQUIRE(ecmv({"inspect", "double.safetensors"}) == 0);
  CHECK_THAT(ecmv.out,
             ContainsSubstring("No layer can run.") && ContainsSubstring("the parameter \"tensors\" can ask"));
  // 2000 as a varint has two bytes, as the int16 that it is too, and 1 has one.
  write(ecmv, "varints.onnx",
        onnx_model(onnx_initializer(onnx_tensor("w", {1, 2}, 5, proto_bytes(5, "\xD0\x0F\x01")))));
  CHECK(inspected(ecmv, "varints.onnx")["tensors"][0]["stored_bytes"] == 4);

  write(ecmv, "none.gguf", GgufFile{{}, {}}.bytes());
  REQUIRE(ecmv({"inspect", "none.gguf"}) == 0);
  CHECK_THAT(ecmv.out, ContainsSubstring("none.gguf holds no tensors.") && !ContainsSubstring("ecmv run"));
}

TEST_CASE("weights of every format run, from a config too, and several tensors may be chosen") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Command ecmv;
  const std::string elements = some_bytes(64 * 64, 15);
  write(ecmv, "w.npy", npy_file("{'descr': '|i1', 'fortran_order': True, 'shape': (64, 64), }", elements));
  write(ecmv, "w.onnx",
        onnx_model(onnx_initializer(onnx_tensor("a", {64, 64}, kInt8, proto_bytes(9, elements))) +
                   onnx_initializer(onnx_tensor("b", {64, 64}, kInt8, proto_bytes(9, elements)))));
  std::string blocks;
  for (int i = 0; i < 128; ++i) blocks += q8_block(0x3C00, std::vector<int>(32, i));
  write(ecmv, "w.gguf", GgufFile{{{"w", {64, 64}, kQ8_0, blocks}}, {}}.bytes());
  // The int8 chain has no place for scales of blocks.
  for (const auto& [file, op] : {std::pair("w.npy", "matvec"), {"w.onnx", "matvec"}, {"w.gguf", "matmul"}}) {
    INFO(file);
    CHECK(ecmv({"run", "--source", "weights", "--param", std::string("file=") + file, "--codec", "raw_int8", "--op", op,
                "--backend", "scalar", "--profile", "-o", "r.jsonl", "--force"}) == 0);
  }
  write(ecmv, "c.yaml",
        "schema: 1\nname: x\nexperiments:\n  - data: {source: weights, file: [w.onnx], tensors: [^a$, ^b$]}\n"
        "    codecs: raw_int8\n    kernels: {op: size}\n");
  CHECK(ecmv({"run", "c.yaml", "-o", "r.jsonl", "--force"}) == 0);
  CHECK_THAT(ecmv.err + ecmv.out, ContainsSubstring("2 ok"));
  CHECK(ecmv({"run", "--source", "weights", "--param", "file=w.onnx", "--param", "tensors=c", "--codec", "raw_int8"}) ==
        2);
  CHECK_THAT(ecmv.err, ContainsSubstring("No tensor's name matches \"c\""));
}

TEST_CASE("files that cannot be read end inspect with a sentence that names them") {
  Command ecmv;
  std::filesystem::create_directory(ecmv.folder / "folder");
  CHECK(ecmv({"inspect", "folder"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("\"folder\" has neither model.safetensors.index.json nor"));
  write(ecmv, "w.onnx", "not a model");
  CHECK(ecmv({"inspect", "w.onnx"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("In the file \"w.onnx\": Not a readable ONNX file"));
  write(ecmv, "w.gguf", "GGUF");
  CHECK(ecmv({"inspect", "w.gguf"}) == 2);
  CHECK_THAT(ecmv.err, ContainsSubstring("Not a readable GGUF file: it ends inside its header."));
}
