// See unpack.h.
#include "datasets/layers/unpack.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "datasets/source.h"

namespace ecmv::datasets {
namespace {

// Code j of 4 bits is the low half of byte j of its run, code n / 2 + j the high half.
void unpack_block(const BlockFormat& format, const std::byte* block, std::byte* elements, bool codes) {
  const std::byte* const numbers = block + format.bytes_of_scales();
  if (format.bits == 8) {
    std::memcpy(elements, numbers, size_t(format.elements));
    return;
  }
  const auto element = [&](std::byte code) {
    return std::byte(codes && format.code == Code::e2m1
                         ? int(code)
                         : element_of_code(format.code, format.bits, int(code)) - format.zero);
  };
  const int64_t half = format.scale_cols / 2;
  for (int64_t j = 0; j < format.elements / 2; ++j) {
    std::byte* const first = elements + j / half * format.scale_cols + j % half;
    first[0] = element(numbers[j] & std::byte{15});
    first[half] = element(numbers[j] >> 4);
  }
}

uint32_t word_at(const TensorView& tensor, int64_t word) {
  uint32_t bits;
  std::memcpy(&bits, &tensor.bytes[size_t(word) * sizeof(bits)], sizeof(bits));
  return bits;
}

// The code of output `o` for input `i`, of a tensor [outputs, inputs].
int gptq_code(const TensorView& tensor, int bits, int64_t o, int64_t i) {
  const int64_t outputs = tensor.shape[0], first = i * bits / 32, shift = i * bits % 32;
  uint64_t words = word_at(tensor, first * outputs + o);
  if (shift + bits > 32) words |= uint64_t{word_at(tensor, (first + 1) * outputs + o)} << 32;
  return int(words >> shift & ((1u << bits) - 1));
}
int awq_code(const TensorView& tensor, int64_t o, int64_t i) {
  constexpr int kPlaces[] = {0, 4, 1, 5, 2, 6, 3, 7};  // of eight outputs in a word
  return int(word_at(tensor, i * (tensor.shape[0] / 8) + o / 8) >> (4 * kPlaces[o % 8]) & 15);
}

// Codes of 3, 5 and 6 bits cross bytes.
int low_first_code(std::span<const std::byte> bytes, int bits, int64_t at) {
  const auto first = size_t(at * bits / 8);
  const int shift = int(at * bits % 8), low = int(bytes[first]) >> shift;
  const int code = shift + bits > 8 ? low | int(bytes[first + 1]) << (8 - shift) : low;
  return code & ((1 << bits) - 1);
}

void unpack_codes(const TensorView& tensor, const PackedType& type, std::vector<std::byte>& room, bool codes) {
  using Order = PackedType::Order;
  const int mask = (1 << type.bits) - 1, of_byte = 8 / type.bits;
  const auto code_at = [&](int64_t at) {
    if (type.order == Order::gptq) return gptq_code(tensor, type.bits, at / tensor.shape[1], at % tensor.shape[1]);
    if (type.order == Order::awq) return awq_code(tensor, at / tensor.shape[1], at % tensor.shape[1]);
    if (type.order == Order::low_first) return low_first_code(tensor.bytes, type.bits, at);
    return int(tensor.bytes[size_t(at / of_byte)]) >> ((of_byte - 1 - at % of_byte) * type.bits) & mask;
  };
  for (size_t at = 0; at < room.size(); ++at) {
    const int code = code_at(int64_t(at));
    room[at] = std::byte(codes ? code : element_of_code(type.code, type.bits, code));
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

constexpr int64_t kColsOfE8m0 = 32;  // of F4, as the MX formats have it

// How the scales of a tensor lie: those of F4 stand in a run of their own, where the file has some.
struct ScaleLayout {
  ScaleType type = ScaleType::f16;
  int64_t cols = 0, width = 0, of_block = 0;  // columns of a scale, its bytes, scales of a block
  int64_t block_bytes = 0;
  std::span<const std::byte> bytes;
  float factor = 1;
  bool has_minimums = false;
};
std::optional<ScaleLayout> scale_layout(const TensorView& tensor) {
  const BlockFormat* const format = find_block_format(tensor.dtype);
  if (format != nullptr && format->bits > 0)
    return ScaleLayout{format->scale, format->scale_cols, format->scale_width(), format->scales(),
                       format->bytes, tensor.bytes,       format->factor(),      format->has_minimum};
  if (tensor.scales.empty()) return std::nullopt;
  return ScaleLayout{ScaleType::e8m0, kColsOfE8m0, 1, 1, 1, tensor.scales, 0.5f, false};
}

// The scales, or whatever else lies `offset` bytes after the beginning of every block.
TensorView of_blocks(const TensorView& tensor, const ScaleLayout& layout, int64_t offset,
                     std::vector<std::byte>& room) {
  const char* const dtype = layout.type == ScaleType::f16    ? "F16"
                            : layout.type == ScaleType::e4m3 ? "F8_E4M3"
                                                             : "F8_E8M0";
  TensorView view{tensor.name, dtype, tensor.shape, {}};
  view.shape.back() /= layout.cols;
  const size_t blocks = layout.bytes.size() / size_t(layout.block_bytes), each = size_t(layout.width * layout.of_block);
  room.resize(blocks * each);
  for (size_t i = 0; i < blocks; ++i)
    std::memcpy(&room[i * each], &layout.bytes[i * size_t(layout.block_bytes) + size_t(offset)], each);
  view.bytes = room;
  return view;
}

ScaleLayout expected_scales(const TensorView& tensor) {
  const auto layout = scale_layout(tensor);
  if (!layout)
    throw DatasetError("The tensor \"" + tensor.name + "\" of type " + tensor.dtype + " has no scales that are read.");
  return *layout;
}

// Powers of two so large that numbers would leave float32's range count as infinite.
void expect_finite(const TensorView& tensor, std::span<const std::byte> numbers, ScaleType type) {
  constexpr uint16_t kExponent = 0x7C00;
  constexpr std::byte kMostOfE8m0{250}, kNan{127};
  const size_t width = type == ScaleType::f16 ? 2 : 1;
  for (size_t at = 0; at < numbers.size(); at += width) {
    uint16_t bits = 0;
    std::memcpy(&bits, &numbers[at], width);
    if (type == ScaleType::f16    ? (bits & kExponent) == kExponent
        : type == ScaleType::e8m0 ? numbers[at] > kMostOfE8m0
                                  : (numbers[at] & kNan) == kNan)
      throw DatasetError("The tensor \"" + tensor.name + "\" has a block whose scale or minimum is no finite number.");
  }
}

// For each matrix its part of what stands beside the tensor.
std::vector<Scales> scales_beside(const TensorView& tensor) {
  if (tensor.beside.empty()) return {};
  std::vector<Scales> found(size_t(matrices_of(tensor.name, tensor.shape).matrices));
  for (size_t i = 0; i < found.size(); ++i)
    for (const std::span<const std::byte> all : tensor.beside) {
      const size_t each = all.size() / found.size();
      const auto own = i + 1 == found.size() ? all.subspan(i * each) : all.subspan(i * each, each);
      found[i].stored.insert(found[i].stored.end(), own.begin(), own.end());
    }
  return found;
}

}  // namespace

std::string_view unpacked_dtype(std::string_view dtype) {
  const BlockFormat* const format = find_block_format(dtype);
  return (format != nullptr && format->bits > 0) || find_packed_type(dtype) != nullptr ? "I8" : dtype;
}

TensorView unpack(const TensorView& tensor, std::vector<std::byte>& room, bool codes) {
  const BlockFormat* const format = find_block_format(tensor.dtype);
  const PackedType* const packed = find_packed_type(tensor.dtype);
  const bool is_plain = format == nullptr ? packed == nullptr && tensor.layout == Layout::rows && !tensor.is_big_endian
                                          : format->bits == 0;
  if (tensor.bytes.empty() || is_plain || tensor.dtype.starts_with("F6_")) return tensor;
  TensorView view{tensor.name, std::string(unpacked_dtype(tensor.dtype)), tensor.shape, {}};
  room.resize(size_t(tensor_bytes(view.name, view.dtype, view.shape)));
  const size_t width = size_t(dtype_bits(view.dtype)) / 8;
  if (format != nullptr) {
    for (size_t i = 0; i < tensor.bytes.size() / size_t(format->bytes); ++i)
      unpack_block(*format, &tensor.bytes[i * size_t(format->bytes)], &room[i * size_t(format->elements)], codes);
  } else if (packed != nullptr) {
    TensorView dense = tensor;
    std::vector<std::byte> bytes;
    if (tensor.layout == Layout::varints) {  // each holds a byte of codes
      bytes.resize((room.size() * size_t(packed->bits) + 7) / 8);
      unpack_varints(tensor, 1, bytes);
      dense.bytes = bytes;
    }
    unpack_codes(dense, *packed, room, codes);
  } else if (tensor.layout == Layout::columns) {
    unpack_columns(tensor, width, room);
  } else if (tensor.layout == Layout::varints) {
    unpack_varints(tensor, width, room);
  } else {
    std::ranges::copy(tensor.bytes, room.begin());
  }
  if (tensor.is_big_endian) {
    const auto number = std::ptrdiff_t(view.dtype == "C64" ? width / 2 : width);
    for (auto at = room.begin(); at != room.end(); at += number) std::reverse(at, at + number);
  }
  view.bytes = room;
  return view;
}

TensorView block_scales(const TensorView& tensor, std::vector<std::byte>& room) {
  return of_blocks(tensor, expected_scales(tensor), 0, room);
}

TensorView block_minimums(const TensorView& tensor, std::vector<std::byte>& room) {
  const ScaleLayout layout = expected_scales(tensor);
  if (!layout.has_minimums)
    throw DatasetError("The tensor \"" + tensor.name + "\" of type " + tensor.dtype + " has no minimums.");
  return of_blocks(tensor, layout, layout.width, room);
}

std::vector<Scales> scales_of_matrices(const TensorView& tensor) {
  const auto layout = scale_layout(tensor);
  if (!layout) return scales_beside(tensor);
  std::vector<std::byte> rooms[2];
  std::vector<std::span<const std::byte>> parts = {block_scales(tensor, rooms[0]).bytes};
  if (layout->has_minimums) parts.push_back(block_minimums(tensor, rooms[1]).bytes);
  for (const std::span<const std::byte> part : parts) expect_finite(tensor, part, layout->type);
  const auto [matrices, shape, is_stack] = matrices_of(tensor.name, tensor.shape);
  std::vector<Scales> found(static_cast<size_t>(matrices));
  for (size_t i = 0; i < found.size(); ++i) {
    Scales& scales = found[i];
    scales.type = layout->type;
    scales.rows = shape.rows;
    scales.groups = shape.cols / layout->cols;
    scales.group_cols = layout->cols;
    scales.factor = layout->factor;
    scales.has_minimums = layout->has_minimums;
    const size_t bytes = size_t(scales.rows * scales.groups * layout->width);
    for (const std::span<const std::byte> part : parts) {
      const auto own = part.subspan(i * bytes, bytes);
      scales.stored.insert(scales.stored.end(), own.begin(), own.end());
    }
  }
  return found;
}

int64_t scale_cols(const TensorView& tensor) {
  const auto layout = scale_layout(tensor);
  return layout ? layout->cols : 0;
}

int64_t stored_bytes(const TensorView& tensor) {
  const int bits = dtype_bits(tensor.dtype);
  if (tensor.layout != Layout::varints || bits == 0) return int64_t(tensor.bytes.size());
  return (tensor_elements(tensor.name, tensor.shape) * bits + 7) / 8;
}

int64_t scale_bytes(const TensorView& tensor) {
  const BlockFormat* const format = find_block_format(tensor.dtype);
  if (format == nullptr || format->bits == 0) return 0;
  return int64_t(tensor.bytes.size()) / format->bytes * format->bytes_of_scales();
}

int64_t bytes_beside(const TensorView& tensor) {
  auto bytes = int64_t(tensor.scales.size());
  for (const std::span<const std::byte> one : tensor.beside) bytes += int64_t(one.size());
  return bytes;
}

}  // namespace ecmv::datasets
