// TensorView: a named array inside the bytes of a file, as readers return it, and its way into matrices. Element types
// have the names of the safetensors format ("I8", "BF16"), blocks of GGUF theirs ("Q8_0").
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "datasets/matrix.h"

namespace ecmv::datasets {

// How elements lie in a file: row after row, column after column, or as protobuf's numbers of variable length.
enum class Layout : uint8_t { rows, columns, varints };

// Without any alignment in memory: read elements through memcpy. If `layout` is not rows, elements are big-endian, or
// `dtype` names blocks, call unpack() of unpack.h first.
struct TensorView {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  Layout layout = Layout::rows;
  bool is_big_endian = false;
  // Other tensors of the file that belong to this one (quantised_weights.h): powers of two that scale each 32 columns
  // of F4, and scales and zero points that are counted but not applied.
  std::span<const std::byte> scales = {};
  std::vector<std::span<const std::byte>> beside = {};
  bool is_beside = false;  // this tensor is in `scales` or `beside` of another one
};

// Bits of one element, 2 to 64; 0 for a type that is known by its name only, or for blocks.
int dtype_bits(std::string_view dtype);

// The name of an element type in that format.
std::string_view dtype_of(ElementType type);

// The product of the sizes. Throws DatasetError (a sentence about the tensor `name`) for negative ones and overflow.
int64_t tensor_elements(std::string_view name, const std::vector<int64_t>& shape);

// The most tensors that readers take: ten times as many as the largest models have in all of their files.
inline constexpr size_t kMaxTensors = 200'000, kMaxNameBytes = 4096;

// Exact bytes of a tensor whose rows lie one after the other. Throws DatasetError as above and for an unknown dtype,
// for sub-byte elements that do not fill whole bytes, and for rows that are not whole blocks.
int64_t tensor_bytes(std::string_view name, std::string_view dtype, const std::vector<int64_t>& shape);

// "[4, 256, 256]"
std::string shape_text(const std::vector<int64_t>& shape);

// The wanted element types.
enum class Elements { int8, floats, any };  // I8 and U8; floats but F64; all that ElementType has

// How a tensor of two or more dimensions is read: [rows, cols] is a matrix, [matrices, rows, cols] a stack of them.
// Kernels of convolutions, [outputs, inputs, width] or [outputs, inputs, height, width] and the like, are one matrix
// [outputs, all the others], as a convolution multiplies them. Three dimensions count as such a kernel if the name says
// "conv", the last is below 8, or below 64 and no multiple of 4, or the second is 1.
struct MatrixStack {
  int64_t matrices = 1;
  Shape shape;  // of each
  bool is_stack = false;
};
MatrixStack matrices_of(std::string_view name, const std::vector<int64_t>& tensor_shape);

// Why this tensor is no matrix of such elements, as the rest of a sentence. "" if it is one: of the right type (for
// blocks: unpacked ones), of two dimensions or more, and not empty.
std::string why_no_matrices(const TensorView& tensor, Elements elements);

// The most matrices that are held together. No model's file has more, and each costs kilobytes wherever it is stored,
// uploaded or checked. Throws DatasetError for more.
inline constexpr size_t kMostMatrices = 8192;
void expect_few_matrices(size_t count);

// The type of the tensor's matrices. U8 gives int8, less 128, which every codec of bytes and every product takes.
std::optional<ElementType> matrix_type(std::string_view dtype);

// The matrices of a tensor of such a type, unpacked, copied and hashed; a stack gives name.0, name.1, ... Throws
// DatasetError with the reason for other tensors.
std::vector<Matrix> to_matrices(const TensorView& tensor);

}  // namespace ecmv::datasets
