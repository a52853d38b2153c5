// Claims about input that is large for its content: the built program answers it, or refuses it with a sentence, within
// ten seconds of a processor and a gigabyte. The system ends a program that takes more.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "codecs/registry.h"
#include "tests/experiments/small_run.h"
#include "tests/run_command.h"
#include "tests/weight_files.h"

using Catch::Matchers::ContainsSubstring;
using namespace ecmv::tests;
namespace fs = std::filesystem;

namespace {

// Limits of processor seconds end runs that would take minutes. They are ten times the time needed, and no measurement.
// The sanitizers need more of both.
#if defined(__SANITIZE_ADDRESS__)
const std::string kLimits = "ulimit -t 300; ";
#else
const std::string kLimits = "ulimit -t 60; ulimit -d 1000000; ";
#endif

struct Shell {
  Command command{"/bin/sh"};
  int operator()(const std::string& words) { return command({"-c", kLimits + "exec " ECMV_BINARY " " + words}); }
  fs::path path(const std::string& name) const { return command.folder / name; }
};

void write_safetensors(const fs::path& path, const std::string& header, size_t data_bytes) {
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 255);
  std::ofstream(path, std::ios::binary) << length << header << std::string(data_bytes, '\1');
}

std::string many_tensors(size_t count) {
  std::string header;
  for (size_t i = 0; i < count; ++i) {
    header +=
        (i == 0 ? "{\"t" : ",\"t") + std::to_string(i) + "\":{\"dtype\":\"I8\",\"shape\":[1,1],\"data_offsets\":[";
    header += std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  return header + "}";
}

// A chain file of that many layers of 1 x 1.
void write_layers(const fs::path& path, uint32_t count) {
  const auto u32 = [](uint32_t value) {
    std::string bytes;
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift & 255);
    return bytes;
  };
  const std::string layer = u32(1) + u32(1) + u32(0x3f800000) + "\1";
  std::string text = u32(count) + u32(0) + u32(1) + std::string("\1\0\0\0", 4);
  for (uint32_t i = 0; i < count; ++i) text += layer;
  std::ofstream(path, std::ios::binary) << text;
}

std::string config(const std::string& data, const std::string& kernels = "") {
  return "schema: 1\nname: x\nexperiments:\n  - data: {source: gaussian, layers: 1, " + data +
         "}\n    codecs: raw_int8\n    kernels: {backend: scalar" + kernels + "}\n";
}

std::string repeated(const std::string& text, size_t times) {
  std::string all;
  all.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

TEST_CASE("a weight file of many tensors is read in time that grows with it, and refused beyond what models have") {
  Shell ecmv;
  write_safetensors(ecmv.path("many"), many_tensors(40'000), 40'000);
  CHECK(ecmv("inspect many") == 0);
  CHECK_THAT(ecmv.command.out, ContainsSubstring("t39999"));
  CHECK(ecmv("verify many") == 2);
  write_safetensors(ecmv.path("more"), many_tensors(250'000), 250'000);
  CHECK(ecmv("inspect more") == 2);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("names more than 200000 tensors"));
  write_safetensors(ecmv.path("name"),
                    "{\"" + std::string(50'000'000, 'n') +
                        "\":{\"dtype\":\"I8\",\"shape\":[8192,1,1],"
                        "\"data_offsets\":[0,8192]}}",
                    8192);
  CHECK(ecmv("inspect name") == 2);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("a name of 50000000 bytes"));
}

TEST_CASE("GGUF, ONNX and npy files and indices that say much with few bytes are read or refused in time") {
  Shell ecmv;
  const auto answer = [&](const std::string& name, const std::string& content, int code) {
    std::ofstream(ecmv.path(name), std::ios::binary) << content;
    CHECK(ecmv("inspect " + name) == code);
    return code == 0 ? ecmv.command.out : ecmv.command.err;
  };
  GgufFile gguf;
  for (int i = 0; i < 40'000; ++i) gguf.tensors.push_back({"t" + std::to_string(i), {2}, kBF16, "abcd"});
  CHECK_THAT(answer("many.gguf", gguf.bytes(), 0), ContainsSubstring("t39999"));
  // A tensor of all the data again and again.
  gguf.offsets.assign(gguf.tensors.size(), 0);
  for (GgufTensor& tensor : gguf.tensors) tensor.dims = {600'000};
  CHECK_THAT(answer("overlap.gguf", gguf.bytes(), 2), ContainsSubstring("overlaps"));
  CHECK_THAT(answer("pairs.gguf", "GGUF" + u32(3) + u64(0) + u64(~0ull) + std::string(80'000'000, '\0'), 2),
             ContainsSubstring("ends inside"));
  const std::string small = onnx_initializer(onnx_tensor("", {1}, kInt8, proto_bytes(9, "a")));
  CHECK_THAT(answer("many.onnx", onnx_model(repeated(small, 40'000)), 0), ContainsSubstring("40000"));
  CHECK_THAT(answer("more.onnx", onnx_model(repeated(small, 250'000)), 2),
             ContainsSubstring("more than 200000 tensors"));
  // Eight bytes of memory for each of the file.
  CHECK_THAT(answer("numbers.onnx",
                    onnx_model(onnx_initializer(
                        onnx_tensor("w", {50'000, 1000}, kInt64, proto_bytes(7, std::string(50'000'000, '\1'))))),
                    0),
             ContainsSubstring("50000x1000"));
  // More than a million matrices, of a type with many patterns.
  const std::string stack = "'shape': (1250000, 2, 8)}";
  CHECK_THAT(answer("stack.npy",
                    npy_file("{'descr': '<f2', 'fortran_order': False, " + stack, std::string(40'000'000, 'a')), 0),
             ContainsSubstring("1250000x2x8"));
  CHECK_THAT(answer("columns.npy",
                    npy_file("{'descr': '|i1', 'fortran_order': True, " + stack, std::string(20'000'000, 'a')), 0),
             ContainsSubstring("1250000x2x8"));
  fs::create_directory(ecmv.path("folder"));
  std::string index = "{\"weight_map\": {\"a\": \"b\"";
  for (int i = 0; i < 250'000; ++i) index += ", \"" + std::to_string(i) + "\": \"b\"";
  std::ofstream(ecmv.path("folder/model.safetensors.index.json")) << index << "}}";
  CHECK(ecmv("inspect folder") == 2);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("more than 200000 tensors"));
  std::ofstream(ecmv.path("folder/model.safetensors.index.json")) << repeated("[", 50'000'000);
  CHECK(ecmv("inspect folder") == 2);
}

TEST_CASE("a file of many layers is refused wherever layers are stored, uploaded or checked one by one") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Shell ecmv;
  write_layers(ecmv.path("layers.bin"), 262'142);
  CHECK(ecmv("inspect layers.bin") == 2);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("at most 8192 are read together"));
  CHECK(ecmv("verify layers.bin") == 2);
  CHECK_THAT(ecmv.command.out, ContainsSubstring("at most 8192 are read together"));
  write_layers(ecmv.path("fewer.bin"), 8000);
  CHECK(ecmv("inspect fewer.bin") == 0);
  CHECK(ecmv("verify fewer.bin") == 2);
  CHECK_THAT(ecmv.command.out, ContainsSubstring("at most 1024 are read together"));
  write_safetensors(ecmv.path("stack"), "{\"w\":{\"dtype\":\"I8\",\"shape\":[16384,2,8],\"data_offsets\":[0,262144]}}",
                    262'144);
  std::ofstream(ecmv.path("c.yaml"))
      << "schema: 1\nname: x\nexperiments:\n  - data: {source: safetensors, file: stack}\n"
         "    codecs: raw_int8\n    kernels: {backend: scalar}\n";
  CHECK(ecmv("run c.yaml --profile -o r.jsonl") == 5);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("at most 8192 are read together"));
}

TEST_CASE("a config that is too large, or expands to too many cases, is refused with the numbers") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Shell ecmv;
  const auto answer = [&](const std::string& text) {
    std::ofstream(ecmv.path("c.yaml")) << text;
    CHECK(ecmv("run c.yaml --print-config") == 2);
    return ecmv.command.err;
  };
  CHECK_THAT(answer(config("sigma: 4, shapes: [" + repeated("[1,1],", 13'000'000) + "[2,2]]")),
             ContainsSubstring("more bytes than the 1048576 that a config may have"));
  CHECK_THAT(answer(config("sigma: 4, d: [" + repeated("1,", 500'000) + "2]")), ContainsSubstring("250000 values"));
  CHECK_THAT(
      answer(config("d: {range: [1, 9999, 1]}, sigma: {range: [1, 9999, 1]}")),
      ContainsSubstring("c.yaml:4:11: 'data' has 9.998e+07 combinations; a config may have at most 100000 cases"));
  CHECK_THAT(answer(config("sigma: 4, d: 64",
                           ", threads: {range: [1, 4096, 1]}, op: [" + repeated("matvec,", 1000) + "decode]")),
             ContainsSubstring("cases or more; at most 100000 are run"));
  CHECK_THAT(
      answer(config("sigma: 4, d: {range: [1, 9999, 1]}") + "    exclude: [" + repeated("{d: 1},", 50'000) + "]\n"),
      ContainsSubstring("'exclude' has 50000 rules"));
  CHECK_THAT(answer("schema: 1\nname: x\n" + repeated("k: 1\n", 90'000)),
             ContainsSubstring("more errors are not shown"));
  CHECK_THAT(answer(std::string(400'000, '[')), ContainsSubstring("nested too deeply"));
  // As many as there may be.
  std::ofstream(ecmv.path("c.yaml")) << config("d: {range: [1, 9999, 1]}, sigma: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]");
  CHECK(ecmv("run c.yaml --print-config --exclude '7x1/'") == 0);
}

TEST_CASE("reports and comparisons of many records take time that grows with them") {
  if (lacks_baseline()) SKIP("this build lacks the codec");
  Shell ecmv;
  std::ofstream file(ecmv.path("r.jsonl"));
  const std::vector<std::string> codecs = {"raw_int8", "rans", "tans", "zstd"};
  for (int i = 0; i < 10'000; ++i) {
    const int d = 256 << i % 4;
    const std::string size = std::to_string(d * d), seconds = std::to_string(1e-3 * d * (1 + i % 7));
    file << R"({"schema":1,"kind":"case","status":"ok","case":")" << i << R"(","run":"r)" << i % 50
         << R"(","data":{"source":"gaussian","rows":)" << d << R"(,"cols":)" << d
         << R"(,"type":"i8","sigma":4},"codec":{"id":")" << codecs[i / 4 % 4] << R"(","settings":{"n":)" << i % 97
         << R"(}},"size":{"stored_bytes":)" << size << R"(,"by_role":{"payload":)" << size
         << R"(},"bits_per_element":8},"kernel":{"backend":"simd","op":"matvec","tuning":"t)" << i % 89
         << R"(","threads":1,"device":"cpu"},"time":{"samples_s":[)" << seconds << "," << seconds << R"(],"median_s":)"
         << seconds << R"(,"elements":)" << size << R"(,"cache":"streamed"},"check":{"decode":"exact"}})"
         << "\n";
    if (i % 10 == 0)
      file << R"({"schema":1,"kind":"bandwidth","run":"r)" << i % 50
           << R"(","device":"cpu","threads":1,"read_bytes_per_s":1e10,"cache":"streamed"})"
           << "\n";
  }
  file.close();
  CHECK(ecmv("report r.jsonl -o rep --gnuplot none") == 0);
  CHECK(ecmv("compare r.jsonl r.jsonl") == 0);
  CHECK(ecmv("compare r.jsonl --baseline codec=raw_int8") == 0);
  // One record with very many samples, and one that is nothing but long.
  std::string samples = "1";
  for (int i = 0; i < 90'000; ++i) samples += ",1." + std::to_string(i);
  std::ofstream(ecmv.path("long.jsonl"))
      << R"({"schema":1,"kind":"case","status":"ok","case":"a","time":{"elements":1,"samples_s":[)" << samples
      << "]}}\n"
      << R"({"schema":1,"kind":"case","status":"ok","case":"b","time":{"samples_s":[)" << repeated("1,", 30'000'000)
      << "1]}}\n";
  CHECK(ecmv("compare long.jsonl long.jsonl") == 0);
  CHECK_THAT(ecmv.command.err, ContainsSubstring("long.jsonl:2: broken record: 60000"));
}
