// Claims about the MatVANS files: our chain gives the hashes that the original program stored.
#include <algorithm>
#include <cmath>

#include "datasets/files/file_bytes.h"
#include "datasets/files/matvans.h"
#include "datasets/files/safetensors.h"
#include "tests/datasets/temporary_file.h"

using namespace ecmv::datasets;
using namespace ecmv::tests;

namespace {

const std::string kFolder = ECMV_SOURCE_DIR "/../shared/data/matvans/";

std::vector<int32_t> product(const Matrix& matrix, const std::vector<int8_t>& vector) {
  const auto elements = matrix.view().i8();
  std::vector<int32_t> result(size_t(matrix.shape.rows));
  for (size_t row = 0; row < result.size(); ++row) {
    for (size_t col = 0; col < vector.size(); ++col) {
      result[row] += int32_t(elements[row * vector.size() + col]) * vector[col];
    }
  }
  return result;
}

std::vector<std::byte> small_bin(uint32_t count, uint32_t rows, uint32_t cols, float spacing, size_t elements) {
  std::vector<std::byte> file;
  const auto put = [&](auto value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    for (const std::byte byte : bytes) file.push_back(byte);
  };
  put(count), put(uint32_t{77}), put(uint32_t{3});
  put(uint32_t{0x00030201});
  put(rows), put(cols), put(spacing);
  file.resize(file.size() + elements, std::byte{5});
  return file;
}

}  // namespace

TEST_CASE("the MatVANS hash is as defined") {
  CHECK(matvans_hash({}) == 0);
  const std::vector<int8_t> one{1};
  CHECK(matvans_hash(one) == 0x27220A95u);
  const std::vector<int8_t> two{1, -1};
  CHECK(matvans_hash(two) == ((0xE44152A4u ^ 0xFFu) * 0x27220A95u));
}

TEST_CASE("the chain through the uncompressed MatVANS container gives every stored hash") {
  const std::string path = kFolder + "d256_h4_uncompressed.safetensors";
  if (!std::filesystem::exists(path)) SKIP("The MatVANS test data is not there.");
  const MatvansFile file = parse_matvans_uncompressed(FileBytes(path).bytes());
  REQUIRE(file.layers.size() == 4);
  CHECK(file.layers[0].shape == Shape{256, 256});
  std::vector<int8_t> vector = file.initial_vector;
  for (size_t layer = 0; layer < file.layers.size(); ++layer) {
    const auto sums = product(file.layers[layer], vector);
    for (size_t i = 0; i < sums.size(); ++i) vector[i] = int8_t(std::nearbyint(float(sums[i]) * file.scales[layer]));
    CHECK(matvans_hash(vector) == file.hashes[layer]);
  }
}

TEST_CASE("the chain through the uncompressed MatVANS bin gives the stored hash") {
  const std::string path = kFolder + "w512_e5_uncompressed.bin";
  if (!std::filesystem::exists(path)) SKIP("The MatVANS test data is not there.");
  const MatvansFile file = parse_matvans_uncompressed(FileBytes(path).bytes());
  REQUIRE(file.layers.size() == 2);
  CHECK(file.layers[0].shape == Shape{512, 512});
  std::vector<int8_t> vector = file.initial_vector;
  for (const Matrix& layer : file.layers) {
    const auto sums = product(layer, vector);
    int32_t largest = 0;
    for (const int32_t sum : sums) largest = std::max(largest, std::abs(sum));
    for (size_t i = 0; i < sums.size(); ++i) {
      vector[i] = int8_t(std::nearbyint(float(sums[i]) / (float(largest) / 127.0f)));
    }
  }
  CHECK(matvans_hash(vector) == file.hashes[0]);
}

TEST_CASE("parsing and writing a MatVANS container gives its bytes back") {
  for (const char* name : {"d256_h4_uncompressed", "d256_h4_ans-warp-rows", "d256_h4_ans-warp-stripes"}) {
    const std::string path = kFolder + name + ".safetensors";
    if (!std::filesystem::exists(path)) SKIP("The MatVANS test data is not there.");
    const FileBytes file(path);
    const auto written = write_safetensors(parse_safetensors(file.bytes()).tensors);
    CHECK(std::equal(written.begin(), written.end(), file.bytes().begin(), file.bytes().end()));
  }
}

TEST_CASE("the matvans source decides by content, and names compressed files as such") {
  SourceRequest request;
  for (const char* name : {"d256_h4_uncompressed.safetensors", "w512_e5_uncompressed.bin"}) {
    request.texts["file"] = kFolder + name;
    if (!std::filesystem::exists(request.texts["file"])) SKIP("The MatVANS test data is not there.");
    const Dataset dataset = load("matvans", request);
    CHECK(dataset.initial_vector.size() == size_t(dataset.layers[0].shape.cols));
    CHECK(dataset.layers[0].content_hash == content_hash(dataset.layers[0].view()));
  }
  request.texts["file"] = kFolder + "d256_h4_ans-warp-rows.safetensors";
  REQUIRE_DATASET_ERROR(load("matvans", request), "compressed");
  request.texts["file"] = kFolder + "w512_e5_warp-per-row.bin";
  REQUIRE_DATASET_ERROR(load("matvans", request), "Not an uncompressed MatVANS file");
}

TEST_CASE("a small MatVANS bin is read, rectangular layers included") {
  const MatvansFile file = parse_matvans_uncompressed(small_bin(1, 2, 3, 1.0f, 6));
  REQUIRE(file.layers.size() == 1);
  CHECK(file.layers[0].shape == Shape{2, 3});
  CHECK(file.layers[0].elements == std::vector<std::byte>(6, std::byte{5}));
  CHECK(file.initial_vector == std::vector<int8_t>{1, 2, 3});
  CHECK(file.hashes == std::vector<uint32_t>{77});
  CHECK(file.scales.empty());
}

TEST_CASE("a malformed MatVANS bin is refused with the reason") {
  REQUIRE_DATASET_ERROR(parse_matvans_uncompressed({}), "inside its header");
  REQUIRE_DATASET_ERROR(parse_matvans_uncompressed(small_bin(1, 2, 3, 1.0f, 5)), "inside layer 0");
  REQUIRE_DATASET_ERROR(parse_matvans_uncompressed(small_bin(1, 2, 3, 1.0f, 7)), "1 bytes follow");
  REQUIRE_DATASET_ERROR(parse_matvans_uncompressed(small_bin(2, 2, 3, 1.0f, 6)), "inside a matrix header");
  REQUIRE_DATASET_ERROR(parse_matvans_uncompressed(small_bin(0, 2, 3, 1.0f, 6)), "no layers");
  REQUIRE_DATASET_ERROR(parse_matvans_uncompressed(small_bin(1, 2, 4, 1.0f, 8)), "does not fit");
  REQUIRE_DATASET_ERROR(parse_matvans_uncompressed(small_bin(1, 0, 3, 1.0f, 0)), "does not fit");
  REQUIRE_DATASET_ERROR(parse_matvans_uncompressed(small_bin(1, 2, 3, 0.5f, 6)), "grid spacing");
  REQUIRE_DATASET_ERROR(parse_matvans_uncompressed(small_bin(1, ~0u, 3, 1.0f, 6)), "inside layer 0");
}

TEST_CASE("a MatVANS container with wrong tensors is refused with the reason") {
  const std::vector<std::byte> data(64);
  const std::span<const std::byte> bytes(data);
  const TensorView matrices{"matrices", "I8", {2, 3, 3}, bytes.first(18)},
      vector{"initial_vector", "I8", {3}, bytes.first(3)}, scales{"scales", "F32", {2}, bytes.first(8)},
      hashes{"hashes", "U32", {2}, bytes.first(8)};
  const auto parse = [](std::vector<TensorView> tensors) { parse_matvans_uncompressed(write_safetensors(tensors)); };
  REQUIRE_NOTHROW(parse({matrices, vector, scales, hashes}));
  REQUIRE_DATASET_ERROR(parse({vector, scales, hashes}), "no tensor \"matrices\"");
  REQUIRE_DATASET_ERROR(parse({matrices, scales, hashes}), "no tensor \"initial_vector\"");
  REQUIRE_DATASET_ERROR(parse({matrices, vector, hashes}), "no tensor \"scales\"");
  REQUIRE_DATASET_ERROR(parse({matrices, vector, scales}), "no tensor \"hashes\"");
  REQUIRE_DATASET_ERROR(parse({matrices, {"initial_vector", "I8", {4}, bytes.first(4)}, scales, hashes}),
                        "is I8[4], not I8[3]");
  REQUIRE_DATASET_ERROR(parse({{"matrices", "I8", {2, 3, 4}, bytes.first(24)}, vector, scales, hashes}),
                        "not I8[2, 4, 4]");
  REQUIRE_DATASET_ERROR(parse({{"matrices", "I8", {6, 3}, bytes.first(18)}, vector, scales, hashes}),
                        "[layers, rows, cols]");
}
