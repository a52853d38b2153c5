// Container files: safetensors with a group of tensors for each module, see container.h. The tensors
// tell a module's number of elements but not its shape; files written here state shape and type in the metadata
// (PREFIX.shape, PREFIX.type), and a module without a shape is one row. The size of signs and mantissas tells bf16 (a
// byte an element) from fp8 (half a byte), except for a single element. Tensors that belong to no group are ignored.
#include "codecs/compressed_matrix.h"
#include "codecs/huffman_exponents/container.h"

#include <charconv>
#include <set>
#include <stdexcept>

#include "codecs/huffman_exponents/elements.h"
#include "codecs/huffman_exponents/format.h"
#include "codecs/modelling/bytes.h"
#include "datasets/files/safetensors.h"
#include "datasets/source.h"

namespace ecmv::codecs::huffman_exponents {
namespace {

using datasets::TensorView;
using Bytes = std::vector<std::byte>;

constexpr std::string_view kCoded = "encoded_exponent";
constexpr const char* kTensors[kSections] = {"luts", "encoded_exponent", "sign_mantissa", "output_positions",
                                             "gaps", "split_positions"};

[[noreturn]] void fail(const std::string& what) {
  throw MalformedStream("Not a container of Huffman-coded exponents: " + what);
}

// "layers.0.mlp" and "luts" are "layers.0.mlp.luts"; a module without a name has the bare names.
std::string tensor_name(const std::string& module, std::string_view tensor) {
  return (module.empty() ? "" : module + ".") + std::string(tensor);
}

// The modules of a file, in the order of their codes' bytes.
std::vector<std::string> modules_of(const datasets::Safetensors& file) {
  std::vector<std::string> modules;
  for (const TensorView& tensor : file.tensors) {
    if (tensor.name == kCoded)
      modules.emplace_back();
    else if (tensor.name.ends_with("." + std::string(kCoded)))
      modules.push_back(tensor.name.substr(0, tensor.name.size() - kCoded.size() - 1));
  }
  return modules;
}

// The tensor's bytes; its shape is one-dimensional but for the tables'.
Bytes bytes_of(const datasets::Safetensors& file, const std::string& module, int section) {
  const std::string name = tensor_name(module, kTensors[section]);
  const TensorView* tensor = file.find(name);
  if (tensor == nullptr && section == kSplitPositions) return {};  // of one matrix
  if (tensor == nullptr) fail("it has no tensor \"" + name + "\".");
  const std::string_view dtype = section == kSplitPositions ? "I64" : "U8";
  const bool is_table = section == kLuts;
  if (tensor->dtype != dtype || tensor->shape.size() != (is_table ? 2 : 1) ||
      (is_table && tensor->shape[1] != kTableRow))
    fail("its tensor \"" + name + "\" is " + tensor->dtype + datasets::shape_text(tensor->shape) + ", not " +
         std::string(dtype) + (is_table ? "[tables, 256]." : " of one dimension."));
  return {tensor->bytes.begin(), tensor->bytes.end()};
}

// "[4096, 11008]"
datasets::Shape parse_shape(const std::string& text, const std::string& module) {
  datasets::Shape shape;
  const char *next = text.data(), *end = next + text.size();
  const auto expect = [&](char c) {
    while (next < end && *next == ' ') ++next;
    if (next == end || *next++ != c)
      fail("the shape \"" + text + "\" of the module \"" + module + "\" is not two numbers.");
  };
  const auto number = [&]() {
    while (next < end && *next == ' ') ++next;
    int64_t value = -1;
    const auto [after, error] = std::from_chars(next, end, value);
    if (error != std::errc{} || value < 0 || value > int64_t{UINT32_MAX})
      fail("the shape \"" + text + "\" of the module \"" + module + "\" is not two numbers of 0 to 4294967295.");
    next = after;
    return value;
  };
  expect('[');
  shape.rows = number();
  expect(',');
  shape.cols = number();
  expect(']');
  return shape;
}

CompressedMatrix read_module(const datasets::Safetensors& file, const std::string& module) {
  CompressedMatrix matrix;
  matrix.codec = "huffman_exponents";
  matrix.format_version = 1;
  constexpr Role kRoles[kSections] = {Role::table, Role::payload, Role::payload, Role::index, Role::index, Role::index};
  for (int section = 0; section < kSections; ++section)
    matrix.sections.push_back({kTensors[section], kRoles[section], 64, bytes_of(file, module, section)});
  Bytes& encoded = matrix.sections[kEncoded].bytes;
  encoded.resize(encoded.size() + kSpareBytes);
  matrix.sections[kEncoded].padding_bytes = kSpareBytes;
  matrix.sections[kGaps].padding_bytes = matrix.sections[kGaps].bytes.empty() ? 0 : 1;

  const Bytes& positions = matrix.sections[kOutputPositions].bytes;
  if (positions.size() < 4) fail("the module \"" + module + "\" has no output positions.");
  const int64_t elements = modelling::load<uint32_t>(positions, positions.size() - 4);
  const int64_t raw = static_cast<int64_t>(matrix.sections[kSignMantissa].bytes.size());
  if (raw != elements && raw != ceil_div(elements, 2))
    fail("the module \"" + module + "\" has " + std::to_string(elements) + " elements and " + std::to_string(raw) +
         " bytes of signs and mantissas, neither one nor half of one for each.");
  matrix.type = raw == elements ? datasets::ElementType::bf16 : datasets::ElementType::f8_e4m3;
  const auto type = file.metadata.find(tensor_name(module, "type"));
  if (type != file.metadata.end() && raw == ceil_div(elements, 2) && type->second == "f8_e4m3")
    matrix.type = datasets::ElementType::f8_e4m3;
  if (type != file.metadata.end() && type->second != datasets::element_type_name(matrix.type))
    fail("the module \"" + module + "\" is said to be of the type \"" + type->second +
         "\", but has signs and mantissas of " + std::string(datasets::element_type_name(matrix.type)) + ".");
  const auto shape = file.metadata.find(tensor_name(module, "shape"));
  matrix.shape = shape == file.metadata.end() ? datasets::Shape{1, elements} : parse_shape(shape->second, module);
  // Both factors are below 2^32, so that their product fits 64 unsigned bits.
  if (static_cast<uint64_t>(matrix.shape.rows) * static_cast<uint64_t>(matrix.shape.cols) !=
      static_cast<uint64_t>(elements))
    fail("the module \"" + module + "\" has " + std::to_string(elements) + " elements, which do not make the shape " +
         shape->second + ".");
  return matrix;
}

}  // namespace

bool recognises_file(std::span<const std::byte> bytes) {
  if (!datasets::looks_like_safetensors(bytes)) return false;
  try {
    return !modules_of(datasets::parse_safetensors(bytes)).empty();
  } catch (const std::runtime_error&) {
    return false;
  }
}

ChainFile read_file(std::span<const std::byte> bytes) try {
  const datasets::Safetensors file = datasets::parse_safetensors(bytes);
  ChainFile chain;
  chain.names = modules_of(file);
  if (chain.names.empty()) fail("it has no tensor of encoded exponents.");
  std::set<std::string> known;
  for (const std::string& module : chain.names) {
    for (const char* tensor : kTensors) known.insert(tensor_name(module, tensor));
    chain.layers.push_back(read_module(file, module));
  }
  for (const TensorView& tensor : file.tensors) chain.has_more = chain.has_more || !known.contains(tensor.name);
  return chain;
} catch (const datasets::DatasetError& error) {
  throw MalformedStream(error.what());
}

std::vector<std::byte> write_file(const ChainFile& chain) {
  if (chain.layers.empty() || chain.names.size() != chain.layers.size())
    throw std::invalid_argument("A container of Huffman-coded exponents needs modules, each with a name.");
  std::vector<TensorView> tensors;
  std::map<std::string, std::string> metadata;
  for (size_t layer = 0; layer < chain.layers.size(); ++layer) {
    const CompressedMatrix& matrix = chain.layers[layer];
    if (matrix.sections.size() != kSections)
      throw std::invalid_argument("A module of Huffman-coded exponents has six sections.");
    metadata[tensor_name(chain.names[layer], "shape")] = datasets::shape_text({matrix.shape.rows, matrix.shape.cols});
    metadata[tensor_name(chain.names[layer], "type")] = datasets::element_type_name(matrix.type);
    for (int section = 0; section < kSections; ++section) {
      std::span<const std::byte> bytes = matrix.sections[static_cast<size_t>(section)].bytes;
      if (section == kEncoded) bytes = bytes.first(bytes.size() - kSpareBytes);
      const int64_t size = static_cast<int64_t>(bytes.size());
      std::vector<int64_t> shape = {section == kSplitPositions ? size / 8 : size};
      if (section == kLuts) shape = {size / kTableRow, kTableRow};
      tensors.push_back({tensor_name(chain.names[layer], kTensors[section]), section == kSplitPositions ? "I64" : "U8",
                         shape, bytes});
    }
  }
  return datasets::write_safetensors(tensors, metadata);
}

}  // namespace ecmv::codecs::huffman_exponents
