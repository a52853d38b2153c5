// See device_kernels.h.
#include "backends/gpu/device_kernels.h"

#include <algorithm>
#include <cstring>

#include "backends/gpu/dense_matmul.h"
#include "backends/gpu/dense_matvec.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {
namespace {

constexpr int kReadThreads = 512;

// A block reads tiles of kReadThreads x kLoads 16-byte words, every grid_size()-th one.
template <int kLoads>
ECMV_GPU_KERNEL ECMV_GPU_BOUNDS(kReadThreads, 1) void read_tiles(Pointer<const uint4> data, int64_t count, Pointer<uint32_t> sum) {
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
  launch(read_tiles<kLoads>, {tiles < most_blocks ? tiles : most_blocks, kReadThreads, 0}, stream, reinterpret_cast<const uint4*>(data), count, sum);
}

template <typename Number>
void launch_float_product(const std::byte* w, const KernelCall& call) {
  if (call.batch == 1)
    launch_matmul_rows<Number, uint4, 8, 4, 2, 1, 24>(w, call, false);
  else
    launch_matmul_rows<Number, uint4, 8, 1, 4, 8, 16>(w, call, false);
}

constexpr int kStoredWords = 64;  // 1 KiB a launch
struct StoredWords {
  uint4 words[kStoredWords];
};

// A thread stores one word.
ECMV_GPU_KERNEL void store_words(Pointer<uint4> to, int count, StoredWords stored) {
  if (thread_index() < count) to[thread_index()] = stored.words[thread_index()];
}

ECMV_GPU_KERNEL void fill_words(Pointer<uint4> to, int64_t count) {
  const int64_t i = block_index() * block_size() + thread_index();
  if (i < count) to[i] = uint4{};
}

}  // namespace

void fill_on_stream(std::byte* device, int64_t bytes, void* stream) {
  const int64_t count = bytes / 16;
  launch(fill_words, {(count + kReadThreads - 1) / kReadThreads, kReadThreads, 0}, stream, reinterpret_cast<uint4*>(device), count);
}

void store_on_stream(std::byte* device, const void* host, int64_t bytes, void* stream) {
  for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(sizeof(StoredWords))) {
    StoredWords stored{};
    const int64_t part = std::min<int64_t>(bytes - at, sizeof(StoredWords));
    std::memcpy(&stored, static_cast<const std::byte*>(host) + at, static_cast<size_t>(part));
    launch(store_words, {1, kStoredWords, 0}, stream, reinterpret_cast<uint4*>(device + at), static_cast<int>(part / 16), stored);
  }
}

void dense_product(const int8_t* w, const KernelCall& call) { launch_dense<16, 8, 1, 32>(w, call, false); }

void dense_float_product(const std::byte* w, const KernelCall& call) {
  const datasets::ElementType type = call.matrix->type;
  using enum datasets::ElementType;
  switch (type) {
    case i8: return launch_float_product<Integers<int8_t>>(w, call);
    case u8: return launch_float_product<Integers<uint8_t>>(w, call);
    case i16: return launch_float_product<Integers<int16_t>>(w, call);
    case u16: return launch_float_product<Integers<uint16_t>>(w, call);
    case bf16: return launch_float_product<Bf16>(w, call);
    case f16: return launch_float_product<F16>(w, call);
    case f8_e5m2: return launch_float_product<F8E5M2>(w, call);
    case f8_e4m3: return launch_float_product<F8E4M3>(w, call);
    case f32: return launch_float_product<F32>(w, call);
    case f64: case i32: case u32: case i64: case u64: return;  // refused before anything is uploaded: float32 does not hold them all
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
