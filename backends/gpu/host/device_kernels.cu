// See device_kernels.h.
#include "backends/gpu/host/device_kernels.h"

#include <algorithm>

#include "backends/gpu/products/dense_matmul.h"
#include "backends/gpu/products/dense_matvec.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {
namespace {

constexpr int kReadThreads = 512;

// A block reads every grid_size()-th tile of kReadThreads x kLoads 16-byte words.
template <int kLoads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kReadThreads, 1) void read_tiles(Pointer<const uint4> data, int64_t count,
                                                                 Pointer<uint32_t> sum) {
  constexpr int64_t kTile = int64_t{kReadThreads} * kLoads;
  uint32_t total = 0;
  for (int64_t tile = block_index() * kTile; tile < count; tile += grid_size() * kTile) {
    uint4 words[kLoads];
    ECMV_GPU_UNROLL
    for (int l = 0; l < kLoads; ++l) {
      const int64_t at = tile + l * kReadThreads + thread_index();
      words[l] = at < count ? load_streaming(data + at) : uint4{};
    }
    ECMV_GPU_UNROLL
    for (int l = 0; l < kLoads; ++l) total += words[l].x + words[l].y + words[l].z + words[l].w;
  }
  total = static_cast<uint32_t>(Wave::reduce_add(static_cast<int32_t>(total)));
  if (Wave::lane() == 0) atomic_add(sum, total);
}

template <int kLoads>
void launch_read(const std::byte* data, int64_t bytes, uint32_t* sum, int64_t most_blocks, void* stream) {
  const int64_t count = bytes / 16, tiles = (count + kReadThreads * kLoads - 1) / (kReadThreads * kLoads);
  launch(read_tiles<kLoads>, {tiles < most_blocks ? tiles : most_blocks, kReadThreads, 0}, stream,
         reinterpret_cast<const uint4*>(data), count, sum);
}

constexpr int kCompareThreads = 256;
int64_t comparing_blocks(const DeviceInfo& device) { return 8 * std::max<int64_t>(1, device.compute_units); }

// A thread compares its words in ascending order, so its first difference ends its search.
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kCompareThreads, 1) void compare_words(Pointer<const std::byte> one,
                                                                       Pointer<const std::byte> other, int64_t bytes,
                                                                       Pointer<int64_t> firsts) {
  constexpr int64_t kWord = sizeof(uint4);
  int64_t first = bytes;
  for (int64_t at = (block_index() * kCompareThreads + thread_index()) * kWord; at < first;
       at += grid_size() * kCompareThreads * kWord) {
    if (at + kWord <= bytes) {
      const uint4 a = *cast<const uint4>(one + at), b = *cast<const uint4>(other + at);
      if (((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) == 0) continue;
    }
    for (int64_t i = (at + kWord < bytes ? at + kWord : bytes) - 1; i >= at; --i)
      if (one[i] != other[i]) first = i;
  }
  for (int distance = Wave::size() / 2; distance > 0; distance /= 2) {
    const int64_t theirs = Wave::shuffle_xor(first, distance);
    first = theirs < first ? theirs : first;
  }
  if (Wave::lane() == 0) firsts[block_index() * (kCompareThreads / Wave::size()) + Wave::group()] = first;
}

template <typename Number>
void launch_float_product(const DenseMatrix& matrix, void* stream, const MatmulArgs& args, int batch) {
  if (batch == 1)
    launch_matmul_rows<Number, uint4, 8, 4, 2, 1, 24>(matrix, stream, args, batch);
  else
    launch_matmul_rows<Number, uint4, 8, 1, 4, 8, 16>(matrix, stream, args, batch);
}

ECMV_GPU_KERNEL void requantise_all(Pointer<const int32_t> sums, int64_t rows, Epilogue epilogue) {
  const int64_t row = block_index() * block_size() + thread_index();
  if (row < rows) epilogue.store(row, sums[row]);
}

ECMV_GPU_KERNEL void scale_all(Pointer<float> y, int64_t rows, int64_t results, Pointer<const uint16_t> scales,
                               bool one_for_all) {
  const int64_t at = block_index() * block_size() + thread_index();
  if (at >= results) return;
  const uint16_t bits = scales[one_for_all ? 0 : at % rows];
  y[at] = y[at] * float_of(uint32_t{bits} << 16);
}

// Numbers of a caller's memory, in either type of activations.
struct Numbers {
  Pointer<std::byte> first;
  bool is_bf16;

  ECMV_GPU_DEVICE float at(int64_t i) const {
    if (is_bf16) return float_of(uint32_t{*cast<const uint16_t>(first + 2 * i)} << 16);
    return *cast<const float>(first + 4 * i);
  }
  ECMV_GPU_DEVICE void store(int64_t i, float number) const {
    if (is_bf16)
      *cast<uint16_t>(first + 2 * i) = bf16_of(number);
    else
      *cast<float>(first + 4 * i) = number;
  }
};
Numbers numbers_at(const std::byte* first, Activations type) {
  return {const_cast<std::byte*>(first), type == Activations::bf16};
}

constexpr int kCallerThreads = 256;
int64_t caller_blocks(int64_t numbers) { return (numbers + kCallerThreads - 1) / kCallerThreads; }

ECMV_GPU_KERNEL void load_each(Numbers from, int64_t from_stride, Numbers to, int64_t to_stride, int64_t cols,
                               int64_t count) {
  let_next_begin();
  wait_for_previous();
  const int64_t i = block_index() * block_size() + thread_index();
  if (i >= count) return;
  const int64_t col = i % to_stride;
  to.store(i, col < cols ? from.at(i / to_stride * from_stride + col) : 0.0f);
}

ECMV_GPU_KERNEL void store_each(Pointer<const float> y, int64_t rows, int64_t count, Numbers bias, bool has_bias,
                                Numbers to, int64_t to_stride) {
  wait_for_previous();
  const int64_t i = block_index() * block_size() + thread_index();
  if (i >= count) return;
  const float sum = y[i];
  to.store(i / rows * to_stride + i % rows, has_bias ? sum + bias.at(i % rows) : sum);
}

struct ElementScales {
  Pointer<const std::byte> stored;
  datasets::ScaleType type;
  int64_t rows, groups, group_cols;
  float factor;
  bool has_minimums;

  ECMV_GPU_DEVICE int64_t place_of(int64_t row, int64_t col) const {
    return (rows == 1 ? 0 : row * groups) + col / group_cols;
  }
  ECMV_GPU_DEVICE float of(int64_t row, int64_t col) const {
    const int64_t at = place_of(row, col);
    switch (type) {
      case datasets::ScaleType::f16: return factor * f16_number(*cast<const uint16_t>(stored + 2 * at));
      case datasets::ScaleType::e4m3: return factor * f8_e4m3_number(*cast<const uint8_t>(stored + at));
      case datasets::ScaleType::e8m0: return factor * float_of(uint32_t{*cast<const uint8_t>(stored + at)} << 23);
      default: return factor * float_of(uint32_t{*cast<const uint16_t>(stored + 2 * at)} << 16);
    }
  }
  ECMV_GPU_DEVICE float minimum_of(int64_t row, int64_t col) const {
    return f16_number(*cast<const uint16_t>(stored + 2 * (rows * groups + place_of(row, col))));
  }
};

ECMV_GPU_KERNEL void scale_each(Pointer<const std::byte> elements, datasets::ElementType type, int64_t count,
                                int64_t cols, ElementScales scales, Pointer<float> numbers) {
  const int64_t i = block_index() * block_size() + thread_index();
  if (i >= count) return;
  const float scaled = number_at(elements, i, type) * scales.of(i / cols, i % cols);
  numbers[i] = scales.has_minimums ? scaled + scales.minimum_of(i / cols, i % cols) : scaled;
}

}  // namespace

void scale_elements(const DenseMatrix& matrix, const GroupScales& scales, float* numbers, void* stream) {
  constexpr int kThreads = 256;
  const int64_t count = matrix.shape.elements();
  const datasets::Scales& layout = *scales.layout;
  if (count == 0) return;
  launch(scale_each, {(count + kThreads - 1) / kThreads, kThreads, 0}, stream, matrix.elements, matrix.type, count,
         matrix.shape.cols,
         ElementScales{scales.stored, layout.type, layout.rows, layout.groups, layout.group_cols, layout.factor,
                       layout.has_minimums},
         numbers);
}

void load_tokens(const LoadTokens& step, const DeviceInfo& device, void* stream) {
  const int64_t count = step.tokens * step.to_stride;
  LaunchShape shape{caller_blocks(count), kCallerThreads, 0};
  shape.early = have_early_launches(device);
  launch(load_each, shape, stream, numbers_at(step.from, step.from_type), step.from_stride,
         numbers_at(step.to, step.to_type), step.to_stride, step.cols, count);
}

void store_products(const StoreProducts& step, const DeviceInfo& device, void* stream) {
  const int64_t count = step.tokens * step.rows;
  LaunchShape shape{caller_blocks(count), kCallerThreads, 0};
  shape.early = have_early_launches(device);
  launch(store_each, shape, stream, step.y, step.rows, count, numbers_at(step.bias, step.type), step.bias != nullptr,
         numbers_at(step.to, step.type), step.to_stride);
}

void scale_rows(float* y, int64_t rows, int batch, const uint16_t* scales, bool one_for_all, void* stream) {
  constexpr int kThreads = 256;
  const int64_t results = rows * batch;
  if (results == 0) return;
  launch(scale_all, {(results + kThreads - 1) / kThreads, kThreads, 0}, stream, y, rows, results, scales, one_for_all);
}

void requantise_rows(const int32_t* sums, int64_t rows, int32_t* y, int8_t* v, float scale, void* stream) {
  constexpr int kThreads = 256;
  launch(requantise_all, {(rows + kThreads - 1) / kThreads, kThreads, 0}, stream, sums, rows, Epilogue{y, v, scale});
}

int64_t comparing_waves(const DeviceInfo& device) {
  return comparing_blocks(device) * kCompareThreads / device.wave_size;
}

void find_differences(const std::byte* one, const std::byte* other, int64_t bytes, int64_t* firsts,
                      const DeviceInfo& device, void* stream) {
  launch(compare_words, {comparing_blocks(device), kCompareThreads, 0}, stream, one, other, bytes, firsts);
}

void dense_product(const DenseMatrix& matrix, void* stream, const MatvecArgs& args) {
  launch_dense<16, 8, 1, 32>(matrix, stream, args);
}

void dense_product(const DenseMatrix& matrix, void* stream, const MatmulArgs& args, int batch) {
  using enum datasets::ElementType;
  switch (matrix.type) {
    case i8: return launch_float_product<Integers<int8_t>>(matrix, stream, args, batch);
    case u8: return launch_float_product<Integers<uint8_t>>(matrix, stream, args, batch);
    case i16: return launch_float_product<Integers<int16_t>>(matrix, stream, args, batch);
    case u16: return launch_float_product<Integers<uint16_t>>(matrix, stream, args, batch);
    case bf16: return launch_float_product<Bf16>(matrix, stream, args, batch);
    case f16: return launch_float_product<F16>(matrix, stream, args, batch);
    case f8_e5m2: return launch_float_product<F8E5M2>(matrix, stream, args, batch);
    case f8_e4m3: return launch_float_product<F8E4M3>(matrix, stream, args, batch);
    case f32: return launch_float_product<F32>(matrix, stream, args, batch);
    case f64:
    case i32:
    case u32:
    case i64:
    case u64: return;  // refused before upload: float32 does not hold all of them
  }
}

void read_all(const std::byte* data, int64_t bytes, uint32_t* sum, int form, const DeviceInfo& device, void* stream) {
  constexpr int64_t kNoLimit = int64_t{1} << 30;
  switch (form) {
    case 0: return launch_read<8>(data, bytes, sum, kNoLimit, stream);
    case 1: return launch_read<4>(data, bytes, sum, kNoLimit, stream);
    case 2: return launch_read<8>(data, bytes, sum, 4 * int64_t{device.compute_units}, stream);
    case 3: return launch_read<4>(data, bytes, sum, 4 * int64_t{device.compute_units}, stream);
  }
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE
