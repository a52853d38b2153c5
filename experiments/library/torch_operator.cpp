// The kernels of PyTorch's operator ecmv::linear, for the package ecmv.torch. libtorch is in the program already; its
// stable C interface (torch/csrc/inductor/aoti_torch/c/shim.h) is looked up there, so no build needs PyTorch. A call
// costs a look-up of the product by the place of the coded bytes; experiments/python/ecmv/torch/README.md has times.
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "backends/plugins/installed_library.h"
#include "experiments/library/handles.h"

using namespace ecmv::library;

namespace {

// --- libtorch --------------------------------------------------------------------------------------------

using Tensor = void*;           // AtenTensorHandle
using StableIValue = uint64_t;  // a tensor, an integer, or a pointer to another one, which may be null
using BoxedKernel = void (*)(StableIValue*, uint64_t, uint64_t);

// Names are those of libtorch without "aoti_torch_". Functions that can fail return 0 if they did not.
struct Libtorch {
  int32_t (*library_init_impl)(const char*, const char*, const char*, uint32_t, void**) = nullptr;
  int32_t (*library_impl)(void*, const char*, BoxedKernel) = nullptr;
  int32_t (*delete_tensor_object)(Tensor) = nullptr;
  int32_t (*get_data_ptr)(Tensor, void**) = nullptr;
  int32_t (*get_dim)(Tensor, int64_t*) = nullptr;
  int32_t (*get_sizes)(Tensor, int64_t**) = nullptr;
  int32_t (*get_strides)(Tensor, int64_t**) = nullptr;
  int32_t (*get_dtype)(Tensor, int32_t*) = nullptr;
  int32_t (*get_device_type)(Tensor, int32_t*) = nullptr;
  int32_t (*get_device_index)(Tensor, int32_t*) = nullptr;
  int32_t (*empty_strided)(int64_t, const int64_t*, const int64_t*, int32_t, int32_t, int32_t, Tensor*) = nullptr;
  int32_t (*copy)(Tensor, Tensor, int32_t) = nullptr;
  int32_t (*dtype_bfloat16)() = nullptr;
  int32_t (*dtype_float32)() = nullptr;
  int32_t (*device_type_cpu)() = nullptr;
  int32_t (*device_type_cuda)() = nullptr;
  int32_t (*get_current_cuda_stream)(int32_t, void**) = nullptr;  // without GPUs null

  std::string open(const char* cpu, const char* gpu);
};

Libtorch torch;

std::string Libtorch::open(const char* cpu, const char* gpu) {
  ecmv::backends::InstalledLibrary host("PyTorch"), device("PyTorch");  // stay open, as PyTorch does
  if (!host.open_file(cpu)) return "The library " + std::string(cpu) + " cannot be opened.";
  const auto take = [](auto& from, auto& function, const char* name) {
    from.take(function, std::string("aoti_torch_") + name);
  };
  take(host, library_init_impl, "library_init_impl");
  take(host, library_impl, "library_impl");
  take(host, delete_tensor_object, "delete_tensor_object");
  take(host, get_data_ptr, "get_data_ptr");
  take(host, get_dim, "get_dim");
  take(host, get_sizes, "get_sizes");
  take(host, get_strides, "get_strides");
  take(host, get_dtype, "get_dtype");
  take(host, get_device_type, "get_device_type");
  take(host, get_device_index, "get_device_index");
  take(host, empty_strided, "empty_strided");
  take(host, copy, "copy_");
  take(host, dtype_bfloat16, "dtype_bfloat16");
  take(host, dtype_float32, "dtype_float32");
  take(host, device_type_cpu, "device_type_cpu");
  take(host, device_type_cuda, "device_type_cuda");
  if (gpu == nullptr) return host.missing;
  if (!device.open_file(gpu)) return "The library " + std::string(gpu) + " cannot be opened.";
  take(device, get_current_cuda_stream, "get_current_cuda_stream");
  return host.missing.empty() ? device.missing : host.missing;
}

void expect(int32_t error, const char* what) {
  if (error != 0) throw std::runtime_error(std::string("ecmv::linear: PyTorch failed at ") + what + ".");
}

struct OwnTensor {
  Tensor handle = nullptr;
  explicit OwnTensor(Tensor taken) : handle(taken) {}
  OwnTensor(const OwnTensor&) = delete;
  ~OwnTensor() {
    if (handle != nullptr) (void)torch.delete_tensor_object(handle);
  }
};

// --- bound products --------------------------------------------------------------------------------------

using Key = std::pair<const void*, const void*>;  // the places of coded bytes and bias
struct HashOfKey {
  size_t operator()(const Key& key) const {
    return reinterpret_cast<uintptr_t>(key.first) * 0x9E3779B97F4A7C15u + reinterpret_cast<uintptr_t>(key.second);
  }
};

std::shared_mutex bound_mutex;
std::unordered_map<Key, ecmv_torch_binding, HashOfKey>& bound() {
  static auto* const all = new std::unordered_map<Key, ecmv_torch_binding, HashOfKey>;
  return *all;
}

std::atomic<ecmv_torch_binder> binder = nullptr;

std::optional<ecmv_torch_binding> find_binding(const void* place, const void* bias) {
  const std::shared_lock lock(bound_mutex);
  const auto found = bound().find({place, bias});
  return found == bound().end() ? std::nullopt : std::optional(found->second);
}

ecmv_torch_binding binding_of(Tensor coded, Tensor bias) {
  void *place = nullptr, *bias_place = nullptr;
  expect(torch.get_data_ptr(coded, &place), "the place of the coded bytes");
  if (bias != nullptr) expect(torch.get_data_ptr(bias, &bias_place), "the place of the bias");
  if (const auto found = find_binding(place, bias_place)) return *found;
  char sentence[1024] = "this coded matrix, or its bias, is bound to no product.";
  if (const ecmv_torch_binder bind = binder) bind(place, bias_place, sentence, sizeof(sentence));
  if (const auto found = find_binding(place, bias_place)) return *found;
  throw std::runtime_error("ecmv::linear: " + std::string(sentence));
}

// --- calls -----------------------------------------------------------------------------------------------

// The number of tokens and the stride between them, if x is a list of such.
struct TokenShape {
  int64_t count = 1, stride = 0;
};
std::optional<TokenShape> tokens_of(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  const int64_t cols = sizes.back();
  TokenShape shape{.count = 1, .stride = std::max<int64_t>(cols, 1)};
  bool first = true;
  for (size_t i = sizes.size() - 1; i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (first) shape.stride = strides[i];
    if (!first && strides[i] != shape.stride * shape.count) return std::nullopt;
    first = false;
    shape.count *= sizes[i];
  }
  if (shape.count == 0) return shape;
  if (shape.stride < cols || (cols > 1 && strides.back() != 1)) return std::nullopt;
  return shape;
}

constexpr size_t kMostDimensions = 16;
using Dimensions = std::array<int64_t, kMostDimensions>;

Tensor new_tensor(std::span<const int64_t> leading, int64_t last, const ecmv_torch_binding& to) {
  Dimensions sizes{}, strides{};
  std::copy(leading.begin(), leading.end(), sizes.begin());
  sizes[leading.size()] = last;
  for (int64_t i = static_cast<int64_t>(leading.size()), stride = 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= std::max<int64_t>(1, sizes[static_cast<size_t>(i)]);
  }
  Tensor made = nullptr;
  expect(torch.empty_strided(static_cast<int64_t>(leading.size()) + 1, sizes.data(), strides.data(),
                             to.bf16 != 0 ? torch.dtype_bfloat16() : torch.dtype_float32(),
                             to.device < 0 ? torch.device_type_cpu() : torch.device_type_cuda(),
                             std::max<int32_t>(0, to.device), &made),
         "allocating the results");
  return made;
}

// Kernels of a CPU would read a GPU's memory, and the other way round.
void expect_same_device(Tensor x, const ecmv_torch_binding& to) {
  int32_t type = 0, index = 0;
  expect(torch.get_device_type(x, &type), "the device of x");
  expect(torch.get_device_index(x, &index), "the device of x");
  const bool on_cpu = type == torch.device_type_cpu();
  if (to.device < 0 ? on_cpu : type == torch.device_type_cuda() && index == to.device) return;
  const auto name = [](bool cpu, int32_t number) {
    return cpu ? std::string("a CPU") : "GPU " + std::to_string(number);
  };
  throw std::runtime_error("ecmv::linear: the coded weights are on " + name(to.device < 0, to.device) +
                           ", and x is on " + name(on_cpu, index) + ".");
}

Tensor multiply(Tensor x, const ecmv_torch_binding& to, int64_t rows) {
  int64_t dims = 0, *sizes = nullptr, *strides = nullptr;
  int32_t dtype = 0;
  expect(torch.get_dim(x, &dims), "the dimensions of x");
  expect(torch.get_sizes(x, &sizes), "the shape of x");
  expect(torch.get_strides(x, &strides), "the strides of x");
  expect(torch.get_dtype(x, &dtype), "the dtype of x");
  if (dims < 1 || dims > static_cast<int64_t>(kMostDimensions) || sizes[dims - 1] != to.cols || rows != to.rows)
    throw std::runtime_error("ecmv::linear: the matrix has " + std::to_string(to.rows) + " rows and " +
                             std::to_string(to.cols) + " columns, which do not fit the last dimension of x.");
  if (dtype != (to.bf16 != 0 ? torch.dtype_bfloat16() : torch.dtype_float32()))
    throw std::runtime_error(std::string("ecmv::linear: x is to have the dtype ") +
                             (to.bf16 != 0 ? "bfloat16." : "float32."));
  expect_same_device(x, to);
  const std::span<const int64_t> shape(sizes, static_cast<size_t>(dims)), leading = shape.first(shape.size() - 1);
  std::optional<TokenShape> tokens = tokens_of(shape, {strides, shape.size()});
  OwnTensor packed(nullptr);
  if (!tokens) {
    packed.handle = new_tensor(leading, to.cols, to);
    expect(torch.copy(packed.handle, x, 0), "copying x");
    x = packed.handle;
    expect(torch.get_strides(x, &strides), "the strides of x");
    tokens = tokens_of(shape, {strides, shape.size()});
  }
  OwnTensor y(new_tensor(leading, to.rows, to));
  if (tokens->count == 0) return std::exchange(y.handle, nullptr);
  void *from = nullptr, *into = nullptr, *stream = nullptr;
  expect(torch.get_data_ptr(x, &from), "the place of x");
  expect(torch.get_data_ptr(y.handle, &into), "the place of the results");
  if (to.device >= 0) expect(torch.get_current_cuda_stream(to.device, &stream), "the current stream");
  if (ecmv_enqueue_product(to.product, stream, from, tokens->stride, tokens->count, into, to.rows) != ECMV_OK)
    throw std::runtime_error(std::string("ecmv::linear: ") + ecmv_last_error());
  return std::exchange(y.handle, nullptr);
}

// linear(Tensor x, Tensor coded, Tensor? bias, int rows) -> Tensor. It owns its arguments.
void linear(StableIValue* stack, uint64_t, uint64_t) {
  const OwnTensor x(reinterpret_cast<Tensor>(stack[0])), coded(reinterpret_cast<Tensor>(stack[1]));
  const auto optional = reinterpret_cast<StableIValue*>(stack[2]);
  const OwnTensor bias(optional == nullptr ? nullptr : reinterpret_cast<Tensor>(*optional));
  delete optional;
  stack[0] = reinterpret_cast<StableIValue>(
      multiply(x.handle, binding_of(coded.handle, bias.handle), static_cast<int64_t>(stack[3])));
}

}  // namespace

extern "C" {

ecmv_status ecmv_torch_register(const char* libtorch_cpu, const char* libtorch_gpu, ecmv_torch_binder bind) {
  return guarded([&] {
    binder = bind;
    need(libtorch_cpu, "libtorch_cpu");
    static std::mutex mutex;
    static bool done = false;
    const std::scoped_lock lock(mutex);
    if (done) return;
    if (const std::string missing = torch.open(libtorch_cpu, libtorch_gpu); !missing.empty())
      throw Failure(ECMV_UNAVAILABLE, missing);
    for (const char* key : {"CPU", "CUDA"}) {
      if (key == std::string("CUDA") && libtorch_gpu == nullptr) continue;
      void* library = nullptr;  // registrations end with it, so it stays
      if (torch.library_init_impl("ecmv", key, "torch_operator.cpp", 0, &library) != 0 ||
          torch.library_impl(library, "linear", linear) != 0)
        throw Failure(ECMV_FAILED, "PyTorch does not take the kernels of ecmv::linear.");
    }
    done = true;
  });
}

ecmv_status ecmv_torch_bind(const void* coded, const ecmv_torch_binding* binding) {
  return guarded([&] {
    need(coded, "coded");
    const ecmv_torch_binding& given_binding = given(binding, "binding");
    expect_struct(given_binding.struct_bytes, sizeof(ecmv_torch_binding), "binding");
    const std::unique_lock lock(bound_mutex);
    bound()[{coded, given_binding.bias}] = given_binding;
  });
}

void ecmv_torch_unbind(const void* coded, const void* bias, const ecmv_product* product) {
  const std::unique_lock lock(bound_mutex);
  const auto found = bound().find({coded, bias});
  if (found != bound().end() && found->second.product == product) bound().erase(found);
}

}  // extern "C"
