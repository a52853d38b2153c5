// Claims about the safetensors reader, writer and source. Bad headers are written out as text.
#include <random>

#include "datasets/files/safetensors.h"
#include "datasets/inspect.h"
#include "tests/datasets/temporary_file.h"

using namespace ecmv::datasets;
using namespace ecmv::tests;

namespace {

// A container with this header and `data_bytes` zero bytes of data.
std::vector<std::byte> container(std::string_view header, size_t data_bytes) {
  std::vector<std::byte> file(8);
  for (size_t i = 0; i < 8; ++i) file[i] = std::byte(uint64_t(header.size()) >> (8 * i));
  const auto text = to_bytes(header);
  file.insert(file.end(), text.begin(), text.end());
  file.resize(file.size() + data_bytes);
  return file;
}

Safetensors parse(std::string_view header, size_t data_bytes) {
  return parse_safetensors(container(header, data_bytes));
}

SourceRequest file_request(const std::string& path, const std::string& tensors = "") {
  SourceRequest request;
  request.texts["file"] = path;
  if (!tensors.empty()) request.texts["tensors"] = tensors;
  return request;
}

}  // namespace

TEST_CASE("what the safetensors writer writes the reader reads") {
  std::vector<std::byte> data(64);
  for (size_t i = 0; i < data.size(); ++i) data[i] = std::byte(i);
  const std::span<const std::byte> bytes(data);
  const std::vector<TensorView> tensors{{"z", "I8", {2, 3}, bytes.first(6)},
                                        {"a \"quoted\" \u00e9", "F32", {2}, bytes.subspan(6, 8)},
                                        {"none", "BF16", {0, 7}, {}},
                                        {"scalar", "F64", {}, bytes.subspan(20, 8)},
                                        {"half bytes", "F4", {4}, bytes.subspan(30, 2)},
                                        {"six bits", "F6_E2M3", {4}, bytes.subspan(32, 3)}};
  const std::map<std::string, std::string> metadata{{"format", "pt"}, {"made", "by a test"}};
  const auto file = write_safetensors(tensors, metadata);
  CHECK(uint8_t(file[0]) % 8 == 0);
  CHECK(looks_like_safetensors(file));
  const Safetensors read = parse_safetensors(file);
  CHECK(read.metadata == metadata);
  REQUIRE(read.tensors.size() == tensors.size());
  for (const TensorView& tensor : tensors) {
    const TensorView* same = read.find(tensor.name);
    REQUIRE(same != nullptr);
    CHECK(same->dtype == tensor.dtype);
    CHECK(same->shape == tensor.shape);
    CHECK(std::equal(same->bytes.begin(), same->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
  }
  CHECK(read.tensors.front().name == "z");
  CHECK(read.find("other") == nullptr);
  CHECK(write_safetensors(tensors, metadata) == file);
  CHECK(parse_safetensors(write_safetensors({})).tensors.empty());
}

TEST_CASE("the safetensors writer refuses what the reader would refuse") {
  const std::vector<std::byte> data(4);
  const TensorView good{"w", "I8", {4}, data};
  REQUIRE_DATASET_ERROR(write_safetensors(std::vector<TensorView>{good, good}), "another tensor named \"w\"");
  REQUIRE_DATASET_ERROR(write_safetensors(std::vector<TensorView>{{"__metadata__", "I8", {4}, data}}), "__metadata__");
  REQUIRE_DATASET_ERROR(write_safetensors(std::vector<TensorView>{{"w", "I8", {5}, data}}), "takes 5 bytes, not 4");
  REQUIRE_DATASET_ERROR(write_safetensors(std::vector<TensorView>{{"w", "int8", {4}, data}}), "unknown dtype");
  REQUIRE_DATASET_ERROR(write_safetensors(std::vector<TensorView>{{"\xff", "I8", {4}, data}}), "UTF-8");
}

TEST_CASE("a correct safetensors header is read in any order of its tensors") {
  const auto file = container(
      R"({"b":{"dtype":"I8","shape":[2,2],"data_offsets":[8,12]},"a":{"data_offsets":[0,8],"dtype":"F32","shape":[2]},)"
      R"("e":{"dtype":"I8","shape":[0],"data_offsets":[8,8]},"__metadata__":{"k":"v"}}  )",
      12);
  const Safetensors read = parse_safetensors(file);
  REQUIRE(read.tensors.size() == 3);
  CHECK(read.tensors[0].name == "a");
  CHECK(read.tensors[1].name == "e");
  CHECK(read.tensors[2].name == "b");
  CHECK(read.tensors[2].bytes.data() == file.data() + file.size() - 4);
  CHECK(read.metadata.at("k") == "v");
}

TEST_CASE("a malformed safetensors container is refused with the reason") {
  const std::string good = R"("a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]})";
  CHECK(parse("{" + good + "}", 4).tensors.size() == 1);

  REQUIRE_DATASET_ERROR(parse_safetensors({}), "less than the 8");
  REQUIRE_DATASET_ERROR(parse_safetensors(to_bytes("1234567")), "has 7 bytes");
  REQUIRE_DATASET_ERROR(parse_safetensors(to_bytes(std::string("\x05\0\0\0\0\0\0\0{}", 10))), "only 2 follow");
  REQUIRE_DATASET_ERROR(parse_safetensors(std::vector<std::byte>(16, std::byte{0xff})), "over the limit");
  REQUIRE_DATASET_ERROR(parse("", 0), "begin with '{'");
  REQUIRE_DATASET_ERROR(parse("  \n", 0), "begin with '{'");
  REQUIRE_DATASET_ERROR(parse("\xEF\xBB\xBF{}", 0), "begin with '{'");
  REQUIRE_DATASET_ERROR(parse("[]", 0), "begin with '{'");
  REQUIRE_DATASET_ERROR(parse("{", 0), "not correct JSON");
  REQUIRE_DATASET_ERROR(parse("{}{}", 0), "not correct JSON");
  REQUIRE_DATASET_ERROR(parse("{\"\xff\":1}", 0), "not correct JSON");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","dtype":"I8","shape":[4],"data_offsets":[0,4]}})", 4),
                        "appears twice");
  REQUIRE_DATASET_ERROR(parse(R"({"__metadata__":{"k":"v"},"__metadata__":null})", 0), "appears twice");
  REQUIRE_DATASET_ERROR(parse("{\"a\":" + std::string(100'000, '['), 0), "nested too deeply");

  REQUIRE_DATASET_ERROR(parse(R"({"a":1})", 0), "not described by an object");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"shape":[4],"data_offsets":[0,4]}})", 4), "has no dtype");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","data_offsets":[0,4]}})", 4), "has no shape");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","shape":[4]}})", 4), "has no data_offsets");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":8,"shape":[4],"data_offsets":[0,4]}})", 4), "not a text");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","shape":4,"data_offsets":[0,4]}})", 4), "not a list");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","shape":[-4],"data_offsets":[0,4]}})", 4), "contains -4");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","shape":[4.0],"data_offsets":[0,4]}})", 4), "contains 4.0");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","shape":["4"],"data_offsets":[0,4]}})", 4), "not an integer");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","shape":[99999999999999999999],"data_offsets":[0,4]}})", 4),
                        "not an integer");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","shape":[9223372036854775808],"data_offsets":[0,4]}})", 4),
                        "2^63 - 1");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
                        "overflows");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,0]}})", 0),
                        "overflows");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1), "whole bytes");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,4]}})", 4), "takes 16 bytes");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4,8]}})", 4), "two numbers");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[4,0]}})", 4), "before they begin");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[-4,0]}})", 4), "contains -4");

  REQUIRE_DATASET_ERROR(parse("{" + good + "}", 3), "\"a\" ends at byte 4");
  REQUIRE_DATASET_ERROR(parse("{" + good + "}", 5), "1 bytes follow the last tensor");
  REQUIRE_DATASET_ERROR(parse("{}", 1), "follow the last tensor");
  REQUIRE_DATASET_ERROR(parse("{" + good + R"(,"b":{"dtype":"I8","shape":[4],"data_offsets":[2,6]}})", 6),
                        "\"b\" overlaps");
  REQUIRE_DATASET_ERROR(parse("{" + good + R"(,"b":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})", 4), "overlaps");
  REQUIRE_DATASET_ERROR(parse("{" + good + R"(,"b":{"dtype":"I8","shape":[4],"data_offsets":[6,10]}})", 10),
                        "hole of 2 bytes before the tensor \"b\"");
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[1,5]}})", 5), "hole of 1 bytes");
  REQUIRE_DATASET_ERROR(parse(R"({"__metadata__":3})", 0), "__metadata__ is not an object");
  REQUIRE_DATASET_ERROR(parse(R"({"__metadata__":{"k":1}})", 0), "\"k\" in __metadata__ is not a text");
}

TEST_CASE("no damage to a safetensors container makes the reader read outside it") {
  const std::vector<std::byte> data(12);
  const auto file = write_safetensors(std::vector<TensorView>{{"a", "I8", {2, 2}, std::span(data).first(4)},
                                                              {"b", "F32", {2}, std::span(data).last(8)}});
  std::mt19937 random(1);
  int accepted = 0;
  for (int trial = 0; trial < 20'000; ++trial) {
    auto damaged = file;
    for (unsigned i = 0; i <= random() % 3; ++i) damaged[random() % damaged.size()] = std::byte(random());
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    try {
      for (const TensorView& tensor : parse_safetensors(damaged).tensors) {
        REQUIRE((tensor.bytes.empty() ||
                 (tensor.bytes.data() >= damaged.data() && &tensor.bytes.back() <= &damaged.back())));
      }
      ++accepted;
    } catch (const DatasetError&) {
    }
  }
  CHECK(accepted < 10'000);
}

TEST_CASE("kernels of convolutions are one matrix, as convolutions multiply them") {
  const auto expect = [](const std::vector<int64_t>& tensor, int64_t matrices, Shape shape) {
    CAPTURE(shape_text(tensor));
    const MatrixStack found = matrices_of("weight", tensor);
    CHECK(found.matrices == matrices);
    CHECK(found.shape == shape);
  };
  expect({5, 3}, 1, {5, 3});
  expect({4, 6, 8}, 4, {6, 8});      // experts
  expect({64, 32, 3}, 1, {64, 96});  // [outputs, inputs, width]
  expect({258, 1, 256}, 1, {258, 256});
  expect({256, 128, 11}, 1, {256, 1408});  // as wide as no matrix is
  expect({64, 32, 10}, 1, {64, 320});
  expect({4, 6, 65}, 4, {6, 65});
  CHECK(matrices_of("feature_extractor.Conv_0.weight", {64, 32, 16}).shape == Shape{64, 512});
  expect({16, 3, 5, 7}, 1, {16, 105});
  expect({16, 3, 2, 14, 14}, 1, {16, 1176});
  expect({0, 1 << 30, 1 << 30, 1 << 30}, 1, {0, 0});

  std::vector<std::byte> data(36);
  for (size_t i = 0; i < data.size(); ++i) data[i] = std::byte(i);
  const TemporaryFile file(write_safetensors(std::vector<TensorView>{{"conv.weight", "I8", {3, 2, 2, 3}, data}}));
  const Dataset convolution = load("safetensors", file_request(file.path()));
  REQUIRE(convolution.layers.size() == 1);
  CHECK(convolution.layers[0].name == "conv.weight");
  CHECK(convolution.layers[0].shape == Shape{3, 12});
  CHECK(convolution.layers[0].elements == data);
}

TEST_CASE("the safetensors source reads int8 matrices in the order of the file") {
  std::vector<std::byte> data(100);
  for (size_t i = 0; i < data.size(); ++i) data[i] = std::byte(i);
  const std::span<const std::byte> bytes(data);
  const TemporaryFile file(write_safetensors(std::vector<TensorView>{{"layer.2.weight", "I8", {3, 4}, bytes.first(12)},
                                                                     {"layer.2.scale", "F32", {3}, bytes.first(12)},
                                                                     {"layer.10.weight", "U8", {4, 3}, bytes.last(12)},
                                                                     {"stack", "I8", {2, 3, 8}, bytes.subspan(20, 48)},
                                                                     {"half", "BF16", {3, 4}, bytes.first(24)}}));
  const Dataset all = load("safetensors", file_request(file.path()));
  REQUIRE(all.layers.size() == 4);
  CHECK(all.layers[0].name == "layer.2.weight");
  CHECK(all.layers[1].name == "layer.10.weight");
  CHECK(all.layers[1].type == ElementType::i8);
  CHECK(all.layers[1].elements.front() == std::byte{88 ^ 128});  // less 128
  CHECK(all.layers[3].name == "stack.1");
  CHECK(all.layers[3].shape == Shape{3, 8});
  CHECK(all.layers[3].elements.front() == std::byte{44});
  CHECK(all.layers[3].content_hash == content_hash(all.layers[3].view()));
  CHECK(all.initial_vector.size() == 4);

  const Dataset one = load("safetensors", file_request(file.path(), "^layer\\.10\\.weight$"));
  REQUIRE(one.layers.size() == 1);
  CHECK(one.layers[0].elements == all.layers[1].elements);

  const Dataset half = load("safetensors", file_request(file.path(), "half"));
  REQUIRE(half.layers.size() == 1);
  CHECK(half.layers[0].type == ElementType::bf16);
  CHECK(half.layers[0].elements.size() == 24);
  REQUIRE_DATASET_ERROR(load("safetensors", file_request(file.path(), "layer.2")), "layer.2.scale");
  REQUIRE_DATASET_ERROR(load("safetensors", file_request(file.path(), "nothing")), "No tensor's name matches");
  REQUIRE_DATASET_ERROR(load("safetensors", file_request(file.path(), "(")), "not a regular expression");
}

TEST_CASE("the safetensors source says why a file gives no matrix") {
  const std::vector<std::byte> data(8);
  const TemporaryFile floats(write_safetensors(std::vector<TensorView>{{"w", "F16", {2, 2}, data}}));
  const Dataset from_floats = load("safetensors", file_request(floats.path()));
  REQUIRE(from_floats.layers.size() == 1);
  CHECK(from_floats.layers[0].type == ElementType::f16);
  const TemporaryFile complex(write_safetensors(std::vector<TensorView>{{"w", "C64", {1, 1}, data}}));
  REQUIRE_DATASET_ERROR(load("safetensors", file_request(complex.path())), "elements of type C64, which are not read");
  const TemporaryFile vectors(write_safetensors(std::vector<TensorView>{{"v", "I8", {8}, data}}));
  REQUIRE_DATASET_ERROR(load("safetensors", file_request(vectors.path())), "[8] is neither");
  const TemporaryFile hollow(write_safetensors(std::vector<TensorView>{{"w", "I8", {8, 0}, {}}}));
  REQUIRE_DATASET_ERROR(load("safetensors", file_request(hollow.path())), "no elements");
  const TemporaryFile none(write_safetensors({}));
  REQUIRE_DATASET_ERROR(load("safetensors", file_request(none.path())), "holds no tensors");
  const TemporaryFile broken(to_bytes("not a container at all"));
  REQUIRE_DATASET_ERROR(load("safetensors", file_request(broken.path())), broken.path());
}

TEST_CASE("file sources say what is wrong with a path") {
  const std::string folder = std::filesystem::temp_directory_path().string();
  for (const char* source : {"safetensors", "npy", "matvans"}) {
    REQUIRE_DATASET_ERROR(load(source, {}), "\"file\" of the source " + std::string(source) + " is missing");
    REQUIRE_DATASET_ERROR(load(source, file_request(folder + "/ecmv_no_such_file")), "No such file");
    REQUIRE_DATASET_ERROR(load(source, file_request(folder)), "it is a folder");
    REQUIRE_DATASET_ERROR(load(source, file_request("/dev/null")), "not a regular file");
    const TemporaryFile empty(std::vector<std::byte>{});
    REQUIRE_DATASET_ERROR(load(source, file_request(empty.path())), empty.path());
    SourceRequest number = file_request("x");
    number.numbers["file"] = 1;
    REQUIRE_DATASET_ERROR(load(source, number), "is a text, but a number was given");
  }
}

const std::string kMatrix = R"("a":{"dtype":"I8","shape":[2,2],"data_offsets":[0,4]})";
const std::string kOne = R"("a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]})";

TEST_CASE("what the reference implementation reads is read: no metadata, fields of other writers, newer types") {
  CHECK(parse("{\"__metadata__\":null," + kOne + "}", 4).tensors.size() == 1);
  const char* const more =
      R"({"a":{"dtype":"I8","x":{"dtype":[1,{"shape":-2.5}]},"shape":[4],"y":null,"data_offsets":[0,4],"z":"t"}})";
  CHECK(parse(more, 4).find("a")->shape == std::vector<int64_t>{4});
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"I8","x":0,"data_offsets":[0,4]}})", 4), "has no shape");
  CHECK(parse(R"({"a":{"dtype":"F8_E4M3FNUZ","shape":[4],"data_offsets":[0,4]}})", 4).tensors[0].bytes.size() == 4);
  REQUIRE_DATASET_ERROR(parse(R"({"a":{"dtype":"F8_E4M3FNUZ","shape":[5],"data_offsets":[0,4]}})", 4), "takes 5 bytes");
}

TEST_CASE("a type that nobody knows is named and has the bytes of its offsets, and other tensors are read") {
  const Safetensors read = parse("{" + kOne + R"(,"b":{"dtype":"F3_NEW","shape":[3, 5],"data_offsets":[4,11]}})", 11);
  REQUIRE(read.tensors.size() == 2);
  CHECK(read.tensors[1].dtype == "F3_NEW");
  CHECK(read.tensors[1].bytes.size() == 7);
  CHECK(summarize(read.tensors[1]).elements == 15);
  CHECK(summarize(read.tensors[1]).stored_bytes == 7);
  CHECK(!summarize(read.tensors[1]).order0_bytes);
}

TEST_CASE("what follows a zero byte of a header is not ignored") {
  REQUIRE_DATASET_ERROR(parse("{" + kOne + "}" + std::string("\0", 1), 4), "a zero byte at byte 53");
  REQUIRE_DATASET_ERROR(parse("{" + kOne + "}" + std::string("\0{", 2), 4), "a zero byte");
  CHECK(parse("{" + kOne + "} \n\t", 4).tensors.size() == 1);
}

TEST_CASE("spaces before a header are read, and of doubled names the last counts, as the reference has it") {
  const auto file = container(" \n\t\r{" + kOne + "}", 4);
  CHECK(looks_like_safetensors(file));
  CHECK(parse_safetensors(file).tensors.size() == 1);
  CHECK(load("weights", file_request(TemporaryFile(container("  {" + kMatrix + "}", 4)).path())).layers.size() == 1);

  const std::string shorter = R"("a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]})";
  const std::string wrong = R"("a":{"dtype":"F64","shape":[2],"data_offsets":[4,2]})";
  CHECK(parse("{" + kOne + "," + kOne + "}", 4).tensors.size() == 1);
  CHECK(parse("{" + shorter + "," + kOne + "}", 4).find("a")->shape == std::vector<int64_t>{4});
  CHECK(
      parse("{" + wrong + R"(,"b":{"dtype":"I8","shape":[0],"data_offsets":[0,0]},)" + kOne + "}", 4).tensors.size() ==
      2);
  REQUIRE_DATASET_ERROR(parse("{" + kOne + "," + shorter + "}", 4), "2 bytes follow the last tensor");
  CHECK(parse(R"({"__metadata__":{"k":"v","k":"w"}})", 0).metadata.at("k") == "w");
  CHECK(parse(R"({"a":{"x":1,"x":2,)" + kOne.substr(5) + "}", 4).tensors.size() == 1);
}

TEST_CASE("fields of others are nested as deeply as the reference reads them, and no deeper") {
  const auto nested = [](size_t lists) {
    return R"({"a":{"x":)" + std::string(lists, '[') + std::string(lists, ']') + "," + kOne.substr(5) + "}";
  };
  CHECK(parse(nested(125), 4).tensors.size() == 1);
  REQUIRE_DATASET_ERROR(parse(nested(126), 4), "nested too deeply");
}
