// Claims about encoders that store less than they say, or other things: each breaks one promise, in the tree as behind
// the C interface, and none of their sizes may be printed.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "experiments/check/encoding/ideal_bits.h"
#include "experiments/config/experiment.h"
#include "experiments/run/run.h"
#include "tests/experiments/test_codecs.h"
#include "tests/test_matrices.h"

using namespace ecmv;
using namespace ecmv::tests;
using Catch::Matchers::ContainsSubstring;
using reports::Status;

namespace {

using backends::CompressedMatrix;
using backends::CompressedView;
using backends::Settings;
using datasets::MatrixView;

reports::CaseRecord size_of(const codecs::Codec& codec, int layers = 3, std::string_view id = "test") {
  const std::vector<codecs::CodecEntry> codecs = {{id, &codec, {}, {}}};
  const experiments::Experiment experiment = experiments::parse_experiment(
      "schema: 1\nname: encoding\nexperiments:\n  - data: {source: gaussian, sigma: 4, d: 64, layers: " +
          std::to_string(layers) + "}\n    codecs: " + std::string(id) + "\n    kernels: {op: size}\n",
      "encoding", {}, codecs);
  reports::CaseRecord found;
  experiments::RunOptions options;
  options.codecs = codecs;
  options.on_case = [&](const reports::CaseRecord& record) { found = record; };
  experiments::run_experiment(experiment, options);
  return found;
}

void expect_caught(const codecs::Codec& codec, const std::string& reason, Status status = Status::error, int layers = 3,
                   std::string_view id = "test") {
  INFO(reason);
  const reports::CaseRecord record = size_of(codec, layers, id);
  CHECK(record.status == status);
  CHECK_THAT(record.reason, ContainsSubstring(reason));
}

codecs::Codec encoding(CompressedMatrix (*encode)(MatrixView, const Settings&)) {
  codecs::Codec codec = make_codec();
  codec.encode = encode;
  return codec;
}

CompressedMatrix store_as_another_shape(MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = store(matrix, settings);
  compressed.shape.rows *= 2;
  return compressed;
}
CompressedMatrix store_as_another_type(MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = store(matrix, settings);
  compressed.type = datasets::ElementType::u8;
  return compressed;
}
template <int64_t kPadding>
CompressedMatrix store_with_padding(MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = store(matrix, settings);
  compressed.sections[0].padding_bytes = kPadding;
  return compressed;
}
CompressedMatrix store_otherwise_each_time(MatrixView matrix, const Settings& settings) {
  static uint8_t time = 0;
  CompressedMatrix compressed = store(matrix, settings);
  compressed.sections[0].bytes.push_back(std::byte{++time});
  return compressed;
}
void restore_first(const CompressedView& compressed, std::span<std::byte> out) {
  std::copy_n(compressed.sections[0].bytes.begin(), out.size(), out.begin());
}

// Two letters for each byte.
std::string letters_of(std::span<const std::byte> bytes) {
  std::string letters;
  for (const std::byte byte : bytes)
    for (const int shift : {4, 0}) letters += static_cast<char>('a' + (std::to_integer<int>(byte) >> shift & 15));
  return letters;
}
void bytes_of(std::string_view letters, std::span<std::byte> out) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::byte>((letters[2 * i] - 'a') << 4 | (letters[2 * i + 1] - 'a'));
}
std::string_view kept(std::string text) {
  static auto* const texts = new std::map<std::string, int>;
  return texts->try_emplace(std::move(text)).first->first;
}

// All of the matrix in the name of one section.
CompressedMatrix store_in_a_name(MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = codecs::make_compressed(matrix, settings);
  compressed.sections.push_back({kept(letters_of(matrix.elements)), backends::Role::payload, 64, {}});
  return compressed;
}
void restore_from_a_name(const CompressedView& compressed, std::span<std::byte> out) {
  bytes_of(compressed.sections.at(0).name, out);
}
// A few bytes in each name, as long as names may be.
CompressedMatrix store_in_some_names(MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = codecs::make_compressed(matrix, settings);
  for (size_t i = 0; i < 10; ++i)
    compressed.sections.push_back(
        {kept(letters_of(matrix.elements.subspan(8 * i, 8))), backends::Role::payload, 64, {}});
  const std::span<const std::byte> rest = matrix.elements.subspan(80);
  compressed.sections.back().bytes.assign(rest.begin(), rest.end());
  return compressed;
}
void restore_from_some_names(const CompressedView& compressed, std::span<std::byte> out) {
  for (size_t i = 0; i < 10; ++i) bytes_of(compressed.sections.at(i).name, out.subspan(8 * i, 8));
  std::ranges::copy(compressed.sections[9].bytes, out.begin() + 80);
}
CompressedMatrix store_in_settings(MatrixView matrix, const Settings& settings) {
  CompressedMatrix compressed = codecs::make_compressed(matrix, settings);
  compressed.settings.set("more", letters_of(matrix.elements));
  return compressed;
}
void restore_from_settings(const CompressedView& compressed, std::span<std::byte> out) {
  bytes_of(compressed.settings->text("more"), out);
}

// Each stores the number of the matrix, and the matrix elsewhere.
CompressedMatrix store_a_number(MatrixView matrix, const Settings& settings, uint8_t number) {
  CompressedMatrix compressed = codecs::make_compressed(matrix, settings);
  compressed.sections.push_back({"number", backends::Role::payload, 64, {std::byte{number}}});
  return compressed;
}
uint8_t number_of(MatrixView matrix) { return static_cast<uint8_t>(datasets::content_hash(matrix)); }
uint8_t number_in(const CompressedView& compressed) {
  return std::to_integer<uint8_t>(compressed.sections.at(0).bytes[0]);
}

std::map<uint8_t, std::vector<std::byte>> in_a_static;
std::mutex mutex;
CompressedMatrix store_in_a_static(MatrixView matrix, const Settings& settings) {
  const std::scoped_lock lock(mutex);
  const uint8_t number = number_of(matrix);
  in_a_static[number] = {matrix.elements.begin(), matrix.elements.end()};
  return store_a_number(matrix, settings, number);
}
void restore_from_a_static(const CompressedView& compressed, std::span<std::byte> out) {
  const std::scoped_lock lock(mutex);
  std::ranges::copy(in_a_static.at(number_in(compressed)), out.begin());
}

#if defined(__SANITIZE_ADDRESS__)  // fresh_decoder.cpp says why
constexpr bool kOpensNoFile = false;
#else
constexpr bool kOpensNoFile = true;
#endif
const std::string files =
    (std::filesystem::temp_directory_path() / ("ecmv_encoding_" + std::to_string(getpid()) + "_")).string();
std::string file_of(uint8_t number) { return files + std::to_string(number); }
CompressedMatrix store_in_a_file(MatrixView matrix, const Settings& settings) {
  const uint8_t number = number_of(matrix);
  std::ofstream(file_of(number), std::ios::binary)
      .write(reinterpret_cast<const char*>(matrix.elements.data()),
             static_cast<std::streamsize>(matrix.elements.size()));
  return store_a_number(matrix, settings, number);
}
void restore_from_a_file(const CompressedView& compressed, std::span<std::byte> out) {
  std::ifstream(file_of(number_in(compressed)), std::ios::binary)
      .read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
}

// Shared with every process that is forked from this one.
constexpr size_t kPlace = 4096;
std::byte* shared_places() {
  static auto* const places =
      static_cast<std::byte*>(mmap(nullptr, 256 * kPlace, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return places;
}
CompressedMatrix store_in_shared_memory(MatrixView matrix, const Settings& settings) {
  const uint8_t number = number_of(matrix);
  std::ranges::copy(matrix.elements, shared_places() + kPlace * number);
  return store_a_number(matrix, settings, number);
}
void restore_from_shared_memory(const CompressedView& compressed, std::span<std::byte> out) {
  std::copy_n(shared_places() + kPlace * number_in(compressed), out.size(), out.begin());
}

double next_to_nothing(MatrixView, const Settings&) { return 0.001; }
double below_nothing(MatrixView, const Settings&) { return -1; }
double far_too_much(MatrixView, const Settings&) { return 1e6; }

}  // namespace

TEST_CASE("an encoder gives the matrix that it was given, in sections with as much padding as they have bytes") {
  CHECK(size_of(make_codec()).status == Status::ok);
  CHECK(size_of(encoding(store_with_padding<64 * 64>)).status == Status::ok);
  expect_caught(encoding(store_as_another_shape),
                "The codec 'test' encodes a matrix of 64 x 64 elements of i8 as one of 128 x 64 elements of i8.");
  expect_caught(encoding(store_as_another_type), "as one of 64 x 64 elements of u8.");
  expect_caught(encoding(store_with_padding<64 * 64 + 1>), "declares 4097 bytes of padding in its section 'elements'");
  expect_caught(encoding(store_with_padding<-1>), "declares -1 bytes of padding");
}

TEST_CASE("a codec declares a bound, and ideal sizes that can be") {
  codecs::Codec codec = make_codec();
  codec.max_stored_bytes = nullptr;
  expect_caught(codec, "The codec 'test' declares no bound of what it stores.");
  codec = make_codec();
  codec.ideal_bits_per_element = three_bits;
  CHECK(size_of(codec).status == Status::ok);
  codec.ideal_bits_per_element = next_to_nothing;
  expect_caught(codec, "states 0.001 ideal bits of an element", Status::incorrect);
  codec.ideal_bits_per_element = below_nothing;
  expect_caught(codec, "states -1 ideal bits of an element, which cannot be", Status::incorrect);
  codec.ideal_bits_per_element = far_too_much;
  expect_caught(codec, "states 1e+06 ideal bits of an element, which cannot be", Status::incorrect);
}

TEST_CASE("ideal sizes of regular matrices may be small") {
  const datasets::Matrix rows = make_matrix("rows", {64, 512}, [](int64_t i) { return i / 512; });
  const auto reason = [](double bits, const datasets::Matrix& matrix) {
    return experiments::why_not_ideal(bits, matrix.view(), matrix.shape.elements());
  };
  CHECK(reason(0.75, rows) == "");  // 6 bits for a symbol of eight
  CHECK_THAT(reason(0.1, rows), ContainsSubstring("blocks of eight elements have an entropy of 0.75 bits"));
  CHECK(reason(0, make_matrix("constant", {32, 32}, [](int64_t) { return 7; })) == "");
}

TEST_CASE("an encoder that gives other bytes each time is found out") {
  codecs::Codec codec = encoding(store_otherwise_each_time);
  codec.decode = restore_first;
  codec.max_stored_bytes = [](datasets::Shape shape, const Settings&) { return shape.elements() + 1; };
  for (const int layers : {1, 3})
    expect_caught(codec, "encodes the same matrix a second time to other bytes", Status::incorrect, layers);
}

TEST_CASE("names of sections and settings hold no data") {
  codecs::Codec codec = encoding(store_in_a_name);
  codec.decode = restore_from_a_name;
  expect_caught(codec, "no lower_snake_case name", Status::error, 1);
  codec = encoding(store_in_some_names);
  codec.decode = restore_from_some_names;
  expect_caught(codec, "has used more than 32 different names of sections", Status::error, 5, "names");
  codec = encoding(store_in_settings);
  codec.decode = restore_from_settings;
  expect_caught(codec, "changed the settings that it was to encode with", Status::error, 1);
}

TEST_CASE("data that lies beside the sections is found out") {
  for (const int layers : {1, 3}) {
    in_a_static.clear();
    codecs::Codec codec = encoding(store_in_a_static);
    codec.decode = restore_from_a_static;
    expect_caught(codec, "the stored bytes alone are not the matrix", Status::incorrect, layers);
    codec = encoding(store_in_a_file);
    codec.decode = restore_from_a_file;
    if (kOpensNoFile) expect_caught(codec, "the stored bytes alone are not the matrix", Status::incorrect, layers);
    std::memset(shared_places(), 0, 256 * kPlace);
    codec = encoding(store_in_shared_memory);
    codec.decode = restore_from_shared_memory;
    expect_caught(codec, "the stored bytes alone are not the matrix", Status::incorrect, layers);
  }
  for (int number = 0; number < 256; ++number) std::filesystem::remove(file_of(static_cast<uint8_t>(number)));
}
