// GPU kernels of raw_fp32: one wave a row with four independent 16-byte loads a lane, the conversion to int8, and
// `blas`, the platform's own product of a float32 matrix and vector. Every sum is an integer below 2^24 (see format.h),
// so all orders of addition give the same result.
#include "backends/gpu/host/blas.h"
#include "backends/gpu/lanes.h"
#include "backends/gpu/products/requantise.h"
#include "codecs/modelling/sections_gpu.h"
#include "codecs/raw_fp32/format.h"

namespace ecmv::codecs::raw_fp32::ECMV_GPU_NAMESPACE {
namespace {

namespace gpu = backends::gpu;

constexpr int kLoads = 4;  // loads of a lane before it uses the first

ECMV_GPU_DEVICE float float_of(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

// Four products; x holds four int8.
ECMV_GPU_DEVICE float dot(gpu::uint4 w, uint32_t x, float sum) {
  sum += float_of(w.x) * static_cast<float>(static_cast<int8_t>(x));
  sum += float_of(w.y) * static_cast<float>(static_cast<int8_t>(x >> 8));
  sum += float_of(w.z) * static_cast<float>(static_cast<int8_t>(x >> 16));
  return sum + float_of(w.w) * static_cast<float>(static_cast<int8_t>(x >> 24));
}

// kWide: cols is a multiple of 4, so every row begins at a multiple of 16 bytes.
template <bool kWide>
ECMV_GPU_KERNEL void wave_per_row(gpu::Pointer<const float> w, int64_t rows, int cols, gpu::Pointer<const int8_t> x,
                                  gpu::Epilogue epilogue) {
  const int64_t row = gpu::block_index() * (gpu::block_size() / gpu::wave_size()) + gpu::Wave::group();
  if (row >= rows) return;
  const int lane = gpu::Wave::lane(), lanes = gpu::Wave::size();
  float sum = 0;
  if constexpr (kWide) {
    const gpu::Pointer<const gpu::uint4> weights = gpu::cast<const gpu::uint4>(w + row * cols);
    const gpu::Pointer<const uint32_t> inputs = gpu::cast<const uint32_t>(x);
    const int chunks = cols / 4;
    int begin = 0;
    for (; begin + kLoads * lanes <= chunks; begin += kLoads * lanes) {
      gpu::uint4 loaded[kLoads];
      ECMV_GPU_UNROLL
      for (int l = 0; l < kLoads; ++l) loaded[l] = gpu::load_streaming(weights + (begin + l * lanes + lane));
      ECMV_GPU_UNROLL
      for (int l = 0; l < kLoads; ++l)
        sum = dot(loaded[l], gpu::load_shared_by_many(inputs + (begin + l * lanes + lane)), sum);
    }
    for (int chunk = begin + lane; chunk < chunks; chunk += lanes)
      sum = dot(gpu::load_streaming(weights + chunk), inputs[chunk], sum);
  } else {
    const gpu::Pointer<const float> weights = w + row * cols;
    for (int col = lane; col < cols; col += lanes) sum += weights[col] * static_cast<float>(x[col]);
  }
  const int32_t total = gpu::Wave::reduce_add(static_cast<int32_t>(sum));
  if (lane == 0) epilogue.store(row, total);
}

ECMV_GPU_KERNEL void to_int8(gpu::Pointer<const float> from, gpu::Pointer<int8_t> to, int64_t count) {
  const int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (i < count) to[i] = static_cast<int8_t>(from[i]);
}
ECMV_GPU_KERNEL void to_float(gpu::Pointer<const int8_t> from, gpu::Pointer<float> to, int64_t count) {
  const int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (i < count) to[i] = from[i];
}
ECMV_GPU_KERNEL void requantise_all(gpu::Pointer<const float> sums, int64_t rows, gpu::Epilogue epilogue) {
  const int64_t row = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (row < rows) epilogue.store(row, static_cast<int32_t>(sums[row]));
}

ECMV_GPU_KERNEL void to_halves(gpu::Pointer<const uint32_t> from, gpu::Pointer<uint16_t> to, int64_t count) {
  const int64_t i = gpu::block_index() * gpu::block_size() + gpu::thread_index();
  if (i < count) to[i] = static_cast<uint16_t>(from[i] >> 16);
}

using backends::Layers;

struct Convert {
  const float* elements;
  int64_t count;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    gpu::launch(to_int8, modelling::ECMV_GPU_NAMESPACE::a_thread_each(count), stream, elements,
                reinterpret_cast<int8_t*>(args.out), count);
  }
};

struct ConvertHalves {
  const float* elements;
  int64_t count;
  void operator()(void* stream, const backends::DecodeArgs& args) const {
    gpu::launch(to_halves, modelling::ECMV_GPU_NAMESPACE::a_thread_each(count), stream,
                reinterpret_cast<const uint32_t*>(elements), reinterpret_cast<uint16_t*>(args.out), count);
  }
};

backends::BoundKernel bind_convert(const backends::Policy&, Layers layers, int, backends::Place&) {
  if (layers[0].matrix->type != datasets::ElementType::i8)
    return ConvertHalves{elements_of(*layers[0].matrix), layers[0].matrix->shape.elements()};
  return Convert{elements_of(*layers[0].matrix), layers[0].matrix->shape.elements()};
}

using modelling::ECMV_GPU_NAMESPACE::WavePolicy;
constexpr WavePolicy kWavePolicies[] = {{{"waves4"}, 4}};  // 4, 8 and 16 waves are within 2 % of each other on an H200

struct WavePerRow {
  const float* elements;
  datasets::Shape shape;
  gpu::LaunchShape launch_shape;
  decltype(&wave_per_row<true>) kernel;
  void operator()(void* stream, const backends::MatvecArgs& args) const {
    gpu::launch(kernel, launch_shape, stream, elements, shape.rows, shape.cols, args.x, gpu::epilogue_of(args));
  }
};

backends::BoundKernel bind_wave_per_row(const backends::Policy& policy, Layers layers, int, backends::Place& place) {
  const datasets::Shape shape = layers[0].matrix->shape;
  const int waves = policy.as<WavePolicy>().waves;
  return {WavePerRow{elements_of(*layers[0].matrix),
                     shape,
                     {(shape.rows + waves - 1) / waves, waves * place.device().wave_size, 0},
                     shape.cols % 4 == 0 ? wave_per_row<true> : wave_per_row<false>},
          {.requantises = true}};
}

// The scratch holds the workspace, x as float32 and the sums.
struct Blas {
  const float* elements;
  datasets::Shape shape;
  static int64_t vector_bytes(int64_t length) {
    return (length * static_cast<int64_t>(sizeof(float)) + 255) / 256 * 256;
  }
  int64_t scratch_bytes() const {
    return gpu::kBlasWorkspaceBytes + vector_bytes(shape.cols) + vector_bytes(shape.rows);
  }

  void operator()(void* stream, const backends::MatvecArgs& args) const {
    float* x = reinterpret_cast<float*>(args.scratch + gpu::kBlasWorkspaceBytes);
    float* sums = reinterpret_cast<float*>(args.scratch + gpu::kBlasWorkspaceBytes + vector_bytes(shape.cols));
    gpu::launch(to_float, modelling::ECMV_GPU_NAMESPACE::a_thread_each(shape.cols), stream, args.x, x, shape.cols);
    gpu::blas_product(elements, shape, x, sums, {args.scratch, stream});
    gpu::launch(requantise_all, modelling::ECMV_GPU_NAMESPACE::a_thread_each(shape.rows), stream, sums, shape.rows,
                gpu::epilogue_of(args));
  }
};

backends::BoundKernel bind_blas(const backends::Policy&, Layers layers, int, backends::Place&) {
  const Blas blas{elements_of(*layers[0].matrix), layers[0].matrix->shape};
  return {blas, {.scratch_bytes = blas.scratch_bytes(), .requantises = true}};
}

// Rows and columns are counted in 32 bits.
std::string refuses(const backends::CompressedView& matrix, const backends::DeviceInfo&, const backends::Policy&) {
  const bool fits = matrix.shape.rows < (int64_t{1} << 31) && matrix.shape.cols < (int64_t{1} << 30);
  return fits ? "" : "The kernel counts rows and columns in 32 bits: at most 2^31 and 2^30 of them.";
}

std::string refuses_matvec(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                           const backends::Policy& policy) {
  const std::string reason = why_not_int8(matrix);
  return reason.empty() ? refuses(matrix, device, policy) : reason;
}

std::string blas_refuses(const backends::CompressedView& matrix, const backends::DeviceInfo& device,
                         const backends::Policy& policy) {
  if (matrix.shape.elements() == 0) return "The library multiplies no empty matrices.";
  const std::string reason = refuses_matvec(matrix, device, policy);
  return reason.empty() ? gpu::blas_missing() : reason;
}

constexpr backends::Policy kBlasPolicies[] = {{"gemv"}};

using backends::Op;
constexpr backends::Kernel kKernels[] = {
    {.op = Op::decode, .variant = "convert", .refuses = refuses, .bind = bind_convert},
    {.op = Op::matvec,
     .variant = "wave_per_row",
     .policies = kWavePolicies,
     .refuses = refuses_matvec,
     .bind = bind_wave_per_row},
    {.op = Op::matvec, .variant = "blas", .policies = kBlasPolicies, .refuses = blas_refuses, .bind = bind_blas},
};

}  // namespace

std::span<const backends::Kernel> gpu_kernels() { return kKernels; }

}  // namespace ecmv::codecs::raw_fp32::ECMV_GPU_NAMESPACE
