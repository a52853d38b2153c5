// See blas.h. Both libraries are called through their C interfaces, whose signatures and numbers have been the same for
// years (cuBLAS since 11, rocBLAS since ROCm 4.5), so the build needs none of their headers.
#include "backends/gpu/host/blas.h"

#if defined(ECMV_GPU_EMULATOR)

namespace ecmv::backends::ECMV_GPU_NAMESPACE {

std::string blas_missing() { return "The emulator has no BLAS library: it runs this project's own kernels."; }
void blas_product(const int8_t*, datasets::Shape, const int8_t*, int, int32_t*, const BlasPlace&) {
  throw std::logic_error(blas_missing());
}
void blas_product(const uint16_t*, datasets::Shape, const uint16_t*, int64_t, int, float*, const BlasPlace&,
                  uint16_t*) {
  throw std::logic_error(blas_missing());
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

#else

#include <map>

#include "backends/plugins/installed_library.h"

namespace ecmv::backends::ECMV_GPU_NAMESPACE {
namespace {

using Handle = void*;

#if defined(__HIP_PLATFORM_AMD__)
constexpr const char* kName = "rocBLAS";
constexpr const char* kFiles[] = {"librocblas.so.5", "librocblas.so.4", "librocblas.so.3", "librocblas.so.0",
                                  "librocblas.so"};
constexpr const char *kCreate = "rocblas_create_handle", *kSetStream = "rocblas_set_stream",
                     *kSetWorkspace = "rocblas_set_workspace", *kGemm = "rocblas_gemm_ex";
constexpr int kPlain = 111, kTransposed = 112, kInt8 = 160, kInt32 = 162, kBf16 = 168, kFloat = 151,
              kComputeInt32 = kInt32, kComputeFloat = kFloat;
using Gemm = int (*)(Handle, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                     const void*, const void*, int, int, void*, int, int, int, int, int32_t, uint32_t);
#else
constexpr const char* kName = "cuBLAS";
constexpr const char* kFiles[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"};
constexpr const char *kCreate = "cublasCreate_v2", *kSetStream = "cublasSetStream_v2",
                     *kSetWorkspace = "cublasSetWorkspace_v2", *kGemm = "cublasGemmEx";
constexpr int kPlain = 0, kTransposed = 1, kInt8 = 3, kInt32 = 10, kBf16 = 14, kFloat = 0, kComputeInt32 = 72,
              kComputeFloat = 68, kAnyAlgorithm = -1;
using Gemm = int (*)(Handle, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
                     const void*, void*, int, int, int, int);
#endif

struct Library : InstalledLibrary {
  int (*create)(Handle*) = nullptr;
  int (*set_stream)(Handle, void*) = nullptr;
  int (*set_workspace)(Handle, void*, size_t) = nullptr;
  Gemm gemm = nullptr;

  Library() : InstalledLibrary(kName) {
    if (!open(kFiles)) return;
    take(create, kCreate);
    take(set_stream, kSetStream);
    take(set_workspace, kSetWorkspace);
    take(gemm, kGemm);
  }
};

const Library& library() {
  static const Library library;
  return library;
}

// The library's handle for the current device.
struct DeviceHandle {
  Handle handle = nullptr;
  std::string missing;
};

const DeviceHandle& current_handle() {
  static std::map<int, DeviceHandle> handles;
  int device = 0;
  check(ECMV_GPU_API(GetDevice)(&device), "asking for the device");
  const auto [place, fresh] = handles.try_emplace(device);
  DeviceHandle& entry = place->second;
  if (!fresh) return entry;
  entry.missing = library().missing;
  if (entry.missing.empty())
    if (const int status = library().create(&entry.handle); status != 0)
      entry.missing = std::string(kName) + " does not start on this device (status " + std::to_string(status) + ").";
  return entry;
}

// Calls product(handle) on the place's stream.
template <typename Product>
void run(const BlasPlace& place, const char* routine, Product product) {
  const DeviceHandle& device = current_handle();
  if (!device.missing.empty()) return fail_launch(device.missing);
  int status = library().set_stream(device.handle, place.stream);
  if (status == 0)
    status = library().set_workspace(device.handle, place.workspace, static_cast<size_t>(kBlasWorkspaceBytes));
  if (status == 0) status = product(device.handle);
  if (status != 0)
    fail_launch(std::string(kName) + " did not run " + routine + " (status " + std::to_string(status) + ").");
}

}  // namespace

std::string blas_missing() { return current_handle().missing; }

namespace {

// A product's types and its number 1, in the library's terms.
template <typename Sum>
struct Types {
  int factors, results, compute;
  Sum one = 1, zero = 0;
};

// A row-major [rows, cols] is a column-major [cols, rows], so W is the transposed operand. x has `columns` columns,
// x_stride apart.
template <typename Element, typename Sum>
void multiply(const char* what, const Types<Sum>& types, const Element* w, datasets::Shape shape, const Element* x,
              int64_t x_stride, int columns, void* y, const BlasPlace& place) {
  const int rows = static_cast<int>(shape.rows), cols = static_cast<int>(shape.cols),
            stride = static_cast<int>(x_stride);
  run(place, what, [&](Handle handle) {
#if defined(__HIP_PLATFORM_AMD__)
    return library().gemm(handle, kTransposed, kPlain, rows, columns, cols, &types.one, w, types.factors, cols, x,
                          types.factors, stride, &types.zero, y, types.results, rows, y, types.results, rows,
                          types.compute, 0, 0, 0);
#else
    return library().gemm(handle, kTransposed, kPlain, rows, columns, cols, &types.one, w, types.factors, cols, x,
                          types.factors, stride, &types.zero, y, types.results, rows, types.compute, kAnyAlgorithm);
#endif
  });
}

}  // namespace

void blas_product(const int8_t* w, datasets::Shape shape, const int8_t* x, int columns, int32_t* y,
                  const BlasPlace& place) {
  multiply("the product of int8", Types<int32_t>{kInt8, kInt32, kComputeInt32}, w, shape, x, shape.cols, columns, y,
           place);
}

void blas_product(const uint16_t* w, datasets::Shape shape, const uint16_t* x, int64_t x_stride, int batch, float* y,
                  const BlasPlace& place, uint16_t* y_bf16) {
  const bool rounds = y_bf16 != nullptr;
  multiply("the product of bf16", Types<float>{kBf16, rounds ? kBf16 : kFloat, kComputeFloat}, w, shape, x, x_stride,
           batch, rounds ? static_cast<void*>(y_bf16) : y, place);
}

}  // namespace ecmv::backends::ECMV_GPU_NAMESPACE

#endif
