// Claims about the ONNX reader; messages are put together from the wire format's description.
#include "datasets/files/onnx.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "datasets/files/protobuf.h"
#include "datasets/files/weight_files.h"
#include "datasets/inspect.h"
#include "datasets/layers/unpack.h"
#include "tests/datasets/temporary_file.h"
#include "tests/weight_files.h"

using namespace ecmv::datasets;
using namespace ecmv::tests;

namespace {

std::vector<TensorView> parsed(std::span<const std::byte> bytes) {
  std::vector<FileBytes> files;
  return parse_onnx(bytes, "", files);
}

enum Field : uint32_t { kFloatData = 4, kInt32Data = 5, kInt64Data = 7, kRawData = 9, kUint64Data = 11 };

std::string packed(const std::vector<int64_t>& numbers) {
  std::string run;
  for (const int64_t number : numbers) run += varint(static_cast<uint64_t>(number));
  return run;
}

std::vector<std::byte> model_of(const std::string& tensor) { return to_bytes(onnx_model(onnx_initializer(tensor))); }

// The elements of the only tensor, as bytes.
std::string unpacked(const std::string& tensor) {
  const auto file = model_of(tensor);
  const auto tensors = parsed(file);
  REQUIRE(tensors.size() == 1);
  std::vector<std::byte> room;
  const TensorView view = unpack(tensors[0], room);
  return {reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()};
}

void refused(const std::string& tensor, const char* part) {
  const auto file = model_of(tensor);
  REQUIRE_DATASET_ERROR(parsed(file), part);
}

}  // namespace

TEST_CASE("ONNX initialisers with raw data are views of the file") {
  const auto file =
      to_bytes(onnx_model(onnx_initializer(onnx_tensor("w", {2, 3}, kInt8, proto_bytes(kRawData, "abcdef"))) +
                          onnx_initializer(onnx_tensor("s", {}, kFloat, proto_bytes(kRawData, u32(1)))) +
                          onnx_initializer(proto_bytes(1, varint(1) + varint(4)) + proto_number(2, kBfloat) +
                                           proto_bytes(kRawData, u64(7)))));
  CHECK(looks_like_onnx(file));
  const auto tensors = parsed(file);
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "w");
  CHECK(tensors[0].dtype == "I8");
  CHECK(tensors[0].shape == std::vector<int64_t>{2, 3});
  CHECK(tensors[0].bytes[5] == std::byte{'f'});
  CHECK(tensors[1].shape.empty());
  CHECK(tensors[1].dtype == "F32");
  CHECK(tensors[2].dtype == "BF16");  // sizes packed into one field
  CHECK(tensors[2].shape == std::vector<int64_t>{1, 4});
}

TEST_CASE("numbers in the fields of an ONNX tensor's type are read as its elements") {
  CHECK(unpacked(onnx_tensor("w", {3}, kInt8, proto_bytes(kInt32Data, packed({-128, 5, 127})))) == "\x80\x05\x7F");
  CHECK(unpacked(onnx_tensor("w", {2}, kUint8, proto_bytes(kInt32Data, packed({255, 0})))) == std::string("\xFF\0", 2));
  CHECK(unpacked(onnx_tensor("w", {2}, kHalf, proto_bytes(kInt32Data, packed({0xFFFF, 0x3C00})))) ==
        little(0x3C00FFFF, 4));
  CHECK(unpacked(onnx_tensor("w", {2}, kInt32, proto_bytes(kInt32Data, packed({-2, 0xFFFFFFFE})))) ==
        little(0xFFFFFFFEFFFFFFFE, 8));
  CHECK(unpacked(onnx_tensor("w", {1}, kInt64, proto_bytes(kInt64Data, packed({-2})))) ==
        u64(static_cast<uint64_t>(-2)));
  CHECK(unpacked(onnx_tensor("w", {2}, kFloat, proto_bytes(kFloatData, u32(1) + u32(2)))) == u32(1) + u32(2));
  CHECK(unpacked(onnx_tensor("w", {0, 4}, kFloat, "")).empty());
}

TEST_CASE("constants of nodes and initialisers of inner graphs are read, with the name of what they give") {
  const std::string constant =
      onnx_node("seven", proto_number(1, 2) + proto_number(2, kInt8) + proto_bytes(kRawData, "ab"));
  const std::string inner = onnx_initializer(onnx_tensor("deep", {1, 1}, kInt8, proto_bytes(kRawData, "x")));
  const auto file = to_bytes(onnx_model(constant + onnx_node("branch", inner, 6)));
  const auto tensors = parsed(file);
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].name == "seven");
  CHECK(tensors[0].shape == std::vector<int64_t>{2});
  CHECK(tensors[1].name == "deep");
}

TEST_CASE("types that ONNX alone has are named, and no matrix of them is given") {
  const auto file = model_of(onnx_tensor("texts", {1, 1}, kString, proto_bytes(6, "a text")));
  CHECK(parsed(file)[0].dtype == "STRING");
  const TemporaryFile stored(file);
  SourceRequest request;
  request.texts["file"] = stored.path();
  REQUIRE_DATASET_ERROR(load("weights", request), "elements of type STRING, which are not read");
}

TEST_CASE("an unreadable ONNX file is refused with the reason") {
  refused(onnx_tensor("w", {2}, kInt8, proto_bytes(kRawData, "a")), "\"w\" of type I8 and shape [2] has 2 elements");
  refused(onnx_tensor("w", {2}, kInt8, proto_bytes(kInt32Data, packed({1}))), "another number of them");
  refused(onnx_tensor("w", {2}, kInt8, ""), "another number of them");
  refused(onnx_tensor("w", {1}, kInt8, proto_bytes(kInt32Data, packed({128}))), "the number 128, which that type");
  refused(onnx_tensor("w", {1}, kUint8, proto_bytes(kInt32Data, packed({-1}))), "the number -1, which that type");
  refused(onnx_tensor("w", {1}, kInt8, proto_bytes(kInt32Data, "\xFF")), "numbers of the tensor \"w\" are cut");
  refused(onnx_tensor("w", {1}, kInt8, proto_bytes(kInt32Data, std::string(11, '\xFF'))), "are cut");
  refused(onnx_tensor("w", {1}, kInt8, proto_number(kInt32Data, 1)), "one by one");
  refused(onnx_tensor("w", {1}, kInt8, proto_bytes(kInt64Data, packed({1}))), "a field of another type");
  refused(onnx_tensor("w", {1}, kInt8, proto_bytes(kInt32Data, "a") + proto_bytes(kRawData, "a")), "or twice");
  refused(onnx_tensor("w", {1}, kInt8, proto_bytes(kRawData, "a") + proto_bytes(kRawData, "a")), "raw_data twice");
  refused(onnx_tensor("w", {-1}, kInt8, proto_bytes(kRawData, "a")), "negative size");
  refused(onnx_tensor("w", {1ll << 40, 1ll << 40}, kInt8, proto_bytes(kRawData, "a")), "overflows");
  refused(onnx_tensor("w", std::vector<int64_t>(17, 1), kInt8, proto_bytes(kRawData, "a")), "more than 16 dimensions");
  refused(onnx_tensor("w", {1}, kInt8, proto_bytes(3, "")), "segments");
  refused(onnx_tensor("w", {1}, kInt8, proto_bytes(13, proto_bytes(1, "location") + proto_bytes(2, "w.bin"))),
          "w.bin\" cannot be read");
  refused(onnx_tensor("w", {1}, kInt8, proto_number(14, 1)), "no file of the model's folder");
  refused(onnx_tensor(std::string(5000, 'n'), {1}, kInt8, ""), "a name of 5000 bytes");
  refused("\x0B\x0C", "no protobuf message");  // a group
  refused(proto_bytes(kRawData, "abc").substr(0, 3), "no protobuf message");
  std::string deep = onnx_initializer(onnx_tensor("w", {1}, kInt8, proto_bytes(kRawData, "a")));
  for (int i = 0; i < 20; ++i) deep = onnx_node("x", deep, 6);
  REQUIRE_DATASET_ERROR(parsed(to_bytes(onnx_model(deep))), "graphs are nested too deeply");
}

TEST_CASE("types that nobody knows, floats of six bits and sparse tensors are named and sized, and the rest is read") {
  const std::string odd = onnx_tensor("odd", {3}, 99, proto_bytes(kRawData, "abcde"));
  const std::string six = onnx_tensor("six", {4}, 27, proto_bytes(kInt32Data, packed({1, 63, 0, 5})));
  const std::string raw_six = onnx_tensor("raw six", {6}, 28, proto_bytes(kRawData, "abcde"));
  const std::string values = onnx_tensor("sparse", {2}, kFloat, proto_bytes(kRawData, u64(1)));
  const std::string places = onnx_tensor("", {2}, kInt64, proto_bytes(kRawData, u64(1) + u64(5)));
  const std::string sparse = proto_bytes(1, values) + proto_bytes(2, places) + proto_number(3, 4) + proto_number(3, 8);
  const std::string plain = onnx_tensor("w", {2, 2}, kInt8, proto_bytes(kRawData, "abcd"));
  const auto file = to_bytes(onnx_model(onnx_initializer(odd) + onnx_initializer(six) + onnx_initializer(raw_six) +
                                        proto_bytes(15, sparse) + onnx_initializer(plain)));
  const auto tensors = parsed(file);
  REQUIRE(tensors.size() == 5);
  CHECK(tensors[0].dtype == "ONNX_TYPE_99");
  CHECK(tensors[0].bytes.size() == 5);
  CHECK(tensors[1].dtype == "F6_E2M3");
  CHECK(summarize(tensors[1]).stored_bytes == 3);
  CHECK(summarize(tensors[1]).elements == 4);
  CHECK(summarize(tensors[2]).stored_bytes == 5);
  CHECK(tensors[3].name == "sparse");
  CHECK(tensors[3].dtype == "SPARSE");
  CHECK(tensors[3].shape == std::vector<int64_t>{4, 8});
  CHECK(tensors[3].bytes.size() == sparse.size());
  CHECK(tensors[4].dtype == "I8");
  const TemporaryFile stored(file);
  SourceRequest request;
  request.texts["file"] = stored.path();
  CHECK(load("weights", request).layers.size() == 1);
}

namespace {

std::string onnx_op(const std::string& op, const std::vector<std::string>& inputs,
                    const std::vector<std::pair<std::string, int64_t>>& numbers = {}) {
  std::string node;
  for (const std::string& input : inputs) node += proto_bytes(1, input);
  node += proto_bytes(2, "out") + proto_bytes(4, op);
  for (const auto& [name, number] : numbers)
    node += proto_bytes(5, proto_bytes(1, name) + proto_number(3, static_cast<uint64_t>(number)) + proto_number(20, 2));
  return proto_bytes(1, node);
}

}  // namespace

TEST_CASE("MatMulNBits' blocks are codes of outputs by inputs, with scales and zero points beside them") {
  std::string codes;
  for (int i = 0; i < 4 * 2 * 16; ++i) codes += static_cast<char>(i * 37);
  const std::string weights =
      onnx_initializer(onnx_tensor("B", {4, 2, 16}, kUint8, proto_bytes(kRawData, codes))) +
      onnx_initializer(onnx_tensor("s", {8}, kFloat, proto_bytes(kRawData, std::string(32, '\0')))) +
      onnx_initializer(onnx_tensor("z", {4}, kUint8, proto_bytes(kRawData, "abcd")));
  const auto node = [&](int64_t inputs, int64_t bits) {
    return onnx_op("MatMulNBits", {"x", "B", "s", "z"}, {{"K", inputs}, {"N", 4}, {"bits", bits}, {"block_size", 32}});
  };
  const TemporaryFile file(to_bytes(onnx_model(weights + node(64, 4))));
  const WeightFiles weights_file = open_weights(file.path());
  const auto& tensors = weights_file.tensors;
  CHECK(tensors[0].dtype == "UINT4");
  CHECK(tensors[0].shape == std::vector<int64_t>{4, 64});
  CHECK(bytes_beside(tensors[0]) == 36);
  CHECK((tensors[1].is_beside && tensors[2].is_beside));
  std::vector<std::byte> room;
  const TensorView unpacked_codes = unpack(tensors[0], room);
  CHECK(int(unpacked_codes.bytes[33]) == (static_cast<unsigned char>(codes[16]) >> 4));

  const TemporaryFile eight(to_bytes(onnx_model(weights + node(30, 8)))),
      cut(to_bytes(onnx_model(weights + node(50, 4)))), wrong(to_bytes(onnx_model(weights + node(128, 4))));
  CHECK(open_weights(eight.path()).tensors[0].shape == std::vector<int64_t>{4, 32});  // two inputs fill the block up
  CHECK(open_weights(cut.path()).tensors[0].shape == std::vector<int64_t>{4, 64});
  CHECK(open_weights(wrong.path()).tensors[0].dtype == "U8");
}

TEST_CASE("nodes say which tensors are scales and zero points, whatever their names, and each counts once") {
  const auto initializer = [](const char* name, const std::vector<int64_t>& shape, uint64_t type, size_t bytes) {
    return onnx_initializer(onnx_tensor(name, shape, type, proto_bytes(kRawData, std::string(bytes, 'a'))));
  };
  const TemporaryFile file(to_bytes(onnx_model(
      initializer("w", {4, 8}, kInt8, 32) + initializer("v", {4, 8}, kInt8, 32) + initializer("a", {1, 4}, kFloat, 16) +
      initializer("b", {4}, kInt8, 4) + onnx_op("DequantizeLinear", {"w", "a", "b"}) +
      onnx_op("QLinearMatMul", {"x", "xs", "xz", "v", "a", "b", "ys", "yz"}) + onnx_op("Other", {"w", "v"}))));
  const WeightFiles weights = open_weights(file.path());
  const auto& tensors = weights.tensors;
  CHECK(bytes_beside(tensors[0]) == 20);
  CHECK(bytes_beside(tensors[1]) == 0);
  CHECK((tensors[2].is_beside && tensors[3].is_beside));
  SourceRequest request;
  request.texts["file"] = file.path();
  CHECK(load("weights", request).layers.size() == 2);
}

TEST_CASE("a cut ONNX file is never taken for a whole one") {
  const std::string whole = onnx_model(onnx_initializer(onnx_tensor("w", {3}, kInt8, proto_bytes(kRawData, "abc"))));
  for (size_t length = 11; length < whole.size(); ++length) {
    const auto cut = to_bytes(whole.substr(0, length));
    CHECK_FALSE(looks_like_onnx(cut));
    CHECK_THROWS_AS(parsed(cut), DatasetError);
  }
}

TEST_CASE("elements of less than 8 bits have the right bytes, raw or in int32_data, and odd numbers of them") {
  constexpr uint32_t kUint4 = 21, kInt4 = 22, kFloat4 = 23, kInt2 = 26, kFnuz = 18;
  const auto numbers = [](std::initializer_list<int> values) {
    std::string out;
    for (const int value : values) out += static_cast<char>(value);
    return out;
  };
  CHECK(unpacked(onnx_tensor("w", {3}, kInt4, proto_bytes(kRawData, "\x8F\x07"))) == numbers({-1, -8, 7}));
  CHECK(unpacked(onnx_tensor("w", {3}, kInt4, proto_bytes(kInt32Data, packed({0x8F, 7})))) == numbers({-1, -8, 7}));
  CHECK(unpacked(onnx_tensor("w", {2}, kInt4, proto_bytes(kInt32Data, packed({-113})))) == numbers({-1, -8}));
  CHECK(unpacked(onnx_tensor("w", {2}, kUint4, proto_bytes(kInt32Data, packed({0x8F})))) == numbers({15, 8}));
  CHECK(unpacked(onnx_tensor("w", {2}, kFloat4, proto_bytes(kInt32Data, packed({0x7F})))) == numbers({-12, 12}));
  CHECK(unpacked(onnx_tensor("w", {4}, kInt2, proto_bytes(kInt32Data, packed({0xE4})))) == numbers({0, 1, -2, -1}));
  CHECK(unpacked(onnx_tensor("w", {2}, kFnuz, proto_bytes(kInt32Data, packed({0x80, 1})))) == numbers({-128, 1}));
  refused(onnx_tensor("w", {4}, kInt4, proto_bytes(kInt32Data, packed({1, 2, 3, 4}))), "another number of them");
  refused(onnx_tensor("w", {2}, kUint4, proto_bytes(kInt32Data, packed({256}))), "the number 256, which that type");
  const auto file =
      model_of(onnx_tensor("w", {64, 96}, kUint4, proto_bytes(kInt32Data, packed(std::vector<int64_t>(3072, 0x5A)))));
  const TensorSummary summary = summarize(parsed(file)[0]);
  CHECK(summary.stored_bytes == 3072);
  CHECK(summary.elements == 6144);
  CHECK(summary.entropy_bits.value() == 1);
}

TEST_CASE("constants of a model's functions are tensors, too") {
  const std::string tensor = onnx_tensor("", {2}, kInt8, proto_bytes(kRawData, "ab"));
  // A node of a function is its field 7, of a graph its field 1.
  const std::string node = onnx_node("c", tensor);
  ProtobufReader reader(std::as_bytes(std::span(node)));
  const std::span<const std::byte> inner = reader.next()->run;
  const std::string function =
      proto_bytes(1, "f") + proto_bytes(7, {reinterpret_cast<const char*>(inner.data()), inner.size()});
  const auto file = to_bytes(onnx_model("") + proto_bytes(25, function));
  const auto tensors = parsed(file);
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].name == "c");
  CHECK(tensors[0].bytes.size() == 2);
}

TEST_CASE("tensors in other files of the model's folder are read, and no others") {
  namespace fs = std::filesystem;
  const TemporaryFile outside(to_bytes("secret"));
  const fs::path folder = outside.path() + ".onnx_folder";
  fs::create_directories(folder / "data");
  std::ofstream(folder / "data" / "w.bin") << "0123456789";
  fs::create_symlink(outside.path(), folder / "link.bin");
  const auto at = [](const std::string& location, const std::string& offset, const std::string& length) {
    const auto entry = [](const std::string& key, const std::string& value) {
      return value.empty() ? "" : proto_bytes(13, proto_bytes(1, key) + proto_bytes(2, value));
    };
    return model_of(onnx_tensor(
        "w", {4}, kInt8,
        entry("location", location) + entry("offset", offset) + entry("length", length) + proto_number(14, 1)));
  };
  const auto read = [&](const std::vector<std::byte>& model) {
    std::vector<FileBytes> files;
    const TensorView tensor = parse_onnx(model, folder, files).front();
    return std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  };
  CHECK(read(at("data/w.bin", "3", "4")) == "3456");
  CHECK(read(at("data/w.bin", "6", "")) == "6789");
  CHECK(read(at("./data/../data/w.bin", "0", "4")) == "0123");
  const char* const kElsewhere = "which is no file of the model's folder";
  for (const std::string& location : {std::string("../") + fs::path(outside.path()).filename().string(), outside.path(),
                                      std::string("link.bin"), std::string("."), std::string("..")})
    REQUIRE_DATASET_ERROR(read(at(location, "0", "4")), kElsewhere);
  REQUIRE_DATASET_ERROR(read(at("data/w.bin", "8", "4")), "beyond the end of");
  REQUIRE_DATASET_ERROR(read(at("data/w.bin", "18446744073709551615", "4")), "beyond the end of");
  REQUIRE_DATASET_ERROR(read(at("data/w.bin", "4294967296", "4")), "beyond the end of");
  REQUIRE_DATASET_ERROR(read(at("data/w.bin", "-1", "4")), "which is no number");
  REQUIRE_DATASET_ERROR(read(at("data/w.bin", "0", "3")), "another number of them");
  REQUIRE_DATASET_ERROR(read(at("data/gone.bin", "0", "4")), "cannot be read");
  fs::remove_all(folder);
}
