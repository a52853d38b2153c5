// See unpack.h. The constants of block formats come from ggml.
#include "datasets/layers/unpack.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "datasets/source.h"

namespace ecmv::datasets {
namespace {

constexpr int64_t kF16Bytes = 2;

constexpr BlockFormat kBlockFormats[] = {
    {.name = "Q8_0", .bytes = 34, .bits = 8},
    {.name = "Q4_0", .bytes = 18, .bits = 4, .zero = 8},
    {.name = "Q4_1", .bytes = 20, .bits = 4, .has_minimum = true},
    {.name = "Q5_0", .bytes = 22},
    {.name = "Q5_1", .bytes = 24},
    {.name = "Q8_1", .bytes = 36},
    {.name = "Q2_K", .elements = 256, .bytes = 84},
    {.name = "Q3_K", .elements = 256, .bytes = 110},
    {.name = "Q4_K", .elements = 256, .bytes = 144},
    {.name = "Q5_K", .elements = 256, .bytes = 176},
    {.name = "Q6_K", .elements = 256, .bytes = 210},
    {.name = "Q8_K", .elements = 256, .bytes = 292},
    {.name = "IQ2_XXS", .elements = 256, .bytes = 66},
    {.name = "IQ2_XS", .elements = 256, .bytes = 74},
    {.name = "IQ3_XXS", .elements = 256, .bytes = 98},
    {.name = "IQ1_S", .elements = 256, .bytes = 50},
    {.name = "IQ4_NL", .bytes = 18},
    {.name = "IQ3_S", .elements = 256, .bytes = 110},
    {.name = "IQ2_S", .elements = 256, .bytes = 82},
    {.name = "IQ4_XS", .elements = 256, .bytes = 136},
    {.name = "IQ1_M", .elements = 256, .bytes = 56},
    {.name = "TQ1_0", .elements = 256, .bytes = 54},
    {.name = "TQ2_0", .elements = 256, .bytes = 66},
    {.name = "MXFP4", .bytes = 17},
};

int64_t scales_of_a_block(const BlockFormat& format) { return kF16Bytes * (format.has_minimum ? 2 : 1); }

// Element j of 4 bits is the low half of byte j, element 16 + j the high half.
void unpack_block(const BlockFormat& format, const std::byte* block, std::byte* elements) {
  const std::byte* const numbers = block + scales_of_a_block(format);
  if (format.bits == 8) {
    std::memcpy(elements, numbers, size_t(format.elements));
    return;
  }
  const size_t half = size_t(format.elements) / 2;
  for (size_t j = 0; j < half; ++j) {
    elements[j] = std::byte(int(numbers[j] & std::byte{15}) - format.zero);
    elements[half + j] = std::byte(int(numbers[j] >> 4) - format.zero);
  }
}

// For sizes d0, M and dn, M being the product of the middle ones, element (i, m, k) lies at i + d0 (m' + M k), where m'
// counts the middle dimensions in the reverse order.
void unpack_columns(const TensorView& tensor, size_t width, std::vector<std::byte>& room) {
  constexpr int64_t kTile = 64;
  const int64_t first = tensor.shape.front(), last = tensor.shape.back();
  const int64_t between = tensor_elements(tensor.name, tensor.shape) / first / last;
  for (int64_t m = 0; m < between; ++m) {
    int64_t reversed = 0, rest = m, weight = between;
    for (size_t axis = tensor.shape.size() - 2; axis > 0; --axis) {
      weight /= tensor.shape[axis];
      reversed += rest % tensor.shape[axis] * weight;
      rest /= tensor.shape[axis];
    }
    for (int64_t i0 = 0; i0 < first; i0 += kTile)
      for (int64_t k0 = 0; k0 < last; k0 += kTile)
        for (int64_t i = i0; i < std::min(first, i0 + kTile); ++i)
          for (int64_t k = k0; k < std::min(last, k0 + kTile); ++k)
            std::memcpy(&room[size_t((i * between + m) * last + k) * width],
                        &tensor.bytes[size_t(i + first * (reversed + between * k)) * width], width);
  }
}

// Seven bits a byte, the lowest first; the highest bit says that more follow.
void unpack_varints(const TensorView& tensor, size_t width, std::vector<std::byte>& room) {
  size_t element = 0;
  uint64_t value = 0;
  int shift = 0;
  for (const std::byte byte : tensor.bytes) {
    if (shift < 64) value |= uint64_t(byte & std::byte{127}) << shift;
    shift += 7;
    if ((byte & std::byte{128}) != std::byte{0}) continue;
    if (element * width < room.size()) std::memcpy(&room[element++ * width], &value, width);
    value = 0, shift = 0;
  }
}

const BlockFormat& unpacked_format(const TensorView& tensor) {
  const BlockFormat* const format = find_block_format(tensor.dtype);
  if (format == nullptr || format->bits == 0)
    throw DatasetError("The tensor \"" + tensor.name + "\" of type " + tensor.dtype + " has no scales that are read.");
  return *format;
}

// The f16 that lies `offset` bytes after the beginning of every block.
TensorView f16_of_blocks(const TensorView& tensor, const BlockFormat& format, size_t offset,
                         std::vector<std::byte>& room) {
  TensorView view{tensor.name, "F16", tensor.shape, {}};
  view.shape.back() /= format.elements;
  const size_t blocks = tensor.bytes.size() / size_t(format.bytes);
  room.resize(blocks * kF16Bytes);
  for (size_t i = 0; i < blocks; ++i)
    std::memcpy(&room[i * kF16Bytes], &tensor.bytes[i * size_t(format.bytes) + offset], kF16Bytes);
  view.bytes = room;
  return view;
}

void expect_finite(const TensorView& tensor, std::span<const std::byte> numbers) {
  constexpr uint16_t kExponent = 0x7C00;
  for (size_t at = 0; at < numbers.size(); at += kF16Bytes) {
    uint16_t bits;
    std::memcpy(&bits, &numbers[at], sizeof(bits));
    if ((bits & kExponent) == kExponent)
      throw DatasetError("The tensor \"" + tensor.name + "\" has a block whose scale or minimum is no finite number.");
  }
}

}  // namespace

const BlockFormat* find_block_format(std::string_view dtype) {
  const auto found = std::find_if(std::begin(kBlockFormats), std::end(kBlockFormats),
                                  [&](const BlockFormat& format) { return format.name == dtype; });
  return found == std::end(kBlockFormats) ? nullptr : found;
}

std::string_view unpacked_dtype(std::string_view dtype) {
  const BlockFormat* const format = find_block_format(dtype);
  return format != nullptr && format->bits > 0 ? "I8" : dtype;
}

TensorView unpack(const TensorView& tensor, std::vector<std::byte>& room) {
  const BlockFormat* const format = find_block_format(tensor.dtype);
  if (tensor.bytes.empty() || (format == nullptr ? tensor.layout == Layout::rows : format->bits == 0)) return tensor;
  TensorView view{tensor.name, std::string(unpacked_dtype(tensor.dtype)), tensor.shape, {}};
  room.resize(size_t(tensor_bytes(view.name, view.dtype, view.shape)));
  const size_t width = size_t(dtype_bits(view.dtype)) / 8;
  if (format != nullptr)
    for (size_t i = 0; i < tensor.bytes.size() / size_t(format->bytes); ++i)
      unpack_block(*format, &tensor.bytes[i * size_t(format->bytes)], &room[i * size_t(format->elements)]);
  else if (tensor.layout == Layout::columns)
    unpack_columns(tensor, width, room);
  else
    unpack_varints(tensor, width, room);
  view.bytes = room;
  return view;
}

TensorView block_scales(const TensorView& tensor, std::vector<std::byte>& room) {
  return f16_of_blocks(tensor, unpacked_format(tensor), 0, room);
}

TensorView block_minimums(const TensorView& tensor, std::vector<std::byte>& room) {
  const BlockFormat& format = unpacked_format(tensor);
  if (!format.has_minimum)
    throw DatasetError("The tensor \"" + tensor.name + "\" of type " + tensor.dtype + " has no minimums.");
  return f16_of_blocks(tensor, format, kF16Bytes, room);
}

std::vector<Scales> scales_of_matrices(const TensorView& tensor) {
  const BlockFormat* const format = find_block_format(tensor.dtype);
  if (format == nullptr || format->bits == 0) return {};
  std::vector<std::byte> rooms[2];
  std::vector<std::span<const std::byte>> parts = {block_scales(tensor, rooms[0]).bytes};
  if (format->has_minimum) parts.push_back(block_minimums(tensor, rooms[1]).bytes);
  for (const std::span<const std::byte> part : parts) expect_finite(tensor, part);
  const auto [matrices, shape, is_stack] = matrices_of(tensor.shape);
  std::vector<Scales> found(static_cast<size_t>(matrices));
  for (size_t i = 0; i < found.size(); ++i) {
    Scales& scales = found[i];
    scales.type = ScaleType::f16;
    scales.rows = shape.rows;
    scales.groups = shape.cols / format->elements;
    scales.group_cols = format->elements;
    scales.has_minimums = format->has_minimum;
    const size_t bytes = size_t(scales.rows * scales.groups * kF16Bytes);
    for (const std::span<const std::byte> part : parts) {
      const auto own = part.subspan(i * bytes, bytes);
      scales.stored.insert(scales.stored.end(), own.begin(), own.end());
    }
  }
  return found;
}

int64_t scale_bytes(const TensorView& tensor) {
  const BlockFormat* const format = find_block_format(tensor.dtype);
  if (format == nullptr || format->bits == 0) return 0;
  return int64_t(tensor.bytes.size()) / format->bytes * scales_of_a_block(*format);
}

}  // namespace ecmv::datasets
