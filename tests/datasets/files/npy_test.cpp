// Claims about the npy reader and source; the tests write headers as numpy does.
#include "datasets/files/npy.h"

#include "datasets/layers/unpack.h"
#include "tests/datasets/temporary_file.h"
#include "tests/weight_files.h"

using namespace ecmv::datasets;
using namespace ecmv::tests;

namespace {

std::vector<std::byte> npy(const std::string& dictionary, size_t data_bytes, int version = 1) {
  const size_t length_bytes = version == 1 ? 2 : 4;
  std::string header = dictionary;
  while ((8 + length_bytes + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = "\x93NUMPY";
  file += char(version);
  file += '\0';
  for (size_t i = 0; i < length_bytes; ++i) file += char(header.size() >> (8 * i) & 255);
  file += header;
  for (size_t i = 0; i < data_bytes; ++i) file += char(i);
  return to_bytes(file);
}

void parse(const std::string& dictionary, size_t data_bytes) {
  const auto file = npy(dictionary, data_bytes);
  (void)parse_npy(file);
}

}  // namespace

TEST_CASE("npy files of all versions and numeric types are read") {
  const auto file = npy("{'descr': '|i1', 'fortran_order': False, 'shape': (3, 4), }", 12);
  const TensorView tensor = parse_npy(file).front();
  CHECK(tensor.name == "array");
  CHECK(tensor.dtype == "I8");
  CHECK(tensor.shape == std::vector<int64_t>{3, 4});
  CHECK(tensor.bytes.size() == 12);
  CHECK(tensor.bytes[5] == std::byte{5});

  for (const int version : {1, 2, 3}) {
    const auto other = npy("{'descr': '<f2', 'fortran_order': False, 'shape': (5,), }", 10, version);
    CHECK(parse_npy(other).front().dtype == "F16");
    CHECK(parse_npy(other).front().shape == std::vector<int64_t>{5});
  }
  const auto scalar = npy("{\"shape\": (), \"fortran_order\": True, \"descr\": \"<f8\"}", 8);
  CHECK(parse_npy(scalar).front().shape.empty());
  const auto unsigned_bytes = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 4)}", 0);
  CHECK(parse_npy(unsigned_bytes).front().dtype == "U8");
}

TEST_CASE("an unreadable npy file is refused with the reason") {
  REQUIRE_DATASET_ERROR(parse_npy({}).front(), "magic");
  REQUIRE_DATASET_ERROR(parse_npy(to_bytes("\x93NUMPY")).front(), "version 0");
  REQUIRE_DATASET_ERROR(parse_npy(to_bytes("\x93NUMPY\x04")).front(), "version 4");
  REQUIRE_DATASET_ERROR(parse_npy(to_bytes("\x93NUMPY\x01")).front(), "inside its header");
  const std::string shape = "'fortran_order': False, 'shape': (2, 2)}";
  REQUIRE_DATASET_ERROR(parse("{'descr': '<V2', " + shape, 16), "NumPy writes bfloat16, float8 and the like as bytes");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|O', " + shape, 16), "\"|O\" are not read");
  REQUIRE_DATASET_ERROR(parse("{'descr': '', " + shape, 16), "not read");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|f3', " + shape, 16), "not read");
  REQUIRE_DATASET_ERROR(parse("{'descr': [('a', '<f4')], " + shape, 16), "records");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|i1', " + shape, 3), "takes 4 bytes, but 3 follow");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|i1', " + shape, 5), "takes 4 bytes, but 5 follow");
  std::string sizes = "1";
  for (int i = 0; i < 64; ++i) sizes += ", 1";
  REQUIRE_DATASET_ERROR(parse("{'descr': '|i1', 'fortran_order': False, 'shape': (" + sizes + ")}", 1), "64 sizes");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|i1', 'fortran_order': 0, 'shape': (2, 2)}", 4), "neither True nor False");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|i1', 'fortran_order': False, 'shape': (2, -2)}", 4), "tuple of sizes");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|i1', 'fortran_order': False, 'shape': (2; 2)}", 4), "lacks a ')'");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|i1', 'fortran_order': False, 'shape': (9223372036854775808,)}", 4),
                        "tuple of sizes");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|i1', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 4),
                        "overflows");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|i1', 'fortran_order': False}", 4), "lacks one of");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|i1', 'descr': '|i1', " + shape, 4), "twice");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|i1', 'x': 1, " + shape, 4), "\"x\"");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|i1', " + shape + " more", 4), "follows the dictionary");
  REQUIRE_DATASET_ERROR(parse("{'descr': '|i1", 4), "does not end");
}

TEST_CASE("arrays in Fortran order are read row after row") {
  // Elements 0, 1, 2, ... in the order of the file; the first index runs fastest.
  const auto bytes_of = [](const std::string& descr, const std::string& shape, size_t bytes) {
    const auto file = npy("{'descr': '" + descr + "', 'fortran_order': True, 'shape': (" + shape + ")}", bytes);
    std::vector<std::byte> room;
    std::vector<int> out;
    for (const std::byte byte : unpack(parse_npy(file).front(), room).bytes) out.push_back(int(byte));
    return out;
  };
  CHECK(bytes_of("|i1", "2, 3", 6) == std::vector<int>{0, 2, 4, 1, 3, 5});
  CHECK(bytes_of("<i2", "2, 2", 8) == std::vector<int>{0, 1, 4, 5, 2, 3, 6, 7});
  CHECK(bytes_of("|i1", "2, 3, 2", 12) == std::vector<int>{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11});
  CHECK(bytes_of("|i1", "5,", 5) == std::vector<int>{0, 1, 2, 3, 4});
  CHECK(bytes_of("|i1", "0, 3", 0).empty());
  // Larger than the tiles of the transposition, with up to four dimensions, against the definition.
  const int64_t sizes[] = {3, 2, 5, 70};
  const std::vector<int> found = bytes_of("|u1", "3, 2, 5, 70", 2100);
  REQUIRE(found.size() == 2100);
  size_t at = 0, wrong = 0;
  for (int64_t a = 0; a < sizes[0]; ++a)
    for (int64_t b = 0; b < sizes[1]; ++b)
      for (int64_t c = 0; c < sizes[2]; ++c)
        for (int64_t d = 0; d < sizes[3]; ++d) wrong += found[at++] != (a + 3 * (b + 2 * (c + 5 * d))) % 256;
  CHECK(wrong == 0);

  const TemporaryFile file(npy("{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3)}", 6));
  SourceRequest request;
  request.texts["file"] = file.path();
  const Dataset dataset = load("npy", request);
  CHECK(dataset.layers[0].shape == Shape{2, 3});
  CHECK(dataset.layers[0].view().i8()[1] == 2);
}

TEST_CASE("a cut npy file is refused at every length") {
  const auto file = npy("{'descr': '|i1', 'fortran_order': False, 'shape': (3, 4), }", 12);
  for (size_t length = 0; length < file.size(); ++length) {
    const std::vector<std::byte> cut(file.begin(), file.begin() + std::ptrdiff_t(length));
    CHECK_THROWS_AS(parse_npy(cut).front(), DatasetError);
  }
}

TEST_CASE("the npy source reads a matrix of any number type") {
  const TemporaryFile file(npy("{'descr': '|i1', 'fortran_order': False, 'shape': (3, 4), }", 12));
  SourceRequest request;
  request.texts["file"] = file.path();
  const Dataset dataset = load("npy", request);
  REQUIRE(dataset.layers.size() == 1);
  CHECK(dataset.layers[0].shape == Shape{3, 4});
  CHECK(dataset.initial_vector.size() == 4);
  const TemporaryFile floats(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }", 12));
  request.texts["file"] = floats.path();
  const Dataset wide = load("npy", request);
  REQUIRE(wide.layers.size() == 1);
  CHECK(wide.layers[0].type == ElementType::f32);
  CHECK(wide.layers[0].shape == Shape{1, 3});
  CHECK(wide.layers[0].elements.size() == 12);
  const TemporaryFile truths(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3, 4), }", 12));
  request.texts["file"] = truths.path();
  REQUIRE_DATASET_ERROR(load("npy", request), "elements of type BOOL, which are not read");
}

TEST_CASE(
    "headers of Python 2, the machine's own order of bytes, and several arrays in a file are read as NumPy does") {
  const std::string longs =
      npy_file("{'descr': '=i2', 'fortran_order': False, 'shape': (2L, 3L), }", std::string(12, 'a'));
  const std::string plain = npy_file("{'descr': 'i1', 'fortran_order': False, 'shape': (8L,)}", std::string(8, 'b'));
  const auto file = to_bytes(longs + plain + longs);
  const auto arrays = parse_npy(file);
  REQUIRE(arrays.size() == 3);
  CHECK(arrays[0].name == "array");
  CHECK(arrays[0].dtype == "I16");
  CHECK(arrays[0].shape == std::vector<int64_t>{2, 3});
  CHECK(arrays[1].name == "array.1");
  CHECK(arrays[1].bytes.size() == 8);
  CHECK(arrays[2].bytes.size() == 12);
  REQUIRE_DATASET_ERROR(parse_npy(to_bytes(plain + "garbage")), "takes 8 bytes, but 15 follow");
  REQUIRE_DATASET_ERROR(parse_npy(to_bytes(plain + "\x93NUMPY")), "version 0");
}

TEST_CASE("big-endian numbers are read as NumPy reads them, in both orders") {
  const auto bytes_of = [](const std::string& descr, const char* order, size_t bytes) {
    const auto file = npy("{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': (2, 2)}", bytes);
    std::vector<std::byte> room;
    std::vector<int> out;
    for (const std::byte byte : unpack(parse_npy(file).front(), room).bytes) out.push_back(int(byte));
    return out;
  };
  CHECK(bytes_of(">i2", "False", 8) == std::vector<int>{1, 0, 3, 2, 5, 4, 7, 6});
  CHECK(bytes_of(">i2", "True", 8) == std::vector<int>{1, 0, 5, 4, 3, 2, 7, 6});
  CHECK(bytes_of(">f4", "False", 16) == std::vector<int>{3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12});
  CHECK(bytes_of(">i1", "False", 4) == std::vector<int>{0, 1, 2, 3});
  const std::vector<int> complex = bytes_of(">c8", "False", 32);
  CHECK(std::vector<int>(complex.begin(), complex.begin() + 8) == std::vector<int>{3, 2, 1, 0, 7, 6, 5, 4});

  const TemporaryFile file(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1, 3), }", 12));
  SourceRequest request;
  request.texts["file"] = file.path();
  const Dataset dataset = load("npy", request);
  CHECK(dataset.layers[0].type == ElementType::f32);
  CHECK(int(dataset.layers[0].elements[0]) == 3);
}
