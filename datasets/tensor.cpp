// Element types of the safetensors format and the step from tensors to matrices; see tensor.h.
#include "datasets/tensor.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <utility>

#include "datasets/layers/unpack.h"
#include "datasets/source.h"

namespace ecmv::datasets {

int dtype_bits(std::string_view dtype) {
  static constexpr std::pair<std::string_view, int> kBits[] = {
      {"BOOL", 8},    {"F6_E2M3", 6},     {"F6_E3M2", 6},     {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
      {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16},    {"BF16", 16},
      {"I32", 32},    {"U32", 32},        {"F32", 32},        {"C64", 64}, {"F64", 64}, {"I64", 64},    {"U64", 64}};
  if (const PackedType* const packed = find_packed_type(dtype); packed != nullptr) return packed->bits;
  const auto found =
      std::find_if(std::begin(kBits), std::end(kBits), [&](const auto& entry) { return entry.first == dtype; });
  return found == std::end(kBits) ? 0 : found->second;
}

int64_t tensor_elements(std::string_view name, const std::vector<int64_t>& shape) {
  const std::string who = "The tensor \"" + std::string(name) + "\"";
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 0) throw DatasetError(who + " has a negative size in its shape " + shape_text(shape) + ".");
    if (!empty && __builtin_mul_overflow(elements, size, &elements))
      throw DatasetError(who + " of shape " + shape_text(shape) + " is too large: its size overflows 64 bits.");
  }
  return empty ? 0 : elements;
}

int64_t tensor_bytes(std::string_view name, std::string_view dtype, const std::vector<int64_t>& shape) {
  const std::string who = "The tensor \"" + std::string(name) + "\"";
  const BlockFormat* const blocks = find_block_format(dtype);
  const int64_t unit_bits = blocks != nullptr ? 8 * blocks->bytes : dtype_bits(dtype);
  if (unit_bits == 0) throw DatasetError(who + " has the unknown dtype \"" + std::string(dtype) + "\".");
  int64_t bits = tensor_elements(name, shape);
  if (blocks != nullptr) {
    if (shape.empty() || shape.back() % blocks->elements != 0)
      throw DatasetError(who + " of shape " + shape_text(shape) + " does not fill whole blocks of " +
                         std::to_string(blocks->elements) + " elements, as " + std::string(dtype) + " has them.");
    bits /= blocks->elements;
  }
  if (__builtin_mul_overflow(bits, unit_bits, &bits))
    throw DatasetError(who + " of shape " + shape_text(shape) + " is too large: its size overflows 64 bits.");
  if (bits % 8 != 0) {
    throw DatasetError(who + " of dtype " + std::string(dtype) + " and shape " + shape_text(shape) +
                       " does not fill whole bytes.");
  }
  return bits / 8;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

namespace {

constexpr std::pair<std::string_view, ElementType> kTypes[] = {
    {"I8", ElementType::i8},           {"U8", ElementType::u8},          {"BF16", ElementType::bf16},
    {"F16", ElementType::f16},         {"F32", ElementType::f32},        {"F64", ElementType::f64},
    {"I16", ElementType::i16},         {"U16", ElementType::u16},        {"I32", ElementType::i32},
    {"U32", ElementType::u32},         {"I64", ElementType::i64},        {"U64", ElementType::u64},
    {"F8_E5M2", ElementType::f8_e5m2}, {"F8_E4M3", ElementType::f8_e4m3}};

std::optional<ElementType> element_type_of(std::string_view dtype) {
  for (const auto& [name, type] : kTypes)
    if (name == dtype) return type;
  return std::nullopt;
}

bool wanted(std::string_view stored, Elements elements) {
  const std::string_view dtype = unpacked_dtype(stored);
  if (elements == Elements::int8) return dtype == "I8" || dtype == "U8";
  if (elements == Elements::floats)
    return dtype == "BF16" || dtype == "F16" || dtype == "F32" || dtype == "F8_E4M3" || dtype == "F8_E5M2";
  return element_type_of(dtype).has_value();
}

constexpr std::byte kHighestBit{128};

}  // namespace

std::string_view dtype_of(ElementType type) {
  for (const auto& [name, known] : kTypes)
    if (known == type) return name;
  throw DatasetError("The safetensors format has no elements of the type " + std::string(element_type_name(type)) +
                     ".");
}

std::optional<ElementType> matrix_type(std::string_view dtype) {
  const auto type = element_type_of(unpacked_dtype(dtype));
  return type == ElementType::u8 ? ElementType::i8 : type;
}

MatrixStack matrices_of(std::string_view name, const std::vector<int64_t>& tensor_shape) {
  constexpr int64_t kWiderThanKernels = 8, kWiderThanAllKernels = 64;
  constexpr std::string_view kConvolution = "conv";
  const auto is_c = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  const bool is_convolution =
      std::search(name.begin(), name.end(), kConvolution.begin(), kConvolution.end(), is_c) != name.end();
  const int64_t last = tensor_shape.back();
  MatrixStack found;
  found.is_stack = tensor_shape.size() == 3 && tensor_shape[1] > 1 && last >= kWiderThanKernels && !is_convolution &&
                   (last % 4 == 0 || last >= kWiderThanAllKernels);
  if (found.is_stack) found.matrices = tensor_shape[0];
  found.shape.rows = tensor_shape[found.is_stack ? 1 : 0];
  const int64_t elements = tensor_elements("", tensor_shape);
  found.shape.cols = elements == 0 ? 0 : elements / found.matrices / found.shape.rows;
  return found;
}

std::string why_no_matrices(const TensorView& tensor, Elements elements) {
  if (!wanted(tensor.dtype, elements)) {
    const char* const are_read = elements == Elements::int8     ? "only I8 and U8 are wanted"
                                 : elements == Elements::floats ? "only floats of 8, 16 and 32 bits are wanted"
                                                                : "which are not read";
    return "it has elements of type " + tensor.dtype + (elements == Elements::any ? ", " : ", and ") + are_read;
  }
  if (tensor.shape.size() < 2)
    return "its shape " + shape_text(tensor.shape) + " is neither [rows, cols] nor [matrices, rows, cols]";
  if (tensor.bytes.empty()) return "its shape " + shape_text(tensor.shape) + " has no elements";
  return "";
}

void expect_few_matrices(size_t count) {
  if (count > kMostMatrices)
    throw DatasetError("It has " + std::to_string(count) + " matrices or more; at most " +
                       std::to_string(kMostMatrices) + " are read together.");
}

std::vector<Matrix> to_matrices(const TensorView& stored) {
  if (const std::string reason = why_no_matrices(stored, Elements::any); !reason.empty()) {
    throw DatasetError("The tensor \"" + stored.name + "\" gives no matrix: " + reason + ".");
  }
  const auto [count, shape, is_stack] = matrices_of(stored.name, stored.shape);
  expect_few_matrices(static_cast<size_t>(count));
  std::vector<std::byte> room;
  const TensorView tensor = unpack(stored, room);
  if (tensor_bytes(tensor.name, tensor.dtype, tensor.shape) != int64_t(tensor.bytes.size())) {
    throw DatasetError("The tensor \"" + tensor.name + "\" of shape " + shape_text(tensor.shape) + " has " +
                       std::to_string(tensor.bytes.size()) + " bytes, which is not its size.");
  }
  const ElementType type = *matrix_type(tensor.dtype);
  const bool is_unsigned = tensor.dtype == "U8";
  const size_t matrix_bytes = size_t(shape.elements() * element_bytes(type));
  std::vector<Matrix> matrices(static_cast<size_t>(count));
  for (size_t i = 0; i < matrices.size(); ++i) {
    const auto bytes = tensor.bytes.subspan(i * matrix_bytes, matrix_bytes);
    Matrix& matrix = matrices[i];
    matrix.name = is_stack ? tensor.name + "." + std::to_string(i) : tensor.name;
    matrix.shape = shape;
    matrix.type = type;
    matrix.elements.assign(bytes.begin(), bytes.end());
    if (is_unsigned)
      for (std::byte& element : matrix.elements) element ^= kHighestBit;  // less 128
    matrix.content_hash = content_hash(matrix.view());
  }
  return matrices;
}

}  // namespace ecmv::datasets
