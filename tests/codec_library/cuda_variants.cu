// A codec with a kernel for CUDA that does one thing wrong, chosen by the environment as in variants.c: what only a
// device shows. Without ECMV_TEST_VARIANT, a correct codec that stores the bytes of an int8 matrix unchanged.
#include <ecmv_codec.h>

#include <cstdlib>
#include <cstring>

namespace {

bool is(const char* variant) {
  const char* chosen = std::getenv("ECMV_TEST_VARIANT");
  return chosen != nullptr && std::strcmp(chosen, variant) == 0;
}

// --- the codec ------------------------------------------------------------------------------------------------------

const char* refuses(const ecmv_matrix* matrix, const int64_t*) {
  return matrix->element_type == ECMV_I8 ? nullptr : "cuda_codec stores int8 elements only.";
}
const char* encode(const ecmv_matrix* matrix, const int64_t*, ecmv_output* output) {
  const int64_t bytes = matrix->rows * matrix->cols;
  uint8_t* elements = output->add_section(output, "elements", ECMV_PAYLOAD, bytes, 0);
  if (elements != nullptr && bytes > 0) std::memcpy(elements, matrix->elements, static_cast<size_t>(bytes));
  return nullptr;
}
const char* decode(const ecmv_compressed* matrix, void* out, int64_t out_bytes) {
  if (matrix->section_count != 1 || matrix->sections[0]->byte_count != out_bytes)
    return "A stream of cuda_codec has one section with all elements.";
  if (out_bytes > 0) std::memcpy(out, matrix->sections[0]->bytes, static_cast<size_t>(out_bytes));
  return nullptr;
}
const char* max_stored_bytes(int64_t rows, int64_t row_bytes, const int64_t*, int64_t* bytes) {
  *bytes = rows * row_bytes;
  return nullptr;
}

// --- the kernel -----------------------------------------------------------------------------------------------------

enum class Fault { none, illegal_access, endless, past_the_end };

__global__ void multiply(const int8_t* elements, int64_t rows, int64_t cols, const int8_t* x, int32_t* y, Fault fault) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (fault == Fault::illegal_access) *reinterpret_cast<volatile int32_t*>(int64_t{4} * (row + 1)) = 1;
  while (fault == Fault::endless && *reinterpret_cast<const volatile int8_t*>(elements) != 127) {
  }
  if (fault == Fault::past_the_end && row == 0) y[rows] = 1;
  if (row >= rows) return;
  int32_t sum = 0;
  for (int64_t col = 0; col < cols; ++col) sum += elements[row * cols + col] * x[col];
  y[row] = sum;
}

const char* bind(const ecmv_gpu_matrix* matrix, const ecmv_gpu_device*, uint32_t, int64_t, ecmv_gpu_binding* binding) {
  const void* elements = matrix->sections[0]->device_bytes;
  std::memcpy(binding->parameters, &elements, sizeof(elements));
  binding->not_capturable = is("not_capturable");
  return nullptr;
}

const char* matvec(const ecmv_gpu_call* call, const ecmv_matvec_args* args) {
  const int8_t* elements = nullptr;
  std::memcpy(&elements, call->parameters, sizeof(elements));
  if (call->rows == 0) return nullptr;
  const auto stream = static_cast<cudaStream_t>(call->stream);
  const int threads = is("failed_launch") || is("silently_failed_launch") ? 5000 : 128;
  const Fault fault = is("illegal_access") ? Fault::illegal_access
                      : is("endless")      ? Fault::endless
                      : is("past_the_end") ? Fault::past_the_end
                                           : Fault::none;
  multiply<<<static_cast<unsigned>((call->rows + threads - 1) / threads), threads, 0, stream>>>(
      elements, call->rows, call->cols, args->x, args->y, fault);
  const cudaError_t launched = cudaGetLastError();
  if (launched != cudaSuccess && !is("silently_failed_launch"))
    return "The kernel of cuda_codec could not be launched.";
  if ((is("waits") || is("not_capturable")) && cudaStreamSynchronize(stream) != cudaSuccess)
    return "The kernel of cuda_codec could not wait for the stream.";
  return nullptr;
}

}  // namespace

extern "C" ECMV_EXPORT const char* ecmv_codec_library_1(const ecmv_host*, const ecmv_codec_library** out) {
  static const ecmv_gpu_kernel kernel = [] {
    ecmv_gpu_kernel made{};
    made.struct_bytes = sizeof(made);
    made.backend = "cuda";
    made.variant = "thread_a_row";
    made.bind = bind;
    made.matvec = matvec;
    return made;
  }();
  static const ecmv_codec codec = [] {
    ecmv_codec made{};
    made.struct_bytes = sizeof(made);
    made.id = "cuda_codec";
    made.summary = "the elements";
    made.source = "tests/codec_library";
    made.format_version = 1;
    made.refuses = refuses;
    made.encode = encode;
    made.decode = decode;
    made.max_stored_bytes = max_stored_bytes;
    made.gpu_kernels = &kernel;
    made.gpu_kernel_count = 1;
    return made;
  }();
  static const ecmv_codec_library library = {sizeof(library), &codec, 1};
  *out = &library;
  return nullptr;
}
