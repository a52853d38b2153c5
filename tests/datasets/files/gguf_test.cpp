// Claims about the GGUF reader; files are put together from the format's description.
#include "datasets/files/gguf.h"
#include "datasets/inspect.h"

#include <algorithm>

#include "datasets/layers/unpack.h"
#include "datasets/quantisers/distortion.h"
#include "tests/datasets/temporary_file.h"
#include "tests/gguf_blocks.h"
#include "tests/weight_files.h"

using namespace ecmv::datasets;
using namespace ecmv::tests;

namespace {

std::vector<int> counting(int first, int step) {
  std::vector<int> numbers;
  for (int i = 0; i < 32; ++i) numbers.push_back(first + i * step);
  return numbers;
}

// Numbers 0 to 15, twice and mixed.
std::vector<int> nibbles() {
  std::vector<int> numbers;
  for (int i = 0; i < 32; ++i) numbers.push_back(i * 7 % 16);
  return numbers;
}

std::vector<int> values(const TensorView& tensor) {
  std::vector<int> out;
  for (const std::byte byte : tensor.bytes) out.push_back(static_cast<int8_t>(byte));
  return out;
}

TensorView only(const std::vector<std::byte>& file) {
  const std::vector<TensorView> tensors = parse_gguf(file);
  REQUIRE(tensors.size() == 1);
  return tensors[0];
}

GgufFile one(GgufTensor tensor) { return {{std::move(tensor)}, {}}; }

SourceRequest request_for(const TemporaryFile& file) {
  SourceRequest request;
  request.texts["file"] = file.path();
  return request;
}

// The numbers that a layer of a dataset stands for.
std::vector<double> numbers_of(const Dataset& dataset, size_t layer) {
  const Shape shape = dataset.layers[layer].shape;
  std::vector<double> numbers(size_t(shape.elements()));
  for (int64_t row = 0; row < shape.rows; ++row)
    read_row(dataset.layers[layer].view(), dataset.scales_of(layer), row,
             std::span(numbers).subspan(size_t(row * shape.cols), size_t(shape.cols)));
  return numbers;
}

}  // namespace

TEST_CASE("GGUF tensors are read with their shapes, innermost size last, past keys of every type") {
  GgufFile file{{{"a.weight", {2, 3}, kF32, std::string(24, '\1')},
                 {"b", {5}, kF16, std::string(10, '\2')},
                 {"c", {2, 1, 4}, kBF16, std::string(16, '\3')}},
                {gguf_text("u8") + u32(0) + "\1", gguf_text("i16") + u32(3) + "\1\1", gguf_text("bool") + u32(7) + "\1",
                 gguf_text("f64") + u32(12) + u64(1), gguf_text("text") + u32(8) + gguf_text("some words"),
                 gguf_text("texts") + u32(9) + u32(8) + u64(2) + gguf_text("a") + gguf_text("bc"),
                 gguf_text("lists") + u32(9) + u32(9) + u64(1) + u32(4) + u64(2) + u32(1) + u32(2)}};
  for (const uint32_t version : {2u, 3u}) {
    file.version = version;
    const auto bytes = to_bytes(file.bytes());
    const auto tensors = parse_gguf(bytes);
    REQUIRE(tensors.size() == 3);
    CHECK(tensors[0].name == "a.weight");
    CHECK(tensors[0].dtype == "F32");
    CHECK(tensors[0].shape == std::vector<int64_t>{3, 2});
    CHECK(tensors[0].bytes[23] == std::byte{1});
    CHECK(tensors[1].dtype == "F16");
    CHECK(tensors[1].bytes.size() == 10);
    CHECK(tensors[2].dtype == "BF16");
    CHECK(tensors[2].shape == std::vector<int64_t>{4, 1, 2});
    CHECK(tensors[2].bytes[0] == std::byte{3});
  }
  file.alignment = 64;
  file.pairs.push_back(gguf_text("general.alignment") + u32(4) + u32(64));
  const auto bytes = to_bytes(file.bytes());
  CHECK(parse_gguf(bytes)[2].bytes[0] == std::byte{3});
}

TEST_CASE("blocks of Q8_0 are int8 numbers, and their scales f16 tensors of their own") {
  const auto file = to_bytes(
      one({"w", {64, 1}, kQ8_0, q8_block(0x3C00, counting(-128, 8)) + q8_block(0x4000, counting(0, 1))}).bytes());
  const TensorView tensor = only(file);
  CHECK(tensor.dtype == "Q8_0");
  std::vector<std::byte> room, scales;
  const TensorView numbers = unpack(tensor, room);
  CHECK(numbers.dtype == "I8");
  CHECK(numbers.shape == std::vector<int64_t>{1, 64});
  std::vector<int> expected = counting(-128, 8);
  for (const int number : counting(0, 1)) expected.push_back(number);
  CHECK(values(numbers) == expected);
  const TensorView f16 = block_scales(tensor, scales);
  CHECK(f16.dtype == "F16");
  CHECK(f16.shape == std::vector<int64_t>{1, 2});
  CHECK(std::vector(f16.bytes.begin(), f16.bytes.end()) == to_bytes(std::string("\0\x3C\0\x40", 4)));
  CHECK(scale_bytes(tensor) == 4);
  REQUIRE_DATASET_ERROR(block_minimums(tensor, scales), "has no minimums");
  REQUIRE_DATASET_ERROR(block_scales(numbers, scales), "no scales that are read");
}

TEST_CASE("blocks of Q4_0 are numbers from -8 to 7, those of Q4_1 from 0 to 15 with minimums") {
  std::vector<std::byte> room, scales;
  const auto q4_0 = to_bytes(one({"w", {32}, kQ4_0, q4_block(little(0x3C00, 2), nibbles())}).bytes());
  std::vector<int> centred = nibbles();
  for (int& number : centred) number -= 8;
  CHECK(values(unpack(only(q4_0), room)) == centred);
  CHECK(scale_bytes(only(q4_0)) == 2);

  const auto q4_1 =
      to_bytes(one({"w", {32}, kQ4_1, q4_block(little(0x3C00, 2) + little(0xBC00, 2), nibbles())}).bytes());
  CHECK(values(unpack(only(q4_1), room)) == nibbles());
  CHECK(block_scales(only(q4_1), scales).bytes[1] == std::byte{0x3C});
  CHECK(block_minimums(only(q4_1), scales).bytes[1] == std::byte{0xBC});
  CHECK(scale_bytes(only(q4_1)) == 4);
}

TEST_CASE("the source weights gives blocks of GGUF as int8 matrices and refuses others by the name of their type") {
  const GgufTensor q4{
      "blk.0.attn_q.weight", {32, 2}, kQ4_0, q4_block(little(0, 2), nibbles()) + q4_block(little(0, 2), nibbles())};
  const GgufTensor norm{"blk.0.attn_norm.weight", {4}, kF32, std::string(16, '\0')};
  const TemporaryFile file(to_bytes(GgufFile{{q4, norm}, {}}.bytes()));
  SourceRequest request;
  request.texts["file"] = file.path();
  const Dataset dataset = load("weights", request);
  REQUIRE(dataset.layers.size() == 1);
  CHECK(dataset.layers[0].name == "blk.0.attn_q.weight");
  CHECK(dataset.layers[0].type == ElementType::i8);
  CHECK(dataset.layers[0].shape == Shape{2, 32});
  CHECK(find_source("weights")->check(request).bytes == 64);

  const GgufTensor unread{"blk.0.attn_k.weight", {256, 1}, kQ4_K, std::string(144, '\0')};
  const TemporaryFile other(to_bytes(GgufFile{{q4, unread}, {}}.bytes()));
  request.texts["file"] = other.path();
  CHECK(load("weights", request).layers.size() == 1);
  const std::vector<std::string> remarks = find_source("weights")->check(request).remarks;
  REQUIRE(remarks.size() == 1);
  CHECK(remarks[0].starts_with(
      "A run leaves out other types: 1 tensor, 144 bytes, such as \"blk.0.attn_k.weight\" of Q4_K"));
  request.texts["tensors"] = "attn_k";
  REQUIRE_DATASET_ERROR(load("weights", request), "elements of type Q4_K, which are not read");
  request.texts["tensors"] = "attn_q";
  CHECK(load("weights", request).layers.size() == 1);
}

TEST_CASE("blocks come with their scales and minimums, which make exactly the numbers of the file") {
  for (const GgufType type : {kQ8_0, kQ4_0, kQ4_1}) {
    const BlocksTensor made = blocks_tensor("blk.0.attn_q.weight", {96, 5}, type);
    const TemporaryFile file(to_bytes(one(made.tensor).bytes()));
    const Dataset dataset = load("weights", request_for(file));
    REQUIRE(dataset.scales.size() == 1);
    const Scales& scales = dataset.scales[0];
    CHECK(scales.type == ScaleType::f16);
    CHECK(scales.rows == 5);
    CHECK(scales.groups == 3);
    CHECK(scales.group_cols == 32);
    CHECK(scales.has_minimums == (type == kQ4_1));
    CHECK(scales.stored.size() == size_t(type == kQ4_1 ? 2 : 1) * 5 * 3 * 2);
    CHECK_FALSE(scales.one_a_row());
    CHECK(dataset.sources.empty());
    CHECK(numbers_of(dataset, 0) == made.numbers);
    CHECK(find_source("weights")->check(request_for(file)).group_cols == 32);
    // The matrix as another program would pass it.
    Matrix floats{.name = "f", .shape = {5, 96}, .type = ElementType::f64, .elements = {}};
    const auto bytes = std::as_bytes(std::span(made.numbers));
    floats.elements.assign(bytes.begin(), bytes.end());
    CHECK(distortion(floats.view(), dataset.layers[0].view(), scales).noise == 0);
    CHECK(distortion(dataset.layers[0].view(), dataset.layers[0].view(), scales, scales).noise == 0);
    CHECK(distortion(dataset.layers[0].view(), dataset.layers[0].view(), scales).noise > 0);
  }
}

TEST_CASE("each matrix of a stack of blocks has its own scales, and rows takes the first of them") {
  for (const GgufType type : {kQ4_0, kQ4_1}) {
    const BlocksTensor made = blocks_tensor("blk.0.ffn_up_exps.weight", {64, 3, 2}, type);
    const TemporaryFile file(to_bytes(one(made.tensor).bytes()));
    SourceRequest request = request_for(file);
    const Dataset all = load("weights", request);
    REQUIRE(all.scales.size() == 2);
    std::vector<double> both = numbers_of(all, 0);
    std::ranges::copy(numbers_of(all, 1), std::back_inserter(both));
    CHECK(both == made.numbers);
    request.numbers["rows"] = 2;
    const Dataset some = load("weights", request);
    REQUIRE(some.scales.size() == 2);
    CHECK(some.scales[1].rows == 2);
    const auto second = made.numbers.begin() + 3 * 64;
    CHECK(numbers_of(some, 1) == std::vector<double>(second, second + 2 * 64));
  }
}

TEST_CASE("floats beside blocks have no scales, and files without blocks have none at all") {
  const BlocksTensor made = blocks_tensor("blk.0.attn_k.weight", {32, 2}, kQ8_0);
  const GgufTensor floats{"blk.0.attn_q.weight", {32, 2}, kF32, std::string(256, '\0')};
  const TemporaryFile file(to_bytes(
      GgufFile{{floats, made.tensor, {"blk.0.attn_v.weight", {32, 2}, kF32, std::string(256, '\0')}}, {}}.bytes()));
  SourceRequest request = request_for(file);
  request.texts["tensors"] = "attn";
  const Dataset mixed = load("weights", request);
  REQUIRE(mixed.layers.size() == 3);
  REQUIRE(mixed.scales.size() == 3);
  CHECK(mixed.scales[0].empty());
  CHECK(numbers_of(mixed, 1) == made.numbers);
  CHECK(mixed.scales[2].empty());
  request.texts["tensors"] = "attn_q";
  CHECK(load("weights", request).scales.empty());
  CHECK(find_source("weights")->check(request).group_cols == 0);
}

TEST_CASE("blocks whose scale or minimum is no finite number are refused") {
  const std::vector<int> zeros(32, 0);
  for (const std::string& scales : {little(0x7C00, 2) + little(0, 2), little(0x3C00, 2) + little(0xFE00, 2)}) {
    const TemporaryFile file(to_bytes(one({"w", {32, 1}, kQ4_1, q4_block(scales, zeros)}).bytes()));
    REQUIRE_DATASET_ERROR(load("weights", request_for(file)), "\"w\" has a block whose scale or minimum is no finite");
  }
}

TEST_CASE("an unreadable GGUF file is refused with the reason") {
  const auto refused = [](const GgufFile& file, const char* part) {
    const auto bytes = to_bytes(file.bytes());
    REQUIRE_DATASET_ERROR(parse_gguf(bytes), part);
  };
  const GgufTensor good{"w", {4}, kF32, std::string(16, '\0')};
  REQUIRE_DATASET_ERROR(parse_gguf(to_bytes("GGUX")), "magic");
  REQUIRE_DATASET_ERROR(parse_gguf(to_bytes("GGUF" + u32(1) + u64(0) + u64(0))), "version 1 is not 2 or 3");
  REQUIRE_DATASET_ERROR(parse_gguf(to_bytes("GGUF" + u32(0x03000000) + u64(0) + u64(0))), "big-endian");
  REQUIRE_DATASET_ERROR(parse_gguf(to_bytes("GGUF" + u32(3) + u64(1ull << 60) + u64(0))), "more than 200000");
  REQUIRE_DATASET_ERROR(parse_gguf(to_bytes("GGUF" + u32(3) + u64(0) + u64(1ull << 60))), "ends inside a key");
  REQUIRE_DATASET_ERROR(parse_gguf(to_bytes("GGUF" + u32(3) + u64(0) + u64(1) + u64(~0ull))), "ends inside a key");
  refused({{good}, {gguf_text("k") + u32(13)}}, "type 13 of a value is unknown");
  refused({{good}, {gguf_text("k") + u32(9) + u32(4) + u64(~0ull)}}, "inside the value of a key");
  refused({{good}, {gguf_text("k") + u32(9) + u32(8) + u64(~0ull)}}, "inside the value of a key");
  std::string nested = gguf_text("k") + u32(9);
  for (int i = 0; i < 100; ++i) nested += u32(9) + u64(1);
  refused({{good}, {nested + u32(0) + u64(0)}}, "nested too deeply");
  refused({{good}, {gguf_text("general.alignment") + u32(4) + u32(0)}}, "no power of two");
  refused({{good}, {gguf_text("general.alignment") + u32(4) + u32(48)}}, "no power of two");
  refused({{good}, {gguf_text("general.alignment") + u32(8) + gguf_text("64")}}, "not a number of 32 bits");
  refused(one({std::string(5000, 'n'), {4}, kF32, ""}), "has 5000 bytes");
  refused(one({"w", {1, 1, 1, 1, 1}, kF32, ""}), "has 5 dimensions");
  refused(one({"w", {33}, kQ8_0, ""}), "whole blocks of 32");
  refused(one({"w", {}, kQ8_0, ""}), "whole blocks of 32");
  refused(one({"w", {1ull << 40, 1ull << 40}, kF32, ""}), "overflows");
  refused(one({"w", {1ull << 63}, kF32, ""}), "negative size");
  refused(one({"w", {100}, kF32, std::string(16, '\0')}), "\"w\" takes 400 bytes from byte 0");
  refused({{good}, {}, 32, 3, {1ull << 63}}, "takes 16 bytes");
  refused({{good}, {}, 32, 3, {8}}, "no multiple of 32");
  GgufTensor second = good;
  refused({{good, second}, {}}, "\"w\" is there twice");
  second.name = "v";
  refused({{good, second}, {}, 32, 3, {0, 0}}, "overlaps the one before it");
}

TEST_CASE("a cut GGUF file is refused at every length, or lacks nothing but padding") {
  const std::string whole = GgufFile{
      {{"w", {4}, kF32, std::string(16, '\1')}, {"v", {32}, kQ8_0, std::string(34, '\2')}},
      {gguf_text("texts") + u32(9) + u32(8) + u64(1) +
       gguf_text("a")}}.bytes();
  for (size_t length = 0; length < whole.size() - 30; ++length) {
    const auto cut = to_bytes(whole.substr(0, length));
    CHECK_THROWS_AS(parse_gguf(cut), DatasetError);
  }
}

TEST_CASE("types that are not known are named by their number and sized by their offsets, and the rest is read") {
  const GgufTensor good{"good", {4, 1}, kF32, std::string(16, '\1')};
  const auto bytes = to_bytes(GgufFile{
      {{"odd", {64, 2}, 36, std::string(72, '\0')},
       good,
       {"new", {32}, 42, std::string(10, '\0')},
       {"q1", {128, 1}, 41, std::string(18, '\0')},
       {"last", {32}, 77, std::string(33, '\0')}},
      {}}.bytes());
  const auto tensors = parse_gguf(bytes);
  REQUIRE(tensors.size() == 5);
  CHECK(tensors[0].dtype == "GGML_36");
  CHECK(tensors[0].bytes.size() == 96);  // to the next tensor, with what fills up
  CHECK(tensors[1].bytes.size() == 16);
  CHECK(tensors[2].dtype == "GGML_42");
  CHECK(tensors[2].bytes.size() == 32);
  CHECK(tensors[3].dtype == "Q1_0");
  CHECK(tensors[3].bytes.size() == 18);
  CHECK(tensors[4].dtype == "GGML_77");
  CHECK(tensors[4].bytes.size() == 64);
  const TensorSummary odd = summarize(tensors[0]);
  CHECK(odd.elements == 128);
  CHECK(!odd.entropy_bits);
  const TemporaryFile file(bytes);
  SourceRequest request;
  request.texts["file"] = file.path();
  CHECK(load("weights", request).layers.size() == 1);
  CHECK(find_source("weights")->check(request).remarks.at(0).starts_with("A run leaves out other types: 2 tensors"));
  request.texts["tensors"] = "odd";
  REQUIRE_DATASET_ERROR(load("weights", request), "elements of type GGML_36, which are not read");
}
