// Reader of uncompressed MatVANS files and the source `matvans`. The .bin layout has no magic: it is accepted
// only if its sizes use up the file exactly, which no compressed twin does by accident.
#include "datasets/files/matvans.h"

#include <bit>
#include <cstring>

#include "datasets/files/byte_reader.h"
#include "datasets/files/file_bytes.h"
#include "datasets/files/safetensors.h"
#include "datasets/parameters.h"

namespace ecmv::datasets {
namespace {

constexpr std::string_view kNoMatvans = "Not an uncompressed MatVANS file";

[[noreturn]] void bad_matvans(const std::string& what) { throw DatasetError(std::string(kNoMatvans) + ": " + what); }

std::vector<int8_t> to_i8(std::span<const std::byte> bytes) {
  std::vector<int8_t> values(bytes.size());
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<uint32_t> to_u32(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, kNoMatvans);
  std::vector<uint32_t> values(bytes.size() / 4);
  for (uint32_t& value : values) value = reader.u32("a tensor");
  return values;
}

const TensorView& require(const Safetensors& file, const char* name, const char* dtype,
                          const std::vector<int64_t>& shape) {
  const TensorView* tensor = file.find(name);
  if (tensor == nullptr) bad_matvans(std::string("it has no tensor \"") + name + "\".");
  if (tensor->dtype != dtype || tensor->shape != shape) {
    bad_matvans(std::string("its tensor \"") + name + "\" is " + tensor->dtype + shape_text(tensor->shape) + ", not " +
                dtype + shape_text(shape) + ".");
  }
  return *tensor;
}

MatvansFile parse_container(std::span<const std::byte> bytes) {
  const Safetensors file = parse_safetensors(bytes);
  const TensorView* matrices = file.find("matrices");
  if (matrices == nullptr) {
    bad_matvans(file.find("compressed") == nullptr
                    ? "the container has no tensor \"matrices\"."
                    : "its matrices are compressed (it has a tensor \"compressed\" instead of \"matrices\").");
  }
  if (matrices->shape.size() != 3) bad_matvans("the shape of \"matrices\" is not [layers, rows, cols].");
  const int64_t count = matrices->shape[0];
  const int64_t cols = matrices->shape[2];
  require(file, "matrices", "I8", {count, cols, cols});
  MatvansFile result;
  expect_few_matrices(static_cast<size_t>(count));
  // However narrow its matrices are, the tensor is read as a stack.
  const size_t bytes_of_layer = static_cast<size_t>(cols * cols);
  for (int64_t layer = 0; layer < count; ++layer)
    result.layers.push_back(
        std::move(to_matrices({"matrices." + std::to_string(layer),
                               "I8",
                               {cols, cols},
                               matrices->bytes.subspan(static_cast<size_t>(layer) * bytes_of_layer, bytes_of_layer)})
                      .front()));
  result.initial_vector = to_i8(require(file, "initial_vector", "I8", {cols}).bytes);
  for (const uint32_t bits : to_u32(require(file, "scales", "F32", {count}).bytes)) {
    result.scales.push_back(std::bit_cast<float>(bits));
  }
  result.hashes = to_u32(require(file, "hashes", "U32", {count}).bytes);
  return result;
}

MatvansFile parse_bin(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, kNoMatvans);
  const uint32_t count = reader.u32("its header");
  MatvansFile result;
  result.hashes = {reader.u32("its header")};
  const uint32_t length = reader.u32("its header");
  result.initial_vector = to_i8(reader.take(length, "its initial vector"));
  reader.take((4 - length % 4) % 4, "its initial vector");
  if (count == 0 || length == 0) bad_matvans("it has no layers or an empty initial vector.");
  if (uint64_t{count} * 12 <= bytes.size()) expect_few_matrices(count);  // otherwise it is no such file
  uint32_t expected_cols = length;
  for (uint32_t layer = 0; layer < count; ++layer) {
    const uint32_t rows = reader.u32("a matrix header");
    const uint32_t cols = reader.u32("a matrix header");
    const float grid_spacing = std::bit_cast<float>(reader.u32("a matrix header"));
    const std::string who = "layer " + std::to_string(layer);
    if (grid_spacing != 1.0f) bad_matvans("the grid spacing of " + who + " is not 1.");
    if (rows == 0 || cols != expected_cols) {
      bad_matvans(who + " has shape [" + std::to_string(rows) + ", " + std::to_string(cols) +
                  "] and does not fit the vector of " + std::to_string(expected_cols) + " before it.");
    }
    const auto elements = reader.take(uint64_t{rows} * cols, who);
    result.layers.push_back(std::move(
        to_matrices({"matrices." + std::to_string(layer), "I8", {int64_t(rows), int64_t(cols)}, elements}).front()));
    expected_cols = rows;
  }
  if (reader.left() != 0) bad_matvans(std::to_string(reader.left()) + " bytes follow the last matrix.");
  return result;
}

}  // namespace

MatvansFile parse_matvans_uncompressed(std::span<const std::byte> bytes) {
  return looks_like_safetensors(bytes) ? parse_container(bytes) : parse_bin(bytes);
}

uint32_t matvans_hash(std::span<const int8_t> vector) {
  uint32_t hash = 0;
  for (const int8_t value : vector) hash = (std::rotl(hash, 5) ^ uint8_t(value)) * 0x27220A95u;
  return hash;
}

namespace {

constexpr ParameterInfo kMatvansParameters[] = {
    {.name = "file", .help = "path of the file", .is_text = true, .required = true},
};

Dataset load_matvans(const SourceRequest& request);
SourceFacts check_matvans(const SourceRequest& request);

}  // namespace

extern const DataSource kMatvansSource{"matvans",    "matrices and initial vector of an uncompressed MatVANS file",
                                       false,        kMatvansParameters,
                                       load_matvans, 1,
                                       check_matvans};

namespace {

// Only the end of the file tells whether it is one.
SourceFacts check_matvans(const SourceRequest& request) {
  SourceFacts facts;
  for (const Matrix& matrix : load_matvans(request).layers) facts.bytes += matrix.shape.elements();
  return facts;
}

Dataset load_matvans(const SourceRequest& request) {
  const std::string path = Parameters(kMatvansSource, request).text("file");
  const FileBytes file(path);
  try {
    MatvansFile content = parse_matvans_uncompressed(file.bytes());
    return {std::move(content.layers), std::move(content.initial_vector)};
  } catch (const DatasetError& error) {
    throw DatasetError("In the file \"" + path + "\": " + error.what());
  }
}

}  // namespace
}  // namespace ecmv::datasets
