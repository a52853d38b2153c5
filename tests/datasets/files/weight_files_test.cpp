// Claims about folders with models, indices of shards, and how a path's format is recognised.
#include "datasets/files/weight_files.h"

#include <bit>

#include "datasets/files/model_folder.h"
#include "tests/datasets/temporary_file.h"
#include "tests/weight_files.h"

using namespace ecmv::datasets;
using namespace ecmv::tests;
namespace fs = std::filesystem;

namespace {

// A folder that exists as long as the object.
struct Folder {
  TemporaryFile file{std::vector<std::byte>{}};
  fs::path path = file.path() + ".folder";

  Folder() { fs::create_directory(path); }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path / name, std::ios::binary) << content;
  }
};

std::string shard(const std::vector<std::string>& names) {
  std::vector<SafetensorsEntry> entries;
  for (const std::string& name : names) entries.push_back({name, "I8", "[2, 2]", "abcd"});
  return safetensors_file(entries);
}

SourceRequest request_for(const fs::path& path) {
  SourceRequest request;
  request.texts["file"] = path.string();
  return request;
}

}  // namespace

TEST_CASE("a folder's shards are read together, with a remark on tensors that the index does not name") {
  const Folder folder;
  folder.write("one.safetensors", shard({"b", "a", "old"}));
  folder.write("two.safetensors", shard({"c"}));
  folder.write("model.safetensors.index.json",
               R"({"metadata": {"total_size": 12, "more": [1, {"weight_map": 2}]},
                   "weight_map": {"c": "two.safetensors", "a": "one.safetensors", "b": "one.safetensors"}})");
  const Dataset dataset = load("weights", request_for(folder.path));
  REQUIRE(dataset.layers.size() == 4);
  CHECK(dataset.layers[0].name == "b");  // in the order of bytes
  CHECK(dataset.layers[1].name == "a");
  CHECK(dataset.layers[2].name == "old");
  CHECK(dataset.layers[3].name == "c");
  CHECK(open_weights(folder.path.string()).remarks ==
        std::vector<std::string>{"The index does not name 1 tensor, \"old\", of one.safetensors: read all the same."});
  SourceRequest request = request_for(folder.path);
  request.texts["tensors"] = "^[ac]$";
  CHECK(load("weights", request).layers.size() == 2);
}

TEST_CASE("a folder with one model.safetensors is read, and one without weights is refused") {
  const Folder folder;
  REQUIRE_DATASET_ERROR(open_weights(folder.path.string()), "has neither model.safetensors.index.json nor");
  folder.write("model.safetensors", shard({"w"}));
  CHECK(open_weights(folder.path.string()).tensors.size() == 1);
  REQUIRE_DATASET_ERROR(load("safetensors", request_for(folder.path)), "it is a folder");
}

TEST_CASE("shards without an index are one model if their names count them, and what is missing is said") {
  const Folder folder;
  folder.write("model-00002-of-00003.safetensors", shard({"model.layers.0.mlp.up_proj.weight"}));
  folder.write("model-00003-of-00003.safetensors", shard({"lm_head.weight"}));
  const WeightFiles weights = open_weights(folder.path.string());
  CHECK(weights.tensors.size() == 2);
  CHECK(weights.remarks ==
        std::vector<std::string>{"The model has 3 files, and 1 of them, such as "
                                 "\"model-00001-of-00003.safetensors\", are missing: totals are those "
                                 "of a part."});
  SourceRequest request;
  request.texts["model"] = folder.path.string();
  CHECK(load("model", request).layers.size() == 2);
  folder.write("model-00001-of-00003.safetensors", shard({"a"}));
  CHECK(open_weights(folder.path.string()).remarks.empty());
  CHECK(open_weights(folder.path.string()).tensors.size() == 3);
  folder.write("other-00001-of-00002.safetensors", shard({"b"}));
  REQUIRE_DATASET_ERROR(open_weights(folder.path.string()), "itself: \"model-00001-of-00003.safetensors\".");
}

TEST_CASE("a folder without a model names a file of weights that it has") {
  const Folder folder;
  folder.write("pytorch_model.bin", "PK");
  REQUIRE_DATASET_ERROR(open_weights(folder.path.string()), "a file of another name can be given itself.");
  folder.write("weights.gguf", "GGUF");
  REQUIRE_DATASET_ERROR(open_weights(folder.path.string()), "can be given itself: \"weights.gguf\".");
  folder.write("adapter_model.safetensors", shard({"a"}));
  REQUIRE_DATASET_ERROR(open_weights(folder.path.string()), "can be given itself: \"adapter_model.safetensors\".");
}

TEST_CASE("an index that leads out of its folder, or to what is not there, is refused") {
  const Folder folder;
  const auto answer = [&](const std::string& index, const char* part) {
    folder.write("model.safetensors.index.json", index);
    REQUIRE_DATASET_ERROR(open_weights(folder.path.string()), part);
  };
  for (const std::string name : {"../secret", "/etc/passwd", "..", ".", "", "a/b", "a\\\\b", "x\\u0000y"}) {
    INFO(name);
    answer(R"({"weight_map": {"w": ")" + name + "\"}}", "which is no file of its own folder");
  }
  folder.write("one.safetensors", shard({"a"}));
  answer(R"({"weight_map": {"a": "one.safetensors", "b": "one.safetensors"}})", "it lacks 1 of the 2 tensors");
  answer(R"({"weight_map": {"a": "gone.safetensors"}})", "gone.safetensors\" cannot be read");
  answer(R"({"weight_map": {"a": "model.safetensors.index.json"}})", "is a JSON text and holds no weights");
  fs::create_directory(folder.path / "sub");
  answer(R"({"weight_map": {"a": "sub"}})", "it is a folder");
}

TEST_CASE("a damaged index is refused with the reason") {
  REQUIRE_DATASET_ERROR(parse_weight_index("{\"weight_map\": {\"a\""), "not correct JSON");
  REQUIRE_DATASET_ERROR(parse_weight_index("{}"), "no weight_map");
  REQUIRE_DATASET_ERROR(parse_weight_index("[1]"), "no weight_map");
  REQUIRE_DATASET_ERROR(parse_weight_index(R"({"weight_map": {}})"), "no weight_map");
  REQUIRE_DATASET_ERROR(parse_weight_index(R"({"weight_map": "a"})"), "not an object");
  REQUIRE_DATASET_ERROR(parse_weight_index(R"({"weight_map": {"a": 1}})"), "file of \"a\" is not a text");
  REQUIRE_DATASET_ERROR(parse_weight_index(R"({"weight_map": {"a": ["b"]}})"), "file of \"a\" is not a text");
  REQUIRE_DATASET_ERROR(parse_weight_index(R"({"weight_map": {"a": {"b": "c"}}})"), "file of \"a\" is not a text");
  REQUIRE_DATASET_ERROR(parse_weight_index(R"({"weight_map": {"a": "b", "a": "c"}})"), "tensor \"a\" twice");
  REQUIRE_DATASET_ERROR(parse_weight_index(R"({"weight_map": {"a": "b"}, "weight_map": {"c": "d"}})"), "there twice");
  REQUIRE_DATASET_ERROR(parse_weight_index("{\"weight_map\": {\"" + std::string(5000, 'n') + "\": \"b\"}}"),
                        "a name of 5000 bytes");
  std::string many = "{\"weight_map\": {\"a\": \"b\"";
  for (int i = 0; i < 1100; ++i) many += ", \"" + std::to_string(i) + "\": \"" + std::to_string(i) + "\"";
  REQUIRE_DATASET_ERROR(parse_weight_index(many + "}}"), "more than 1024 files");
  CHECK_THROWS_AS(parse_weight_index(std::string(1 << 20, '[')), DatasetError);
}

TEST_CASE("the content decides how a file is read, and a file of no format says so") {
  const TemporaryFile gguf(to_bytes(GgufFile{{{"w", {4}, kF32, std::string(16, '\0')}}, {}}.bytes()));
  CHECK(open_weights(gguf.path()).format == "gguf");
  const TemporaryFile onnx(to_bytes(onnx_model(onnx_initializer(onnx_tensor("w", {1}, kInt8, proto_bytes(9, "a"))))));
  CHECK(open_weights(onnx.path()).format == "onnx");
  const TemporaryFile container(to_bytes(shard({"w"})));
  CHECK(open_weights(container.path()).format == "safetensors");
  const TemporaryFile npy(to_bytes(npy_file("{'descr': '|i1', 'fortran_order': False, 'shape': (2, 2)}", "abcd")));
  CHECK(open_weights(npy.path()).format == "npy");
  // A MatVANS file of eight layers begins with the byte of an ONNX model's version.
  std::string matvans = u32(8) + u32(0) + u32(1) + std::string("\1\0\0\0", 4);
  for (int i = 0; i < 8; ++i) matvans += u32(1) + u32(1) + u32(0x3f800000) + "\1";
  const TemporaryFile bin(to_bytes(matvans));
  CHECK(open_weights(bin.path()).format == "matvans");
  const TemporaryFile text(to_bytes("just a text, and a long one at that"));
  REQUIRE_DATASET_ERROR(open_weights(text.path()), "neither safetensors nor npy, GGUF or ONNX");
  const TemporaryFile zip(to_bytes(std::string("PK\3\4\0\0", 6)));
  REQUIRE_DATASET_ERROR(open_weights(zip.path()), "is a zip archive, as torch.save, torch.jit and numpy.savez");
  REQUIRE_DATASET_ERROR(load("npy", request_for(container.path())), "does not begin with the npy magic");
}

TEST_CASE("what lies in place of weights is named: pointers, pages, archives, and files that were cut") {
  const auto said = [](std::string_view bytes, const char* extension, const char* sentence) {
    CAPTURE(extension, sentence);
    const TemporaryFile file(to_bytes(bytes), extension);
    REQUIRE_DATASET_ERROR(open_weights(file.path()), sentence);
  };
  for (const char* extension : {"", ".safetensors", ".gguf", ".npy", ".onnx"}) {
    said("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", extension, "`git lfs pull` does it");
    said("<!DOCTYPE html><html></html>", extension, "is a web page, perhaps a server's answer");
    said(R"({"error": "Repository not found"})", extension, "is a JSON text and holds no weights");
    said("\x1F\x8B\x08 and so on, for a while", extension, "is compressed by gzip");
    said("\x80\x04\x95 and so on, for a while", extension, "is a pickle of Python");
    said("tjgg\3 and so on, for a while", extension, "convert it to GGUF");
    said(std::string_view("\x1C\0\0\0TFL3 and so on", 18), extension, "is a model of TensorFlow Lite");
    said(std::string(257, 'a') + "ustar", extension, "is a tar archive");
    if (extension != std::string(".onnx")) said("", extension, "is empty");
  }
  // What its name promises is said to be damaged, even where the magic or the header is.
  const std::string whole = safetensors_file({{"w", "I8", "[2, 2]", "abcd"}});
  said(std::string_view(whole).substr(0, 20), ".safetensors", "Not a valid safetensors file: the header has");
  said(std::string("\x7B\0\0\0\0\0\0\0{\"a\"", 12), ".safetensors", "Not a valid safetensors file: the header has");
  said("GGUG and so on, for a while", ".gguf", "Not a readable GGUF file");
  said("NUMPY and so on, for a while", ".npy", "Not a readable npy file");
}

TEST_CASE("weights in f8 are taken with the other floats of a checkpoint") {
  const TemporaryFile file(to_bytes(safetensors_file({{"q", "F8_E4M3", "[2, 2]", "abcd"},
                                                      {"embedding", "BF16", "[1, 2]", "abcd"},
                                                      {"q_scale", "F32", "[1]", "abcd"}})));
  const Dataset dataset = load("weights", request_for(file.path()));
  REQUIRE(dataset.layers.size() == 2);
  CHECK(dataset.layers[0].type == ElementType::f8_e4m3);
}

TEST_CASE("floats are rounded to bf16 where asked") {
  const auto f32 = [](float value) { return u32(std::bit_cast<uint32_t>(value)); };
  const TemporaryFile file(to_bytes(safetensors_file({{"f", "F32", "[1, 2]", f32(1.00390625f) + f32(-3)},
                                                      {"b", "BF16", "[1, 1]", "ab"},
                                                      {"i", "I32", "[1, 1]", "abcd"}})));
  SourceRequest request = request_for(file.path());
  request.texts["type"] = "bf16";
  const Dataset dataset = load("weights", request);
  REQUIRE(dataset.layers.size() == 2);
  CHECK(dataset.layers[0].type == ElementType::bf16);
  CHECK(dataset.layers[0].elements == to_bytes(std::string("\x80\x3F\x40\xC0")));  // ties to even
  CHECK(dataset.layers[0].content_hash == content_hash(dataset.layers[0].view()));
  CHECK(dataset.layers[1].elements == to_bytes("ab"));
  request.texts["tensors"] = "i";
  REQUIRE_DATASET_ERROR(load("weights", request), "elements of type i32, which are not rounded to bf16");
  request.texts["type"] = "f8";
  REQUIRE_DATASET_ERROR(load("weights", request), "rounds floats to bf16 only, not to \"f8\"");
}

TEST_CASE("all parts of a GGUF model are read, whichever is named, and a missing one is told of") {
  const auto part = [](uint64_t number, const std::string& tensor) {
    const auto pair = [](const char* key, uint64_t value) { return gguf_text(key) + u32(2) + little(value, 2); };
    return GgufFile{{{tensor, {2, 2}, kF32, std::string(16, '\1')}}, {pair("split.no", number), pair("split.count", 3)}}
        .bytes();
  };
  const Folder folder;
  folder.write("m-00001-of-00003.gguf", part(0, "a"));
  folder.write("m-00002-of-00003.gguf", part(1, "b"));
  folder.write("m-00003-of-00003.gguf", part(2, "c"));
  const std::string second = (folder.path / "m-00002-of-00003.gguf").string();
  const WeightFiles all = open_weights(second);
  REQUIRE(all.tensors.size() == 3);
  CHECK(all.tensors[0].name == "a");
  CHECK(all.tensors[2].name == "c");
  CHECK(all.remarks.empty());
  fs::remove(folder.path / "m-00003-of-00003.gguf");
  const WeightFiles some = open_weights(second);
  CHECK(some.tensors.size() == 2);
  CHECK(some.remarks ==
        std::vector<std::string>{"The model has 3 files, and 1 of them, such as "
                                 "\"m-00003-of-00003.gguf\", are missing: totals are those of a part."});
  folder.write("renamed.gguf", part(1, "b"));
  CHECK(
      open_weights((folder.path / "renamed.gguf").string()).remarks.at(0).starts_with("The model has 3 files, and 2"));
}

TEST_CASE("files and tensors that a stale index hides are told of") {
  const Folder folder;
  folder.write("one.safetensors", shard({"a", "b"}));
  folder.write("two.safetensors", shard({"b"}));
  folder.write("three.safetensors", shard({"c"}));
  folder.write("model.safetensors.index.json", R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})");
  const WeightFiles weights = open_weights(folder.path.string());
  CHECK(weights.tensors.size() == 2);
  CHECK(weights.remarks ==
        std::vector<std::string>{
            "Left out of one.safetensors: 1 tensor, \"b\", for which the index names another file.",
            "The folder has 1 other file, \"three.safetensors\", of weights that are no part of its model as it is "
            "described: not read."});
  folder.write("m-00002-of-00003.safetensors", shard({"b"}));
  CHECK(open_weights((folder.path / "m-00002-of-00003.safetensors").string())
            .remarks.at(0)
            .find("one of several files") != std::string::npos);
}

TEST_CASE("an index with a zero byte is refused, as other JSON with one is") {
  const std::string index = R"({"weight_map": {"a": "b"}})";
  REQUIRE_DATASET_ERROR(parse_weight_index(index + std::string("\0", 1) + "{}"), "a zero byte at byte 26");
}

TEST_CASE("a file of several element types says which, and gives those of one") {
  const TemporaryFile file(to_bytes(safetensors_file({{"q", "F8_E4M3", "[2, 2]", "abcd"},
                                                      {"head", "BF16", "[3, 2]", "abcdefghijkl"},
                                                      {"table", "U8", "[1, 1]", "a"}})));
  SourceRequest request = request_for(file.path());
  request.texts["tensors"] = ".";
  const SourceFacts facts = find_source("weights")->check(request);
  REQUIRE(facts.types.size() == 3);
  CHECK(facts.types[1].type == ElementType::bf16);
  CHECK(facts.types[1].bytes == 12);
  request.texts["elements"] = "bf16";
  REQUIRE(load("weights", request).layers.size() == 1);
  CHECK(load("weights", request).layers[0].name == "head");
  request.texts["elements"] = "f64";
  REQUIRE_DATASET_ERROR(load("weights", request), "No matrix that was asked for has elements of type \"f64\"");
}

TEST_CASE("a table of bytes does not keep the floats of a model from being read") {
  const TemporaryFile file(
      to_bytes(safetensors_file({{"q", "F32", "[8, 8]", std::string(256, 'a')}, {"table", "U8", "[1, 3]", "abc"}})));
  CHECK(load("weights", request_for(file.path())).layers.at(0).name == "q");
  CHECK(find_source("weights")->check(request_for(file.path())).remarks.at(0).find("\"table\" of U8") !=
        std::string::npos);
  const TemporaryFile bytes(
      to_bytes(safetensors_file({{"q", "I8", "[8, 8]", std::string(64, 'a')}, {"table", "U8", "[1, 4]", "abcd"}})));
  const Dataset both = load("weights", request_for(bytes.path()));
  REQUIRE(both.layers.size() == 2);
  CHECK(both.layers[1].type == ElementType::i8);
  CHECK(both.unsigned_layers == 1);
}
